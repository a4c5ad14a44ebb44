"""Who looks on while a command runs hooks: an audit log, OpenTelemetry, a recorder."""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import output

if TYPE_CHECKING:
    from ..config import Config
    from ..listeners.audit import AuditLog
    from ..listeners.listener import Listener

Audit = Annotated[
    Path | None,
    typer.Option(
        "--audit",
        metavar="FILE",
        help="Keep an audit log there: what is asked, said and concluded, without payloads.",
        show_default=False,
    ),
]
Otel = Annotated[
    bool, typer.Option("--otel", help="Trace and measure with OpenTelemetry, as opentelemetry-instrument sets it up.")
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Write down all that is asked and answered, for `picohook replay` and `trace`.",
        show_default=False,
    ),
]


Wire = Annotated[
    bool,
    typer.Option(
        "--wire",
        help="Show the raw lines on stderr: → what goes to a hook's standard input, ← what comes from its output."
        " With --record, the record has them too.",
    ),
]


@contextlib.contextmanager
def listeners(
    files: "Sequence[Config]",
    *,
    audit: Path | None = None,
    otel: bool = False,
    record: Path | None = None,
    wire: bool = False,
) -> Iterator["list[Listener]"]:
    """Those that these files and the options ask for; how a log went is said at the end."""
    from ..config.audit_logs import audit_logs  # noqa: PLC0415 - most commands start nothing

    logs = audit_logs(files, audit)
    seen_by: list[Listener] = [*logs]
    if otel:
        seen_by.append(_telemetry())
    if record is not None:
        from ..record.recorder import Recorder  # noqa: PLC0415 - few commands write one

        seen_by.append(Recorder(record, wire=wire))
    if wire:
        from .wiretap import Wiretap  # noqa: PLC0415 - likewise

        seen_by.append(Wiretap())
    try:
        yield seen_by
    finally:
        for log in logs:
            _say_how_it_went(log)


def hide_key() -> None:
    """Take the key of audit logs, which have it by now, out of the environment: it is no hook's business."""
    from ..config.audit_logs import KEY  # noqa: PLC0415 - most commands start nothing

    os.environ.pop(KEY, None)


def _telemetry() -> "Listener":
    from ..listeners.otel import OpenTelemetry  # noqa: PLC0415 - an extra

    made = OpenTelemetry()
    if not made.is_set_up:
        output.warn("--otel: nothing sets up OpenTelemetry here, so nothing is sent (opentelemetry-instrument does)")
    return made


def _say_how_it_went(log: "AuditLog") -> None:
    if log.failures:
        output.warn(f"{log.failures} records could not be written to the audit log {log.path}")
    logging.getLogger("picohook").info("audit log %s: %d records, head %s", log.path, log.records, log.head)
