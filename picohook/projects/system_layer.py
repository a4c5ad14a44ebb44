"""The system's configurations: files of root, which apply to every user of the machine.

They are in `/etc/picohook`, and in the directory that `PICOHOOK_SYSTEM_CONFIG` names in addition. Only root may be able to
change them, the files that their hooks run, and the directories above. So no user and no environment can switch them off.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config.dialects import NATIVE_NAMES
from ..config.document import Config
from ..config.load import load
from ..config.problems import Problems
from ..errors import Problem
from ..model.spec import HookSpec, OnFailure
from ..wire.text import escape
from . import hook_files

PLACE = Path("/etc/picohook")
VARIABLE = "PICOHOOK_SYSTEM_CONFIG"
_ONLY_ROOT = "and only root may be able to change what the system's hooks are"


def configs() -> list[Config]:
    """The configurations, in the order of their names. Raises `ConfigError` with the mistakes of all."""
    problems = Problems()
    found: dict[Path, Config] = {}
    for place in _places():
        with problems.gathered():
            for path in _files(place):
                config = _read(path)
                found.setdefault(config.path, config)
    problems.check()
    return [*found.values()]


def candidates() -> list[Path]:
    """The paths that decide what `configs` returns, whether they exist or not."""
    return [path for place in _places() for path in (place, *(place.glob("*.toml") if os.path.isdir(place) else ()))]


def _places() -> list[Path]:
    """The directories. The variable adds one and hides none, and one that it names has to be there."""
    added = os.environ.get(VARIABLE)
    return [PLACE, *([Path(added)] if added else [])]


def _files(place: Path) -> list[Path]:
    if place == PLACE and not os.path.lexists(place):
        return []
    if not place.is_absolute():
        Problems(str(place)).fail("", f"is not a whole path, as {VARIABLE} has to be")
    Problems(found=[*_not_roots(place)]).check()
    try:
        names = sorted(name for name in os.listdir(place) if not name.startswith("."))
    except OSError as error:
        Problems(str(place)).fail("", f"cannot be read: {error.strerror}")
    for name in names:
        if name in NATIVE_NAMES and not name.endswith(".toml"):
            why = "is not read: the system's configurations are TOML"
            Problems(str(place / name)).fail("", why, "write it as *.toml")
    return [place / name for name in names if name.endswith(".toml")]


def _read(path: Path) -> Config:
    Problems(found=[*_not_roots(path)]).check()
    config = load(path)
    if config.dialect != "native":
        why = f"is in the format {config.dialect}, and the system's configurations are in picohook's own"
        Problems(str(path)).fail("", why)
    hooks = tuple(map(_strengthened, config.hooks))
    problems = Problems()
    for spec in hooks:
        members = [member.examined for member in spec.members]
        files = [name for one in members for name in (*hook_files.programs(one), *hook_files.arguments(one))]
        # Where a file is missing, nobody else may be able to put one.
        names = dict.fromkeys((*files, *spec.settings_files))
        for place in filter(
            os.path.exists, (name if os.path.isfile(name) else os.path.dirname(name) for name in names)
        ):
            for problem in _not_roots(Path(place)):
                at = config.key_paths[spec.name]
                problems.found.append(Problem(escape(str(path)), at, str(problem)))
    problems.check()
    return replace(config, hooks=hooks, layer="system")


def _strengthened(spec: HookSpec) -> HookSpec:
    """The hook in the layer `system`. What it does not set is as strict as it can be."""
    settings: dict[str, Any] = {"layer": "system"}
    if "on_failure" not in spec.model_fields_set:
        settings["on_failure"] = OnFailure.DENY
    if "guard" not in spec.model_fields_set and "before_tool" in spec.asked_at:
        settings["guard"] = True
    return spec.model_copy(update=settings)


def _not_roots(path: Path) -> Iterator[Problem]:
    """Returns the path that lets others change a file: its own, a directory above, or the target of a link on the way."""
    for step in _steps(path):
        try:
            status = os.lstat(step)
        except OSError as error:
            yield Problem(escape(str(step)), "", f"cannot be looked at: {error.strerror}")
            continue
        writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(status.st_mode)
        sticky = step != path and status.st_mode & stat.S_ISVTX  # others cannot move there what root owns
        if status.st_uid:
            yield Problem(escape(str(step)), "", f"belongs to uid {status.st_uid}, {_ONLY_ROOT}", "chown root")
        elif writable and not sticky:
            yield Problem(escape(str(step)), "", f"can be written by others, {_ONLY_ROOT}", "chmod go-w")


def _steps(path: Path) -> Iterator[Path]:
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        one = waiting.pop()
        for step in (one, *one.parents):
            if step not in seen:
                seen.add(step)
                yield step
                if step.is_symlink():
                    waiting.append(step.parent / os.readlink(step))
