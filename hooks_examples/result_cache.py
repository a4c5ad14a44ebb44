"""Answers repeated calls of tools that only read with their last result.

Run it with: python3 result_cache.py TOOL ... [--seconds 300] [--size 1000]

after_tool keeps the results of these TOOLs, except errors. before_tool answers a later call from them, if it is in the same
session and has the same arguments. A call of any other tool may change what these tools read, so it empties the cache.

Make it the last hook in the order. Then other hooks, such as a redactor, have seen the results that it keeps; they are not
asked about them again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Cache:
    def __init__(self, tools: set[str], seconds: float, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.tools = tools
        self.seconds = seconds
        self.size = size
        self.clock = clock
        self.results: dict[str, tuple[float, dict[str, Any]]] = {}
        self.asked: dict[str, int] = {}
        """The state of the cache in which each running call began."""
        self.state = 0

    def changed(self) -> None:
        self.state += 1
        self.results.clear()
        self.asked.clear()

    def before_tool(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["tool"] not in self.tools:
            self.changed()
            return {"action": "continue"}
        key = key_of(call)
        since, result = self.results.get(key, (0.0, None))
        if result is not None and self.clock() - since < self.seconds:
            return {"action": "respond", "result": result}
        self.asked[key] = self.state
        return {"action": "continue"}

    def after_tool(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["tool"] not in self.tools:
            self.changed()
            return {"action": "continue"}
        key, result = key_of(call), call.get("result") or {}
        if self.asked.pop(key, None) == self.state and not (result.get("is_error") or call.get("error")):
            self.results.pop(key, None)
            self.results[key] = (self.clock(), result)
            while len(self.results) > self.size:
                del self.results[next(iter(self.results))]  # the oldest
        return {"action": "continue"}

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "hook.hello":
                return {"ok": True, "name": "result_cache"}
            case "hook.before_tool":
                return self.before_tool(params)
            case "hook.after_tool":
                return self.after_tool(params)
        return None


def key_of(call: dict[str, Any]) -> str:
    session = (call.get("meta") or {}).get("SessionKey", "")
    return json.dumps([session, call["tool"], call.get("arguments") or {}], sort_keys=True)


def serve(answer: Callable[[str, dict[str, Any]], dict[str, Any] | None]) -> None:
    """Answer each line of the host. A line that is not a message is skipped; a method without an answer is refused."""
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            print(f"not JSON: {error}", file=sys.stderr)
            continue
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            continue
        result = answer(message["method"], message.get("params") or {})
        if message.get("id"):  # 0 or none: an event, which has no answer
            refusal = {"error": {"code": -32601, "message": "no such method"}}
            said = refusal if result is None else {"result": result}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", metavar="TOOL", nargs="*")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--size", type=int, default=1000)
    given = parser.parse_args()
    cache = Cache(set(given.tools), given.seconds, given.size)
    serve(cache.answer)


if __name__ == "__main__":
    main()
