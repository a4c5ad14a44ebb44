"""The configurations that apply when none is named: the user's own, and the project's.

Hooks are asked layer by layer: `builtin` (functions of the embedding program), `central`, `user`, `project`, and
`session` (mounted while the host runs). No layer replaces another: a project can add hooks to the user's, and cannot remove
any.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError, Problem, TrustError
from ..model.spec import ProofOfLife, Timeouts
from ..wire.text import escape
from . import dialects, trust, trust_store
from .load import load
from .warnings import warnings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..model.spec import HookSpec, NatsSettings
    from ..wire.regular_files import Identity
    from .dialects import Dialect
    from .document import Config, PicoClaw
    from .tables import ModelTable


@dataclass(frozen=True, slots=True)
class Layers:
    """Configurations that apply together, in their order."""

    configs: tuple[Config, ...] = ()
    hooks: tuple[HookSpec, ...] = ()
    """The hooks of all files, each with its layer and its own file's timeouts. No two have the same name."""

    @property
    def timeouts(self) -> Timeouts:
        """The host's own timeouts; for each, the last file that sets it wins."""
        seconds: dict[str, float] = {}
        for config in self.configs:
            seconds |= config.timeouts.model_dump(exclude_unset=True)
        return Timeouts(**seconds)

    @property
    def nats(self) -> NatsSettings | None:
        """The connection to NATS; of several files, that of the first that has one."""
        return next((config.nats for config in self.configs if config.nats is not None), None)

    @property
    def digest(self) -> str:
        """The digest of all files."""
        digests = [config.digest for config in self.configs]
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()

    @property
    def proof_of_life(self) -> ProofOfLife | None:
        """The proofs of all files: all their canaries, at the shortest interval. None if no file asks for proofs."""
        settings = [config.proof_of_life for config in self.configs if config.proof_of_life is not None]
        if len(settings) <= 1:
            return settings[0] if settings else None
        canaries = tuple(canary for one in settings for canary in one.canaries)
        return ProofOfLife(every=min(one.every for one in settings), canaries=canaries)

    @property
    def warnings(self) -> list[Problem]:
        """Settings that are valid and have no effect."""
        return warnings(self.configs, self.timeouts.chain)

    def require_trust(self) -> None:
        """Raise one `TrustError` with every file that needs trust and has none."""
        problems: list[Problem] = []
        for config in self.configs:
            try:
                trust.require_trust(config)
            except TrustError as error:
                problems += error.problems
        if problems:
            raise TrustError(problems)

    def verify(self, spec: HookSpec) -> dict[str, Identity] | None:
        """Like `require_trust`, for one hook that is about to be started: the `verify` of a host."""
        by_path = {str(config.path): config for config in self.configs}
        return trust.still_trusted(by_path[spec.source], spec) if spec.source in by_path else None


def named(path: str | os.PathLike[str], *, picoclaw: PicoClaw | None = None) -> Layers:
    """The configuration that the user named, and no other. Raises `ConfigError`."""
    config = load(path, picoclaw=picoclaw)
    return Layers((config,), config.hooks)


def discover(
    directory: str | os.PathLike[str] | None = None,
    *,
    picoclaw: PicoClaw | None = None,
    without: Collection[str] = (),
) -> Layers:
    """The user's own configurations, and those of the project in this directory. Trust is not checked.

    `picoclaw` is as for `load`. The files of the dialects `without` are left out. Raises `ConfigError` with the mistakes of
    all files.
    """
    project = Path(directory or ".").absolute()
    problems: list[Problem] = []
    configs: dict[Path, Config] = {}
    if not project.is_dir():
        raise ConfigError([Problem(escape(str(project)), "", "there is no such directory")])
    files: list[tuple[Literal["user", "project"], list[Path]]] = [
        *(("user", group) for group in _user_files(without)),
        *(("project", group) for group in _project_files(project, without)),
    ]
    for layer, group in files:
        try:
            for path in _present(group):
                config = load(path, found=layer == "project", directory=project, picoclaw=picoclaw)
                if not config.hooks and dialects.DIALECTS[config.dialect].all_apply:
                    continue  # settings of another agent, which have no hooks
                hooks = tuple(spec.model_copy(update={"layer": layer}) for spec in config.hooks)
                # In the user's own directory, the user's file does not count as the project's too.
                configs.setdefault(config.path, replace(config, hooks=hooks, layer=layer))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    layers = Layers(tuple(configs.values()))
    return replace(layers, hooks=tuple(_joined(layers)))


