"""The dialects: how each system writes its configuration. A dialect is a file here, and an entry in `DIALECTS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import jcli, native, picoclaw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..document import Config
    from ..problems import Problems


class Dialect(NamedTuple):
    """How one system writes its configuration."""

    title: str
    """The system's name, for people."""
    is_meant: Callable[[dict[str, Any]], bool]
    """Whether a document is in this dialect."""
    read: Callable[[dict[str, Any], Problems, Config], Config]
    """The configuration with the hooks and settings of the document. Adds every mistake to the problems."""
    section: str = ""
    """The one top-level key that is read, if the rest of the file belongs to another program."""
    user_files: tuple[str, ...] = ()
    """Paths of the user's own file: relative to picohook's own directory, absolute, or from `~`. At most one may exist."""
    project_files: tuple[str, ...] = ()
    """Paths of a project's file, relative to the project. At most one may exist."""


DIALECTS = {
    "native": Dialect(
        "picohook",
        lambda _: True,
        native.read,
        user_files=native.NAMES,
        project_files=(*native.NAMES, *(f".picohook/{name}" for name in native.NAMES)),
    ),
    "picoclaw": Dialect(
        "PicoClaw", lambda document: picoclaw.section(document) is not None, picoclaw.read, section="hooks"
    ),
    "jcli": Dialect(
        "j-cli",
        jcli.is_meant,
        jcli.read,
        user_files=("~/.jdata/agent/hooks.yaml",),
        project_files=(".jcli/hooks.yaml",),
    ),
}
"""The first dialect takes every document that no later one takes. Files are found, and their hooks asked, in this order."""


def name_of(document: dict[str, Any]) -> str:
    """The dialect that a document is in."""
    return next(name for name, dialect in reversed(DIALECTS.items()) if dialect.is_meant(document))


def project_of(path: Path) -> Path:
    """The project that a file is for: its directory, or the one above if its directory is only for configuration."""
    inner = {file.split("/")[0] for dialect in DIALECTS.values() for file in dialect.project_files if "/" in file}
    return path.parent.parent if path.parent.name in inner else path.parent
