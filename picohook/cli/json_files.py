"""Edits JSON files of other programs. Keeps their indent and mode, and a backup of each file's first version."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config import files
from ..errors import PicohookError

if TYPE_CHECKING:
    from typing import Self

BACKUP = ".before-picohook"


class JsonFile(NamedTuple):
    """A JSON file as it was read."""

    path: Path
    """The file itself, with links followed."""
    text: str
    """The text of the file; empty if there is no file."""
    document: Any

    @classmethod
    def read(cls, path: Path, *, missing: Any = None) -> Self:
        """Read a file. Without a file, the document is `missing`, if given. Raises `PicohookError` if this fails."""
        path = Path(os.path.realpath(path))
        try:
            text = path.read_text(encoding="utf-8")
            return cls(path, text, json.loads(text))
        except FileNotFoundError:
            if missing is None:
                raise PicohookError(f"{path} cannot be read: there is no such file") from None
            return cls(path, "", missing)
        except OSError as error:
            raise PicohookError(f"{path} cannot be read: {error.strerror}") from None
        except RecursionError:
            raise PicohookError(f"{path} is nested too deeply") from None
        except ValueError as error:
            raise PicohookError(f"{path} is not JSON, maybe because of comments: {error}") from None

    @property
    def backup(self) -> Path:
        """The path of the backup."""
        return self.path.with_name(self.path.name + BACKUP)

    def write(self, document: Any, *, anew: bool = False) -> None:
        """Write a new document, and make the backup if there is none, or `anew`. Raises `PicohookError` if that fails."""
        indent = re.search(r"^([ \t]+)\"", self.text, re.MULTILINE)
        text = json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
        if self.text:
            self._keep(anew=anew)
            mode = stat.S_IMODE(self.path.stat().st_mode)
        else:
            mode = 0o644
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise PicohookError(f"{self.path.parent} cannot be made: {error.strerror}") from None
        files.write(self.path, text, mode=mode)

    def _keep(self, *, anew: bool) -> None:
        try:
            if anew or not self.backup.exists():
                shutil.copy2(self.path, self.backup)
        except OSError as error:
            raise PicohookError(f"{self.backup} cannot be written: {error.strerror}") from None
