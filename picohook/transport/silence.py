"""Finds out why a process did not answer hello: sends it more input, then ends its input, and watches for output."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pipe import LinePipe
    from .reactor import Reactor

LISTEN = 0.25
"""Seconds that each attempt waits for output."""
REPEATED_HELLOS = 48 * 1024
"""Bytes of repeated hellos: they fit into a pipe, and their answers fill any usual output buffer."""
SMALLEST_BUFFER = 4096
"""Bytes that a program holds back at least if it buffers its output."""


class SilenceProbe:
    """Examines one process that has written nothing and is about to be killed."""

    def __init__(self, reactor: Reactor, pipe: LinePipe) -> None:
        self._reactor = reactor
        self._pipe = pipe
        self._output = reactor.waiter()

    def output_seen(self, size: int) -> None:
        """Note that the process has written this many bytes."""
        self._output.settle(size)

    async def reason(self, hello: bytes) -> str:
        """Why the process was silent, with advice. `hello`: the line that it did not answer."""
        with suppress(OSError):
            self._pipe.write([hello * (REPEATED_HELLOS // len(hello))])
        if size := await self._listen():
            if size < SMALLEST_BUFFER:
                return (
                    "it answered after its time: set a longer hello_timeout if it starts slowly or the machine is busy"
                )
            return "it buffers its answers: flush standard output after each one"
        self._output = self._reactor.waiter()
        self._pipe.close_write()
        if await self._listen():
            return (
                "it answered when its input was closed: answer each line as it comes, and do not read to the end first"
            )
        return "it wrote nothing at all: does it read its input line by line, and flush its output?"

    async def _listen(self) -> int:
        """Wait for output. Returns how many bytes came first; 0 if none came in time."""
        try:
            return int(await self._output.wait(self._reactor.now() + LISTEN))
        except TimeoutError:
            return 0
