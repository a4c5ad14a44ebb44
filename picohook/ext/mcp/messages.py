"""Splits bytes into the lines of MCP, reads them strictly, and makes the lines that the proxy writes itself. Pure.

The other side reads each forwarded line again, with a decoder of its own. So a line that two decoders could read differently is
refused: a key that is there twice, or in another case, and a carriage return inside, at which some servers end a line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...protocol.codec import ENDS, decode_value, encode, envelope_of
from ...rpc.jsonrpc import INVALID_REQUEST, RpcError, error_response

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Message: TypeAlias = dict[str, Any]
_ENVELOPE = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
CALL = frozenset({"name", "arguments", "task", "requestState", "inputResponses"})
"""The members of a tool call's params that decide its effect."""
RESULT = frozenset({"content", "structuredContent", "isError", "resultType"})
"""The members of a tool's result that the proxy reads."""
SAMPLING = frozenset(
    {"messages", "systemPrompt", "tools", "task", "temperature", "maxTokens", "stopSequences", "modelPreferences"}
)
"""The members of the params of a question to the model that the proxy reads."""
MODEL = frozenset({"role", "content", "model", "stopReason"})
"""The members of a model's answer."""
DECIDED = frozenset({"tools/call", "tools/list", "sampling/createMessage"})
"""The methods that hooks decide on."""
UNSEEN = ("task", "toolResult")
"""Members of a tool's result that hooks cannot see: a task, whose result comes later, and a result of MCP's first version."""
VERSION = "io.modelcontextprotocol/protocolVersion"
"""The member of `_meta` that each request of the newer protocol has."""


LONGEST_METHOD = 1000
ASKS = {
    "sampling": "sampling/createMessage",
    "elicitation": "elicitation/create",
    "roots": "roots/list",
}
"""The requests of a server to its client: names for people, and the methods."""


class RefusedLineError(ValueError):
    """A line that is not forwarded."""

    def __init__(self, why: str, *, asks: Any = None, answers: Any = None) -> None:
        super().__init__(why)
        self.asks = asks
        """The id of the request on it; None if it is no request."""
        self.answers = answers
        """The id of the response on it; None if it is no response."""

    @classmethod
    def unread(cls, line: bytes | LongLine, why: str) -> RefusedLineError:
        """The error for a line that is not decoded. Its first and last bytes show whose answer it is."""
        beginning, end = line if isinstance(line, LongLine) else (line[:ENDS], line[-ENDS:])
        identity, is_request = envelope_of(beginning, end)
        return cls(why, asks=identity) if is_request else cls(why, answers=identity)


def read(line: bytes) -> dict[str, Any]:
    """The message on a line. Raises `RefusedLineError`."""
    if line.find(b"\r", 0, -1) >= 0:
        raise RefusedLineError.unread(line, "it has a carriage return inside")
    try:
        value = decode_value(line)
    except ValueError as error:
        raise RefusedLineError.unread(line, str(error)) from None
    if type(value) is not dict:
        raise RefusedLineError("it is a batch" if type(value) is list else "it is not an object")
    if why := same_names(value, _ENVELOPE) or _flaw(value):
        identity = usable_id(value.get("id"))
        raise RefusedLineError(why, asks=identity) if "method" in value else RefusedLineError(why, answers=identity)
    return value


def read_mended(line: bytes) -> tuple[bytes, dict[str, Any]]:
    """The line with U+FFFD in place of each half of a surrogate pair, and its message. Raises `RefusedLineError`."""
    try:
        return line, read(line)
    except RefusedLineError:
        mended = _ESCAPE.sub(_mended, line) if len(line) <= MOST_MENDED else line
        message = {} if mended == line else read(mended)
        if not message or "\ufffd" in str(message.get("id")):  # the other side would not know it
            raise
        return mended, message


_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F])..|.)", re.DOTALL)
MOST_MENDED = 1 << 20
"""The most bytes of a line in which halves of surrogate pairs are replaced."""


