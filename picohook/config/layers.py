"""The configurations that nobody has to name: the user's own, and a project's, each in its layer.

The layers are asked in this order: `builtin` (functions of the embedding program), `user`, `project`, `session` (what is
mounted at run time). None replaces another: a project can add to what the user's hooks demand, and take nothing of it back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import ConfigError, Problem, TrustError
from ..model.spec import Timeouts
from ..wire.text import escape
from . import trust
from .load import NAMES, Config, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model.spec import HookSpec
    from ..wire.regular_files import Identity
    from .dialects.native import Model
    from .hooks import PicoClaw

_JCLI_USER = (".jdata", "agent", "hooks.yaml")
_JCLI_PROJECT = (".jcli", "hooks.yaml")


@dataclass(frozen=True, slots=True)
class Layers:
    """Configurations that apply together, in their order."""

    configs: tuple[Config, ...] = ()
    hooks: tuple[HookSpec, ...] = ()
    """Of all of them, each with its layer, its file, and its own file's timeouts; no two with one name."""

    @property
    def timeouts(self) -> Timeouts:
        """Of the host itself: of each, what the last file says that says anything."""
        said: dict[str, float] = {}
        for config in self.configs:
            said |= config.timeouts.model_dump(exclude_unset=True)
        return Timeouts(**said)

    def require_trust(self) -> None:
        """Raise `TrustError` for whatever of it needs trust and has none."""
        problems: list[Problem] = []
        for config in self.configs:
            try:
                trust.require_trust(config)
            except TrustError as error:
                problems += error.problems
        if problems:
            raise TrustError(problems)

    def verify(self, spec: HookSpec) -> dict[str, Identity] | None:
        """The same for one hook that is about to be started: for the `verify` of a host."""
        of = {str(config.path): config for config in self.configs}
        return trust.still_trusted(of[spec.source], spec) if spec.source in of else None


def alone(config: Config) -> Layers:
    """A configuration that somebody named: it applies, and no other."""
    hooks = tuple(spec.model_copy(update={"source": str(config.path)}) for spec in config.hooks)
    return Layers((config,), hooks)


def discover(directory: str | os.PathLike[str] | None = None, *, picoclaw: PicoClaw | None = None) -> Layers:
    """Look where configurations are kept: the user's own, and this project's. Nothing is trusted by this.

    `picoclaw` is as for `load`. Raises `ConfigError` with the mistakes of all of them.
    """
    project = Path(directory or ".").absolute()
    problems: list[Problem] = []
    configs: dict[Path, Config] = {}
    if not project.is_dir():
        raise ConfigError([Problem(escape(str(project)), "", "there is no such directory")])
    for layer, path in _found(project, problems):
        try:
            config = load(path, found=layer == "project", directory=project, picoclaw=picoclaw)
        except ConfigError as error:
            problems += error.problems
        else:
            # In the user's own directory, the user's file is not the project's once more.
            configs.setdefault(config.path, _layered(config, layer))
    if problems:
        raise ConfigError(problems)
    layers = Layers(tuple(configs.values()))
    return replace(layers, hooks=tuple(_folded(layers)))


def own_model() -> tuple[str, Model] | None:
    """The model of the user's own configuration, with its file, for a file that is named and has none."""
    problems: list[Problem] = []
    for path in _present(_user_files(), problems):
        config = load(path)
        if config.model is not None:
            return str(config.path), config.model
    if problems:
        raise ConfigError(problems)
    return None


def projects_own(directory: str | os.PathLike[str]) -> list[Path]:
    """The configurations of a project that are there."""
    problems: list[Problem] = []
    users = {_place(path) for path in _present(_user_files(), problems)}
    found = [path for path in _present(_project_files(Path(directory)), problems) if _place(path) not in users]
    if problems:
        raise ConfigError(problems)
    return found


def places(directory: str | os.PathLike[str] | None = None) -> list[Path]:
    """Every file that `discover` may read, there or not, and where trust is kept: to see whether one changes."""
    project = Path(directory or ".").absolute()
    return [path for group in (*_user_files(), *_project_files(project)) for path in group] + [trust.store()]


def is_looked_for(config: Config) -> bool:
    """Whether a project's file is at a place where it is found."""
    return any(config.path in group for group in _project_files(config.project))


def _user_files() -> list[list[Path]]:
    """Of each of these, one may be there."""
    import platformdirs  # noqa: PLC0415 - only who looks for configurations needs it

    own = platformdirs.user_config_path("picohook")
    return [[own / name for name in NAMES], [Path("~").expanduser().joinpath(*_JCLI_USER)]]


def _project_files(directory: Path) -> list[list[Path]]:
    native = [place / name for place in (directory, directory / ".picohook") for name in NAMES]
    return [native, [directory.joinpath(*_JCLI_PROJECT)]]


def _found(project: Path, problems: list[Problem]) -> list[tuple[Literal["user", "project"], Path]]:
    return [
        *(("user", path) for path in _present(_user_files(), problems)),
        *(("project", path) for path in _present(_project_files(project), problems)),
    ]


def _present(groups: list[list[Path]], problems: list[Problem]) -> list[Path]:
    found = []
    for group in groups:
        present = [path for path in group if os.path.lexists(path)]
        if len(present) > 1:
            where = os.path.commonpath(path.parent for path in present)
            names = " and ".join(os.path.relpath(path, where) for path in present)
            problems.append(Problem(escape(where), "", f"has {names}", "keep one of them"))
        else:
            found += present
    return found


def _place(path: Path) -> Path:
    return Path(os.path.realpath(path.parent)) / path.name


def _layered(config: Config, layer: Literal["user", "project"]) -> Config:
    """Its hooks know where they come from."""
    place = {"layer": layer, "source": str(config.path)}
    return replace(config, hooks=tuple(spec.model_copy(update=place) for spec in config.hooks), layer=layer)


def _folded(layers: Layers) -> Iterable[HookSpec]:
    """All hooks; one whose name is taken is called by its layer too, and `after` means the others of its own file first.

    They keep the timeouts of their own file where the host has those of another.
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
            changed = {"name": names[spec.name], "after": after, **_timeouts(spec, config.timeouts, common)}
            yield spec.model_copy(update=changed)


def _timeouts(spec: HookSpec, own: Timeouts, common: Timeouts) -> dict[str, float]:
    wanted = (
        ("timeout", own.interceptor, common.interceptor),
        ("approval_timeout", own.approval, common.approval),
        ("hello_timeout", own.hello, common.hello),
    )
    return {name: mine for name, mine, others in wanted if mine != others and getattr(spec, name) is None}
