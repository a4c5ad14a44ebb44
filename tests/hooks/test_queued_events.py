"""Events for hooks that take them one at a time."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import needs
import pytest
from kinds_support import FAR
from loops import both

from picohook import FunctionHook, HookSpec, Host
from picohook.hooks.queued_events import WAITING

pytestmark = pytest.mark.anyio
anyio_backend = both


class Taker:
    """Takes events, and each only when it is let."""

    def __init__(self):
        self.taken = []
        self.begun = anyio.Event()
        self.go_on = anyio.Event()

    async def __call__(self, event):
        self.begun.set()
        await self.go_on.wait()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        self.taken.append(event.payload["n"])


def told(taker, **settings):
    return FunctionHook("told", on_event=taker, **{"grace": 60, **settings})


async def test_events_are_taken_in_order_and_the_agent_does_not_wait_for_them():
    taker = Taker()
    async with Host([told(taker)], timeouts=FAR) as host:
        for n in range(3):
            host.emit("turn_start", {"n": n})
        await taker.begun.wait()
        assert taker.taken == []
        taker.go_on.set()
        await host.emit_and_wait("turn_start", {"n": 3})
    assert taker.taken == [0, 1, 2, 3]


async def test_waiting_for_an_event_ends_when_it_is_taken_or_at_the_observer_timeout():
    taker = Taker()
    async with Host([told(taker)], timeouts=FAR.model_copy(update={"observer": 0.05})) as host:
        await host.emit_and_wait("session_end", {"n": 0})
        assert taker.taken == []
        taker.go_on.set()
        await host.emit_and_wait("session_end", {"n": 1})
    assert taker.taken == [0, 1]


async def test_the_oldest_events_are_dropped_and_counted():
    taker = Taker()
    async with Host([told(taker)], timeouts=FAR) as host:
        host.emit("turn_start", {"n": 0})
        await taker.begun.wait()
        for n in range(1, WAITING + 11):
            host.emit("turn_start", {"n": n})
        await anyio.wait_all_tasks_blocked()
        (status,) = host.status().hooks
        taker.go_on.set()
    assert status.dropped_events == 10
    assert taker.taken == [0, *range(11, WAITING + 11)]


async def test_leaving_the_host_takes_the_rest_first():
    taken = []
    async with Host([told(lambda event: taken.append(event.payload["n"]))], timeouts=FAR) as host:
        for n in range(100):
            host.emit("turn_start", {"n": n})
    assert taken == list(range(100))


async def test_and_no_longer_than_its_grace(journal):
    taker = Taker()
    async with Host([told(taker, grace=0.05)], timeouts=FAR, logger=journal) as host:
        for n in range(3):
            host.emit("turn_start", {"n": n})
        await taker.begun.wait()
    assert taker.taken == []
    (record,) = journal.all("events were not taken in time")
    assert record["events"] == 2


async def test_a_hook_that_fails_at_an_event_is_logged_counted_and_gets_later_events(journal):
    tries = []

    async def fail(event):
        tries.append(event.payload["n"])
        raise ZeroDivisionError("oops")

    async with Host([told(fail, retry=1)], timeouts=FAR, logger=journal) as host:
        await host.emit_and_wait("turn_start", {"n": 0})
        await host.emit_and_wait("turn_start", {"n": 1})
        (status,) = host.status().hooks
    assert tries == [0, 0, 1, 1]
    (first,) = journal.all("failed", stage="observe", cause="error", counted_as="an event that was not taken")
    assert first["why"] == status.last_error
    assert first["why"].startswith("ZeroDivisionError: oops (test_queued_events.py:")
    counts = status.stages["observe"]
    assert (counts["executions"], counts["failures"], counts["retries"]) == (2, {"error": 2}, 2)


async def test_a_filter_is_for_events_too():
    taken = []
    hook = told(
        lambda event: taken.append(event.payload["Tool"]),
        observe=("tool_exec_end", "turn_end"),
        filter={"tool": "Bash", "when": {"is_error": True}},
    )
    async with Host([hook], timeouts=FAR) as host:
        host.emit("tool_exec_end", {"Tool": "Bash", "IsError": True})
        host.emit("tool_exec_end", {"Tool": "Bash", "IsError": False})
        host.emit("tool_exec_end", {"Tool": "Read", "IsError": True})
        await host.emit_and_wait("turn_end", {"Status": "completed"})
    assert taken == ["Bash"]


async def test_a_function_that_calls_exit_is_one_that_fails():
    def leave(_):
        raise SystemExit(3)

    hook = FunctionHook("leaves", {"before_tool": leave}, on_event=leave, on_failure="deny")
    async with Host([hook], timeouts=FAR) as host:
        await host.emit_and_wait("turn_start")
        outcome = await host.before_tool({"tool": "bash"})
    assert (outcome.action, outcome.trail[0].error) == ("deny_tool", "it called exit(3)")


@needs.other_rooms
async def test_a_hook_of_one_shot_takes_its_own_timeout_for_an_event(journal):
    async def complete(prompt, model):
        del prompt, model
        await anyio.sleep_forever()

    hook = HookSpec(name="slow", prompt="x", observe=("turn_start",), timeout=0.05)
    async with Host([hook], timeouts=FAR, logger=journal, complete=complete) as host:
        await host.emit_and_wait("turn_start")
    assert [record["why"] for record in journal.all("failed", stage="observe")] == ["no answer in time"]
