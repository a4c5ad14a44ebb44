"""`picohook.sdk.testing`: a hook's own tests, in memory and as a process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

import picohook
from picohook import HookSpec, Host
from picohook.model.stages import STAGES as HOST_STAGES
from picohook.sdk import HookApp, testing
from picohook.sdk.answers import STAGES

SOURCE = Path(picohook.__file__).parents[1]

GATE = """
import asyncio, sys
from picohook.sdk import HookApp

app = HookApp("gate")

@app.before_tool(tool="bash")
def guard(call):
    if "rm -rf" in call.arguments["command"]:
        return call.deny("too dangerous")

@app.before_tool(tool="edit")
def limit(call):
    call.arguments["limit"] = 10
    del call.arguments["gone"]
    return call.modify(tool="edit2")

@app.before_tool(tool="raise")
def fail(call):
    raise LookupError("secret")

@app.before_tool(tool="wait")
async def wait(call):
    print("waits", file=sys.stderr)
    await asyncio.Event().wait()

@app.approve_tool
def approve(call):
    return call.tool == "read" or call.deny("only reading")

@app.after_tool
def redact(call):
    return call.modify(for_llm=call.result.for_llm.replace("hunter2", "***"))

@app.tool(description="The weather")
def get_weather(city: str) -> str:
    return f"sunny in {city}"

@app.before_prompt
def shout(call):
    return call.modify(prompt=call.prompt.upper())

@app.before_compact
def keep(call):
    return call.modify(messages=call.messages[1:])

@app.on_event("tool_exec_end")
def seen(event):
    app.log("seen", tool=event.payload["Tool"])
