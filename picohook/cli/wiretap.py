"""`--wire`: the raw lines of the hooks' processes."""

from ..listeners.listener import Listener
from ..protocol.raw_line import RawLine
from ..wire.text import cut
from . import output

SHOWN = 4000
"""Bytes of a line that are shown."""


class Wiretap(Listener):
    """Shows each line when it goes or comes."""

    wants_lines = True

    def line(self, line: RawLine) -> None:
        show(line)


def show(line: RawLine) -> None:
    """Print a raw line on stderr."""
    text = cut(line.shown, SHOWN)
    output.note(text if text == line.shown else f"{text}… ({line.size} bytes)")
