"""A model whose answers are a script, behind three vendors' interfaces on this machine: Anthropic's, OpenAI's and Google's."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

sys.path.append(str(Path(__file__).parents[1] / "integrations"))

from messages_api import _events as anthropic_events

if TYPE_CHECKING:
    from collections.abc import Iterator

Said: TypeAlias = "str | list[tuple[str, str, dict[str, Any]]]"
"""What a model says: a text that ends the turn, or calls of tools, each with its id, tool and arguments."""


def _anthropic(said: Said) -> Iterator[bytes]:
    for kind, data in anthropic_events("scripted", said):
        yield f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _openai(said: Said) -> Iterator[bytes]:
    """The events of OpenAI's interface for responses."""
    text = {"type": "output_text", "text": said}
    message = {"type": "message", "role": "assistant", "id": "m", "content": [text]}
    items = (
        [message]
        if isinstance(said, str)
        else [
            {"type": "function_call", "id": f"i{one}", "call_id": one, "name": tool, "arguments": json.dumps(arguments)}
            if "input" not in arguments
            else {
                "type": "custom_tool_call",
                "id": f"i{one}",
                "call_id": one,
                "name": tool,
                "input": arguments["input"],
            }
            for one, tool, arguments in said
        ]
    )
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    events = [("response.created", {"response": {"id": "r"}})]
    events += [("response.output_item.done", {"output_index": at, "item": item}) for at, item in enumerate(items)]
    events += [("response.completed", {"response": {"id": "r", "output": items, "usage": usage}})]
    for kind, data in events:
        yield f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _google(said: Said) -> Iterator[bytes]:
    parts: list[Any] = (
        [{"text": said}]
        if isinstance(said, str)
        else [{"functionCall": {"id": one, "name": tool, "args": arguments}} for one, tool, arguments in said]
    )
    answer = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }
    yield f"data: {json.dumps(answer)}\n\n".encode()


class _Handler(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(404, "application/json", b"{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        path = self.path.partition("?")[0]
        if path.endswith("/messages"):
            answer = b"".join(_anthropic(self.server.answer(request)))
        elif path.endswith("/responses"):
            answer = b"".join(_openai(self.server.answer(request)))
        elif path.endswith(":streamGenerateContent"):
            answer = b"".join(_google(self.server.answer(request)))
        elif path.endswith(":generateContent"):
            self._send(200, "application/json", b"".join(_google(self.server.answer(request)))[6:])
            return
        else:
            self._send(404, "application/json", b"{}")
            return
        self._send(200, "text/event-stream", answer)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


class Model(ThreadingHTTPServer):
    """A model that says what its script says, one answer for each request that has tools, and then that it is done."""

    daemon_threads = True

    def __init__(self, script: list[Said]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = list(script)
        self.requests = 0
        """How many requests had tools."""
        self.last: dict[str, Any] = {}
        """The last of them, with the whole conversation."""
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, request: dict[str, Any]) -> Said:
        """Returns the next answer."""
        if not request.get("tools"):
            return "a word"
        with self._lock:
            self.requests += 1
            self.last = request
            return self.script.pop(0) if self.script else "done"


@contextmanager
def serving(script: list[Said]) -> Iterator[Model]:
    """Serves a model with this script."""
    model = Model(script)
    thread = threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield model
    finally:
        model.shutdown()
        model.server_close()
        thread.join()
