"""An agent without picohook's library: `picohook serve` guards its tools, over a socket. It needs only Python 3.11.

Run it with:

    picohook serve --config ../picohook.toml --socket hooks.sock &
    until [ -S hooks.sock ]; do sleep 0.1; done
    python3 agent.py hooks.sock
"""

from __future__ import annotations

import json
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Hooks:
    """A connection to the sidecar: one request at a time. While it waits, it answers for the agent's own hooks."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._lines = self._socket.makefile("rwb")
        self._last = 0
        self._own: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}

    def mount(
        self, session: str, hook: str, answer: Callable[[dict[str, Any]], dict[str, Any]], **settings: Any
    ) -> None:
        """Add a hook of the agent to this session. `answer` gets each request, and returns an answer as a hook process does."""
        self._own[hook] = answer
        self.ask("session.mount", session=session, hook=hook, **settings)

    def ask(self, method: str, **params: Any) -> Any:
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        while True:
            line = self._lines.readline()
            if not line:
                raise ConnectionError("the sidecar closed the connection")
            message = json.loads(line)
            if message.get("method") == "ask":  # its id is the sidecar's own
                asked = message["params"]
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": self._own[asked["hook"]](asked)})
            elif "method" not in message:
                break
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        self._lines.write(json.dumps(message).encode() + b"\n")
        self._lines.flush()


def run_tool(
    hooks: Hooks, turn: str, tool: str, arguments: dict[str, Any], execute: Callable[[dict[str, Any]], str]
) -> Any:
    """Make a whole tool call: before, approve, execute, after. Returns the text for the model."""
    call = {"meta": {"TurnID": turn}, "tool": tool, "arguments": arguments}
    before = hooks.ask("before_tool", **call)
    match before["action"]:
        case "respond":
            return before["result"]["for_llm"]
        case "deny_tool":
            by = "approval hook" if before.get("approved") is False else "hook"
            return denied(by, before)
        case "continue" | "modify":
            call = before.get("payload", call)  # as the hooks left it; a `continue` has none
        case ending:  # pause, abort_turn, hard_abort
            raise RuntimeError(f"{ending}: {before['reason']}")
    approval = hooks.ask("approve_tool", **call)
    if approval.get("approved") is not True:
        return denied("approval hook", approval)
    result = {"for_llm": execute(call["arguments"])}
    after = hooks.ask("after_tool", **call, result=result)
    if after["action"] not in {"continue", "modify"}:
        raise RuntimeError(f"{after['action']}: {after['reason']}")
    return after.get("payload", {"result": result})["result"]["for_llm"]


def denied(by: str, outcome: dict[str, Any]) -> str:
    """Return the text for the model about a call that does not run."""
    reason = outcome.get("reason_for_llm", outcome["reason"])
    return f"Tool execution denied by {by}" + (f": {reason}" if reason else "")


CALLS = (
    ("read_file", {"path": "notes.txt"}),
    ("bash", {"command": "rm -rf /"}),
    ("bash", {"command": "ls"}),
    ("get_weather", {"city": "Tokyo"}),
)


def user(asked: dict[str, Any]) -> dict[str, Any]:
    """Answer for the user, who accepts everything but a deletion."""
    return {"approved": "rm" not in str(asked["payload"]["arguments"]), "reason": "the user said no"}


def main() -> None:
    if not sys.argv[1:]:
        sys.exit("usage: python3 agent.py SOCKET")
    hooks = Hooks(sys.argv[1])
    session = hooks.ask("session.start")["session"]
    hooks.mount(session, "user", user, stages=["approve_tool"])
    turn = hooks.ask("turn.start", session=session, user_message="Look around.")["turn"]
    for tool, arguments in CALLS:
        print(run_tool(hooks, turn, tool, arguments, lambda _: "password=hunter2"))  # in place of real tools
    hooks.ask("turn.end", turn=turn)
    hooks.ask("session.end", session=session)


if __name__ == "__main__":
    main()
