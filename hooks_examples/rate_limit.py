"""Limits the calls of each tool in each session to a number of calls in a number of seconds.

Run it with: python3 rate_limit.py [CALLS/SECONDS] [TOOL=CALLS/SECONDS ...]

`python3 rate_limit.py 30/60 bash=5/60` allows each tool 30 calls a minute, and bash five. Denied calls do not count.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Rate(NamedTuple):
    calls: int
    seconds: float

    @classmethod
    def read(cls, text: str) -> Rate:
        try:
            calls, seconds = text.split("/")
            rate = cls(int(calls), float(seconds))
        except ValueError:
            raise SystemExit(f"{text!r} is not a rate: give CALLS/SECONDS, like 30/60") from None
        if rate.calls < 0 or not 0 < rate.seconds < math.inf:
            raise SystemExit(f"{text!r} is not a possible rate: give CALLS/SECONDS, like 30/60")
        return rate


class Limits:
    """The limits, and the times of calls."""

    def __init__(self, default: Rate, tools: dict[str, Rate], clock: Callable[[], float] = time.monotonic) -> None:
        self.default = default
        self.tools = tools
        self.clock = clock
        self.calls: defaultdict[tuple[str, str], deque[float]] = defaultdict(deque)

    def reason_to_deny(self, session: str, tool: str) -> str | None:
        rate = self.tools.get(tool, self.default)
        calls, now = self.calls[session, tool], self.clock()
        while calls and calls[0] <= now - rate.seconds:
            calls.popleft()
        if len(calls) < rate.calls:
            calls.append(now)
            return None
        reason = f"{tool} may be called {rate.calls} times in {rate.seconds:g} s"
        return f"{reason}: wait {math.ceil(calls[0] + rate.seconds - now)} s" if calls else reason

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "hook.hello":
                return {"ok": True, "name": "rate_limit"}
            case "hook.before_tool":
                reason = self.reason_to_deny((params.get("meta") or {}).get("SessionKey", ""), params["tool"])
                return {"action": "deny_tool", "reason": reason} if reason else {"action": "continue"}
        return None


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
    default, tools = Rate(30, 60), {}
    for argument in sys.argv[1:]:
        tool, equals, rate = argument.rpartition("=")
        if equals:
            tools[tool] = Rate.read(rate)
        else:
            default = Rate.read(rate)
    serve(Limits(default, tools).answer)


if __name__ == "__main__":
    main()