"""


def gate():
    names = {}
    exec(GATE, names)
    return names["app"]


@pytest.fixture
def script(tmp_path):
    """A file that runs this source as a hook, and the command that starts it without what is installed."""

    def write(source):
        file = tmp_path / "hook.py"
        file.write_text(f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{textwrap.dedent(source)}")
        return [sys.executable, "-I", "-S", str(file)]

    return write


@pytest.fixture(params=["in memory", "as a process"])
def hook(request, script):
    start = testing.client(gate()) if request.param == "in memory" else testing.process(script(GATE + "\napp.run()"))
    with start as hook:
        yield hook


def test_an_answer_says_what_was_decided(hook):
    denied = hook.before_tool({"tool": "bash", "arguments": {"command": "rm -rf /"}})
    assert (denied.action, denied.denied, denied.reason) == ("deny_tool", True, "too dangerous")
    assert denied == {"action": "deny_tool", "reason": "too dangerous"}
    left = hook.before_tool({"tool": "bash", "arguments": {"command": "ls"}})
    assert (left.action, left.denied, left.reason) == ("continue", False, "")
    yes, no = hook.approve_tool({"tool": "read"}), hook.approve_tool({"tool": "write"})
    assert (yes.approved, yes.denied) == (True, False)
    assert (no.approved, no.denied, no.reason) == (False, True, "only reading")


def test_a_tool_of_the_hook_is_offered_and_answered(hook):
    offered = hook.before_llm({"model": "m", "tools": [{"name": "other"}]}).payload["tools"]
    assert [tool.get("function", tool)["name"] for tool in offered] == ["other", "get_weather"]
    answer = hook.before_tool({"tool": "get_weather", "arguments": {"city": "Rome"}})
    assert (answer.action, answer["result"]["for_llm"]) == ("respond", "sunny in Rome")


def test_an_error_is_raised_and_the_hook_answers_the_next_request(hook):
    with pytest.raises(testing.AnswerError, match=r"^LookupError: secret ") as caught:
        hook.before_tool({"tool": "raise"})
    assert caught.value.code == -32000
    assert re.fullmatch(r"LookupError: secret \([^/]+:\d+\)", caught.value.message)
    with pytest.raises(testing.AnswerError, match="-32601"):
        hook.after_llm({"model": "m", "response": {}})
    assert hook.approve_tool({"tool": "read"}).approved


def test_it_is_greeted_and_its_notifications_are_kept(hook):
    assert hook.greeting["name"] == "gate"
    hook.event("tool_exec_start", {"Tool": "no"})
    hook.event("tool_exec_end", {"Tool": "bash"})
    hook.approve_tool({"tool": "read"})
    assert [told["params"]["fields"] for told in hook.told] == [{"tool": "bash"}]


def test_several_requests_run_at_once_and_one_is_cancelled(hook):
    waiting = hook.ask("before_tool", {"tool": "wait"})
    other = hook.ask("approve_tool", {"tool": "read"})
    assert hook.answer(other).approved
    hook.cancel(waiting)
    assert hook.approve_tool({"tool": "read"}).approved
    hook.close()
    with pytest.raises(testing.BrokenHookError, match="the hook ended"):
        hook.answer(waiting)


def test_messages_larger_than_a_pipe_go_both_ways_at_once(hook):
    large = "x" * 300_000
    asked = [hook.ask("after_tool", {"tool": "t", "result": {"for_llm": f"{large}hunter2{n}"}}) for n in range(4)]
    assert [hook.answer(one).payload["result"]["for_llm"] for one in asked] == [f"{large}***{n}" for n in range(4)]


PAYLOADS = [
    (
        "before_tool",
        {"tool": "edit", "arguments": {"gone": 1, "deep": {"kept": None, "n": 2**70}}, "tool_call_id": "c"},
    ),
    ("before_tool", {"tool": "bash", "arguments": {"command": "ls"}}),
    ("after_tool", {"tool": "t", "result": {"for_llm": "hunter2", "media": [1]}}),
    ("before_llm", {"model": "m", "tools": [{"name": "other"}], "options": {"n": 2**70}}),
    ("before_prompt", {"prompt": "hi", "messages": [{"role": "user"}]}),
    ("before_compact", {"scope": "auto", "messages": [{"role": "user"}, {"role": "assistant"}]}),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("stage", "payload"), PAYLOADS)
async def test_the_payload_is_the_one_that_a_host_uses(stage, payload, script):
    command = script(GATE + "\napp.run()")
    async with Host([HookSpec(name="gate", command=command, stages=(stage,))]) as host:
        outcome = await getattr(host, stage)(payload)
    assert outcome.trail[0].error is None

    def ask():
        with testing.process(command) as hook:
            return getattr(hook, stage)(HOST_STAGES[stage].payload.model_validate(payload).wire())

    assert (await anyio.to_thread.run_sync(ask)).payload == outcome.payload.wire()


def edited(stage, given, **payload):
    return testing.Answer(stage, payload, given).payload


def test_the_payload_takes_edits_in_every_form_that_hooks_send():
    call = {"tool": "t", "arguments": {"a": 1}, "meta": {"n": 1}}
    assert edited("before_tool", {"call": {"arguments": {"b": 2}, "tool": None, "meta": {}}}, **call) == {
        **call,
        "arguments": {"b": 2},
    }
    whole = {"result": {**call, "result": {"for_llm": "b"}}}
    flat = {"result": {"for_llm": "b"}}
    for given in (whole, flat, {"patch": {"for_llm": "b"}}, {"patch": {"result": {"for_llm": "b"}}}):
        after = edited("after_tool", given, **call, result={"for_llm": "a", "silent": True})
        assert after == {**call, "result": {"for_llm": "b", "silent": True}}
    assert edited("before_finish", {"messages": [1], "prompt": "no"}, prompt="p", messages=[]) == {
        "prompt": "p",
        "messages": [1],
    }


def test_it_has_every_stage_of_a_host():
    assert STAGES.keys() == HOST_STAGES.keys()
    client = testing.Client(timeout=1)
    assert all(callable(getattr(client, stage)) for stage in HOST_STAGES)
    assert not hasattr(client, "before_tol")


# Hooks that are not well.


@contextmanager
def broken(message):
    with pytest.raises(testing.BrokenHookError, match=message):
        yield


HELLO = """
import sys, json
def say(text): print(text, flush=True)
def reply(result): say(json.dumps({"jsonrpc": "2.0", "id": json.loads(sys.stdin.readline())["id"], "result": result}))
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("sys.exit('no licence')", "^the hook ended; its stderr ends with: no licence$"),
        ("reply({'ok': False, 'reason': 'not today'})", "^the hook refused to serve: not today$"),
        ("say('Listening')", "^the hook wrote a line that is not a message: b'Listening'$"),
        ("reply({}); sys.stdin.readline(); sys.exit('crash')", "^the hook ended; its stderr ends with: crash$"),
        ("reply({}); sys.stdin.readline(); say('[]')", "^the hook wrote a line that is not a message"),
        ("reply({}); reply('yes')", '^the hook.s answer has no result and no error: .*"result": "yes"'),
        (
            """reply({}); sys.stdin.readline(); say('{"id": 2, "error": "no"}')""",
            '^the hook.s answer has no result and no error: .*"error": "no"',
        ),
    ],
)
def test_a_broken_hook_is_an_error_that_says_why(script, source, message):
    with broken(message), testing.process(script(HELLO + source)) as hook:
        hook.before_tool({"tool": "bash"})


