"""Finds extensions: the built-in ones in `picohook/ext`, and those of other packages by the entry points `picohook.extensions`.

Built-in rows are read first. Entry points are read for a key that no built-in row has, because reading them takes longer.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import PicohookError
from .extension import Command, Dialect, Extension, HookKey, Keyword, Lazy, Option
from .wire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from importlib.metadata import EntryPoint

KEYED: Mapping[str, type] = {
    "kinds": Lazy,
    "hook_keys": HookKey,
    "tables": Lazy,
    "keywords": Keyword,
    "dialects": Dialect,
    "commands": Command,
    "options": Option,
    "schemas": Lazy,
}
"""The fields of a row whose keys are unique, and the type of their values."""
RESERVED: Mapping[str, frozenset[str]] = {
    "kinds": frozenset({"command", "run", "python"}),
    "tables": frozenset({"$schema", "defaults", "hooks"}),
    "keywords": frozenset(
        {"hooks", "path", "directory", "without", "required", "logger", "listeners", "parts", "timeouts"}
    )
    | {"verify", "retry_limit", "used_pauses", "pause_lasts", "watch"},
    "dialects": frozenset({"native"}),
}
"""The keys of the core, which no extension can have."""
GROUP = "picohook.extensions"
_FOLDER = os.path.join(os.path.dirname(__file__), "ext")


@dataclass(frozen=True, slots=True)
class Installed:
    """An extension, and the package that brings it."""

    row: Extension
    package: str
    """The name and the version of the package; empty for a built-in extension."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An extension of another package that cannot be used."""

    package: str
    why: str


def find(field: str, key: str) -> Any:
    """The value that an extension has for this key in this field of its row; None if no extension has it.

    Raises `PicohookError` if two packages have the key.
    """
    own = every_built_in(field)
    if key in own:
        return own[key]
    having = [one for one in others()[0] if key in getattr(one.row, field)]
    if len(having) > 1:
        packages = " and ".join(one.package for one in having)
        raise PicohookError(f"{packages} both have {key!r} as one of their {field}: uninstall one of them")
    return getattr(having[0].row, field)[key] if having else None


def conflicts() -> Iterator[str]:
    """Yields what `find` raises for each key that two packages have."""
    for field in KEYED:
        for key in {key: None for one in others()[0] for key in getattr(one.row, field)}:
            try:
                find(field, key)
            except PicohookError as error:
                yield str(error)


def hint(field: str, key: str) -> str:
    """The key of this field that was probably meant, and the packages that may have the key and cannot be used, in words."""
    from .wire.did_you_mean import nearest

    near = nearest(key, every(field))
    broken = "".join(f"; {one.package} may have it, and cannot be used: {one.why}" for one in others()[1])
    return (f": did you mean {near!r}?" if near else "") + broken


def every(field: str) -> dict[str, Any]:
    """All values of this field of all rows, by their keys. Raises as `find` does."""
    return {key: find(field, key) for one in usable() for key in getattr(one.row, field)}


@cache
def every_built_in(field: str) -> dict[str, Any]:
    """All values of this field of the built-in rows, by their keys."""
    return {key: value for one in built_in() for key, value in getattr(one.row, field).items()}


def usable() -> tuple[Installed, ...]:
    """All extensions that can be used, the built-in ones first."""
    return (*built_in(), *others()[0])


@cache
def built_in() -> tuple[Installed, ...]:
    """The extensions that picohook brings, in the order of their names."""
    if not os.path.isdir(_FOLDER):
        return ()
    names = sorted(entry.name for entry in os.scandir(_FOLDER) if entry.is_dir() and not entry.name.startswith("_"))
    return tuple(Installed(import_module(f".ext.{name}", __package__).extension, "") for name in names)


@cache
def others() -> tuple[tuple[Installed, ...], tuple[Broken, ...]]:
    """The extensions of other packages, and those that cannot be used."""
    from importlib.metadata import entry_points  # only a key that picohook lacks needs it

    found = [_load(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)]
    return (
        tuple(one for one in found if isinstance(one, Installed)),
        tuple(one for one in found if isinstance(one, Broken)),
    )


def _load(point: EntryPoint) -> Installed | Broken:
    package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    try:
        row = point.load()
    except Exception as error:  # a package can fail in any way, and other hosts do without it
        return Broken(package, f"{point.value} cannot be imported: {type(error).__name__}: {error}")
    wrong = next(mistakes(row, every_built_in), "")
    return Broken(package, wrong) if wrong else Installed(row, package)


def mistakes(row: object, taken: Callable[[str], Collection[str]] = lambda _: ()) -> Iterator[str]:
    """Yields why a row cannot be used, if it cannot. `taken` has the keys of a field that built-in extensions have."""
    if not isinstance(row, Extension):
        yield f"its entry point names a {type(row).__name__}, not a picohook.Extension"
        return
    if _version(row.needs) > _version(VERSION):
        yield f"it needs picohook {row.needs}, and this is {VERSION}: install a newer picohook"
    for field, kind in KEYED.items():
        for key, value in getattr(row, field).items():
            if key in RESERVED.get(field, ()) or key in taken(field):
                yield f"{field} has {key!r}, which picohook has itself"
            if field == "options" and not re.fullmatch(r"\S+ --\S+", key):
                yield f"options has {key!r}, which is not a command and its option, such as 'doctor --mutate'"
            if not isinstance(value, kind):
                yield f"{field}[{key!r}] is a {type(value).__name__}, not a picohook.{kind.__name__}"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
