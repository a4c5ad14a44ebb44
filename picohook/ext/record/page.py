"""Writes a timeline as a page: one file that asks nothing of any other, and in which no text of a call can act."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...cli import outcomes
from ...errors import PicohookError
from ...wire.text import escape
from ..history.redact import redacted
from .recorder import open_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from .timeline import Item, Row

Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page for a browser there.")]
Full = Annotated[bool, typer.Option("--full", help="With --html: long texts are not cut.")]

BEGINNING = b"<!doctype html>\n<"
_MOST = 240
"""The characters of a text that are shown without `--full`."""
_ABOVE = frozenset({"tool", "tool_call_id", "meta"})
"""The fields of a question that its line shows already, or that say nothing of the call."""
_BEYOND = 2000
"""The characters after them in which the rest of a secret is looked for."""


@contextmanager
def page(path: Path, title: str, *, full: bool = False) -> Iterator[Page]:
    """Write a page to which the block adds items, and notes that are shown above them. Only the owner may read it.

    An existing page is replaced, and no other file. Raises `PicohookError` if the file cannot be written.
    """
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", template, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        template = template.replace(f"'{kind}-digest'", f"'sha256-{digest}'")
    begin, end = template.split("[/*items*/]")
    try:
        with os.fdopen(open_record(os.fspath(path), BEGINNING, "a page of picohook"), "wb") as file:
            file.write(begin.encode() + b"[\n")
            made = Page(file, full=full)
            yield made
            file.write(_json(redacted({"title": title, **made.notes})) + b"]" + end.encode())
    except OSError as error:
        raise PicohookError(f"{escape(os.fspath(path))} cannot be written: {error.strerror}") from None


class Page:
    """A page that is being written."""

    def __init__(self, file: BinaryIO, *, full: bool) -> None:
        self.notes: dict[str, str] = {}
        self._file = file
        self._full = full
        self._last = ""

    def add(self, item: Item) -> None:
        """Add an item."""
        values, self._last = _item(item, self._last, full=self._full)
        self._file.write(_json(values) + b",\n")


def _json(value: Any) -> bytes:
    """Returns JSON in ASCII without a character that means something in HTML."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode()


def _item(item: Item, last: str, *, full: bool) -> tuple[list[Any], str]:
    """Returns an item without what is empty at its end, and what it is about: 0 stands for what the `last` one is about."""

    def shown(value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(redacted(value), ensure_ascii=False)
        if full or len(text) <= _MOST:
            return str(redacted(text))
        return f"{redacted(text[: _MOST + _BEYOND])[:_MOST]}… ({len(text):,} characters)"

    def row(one: Row) -> list[Any]:
        changes = [shown(change) for change in one.changes]
        more = [[name, shown(value)] for name, value in one.more.items()]
        return _trimmed([one.hook, one.action, _ms(one.seconds), shown(one.text), changes, more, one.when])

    about, asked, tool = shown(item.about), item.asked, ""
    if isinstance(asked, dict):
        tool = str(asked.get("tool", ""))
        asked = asked.get("result") or asked  # the call is in the items before its result
        asked = {name: value for name, value in asked.items() if value and name not in _ABOVE}
        if not item.verdict:  # an event, without what is empty
            about = shown(outcomes.shown(asked))
        if not item.verdict or (asked.keys() <= {"arguments", "for_llm"} and not item.about.endswith("…")):
            asked = None  # its line says all
    values = [
        item.number,
        item.at,
        item.name,
        tool,
        0 if about and about == last else about,
        item.verdict,
        shown(item.why),
        _ms(item.seconds),
        [row(one) for one in item.rows],
        shown(asked) if asked else "",
        item.label,
        [[name, shown(text)] for name, text in item.facts],
    ]
    return _trimmed(values), about


def _trimmed(values: list[Any]) -> list[Any]:
    while values and values[-1] in ("", None, []):
        values.pop()
    return values


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)
