"""Writes counts and times into a file, in Prometheus' text format: `picohook run --prometheus FILE`."""

import typer

from ...cli import output
from ...engine.status import HostStatus
from ...errors import PicohookError
from ...wire import written_files
from ...wire.text import escape
from .metrics import prometheus


def write_at_end(context: typer.Context, path: str) -> None:
    """Let the command write the status that it leaves in its context: to stdout for `-`, otherwise to a file in one step."""
    context.call_on_close(lambda: _write(context.obj, path))


def _write(status: HostStatus | None, path: str) -> None:
    if status is None:  # the command has failed
        return
    text = prometheus(status.wire())
    if path == "-":
        output.verbatim("\n".join(map(escape, text.rstrip("\n").split("\n"))))
        return
    try:
        with written_files.replaced(path, mode=0o644) as file:  # readable for the program that collects it
            file.write(text.encode())
    except OSError as error:
        raise PicohookError(f"{escape(path)} cannot be written: {error.strerror}") from None
