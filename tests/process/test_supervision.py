"""Starting again: when, how often, and what becomes of those who wait meanwhile."""

from __future__ import annotations

import threading

import anyio
import pytest
from scripted import HANG, HELLO, SERVE, children, descriptors, held, scripted, settled

from picohook import HookCrashedError, Host, RestartPolicy, Timeouts, ToolCall
from picohook.hooks import process as supervisor
from picohook.process import restart

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)
BOTH = ("before_tool", "approve_tool")
OFTEN = RestartPolicy(max_starts=1000)
GIVEN_UP = "failed: it is not started again until it is reset"


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


def only(host: Host):
    (status,) = host.status().hooks
    return status


async def crash(host: Host):
    (entry,) = (await host.before_tool(asking(["exit", 1]))).trail
    assert entry.error is not None
    assert "it exited with code 1" in entry.error


async def test_a_process_that_ended_is_started_again_and_the_next_call_waits_for_it(board):
    async with Host([scripted("h", board.call("h"), SERVE)], timeouts=FAR) as host:
        first = await board.line("h")
        await crash(host)
        assert (await host.before_tool(asking(nonce=1))).payload.arguments == {"echo": 1}
        await first.dead()
        second = await board.line("h")
        assert second.alive
        assert second.pid == only(host).pid
        assert only(host).starts == 2


async def test_S10_past_the_start_limit_it_is_failed_visibly_and_approvals_are_denied_at_once(journal, board):
    spec = scripted("h", board.call("h"), SERVE, stages=BOTH, restart=RestartPolicy(max_starts=3))
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        for _ in range(3):
            await board.line("h")
            await crash(host)
        await journal.seen(GIVEN_UP)
        assert only(host).state == "failed"
        assert only(host).starts == 3
        approval = await host.approve_tool(asking())
        assert not approval.approved
        assert "hook h failed: it was given up: it exited with code 1" in approval.reason
        assert board.nobody_called()


async def test_S10_failed_is_latched_when_the_window_has_passed(journal, board):
    spec = scripted("h", board.call("h"), SERVE, restart=RestartPolicy(max_starts=1))
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        await board.line("h")
        await crash(host)
        await journal.seen(GIVEN_UP)
        supervised = host._mounted.by_name["h"].hook
        supervised._budget._starts.clear()  # the starts are long past
        supervised._wake.set()  # somebody wakes it for no reason
        await anyio.wait_all_tasks_blocked()
        assert only(host).state == "failed"
        assert only(host).starts == 1
        assert board.nobody_called()


async def test_S10_reset_brings_it_back_with_a_fresh_budget(journal):
    async with Host([scripted("h", restart=RestartPolicy(max_starts=2))], timeouts=FAR, logger=journal) as host:
        for times in (1, 2):
            await crash(host)
            await crash(host)
            await journal.seen(GIVEN_UP, times=times)
            host.reset("h")
            assert (await host.before_tool(asking())).trail[0].error is None  # it waits from the reset on


async def test_reset_of_a_hook_that_serves_changes_nothing(board):
    async with Host([scripted("h", board.call("h"), SERVE)], timeouts=FAR) as host:
        line = await board.line("h")
        host.reset("h")
        assert (await host.before_tool(asking())).trail[0].error is None
        assert line.alive
        assert only(host).starts == 1


@pytest.mark.parametrize("when", ["in_hello", "serving"])
async def test_starts_back_off_further_each_time_even_for_a_crash_in_hello(when, journal, monkeypatch):
    delays = []
    sleep = supervisor.ProcessHook._sleep

    async def recorded(self, delay=None):
        if delay is not None:
            delays.append(delay)
            before = self._now()
            await sleep(self, delay)
            assert self._now() - before >= delay  # nothing cut it short
        else:
            await sleep(self, delay)

    monkeypatch.setattr(supervisor.ProcessHook, "_sleep", recorded)
    monkeypatch.setattr(restart, "BACKOFF_FIRST", 0.02)
    steps = [["read"], ["exit", 1]] if when == "in_hello" else [HELLO, ["exit", 1]]
    async with Host([scripted("h", *steps, restart=RestartPolicy(max_starts=4))], timeouts=FAR, logger=journal):
        await journal.seen(GIVEN_UP)
    assert len(delays) == 3
    for delay, most in zip(delays, (0.02, 0.04, 0.08), strict=True):
        assert most / 2 <= delay <= most


async def test_reset_ends_a_back_off(journal, monkeypatch):
    monkeypatch.setattr(restart, "BACKOFF_FIRST", 60)
    monkeypatch.setattr(restart, "BACKOFF_MOST", 60)
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        await crash(host)
        await journal.seen("ended")
        assert only(host).state == "restarting"
        host.reset("h")
        assert (await host.before_tool(asking())).trail[0].error is None


async def test_closing_ends_a_back_off(journal, monkeypatch):
    monkeypatch.setattr(restart, "BACKOFF_FIRST", 60)
    monkeypatch.setattr(restart, "BACKOFF_MOST", 60)
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        await crash(host)
        await journal.seen("ended")
        async with anyio.create_task_group() as tasks:
            errors = []

            async def ask():
                errors.append((await host.before_tool(asking())).trail[0].error)

            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            await host.aclose()
        assert errors == ["it is stopped: it exited with code 1"]


