"""The dialects: how each system writes its configuration. The native one is the core's, and extensions have the others."""

from pathlib import Path, PurePath
from typing import Any

from .. import extensions
from ..extension import Dialect, Lazy

NATIVE_NAMES = ("picohook.toml", "picohook.yaml", "picohook.json")
"""The names of native files that are found."""

NATIVE = Dialect(
    "picohook",
    is_meant=Lazy("picohook.config.native:is_meant"),
    read=Lazy("picohook.config.native:read"),
    user_files=NATIVE_NAMES,
    project_files=(*NATIVE_NAMES, *(f".picohook/{name}" for name in NATIVE_NAMES)),
)


def find(name: str) -> Dialect:
    """The dialect of this name."""
    found: Dialect = NATIVE if name == "native" else extensions.find("dialects", name)
    return found


def searched() -> dict[str, Dialect]:
    """The dialects whose files are searched, in the order of the search: the native one, and those of built-in extensions."""
    return {"native": NATIVE} | extensions.every_built_in("dialects")


def suffix_of(path: Path) -> str:
    """The suffix that says how a file is written: `.jsonc` for JSON in a directory of a dialect whose files have comments."""
    if path.suffix != ".json" or path.name in NATIVE_NAMES:
        return path.suffix  # without a look at the rows
    commented = (one for one in extensions.every_built_in("dialects").values() if one.has_comments)
    directories = {PurePath(file).parent.name for one in commented for file in one.project_files}
    return ".jsonc" if path.parent.name in directories else path.suffix


def name_of(document: dict[str, Any], path: Path) -> str:
    """The dialect of the document at a path. If several take it, the last one gets it. The native one takes the rest.

    Other packages are asked last, and not about a file with a native name: an installed package changes no such file's meaning.
    """
    is_native, has_native_name = NATIVE.is_meant.load()(document, path), path.name in NATIVE_NAMES
    if is_native and has_native_name:
        return "native"
    built_in = extensions.every_built_in("dialects")
    found = next((name for name, one in reversed(built_in.items()) if one.is_meant.load()(document, path)), "native")
    if found != "native" or is_native or has_native_name:
        return found
    others = {name: one for name, one in extensions.every("dialects").items() if name not in built_in}
    return next((name for name, one in others.items() if one.is_meant.load()(document, path)), "native")


def project_of(path: Path, dialect: str) -> Path:
    """The project of a file: its directory, or the one above if that directory is only for configuration."""
    dialects = (NATIVE,) if dialect == "native" else (*searched().values(), find(dialect))
    inner = {tuple(file.split("/")[:-1]) for one in dialects for file in one.project_files}
    depth = max(len(parts) for parts in inner if path.parent.parts[-len(parts) or len(path.parts) :] == parts)
    return path.parents[depth]
