"""Writes the entries of `picohook shim` into the hook file of a vendor's agent, and removes them again."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....cli.json_files import BACKUP, decoded
from ....config import user_places
from ....errors import PicohookError
from .. import shim_entry
from . import client

if TYPE_CHECKING:
    from ....cli.json_files import JsonFile
    from .vendor import VendorAgent

SHORTER = 10.0
"""By how many seconds, at most, the client's time limit is shorter than the vendor's."""
_COMMANDS = ("command", "bash")


def hook_file(vendor: VendorAgent, project: Path | None) -> Path:
    """The vendor's hook file: that of a project, or the user's own. Raises `ConfigError`."""
    if project is not None:
        return project / vendor.project_file
    moved = os.environ.get(vendor.home) if vendor.home else None
    if moved:
        return Path(moved, *Path(vendor.user_file).parts[2:])
    return user_places.expanded(vendor.user_file)


def put_in(file: JsonFile, name: str, vendor: VendorAgent, timeout: float, config: Path | None) -> bool:
    """Write an entry for each event after the user's own. Returns whether the file has changed. Raises `PicohookError`."""
    document = _without(file, vendor)
    hooks = document.setdefault("hooks", {})
    for event, entry in vendor.events.items():
        seconds = min(timeout, entry.longest)
        time_limit = max(seconds - SHORTER, seconds * 0.75)
        about = [name, event, entry.on_failure, f"{time_limit:g}", *([str(config.absolute())] if config else [])]
        own = [sys.executable, "-I", "-S", client.__file__]
        program = own if file.project is None else shim_entry.ANYWHERE
        command = shim_entry.shim_command(program, about, 1 if entry.on_failure == "pass" else 2)
        shown = int(seconds) if seconds.is_integer() else seconds
        hooks.setdefault(event, []).append(vendor.entry(event, entry, command, shown))
    if document == file.document:
        return False
    file.write(document, keep=_without(file, vendor) == file.document)
    return True


def take_out(file: JsonFile, vendor: VendorAgent) -> bool:
    """Remove the entries. Returns whether there were any. Raises `PicohookError`.

    If nothing else has changed since, this restores the file byte for byte, or removes it if there was none.
    """
    document = _without(file, vendor)
    if document == file.document:
        return False
    with file.place() as place:
        backup = place.beside(BACKUP)
        before = backup.read()
        try:
            restored = before is not None and _filled(decoded(before.decode())) == _filled(document)
        except ValueError as error:
            raise PicohookError(f"{file.path} cannot be restored: {error}") from None
        if restored and before is not None:
            place.replace(before)
            backup.remove()
            return True
        if before is None and _filled(document) == dict(vendor.file):
            place.remove()
            return True
    file.write(document)
    return True


def _without(file: JsonFile, vendor: VendorAgent) -> dict[str, Any]:
    """The document without the entries of the shim. Raises `PicohookError` if it is not a hook file."""
    document: Any = copy.deepcopy(file.document)
    hooks = document.setdefault("hooks", {}) if isinstance(document, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise PicohookError(
            f"{file.path} is not a hook file of {vendor.title}: `hooks` has to be a table with a list for each event"
        )
    for event, entries in list(hooks.items()):
        left = [entry for entry in map(_entry_without, entries) if entry is not None]
        if left != entries:
            hooks[event] = left
            if not left:
                del hooks[event]
    if not hooks and "hooks" not in file.document:
        del document["hooks"]
    return dict(document)


def _entry_without(entry: Any) -> Any:
    """The entry without the shim; None if nothing is left."""
    if not isinstance(entry, dict):
        return entry
    if any(shim_entry.is_shim(entry.get(name)) for name in _COMMANDS):
        return None
    handlers = entry.get("hooks")
    if not isinstance(handlers, list):
        return entry
    left = [handler for handler in handlers if not _is_own(handler)]
    if len(left) == len(handlers):
        return entry
    return {**entry, "hooks": left} if left else None


def _is_own(handler: Any) -> bool:
    return isinstance(handler, dict) and any(shim_entry.is_shim(handler.get(name)) for name in _COMMANDS)


def _filled(document: Any) -> Any:
    """A hook file without events that have no entry."""
    if not isinstance(document, dict):
        return document
    hooks = document.get("hooks")
    filled = {event: entries for event, entries in hooks.items() if entries} if isinstance(hooks, dict) else hooks
    return {
        **{key: value for key, value in document.items() if key != "hooks"},
        **({"hooks": filled} if filled else {}),
    }