def user_model() -> tuple[str, ModelTable] | None:
    """The model of the user's own configuration, with its file. Raises `ConfigError`."""
    configs = (load(path) for group in _user_files() for path in _present(group))
    return next(((str(config.path), config.model) for config in configs if config.model is not None), None)


def project_configs(directory: str | os.PathLike[str]) -> list[Path]:
    """The configurations of the project in this directory. Raises `ConfigError` if two exclude each other."""
    users = {_real(path) for group in _user_files() for path in _present(group)}
    found = (path for group in _project_files(Path(directory)) for path in _present(group))
    return [path for path in found if _real(path) not in users]


def candidates(directory: str | os.PathLike[str] | None = None, *, without: Collection[str] = ()) -> list[Path]:
    """The files that decide what `discover` returns, whether they exist or not: configurations, and the trust store."""
    project = Path(directory or ".").absolute()
    groups = (*_user_files(without), *_project_files(project, without))
    patterns = [name for dialect in _dialects(without) for name in (*dialect.user_files, *dialect.project_files)]
    directories = [project / Path(name).expanduser().parent for name in patterns if "*" in name]
    return [*(path for group in groups for path in group), *directories, trust_store.path()]


def is_looked_for(config: Config) -> bool:
    """Whether `discover` finds this file of a project."""
    return any(config.path in group for group in _project_files(config.project))


def _user_files(without: Collection[str] = ()) -> list[list[Path]]:
    """Groups of paths. Of each group, at most one path may exist."""
    import platformdirs  # noqa: PLC0415 - only for configurations that are found

    own = platformdirs.user_config_path("picohook")
    return [
        paths
        for dialect in _dialects(without)
        for group in dialect.groups(dialect.user_files)
        for paths in _paths(own, group)
    ]


def _project_files(directory: Path, without: Collection[str] = ()) -> list[list[Path]]:
    return [
        paths
        for dialect in _dialects(without)
        for group in dialect.groups(dialect.project_files)
        for paths in _paths(directory, group)
    ]


def _dialects(without: Collection[str]) -> Iterator[Dialect]:
    return (dialect for name, dialect in dialects.DIALECTS.items() if name not in without)


def _paths(base: Path, group: tuple[str, ...]) -> list[list[Path]]:
    """The paths of a group. Of a pattern, which is a group of its own, each file that there is."""
    paths = [base / Path(name).expanduser() for name in group]
    if not paths or "*" not in paths[0].name:
        return [paths]
    return [[path] for path in sorted(paths[0].parent.glob(paths[0].name))]


def _present(group: list[Path]) -> list[Path]:
    """The path of the group that exists, if one does. Raises `ConfigError` if several do."""
    present = [path for path in group if os.path.lexists(path)]
    if len(present) > 1:
        where = os.path.commonpath(path.parent for path in present)
        names = " and ".join(os.path.relpath(path, where) for path in present)
        raise ConfigError([Problem(escape(where), "", f"has {names}", "keep one of them")])
    return present


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name


def _joined(layers: Layers) -> Iterator[HookSpec]:
    """The hooks of all files. If an earlier file has a hook of the same name, the layer is added to the name.

    A name in `after` or `fallback` means a hook of the same file, if there is one. If the host's timeouts come from another
    file, the hook keeps those of its own file.
    """
    taken: set[str] = set()
    common = layers.timeouts
    for config in layers.configs:
        names: dict[str, str] = {}
        own = {spec.name for spec in config.hooks}
        for spec in config.hooks:
            name, number = spec.name, 1
            while name in taken or (name in own and name != spec.name):
                name = f"{spec.name}@{config.layer}" + (f"-{number}" if number > 1 else "")
                number += 1
            names[spec.name] = name
            taken.add(name)
        for spec in config.hooks:
            after = tuple(other if other == spec.name else names.get(other, other) for other in spec.after)
            fallback = None if spec.fallback is None else names.get(spec.fallback, spec.fallback)
            changed = {"name": names[spec.name], "after": after, "fallback": fallback}
            yield spec.model_copy(update=changed | _timeouts(spec, config.timeouts, common))


def _timeouts(spec: HookSpec, own: Timeouts, common: Timeouts) -> dict[str, Any]:
    wanted = (
        ("timeout", own.interceptor, common.interceptor),
        ("approval_timeout", own.approval, common.approval),
        ("hello_timeout", own.hello, common.hello),
    )
    return {name: mine for name, mine, others in wanted if mine != others and getattr(spec, name) is None}
