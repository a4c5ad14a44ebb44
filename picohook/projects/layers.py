"""The configurations that apply: the system's, and the one that is named, or the user's own and those of the project.

Hooks are asked layer by layer: `builtin` (functions of the embedding program), `system`, `user`, `project`, and `session`
(mounted while the host runs). No layer replaces another: a project can add hooks to the user's, and cannot remove
any. A project's configurations are those of its directory and of all directories above, except the home directory. The
outermost is asked first, and an inner one can only add hooks to it.
"""

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..config import dialects, user_places
from ..config.document import Config
from ..config.load import load
from ..config.problems import Problems
from ..config.table import Table
from ..config.warnings import warnings
from ..errors import Problem, TrustError
from ..extension import Dialect
from ..model.spec import HookSpec, Timeouts
from ..wire.regular_files import Identity
from ..wire.text import escape
from . import system_layer, trust, trust_store


@dataclass(frozen=True, slots=True)
class Layers:
    """Configurations that apply together, in their order."""

    configs: tuple[Config, ...] = ()
    hooks: tuple[HookSpec, ...] = ()
    """The hooks of all files, each with its layer and its own file's timeouts. No two have the same name."""

    aside: tuple[Config, ...] = ()
    """Files of other agents that were found and have no hooks."""
    places: tuple[Path, ...] = ()
    """The paths and patterns at which configurations of the project are looked for."""
    notes: tuple[Problem, ...] = ()
    """Notes about the search for the files."""

    @property
    def timeouts(self) -> Timeouts:
        """The host's own timeouts. A later file can make them longer, and takes no time from the hooks of those before it."""
        seconds: dict[str, float] = {}
        for config in self.configs:
            for name, value in config.timeouts.model_dump(exclude_unset=True).items():
                seconds[name] = max(value, seconds.get(name, 0))
            if config.hooks:
                seconds = config.timeouts.model_dump() | seconds
        return Timeouts(**seconds)

    @property
    def tables(self) -> dict[str, tuple[Table, ...]]:
        """The tables of extensions of all files, by their keys, in the order of the layers."""
        found: dict[str, tuple[Table, ...]] = {}
        for config in self.configs:
            for key, table in config.tables.items():
                found[key] = (*found.get(key, ()), table)
        return found

    @property
    def digest(self) -> str:
        """The digest of all files."""
        digests = [config.digest for config in self.configs]
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()

    @property
    def warnings(self) -> list[Problem]:
        """Settings that are valid and have no effect, and the notes."""
        return [*self.notes, *warnings(self.configs, self.timeouts.chain)]

    def require_trust(self) -> None:
        """Raise one `TrustError` with every file that needs trust and has none, or that is trusted and no longer applies."""
        known = trust_store.read() if self.places else {}
        problems = Problems(found=[*self.missing(known)])
        for config in (*self.configs, *(one for one in self.aside if str(one.path) in known)):
            with problems.gathered():
                trust.require_trust(config)
        problems.check(TrustError)

    def missing(self, known: Collection[str]) -> Iterator[Problem]:
        """Trusted files that are gone: a project must not lose its hooks because its configuration was removed."""
        places = {_real(path) for path in self.places if known}
        read = {config.path for config in (*self.configs, *self.aside)}
        for path in map(Path, known):
            if path not in read and (path in places or path.with_name(f"*{path.suffix}") in places):
                why = "belongs to another user now" if os.path.lexists(path) else "is not there any more"
                hint = f"restore it, or: picohook trust --remove {path}"
                yield Problem(escape(str(path)), "", f"is trusted, and {why}", hint)

    def verify(self, spec: HookSpec) -> dict[str, Identity] | None:
        """Like `require_trust`, for one hook that is about to be started: the `verify` of a host."""
        by_path = {str(config.path): config for config in self.configs}
        return trust.still_trusted(by_path[spec.source], spec) if spec.source in by_path else None


def named(path: str | os.PathLike[str], *, given: Mapping[str, Any] | None = None, system: bool = True) -> Layers:
    """The configuration that the user named, and the system's unless `system` is false. Raises `ConfigError`.

    `given` has top-level keys in place of the file's own.
    """
    config = load(path, given=given)
    before = [one for one in (system_layer.configs() if system else ()) if one.path != config.path]
    layers = Layers((*before, config))
    return replace(layers, hooks=tuple(_joined(layers)))


