"""`Host(otel=True)` and `--otel`: spans and metrics by the providers that the program has set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine.part import Part
from .listener import OpenTelemetry

if TYPE_CHECKING:
    from ...host import Host


class OtelPart(Part):
    """Traces and measures a host. Warns if nothing would be sent."""

    def __init__(self, _: object) -> None:
        self._listener = OpenTelemetry()
        self.listeners = [self._listener]

    async def open(self, host: Host) -> None:
        if not self._listener.is_set_up:
            host.log.warning(
                "OpenTelemetry is not set up, so nothing is sent", hint="opentelemetry-instrument sets it up"
            )
