"""Whatever becomes of a host, or of one hook, nothing that descends from it lives on: proven by the kernel, tier by tier.

Each process that matters holds a line to the test, which the kernel closes when that process is dead.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from grounds import (
    ONE_LOOP,
    STUBBORN,
    Ground,
    Held,
    Hosting,
    Strays,
    all_dead,
    each_ground_and_loop,
    grounds,
    lacking,
    stray,
)
from scripted import HANG, HELLO, SERVE, descriptors

from picohook import Host, RestartPolicy, Timeouts, ToolCall
from picohook.contain.tiers import Containment
from picohook.observe.log import Log
from picohook.process.plan import Plan
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60)


def asking(*steps):
    return ToolCall(tool="bash", arguments={"do": list(steps)})


ENDS = {
    "closed": ("close", "close"),
    "cancelled": ("cancel", "close"),
    "an_error_in_its_block": ("close", "raise"),
    "crashed": ("close", "crash"),
    "exited": ("close", "exit"),
    "its_loop_was_closed_without_closing_it": ("forget", "leave"),
    "killed": ("close", None),
}


EACH_END = [
    pytest.param(end, *case.values, id=f"{case.id}-{end}", marks=case.marks)
    for case in each_ground_and_loop()
    for end in ENDS
    if case.values[1].user is None or end in {"closed", "killed"}
]
"""The product; but a host of somebody without rights, which takes long to start, ends in one way that it knows of, and in one
that it does not."""


@pytest.mark.parametrize(("end", "anyio_backend", "ground"), EACH_END, indirect=["ground"])
async def test_P10_P11_P13_C2_no_descendant_outlives_the_host(end, ground, board, backend):
    how, word = ENDS[end]
    strays = Strays(board)
    with Hosting(ground, how, stray("h", *strays.steps(), SERVE, grace=0.05), backend=backend) as hosting:
        assert await hosting.said() == "ready"
        lines = await strays.lines()
        tier, hooks = await hosting.do("status")
        assert (tier, hooks["h"]) == (ground.tier, ["ready", lines[0].pid, ground.tier, None])
        assert all(line.alive for line in lines)
        if word is None:
            hosting.process.kill()
        else:
            hosting.tell(word)
        await all_dead(lines)


@ONE_LOOP
async def test_P13_a_worker_that_the_host_forked_does_not_keep_its_hooks_alive(ground, board):
    """It has copies of the host's descriptors, so that the end of the host is not the end of its socket."""
    readable, writable = os.pipe()
    with Hosting(ground, "close", stray("h", *Strays(board).steps(), SERVE), pass_fds=(readable,)) as hosting:
        assert await hosting.said() == "ready"
        lines = await Strays(board).lines()
        assert await hosting.do(f"fork {readable}") == "forked"
        os.close(readable)
        hosting.process.kill()
        await all_dead(lines)
        os.write(writable, b".")  # raises unless the worker is still there to read it
        os.close(writable)


@ONE_LOOP
@pytest.mark.parametrize(
    ("how", "ground"),
    [
        pytest.param(how, *ground.values, id=f"{ground.id}-{how}", marks=ground.marks)
        for ground in grounds("namespace", "sweep")
        for how in ("restart", "crash")
        if ground.values[0].user is None or how == "restart"
    ],
    indirect=["ground"],
)
async def test_a_hooks_daemons_end_with_its_process_while_those_of_others_live(how, ground, board):
    one, other = Strays(board, "one"), Strays(board, "other")
    hooks = [stray(name, *strays.steps(), SERVE, grace=0.05) for name, strays in (("one", one), ("other", other))]
    with Hosting(ground, "close", *hooks) as hosting:
        assert await hosting.said() == "ready"
        ends, lives = await one.lines(), await other.lines()
        if how == "restart":
            await hosting.do("restart one")
        else:
            os.kill(ends[0].pid, signal.SIGSEGV)
        await all_dead(ends)
        again = await one.lines()
        assert {line.pid for line in again}.isdisjoint(line.pid for line in ends)
        assert all(line.alive for line in (*lives, *again))


async def test_by_the_time_a_hook_is_unmounted_its_daemons_are_dead(tier, board):
    strays = Strays(board)
    async with Host([stray("kept")], timeouts=FAR) as host:
        await host.mount(stray("h", *strays.steps(), SERVE, contain=Ground(tier).contain))
        lines = await strays.lines()
        await host.unmount("h")
        assert not any(line.alive for line in lines)
        assert (await host.before_tool(asking())).trail[0].error is None


