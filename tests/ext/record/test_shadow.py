"""`mode = "shadow"`: a hook is asked beside the others, and changes nothing."""

from __future__ import annotations

import json
import os
import signal

import anyio
import loops
import pytest

from picohook import FunctionHook, HookSpec, Host, Recorder, ToolCall
from picohook.ext.record import shadow as shadow_module

pytestmark = pytest.mark.anyio
CALL = ToolCall(tool="bash", arguments={"command": "rm x"}, tool_call_id="1")

JUDGE = """
import os, sys, time
def decide(payload):
    WHAT
def approve(payload):
    return False
"""


@pytest.fixture
def judge(tmp_path):
    """Makes a function in shadow, which does this."""

    def make(what, name="judge", stages=("before_tool",), function="decide", **keys):
        (tmp_path / f"{name}.py").write_text(JUDGE.replace("WHAT", what))
        return HookSpec(
            name=name,
            python=f"{name}:{function}",
            dir=str(tmp_path),
            stages=stages,
            mode="shadow",
            **{"timeout": 60, **keys},
        )

    return make


DENIES = 'return {"action": "deny_tool", "reason": f"no {payload.arguments}, says process {os.getpid()}"}'


async def answered(entry):
    """Waits until a hook in shadow has answered."""
    with anyio.fail_after(60):
        while entry.would == "pending":
            await anyio.wait_all_tasks_blocked()
            await anyio.lowlevel.checkpoint()


@loops.ON_BOTH
async def test_what_it_would_have_done_is_in_the_trail_the_record_the_metrics_and_the_audit_log(judge, tmp_path):
    record, audit = tmp_path / "r.jsonl", tmp_path / "a.jsonl"
    async with Host([judge(DENIES)], listeners=[Recorder(record)], audit=audit) as host:
        outcome = await host.before_tool(CALL)
        assert (outcome.action, outcome.trail[0].action) == ("continue", "")
        await answered(outcome.trail[0])
        entry, stages = outcome.trail[0], host.status().wire()["hooks"][0]["stages"]

    assert (entry.would, entry.wire()["would"]) == ("deny_tool", "deny_tool")
    assert entry.reason.startswith("no {'command': 'rm x'}, says process")
    assert f"process {os.getpid()}" not in entry.reason
    assert stages["before_tool"]["would"] == {"deny_tool": 1}
    (line,) = [line for line in map(json.loads, record.read_text().splitlines()) if line["type"] == "would"]
    assert (line["hook"], line["action"], line["chain"]) == ("judge", "deny_tool", 1)
    (logged,) = [line for line in map(json.loads, audit.read_text().splitlines()) if line["method"] == "host.would"]
    assert (logged["call"], logged["hooks"][0]["would"]) == ("1", "deny_tool")


async def test_it_changes_no_payload_owns_no_tool_and_is_no_guard(judge):
    edits = judge(
        'return {"action": "modify", "patch": {"arguments": {"command": "edited"}}}', guard=True, provides=("bash",)
    )
    async with Host([edits]) as host:
        outcome = await host.before_tool(CALL)
        await answered(outcome.trail[0])

    assert (outcome.action, outcome.payload.arguments) == ("continue", {"command": "rm x"})
    assert outcome.trail[0].would == "modify"


async def test_at_approve_tool_it_is_neither_yes_nor_no(judge):
    refuses = judge("pass", stages=("approve_tool",), function="approve")
    for other, approved in ((None, True), (True, True), (False, False)):
        hooks = [] if other is None else [FunctionHook("other", {"approve_tool": lambda _, other=other: other})]
        async with Host([refuses.model_copy(), *hooks]) as host:
            outcome = await host.approve_tool(CALL)
            entry = next(entry for entry in outcome.trail if entry.hook == "judge")
            await answered(entry)
            assert (outcome.approved, entry.would) == (approved, "denied")


async def test_it_does_not_stand_in_for_a_hook_that_fails(judge):
    def fails(_):
        raise OSError

    failing = FunctionHook("failing", {"before_tool": fails}, on_failure="deny", fallback="judge", layer="user")
    async with Host([failing, judge("return None")]) as host:
        outcome = await host.before_tool(CALL)

    assert outcome.action == "deny_tool"


@pytest.mark.parametrize("does", ["os._exit(3)", "raise OSError", "sys.exit(2)", "return 7"])
async def test_however_it_fails_that_is_its_own_affair(judge, does):
    async with Host([judge(does, required=True, on_failure="deny")]) as host:
        outcome = await host.before_tool(CALL)
        await answered(outcome.trail[0])

    assert (outcome.action, outcome.trail[0].would) == ("continue", "failed")
    assert outcome.trail[0].error


