"""The server's own requests and notifications, which it sends to a client on the client's connection."""

from collections.abc import Callable
from typing import Any

import anyio

from ..errors import HookCrashedError, HookError, HookRefusedError, HookTimeoutError
from ..wire.text import show
from .jsonrpc import notification

ASK, CANCEL = "ask", "cancel"
"""The methods of messages to a client: a request for a hook that it answers itself, and a notification."""
MAX_OPEN = 1024
"""The most requests that may wait for one client."""
SHOWN_OF_MESSAGE = 200
"""Bytes of a client's error message that are shown."""


class OutgoingRequests:
    """The requests to one client. Each ends once: by its response, by its deadline, or with the connection."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        """`send` sends a line, and returns whether it could."""
        self._open: dict[int, tuple[anyio.Event, list[dict[str, Any]]]] = {}
        """By id: what is set at the end, and the response."""
        self._last_id = 0
        self._send = send

    def __len__(self) -> int:
        return len(self._open)

    async def ask(self, params: bytes, deadline: float) -> Any:
        """The client's result. Raises `HookError`."""
        if len(self._open) >= MAX_OPEN:
            raise HookError(f"the client has {MAX_OPEN} requests to answer already")
        self._last_id += 1
        number = self._last_id
        ended, responses = self._open[number] = anyio.Event(), []
        try:
            if self._send(b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}\n' % (number, ASK.encode(), params)):
                with anyio.CancelScope(deadline=deadline):
                    await ended.wait()
                if not ended.is_set():
                    raise HookTimeoutError
            if not responses:
                raise HookCrashedError("the client is gone")
            return _result(responses[0])
        finally:
            del self._open[number]
            if not ended.is_set():
                self._send(notification(CANCEL, {"id": number}) + b"\n")

    def take(self, response: dict[str, Any]) -> None:
        """Take a response. A late, repeated or unknown one is dropped."""
        number = response.get("id")
        ended, responses = self._open.get(number, (None, [])) if type(number) is int else (None, [])
        if ended is not None and not ended.is_set():
            responses.append(response)
            ended.set()

    def close(self) -> None:
        """Fail open requests now, and later ones at once: no more responses will come."""
        self._send = lambda _: False  # which does not refer to the connection
        for ended, _ in self._open.values():
            ended.set()


def _result(response: dict[str, Any]) -> Any:
    error = response.get("error")
    if error is None:
        return response.get("result")
    message, code = (error.get("message"), error.get("code")) if isinstance(error, dict) else (None, None)
    shown = show(str(message).encode("utf-8", "replace"), SHOWN_OF_MESSAGE)
    raise HookRefusedError(f"the client answered with an error: {shown}", code=code if type(code) is int else 0)


def is_response(value: Any) -> bool:
    """Whether a message is a response, and not a request."""
    return type(value) is dict and "method" not in value and "id" in value and ("result" in value or "error" in value)
