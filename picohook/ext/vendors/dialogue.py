"""The agent that a call came from, for hooks that want to know whether it can ask its user."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple


class Dialogue(NamedTuple):
    """A vendor's agent that waits for an answer."""

    agent: str
    """Its title."""
    asks: bool
    """Whether a hook can let it ask its user, by a pause."""
    cwd: str
    """The directory in which the agent stands."""


CURRENT: ContextVar[Dialogue | None] = ContextVar("CURRENT", default=None)
"""The agent whose event is being answered; None outside of `picohook shim`."""
