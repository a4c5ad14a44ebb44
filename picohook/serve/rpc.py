"""JSON-RPC 2.0, as far as it is the same for every method: what a line asks, and what is answered. Pure.

Lines are read by the protocol's strict decoder, so a number comes out as it came in, and a key that is there twice is no JSON.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..protocol.codec import decode_value, encode

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REFUSED: Final = -32000
"""The host cannot do it; the message says why, and `data.problems` what is wrong with a configuration."""
NOT_OPEN: Final = -32001
"""There is no such session or turn on this connection."""
TAKEN: Final = -32002
"""A session or turn of this name is open already."""
RETRY_LIMIT: Final = -32003
"""Hooks asked for another round of this turn too many times."""
SHUTTING_DOWN: Final = -32004
"""The server ends, and no longer waits for this call."""

ERRORS: Final = {
    PARSE_ERROR: "Parse error",
    INVALID_REQUEST: "Invalid Request",
    METHOD_NOT_FOUND: "Method not found",
    INVALID_PARAMS: "Invalid params",
    INTERNAL_ERROR: "Internal error",
    REFUSED: "Refused",
    NOT_OPEN: "Not open",
    TAKEN: "Taken",
    RETRY_LIMIT: "Retry limit",
    SHUTTING_DOWN: "Shutting down",
}


class RpcError(Exception):
    """What is answered in place of a result."""

    def __init__(self, code: int, message: str = "", data: Any = None) -> None:
        super().__init__(message or ERRORS[code])
        self.code = code
        self.data = data


def parsed(line: bytes) -> Any:
    """What is on a line. Raises `RpcError`."""
    try:
        return decode_value(line)
    except ValueError:
        raise RpcError(PARSE_ERROR) from None


def require_request(value: Any) -> None:
    """Raise `RpcError`, with the reason, for what is no request."""
    if type(value) is not dict:
        why = "it is no object"
    elif value.get("jsonrpc") != "2.0":
        why = '`jsonrpc` has to be "2.0"'
    elif type(value.get("method")) is not str:
        why = "`method` has to be a string"
    elif type(value.get("params", {})) not in {dict, list}:
        why = "`params` has to be an object or a list"
    elif value.get("id") is not None and type(value["id"]) not in {str, int, float}:
        why = "`id` has to be a string or a number"
    else:
        return
    raise RpcError(INVALID_REQUEST, f"{ERRORS[INVALID_REQUEST]}: {why}")


def answer(identity: Any, result: Any) -> bytes:
    """A response, in ASCII: no byte of it can act on a terminal. A result that is bytes is JSON already."""
    body = result if type(result) is bytes else json.dumps(result).encode()
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_identity(identity), body)


def complaint(identity: Any, error: RpcError) -> bytes:
    """An error response."""
    told = {"code": error.code, "message": str(error)} | ({} if error.data is None else {"data": error.data})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_identity(identity), json.dumps(told).encode())


def notification(method: str, params: Any) -> bytes:
    """Something that the other side is told."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def _identity(identity: Any) -> bytes:
    return b"%d" % identity if type(identity) is int else encode(identity)
