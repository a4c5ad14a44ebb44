"""`session`: whether a hook is in the host's session or in one of its own, it has no terminal, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress

import pytest
from grounds import CONTAIN, STUBBORN, Ground, Hosting, Strays, Terminal, all_dead, lacking, stray
from scripted import HANG, HELLO, SERVE

from picohook import Host, Timeouts

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60)
INTERRUPT, SUSPEND = b"\x03", b"\x1a"
OPENS_THE_TERMINAL = ["try", ["read", "/dev/tty"], ["write", "/dev/tty"]]
NO_TERMINAL_TO_LEAVE = ("unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/tty && exec "$@"', "sh")

SESSIONS = [("own", ("asyncio", {"use_uvloop": False})), ("shared", ("trio", {}))]
"""A loop for each session, where neither knows of the other."""


@pytest.fixture(params=["own", "shared"])
def session(request):
    return request.param


@pytest.fixture
def away():
    """A process of this session in a process group of its own."""
    with subprocess.Popen(["sleep", "1000"], process_group=0) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("held", CONTAIN)
@pytest.mark.parametrize(("session", "anyio_backend"), SESSIONS, ids=["own-asyncio", "shared-trio"])
async def test_a_hook_has_no_terminal_and_keys_and_a_hang_up_reach_only_its_host(held, session, board, backend):
    if why := lacking(held):
        pytest.skip(why)
    child = ["fork", [board.call("child"), OPENS_THE_TERMINAL, ["wait"], ["tell", "not stopped"], HANG]]
    hook = stray("h", board.call("h"), OPENS_THE_TERMINAL, child, SERVE, session=session)
    with Terminal() as terminal, Hosting(Ground(held), "close", hook, backend=backend, terminal=terminal) as hosting:
        assert await hosting.said() == "ready"
        lines = await board.line("h"), await board.line("child")
        pid = lines[0].pid
        for line in lines:
            assert json.loads(await line.said()) == ["ENXIO", "ENXIO"]
            assert terminal_of(line.pid) == 0
            assert os.getpgid(line.pid) == pid
            assert os.getsid(line.pid) == (pid if session == "own" or held == "group" else hosting.process.pid)
        assert await hosting.do("catch SIGINT") == "catches it"
        terminal.press(INTERRUPT)
        assert await hosting.said() == "SIGINT"
        terminal.press(SUSPEND)
        await terminal.stopped()
        lines[1].go_on()
        assert await lines[1].said() == "not stopped"
        terminal.resume()
        assert await hosting.do("catch SIGHUP") == "catches it"
        terminal.hang_up()
        assert await hosting.said() == "SIGHUP"
        assert await hosting.do("ask []") == [None]
        assert (await hosting.do("status"))[1]["h"] == ["ready", pid, held, None]


async def test_no_descendant_outlives_a_host_that_a_hang_up_ends(tier, session, board, backend):
    strays = Strays(board)
    hook = stray("h", *strays.steps(), SERVE, session=session)
    with Terminal() as terminal, Hosting(Ground(tier), "close", hook, backend=backend, terminal=terminal) as hosting:
        assert await hosting.said() == "ready"
        lines = await strays.lines()
        terminal.hang_up()
        await all_dead(lines)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGTERM"])
async def test_no_descendant_outlives_a_host_that_a_signal_to_its_whole_session_ends(name, tier, board, backend):
    """The signal reaches the launcher too."""
    strays = Strays(board)
    hook = stray("h", *strays.steps(), SERVE)
    with Terminal() as terminal, Hosting(Ground(tier), "close", hook, backend=backend, terminal=terminal) as hosting:
        assert await hosting.said() == "ready"
        lines = await strays.lines()
        for pid in members(hosting.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, getattr(signal, name))
        await all_dead(lines)


async def test_a_host_in_the_background_of_a_terminal_starts_hooks_and_is_not_stopped(tier, session, backend):
    with (
        Terminal("background") as terminal,
        Hosting(Ground(tier), "close", stray("h", session=session), backend=backend, terminal=terminal) as hosting,
    ):
        assert await hosting.said() == "ready"
        assert await hosting.do("ask []") == [None]


async def test_where_the_terminal_cannot_be_given_up_a_hook_gets_a_session_of_its_own(tier, board, backend):
    before = NO_TERMINAL_TO_LEAVE if os.geteuid() == 0 else (*NO_TERMINAL_TO_LEAVE[:2], "-r", *NO_TERMINAL_TO_LEAVE[2:])
    if subprocess.run([*before, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no mount can be made here")
    hook = stray("h", board.call("h"), SERVE, session="shared")
    with (
        Terminal("foreground", *before) as terminal,
        Hosting(Ground(tier), "close", hook, backend=backend, terminal=terminal) as hosting,
    ):
        assert await hosting.said() == "ready"
        line = await board.line("h")
        assert terminal_of(hosting.process.pid) != 0
        assert (terminal_of(line.pid), os.getsid(line.pid)) == (0, line.pid)


async def test_no_other_process_of_the_session_ends_with_a_hook(tier, board, away):
    """Nor if a process of the hook joins its process group; in a namespace it cannot."""
    strays = Strays(board)
    joins = [["fork", [*STUBBORN, ["join", away.pid], board.call("joined"), HANG]]] if tier == "sweep" else []
    hook = stray("h", *strays.steps(), *joins, SERVE, contain=CONTAIN[tier], grace=0.05)
    with subprocess.Popen(["sleep", "1000"]) as near:
        async with Host([stray("kept", contain=CONTAIN[tier]), hook], timeouts=FAR) as host:
            lines = await strays.lines()
            if joins:
                lines.append(await board.line("joined"))
                assert os.getpgid(lines[-1].pid) == away.pid
            assert os.getsid(lines[0].pid) == os.getsid(away.pid) == os.getsid(near.pid)
            await host.unmount("h")
            assert not any(line.alive for line in lines)
        assert (away.poll(), near.poll()) == (None, None)
        near.kill()


async def test_a_hook_that_left_its_process_group_is_killed(tier, board):
    hook = stray("h", *STUBBORN, board.call("h"), ["leave_group"], HELLO, HANG, contain=CONTAIN[tier], grace=0.05)
    async with Host([hook], timeouts=FAR) as host:
        line = await board.line("h")
        assert os.getpgid(line.pid) != line.pid
        await host.unmount("h")
        assert not line.alive


def terminal_of(pid):
    """The number of a process's controlling terminal; 0 without one."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[4])


def members(session):
    """The processes of a session."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(ProcessLookupError):
            if os.getsid(pid) == session:
                found.append(pid)
    return found
