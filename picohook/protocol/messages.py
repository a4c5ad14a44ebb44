"""The messages of JSON-RPC. `codec` reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Absent(Enum):
    """The value of a member that is absent (None is JSON's null)."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class DuplicateKeys(Enum):
    """The places where a line may have the same key twice in one object."""

    NOWHERE = 0
    INSIDE = 1
    """Below the decision: only an approval fails."""
    ON_TOP = 2
    """In the envelope or in the decision itself: every reply fails."""


@dataclass(slots=True)
class Response:
    """A response that is not simply a result, well formed or not. `responses` reads it."""

    id: object
    result: Any
    error: Any
    versioned: bool
    """Whether it says "jsonrpc": "2.0"."""
    duplicates: DuplicateKeys
    beside: dict[str, Any] = field(default_factory=dict)
    """The members of the envelope that JSON-RPC does not have."""
    unread: str = ""
    """The reason why it was not decoded; empty if it was."""


@dataclass(slots=True)
class Reply:
    """The reply to a request: a result or an error."""

    result: Any = None
    error: str | None = None
    """The reason why there is no result."""
    code: int | None = None
    """With an error: its JSON-RPC code if the hook sent an error; None if the reply itself was broken."""
    warning: str = ""
    """The flaw of a reply that was accepted nonetheless."""


@dataclass(slots=True)
class Request:
    """A request from the hook."""

    id: object
    method: str
    params: Any


@dataclass(slots=True)
class Notification:
    """A notification from the hook."""

    method: str
    params: Any


@dataclass(slots=True)
class InvalidLine:
    """A line that is not a message."""

    reason: str


Result = tuple[int, Reply]
"""A response that is a result and nothing else, as nearly all are: its id and the reply."""
Message = Result | Response | Request | Notification | InvalidLine