@pytest.mark.parametrize("evades", [["chain", 20000], ["end_main_thread"]], ids=lambda step: step[0])
async def test_daemons_that_are_hard_to_find_are_dead_by_the_time_their_hook_is_unmounted(evades, tier, board):
    daemon = ["daemon", [*STUBBORN, board.call("daemon"), evades]]
    async with Host([stray("kept")], timeouts=FAR) as host:
        await host.mount(stray("h", *[daemon] * 4, SERVE, contain=Ground(tier).contain))
        lines = [await board.line("daemon") for _ in range(4)]
        assert [await line.said() for line in lines] == ["away"] * 4
        await host.unmount("h")
        assert not any(line.alive for line in lines)


async def test_by_the_time_a_shell_hook_has_answered_its_daemons_are_dead(tier, board):
    program = stray("x", ["daemon", [board.call("daemon"), ["tell", "up"], HANG]], board.call("h"), ["wait"])
    spec = program.model_copy(
        update={
            "command": (),
            "run": " ".join(f"'{word}'" for word in program.command),
            "contain": Ground(tier).contain,
        }
    )
    async with Host([spec], timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.before_tool, asking())
        line = await board.line("daemon")
        hook = await board.line("h")
        assert await line.said() == "up"
        hook.go_on()
        await line.dead()


async def test_S9_a_start_that_is_cancelled_leaves_nothing(tier):
    """At each point where it can be, with the start of the launcher and without."""
    plan = Plan(("/bin/sh", "-c", "setsid sleep 1000 & wait"), os.environ, None, contain=Ground(tier).contain)
    before = descriptors()
    for warm in (False, True):
        for checkpoint in range(60):
            held = Containment(current_reactor(), Log())
            if warm:
                await held._spawner(("namespace", "sweep"), anyio.current_time() + 60)
            with Held() as pipe:
                done = await cancelled_at(checkpoint, held.spawn, plan, pipe.streams, anyio.current_time() + 60)
            if done:
                await held.aclose()
                await pipe.ended()
            else:
                await pipe.ended()
                await held.aclose()
            assert descriptors() == before
            if done:
                break
        assert done
        assert checkpoint > 0


async def test_a_start_that_takes_too_long_leaves_nothing(tier, monkeypatch):
    """A program on a file system that does not answer would; here the launcher does not."""
    plan = Plan(("/bin/sh", "-c", "setsid sleep 1000 & wait"), os.environ, None, contain=Ground(tier).contain)
    monkeypatch.setattr("picohook.process.kill.KILL_WAIT", 0.05)
    held = Containment(current_reactor(), Log())
    _, launcher = await held._spawner((tier,), anyio.current_time() + 60)
    os.kill(launcher.pid, signal.SIGSTOP)
    with Held() as pipe, pytest.raises(TimeoutError):
        await held.spawn(plan, pipe.streams, anyio.current_time() + 0.05)
    await pipe.ended()
    await held.aclose()


async def test_S8_a_start_for_which_no_descriptor_is_left_fails_at_once_and_leaves_nothing(tier):
    plan = Plan(("/bin/sh", "-c", "setsid sleep 1000 & wait"), os.environ, None, contain=Ground(tier).contain)
    held = Containment(current_reactor(), Log())
    _, launcher = await held._spawner((tier,), anyio.current_time() + 60)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def take_the_rest():
        while not launcher.processes:
            await anyio.lowlevel.checkpoint()
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))

    with Held() as pipe:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take_the_rest)
                with pytest.raises(OSError, match="Too many open files"):
                    await held.spawn(plan, pipe.streams, anyio.current_time() + 60)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    await pipe.ended()
    await held.aclose()


async def cancelled_at(checkpoint, work, *arguments):
    """Cancel it when it gives up control for the so-manieth time; whether it came to its end before."""
    with anyio.CancelScope() as scope:
        await Counted(work(*arguments), scope, checkpoint)
        return True
    return False


class Counted:
    """A coroutine that cancels its scope at one of its steps."""

    def __init__(self, coroutine, scope, left):
        self._coroutine, self._scope, self._left = coroutine, scope, left

    def __await__(self):
        coroutine, send, value = self._coroutine, self._coroutine.send, None
        while True:
            try:
                yielded = send(value)
            except StopIteration as stop:
                return stop.value
            if self._left == 0:
                self._scope.cancel()
            self._left -= 1
            try:
                send, value = coroutine.send, (yield yielded)
            except BaseException as error:  # it goes where it is to go
                send, value = coroutine.throw, error


