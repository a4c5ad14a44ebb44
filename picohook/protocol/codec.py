"""The JSON codec: one line to one message, and values to bytes.

Decoding is strict, because two lenient readers may read the same line differently: no NaN, no number outside a double's range,
no lone surrogate, no duplicate key where it could matter, at most 200 levels. Integers stay exact.
"""

import json
import math
import re
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Any
from uuid import UUID

import jiter
import orjson

from ..errors import EncodeError
from ..wire import words
from .messages import ABSENT, DuplicateKeys, InvalidLine, Message, Notification, Request, Response

_NOWHERE = DuplicateKeys.NOWHERE  # a member of an enum is slow to look up, and every line needs this one
_RESPONSE_MEMBERS = frozenset({"jsonrpc", "id", "result", "error"})
_OUT_OF_RANGE = "number out of range"
TOO_MANY_VALUES = f"it has more than {words.MAX_VALUES} values and names, or too many digits and escapes"
MAX_ESCAPES = 2_000_000
"""The most escapes in strings; they take about 50 ms."""
_FEW = 2 * words.MAX_VALUES
"""The most bytes that cannot hold too many values: each takes one byte at least, and one that separates it."""
_DIGITS_OF_VALUE = 25
"""The number of digits of numbers that count as a value: long integers take long to decode."""
ENDS = 512
"""The number of bytes at each end of a line that are searched for its envelope."""


class TooManyValuesError(ValueError):
    """A JSON text has too many values to be decoded on the event loop."""

    def __init__(self, data: bytes) -> None:
        super().__init__(TOO_MANY_VALUES)
        self.id, self.is_request = envelope_of(data[:ENDS], data[-ENDS:])


def decode(line: bytes) -> Message:
    """The message on a line; an `InvalidLine` if it is not a message. Never raises."""
    if len(line) > _FEW and has_too_many_values(line):
        return _unread(line)
    duplicates = _NOWHERE
    try:
        value = jiter.from_json(line, catch_duplicate_keys=True, allow_inf_nan=False, cache_mode="all")
        if _overflows(line, value):
            return InvalidLine(_OUT_OF_RANGE)
    except ValueError as error:
        if not str(error).startswith("Detected duplicate key"):
            return InvalidLine(str(error))
        try:
            jiter.from_json(line, allow_inf_nan=False)
            value, duplicates = _decode_slowly(line)
        except ValueError as inner:
            return InvalidLine(str(inner))
    if type(value) is not dict:
        return InvalidLine("not a JSON object")
    return _classify(value, duplicates)


def has_too_many_values(data: bytes) -> bool:
    """Whether a JSON text has too many values and names to be decoded on an event loop. It looks at each byte a few times."""
    if len(data) <= _FEW:
        return False
    if b"\\" in data:
        if data.count(b"\\") > MAX_ESCAPES:
            return True
        if not _are_too_many(data):
            return False
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return _are_too_many(b"".join(data.split(b'"', _FEW + 2)[::2]))  # outside strings; so many strings are too many


def _are_too_many(data: bytes) -> bool:
    separators = len(data) - len(data.translate(None, b"[{:,"))
    digits = len(data) - len(data.translate(None, b"0123456789"))
    return separators + digits // _DIGITS_OF_VALUE > words.MAX_VALUES


_ID = rb'"id"\s*:\s*(?P<id>0|[1-9]\d{0,17}|"[ !#-\[\]-~]{0,200}")\s*'
_VERSION = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_METHOD = rb'(?:"(?P<method>method)"\s*:\s*"[^"\\]*"\s*,\s*)?'
_BEGINNING = re.compile(rb"\s*\{\s*%b%b%b(?:%b,\s*)?%b\"(?P<next>\w+)\"" % (_VERSION, _METHOD, _VERSION, _ID, _VERSION))
_END = re.compile(rb'[{,]\s*%b(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$' % _ID)


def envelope_of(beginning: bytes, end: bytes) -> tuple[Any, bool]:
    """The id of a line that is not decoded, and whether it is a request, by its first and last bytes; without an id, None.

    Authors of JSON-RPC write the id as one of the first members, or of the last.
    """
    first, last = _BEGINNING.match(beginning), _END.search(end)
    found = first if first is not None and first["id"] else last
    is_request = first is not None and not {b"method", b"params"}.isdisjoint((first["method"], first["next"]))
    return (None if found is None else json.loads(found["id"])), is_request


def _unread(line: bytes) -> Message:
    """The message for a line with too many values: a response if it seems to be one."""
    identity, is_request = envelope_of(line[:ENDS], line[-ENDS:])
    if identity is None or is_request:
        return InvalidLine(TOO_MANY_VALUES)
    return Response(identity, ABSENT, ABSENT, versioned=True, duplicates=_NOWHERE, unread=TOO_MANY_VALUES)


def decode_value(data: bytes) -> Any:
    """The value of a JSON text, of any type. Raises `ValueError`, also for a duplicate key."""
    if has_too_many_values(data):
        raise TooManyValuesError(data)
    return decode_own(data)


def load(text: str | bytes, **options: Any) -> Any:
    """Returns the value that `json.loads` reads, which is more lenient than `decode_value`. Raises `ValueError`."""
    if len(text) > _FEW:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if has_too_many_values(data):
            raise TooManyValuesError(data)
    return json.loads(text, **options)


