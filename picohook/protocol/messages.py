"""One line to one message and back: the JSON codec and the four shapes of JSON-RPC.

Decoding is strict, because a lenient reading is where two readers of one line begin to differ: no NaN, no number that only
fits as infinity, no lone surrogate, no duplicate key where it could matter, at most 200
levels inside the message. Integers stay exact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import UUID

import jiter
import orjson

from ..errors import EncodeError


class Absent(Enum):
    """The value of a member that is not there (None is JSON's null)."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(slots=True)
class Response:
    """An answer to a request of ours, well formed or not: the peer says what becomes of it."""

    id: object
    result: Any
    error: Any
    versioned: bool
    """Whether it says "jsonrpc": "2.0"."""
    doubled: Doubled
    beside: dict[str, Any] = field(default_factory=dict)
    """What else the envelope holds."""


@dataclass(slots=True)
class Answer:
    """What a request came to."""

    result: Any = None
    error: str | None = None
    """Why there is no result."""
    code: int | None = None
    """With an error: the JSON-RPC code if the other side answered with one; None if the reply itself was broken."""
    warning: str = ""
    """What was sloppy about a reply that was taken nonetheless."""


@dataclass(slots=True)
class Request:
    """The other side asks."""

    id: object
    method: str
    params: Any


@dataclass(slots=True)
class Notification:
    """The other side tells."""

    method: str
    params: Any


@dataclass(slots=True)
class Junk:
    """A line that is no message."""

    reason: str


Result = tuple[int, Answer]
"""A response that is a result and nothing else, as nearly all are: its id, and what it comes to."""
Message = Result | Response | Request | Notification | Junk


class Doubled(Enum):
    """Where a line has one key twice, as far as it matters."""

    NOWHERE = 0
    INSIDE = 1
    """Below the decision: matters to approvals only."""
    ON_TOP = 2
    """In the envelope, or in the decision itself."""


_NOWHERE = Doubled.NOWHERE
_OF_RESPONSES = frozenset({"jsonrpc", "id", "result", "error"})
RESULT_MEMBERS = 3
"""What a result has in its envelope: its version, its id, and itself."""


def decode(line: bytes) -> Message:
    """The message on a line. Never raises: what is none is `Junk`."""
    doubled = _NOWHERE
    try:
        value = jiter.from_json(line, catch_duplicate_keys=True, allow_inf_nan=False, cache_mode="all")
        if _may_overflow(line):
            value, doubled = _decode_slowly(line)
        elif type(value) is dict and len(value) == RESULT_MEMBERS and value.get("jsonrpc") == "2.0":
            id, result = value.get("id"), value.get("result", ABSENT)  # noqa: A001 - JSON-RPC's name for it
            if type(id) is int and result is not ABSENT:
                return id, Answer(result)  # as nearly always
    except ValueError as error:
        if not str(error).startswith("Detected duplicate key"):
            return Junk(str(error))
        try:
            jiter.from_json(line, allow_inf_nan=False)
            value, doubled = _decode_slowly(line)
        except ValueError as inner:
            return Junk(str(inner))
    if type(value) is not dict:
        return Junk("not a JSON object")
    return _classify(value, doubled)


def decode_value(data: bytes) -> Any:
    """Any one JSON value, with no key twice in any object of it. Raises `ValueError`."""
    value = jiter.from_json(data, catch_duplicate_keys=True, allow_inf_nan=False, cache_mode="all")
    if _may_overflow(data):
        value, _ = _decode_slowly(data)
    return value


def _classify(value: dict[str, Any], doubled: Doubled) -> Message:
    method, id = value.get("method", ABSENT), value.get("id", ABSENT)  # noqa: A001 - JSON-RPC's name for it
    if method is ABSENT:
        if id is ABSENT:
            return Junk("neither a request nor a response: it has no method and no id")
        versioned = value.get("jsonrpc") == "2.0"
        beside = {name: one for name, one in value.items() if name not in _OF_RESPONSES}
        return Response(id, value.get("result", ABSENT), value.get("error", ABSENT), versioned, doubled, beside)
    if type(method) is not str:
        return Junk("the method is not a string")
    if id is not ABSENT:
        return Request(id, method, value.get("params"))
    return Notification(method, value.get("params"))


def _may_overflow(line: bytes) -> bool:
    """Whether a number on the line is past a double's range, in the eyes of a second decoder; the first gives infinity for it.

    The second one refuses a few lines more, and reads large integers as doubles: it only says which lines to look at again.
    """
    try:
        orjson.loads(line)
    except ValueError:
        return True
    return False


def _decode_slowly(line: bytes) -> tuple[Any, Doubled]:
    """Decode a line that is known to be JSON with the one decoder that lets us look at every number and every key."""
    found: list[dict[str, Any]] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            found.append(built)
        return built

    value = json.loads(line, object_pairs_hook=build, parse_float=_finite)
    if not found:
        return value, Doubled.NOWHERE
    on_top = [value] if type(value) is not dict else [value, value.get("result"), value.get("error")]
    return value, Doubled.ON_TOP if any(one is top for one in found for top in on_top) else Doubled.INSIDE


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError("number out of range")
    return number


_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def encode(value: Any) -> bytes:
    """The value as JSON, exactly, or `EncodeError`.

    The fast encoder writes NaN as null and refuses integers past 64 bits; what it may have got wrong goes to the slow one.
    """
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return _encode_slowly(value)
    # From the right, which is the faster search; `in` would be slower still, by an exception that it makes and drops.
    if data.rfind(b"null") >= 0 and orjson.loads(data) != value:
        return _encode_slowly(value)
    return data


def part(value: Any) -> orjson.Fragment:
    """A value's JSON, made once for all that it is a part of."""
    return orjson.Fragment(encode(value))


def encode_around(value: Any) -> bytes | None:
    """The JSON of a value that holds parts; None where only `encode`, and no parts, would say it exactly."""
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return None
    return None if data.rfind(b"null") >= 0 else data


def _encode_slowly(value: Any) -> bytes:
    try:
        data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode()
        json.loads(data, object_pairs_hook=_each_once)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"the payload cannot be sent as JSON: {error}") from None
    return data


def _plain(value: Any) -> Any:
    """What the fast encoder takes and the slow one does not, so that both take the same."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    """Keys that differ in Python, 1 and "1", may be one key in JSON, and then each reader takes another value."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("two keys of an object are the same in JSON")