@ONE_LOOP
@pytest.mark.parametrize("ground", grounds("namespace"), indirect=True)
async def test_a_hostile_hook_cannot_free_itself_of_the_namespace(ground, board):
    """It kills whatever it sees: that is its own hook, and with that it ends itself. Nobody else notices."""
    outside = os.readlink("/proc/self/ns/pid")
    hostile = [*STUBBORN, board.call("hostile"), ["wait"], ["slaughter", outside], HANG]
    with Hosting(ground, "close", stray("h"), stray("other")) as hosting:
        assert await hosting.said() == "ready"
        _, before = await hosting.do("status")
        await hosting.do(f"ask {json.dumps({'do': [['daemon', hostile]], 'who': 'h'})}")
        line = await board.line("hostile")
        line.go_on()
        await line.dead()
        with anyio.fail_after(30):
            while await hosting.do("ask []") != [None] * 2:
                pass
        tier, after = await hosting.do("status")
        assert tier == "namespace"
        assert after["h"][1] != before["h"][1]
        assert after["other"] == before["other"]


@pytest.mark.parametrize("ends", ["unmounted", "restarted"])
async def test_P13_a_child_of_a_daemon_ends_with_the_hook(ends, tier, board, journal):
    """Those of other hooks live."""
    child = ["fork", [*STUBBORN, ["setsid"], board.call("child"), HANG]]
    left = [["daemon", [*STUBBORN, child, board.call("daemon"), HANG]]]
    lives = ["daemon", [*STUBBORN, board.call("lives"), HANG]]
    contain = Ground(tier).contain
    async with Host([stray("kept", lives, SERVE, contain=contain)], timeouts=FAR, logger=journal) as host:
        await host.mount(stray("h", *left, SERVE, contain=contain, grace=0.05))
        lines = [await board.line(name) for name in ("daemon", "child")]
        kept = await board.line("lives")
        if ends == "unmounted":
            await host.unmount("h")
            assert not any(line.alive for line in lines)
        else:
            host.restart("h")
            await all_dead(lines)
            assert all([(await board.line(name)).alive for name in ("daemon", "child")])
        assert kept.alive


@ONE_LOOP
@pytest.mark.parametrize("ground", grounds("sweep"), indirect=True)
async def test_a_sweep_cannot_contain_a_hook_that_kills_the_launcher_and_status_says_so(ground, board):
    """What the tier does not promise, so that nobody thinks it does."""
    daemon = ["daemon", [board.call("hostile"), HANG]]
    hostile = [daemon, HELLO, ["kill_launcher"], board.call("launcher is killed")]
    with Hosting(ground, "close", stray("h", *hostile, SERVE, restart=RestartPolicy(max_starts=1))) as hosting:
        assert await hosting.said() == "ready"
        line = await board.line("hostile")
        await board.line("launcher is killed")
        assert (await hosting.do("status"))[0] == "sweep"
        hosting.process.kill()
        hosting.process.wait()
        assert line.alive
        os.kill(line.pid, signal.SIGKILL)
        await line.dead()


async def test_a_hook_that_kills_its_keeper_alone_ends_with_all_of_its_own(board, journal):
    if why := lacking("sweep"):
        pytest.skip(why)
    strays, other = Strays(board), Strays(board, "other")
    hostile = stray("h", *strays.steps(), SERVE, contain="sweep")
    kept = stray("other", *other.steps(), SERVE, contain="sweep")
    async with Host([hostile, kept], timeouts=FAR, logger=journal) as host:
        ends, lives = await strays.lines(), await other.lines()
        await host.before_tool(ToolCall(tool="bash", arguments={"do": [["kill_parent"]], "who": "h"}))
        await all_dead(ends)
        again = await strays.lines()
        assert all(line.alive for line in (*lives, *again))


async def test_hooks_of_a_killed_launcher_end_and_another_launcher_starts_them_again(tier, board, journal):
    strays = Strays(board)
    hooks = [stray("h", *strays.steps(), SERVE, contain=Ground(tier).contain)]
    async with Host(hooks, timeouts=FAR, logger=journal) as host:
        lines = await strays.lines()
        (launcher,) = host._mounted.containment._launchers
        async with anyio.create_task_group() as tasks:
            outcomes = []

            async def ask():
                outcomes.append(await host.before_tool(asking(["tell", "asked"], ["wait"])))

            tasks.start_soon(ask)
            assert await lines[0].said() == "asked"
            os.kill(launcher.pid, signal.SIGKILL)
        await all_dead(lines)
        assert "it was ended by SIGKILL" in outcomes[0].trail[0].error
        await journal.seen("the launcher ended: its hooks end too, and are started again by another one")
        again = await strays.lines()
        assert (await host.before_tool(asking())).trail[0].error is None
        assert host._mounted.containment._launchers[-1].pid != launcher.pid
    await all_dead(again)


