"""An endpoint of OpenAI's chat completions, on this machine, for tests."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


def with_nonce(prompt, **answer):
    """A model's answer to this prompt: these fields, and the nonce."""
    nonce = re.search(r'"nonce" has to be "(\w+)"', prompt)[1]
    return json.dumps({"nonce": nonce, **answer})


class Endpoint(ThreadingHTTPServer):
    """Answers each request with the next of its answers, and keeps what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = []
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def says(self, content):
        """Answer with a text, or with the fields of an answer to a hook's prompt."""

        def body(asked):
            prompt = asked["messages"][0]["content"]
            text = with_nonce(prompt, **content) if isinstance(content, dict) else content
            return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})

        self.answers.append((200, body))


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, dict(self.headers), json.loads(body)))
        status, text = self.server.answers.pop(0)
        if callable(text):
            text = text(self.server.asked[-1][2])
        self.send_response(status)
        if status == 307:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture
def endpoint(monkeypatch):
    with served(Endpoint(), monkeypatch) as server:
        yield server


@contextmanager
def served(server, monkeypatch):
    """Serves in a thread, without a proxy between."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
