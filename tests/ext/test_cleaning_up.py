"""session_end and turn_abort: hooks that clean up then have their own timeout, and whoever is cut off is named."""

from __future__ import annotations

import anyio
import pytest
from kinds_support import FAR
from loops import both

from picohook import FunctionHook, Host, blade_hooks, worker_hooks
from picohook.ext.blade.hooks import HookEvent
from picohook.ext.jcli.dialect import session_hook
from picohook.ext.rust_worker.worker import Abort, configured

pytestmark = pytest.mark.anyio
anyio_backend = both

SHORT = FAR.model_copy(update={"observer": 0.05})
"""Observers have next to no time; hooks have a minute."""


class Cleaner:
    """Cleans up when it is let."""

    def __init__(self):
        self.begun = anyio.Event()
        self.go_on = anyio.Event()
        self.done = False

    async def __call__(self, *_):
        self.begun.set()
        await self.go_on.wait()
        self.done = True


async def let_go(cleaner):
    """Waits longer than an observer has, without a clock of its own: the session's end waits all that time."""
    await cleaner.begun.wait()
    await anyio.sleep(3 * SHORT.observer)
    cleaner.go_on.set()


async def test_blades_session_end_has_its_own_timeout_and_the_session_waits_for_it():
    cleaner = Cleaner()
    hooks = blade_hooks({HookEvent.SessionEnd: [cleaner]})
    async with Host(hooks, timeouts=SHORT) as host, anyio.create_task_group() as tasks:
        async with host.session("s1"):
            tasks.start_soon(let_go, cleaner)
        assert cleaner.done


async def test_the_workers_on_abort_has_its_own_timeout_and_the_turn_waits_for_it():
    cleaner = Cleaner()
    async with (
        Host(worker_hooks(on_abort=[cleaner]), timeouts=SHORT) as host,
        host.session("s1") as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(let_go, cleaner)
        with pytest.raises(KeyError):
            async with session.turn("hello"):
                raise KeyError
        assert cleaner.done


async def test_jclis_session_end_has_the_timeout_of_its_definition(tmp_path):
    done = tmp_path / "done"
    spec = session_hook("session_end", {"command": f"sleep 0.3; touch {done}"}, "cleaner")
    async with Host([spec], timeouts=SHORT) as host:
        async with host.session("s1"):
            pass
        assert done.exists()


async def hang(*_):
    await anyio.sleep_forever()


def hanging():
    blade = blade_hooks({HookEvent.SessionEnd: [hang]})
    for hook in blade:
        hook.spec = hook.spec.model_copy(update={"timeout": 0.05})
    return [
        *blade,
        *worker_hooks(on_abort=[configured(hang, timeout=0.05)]),
        session_hook("session_end", {"command": "sleep 1000", "timeout": 0.05}, "jcli"),
    ]


async def test_a_slow_cleanup_is_cut_off_at_its_timeout_and_logged(journal):
    async with Host(hanging(), timeouts=FAR, logger=journal) as host:
        with pytest.raises(KeyError):
            async with host.session("s1") as session, session.turn("hello"):
                raise KeyError
        for hook in ("blade.SessionEnd-1", "worker.on_abort-1", "jcli"):
            await journal.seen("failed", hook=hook, stage="observe")
    cut = {record["hook"]: record["why"] for record in journal.all("failed")}
    assert cut["blade.SessionEnd-1"] == cut["worker.on_abort-1"] == "it was cut off after 0.05 s, its timeout"


async def test_an_observer_that_takes_too_long_is_logged_with_the_setting_that_limits_it(journal):
    slow = FunctionHook("slow", on_event=hang, grace=0.05)
    timed = FunctionHook("timed", on_event=hang, grace=0.05, timeout=0.1)
    async with Host([slow, timed], timeouts=SHORT, logger=journal) as host:
        await host.emit_and_wait("session_end")
    why = {record["hook"]: record["why"] for record in journal.all("stopped waiting for an observer")}
    assert why == {
        "slow": "it was not done with the event after 0.05 s, its observer_timeout",
        "timed": "it was not done with the event after 0.1 s, its timeout",
    }
    cut = journal.all("an event was cut off")
    assert {(record["hook"], record["kind"]) for record in cut} == {("slow", "session_end"), ("timed", "session_end")}
    assert cut[0]["why"] == "the hook was stopped, and its grace of 0.05 s ended before it had handled the event"


async def test_waiting_for_an_event_does_not_wait_for_later_events():
    cleaner = Cleaner()
    taken = []

    async def take(event):
        taken.append(event.kind)
        if event.kind == "turn_start":
            await cleaner()

    async with Host([FunctionHook("f", on_event=take, grace=0.05, timeout=60)], timeouts=FAR) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.emit_and_wait, "session_end")
            await anyio.wait_all_tasks_blocked()
            host.emit("turn_start")
        await cleaner.begun.wait()
        assert taken == ["session_end", "turn_start"]  # and session_end was not waited for behind it


async def test_a_decision_of_the_workers_on_abort_is_logged(journal):
    hooks = worker_hooks(on_abort=[lambda _: Abort("again")])
    async with Host(hooks, timeouts=FAR, logger=journal) as host:
        await host.emit_and_wait("turn_abort", {"Reason": "x"})
    (record,) = journal.all("its decision has no effect")
    assert "Abort" in record["why"]
