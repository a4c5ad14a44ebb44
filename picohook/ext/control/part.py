"""`Host(control=path)`: the control socket as a part of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine.part import Part
from .control import open_control

if TYPE_CHECKING:
    import os

    from ...host import Host


class ControlPart(Part):
    """Serves the control socket while the host runs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    async def open(self, host: Host) -> None:
        host.begin_task((await open_control(host, self._path, host.log)).run)
