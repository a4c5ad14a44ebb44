"""The settings of a host by name, in one place for every way to make one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..hooks.base import Complete
    from ..listeners.listener import Listener
    from ..model.payloads import Meta, Payload
    from ..model.spec import HookSpec, Timeouts
    from ..observe.log import Logger
    from ..process.plan import Verify


class Settings(TypedDict, total=False):
    """The settings that every way to make a host takes by name."""

    logger: Logger | None
    """Gets the host's log; without it, log lines go to the standard library's logger `picohook`."""
    retry_limit: int
    """How many more rounds hooks may ask for in one turn: 3."""
    complete: Complete | None
    """Asks the model for hooks with a `prompt`. Without it, they ask the model that the configuration names."""
    listeners: Iterable[Listener]
    """They see what is asked and told."""


class EngineSettings(Settings, total=False):
    """The settings of an engine: a configuration gives the three that are added here."""

    timeouts: Timeouts | None
    verify: Verify | None
    model_of: Callable[[HookSpec], Complete | None] | None


class EventOf(TypedDict, total=False):
    """Where an event belongs."""

    meta: Meta | None
    """Its ids; without it, those of `about`."""
    about: Payload | None
    """The payload that it is about, such as a `ToolCall`: the event has its meta and its place."""
