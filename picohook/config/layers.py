"""The configurations that nobody has to name: the user's, and the project's, each in its layer."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from . import trust
from .load import Config, find, load

if TYPE_CHECKING:
    from ..spec import HookSpec, Timeouts


@dataclass(frozen=True, slots=True)
class Layers:
    """All that was found, in the order in which it applies."""

    configs: tuple[Config, ...] = ()
    hooks: tuple[HookSpec, ...] = field(default=())
    """Of all of them, each with its layer, its file, and its own file's timeouts; no two with one name."""

    @property
    def timeouts(self) -> Timeouts | None:
        """Of the host itself: those of the file that is nearest to the work."""
        return self.configs[-1].timeouts if self.configs else None

    def require_trust(self) -> None:
        """Raise `TrustError` for whatever of it needs trust and has none."""
        for config in self.configs:
            trust.require_trust(config)

    def verify(self, spec: HookSpec) -> None:
        """The same for one hook that is about to be started."""
        for config in self.configs:
            if str(config.path) == spec.source:
                trust.still_trusted(config, spec)


def discover(directory: str | os.PathLike[str] = ".") -> Layers:
    """Look where configurations are kept: the user's own, and what lies in this directory. Nothing is trusted by this."""
    configs = [
        *(_layered(load(path), "user") for path in _present(_user_places())),
        *(_layered(load(path, found=True), "project") for path in _present(_project_places(Path(directory)))),
    ]
    names: set[str] = set()
    hooks: list[HookSpec] = []
    for config in configs:
        for spec in config.hooks:
            own = spec if spec.name not in names else spec.model_copy(update={"name": f"{spec.name}@{spec.layer}"})
            names.add(own.name)
            hooks.append(own)
    return Layers(tuple(configs), tuple(hooks))


def _user_places() -> list[Path | None]:
    import platformdirs  # noqa: PLC0415 - only who looks for configurations needs it

    return [find(platformdirs.user_config_path("picohook")), Path.home() / ".jdata" / "agent" / "hooks.yaml"]


def _project_places(directory: Path) -> list[Path | None]:
    return [find(directory), find(directory / ".picohook"), directory / ".jcli" / "hooks.yaml"]


def _present(paths: list[Path | None]) -> list[Path]:
    return [path for path in paths if path is not None and os.path.lexists(path)]


def _layered(config: Config, layer: Literal["user", "project"]) -> Config:
    """Its hooks know where they come from, and keep the timeouts of their own file beside those of others."""
    own = config.timeouts
    hooks = tuple(
        spec.model_copy(
            update={
                "layer": layer,
                "source": str(config.path),
                "timeout": spec.timeout or own.interceptor,
                "approval_timeout": spec.approval_timeout or own.approval,
                "hello_timeout": spec.hello_timeout or own.hello,
            }
        )
        for spec in config.hooks
    )
    return replace(config, hooks=hooks)
