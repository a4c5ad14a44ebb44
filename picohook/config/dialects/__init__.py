"""The dialects: how each system writes its configuration. A dialect is a file here, and an entry in `DIALECTS`.

The dialects of other agents' hook files have an entry in `foreign/vendors.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ext.jcli import dialect as jcli
from ...ext.picoclaw import dialect as picoclaw
from ...ext.vendors.files.named_files import read_foreign
from ...ext.vendors.files.vendors import VENDOR_FILES
from .. import native

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..document import Config
    from ..problems import Problems


class Dialect(NamedTuple):
    """How one system writes its configuration."""

    title: str
    """The system's name, for people."""
    is_meant: Callable[[dict[str, Any], Path], bool]
    """Whether a document at this path is in this dialect."""
    read: Callable[[dict[str, Any], Problems, Config], Config]
    """Returns the configuration with the hooks and settings of the document. Adds every mistake to the problems."""
    section: str = ""
    """The one top-level key that is read, if the rest of the file belongs to another program."""
    user_files: tuple[str, ...] = ()
    """Paths of the user's own file: relative to picohook's own directory, absolute, or from `~`."""
    project_files: tuple[str, ...] = ()
    """Paths of a project's file, relative to the project."""
    all_apply: bool = False
    """Whether all of these files apply together. Otherwise, at most one of the user's may exist, and one of a project's."""


DIALECTS: dict[str, Dialect] = {
    "native": Dialect(
        "picohook",
        lambda _document, _path: True,
        native.read,
        user_files=native.NAMES,
        project_files=(*native.NAMES, *(f".picohook/{name}" for name in native.NAMES)),
    ),
    "picoclaw": Dialect(
        "PicoClaw", lambda document, _: picoclaw.section(document) is not None, picoclaw.read, section="hooks"
    ),
    "jcli": Dialect(
        "j-cli",
        lambda document, _: jcli.is_meant(document),
        jcli.read,
        user_files=("~/.jdata/agent/hooks.yaml",),
        project_files=(".jcli/hooks.yaml",),
    ),
    **{
        name: Dialect(
            files.title,
            files.is_meant,
            functools.partial(read_foreign, name),
            section="hooks",
            user_files=files.user_files,
            project_files=files.project_files,
            all_apply=True,
        )
        for name, files in VENDOR_FILES.items()
    },
}
"""The first dialect takes every document that no later one takes. Files are searched, and their hooks asked, in this order."""


def name_of(document: dict[str, Any], path: Path) -> str:
    """The dialect of the document at a path."""
    return next(name for name, dialect in reversed(DIALECTS.items()) if dialect.is_meant(document, path))


def project_of(path: Path) -> Path:
    """The project of a file: its directory, or the one above if that directory is only for configuration."""
    inner = {tuple(file.split("/")[:-1]) for dialect in DIALECTS.values() for file in dialect.project_files}
    depth = max(len(parts) for parts in inner if path.parent.parts[-len(parts) or len(path.parts) :] == parts)
    return path.parents[depth]
