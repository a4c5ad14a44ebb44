"""Reads a record for `replay` and `trace`."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from ...cli import output, params as given
from ...cli.outcomes import shown
from ...model.stages import Stage
from ...wire.text import cut
from .reader import Record, RecordError

_ABOUT = 120
"""The most bytes of a question that are shown."""


@contextmanager
def opened(name: str) -> Iterator[Record]:
    """Open the record of this name, or standard input for `-`. Raises `typer.BadParameter` if it is damaged or no record."""
    descriptor = given.open_source(name)
    with os.fdopen(descriptor, "rb", closefd=descriptor > 0) as file:
        try:
            yield Record(file, given.shown_name(name))
        except RecordError as error:
            raise typer.BadParameter(str(error)) from None


def require_rereadable(name: str) -> None:
    """Raise `typer.BadParameter` for a pipe: a replay reads its record twice, the first time to check it."""
    if name == "-" or not stat.S_ISREG(os.stat(name).st_mode):
        raise typer.BadParameter(
            f"{given.shown_name(name)} can be read only once, and a replay reads a record twice: save it to a file first"
        )


def warn_of_end(record: Record, name: str) -> None:
    """Warn if the end of the record is missing."""
    if record.cut_off:
        output.warn(f"{given.shown_name(name)}: the last line is cut off, and is left out")
    if not record.closed:
        output.warn(f"{given.shown_name(name)}: the end is missing: the host was killed, or is still running")


def about(stage: Stage[Any], params: Mapping[str, Any]) -> str:
    """Returns a short form of a question."""
    if "tool" in params:
        text = f"{params['tool']} {shown(params.get('arguments', {}))}"
        if "result" in params:
            text = f"{params['tool']} → {_text(params['result'].get('for_llm', ''))}"
    elif stage.name in {"after_llm", "before_finish"}:
        text = _text(params.get("response", {}).get("content"))
    elif stage.name == "before_prompt":
        text = _text(params["prompt"])
    else:
        messages = params.get("messages", [])
        name = params.get("model") or params.get("scope") or ""
        last = _text(messages[-1].get("content")) if messages else ""
        count = f"{len(messages)} message{'' if len(messages) == 1 else 's'}"
        text = ", ".join(filter(None, (name, count, last)))
    short = cut(text, _ABOUT)
    return short if short == text else short + "…"


def _text(value: Any) -> str:
    return shown(value) if value not in (None, "") else "-"
