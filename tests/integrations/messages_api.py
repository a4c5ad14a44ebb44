"""A small server of Anthropic's messages API, on this machine: it answers each request with the next answer of a script."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from picohook.ext.drill.model import events

HELPER = "You are the one who helps."


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for kind, data in events("anthropic", self.server.answer(request), request["model"]):
            self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode())
        self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: list[Any], helps: list[Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.helps = helps
        self.helped = threading.Event()
        """Set once the subagent has all its answers."""
        self.results: dict[str, str] = {}
        """What the model was told of each call, by its id."""
        self.requests: list[str] = []
        """The last message of each request, as JSON."""

    def answer(self, request: dict[str, Any]) -> Any:
        """Returns the next answer. A request without tools is not the agent's own, and gets a word."""
        if not request.get("tools"):
            return "a word"
        for message in request["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            self.results |= {block["tool_use_id"]: _text(block) for block in blocks if block["type"] == "tool_result"}
        if HELPER in json.dumps(request.get("system")):
            said = self.helps.pop(0)
            if not self.helps:
                self.helped.set()
            return said
        self.requests.append(json.dumps(request["messages"][-1]))
        if len(self.requests) > 1 and self.helps:
            self.helped.wait()
        return self.script[len(self.requests) - 1]


def _text(block: dict[str, Any]) -> str:
    content = block.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@contextmanager
def serving(script, helps=()):
    """Serves this script. Gives the server: its address, and what the model was told.

    `helps` are the answers for the subagent whose prompt is `HELPER`, which may run at the same time as the agent. The agent's
    second request waits for the last of them.
    """
    server = _Server(script, list(helps))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
