"""Finds out why a process did not answer hello: waits a little, then ends its input, and reads its output."""

from .pipe import LinePipe
from .reactor import Reactor

LISTEN, LISTEN_AT_END = 0.25, 0.25
"""Seconds to wait for output, before and after the input ends."""
LATE = "it answered after its time: set a longer hello_timeout if it starts slowly or the machine is busy"
UNFLUSHED = (
    "it answered when its input ended: flush standard output after each answer, and do not read to the end first"
)
ONE_SHOT = (
    "it printed its result when its input ended: read the input line by line, and answer each line"
    ' (a program that is asked once and ends is configured as `run = "..."`, not as `command`)'
)
DEAF = "it wrote nothing, and ended with its input: answer hook.hello, as every request"
SILENT = "it wrote nothing at all: does it read its input line by line, and flush its output?"


class SilenceProbe:
    """Examines one process that has written nothing and is about to be killed."""

    def __init__(self, reactor: Reactor, pipe: LinePipe) -> None:
        self._reactor = reactor
        self._pipe = pipe
        self.output = reactor.waiter()
        """Settled with output of the process."""
        self._input_ended = False

    def ended(self) -> bool:
        """Note that the process, or its output, has ended. Returns whether that is explained by the end of its input."""
        if self._input_ended:
            self.output.settle(b"")
        return self._input_ended

    async def reason(self) -> str:
        """The reason why the process was silent, with advice."""
        if await self._listen(LISTEN):
            return LATE
        self.output = self._reactor.waiter()
        self._input_ended = True
        self._pipe.close_write()
        written = await self._listen(LISTEN_AT_END)
        if written is None:
            return SILENT
        if not written:
            return DEAF
        return UNFLUSHED if b'"id"' in written else ONE_SHOT

    async def _listen(self, seconds: float) -> bytes | None:
        """Returns the first output; empty if the process ended without any, None if nothing happened in time."""
        try:
            return bytes(await self.output.wait(self._reactor.now() + seconds))
        except TimeoutError:
            return None
