"""Edits JSON files of other programs. Keeps their indent and mode, and a backup of each file's first version."""

from __future__ import annotations

import contextlib
import json
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
            return cls(path, text, json.loads(text), project)
        except RecursionError:
            raise PicohookError(f"{path} is nested too deeply") from None
        except ValueError as error:
            raise PicohookError(f"{path} is not JSON, maybe because of comments: {error}") from None

    @property
    def backup(self) -> Path:
        """The path of the backup."""
        return self.path.with_name(self.path.name + BACKUP)

    @contextlib.contextmanager
    def place(self) -> Iterator[written_files.Place]:
        """The place of the file, to change it. Raises `PicohookError`, also if it is no longer as it was read."""
        own = self.project is None
        try:
            with written_files.place(self.path, own=own, below=self.project, make=0o755) as place:
                if (place.read() or b"") != self.text.encode():
                    raise PicohookError(f"{self.path} changed after it was read: try again")
                yield place
        except OSError as error:
            raise PicohookError(f"{self.path} cannot be written: {error.strerror}") from None

    def write(self, document: Any, *, anew: bool = False) -> None:
        """Write a new document, and make the backup if there is none, or `anew`. Raises `PicohookError` if that fails."""
        indent = re.search(r"^([ \t]+)\"", self.text, re.MULTILINE)
        text = json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
        with self.place() as place:
            backup = place.beside(BACKUP)
            if self.text and (anew or backup.read() is None):
                backup.replace(self.text.encode(), mode=place.mode)
            place.replace(text.encode())
