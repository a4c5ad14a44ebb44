"""Edits JSON files of other programs. Keeps their indent and mode, and a backup of each file's first version."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import PicohookError
from ..wire import written_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

BACKUP = ".before-picohook"


class JsonFile(NamedTuple):
    """A JSON file as it was read."""

    path: Path
    """The file itself. Links of the user are followed."""
    text: str
    """The text of the file; empty if there is no file."""
    document: Any
    project: Path | None
    """The project in which it lies; None for a file of the user's own."""

    @classmethod
    def read(cls, path: Path, *, missing: Any, project: Path | None = None) -> Self:
        """Read a file. Without a file, the document is `missing`. Raises `PicohookError` if this fails."""
        if project is None:
            path = Path(os.path.realpath(path))
        try:
            with written_files.place(path, own=project is None, below=project) as place:
                data = place.read()
        except FileNotFoundError:
            data = None
        except OSError as error:
            raise PicohookError(f"{path} cannot be read: {error.strerror}") from None
        if data is None:
            return cls(path, "", missing, project)
        try:
            text = data.decode()
            # An edit copies the document, which takes more of the stack than reading it.
            return cls(path, text, copy.deepcopy(decoded(text)), project)
        except RecursionError:
            raise PicohookError(f"{path} is nested too deeply") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise PicohookError(f"{path} is not JSON, maybe because of comments: {error}") from None
        except ValueError as error:
            raise PicohookError(f"{path} cannot be edited: {error}") from None

    @property
    def backup(self) -> Path:
        """The path of the backup."""
        return self.path.with_name(self.path.name + BACKUP)

    @contextlib.contextmanager
    def place(self) -> Iterator[written_files.Place]:
        """The place of the file, to change it. Raises `PicohookError`, also if the file has changed since."""
        own = self.project is None
        try:
            with written_files.place(self.path, own=own, below=self.project, make=0o755) as place:
                if (place.read() or b"") != self.text.encode():
                    raise PicohookError(f"{self.path} changed after it was read: try again")
                yield place
        except OSError as error:
            raise PicohookError(f"{self.path} cannot be written: {error.strerror}") from None

    def write(self, document: Any, *, keep: bool = False) -> None:
        """Write a new document. With `keep`, make the backup first. Raises `PicohookError` if that fails."""
        indent = re.search(r"^([ \t]+)\"", self.text, re.MULTILINE)
        text = encoded(document, indent[1] if indent else 2) + "\n"
        with self.place() as place:
            if self.text and keep:
                place.beside(BACKUP).replace(self.text.encode(), mode=place.mode)
            place.replace(text.encode())


def decoded(text: str) -> Any:
    """The value of a JSON text that is written again later. Raises `ValueError` for one that would then be another value."""
    return json.loads(text, parse_constant=_refused, parse_float=_finite, object_pairs_hook=_table)


def encoded(value: Any, indent: str | int) -> str:
    """Returns a value as JSON. Half of a surrogate pair, which has no bytes, stays an escape."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


def _refused(literal: str) -> Any:
    raise ValueError(f"{literal} is not a number that can be written again: correct it")


def _finite(literal: str) -> float:
    number = float(literal)
    return number if math.isfinite(number) else _refused(literal)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"it has the key {next(filter(lambda name: names.count(name) > 1, names))!r} twice: keep one of them"
        )
    return table
