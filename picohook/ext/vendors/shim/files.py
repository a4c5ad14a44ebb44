"""Writes the entries of `picohook shim` into the hook file of a vendor's agent, and removes them again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....cli.settings_files import JsonText, SettingsFile, decoded, encoded, understood
from ....config import dialects, syntax, user_places
from ....errors import PicohookError
from .. import shim_entry
from . import client
from .telling import entry

if TYPE_CHECKING:
    from ..vendor import Vendor

BACKUP = ".before-picohook"
SHORTER = 10.0
"""By how many seconds, at most, the client's time limit is shorter than the vendor's."""
_COMMANDS = ("command", "bash")


def hook_file(vendor: Vendor, project: Path | None) -> Path:
    """The vendor's hook file: that of a project, or the user's own. Raises `ConfigError`."""
    if project is not None:
        return project / vendor.shim.project_file
    moved = os.environ.get(vendor.shim.home) if vendor.shim.home else None
    if moved:
        return Path(moved, *Path(vendor.shim.user_file).parts[2:])
    return user_places.expanded(vendor.shim.user_file)


class HookFile:
    """The hook file of a vendor's agent."""

    def __init__(self, path: Path, vendor: Vendor, project: Path | None = None) -> None:
        """Read the file of a project, or the user's own. Raises `PicohookError`, also if it cannot be edited."""
        self.vendor = vendor
        self._project = project
        self._file = SettingsFile(path, BACKUP, own=project is None, below=project)
        self.path, self.backup = self._file.path, self._file.backup
        self._commented = dialects.suffix_of(path) == ".jsonc"
        data = self._file.data or f"{encoded(dict(vendor.shim.file), '  ')}\n".encode()
        self._json, self._hooks = self._parsed(self.path, data)
        self.document: dict[str, Any] = self._json.document

    def put_in(self, name: str, timeout: float, config: Path | None) -> bool:
        """Write an entry for each event after the user's own. Returns whether the file has changed. Raises `PicohookError`."""
        own = _without(self._hooks)
        hooks = dict(own)
        for event, row in self.vendor.asked.items():
            seconds = min(timeout, row.longest)
            time_limit = max(seconds - SHORTER, seconds * 0.75)
            about = [name, event, row.on_failure, f"{time_limit:g}", *([str(config.absolute())] if config else [])]
            program = [sys.executable, "-I", "-S", client.__file__] if self._project is None else shim_entry.ANYWHERE
            command = shim_entry.shim_command(program, about, 1 if row.on_failure == "pass" else 2)
            hooks[event] = [*own.get(event, []), entry(self.vendor, event, command, seconds)]
        if hooks == self._hooks:
            return False
        clean = self._file.data if own == self._hooks else None
        self._write(hooks, clean or self._file.before)
        return True

    def take_out(self) -> bool:
        """Remove the entries. Returns whether there were any. Raises `PicohookError`.

        If nothing else has changed since, this restores the file byte for byte, or removes it if there was none.
        """
        own, before = _without(self._hooks), self._file.before
        if own == self._hooks:
            return False
        first, comments = {**self.vendor.shim.file, "hooks": {}}, []
        if before is not None:
            was, hooks = self._parsed(self.backup, before)
            first, comments = {**was.document, "hooks": hooks}, was.comments()
        if {**self.document, "hooks": own} == first and self._json.comments() == comments:
            self._file.write(before, None)
        else:
            self._write(own, before)
        return True

    def _write(self, hooks: dict[str, Any], before: bytes | None) -> None:
        with understood(self.path, "JSON"):
            text = self._json.with_member("hooks", hooks)
        self._file.write(text.encode(), before)

    def _parsed(self, path: Path, data: bytes) -> tuple[JsonText, dict[str, list[Any]]]:
        """The text of a hook file, and its events that have entries. Raises `PicohookError` if it cannot be edited."""
        with understood(path, "JSON" if self._commented else "JSON, maybe because of comments"):
            text = JsonText(data.decode())
            document = decoded(syntax.without_comments(text.text) if self._commented else text.text)
        hooks = document.get("hooks", {}) if isinstance(document, dict) else None
        if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
            raise PicohookError(
                f"{path} is not a hook file of {self.vendor.agent}: `hooks` has to be a table with a list for each event"
            )
        return text, {event: entries for event, entries in hooks.items() if entries}


def _without(hooks: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The events that have entries without the shim, and these entries."""
    return {event: left for event, entries in hooks.items() if (left := _left(entries))}


def _left(entries: list[Any]) -> list[Any]:
    """The entries without the shim's own, and without the groups in which nothing else is left."""
    left = []
    for one in entries:
        handlers = one.get("hooks") if isinstance(one, dict) else None
        others = _left(handlers) if isinstance(handlers, list) else handlers
        if _is_own(one) or (handlers and not others):
            continue
        left.append(one if others == handlers else {**one, "hooks": others})
    return left


def _is_own(entry: Any) -> bool:
    return isinstance(entry, dict) and any(shim_entry.is_shim(entry.get(name)) for name in _COMMANDS)