def test_a_hook_that_hangs_is_an_error_and_is_killed(script):
    hook = testing.process(script(HELLO + "reply({})\nwhile True: sys.stdin.readline()"))
    with broken(r"^no answer within 0\.2 s$"), hook:
        hook.timeout = 0.2
        hook.before_tool({"tool": "bash"})
    assert hook.exit_code == -9


def test_a_hook_that_does_not_end_with_its_input_is_an_error_and_is_killed(script):
    hook = testing.process(script(HELLO + "reply({})\nimport signal\nwhile True: signal.pause()"))
    with broken(r"^the hook did not end within 0\.2 s$"), hook:
        hook.timeout = 0.2
    assert hook.exit_code == -9


def test_the_stderr_and_the_exit_code_of_a_process_are_kept(script):
    with testing.process(script(HELLO + "reply({})\nsys.stdin.read()\nsys.exit('bye')")) as hook:
        assert hook.stderr == ""
    assert (hook.exit_code, hook.stderr) == (1, "bye\n")


def test_a_missing_command_is_an_os_error():
    with pytest.raises(FileNotFoundError), testing.process(["/nowhere/hook"]):
        pass


def test_where_and_with_what_environment_a_process_runs(script, tmp_path):
    command = script(
        HELLO + "import os\nreply({'name': os.getcwd(), 'variable': os.environ.get('V')})\nsys.stdin.read()"
    )
    with testing.process(command, cwd=str(tmp_path), env={"V": "1"}) as hook:
        assert (hook.greeting["name"], hook.greeting["variable"]) == (str(tmp_path), "1")


def test_a_test_that_fails_shows_its_own_error_and_leaves_nothing_running(script):
    before = threading.active_count()
    hook = testing.process(script(GATE + "\napp.run()"))
    with pytest.raises(ZeroDivisionError), hook:
        raise ZeroDivisionError
    assert hook.exit_code is not None
    with pytest.raises(ZeroDivisionError), testing.client(gate()) as client:
        raise ZeroDivisionError
    with testing.client(HookApp("other")) as client:
        client.close()
        client.close()
    for thread in threading.enumerate():
        if thread.name in {"gate", "other"}:
            thread.join(30)
    assert threading.active_count() == before


def test_an_unknown_stage_is_named():
    with testing.client(HookApp("x")) as hook, pytest.raises(ValueError, match="unknown stage 'before_dinner'"):
        hook.ask("before_dinner", {})


def test_it_needs_only_the_standard_library(script):
    source = GATE + textwrap.dedent("""
        from picohook.sdk import testing
        with testing.client(app) as hook:
            assert hook.before_tool({"tool": "bash", "arguments": {"command": "rm -rf /"}}).denied
        with testing.process([sys.executable, "-I", "-S", *sys.argv[1:]]) as hook:
            assert hook.before_tool({"tool": "bash", "arguments": {"command": "rm -rf /"}}).denied
        print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names)))
    """)
    command = script("import json\n" + source)
    hook = Path(command[-1]).with_name("gate.py")
    hook.write_text(f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{GATE}\napp.run()\n")
    done = subprocess.run([*command, str(hook)], capture_output=True, check=False, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["__main__", "picohook"]
