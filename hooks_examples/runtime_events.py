"""Shows the course of a turn: the time and subject of each event.

Run it with: python3 runtime_events.py [FILE]

It reads `hook.runtime_event`, the newer form of events, with dotted names. To get it, set `observe` to such names, or set
`events = "runtime"`. The lines are written to FILE, or to stderr.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def describe(event: dict[str, Any], begun: datetime) -> str:
    after = (datetime.fromisoformat(event["time"]) - begun).total_seconds() * 1000
    payload = event.get("payload") or {}
    about = next((str(payload[name]) for name in ("Tool", "Model", "Status") if name in payload), "")
    return f"{after:7.1f} ms  {event['severity']:5}  {event['kind']}  {about}".rstrip()


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
    begun: datetime | None = None

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal begun
        if method == "hook.runtime_event":
            begun = begun or datetime.fromisoformat(params["time"])
            print(describe(params, begun), file=file, flush=True)
        return {"ok": True, "name": "runtime_events"} if method == "hook.hello" else None

    with open(sys.argv[1] if len(sys.argv) > 1 else 2, "w", encoding="utf-8") as file:
        serve(answer)


if __name__ == "__main__":
    main()