@pytest.mark.parametrize(("anyio_backend", "ground"), each_ground_and_loop(), indirect=["ground"])
async def test_the_launcher_itself_is_gone_after_its_host_was_killed(ground, board, backend):
    """With the keepers of its hooks."""
    strays = Strays(board)
    with Hosting(ground, "close", stray("h", *strays.steps(), SERVE), backend=backend) as hosting:
        assert await hosting.said() == "ready"
        await strays.lines()
        everything = {pid: os.pidfd_open(pid) for pid in offspring(hosting.process.pid)}
        hosting.process.kill()
        for pid, pidfd in everything.items():
            with anyio.move_on_after(60) as late:
                await anyio.wait_readable(pidfd)
            os.close(pidfd)
            assert not late.cancelled_caught, pid


async def test_the_death_of_the_first_process_of_the_namespace_is_seen(board, journal):
    if why := lacking("namespace"):
        pytest.skip(why)
    strays = Strays(board)
    async with Host([stray("h", *strays.steps(), SERVE, contain="required")], timeouts=FAR, logger=journal):
        lines = await strays.lines()
        (first,) = [pid for pid in offspring(os.getpid()) if inner(pid) == 1]
        os.kill(first, signal.SIGKILL)
        await all_dead(lines)
        await journal.seen("ready", times=2)


async def test_a_hook_cannot_end_other_hooks_by_what_the_first_process_of_its_namespace_has_open(board):
    if why := lacking("namespace"):
        pytest.skip(why)
    async with Host([stray("good", board.call("good"), SERVE, contain="required")], timeouts=FAR) as host:
        line = await board.line("good")
        await host.mount(stray("bad", ["write_to_first"], SERVE, contain="required"))
        outcome = await host.before_tool(ToolCall(tool="bash", arguments={}))
        assert [entry.error for entry in outcome.trail] == [None, None]
        assert line.alive


def offspring(pid):
    """The processes that descend from one."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *offspring(child)]
    return found


def inner(pid):
    """What a process is called in its own namespace."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[-1]) for line in file if line.startswith("NSpid:"))


async def test_a_stopped_launcher_is_killed_with_all_that_it_started(tier, board, monkeypatch):
    monkeypatch.setattr("picohook.process.kill.KILL_WAIT", 0.05)
    strays = Strays(board)
    async with Host(
        [stray("h", *strays.steps(), HELLO, HANG, contain=Ground(tier).contain, grace=0.02)], timeouts=FAR
    ) as host:
        lines = await strays.lines()
        (launcher,) = host._mounted.containment._launchers
        os.kill(launcher.pid, signal.SIGSTOP)
    await all_dead(lines)


async def test_200_hooks_end_with_their_host(tier):
    """Shells, which are small; each with a child in a session of its own."""
    plan = Plan(("/bin/sh", "-c", "setsid sleep 1000 & echo; wait"), os.environ, None, contain=Ground(tier).contain)
    held = Containment(current_reactor(), Log())
    with Held() as pipe:
        async with anyio.create_task_group() as tasks:
            for _ in range(200):
                tasks.start_soon(held.spawn, plan, pipe.streams, anyio.current_time() + 60)
        await pipe.said(200)
    await held.aclose()
    await pipe.ended()


async def test_a_hook_that_is_a_host_itself_ends_with_all_of_its_own(tier, board, backend):
    """The inner host's launcher is killed together with everything else."""
    strays = Strays(board)
    inner = stray("inner", *strays.steps(), SERVE).model_dump(mode="json", exclude_unset=True) | {"contain": "sweep"}
    program = [sys.executable, str(Path(__file__).with_name("hosting.py")), backend, "stay", json.dumps([inner])]
    outer = stray("outer", ["daemon", [["exec", *program]]], SERVE, contain=Ground(tier).contain)
    async with Host([outer], timeouts=FAR) as host:
        lines = await strays.lines()
        await host.unmount("outer")
        await all_dead(lines)
