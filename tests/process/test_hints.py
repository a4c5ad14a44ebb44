"""What authors of hooks get wrong most often is said in the cause: shells stand in for hooks, since they start at once."""

from __future__ import annotations

import pytest

from picohook import HookSpec, Host, RestartPolicy, Timeouts, ToolCall
from picohook.transport import silence

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
ONCE = RestartPolicy(max_starts=1)
HELLO = '{"jsonrpc":"2.0","id":1,"result":{}}'
GREETS = f"read line; echo '{HELLO}'; read line; "


def shell(script, **settings):
    defaults = {
        "name": "h",
        "hello_timeout": 0.2,
        "timeout": 0.2,
        "grace": 0.1,
        "stages": ("before_tool",),
        "restart": ONCE,
    }
    return HookSpec(command=("/bin/sh", "-c", script), **{**defaults, **settings})


async def causes(specs, journal):
    """Why each of the hooks failed for good."""
    async with Host(specs, timeouts=FAR, logger=journal) as host:
        await journal.seen("failed: it is not started again until it is reset", times=len(specs))
        return [hook.last_error for hook in host.status().hooks]


async def cause(spec, journal):
    (why,) = await causes([spec], journal)
    return why


async def test_a_hook_that_ends_without_output_is_told_to_read_in_a_loop(journal):
    said = await cause(shell("exit 0", hello_timeout=60), journal)
    assert said == (
        "it exited with code 0 before it answered hook.hello:"
        " does it call app.run(), or read its input in a loop, and stay in the foreground?"
    )


WRITES = {
    "pretty": ('printf \'{\\n  "jsonrpc": "2.0"\\n}\\n\'; exec sleep 1000', "it prints JSON over several lines"),
    "text": (
        "echo good morning; exec sleep 1000",
        "it prints text to standard output, which is for the protocol alone",
    ),
    "string id": (
        """echo '{"jsonrpc":"2.0","id":"1","result":{}}'; exec sleep 1000""",
        "it sends the id back as a string",
    ),
    "python dict": ("""echo "{'jsonrpc': '2.0', 'id': 1, 'result': {}}"; exec sleep 1000""", "it prints a Python dict"),
    "bare result": ("""echo '{"action":"continue"}'; exec sleep 1000""", "its answer lacks the envelope: send {"),
}


async def test_lines_that_are_not_answers_show_the_probable_mistake(journal):
    hooks = [shell(f"read line; {script}", name=name, hello_timeout=2) for name, (script, _) in WRITES.items()]
    for said, (name, (_, hint)) in zip(await causes(hooks, journal), WRITES.items(), strict=True):
        assert said.startswith(f"hook.hello was not answered in time; it wrote other things: {hint}"), name
        assert "flush" not in said


async def test_a_question_answered_with_such_a_line_shows_the_hint_too():
    answer = """echo '{"jsonrpc":"2.0","id":"2","result":{}}'; exec sleep 1000"""
    async with Host([shell(GREETS + answer, hello_timeout=60, timeout=2)], timeouts=FAR) as host:
        (entry,) = (await host.before_tool(ToolCall(tool="bash"))).trail
    assert entry.error.startswith("no answer within 2 s (timeout): it sends the id back as a string")


async def test_a_mistake_on_many_lines_is_reported_once(journal):
    lines = "".join(f"echo line {number};" for number in range(5))
    async with Host(
        [shell(f"{lines} {GREETS} exec sleep 1000", hello_timeout=60)], timeouts=FAR, logger=journal
    ) as host:
        assert host.status().hooks[0].dropped_lines == 5
    warned = [record for record in journal.all("dropped a line") if "hint" in record]
    assert [record["line"] for record in warned] == ["line 0"]


ENDINGS = {
    "one shot": ("""cat > /dev/null; echo '{"action":"continue"}'""", "it printed its result when its input ended: "),
    "reads all": (
        f"cat > /dev/null; echo '{HELLO}'",
        "it answered when its input ended: flush standard output after each",
    ),
    "no flush": (f"exec sed 's/.*/{HELLO}/'", "it answered when its input ended: flush standard output after each"),
    "no greeting": ("while read line; do :; done", "it wrote nothing, and ended with its input: answer hook.hello"),
}


async def test_a_hook_that_does_not_answer_hello_is_told_why_and_gets_one_hello(journal, monkeypatch, tmp_path):
    monkeypatch.setattr(silence, "LISTEN_AT_END", 60.0)
    hooks = [shell(script, name=name) for name, (script, _) in ENDINGS.items()]
    hooks.append(shell(f"cat > '{tmp_path}/input'; :", name="reads"))
    *said, _ = await causes(hooks, journal)
    for why, (name, (_, advice)) in zip(said, ENDINGS.items(), strict=True):
        assert why.startswith(f"hook.hello was not answered in time; {advice}"), name
    assert (tmp_path / "input").read_text().count("hook.hello") == 1


async def test_a_hook_that_answers_after_its_time_is_told_so(journal, monkeypatch):
    monkeypatch.setattr(silence, "LISTEN", 60.0)
    said = await cause(shell(f"read hello; sleep 1; echo '{HELLO}'; exec cat > /dev/null"), journal)
    assert said.endswith("set a longer hello_timeout if it starts slowly or the machine is busy")
