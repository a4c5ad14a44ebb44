"""A model whose answers are a script, behind three vendors' interfaces on this machine: Anthropic's, OpenAI's and Google's."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Call: TypeAlias = tuple[str, str, dict[str, Any]]
"""A call of a tool: its id, the tool and the arguments. A tool of a namespace is called NAMESPACE/NAME."""
Said: TypeAlias = str | list[Call]
"""What a model says: a text that ends the turn, or calls of tools."""
Step: TypeAlias = "Said | Callable[[Model], Said]"
"""One answer of a script, or a function that makes it when it is due."""
Event: TypeAlias = tuple[str, dict[str, Any]]


def anthropic_events(model: str, said: Said) -> list[Event]:
    """The events of Anthropic's interface for messages, each with its kind."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    events: list[Event] = [("message_start", {"message": message})]
    for index, one in enumerate([said] if isinstance(said, str) else said):
        block: Any
        if isinstance(one, str):
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": one}
        else:
            block = {"type": "tool_use", "id": one[0], "name": one[1], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(one[2])}
        events.append(("content_block_start", {"index": index, "content_block": block}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    reason = "end_turn" if isinstance(said, str) else "tool_use"
    events.append(("message_delta", {"delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}))
    return [*events, ("message_stop", {})]


def _openai_events(said: Said) -> list[Event]:
    """The events of OpenAI's interface for responses."""
    text = {"type": "output_text", "text": said}
    items: list[Any] = [{"type": "message", "role": "assistant", "id": "m", "content": [text]}]
    if not isinstance(said, str):
        items = []
        for one, tool, arguments in said:
            namespace, _, name = tool.rpartition("/")
            call = {"type": "function_call", "id": f"i{one}", "call_id": one, "name": name}
            items.append(
                {**call, "arguments": json.dumps(arguments), **({"namespace": namespace} if namespace else {})}
            )
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    done = [("response.output_item.done", {"output_index": at, "item": item}) for at, item in enumerate(items)]
    ended = ("response.completed", {"response": {"id": "r", "output": items, "usage": usage}})
    return [("response.created", {"response": {"id": "r"}}), *done, ended]


def _streamed(events: list[Event]) -> bytes:
    return "".join(f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events).encode()


def _google(said: Said) -> bytes:
    parts: list[Any] = [{"text": said}]
    if not isinstance(said, str):
        parts = [{"functionCall": {"id": one, "name": tool, "args": arguments}} for one, tool, arguments in said]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()


_FORMS: Mapping[str, tuple[str, Callable[[Said], bytes]]] = {
    "/messages": ("text/event-stream", lambda said: _streamed(anthropic_events("scripted", said))),
    "/responses": ("text/event-stream", lambda said: _streamed(_openai_events(said))),
    ":streamGenerateContent": ("text/event-stream", lambda said: b"data: " + _google(said) + b"\n\n"),
    ":generateContent": ("application/json", _google),
}
"""The form of a response, by the end of the path."""


class _Handler(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        path = self.path.partition("?")[0]
        kind, form = next((form for end, form in _FORMS.items() if path.endswith(end)), ("", None))
        body = form(self.server.answer(request)) if form else b"{}"
        self.send_response(200 if form else 404)
        self.send_header("Content-Type", kind or "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


class Model(ThreadingHTTPServer):
    """Says what a script says, one answer for each request that has tools, and then that it is done.

    Of several scripts, each by a word, the first whose word is in the request is said. So a sub-agent has its own.
    """

    daemon_threads = True

    def __init__(self, scripts: Mapping[str, list[Step]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.scripts = scripts
        self.requests = 0
        """How many requests had tools."""
        self.results: dict[str, str] = {}
        """What the model was told of each call, by its id."""
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> Said:
        """Returns the next answer. A request without tools is not about the agent's work, and gets a word."""
        if not request.get("tools"):
            return "a word"
        text = json.dumps(request)
        with self._lock:
            self.requests += 1
            self.results |= _results(request)
            script = next((script for word, script in self.scripts.items() if word in text), [])
            said = script.pop(0) if script else "done"
        return said(self) if callable(said) else said


def _results(value: Any) -> dict[str, str]:
    """What a conversation says of each call's result."""
    found: dict[str, str] = {}
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found |= _results(one)
    if isinstance(value, dict):
        call = next((value[name] for name in ("tool_use_id", "call_id", "id") if isinstance(value.get(name), str)), "")
        for said in [value[name] for name in ("content", "output", "response") if call and name in value]:
            found[call] = said if isinstance(said, str) else json.dumps(said)
    return found


@contextmanager
def serving(scripts: Mapping[str, list[Step]]) -> Iterator[Model]:
    """Serves a model with these scripts."""
    with Model(scripts) as model:
        thread = threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join()
