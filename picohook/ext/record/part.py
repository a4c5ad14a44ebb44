"""`Host(record=path)` and `--record`, `Host(wire=True)` and `--wire`: what passes between a host and its hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine.listener import Listener
from ...engine.part import Part
from .recorder import Recorder

if TYPE_CHECKING:
    import os

    from ...host import Host
    from ...protocol.raw_line import RawLine


class RecordPart(Part):
    """A record of the host, with the raw lines if these are shown, too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._recorder = Recorder(path)
        self.listeners = [self._recorder]

    async def open(self, host: Host) -> None:
        self._recorder.wants_lines = host.parts.find(WirePart) is not None


class WirePart(Part):
    """Shows the raw lines of each process on stderr."""

    def __init__(self, _: object) -> None:
        self.listeners = [_RawLines()]


class _RawLines(Listener):
    wants_lines = True

    def line(self, line: RawLine) -> None:
        from ...cli.output import show_line  # needs the extra `cli`

        show_line(line)
