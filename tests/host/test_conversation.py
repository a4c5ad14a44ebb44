"""Whole conversations with real hooks, many of them at once, and hooks that are killed."""

from __future__ import annotations

import json
import os
import signal

import anyio
import pytest
from scripted import HANG, HELLO, SERVE, scripted

from picohook import HookCrashedError, Host, RestartPolicy, Timeouts, ToolCall
from picohook.model.filters import Filter

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=600, approval=600, hello=600, chain=600)

# "Complete Flow Example" of PicoClaw's hook-json-protocol.md, with the mode `llm` added to its hello: who is asked at
# before_llm says so there.
COMPLETE_FLOW = r"""
{"jsonrpc":"2.0","id":1,"method":"hook.hello","params":{"name":"my_hook","version":1,"modes":["llm","tool","approve"]}}
{"jsonrpc":"2.0","id":1,"result":{"ok":true,"name":"my_hook"}}
{"jsonrpc":"2.0","id":2,"method":"hook.before_llm","params":{"model":"claude-sonnet","messages":[{"role":"user","content":"hello"}],"tools":[]}}
{"jsonrpc":"2.0","id":2,"result":{"action":"continue"}}
{"jsonrpc":"2.0","id":3,"method":"hook.before_tool","params":{"tool":"bash","arguments":{"command":"ls"}}}
{"jsonrpc":"2.0","id":3,"result":{"action":"continue"}}
{"jsonrpc":"2.0","id":4,"method":"hook.approve_tool","params":{"tool":"bash","arguments":{"command":"ls"}}}
{"jsonrpc":"2.0","id":4,"result":{"approved":true}}
{"jsonrpc":"2.0","id":5,"method":"hook.after_tool","params":{"tool":"bash","arguments":{"command":"ls"},"result":{"for_llm":"file1.txt\nfile2.txt"},"duration":5000000}}
{"jsonrpc":"2.0","id":5,"result":{"action":"continue"}}
{"jsonrpc":"2.0","id":6,"method":"hook.after_llm","params":{"model":"claude-sonnet","response":{"role":"assistant","content":"Files listed"}}}
{"jsonrpc":"2.0","id":6,"result":{"action":"continue"}}
"""  # noqa: E501 - as it stands there