def start_of(directory: str | os.PathLike[str] | None = None) -> Path:
    """The real path of the directory from which configurations are looked for. Raises `ConfigError`."""
    try:
        start = Path(os.path.realpath(directory or "."))
        if not start.is_dir():
            Problems(str(start)).fail("", "there is no such directory")
    except (OSError, ValueError) as error:  # the working directory was removed, or the name holds a NUL character
        Problems(str(directory or ".")).fail("", f"is not a directory that can be used: {error}")
    return start


def discover(
    directory: str | os.PathLike[str] | None = None,
    *,
    given: Mapping[str, Any] | None = None,
    without: Collection[str] = (),
    required: bool = False,
    system: bool = True,
) -> Layers:
    """The system's configurations, the user's own, and those of the project in this directory. Trust is not checked.

    `given` and `system` are as for `named`. The files of the dialects `without` are left out. Raises `ConfigError` with the
    mistakes of all files; with `required`, also if no hook is found.
    """
    start = start_of(directory)
    problems = Problems()
    notes = [*_in_home(start)]
    configs: dict[Path, Config] = {}
    with problems.gathered():
        configs |= {config.path: config for config in (system_layer.configs() if system else ())}
    for project, group in _groups(start, without):
        with problems.gathered():
            for path in _present(group, project, notes):
                if _real(path) in configs:
                    continue  # in the user's own directory, a file does not count as the project's too, nor in root's
                config = load(path, found=project is not None, directory=start, given=given)
                layer: Literal["user", "project"] = "user" if project is None else "project"
                place = {"layer": layer, "depth": len(project.parts) if project else 0}
                hooks = tuple(spec.model_copy(update=place) for spec in config.hooks)
                configs[config.path] = replace(config, hooks=hooks, layer=layer)
    aside = [one for one in configs.values() if not one.hooks and dialects.find(one.dialect).all_apply]
    for one in aside:
        del configs[one.path]
    if not any(config.hooks for config in configs.values()) and not problems.found:
        why = "no hook was found for this directory, so nothing is guarded"
        (problems.found if required else notes).append(Problem(escape(str(start)), "", why, "picohook new"))
    problems.found = list(dict.fromkeys(problems.found))
    problems.check()
    places = tuple(path for project, path in _names(start, without) if project is not None)
    layers = Layers(tuple(configs.values()), aside=tuple(aside), places=places, notes=tuple(notes))
    return replace(layers, hooks=tuple(_joined(layers)))


def project_configs(directory: str | os.PathLike[str]) -> list[Path]:
    """The configurations of the project in this directory. Raises `ConfigError` if two exclude each other."""
    groups = [*_groups(start_of(directory))]
    users = {_real(path) for project, group in groups if project is None for path in _present(group, None, [])}
    found = (path for project, group in groups if project is not None for path in _present(group, project, []))
    return [path for path in found if _real(path) not in users]


def candidates(directory: str | os.PathLike[str] | None = None, *, without: Collection[str] = ()) -> list[Path]:
    """The files that decide what `discover` returns, whether they exist or not: configurations, and the trust store.

    Of a pattern, also the directory.
    """
    start = start_of(directory)
    found = [*system_layer.candidates(), *(path for _, group in _groups(start, without) for path in group)]
    return [*found, *(path.parent for _, path in _names(start, without) if "*" in path.name), trust_store.path()]


def is_looked_for(config: Config) -> bool:
    """Whether `discover` finds this file of a project."""
    groups = _groups(Path(os.path.realpath(config.project)))
    return any(config.path == _real(path) for project, group in groups if project is not None for path in group)


def _groups(start: Path | None, without: Collection[str] = ()) -> Iterator[tuple[Path | None, list[Path]]]:
    """Groups of paths, each with the directory of its project; None for the user's own. Of each group, at most one may exist.

    The user's come first. Without a start they are all; otherwise those of the directories above follow, the outermost first.
    """
    for project, dialect, paths in _places(start, without):
        for group in [[path] for path in paths] if dialect.all_apply else [paths]:
            if group and "*" in group[0].name:  # each file that there is
                yield from ((project, [path]) for path in sorted(group[0].parent.glob(group[0].name)))
            else:
                yield project, group


def _names(start: Path, without: Collection[str] = ()) -> Iterator[tuple[Path | None, Path]]:
    """Every path and pattern at which a configuration is looked for, with the directory of its project."""
    return ((project, path) for project, _, paths in _places(start, without) for path in paths)


def _places(start: Path | None, without: Collection[str]) -> Iterator[tuple[Path | None, Dialect, list[Path]]]:
    for project in (None, *(() if start is None else _above(start))):
        base = user_places.configuration() if project is None else project
        for name, dialect in dialects.searched().items():
            if name not in without:
                names = dialect.user_files if project is None else dialect.project_files
                yield project, dialect, [base / user_places.expanded(name) for name in names]


