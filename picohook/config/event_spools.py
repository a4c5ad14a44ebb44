"""Makes the listeners that send events over NATS."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ..listeners.events import SpooledEvents
from ..observe.log import Log
from ..record.recorder import SpooledRecord
from .audit_logs import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..listeners.audit import AuditLog
    from ..listeners.listener import Listener
    from ..observe.log import Logger
    from .document import Config


def spooled_events(
    configs: Iterable[Config], audit_logs: Sequence[AuditLog], logger: Logger | None = None
) -> list[Listener]:
    """Returns a listener for each configuration that asks for events. What it drops is written to the audit logs."""
    made: list[Listener] = []
    for config in configs:
        if (table := config.events) is None or config.nats is None:
            continue
        from ..transport.nats.publisher import EventPublisher  # noqa: PLC0415 - an extra

        publisher = EventPublisher(
            config.nats, Log(logger), host=config.nats.host or socket.gethostname(), stream=table.stream
        )
        events = SpooledEvents(
            table.spool or _default_directory(config.nats.tenant),
            most=table.max_size,
            sync=table.sync,
            payloads=table.payloads,
            key=os.environ.get(KEY, "").encode(),
            audit_logs=audit_logs,
            sender=publisher,
            logger=logger,
        )
        made.append(events)
        if table.record:
            made.append(SpooledRecord(events))
    return made


def _default_directory(tenant: str) -> str:
    import platformdirs  # noqa: PLC0415 - only where no directory is named

    from ..transport.nats.subjects import token  # noqa: PLC0415

    return str(platformdirs.user_state_path("picohook") / "events" / token(tenant))
