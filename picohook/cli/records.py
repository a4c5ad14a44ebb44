"""What the commands that read a record have in common."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from ..model.stages import Stage
from ..record.reader import Record, RecordError
from ..wire.text import cut
from . import given, output
from .outcomes import shown

_ABOUT = 120
"""Bytes of what a question is about that people see."""


@contextmanager
def opened(name: str) -> Iterator[Record]:
    """The record of this name, or of standard input for `-`. One that is none, or damaged, is wrong usage."""
    descriptor = given.open_source(name)
    with os.fdopen(descriptor, "rb", closefd=descriptor > 0) as file:
        try:
            yield Record(file, shown_name(name))
        except RecordError as error:
            raise typer.BadParameter(str(error)) from None


def shown_name(name: str) -> str:
    """The name, in messages."""
    return "standard input" if name == "-" else name


def require_rereadable(name: str) -> None:
    """A replay reads its record twice: once to see that it is whole, before anything is started."""
    if name == "-" or not stat.S_ISREG(os.stat(name).st_mode):
        raise typer.BadParameter(
            f"{shown_name(name)} can be read once only, and a replay reads it twice: save it first"
        )


def warn_of_end(record: Record, name: str) -> None:
    """Say what of a record is not there."""
    if record.cut_off:
        output.warn(f"{shown_name(name)}: the last line is cut off, and left out")
    if not record.closed:
        output.warn(f"{shown_name(name)}: it has no end: the host was killed, or still runs")


def about(stage: Stage[Any], params: Mapping[str, Any]) -> str:
    """What a question is about, in few words."""
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
