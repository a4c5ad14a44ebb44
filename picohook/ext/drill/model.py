"""A model whose answers are a script, behind three vendors' interfaces on this machine: Anthropic's, OpenAI's and Google's."""

import json
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from .agents import Call, filled

Said: TypeAlias = str | list[Call]
"""What a model says: a text that ends the turn, or calls of tools."""
Step: TypeAlias = "Said | Callable[[Model], Said]"
"""One answer of a script, or a function that makes it when it is due."""
Event: TypeAlias = tuple[str, dict[str, Any]]
_WAITS, _LOOKS = 45.0, 0.05
"""Seconds that one script waits for the others, and between two looks at them."""
FORMS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def events(vendor: str, said: Said, model: str = "scripted") -> list[Event]:
    """Returns the events of a vendor's interface, each with its kind."""
    form = FORMS[vendor]
    if isinstance(said, str):
        reason, items = "end_turn", [filled(form["text"], text=said)]
    else:
        reason, items = "tool_use", [_called(form["call"], call) for call in said]
    each = [event for at, item in enumerate(items) for event in filled(form["each"], at=at, item=item, **item)]
    return filled([*form["begin"], *each, *form["end"]], model=model, reason=reason, items=items)


def _called(form: dict[str, Any], call: Call) -> dict[str, Any]:
    identity, tool, arguments = call
    namespace, _, name = tool.rpartition("/")
    words = {"id": identity, "tool": tool, "namespace": namespace, "name": name}
    made = filled(form, **words, json=json.dumps(arguments), arguments=arguments)
    return {key: value for key, value in made.items() if value != ""}


def _body(path: str, said: Callable[[], Said]) -> tuple[str, bytes]:
    """Returns the type and the body of a response; both empty for a path of no interface. Only then nothing is said."""
    for vendor, form in FORMS.items():
        if path.endswith(tuple(form.get("plain", ()))):
            return "application/json", json.dumps(events(vendor, said())[0][1]).encode()
        if path.endswith(tuple(form["path"])):
            lines = [
                f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"
                if kind
                else f"data: {json.dumps(data)}\n\n"
                for kind, data in events(vendor, said())
            ]
            return "text/event-stream", "".join(lines).encode()
    return "", b""


class _Handler(BaseHTTPRequestHandler):
    server: "Model"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        kind, body = _body(self.path.partition("?")[0], partial(self.server.answer, request))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "application/json")
        self.end_headers()
        self.wfile.write(body)


class Model(ThreadingHTTPServer):
    """Says what a script says, one answer for each request that has tools, and then that it is done.

    Of several scripts, each by a word, the first whose word is in the request is said. So a sub-agent has its own.
    """

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
        """Returns the next answer. A request without tools is not about the agent's work, and gets a word.

        The end of a script waits for the other scripts: an agent that has ended runs no sub-agent.
        """
        if not request.get("tools"):
            return "a word"
        text = json.dumps(request)
        with self._lock:
            self.requests += 1
            self.results |= _results(request)
            script = next((script for word, script in self.scripts.items() if word in text), None)
            said = script.pop(0) if script else "done"
        end = time.monotonic() + _WAITS
        while script == [] and said == "done" and any(self.scripts.values()) and time.monotonic() < end:
            time.sleep(_LOOKS)
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
        threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield model
        finally:
            model.shutdown()
