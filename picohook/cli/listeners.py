"""The listeners of a command's host: an audit log, OpenTelemetry, a recorder, and the raw lines on stderr."""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..config import Config
from ..engine.listener import Listener
from ..ext.audit.log import AuditLog
from ..ext.audit.logs import KEY, audit_logs
from ..protocol.raw_line import RawLine
from ..wire.text import cut
from . import output

Audit = Annotated[
    Path | None,
    typer.Option(
        "--audit",
        metavar="FILE",
        help="Keep an audit log there: questions, answers and decisions, without payloads.",
        show_default=False,
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--prometheus",
        metavar="[HOST:]PORT",
        help="Also answer GET /metrics there: on this machine alone unless HOST is given.",
        show_default=False,
    ),
]
Otel = Annotated[
    bool,
    typer.Option("--otel", help="Send traces and metrics with OpenTelemetry, as opentelemetry-instrument sets it up."),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Write all questions and answers there, for `picohook replay` and `trace`.",
        show_default=False,
    ),
]
Wire = Annotated[
    bool,
    typer.Option(
        "--wire",
        help="Show the raw lines on stderr: → to a hook's standard input, ← from its standard output."
        " With --record, they are recorded too.",
    ),
]
_SHOWN = 4000
"""The most bytes of a raw line that are shown."""


@contextlib.contextmanager
def listeners(
    files: Sequence[Config],
    *,
    audit: Path | None = None,
    otel: bool = False,
    record: Path | None = None,
    wire: bool = False,
) -> Iterator[list[Listener]]:
    """Make the listeners that the configuration files and the options ask for. Report failures of audit logs at the end."""
    logs = audit_logs(files, audit)
    made: list[Listener] = [*logs]
    if otel:
        made.append(_telemetry())
    if record is not None:
        from ..ext.record.recorder import Recorder  # only with --record

        made.append(Recorder(record, wire=wire))
    if wire:
        made.append(_RawLines())
    try:
        yield made
    finally:
        for log in logs:
            _report(log)


def hide_key() -> None:
    """Remove the key of audit logs from the environment, so that no hook inherits it. The logs have read it."""
    os.environ.pop(KEY, None)


class _RawLines(Listener):
    """Shows each line when it is sent or received."""

    wants_lines = True

    def line(self, line: RawLine) -> None:
        show_line(line)


def show_line(line: RawLine) -> None:
    """Print a raw line on stderr."""
    text = cut(line.shown, _SHOWN)
    output.note(text if text == line.shown else f"{text}… ({line.size} bytes)")


def _telemetry() -> Listener:
    from ..ext.otel.listener import OpenTelemetry  # an extra

    made = OpenTelemetry()
    if not made.is_set_up:
        output.warn("--otel: OpenTelemetry is not set up, so nothing is sent (opentelemetry-instrument sets it up)")
    return made


def _report(log: AuditLog) -> None:
    if log.failures:
        output.warn(f"{log.failures} records could not be written to the audit log {log.path}")
    logging.getLogger("picohook").info("audit log %s: %d records, head %s", log.path, log.records, log.head)