def decode_own(data: bytes) -> Any:
    """Returns the value of a JSON text as `decode_value` does, however many values it has: for texts of this process."""
    value = jiter.from_json(data, catch_duplicate_keys=True, allow_inf_nan=False, cache_mode="all")
    if _overflows(data, value):
        raise ValueError(_OUT_OF_RANGE)
    return value


def _classify(value: dict[str, Any], duplicates: DuplicateKeys) -> Message:
    method, id = value.get("method", ABSENT), value.get("id", ABSENT)  # noqa: A001 - JSON-RPC's name for it
    if method is ABSENT:
        if id is ABSENT:
            return InvalidLine("neither a request nor a response: it has no method and no id")
        versioned = value.get("jsonrpc") == "2.0"
        beside = {}
        if not value.keys() <= _RESPONSE_MEMBERS:
            beside = {name: one for name, one in value.items() if name not in _RESPONSE_MEMBERS}
        return Response(id, value.get("result", ABSENT), value.get("error", ABSENT), versioned, duplicates, beside)
    if type(method) is not str:
        return InvalidLine("the method is not a string")
    if id is not ABSENT:
        return Request(id, method, value.get("params"))
    return Notification(method, value.get("params"))


def _overflows(line: bytes, value: Any) -> bool:
    """Whether the line has a number outside a double's range, which jiter decodes as infinity, and orjson encodes as null."""
    try:
        again = orjson.dumps(value)  # it takes less time than a look at each value
    except TypeError:  # an integer beyond 64 bits
        return not _are_exact((value,))
    return again != line and _may_have_null(again) and not _are_exact((value,))


def _decode_slowly(line: bytes) -> tuple[Any, DuplicateKeys]:
    """The value of a line that is known to be JSON with duplicate keys, and where these are. Raises `ValueError`.

    `json` is the one decoder that shows every number and every key.
    """
    found: list[dict[str, Any]] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            found.append(built)
        return built

    value = json.loads(line, object_pairs_hook=build, parse_float=_finite)
    on_top = [value] if type(value) is not dict else [value, value.get("result"), value.get("error")]
    return value, DuplicateKeys.ON_TOP if any(one is top for one in found for top in on_top) else DuplicateKeys.INSIDE


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(_OUT_OF_RANGE)
    return number


_BEFORE_VALUE = frozenset({b":", b",", b"["})


def _may_have_null(data: bytes) -> bool:
    """Whether JSON without spaces may have a null. Inside a text, other bytes than `:`, `,` and `[` precede it.

    It looks at a limited number of places, and returns True if none of them decides.
    """
    start = data.rfind(b"null")
    if start < 0:
        return False
    for _ in range(16 + len(data) // 4096):
        if start == 0 or data[start - 1 : start] in _BEFORE_VALUE:
            return True
        start = data.rfind(b"null", 0, start)
        if start < 0:
            return False
    return True


_EXACT = frozenset({int, bool, type(None)})


def _are_exact(values: Iterable[Any]) -> bool:
    """Whether these values and all inside them are of the types that JSON has, and finite. So each null stands for a None."""
    for value in values:
        kind = type(value)
        if kind is str:  # most are
            continue
        if kind is dict:
            if not _are_exact(value.values()):
                return False
        elif kind is list:
            if not _are_exact(value):
                return False
        elif kind not in _EXACT and not (kind is float and math.isfinite(value)):
            return False
    return True


_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def encode(value: Any) -> bytes:
    """The value as JSON. Raises `EncodeError` for a value that JSON cannot hold exactly.

    orjson writes NaN as null and refuses integers beyond 64 bits: such a value is encoded again by `json`.
    """
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return _encode_slowly(value)
    # rfind is the fastest search here; `in` is the slowest, because it raises and catches an exception inside.
    if data.rfind(b"null") >= 0 and _may_have_null(data) and not _are_exact((value,)):
        return _encode_slowly(value)
    return data


def encode_ordered(value: Any) -> bytes:
    """A value as JSON, with the names of each object in order: the same value has the same bytes, and another one has others.

    They are no JSON for a value that has none, such as NaN.
    """
    try:
        data = orjson.dumps(value, option=_OPTIONS | orjson.OPT_SORT_KEYS)
        if not _may_have_null(data) or _are_exact((value,)):
            return data
    except TypeError:  # an integer beyond 64 bits, or half of a character
        pass
    return json.dumps(value, sort_keys=True, default=_plain).encode()


@cache
def between_id_and_params(method: str) -> bytes:
    """The bytes between a request's id and its params."""
    return b',"method":"%s","params":' % method.encode()


def notification_line(method: str, params: bytes) -> bytes:
    """The whole line of a notification, for all hooks that get it."""
    return b'{"jsonrpc":"2.0","method":"%s","params":%s}\n' % (method.encode(), params)


def _encode_slowly(value: Any) -> bytes:
    try:
        data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode()
        json.loads(data, object_pairs_hook=_refuse_same_keys)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"the payload cannot be sent as JSON: {error}") from None
    return data


def _plain(value: Any) -> Any:
    """The JSON form of an enum member or a UUID, which `json` refuses and orjson accepts. Raises `TypeError` for others."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _refuse_same_keys(pairs: list[tuple[str, Any]]) -> None:
    """Raises `ValueError` if keys that differ in Python, such as 1 and "1", are the same in JSON."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("two keys of an object are the same in JSON")
