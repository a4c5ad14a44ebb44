"""Limits the calls of each tool in a turn.

Run it with: MAX_CALLS=3 python3 jsonrpcserver_gate.py        (needs: pip install jsonrpcserver)

A hook is an ordinary JSON-RPC 2.0 server on its standard streams, so any library for such servers works. Here jsonrpcserver
finds the method of each message, checks its parameters, and makes the answer. The answer for a stage without a method here is
"Method not found". An event gets no answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

from jsonrpcserver import Result, Success, dispatch, method

MAX_CALLS = int(os.environ.get("MAX_CALLS", "3"))

_turn = ""
_calls: Counter[str] = Counter()


@method(name="hook.hello")
def hello(**_: Any) -> Result:
    return Success({"ok": True, "name": "jsonrpcserver_gate"})


@method(name="hook.before_tool")
def before_tool(*, meta: dict[str, Any], tool: str, **_: Any) -> Result:
    global _turn  # noqa: PLW0603 - the turn that the counts are for
    if meta.get("TurnID", "") != _turn:
        _turn = meta.get("TurnID", "")
        _calls.clear()
    _calls[tool] += 1
    if _calls[tool] > MAX_CALLS:
        return Success({"action": "deny_tool", "reason": f"{tool} was called {MAX_CALLS} times in this turn already"})
    return Success({"action": "continue"})


def main() -> None:
    for line in sys.stdin.buffer:  # bytes: these lines end at \n alone
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            print(f"not JSON: {error}", file=sys.stderr)
            continue
        if not isinstance(message, dict) or "method" not in message:
            continue
        if message.get("id") == 0:  # a notification from PicoClaw
            del message["id"]
        answer = dispatch(message, deserializer=lambda message: message)
        if answer:
            print(answer, flush=True)


if __name__ == "__main__":
    main()
