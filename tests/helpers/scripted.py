"""What tests of real processes need: hooks by script, a line to each of them, and a log that can be waited for.

Nothing here sleeps. A test waits for what a hook says over its line or on its stderr; that a process is dead is proven by
the kernel, which closes its end of the line.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shutil
import socket
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from picohook import HookSpec
from picohook.process import threads

BADHOOK = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import badhook; badhook.main()"
PATIENCE = 30.0
"""Nothing waits longer. What gets so far has failed: no test passes by waiting."""

CONTAIN = "best"
"""What holds the descendants of hooks that say nothing else."""

HELLO = ["hello"]
SERVE = ["serve"]
HANG = ["hang"]

Steps = list[list[Any]]

look = getattr(os, "waitid", None)
"""Bound here, since tests take it away."""


def command(*steps: list[Any]) -> tuple[str, ...]:
    """The command of a hook that does these steps."""
    return (sys.executable, "-I", "-S", "-c", BADHOOK, json.dumps(steps))


def scripted(name: str, *steps: list[Any], **settings: Any) -> HookSpec:
    """A hook that does these steps; without any it serves. It is asked at before_tool, if nothing else is said."""
    if not {"stages", "observe"} & settings.keys():
        settings["stages"] = ("before_tool",)
    settings.setdefault("contain", CONTAIN)
    return HookSpec(name=name, command=command(*(steps or (SERVE,))), **settings)


class Line:
    """A line to one process."""

    def __init__(self, connection: socket.socket, pid: int, rest: bytes) -> None:
        self.pid = pid
        self._connection = connection
        self._buffered = rest

    def go_on(self) -> None:
        """Let the process go on: it does the step `wait`."""
        self._connection.sendall(b"\n")

    def fileno(self) -> int:
        return self._connection.fileno()

    def say(self, data: bytes) -> None:
        """To a process that relays it; one that is no more does not hear it."""
        with contextlib.suppress(ConnectionError):
            self._connection.sendall(data)

    def take(self) -> bytes:
        """What it has told and nobody has taken."""
        self.alive  # noqa: B018 - looking reads it
        taken, self._buffered = self._buffered, b""
        return taken

    async def said(self) -> str:
        """The next thing that it tells."""
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._buffered:
                data = await self._read()
                assert data, "the process ended"
                self._buffered += data
        return self._next()

    def said_now(self) -> str:
        """The same, with the event loop held up until then."""
        self._connection.settimeout(PATIENCE)
        while b"\n" not in self._buffered:
            data = self._connection.recv(65536)
            assert data, "the process ended"
            self._buffered += data
        self._connection.setblocking(False)
        return self._next()

    async def dead(self) -> None:
        """Until the process is dead."""
        with anyio.fail_after(PATIENCE):
            while await self._read():
                pass

    def dead_now(self) -> None:
        """The same, with the event loop held up until then."""
        self._connection.settimeout(PATIENCE)
        try:
            while self._connection.recv(65536):
                pass
        except ConnectionError:
            pass
        self._connection.setblocking(False)

    @property
    def alive(self) -> bool:
        """Whether its end has not been seen: false is certain, true is of this moment."""
        try:
            while data := self._connection.recv(65536):
                self._buffered += data
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def close(self) -> None:
        self._connection.close()

    def _next(self) -> str:
        line, self._buffered = self._buffered.split(b"\n", 1)
        return line.decode()

    async def _read(self) -> bytes:
        while True:
            try:
                return self._connection.recv(65536)
            except BlockingIOError:
                await anyio.wait_readable(self._connection)
            except ConnectionError:
                return b""


class Switchboard:
    """Where processes call in."""

    def __init__(self) -> None:
        self.place = tempfile.mkdtemp(prefix="picohook-test-")
        """Where its socket is: what is to call in from a sandbox has to see it."""
        self._listener, self._address = _listen(self.place)
        self._listener.setblocking(False)
        self._waiting: list[tuple[str, Line]] = []
        self._lines: list[Line] = []

    def call(self, name: str) -> list[Any]:
        """The step with which a process calls in."""
        return ["call", self._address, name]

    async def line(self, name: str) -> Line:
        """The line to the next process that calls in under this name."""
        with anyio.fail_after(PATIENCE):
            while True:
                for waiting in self._waiting:
                    if waiting[0] == name:
                        self._waiting.remove(waiting)
                        return waiting[1]
                try:
                    connection, _ = self._listener.accept()
                except BlockingIOError:
                    await anyio.wait_readable(self._listener)
                else:
                    self._take(connection)

    def line_now(self, name: str) -> Line:
        """The same, with the event loop held up until then."""
        self._listener.settimeout(PATIENCE)
        while True:
            for waiting in self._waiting:
                if waiting[0] == name:
                    self._waiting.remove(waiting)
                    self._listener.setblocking(False)
                    return waiting[1]
            connection, _ = self._listener.accept()
            self._take(connection)

    def fileno(self) -> int:
        return self._listener.fileno()

    def called(self) -> list[tuple[str, Line]]:
        """Those who have called in by now, and whom nobody has answered."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self._take(self._listener.accept()[0])
        called, self._waiting = self._waiting, []
        return called

    def nobody_called(self) -> bool:
        """Whether nobody has called in that was not answered."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return not self._waiting
        self._take(connection)
        return False

    def close(self) -> None:
        for line in self._lines:
            line.close()
        self._listener.close()
        shutil.rmtree(self.place)

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        data = b""
        while b"\n" not in data:
            data += connection.recv(256)
        connection.setblocking(False)
        said, rest = data.split(b"\n", 1)
        name, pid = said.decode().rsplit(" ", 1)
        if sys.platform == "linux":  # what it calls itself is its number in its own namespace
            pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        line = Line(connection, int(pid), rest)
        self._lines.append(line)
        self._waiting.append((name, line))


def _listen(place: str) -> tuple[socket.socket, str | int]:
    """A socket that processes can call, whoever they run as; where the kernel can say who they are, one that it says it of."""
    if sys.platform != "linux":
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        return listener, listener.getsockname()[1]
    path = os.path.join(place, "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(place, 0o755)
    os.chmod(path, 0o777)
    listener.listen(128)
    return listener, path


class Journal:
    """A logger that keeps what it is told, and can be waited for."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._changed = anyio.Event()

    def __getattr__(self, level: str) -> Any:
        if level not in {"debug", "info", "warning", "error"}:
            raise AttributeError(level)

        def say(event: str, **fields: Any) -> None:
            self.records.append({"level": level, "event": event, **fields})
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

        return say

    def all(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The records of this event that have these fields."""
        wanted = {"event": event, **fields}
        return [record for record in self.records if record.items() >= wanted.items()]

    async def seen(self, event: str, *, times: int = 1, **fields: Any) -> dict[str, Any]:
        """Until the event was logged so often; the last of them."""
        with anyio.fail_after(PATIENCE):
            while len(found := self.all(event, **fields)) < times:
                await self._changed.wait()
        return found[times - 1]

    def position(self, event: str, **fields: Any) -> int:
        """Where in the log the event stands first."""
        return self.records.index(self.all(event, **fields)[0])


def tasks_alive() -> int:
    """How many tasks the event loop has."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio  # trio is imported only where it runs

        return trio.lowlevel.current_statistics().tasks_living


def held() -> tuple[int, int, int]:
    """How many descriptors and processes this process has, and how many tasks its event loop."""
    return descriptors(), len(children()), tasks_alive()


async def settled(before: tuple[int, int, int]) -> None:
    """Until no more is held than before: threads, and tasks of the event loop's own, take a moment to be gone."""
    with anyio.move_on_after(PATIENCE):
        while _more_than(before):
            await anyio.lowlevel.checkpoint()
    assert not _more_than(before), (held(), before, open_files())


def _more_than(before: tuple[int, int, int]) -> bool:
    return any(now > then for now, then in zip(held(), before, strict=True))


def descriptors() -> int:
    """How many descriptors this process has open, when no thread reads a file and nothing leads to those of tests before.

    A start that is cancelled gives up its thread, which closes its file a moment later.
    """
    patience = time.monotonic() + PATIENCE
    while reads_files() and time.monotonic() < patience:
        os.sched_yield()
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def open_files() -> dict[str, str]:
    """What each descriptor of this process leads to."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them is closed again
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found


def reads_files() -> bool:
    """Whether a thread of `FileThreads` is at work. It calls without arguments; functions of hooks get theirs, and may hang."""
    for frame, _ in (walked for top in sys._current_frames().values() for walked in traceback.walk_stack(top)):
        if frame.f_code is threads._Run.work_in_thread.__code__ and not frame.f_locals["arguments"]:
            return True
    return False


def children() -> dict[int, str]:
    """The processes that this process has started and not yet reaped, with their state as in ps.

    Servers that tests share are left out.
    """
    found: dict[int, str] = {}
    try:
        look(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # it reaps none of them
    except ChildProcessError:
        return found
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # the thread has ended
            for pid in map(int, Path(f"/proc/self/task/{thread}/children").read_text().split()):
                with contextlib.suppress(OSError):
                    named, rest = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)
                    if not named.endswith("(nats-server"):
                        found[pid] = rest[0]
    return found
