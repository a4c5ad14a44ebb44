"""The messages of JSON-RPC, which `codec` reads and writes, and the replies in responses."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from ..wire import words
from ..wire.answer_fields import misplaced
from ..wire.text import cut, escape

ABSENT: Final = object()
"""The value of a member that is absent (None is JSON's null)."""


class DuplicateKeys(Enum):
    """The places where a line may have the same key twice in one object."""

    NOWHERE = 0
    INSIDE = 1
    """Below the decision: only an approval fails."""
    ON_TOP = 2
    """In the envelope or in the decision itself: every reply fails."""


@dataclass(slots=True)
class Response:
    """A response, well formed or not. `read_response` reads it."""

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


Message = Response | Request | Notification | InvalidLine


def read_response(response: Response, *, strict: bool) -> Reply:
    """The reply in a response. For a `strict` request, an approval, a flaw is an error; for others it is a warning."""
    result, error = response.result, response.error
    failed = error is not ABSENT and error is not None
    reply = Reply()
    flaw = _flaw(response)
    if response.unread:
        reply.error = response.unread
    elif response.duplicates is DuplicateKeys.ON_TOP or (response.duplicates is DuplicateKeys.INSIDE and strict):
        reply.error = "its answer has the same key twice"
    elif failed and result is not ABSENT and result is not None:
        reply.error = "its answer has both a result and an error"
    elif failed:
        reply.code, reply.error = _read_error(error)
    elif response.beside and (problem := misplaced(result, response.beside)):
        reply.error = problem
    elif flaw and strict:
        reply.error = flaw
    else:
        reply.warning = flaw
        reply.result = None if result is ABSENT else result
    return reply


def _read_error(error: Any) -> tuple[int, str]:
    code = error.get("code") if isinstance(error, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    text = escape(cut(message, words.MAX_REASON)) if isinstance(message, str) else "no message"
    return (code if type(code) is int else 0), text


def _flaw(response: Response) -> str:
    if not response.versioned:
        return 'its answer lacks "jsonrpc": "2.0"'
    if response.result is ABSENT:
        return "its answer has neither a result nor an error"
    return ""
