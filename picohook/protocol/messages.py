"""The messages of JSON-RPC as a line holds them; `codec` reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Absent(Enum):
    """The value of a member that is not there (None is JSON's null)."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class DuplicateKeys(Enum):
    """Where a line has the same key twice in one object, as far as that matters."""

    NOWHERE = 0
    INSIDE = 1
    """Below the decision: it spoils approvals only."""
    ON_TOP = 2
    """In the envelope or in the decision itself: it spoils every reply."""


@dataclass(slots=True)
class Response:
    """A response that is not simply a result, well formed or not. `Peer` decides what it means."""

    id: object
    result: Any
    error: Any
    versioned: bool
    """Whether it says "jsonrpc": "2.0"."""
    duplicates: DuplicateKeys
    beside: dict[str, Any] = field(default_factory=dict)
    """The members of the envelope that JSON-RPC does not know."""


@dataclass(slots=True)
class Reply:
    """What a request got: a result, or an error and why."""

    result: Any = None
    error: str | None = None
    """Why there is no result."""
    code: int | None = None
    """With an error: the JSON-RPC code if the other side answered with one; None if the reply itself was broken."""
    warning: str = ""
    """What is wrong with a reply that was accepted nonetheless."""


@dataclass(slots=True)
class Request:
    """A request of the other side."""

    id: object
    method: str
    params: Any


@dataclass(slots=True)
class Notification:
    """A notification of the other side."""

    method: str
    params: Any


@dataclass(slots=True)
class InvalidLine:
    """A line that is no message."""

    reason: str


Result = tuple[int, Reply]
"""A response that is a result and nothing else, as nearly all are: the id and the reply."""
Message = Result | Response | Request | Notification | InvalidLine