def _mended(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[1] is None else b"\\ufffd"


def _flaw(value: dict[str, Any]) -> str:
    if value.get("jsonrpc") != "2.0":
        return '`jsonrpc` is not "2.0"'
    if "method" not in value:
        if ("result" in value) is ("error" in value):
            return "it has no method, and not exactly one of a result and an error"
        identity = value.get("id")
        return "" if usable_id(identity) is not None or ("error" in value and identity is None) else _NO_ID
    if type(value["method"]) is not str or "result" in value or "error" in value:
        return "its method is not a string, or it is a request and a response at once"
    if len(value["method"]) > LONGEST_METHOD:
        return f"its method has more than {LONGEST_METHOD} characters"
    if value["method"] not in DECIDED and _letters(value["method"]) in _LETTERS_OF_DECIDED:
        return f"its method {value['method']!r} is not one of MCP, and some servers would take it for one"
    if type(value.get("params", {})) is not dict:
        return "its params are not an object"
    return _NO_ID if "id" in value and usable_id(value["id"]) is None else ""


def _letters(method: str) -> str:
    return "".join(filter(str.isalpha, method.casefold()))


_LETTERS_OF_DECIDED = frozenset(map(_letters, DECIDED))
_NO_ID = "its id is neither a string nor a number"


def usable_id(identity: Any) -> Any:
    """The id, if it is a string or a number; else None."""
    return identity if type(identity) in {str, int, float} else None


def meta_of(params: dict[str, Any]) -> dict[str, Any]:
    """Returns the `_meta` of a request; empty if it is not an object."""
    meta = params.get("_meta")
    return meta if type(meta) is dict else {}


def same_names(value: dict[str, Any], names: frozenset[str]) -> str:
    """Returns why an object is refused: it has one of these names in another case, and some decoders take the two for one."""
    if value.keys() <= names:
        return ""  # as nearly always
    plain = {name.casefold() for name in names}
    for name in value.keys() - names:
        if name.casefold() in plain:
            return f"the name {name!r} differs only in case from one that MCP has"
    return ""


def require_allowed(message: Message, refused: Collection[str]) -> None:
    """Raise `RefusedLineError` if a message of the server asks the client for one of these methods, in either era.

    A question to the model in a result is always refused: hooks do not see it.
    """
    method, result = message.get("method"), message.get("result")
    if method in refused:
        raise RefusedLineError(f"the server asks for {method}, which is refused here", asks=message.get("id"))
    if type(result) is dict and type(requests := result.get("inputRequests")) is dict:
        for method in (one.get("method") for one in requests.values() if type(one) is dict):
            if method in (*refused, ASKS["sampling"]):
                why = f"the server asks for {method} in a result, which is refused here"
                raise RefusedLineError(why, answers=message.get("id"))


def line_of(value: dict[str, Any]) -> bytes:
    """A message as a line."""
    return encode(value) + b"\n"


def result_line(identity: Any, result: dict[str, Any]) -> bytes:
    """The line of a response with this result."""
    return line_of({"jsonrpc": "2.0", "id": identity, "result": result})


def error_line(identity: Any, why: str, code: int = INVALID_REQUEST) -> bytes:
    """The line of a response with an error."""
    return error_response(identity, RpcError(code, f"picohook: {why}")) + b"\n"


class LongLine(NamedTuple):
    """The parts of a line that is too long."""

    beginning: bytes
    end: bytes


class Lines:
    """The lines of a byte stream."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pending = 0
        """The number of bytes of an unfinished line."""
        self._parts: list[bytes] = []
        """The parts of that line; its ends only, if it is too long already."""

    def feed(self, data: bytes) -> Sequence[bytes | LongLine]:
        """The lines that these bytes complete, without their newlines."""
        if not self.pending and data.endswith(b"\n") and len(data) <= self.limit:
            return data[:-1].split(b"\n")  # whole lines, as nearly always
        made: list[bytes | LongLine] = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._keep(line)
            whole = b"".join(self._parts)
            made.append(whole if self.pending <= self.limit else LongLine(whole[:ENDS], whole[-ENDS:]))
            self.pending, self._parts = 0, []
        self._keep(rest)
        return made

    def _keep(self, part: bytes) -> None:
        self.pending += len(part)
        self._parts.append(part)
        if self.pending > max(self.limit, 2 * ENDS):
            whole = b"".join(self._parts)
            self._parts = [whole[:ENDS], whole[-ENDS:]]
