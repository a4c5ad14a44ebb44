"""The other end of a conversation, made of bytes: what was written to the hook, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from picohook.protocol.messages import Reply
from picohook.protocol.peer import DroppedLine, Peer


class Hook:
    """A peer, and a pipe to it that takes as many bytes as the test says."""

    def __init__(self, *, ready: bool = True, capabilities: Any = None, **limits: int) -> None:
        self.peer = Peer(**limits)
        self.written = b""
        if ready:
            self.peer.hello("a hook", ["tool"], "hello")
            self.take()
            ((token, _),) = self.says({"id": 1, "result": {}})
            assert self.peer.accept_hello({"capabilities": capabilities or {}}) is None
            assert token == "hello"
            self.written = b""

    def take(self, most: int | None = None) -> bytes:
        """Let the peer write, at most so many bytes; what it wrote."""
        taken = b""
        while self.peer.wants_to_send and (most is None or len(taken) < most):
            data = b"".join(self.peer.data_to_send())
            part = data if most is None else data[: most - len(taken)]
            self.peer.data_sent(len(part))
            taken += part
        self.written += taken
        return taken

    @property
    def read(self) -> list[Any]:
        """All that the hook has read so far: whole lines only."""
        *lines, _ = self.written.split(b"\n")
        return [json.loads(line) for line in lines]

    def says(self, *messages: dict[str, Any] | bytes) -> list[Any]:
        """The events that come of these lines. An object gets its "jsonrpc"."""
        lines = [
            message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
            for message in messages
        ]
        return list(self.peer.receive_data(b"".join(line + b"\n" for line in lines)))

    def ask(self, token: Any, method: str = "hook.before_tool", params: bytes = b"{}", *, strict: bool = False) -> int:
        return self.peer.request(method, params, token, strict=strict)

    def answers(self, message: dict[str, Any] | bytes, *, strict: bool = False) -> Reply:
        """What comes of this answer to a request that was written."""
        request = self.ask("asked", strict=strict)
        self.take()
        if isinstance(message, dict):
            message = {"id": request, **message}
        ((token, answer),) = self.says(message)
        assert isinstance(answer, Reply)
        assert token == "asked"
        return answer

    def is_noise(self, message: dict[str, Any] | bytes) -> bool:
        """Whether this is dropped, and nothing that waits is touched."""
        waiting = self.peer.in_flight()
        (event,) = self.says(message)
        return isinstance(event, DroppedLine) and self.peer.in_flight() == waiting


@pytest.fixture
def talk() -> type[Hook]:
    """Makes hooks, with the limits and capabilities that a test gives."""
    return Hook


@pytest.fixture
def hook() -> Hook:
    """One that has said hello."""
    return Hook()
