"""The listeners of a command's host: OpenTelemetry, a recorder, and the raw lines on stderr."""

from pathlib import Path
from typing import Annotated

import typer

from ..engine.listener import Listener
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


def listeners(*, otel: bool = False, record: Path | None = None, wire: bool = False) -> list[Listener]:
    """Make the listeners that the options ask for."""
    made: list[Listener] = []
    if otel:
        made.append(_telemetry())
    if record is not None:
        from ..ext.record.recorder import Recorder  # only with --record

        made.append(Recorder(record, wire=wire))
    if wire:
        made.append(_RawLines())
    return made


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
