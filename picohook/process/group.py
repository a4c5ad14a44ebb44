"""The tier `group`: hooks are children of the host, and a hook's process group is killed when the hook ends."""

import os
import signal
import subprocess
import weakref
from collections.abc import Callable

from ..transport.reactor import Reactor
from ..wire.platforms import exit_descriptor, path_of_descriptor
from .kill import kill_abandoned, signal_group
from .plan import Plan
from .spawn import NotAvailableError, SpawnedProcess, Streams

_LACKING = "this host has no picohook.contain: use a Host, of a whole installation of picohook"


class GroupSpawner:
    """Starts processes as children of the host. It loses a process that leaves its group.

    A host without the package `picohook.contain` has this one alone: it refuses a hook that asks for more.
    """

    tier: str | None = None

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self.unable = dict.fromkeys(("namespace", "sweep"), _LACKING)

    async def spawn(self, plan: Plan, streams: Streams, deadline: float) -> SpawnedProcess:
        """See `HostSpawner.spawn`. This never waits, so it ignores the deadline."""
        del deadline
        wanted = {
            f'contain = "{plan.contain}"': plan.contain not in {"best", "group"},
            "limits": plan.limits is not None,
            "sandbox": plan.sandbox is not None,
        }
        if any(wanted.values()):
            raise NotAvailableError(f"{', '.join(name for name in wanted if wanted[name])}: {_LACKING}")
        self.tier = "group"
        return _GroupProcess(self._reactor, plan, streams)

    async def aclose(self) -> None:
        """Does nothing: a process ends with its hook."""


class _GroupProcess:
    """The leader of the group, a child of the host."""

    tier = "group"

    def __init__(self, reactor: Reactor, plan: Plan, streams: Streams) -> None:
        self._reactor = reactor
        program = () if plan.program is None else (plan.program.descriptor,)
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - it is the command of the configuration
            plan.argv,
            executable=path_of_descriptor(program[0]) if program else None,
            pass_fds=program,  # the hook has this descriptor too
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=plan.cwd,
            env=dict(plan.env),
            start_new_session=True,  # the only way here to take the terminal away, so `session` has no effect
        )
        try:
            self._exit_fd = exit_descriptor(self._process)
        except BaseException:
            signal_group(self.pid, signal.SIGKILL)
            self._process.wait()
            raise
        self._ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def when_ended(self, callback: Callable[[], None]) -> None:
        def ended() -> None:
            self._reactor.release(self._exit_fd)
            os.close(self._exit_fd)
            signal_group(self.pid, signal.SIGKILL)  # it is not reaped yet, so the number is still its own
            self._process.wait()
            self._ended = True
            self._abandoned.detach()
            callback()

        # Only the event loop holds this function. If it is freed before the process has ended, the loop was closed.
        self._abandoned = weakref.finalize(ended, kill_abandoned, self._process, os.getpid())
        self._reactor.on_readable(self._exit_fd, ended)

    def signal(self, number: int) -> None:
        if not self._ended and os.getpid() == self._owner:
            signal_group(self.pid, number)

    def kill_launcher(self) -> None:
        """Does nothing: there is no launcher."""