async def test_C4_a_restart_fails_the_calls_in_flight_at_once_and_replays_none(board, tmp_path):
    record = tmp_path / "record"
    spec = scripted("h", ["record", str(record)], board.call("h"), SERVE)
    async with Host([spec], timeouts=FAR) as host:
        first = await board.line("h")
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(asking(board.call("asked"), HANG)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await board.line("asked")
            host.restart("h")
        assert outcomes[0].trail[0].error == "it was restarted"
        assert (await host.before_tool(asking())).trail[0].error is None
        await first.dead()
        assert (await board.line("h")).alive
    assert record.read_text().count(board.call("asked")[2]) == 1


async def test_a_restart_during_hello_is_a_restart(board):
    steps = board.call("h"), ["wait"], SERVE
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, scripted("h", *steps))
        first = await board.line("h")
        host.restart("h")
        await first.dead()
        (await board.line("h")).go_on()
        assert (await host.before_tool(asking())).trail[0].error is None


async def test_a_restart_does_not_count_against_the_start_limit(board):
    spec = scripted("h", board.call("h"), SERVE, restart=RestartPolicy(max_starts=2))
    async with Host([spec], timeouts=FAR) as host:
        for starts in range(1, 6):
            await board.line("h")
            assert (await host.before_tool(asking())).trail[0].error is None
            assert only(host).starts == starts
            host.restart("h")


async def test_restarts_in_the_same_moment_are_one(board):
    async with Host([scripted("h", board.call("h"), SERVE)], timeouts=FAR) as host:
        await board.line("h")
        host.restart("h")
        host.restart("h")
        host.restart("h")
        assert (await host.before_tool(asking())).trail[0].error is None
        assert only(host).starts == 2


async def test_a_call_that_waits_for_a_restart_keeps_its_own_deadline(board):
    spec = scripted("h", board.call("h"), ["wait"], SERVE, timeout=0.05)
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, spec)
        line = await board.line("h")
        error = (await host.before_tool(asking())).trail[0].error
        assert error == "it is starting, and was not ready in time"
        line.go_on()


async def test_fifty_calls_wait_for_one_restart_and_all_are_answered(board):
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, scripted("h", board.call("h"), ["wait"], SERVE))
        line = await board.line("h")
        outcomes = []

        async def ask(nonce):
            outcomes.append((nonce, await host.before_tool(asking(nonce=nonce))))

        async with anyio.create_task_group() as askers:
            for nonce in range(50):
                askers.start_soon(ask, nonce)
            await anyio.wait_all_tasks_blocked()
            line.go_on()
        assert all(outcome.payload.arguments == {"echo": nonce} for nonce, outcome in outcomes)
        assert len(outcomes) == 50


async def test_promise_9_thirty_restarts_leave_no_growth(board, monkeypatch):
    monkeypatch.setattr(restart, "BACKOFF_FIRST", 0.001)
    spec = scripted("h", board.call("h"), SERVE, restart=OFTEN)
    async with Host([spec], timeouts=FAR) as host:
        supervised = host._mounted.by_name["h"].hook
        lines = []

        async def rounds(count):
            for number in range(count):
                lines.append(await board.line("h"))
                if number % 3 == 0:
                    host.restart("h")
                elif number % 3 == 1:
                    await crash(host)
                else:
                    await host.before_tool(asking(["close", 1], HANG))
                supervised._budget.failures = 0
                await host.before_tool(asking())
            assert not supervised._waiting
            for line in lines:
                await line.dead()
                line.close()
            lines.clear()

        await rounds(3)
        before, threads = held(), threading.active_count()
        await rounds(30)
        await settled(before)
        assert threading.active_count() <= threads  # a thread of another test may have ended meanwhile
        assert only(host).starts == 34
    assert not children()


async def test_promise_9_thirty_failed_starts_leave_no_growth(journal, tmp_path):
    program = tmp_path / "no_program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    spec = scripted("h", restart=OFTEN).model_copy(update={"command": (str(program),)})
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        before = descriptors()
        for times in range(2, 32):
            host.reset("h")
            await journal.seen(GIVEN_UP, times=times)
        assert descriptors() == before
        assert not children()


async def test_a_shared_error_does_not_keep_the_callers_payloads(board):
    """Fifty calls fail by one crash; the error that is kept for the status must not keep fifty payloads alive."""
    async with Host([scripted("h", board.call("h"), SERVE)], timeouts=FAR) as host:
        await board.line("h")
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(host.before_tool, asking(board.call("asked"), HANG))
            await board.line("asked")
            host.restart("h")
        await host.before_tool(asking())
        error = host._mounted.by_name["h"].hook.last_error
        assert isinstance(error, HookCrashedError)
        depth, trace = 0, error.__traceback__
        while trace is not None:
            depth, trace = depth + 1, trace.tb_next
        assert depth <= 10
