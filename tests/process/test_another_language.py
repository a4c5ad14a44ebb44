"""The same faults by a hook that is not written in Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from picohook import HookSpec, Host, RestartPolicy, Timeouts, ToolCall

PERL = shutil.which("perl")
BADHOOK = str(Path(__file__).parents[1] / "helpers" / "badhook.pl")

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(PERL is None, reason="there is no perl")]

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)
CALL = ToolCall(tool="x")
WHERE = 1


def perl(board, fault, **settings):
    where = board.call("perl")[WHERE]
    settings = {"restart": RestartPolicy(max_starts=1), "grace": 0.1, **settings}
    return HookSpec(
        name="h", command=(PERL, BADHOOK, str(where), fault), stages=("before_tool", "approve_tool"), **settings
    )


ENDS = {
    "P1_mid_line": ("mid_line", "it exited with code 7"),
    "P1_segfault": ("segfault", "it was ended by SIGSEGV"),
    "P5_no_stdout": ("no_stdout", "it closed its output, and was killed: keep standard output open, for the answers"),
    "F1_endless": ("endless", "it wrote a line longer than 100000 bytes (max_line_bytes), and was killed"),
    "R10_flood": ("flood", "in 10 s it wrote more than 100 lines that are not answers, and was killed"),
}


@pytest.mark.parametrize("case", ENDS)
async def test_a_fault_that_ends_it_fails_its_call_at_once_with_the_cause_and_denies_approval(case, board):
    fault, error = ENDS[case]
    async with Host([perl(board, fault, max_line_bytes=100_000)], timeouts=FAR) as host:
        line = await board.line("perl")
        outcome = await host.before_tool(CALL)
        assert (outcome.action, outcome.trail[0].error) == ("continue", error)
        await line.dead()
        assert not (await host.approve_tool(CALL)).approved


@pytest.mark.parametrize("case", {"P2_hang": "hang", "P3_stopped": "stopped"}.items(), ids=lambda case: case[0])
async def test_a_hook_that_never_answers_is_killed_after_three_timeouts(case, board):
    async with Host([perl(board, case[1], timeout=0.2)], timeouts=FAR) as host:
        line = await board.line("perl")
        for _ in range(3):
            assert (await host.before_tool(CALL)).trail[0].error == "no answer within 0.2 s (timeout)"
        await line.dead()


async def test_P4_one_that_ignores_the_end_of_its_stdin_and_term_is_killed_after_its_grace(board):
    async with Host([perl(board, "deaf", timeout=0.2)], timeouts=FAR) as host:
        line = await board.line("perl")
        assert (await host.before_tool(CALL)).trail[0].error is not None
        assert await line.said() == "deaf"
    assert not line.alive


SURVIVED = {
    "F9_garbage": ("garbage", "from perl", 3),
    "R2_two": ("two", "first", 1),
    "P8_stderr": ("stderr", "from perl", 0),
}


@pytest.mark.parametrize("case", SURVIVED)
async def test_lines_that_are_dropped_do_not_affect_its_answer(case, board):
    fault, reason, dropped = SURVIVED[case]
    async with Host([perl(board, fault)], timeouts=FAR) as host:
        assert (await host.before_tool(CALL)).reason == reason
        assert (await host.before_tool(CALL)).reason == "from perl"
        (status,) = host.status().hooks
        assert (status.state, status.starts, status.dropped_lines) == ("ready", 1, dropped)
