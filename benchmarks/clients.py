"""What the host is held against: the pipe itself, and the least that a client on an event loop can do."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from typing import Any

import jiter
import orjson

from picohook import HookSpec
from picohook.process.environment import environment

CHUNK = 65536
ENVIRONMENT = environment(HookSpec(name="h", command=("h",)), os.environ)
"""The variables that a hook gets."""
Use = Callable[[dict[str, Any]], Any]
"""Makes of a result what a caller needs, such as the changed call."""


def line(number: int, method: str, params: Any) -> bytes:
    """A request, encoded with the codec that the host has."""
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + b"\n"


class Pipe:
    """The floor: blocking writes of lines that are ready, and reads up to the newline."""

    def __init__(self, command: list[str]) -> None:
        # As a hook is: in a process group of its own and in this session, with three pipes and a hook's environment.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
            env=ENVIRONMENT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.stdin, self.stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.ask(line(1, "hook.hello", {}))

    def send(self, data: bytes) -> None:
        """Write it."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.stdin, left) :]

    def ask(self, request: bytes) -> bytes:
        """Write it, and read the answer's line."""
        self.send(request)
        data = os.read(self.stdout, CHUNK)
        if data.endswith(b"\n"):
            return data
        parts = [data]
        while not parts[-1].endswith(b"\n"):
            parts.append(os.read(self.stdout, CHUNK))
        return b"".join(parts)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()


class MinimalAsyncio:
    """A reader callback that matches ids, on asyncio or uvloop; writes of one turn go out together."""

    def __init__(self, command: list[str]) -> None:
        self._pipe = Pipe(command)
        os.set_blocking(self._pipe.stdout, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pipe.stdout, self._readable)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._tail = b""
        self._number = 1
        self._out: list[bytes] = []

    def _readable(self) -> None:
        *lines, self._tail = (self._tail + os.read(self._pipe.stdout, CHUNK)).split(b"\n")
        for one in lines:
            message = jiter.from_json(one)
            future = self._pending.pop(message["id"], None)
            if future is not None:
                future.set_result(message["result"])

    def _future(self) -> asyncio.Future[Any]:
        self._number += 1
        future = self._pending[self._number] = self._loop.create_future()
        return future

    async def ask(self, method: str, payload: Any, use: Use | None = None) -> Any:
        """One request, written at once. Returns the result, or what `use` makes of it."""
        future = self._future()
        os.write(self._pipe.stdin, line(self._number, method, payload.wire()))
        result = await future
        return result if use is None else use(result)

    async def ask_in_company(self, method: str, payload: Any, use: Use | None = None) -> Any:
        """One of many requests. Returns as `ask` does."""
        future = self._future()
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(line(self._number, method, payload.wire()))
        result = await future
        return result if use is None else use(result)

    def _flush(self) -> None:
        data, self._out = b"".join(self._out), []
        os.write(self._pipe.stdin, data)

    async def aclose(self) -> None:
        """End it."""
        self._loop.remove_reader(self._pipe.stdout)
        self._pipe.close()


class MinimalTrio:
    """The same on trio: a task that waits for the pipe, and wakes who asked."""

    def __init__(self, command: list[str]) -> None:
        import outcome
        import trio

        self._trio, self._value = trio, outcome.Value
        self._pipe = Pipe(command)
        os.set_blocking(self._pipe.stdout, False)
        self._pending: dict[int, Any] = {}
        self._number = 1
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._read)

    async def _read(self) -> None:
        tail, lowlevel = b"", self._trio.lowlevel
        with self._scope:
            while True:
                await lowlevel.wait_readable(self._pipe.stdout)
                *lines, tail = (tail + os.read(self._pipe.stdout, CHUNK)).split(b"\n")
                for one in lines:
                    message = jiter.from_json(one)
                    task = self._pending.pop(message["id"], None)
                    if task is not None:
                        lowlevel.reschedule(task, self._value(message["result"]))

    async def ask(self, method: str, payload: Any, use: Use | None = None) -> Any:
        """One request, written at once. Returns the result, or what `use` makes of it."""
        lowlevel = self._trio.lowlevel
        self._number += 1
        self._pending[self._number] = lowlevel.current_task()
        os.write(self._pipe.stdin, line(self._number, method, payload.wire()))
        result = await lowlevel.wait_task_rescheduled(lambda _: lowlevel.Abort.SUCCEEDED)
        return result if use is None else use(result)

    async def aclose(self) -> None:
        """End it."""
        self._scope.cancel()
        await self._trio.lowlevel.checkpoint()
        self._pipe.close()
