"""One file, from its path to hooks that can be started."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import ConfigError, Problem
from ..wire.text import escape
from .problems import Problems, meant, quoted

if TYPE_CHECKING:
    from ..model.spec import HookSpec, Timeouts
    from .dialects.native import Audit, Model
    from .hooks import PicoClaw

NAMES = ("picohook.toml", "picohook.yaml", "picohook.json")
DIRECTORIES = (".picohook", ".jcli")
"""What a project may keep its configuration in."""


@dataclass(frozen=True, slots=True)
class Config:
    """What a configuration file says."""

    path: Path
    """The file, absolute, in its real directory."""
    dialect: Literal["native", "picoclaw", "jcli"]
    hooks: tuple[HookSpec, ...]
    """The enabled ones, in the order of the file, with `defaults` folded in and an absolute `dir`."""
    timeouts: Timeouts
    """For what a hook does not set itself."""
    digest: str
    """SHA-256 of the bytes that this was read from."""
    found: bool = False
    """It was found by looking, not named by anybody: it needs trust."""
    enabled: bool = True
    """False where PicoClaw's `hooks.enabled` is: then there are no hooks."""
    warnings: tuple[str, ...] = ()
    """What it says in vain, as far as the file itself shows."""
    layer: Literal["user", "project"] | None = None
    """Where it applies, if it was found and not named."""
    audit: Audit | None = None
    """The audit log that it wants kept, at an absolute path."""
    model: Model | None = None
    """The model that its prompt hooks ask, if it names one."""
    picoclaw: PicoClaw | None = None
    """The version of PicoClaw that its hooks run as with; none: the file is not PicoClaw's, and names none."""

    @property
    def configs(self) -> tuple[Config, ...]:
        """It alone: where one is read, layers may be too."""
        return (self,)

    @property
    def project(self) -> Path:
        """The directory whose configuration this is."""
        return _project(self.path.parent)


def _project(here: Path) -> Path:
    return here.parent if here.name in DIRECTORIES else here


def find(directory: str | os.PathLike[str]) -> Path | None:
    """The configuration in this directory, if there is one."""
    present = [path for name in NAMES if os.path.lexists(path := Path(directory) / name)]
    if len(present) > 1:
        names = " and ".join(path.name for path in present)
        raise ConfigError([Problem(escape(str(directory)), "", f"has {names}", "keep one of them")])
    return present[0] if present else None


def load(
    path: str | os.PathLike[str],
    *,
    found: bool = False,
    directory: str | os.PathLike[str] | None = None,
    picoclaw: PicoClaw | None = None,
) -> Config:
    """Read a configuration. `ConfigError` lists everything that is wrong with it; nothing is started.

    `found` says that nobody named the file: then less is allowed in it, and its hooks need `require_trust` first.
    `directory` is where PicoClaw's and j-cli's hooks run: the current one, and for a project's own file its project.
    `picoclaw` is the version of PicoClaw as with which hooks run, but j-cli's; it wins over what the file says.
    """
    # pydantic; importing this package costs nothing
    from . import files, syntax  # noqa: PLC0415
    from .dialects import jcli, native, picoclaw as picoclaws  # noqa: PLC0415
    from .hooks import VERSIONS  # noqa: PLC0415

    problems = Problems(str(path))
    if picoclaw not in {None, *VERSIONS}:
        problems.fail("picoclaw", f"{quoted(str(picoclaw))} is not a version", meant(str(picoclaw), VERSIONS))
    file = Path(path)
    data = files.read(file, problems)
    document, repeated = syntax.parse(data, file.suffix, problems)
    section = picoclaws.section(document)
    is_picoclaw = section is not None
    if section is not None and file.suffix != ".json":
        hint = "in the native format, hooks has one table for each hook, by its name"
        problems.fail(("hooks", section), "belongs to PicoClaw's format, which is JSON", hint)
    for key in repeated:
        if not is_picoclaw or key[0] == "hooks":
            problems.add(key, "is given twice")
    # The directory's real path, and the file's own name in it: a link to a shared file still means the hooks beside it.
    here = Path(os.path.realpath(file.parent))
    work = _project(here) if found else Path(directory or ".").absolute()
    dialect: Literal["native", "picoclaw", "jcli"]
    if is_picoclaw:
        dialect, contents = "picoclaw", picoclaws.read(document, problems, work, found=found, version=picoclaw)
    elif jcli.is_meant(document):
        dialect, contents = "jcli", jcli.read(document, problems, work, found=found)
    else:
        dialect, contents = "native", native.read(document, problems, here, found=found, version=picoclaw)
    problems.check()
    return Config(
        path=here / file.name,
        dialect=dialect,
        hooks=contents.hooks,
        timeouts=contents.timeouts,
        digest=hashlib.sha256(data).hexdigest(),
        found=found,
        enabled=contents.enabled,
        warnings=contents.warnings,
        audit=contents.audit,
        model=contents.model,
        picoclaw=contents.picoclaw,
    )
