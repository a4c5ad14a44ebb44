"""The form of an agent's hook files: all that differs between agents."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..patterns import javascript
from .handler_table import HandlerTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ....config.document import Config

Layout: TypeAlias = Literal["groups", "handlers", "both"]
"""The members of an event's list: groups of handlers with one matcher, or handlers with a matcher each."""


@dataclass(frozen=True, slots=True)
class Places:
    """The directories in which the hooks of a file run, and the environment variables that name them."""

    project: Path
    cwd: Path
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The settings of a file for all its handlers."""

    off: str = ""
    """The setting that switches all hooks off; empty if they are on."""
    problem: str = ""
    """The mistake in its `version`, for which the agent does not load the file; empty without one."""
    warnings: tuple[str, ...] = ()
    allowed_urls: tuple[str, ...] | None = None
    """Patterns of the URLs that handlers may have; None for all."""
    allowed_env: tuple[str, ...] | None = None
    """The environment variables that headers may name; None for all."""
    disabled: tuple[str, ...] = ()
    """Handlers that are switched off, each by its name, or by its command if it has none."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one agent's hook files."""

    dialect: str
    places: Callable[[Config], Places]
    timeout: Callable[[str, str], float]
    """The default timeout of a type of handler at an event."""
    types: Mapping[str, str]
    """The types of handlers. Each type that picohook does not support has the reason, and the others an empty text."""
    command: Callable[[str, HandlerTable], dict[str, Any]]
    """Returns the settings of a hook that runs this handler's command."""
    keys: frozenset[str]
    """The keys of a handler that the agent knows."""
    handler: type[HandlerTable] = HandlerTable
    """The fields of a handler."""
    layout: Layout = "groups"
    group_keys: frozenset[str] = frozenset({"matcher", "hooks"})
    """The keys of a group that the agent knows."""
    in_order: bool = False
    """Whether handlers always run one after the other."""
    identity: Callable[[HandlerTable], str] = lambda _table: ""
    """Of handlers with the same identity, only the first runs; empty for a handler that always runs."""
    unit: float = 1.0
    """The seconds of a timeout of 1."""
    settings: Callable[[Mapping[str, Any]], FileSettings] = lambda _document: FileSettings()
    matcher_problem: Callable[[str, str], str] = lambda _event, matcher: javascript(matcher).problem
    """Takes an event and a matcher other than `*`. Returns the reason why it cannot be read; empty if it can."""
    matcher_warning: Callable[[str], str] = lambda _matcher: ""
    """Returns a warning about a matcher that can be read, and never matches."""
    check_url: Callable[[str, str], str] = lambda _event, _url: ""
    """Takes an event and a URL. Returns the reason why the agent does not take it."""
    expands_env: bool = False
    """Whether variables in the values of `env` are replaced."""
    only_commands: Collection[str] = ()
    """Events at which only commands run."""
    shortest_timeout: float = 0.0
    not_events: Collection[str] = ()
    """Keys of `hooks` that are not events."""
    longest_timeouts: Mapping[str, float] = field(default_factory=dict)
    """The longest timeout of some events."""


def home() -> Path:
    """The user's home, with links followed."""
    return Path(os.path.realpath(Path.home()))


def project_of(config: Config, directory: str) -> Path:
    """The project of a file in this directory of it. For any other file, the project is the host's working directory."""
    above = config.path.parent.parent
    return above if config.path.parent.name == directory and above != home() else config.work


def plugin_data(plugin: str) -> Path:
    """The directory in which a plugin keeps its data."""
    import platformdirs  # only for plugins

    return Path(platformdirs.user_data_path("picohook")) / "plugins" / plugin


def texts(value: Any) -> tuple[str, ...] | None:
    """The texts in a list; None for anything else."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else None