def _above(start: Path) -> list[Path]:
    """The directories of a project, the outermost first: this one and those above it, except the home directory."""
    home = user_places.home()
    return [step for step in (*reversed(start.parents), start) if str(step) != home]


def _in_home(start: Path) -> Iterator[Problem]:
    """A note for each file in the home directory that would be a configuration in any other."""
    home = user_places.home()
    for step in (start, *start.parents):
        for name in dialects.NATIVE.project_files if str(step) == home else ():
            if os.path.lexists(step / name):
                message = "is not read: the home directory is no project"
                hint = f"move it to {user_places.configuration()}, or name it"
                yield Problem(escape(str(step / name)), "", message, hint)


def _present(group: list[Path], project: Path | None, notes: list[Problem]) -> list[Path]:
    """The path of the group that exists, if one does. Raises `ConfigError` if several do, or if that cannot be seen.

    Of a project's, one that another user owns is left out, with a note: it must neither run here nor stop what runs.
    """
    present = [path for path in group if _exists(path)]
    if project is not None:
        owners = {path: _stranger(path, project) for path in present}
        present = [path for path, owner in owners.items() if owner is None]
        for path, owner in owners.items():
            if owner is not None:
                message = f"is not read: it, or a directory that it is in, belongs to another user (uid {owner})"
                notes.append(Problem(escape(str(path)), "", message, "chown it, if it is for you"))
    if len(present) > 1:
        where = os.path.commonpath(path.parent for path in present)
        names = " and ".join(os.path.relpath(path, where) for path in present)
        Problems(where).fail("", f"has {names}", "keep one of them")
    return present


def _exists(path: Path) -> bool:
    try:
        return os.lstat(path) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        Problems(str(path)).fail("", f"cannot be looked at: {error.strerror}")


def _stranger(path: Path, project: Path) -> int | None:
    """The other user who owns a file, a directory that it is in, or a link to one of them; None without one."""
    own = {os.geteuid(), 0}
    for place in (project, path.parent, path):
        for look in (os.lstat, os.stat):
            with contextlib.suppress(OSError):  # a broken link is a mistake
                if (owner := look(place).st_uid) not in own:
                    return owner
    return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name


def _joined(layers: Layers) -> Iterator[HookSpec]:
    """The hooks of all files. If an earlier file has a hook of the same name, the layer is added to the name.

    A name in `after` or `fallback` means a hook of the same file, if there is one. If the host's timeouts come from another
    file, the hook keeps those of its own file.
    """
    taken: set[str] = set()
    common = layers.timeouts
    for place, config in enumerate(layers.configs):
        before = layers.configs[place::-1]
        names: dict[str, str] = {}
        own = {spec.name for spec in config.hooks}
        for spec in config.hooks:
            name, number = spec.name, 1
            while name in taken or (name in own and name != spec.name):
                name = f"{spec.name}@{config.layer}" + (f"-{number}" if number > 1 else "")
                number += 1
            names[spec.name] = name
            taken.add(name)
        found = {key: _table(key, before) for key in {key: None for spec in config.hooks for key in spec.wants}}
        for spec in config.hooks:
            after = tuple(other if other == spec.name else names.get(other, other) for other in spec.after)
            fallback = None if spec.fallback is None else names.get(spec.fallback, spec.fallback)
            tables = {key: table for key in spec.wants if (table := found[key]) is not None}
            changed = {"name": names[spec.name], "after": after, "fallback": fallback, "tables": tables}
            yield spec.model_copy(update=changed | _timeouts(spec, config.timeouts, common))


def _table(key: str, before: Sequence[Config]) -> tuple[str, Any] | None:
    """The table that counts for the hooks of a file, with the file that has it. `before` is the file, and those before it.

    It is the table of this file, or else of the nearest file before it. So a project's table counts only for the project's
    own hooks, and those of projects inside it. For a file that the user named, the user's own table comes second.
    """
    file, *others = before
    users: Iterable[Config] = ()
    if key not in file.tables and file.layer is None:
        users = (load(path) for _, group in _groups(None) for path in _present(group, None, []))
    return next(((str(one.path), one.tables[key]) for one in (file, *users, *others) if key in one.tables), None)


def _timeouts(spec: HookSpec, own: Timeouts, common: Timeouts) -> dict[str, Any]:
    wanted = (
        ("timeout", own.interceptor, common.interceptor),
        ("approval_timeout", own.approval, common.approval),
        ("hello_timeout", own.hello, common.hello),
    )
    return {name: mine for name, mine, others in wanted if mine != others and getattr(spec, name) is None}
