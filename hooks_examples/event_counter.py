"""Counts events by their kind, and writes the counts when its input ends.

Run it with: python3 event_counter.py [FILE]

It only observes: it reads `hook.event`, and answers only `hook.hello`. It writes the counts to FILE, or to stderr.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


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
    counts: Counter[str] = Counter()

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "hook.event":
            counts[str(params["Kind"])] += 1
        return {"ok": True, "name": "event_counter"} if method == "hook.hello" else None

    serve(answer)
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    with open(sys.argv[1] if len(sys.argv) > 1 else 2, "w", encoding="utf-8") as file:
        file.write(f"{counts.total()} events: {summary}\n")


if __name__ == "__main__":
    main()