def agrees(actual, expected):
    """Whether every key of the expected is in the actual, and equal."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            key in actual and agrees(actual[key], value) for key, value in expected.items()
        )
    return type(actual) is type(expected) and actual == expected


async def test_the_complete_flow_example_comes_out_of_a_real_hook(tmp_path):
    record = tmp_path / "record"
    stages = ("before_llm", "after_llm", "before_tool", "approve_tool", "after_tool")
    spec = scripted("my_hook", ["record", str(record)], SERVE, stages=stages)
    call = {"tool": "bash", "arguments": {"command": "ls"}}
    async with Host([spec], timeouts=FAR) as host:
        await host.before_llm(
            {"model": "claude-sonnet", "messages": [{"role": "user", "content": "hello"}], "tools": []}
        )
        await host.before_tool(call)
        assert (await host.approve_tool(call)).approved
        await host.after_tool({**call, "result": {"for_llm": "file1.txt\nfile2.txt"}, "duration": 5_000_000})
        await host.after_llm({"model": "claude-sonnet", "response": {"role": "assistant", "content": "Files listed"}})
    recorded = [json.loads(line) for line in record.read_text().splitlines()]
    expected = [json.loads(line) for line in COMPLETE_FLOW.strip().splitlines()]
    assert [line["way"] for line in recorded] == ["in", "out"] * 6
    for line, example in zip(recorded, expected, strict=True):
        assert agrees(line["line"], example), (line["line"], example)


async def test_the_flow_of_run_tool_and_run_llm_is_the_same_conversation(tmp_path):
    record = tmp_path / "record"
    stages = ("before_llm", "after_llm", "before_tool", "approve_tool", "after_tool")
    spec = scripted("my_hook", ["record", str(record)], SERVE, stages=stages)

    async def complete(request):
        await host.run_tool({"tool": "bash", "arguments": {"command": "ls"}}, lambda call: "file1.txt\nfile2.txt")
        return {"role": "assistant", "content": "Files listed"}

    async with Host([spec], timeouts=FAR) as host:
        await host.run_llm({"model": "claude-sonnet", "messages": [{"role": "user", "content": "hello"}]}, complete)
    recorded = [json.loads(line)["line"] for line in record.read_text().splitlines()]
    expected = [json.loads(line) for line in COMPLETE_FLOW.strip().splitlines()]
    del expected[8]["params"]["duration"]  # this one was measured
    for line, example in zip(recorded, expected, strict=True):
        assert agrees(line, example), (line, example)


@pytest.mark.parametrize(
    ("trip", "anyio_backend"),
    [("chain", ("trio", {})), ("one_by_one", ("asyncio", {"use_uvloop": False}))],
    ids=["chain", "one_by_one"],
)
async def test_ten_thousand_concurrent_calls_over_twenty_hooks_lose_and_mix_up_none(trip):
    """All at once: five hundred calls that all hooks are asked about; and ten thousand that one each is asked about."""
    hooks = [scripted(f"h{n:02}", filter=Filter(tool=f"tool{n}") if trip == "one_by_one" else None) for n in range(20)]
    seen: dict[int, str] = {}
    calls = 10_000 if trip == "one_by_one" else 500

    async def ask(nonce):
        outcome = await host.before_tool(ToolCall(tool=f"tool{nonce % 20}", arguments={"nonce": nonce, "by": []}))
        seen[nonce] = outcome.payload.arguments["echo"]
        asked = [entry.hook for entry in outcome.trail if not entry.skipped]
        assert all(entry.error is None for entry in outcome.trail)
        assert outcome.payload.arguments["by"] == asked
        assert len(asked) == 10_000 // calls

    async with Host(hooks, timeouts=FAR) as host, anyio.create_task_group() as tasks:
        for nonce in range(calls):
            tasks.start_soon(ask, nonce)
    assert seen == {nonce: nonce for nonce in range(calls)}
    assert sum(status.calls for status in host.status().hooks) == 10_000
    assert {(status.starts, status.dropped_lines, status.failures) for status in host.status().hooks} == {(1, 0, 0)}


async def test_killing_a_hook_during_fifty_calls_fails_each_at_once_with_a_typed_cause_and_the_next_call_works(board):
    """Their deadline is a minute away. The next process is held back, to see that the next call waits for it."""
    spec = scripted("h", board.call("h"), ["wait"], SERVE, stages=("before_tool", "approve_tool"))
    never = ToolCall(tool="x", arguments={"do": [["tell", "asked"], ["silent"]]})
    outcomes, approvals = [], []

    async def intercept(call):
        outcomes.append(await host.before_tool(call))

    async def approve(call):
        approvals.append(await host.approve_tool(call))

    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, spec)
        first = await board.line("h")
        first.go_on()
        for _ in range(50):
            tasks.start_soon(intercept, never)
            tasks.start_soon(approve, never)
        for _ in range(100):
            assert await first.said() == "asked"
        os.kill(first.pid, signal.SIGKILL)

        second = await board.line("h")
        assert second.pid != first.pid
        assert [outcome.trail[0].error for outcome in outcomes] == ["it was ended by SIGKILL"] * 50
        assert {outcome.action for outcome in outcomes} == {"continue"}
        assert [approval.approved for approval in approvals] == [False] * 50
        assert {approval.reason for approval in approvals} == {"hook h failed: it was ended by SIGKILL"}
        error = host._mounted.by_name["h"].hook.error
        assert isinstance(error, HookCrashedError)
        assert error.exit_code == -signal.SIGKILL

        tasks.start_soon(intercept, ToolCall(tool="x", arguments={"nonce": 1}))
        tasks.start_soon(approve, ToolCall(tool="x"))
        await anyio.wait_all_tasks_blocked()
        assert (len(outcomes), len(approvals)) == (50, 50)  # they wait
        second.go_on()
    assert outcomes[50].payload.arguments == {"echo": 1}
    assert approvals[50].approved


NEIGHBOURS = {
    "S5_never_answers_hello": ([["read"], HANG], "hook.hello was not answered in time"),
    "P7_never_reads_stdin": ([HELLO, ["tell", "up"], HANG], "no answer within"),
    "P8_floods_stderr": ([HELLO, ["tell", "up"], ["flood", 2, "blah\n"]], "no answer within"),
    "F9_prints_garbage": ([HELLO, ["tell", "up"], ["flood", 1, "\x1b[31m{{{\n"]], "it wrote more than 100 lines"),
    "P4_ignores_term": ([["ignore", "SIGTERM"], HELLO, ["tell", "up"], HANG], "no answer within"),
    "P1_dies_in_mid_line": (
        [HELLO, ["tell", "up"], ["read"], ["write", '{"jsonrpc":"2.0","i'], ["exit", 1]],
        "it exited with code 1",
    ),
}


@pytest.mark.parametrize("case", NEIGHBOURS)
async def test_a_bad_hook_does_not_affect_others_and_the_host_closes_step_by_step(case, board, journal):
    """Of the good hook's calls none fails. At the end the bad one is dead, and no wait but the ladder's was in between."""
    steps, error = NEIGHBOURS[case]
    limits = {"hello_timeout": 0.1 if case.startswith("S5") else 60, "timeout": 0.05, "grace": 0.1}
    once = RestartPolicy(max_starts=1)
    bad = scripted("bad", board.call("bad"), *steps, **limits, stages=("before_tool",), restart=once)
    slow = scripted("good", stages=("before_tool", "approve_tool"), priority=200)
    async with Host([bad, slow], timeouts=FAR, logger=journal) as host:
        line = None
        if ["tell", "up"] in steps:
            line = await board.line("bad")
            assert await line.said() == "up"
        for nonce in range(10):
            outcome = await host.before_tool(ToolCall(tool="x", arguments={"nonce": nonce}))
            assert outcome.payload.arguments == {"echo": nonce}
            assert outcome.trail[1].error is None
            assert outcome.trail[0].error is not None
        assert (await host.approve_tool(ToolCall(tool="x"))).approved
        with anyio.fail_after(30):
            while (status := host.status().hooks[0]).state != "failed":
                await host.before_tool(ToolCall(tool="x"))
        assert status.state == "failed"
        assert error in status.last_error or "it left 3 requests in a row" in status.last_error
        if line is not None:
            await line.dead()
        assert host._mounted.by_name["bad"].hook._child.exited.is_set()
        good = host.status().hooks[1]
        assert (good.starts, good.failures, good.dropped_lines) == (1, 0, 0)


@pytest.mark.parametrize("case", NEIGHBOURS)
async def test_a_host_with_a_bad_hook_that_is_closed_at_once_closes_down_its_ladder(case, board, journal):
    steps, _ = NEIGHBOURS[case]
    bad = scripted("bad", board.call("bad"), *steps, grace=0.1)
    host = Host([scripted("good", grace=60)], timeouts=FAR, logger=journal)
    async with host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, bad)
        line = await board.line("bad")
        supervisor = host._mounted.by_name["bad"].hook
        await host.aclose()
        assert host._mounted.by_name["bad"].ended.is_set()
        assert host._mounted.by_name["good"].ended.is_set()
        child = supervisor._child  # None if it was taken down while it was still being started
        assert child is None or child.exited.is_set()
        assert not line.alive
    assert not journal.all("survived SIGKILL: it is stuck in the kernel")
