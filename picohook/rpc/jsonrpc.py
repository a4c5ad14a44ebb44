"""JSON-RPC 2.0: error codes, the check of a request, and the lines of responses and notifications. Pure."""

import json
from typing import Any, Final, Self

from ..protocol.codec import encode

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REFUSED: Final = -32000
"""The host cannot do it. The message says why. `data.problems` lists the mistakes of a configuration."""
NOT_OPEN: Final = -32001
"""This connection has no such session, turn, pause or decided call."""
TAKEN: Final = -32002
"""A session or turn of this name is open already."""
RETRY_LIMIT: Final = -32003
"""Hooks asked for another round of this turn too many times."""
SHUTTING_DOWN: Final = -32004
"""The server ended before the call was answered."""

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
    """An error that is sent to the client. Without a message, it has the standard one of its code."""

    def __init__(self, code: int, message: str = "", data: Any = None) -> None:
        super().__init__(message or ERRORS[code])
        self.code = code
        self.data = data

    @classmethod
    def because(cls, code: int, why: str, data: Any = None) -> Self:
        """Returns an error with the standard message of its code, and the reason."""
        return cls(code, f"{ERRORS[code]}: {why}", data)


_PARAMS = frozenset({dict, list})
_IDS = frozenset({str, int, float, type(None)})


def require_request(value: Any) -> None:
    """Raise `RpcError` unless the value is a request."""
    if type(value) is not dict:
        why = "it is not an object"
    elif value.get("jsonrpc") != "2.0":
        why = '`jsonrpc` has to be "2.0"'
    elif type(value.get("method")) is not str:
        why = "`method` has to be a string"
    elif type(value.get("params", {})) not in _PARAMS:
        why = "`params` has to be an object or a list"
    elif type(value.get("id")) not in _IDS:
        why = "`id` has to be a string or a number"
    else:
        return
    raise RpcError.because(INVALID_REQUEST, why)


def response(identity: Any, result: Any) -> bytes:
    """A response. Its result is ASCII, so that no byte acts on a terminal. A result of bytes is JSON already."""
    body = result if type(result) is bytes else json.dumps(result).encode()
    number = b"%d" % identity if type(identity) is int else encode(identity)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (number, body)


def error_response(identity: Any, error: RpcError) -> bytes:
    """A response with an error."""
    body = {"code": error.code, "message": str(error)} | ({} if error.data is None else {"data": error.data})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(identity), json.dumps(body).encode())


def notification(method: str, params: Any) -> bytes:
    """A notification."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()
