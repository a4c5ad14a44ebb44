"""The keyword arguments that make a host, in one place for every way to make one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..model.payloads import Meta, Payload
    from ..model.spec import Timeouts
    from ..observe.log import Logger
    from ..process.plan import Verify
    from .listener import Listener
    from .part import Part


class Settings(TypedDict, total=False):
    """The settings that every way to make a host takes by name."""

    logger: Logger | None
    """Gets the host's log. Without it, log lines go to the standard library's logger `picohook`."""
    listeners: Iterable[Listener]
    """The listeners, which see each question, answer and event."""
    parts: Iterable[Part]
    """Further parts of the host while it runs, besides those of extensions."""


class EngineSettings(Settings, total=False):
    """The settings of an engine. A configuration gives those that are added here."""

    timeouts: Timeouts | None
    verify: Verify | None


class EventOf(TypedDict, total=False):
    """The place of an event."""

    meta: Meta | None
    """The event's ids. Without it, those of `about`."""
    about: Payload | None
    """The payload that the event is about, such as a `ToolCall`. The event takes its meta and its place."""
