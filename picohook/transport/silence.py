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


class SilenceProbe:
    """Examines one process that has written nothing and is about to be killed."""

    def __init__(self, reactor: Reactor, pipe: LinePipe) -> None:
        self._reactor = reactor
        self._pipe = pipe
        self._output = reactor.waiter()

    def output_seen(self) -> None:
        """Note that the process has written something."""
        self._output.settle(True)

    async def reason(self, hello: bytes) -> str:
        """Why the process was silent, with advice. `hello`: the line that it did not answer."""
        with suppress(OSError):
            self._pipe.write([hello * (REPEATED_HELLOS // len(hello))])
        if await self._listen():
            return "it buffers its answers: flush standard output after each one"
        self._output = self._reactor.waiter()
        self._pipe.close_write()
        if await self._listen():
            return (
                "it answered when its input was closed: answer each line as it comes, and do not read to the end first"
            )
        return "it wrote nothing at all: does it read its input line by line, and flush its output?"

    async def _listen(self) -> bool:
        try:
            return bool(await self._output.wait(self._reactor.now() + LISTEN))
        except TimeoutError:
            return False
