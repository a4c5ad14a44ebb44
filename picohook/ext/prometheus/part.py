"""`Host(prometheus="[HOST:]PORT")` and `--prometheus`: the endpoint as a part of a host."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ...engine.part import Part
from .endpoint import metrics_endpoint

if TYPE_CHECKING:
    from ...host import Host


class PrometheusPart(Part):
    """Answers `GET /metrics` while the host runs."""

    def __init__(self, where: str | int) -> None:
        self._where = str(where)
        self._opened = AsyncExitStack()

    async def open(self, host: Host) -> None:
        await self._opened.enter_async_context(metrics_endpoint(host, self._where))

    async def aclose(self) -> None:
        await self._opened.aclose()
