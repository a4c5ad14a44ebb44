"""The sandbox of a hook: the bubblewrap or Landlock command that restricts the hook's access to files and the network.

Both are programs that confine themselves and then become the hook: they are put before its command.
"""

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial

import anyio

from ..process.kill import stop_in_steps
from ..process.plan import Plan
from ..process.spawn import NotAvailableError, Spawner
from ..process.threads import FileThreads

LANDLOCK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "landlock_program.py")
TRY_WAIT = 5.0
"""Seconds that the test of a sandbox may take."""
SHOWN_OF_OUTPUT = 200
"""Bytes that are shown of the output of a sandbox that does not work."""


class Sandboxes:
    """Finds the kind of sandbox that works here. Each kind is tested once, started in the same way as the hook."""

    def __init__(self) -> None:
        self._tried: dict[tuple[str, Spawner, bool], str] = {}
        self._trying = anyio.Lock()
        self._files = FileThreads()

    async def prefix(self, plan: Plan, spawner: Spawner, deadline: float) -> tuple[str, ...]:
        """The command to put before the hook's own. Raises `NotAvailableError` if no sandbox works."""
        sandbox = plan.sandbox
        assert sandbox is not None
        names = ("read_only", "writable")
        read, write = await self._files.run(
            lambda: [_paths(name, getattr(sandbox, name), plan) for name in names], deadline
        )
        why = []
        for kind, words in _KINDS.items():
            reason = await self._try(kind, spawner, deadline, network=sandbox.network)
            if not reason:
                look = partial(words, read, write, network=sandbox.network, directory=plan.cwd)
                return await self._files.run(look, deadline)
            why.append(f"{kind}: {reason}")
        raise NotAvailableError(f"no sandbox works here: {'; '.join(why)}")

    async def _try(self, kind: str, spawner: Spawner, deadline: float, *, network: bool) -> str:
        """The reason why this kind of sandbox does not work; empty if it works."""
        async with self._trying:
            key = kind, spawner, network
            if key not in self._tried:
                words = _KINDS[kind](["/"], [], network=network, directory=None)
                command = (*words, *_NOTHING[kind])
                self._tried[key] = "it is not installed"
                if os.path.isabs(command[0]):
                    plan = Plan(command, os.environ, None)
                    self._tried[key] = await why_it_fails(plan, spawner, deadline, TRY_WAIT)
            return self._tried[key]


async def why_it_fails(plan: Plan, spawner: Spawner, deadline: float, wait: float) -> str:
    """The reason why a process fails; empty if it succeeds. It should end at once, and is killed after `wait` seconds."""
    ended = anyio.Event()
    null = os.open(os.devnull, os.O_RDWR)
    readable, writable = os.pipe()
    try:
        process = await spawner.spawn(plan, (null, null, writable), deadline)
        process.when_ended(ended.set)
        try:
            with anyio.move_on_after(wait):
                await ended.wait()
        finally:
            await stop_in_steps(process, ended, [])
        os.set_blocking(readable, False)
        try:
            output = os.read(readable, SHOWN_OF_OUTPUT).decode("utf-8", "replace").strip()
        except BlockingIOError:
            output = ""
        return "" if process.exit_code == 0 else output or f"it ended with {process.exit_code}"
    finally:
        for fd in (null, readable, writable):
            os.close(fd)


def _bubblewrap(read: list[str], write: list[str], *, network: bool, directory: str | None) -> tuple[str, ...]:
    program = shutil.which("bwrap") or "bwrap"
    words = [program, "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
    if not network:
        words.append("--unshare-net")
    # A mount hides earlier mounts below it, so shorter paths come first, and writable paths last.
    for path in sorted(read, key=len):
        words += ["--ro-bind", path, path]
    words += ["--dev", "/dev", "--proc", "/proc"]
    for path in sorted(write, key=len):
        words += ["--bind", path, path]
    if directory is not None:
        words += ["--chdir", directory]
    return (*words, "--")


def _landlock(read: list[str], write: list[str], *, network: bool, directory: str | None) -> tuple[str, ...]:
    del directory  # the hook is already in it
    words = [sys.executable or "python", "-I", "-S", LANDLOCK]
    if not network:
        words.append("--no-network")
    for path in read:
        words += ["--read", path]
    for path in write:
        words += ["--write", path]
    return (*words, "--")


_KINDS: dict[str, Callable[..., tuple[str, ...]]] = {"bubblewrap": _bubblewrap, "Landlock": _landlock}
_NOTHING: dict[str, tuple[str, ...]] = {"bubblewrap": ("bwrap", "--version"), "Landlock": ()}
"""The command with which each kind is tested."""


def _paths(name: str, given: tuple[str, ...], plan: Plan) -> list[str]:
    paths = []
    for path in given:
        full = os.path.abspath(os.path.join(plan.cwd or os.getcwd(), os.path.expanduser(path)))
        if not os.path.exists(full):
            raise NotAvailableError(f"its sandbox names {full} as {name}, which does not exist")
        paths.append(full)
    return paths