@pytest.mark.parametrize(
    "does", ["time.sleep(999)", "while True: os.write(1, b'x' * 65536)", "while True: os.write(2, b'x\\n' * 999)"]
)
async def test_one_that_hangs_or_floods_is_not_waited_for_and_what_waits_is_bounded(judge, does):
    async with Host([judge(does)]) as host:
        outcomes = [await host.before_tool(CALL) for _ in range(1000)]
        would = host.status().wire()["hooks"][0]["stages"]["before_tool"]["would"]

    assert {outcome.action for outcome in outcomes} == {"continue"}
    assert would["dropped"] >= 1000 - shadow_module.MOST_OPEN - 500
    assert sum(outcome.trail[0].would == "dropped" for outcome in outcomes) == would["dropped"]


@loops.ON_BOTH
async def test_closing_the_host_ends_one_that_hangs_after_its_grace_and_holds_no_call(judge, tmp_path):
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    async with Host([judge(f"open({str(asked)!r}, 'w').close()\n    time.sleep(999)", grace=0.5)]) as host:
        first = await host.before_tool(CALL)
        await anyio.to_thread.run_sync(asked.read_bytes)
        process = host._mounted.by_name["judge"].hook._inner._child
        second = await host.before_tool(CALL)
        assert [(one.action, one.trail[0].would) for one in (first, second)] == [("continue", "pending")] * 2

    assert process.exit_code == -signal.SIGTERM


async def test_closing_the_host_kills_one_that_ignores_the_wish_to_end(judge, tmp_path):
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    ignores = f"open({str(asked)!r}, 'w').close()\n    os.kill(os.getpid(), 19)"
    async with Host([judge(ignores, grace=0.05)]) as host:
        await host.before_tool(CALL)
        await anyio.to_thread.run_sync(asked.read_bytes)
        process = host._mounted.by_name["judge"].hook._inner._child

    assert process.exit_code == -signal.SIGKILL


async def test_a_filter_holds_in_shadow_too(judge):
    async with Host([judge(DENIES, filter={"tool": "other"})]) as host:
        outcome = await host.before_tool(CALL)

    assert outcome.trail[0].skipped


@pytest.mark.parametrize(
    ("command", "would"),
    [
        ("git push --force origin main", "deny_tool"),
        ("git reset --hard && git clean -fdx", "pause"),
        ("ls", "continue"),
    ],
)
async def test_a_pack_of_guards_in_shadow_decides_nothing_and_tells_what_it_would_do(tmp_path, command, would):
    pytest.importorskip("tree_sitter_bash")
    config = tmp_path / "picohook.toml"
    config.write_text('[defaults]\ninterceptor_timeout = 60\n[guards]\npacks = ["shell"]\nshadow = ["git"]\n')
    async with Host.from_config(config) as host:
        outcome = await host.before_tool(ToolCall(tool="bash", arguments={"command": command}))
        decides, beside = outcome.trail
        await answered(beside)

    assert (outcome.action, decides.hook, decides.action) == ("continue", "guards", "continue")
    assert (beside.hook, beside.would) == ("guards-shadow", would), beside


def test_a_replay_lists_what_it_would_have_done_and_asks_no_hook(project):
    (project.path / "judge.py").write_text('def decide(call):\n    return {"action": "deny_tool", "reason": "no rm"}')
    project.config.write_text('[hooks.judge]\npython = "judge:decide"\nstages = ["before_tool"]\nmode = "shadow"\n')
    with Host.blocking(project.config, listeners=[Recorder(project.path / "r.jsonl")]) as host:
        outcome = host.before_tool(CALL)
        while outcome.trail[0].would == "pending":
            host.status()
        host.after_tool({"tool": "bash", "arguments": CALL.arguments, "tool_call_id": "1", "result": {"for_llm": "x"}})
    (project.path / "judge.py").unlink()

    people = project("replay", "r.jsonl", "--shadow", "--max-false", "0")
    programs = project("replay", "r.jsonl", "--shadow", "--json")
    traced = project("trace", "r.jsonl")
    asked_again = project("replay", "r.jsonl", "--against", "picohook.toml")

    assert (people.code, programs.code) == (3, 0)
    assert people.out.splitlines()[0].endswith('#1   newly denied  before_tool  bash {"command": "rm x"}')
    assert "now  judge      would deny_tool" in people.out
    (one, _) = programs.lines
    assert (one["kind"], one["false_rejection"], one["hooks"][0]["hook"]) == ("newly denied", True, "judge")
    assert "would deny_tool" in traced.out
    assert (asked_again.code, asked_again.out) == (0, "2 decisions, 0 changed, 1 succeeded\n")
