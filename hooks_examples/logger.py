"""Logs requests and events, and changes nothing.

Run it with: python3 logger.py [FILE]

It writes one line for each request and event to FILE, or to stderr, which the host adds to its own log. A line has only names:
arguments and messages may contain secrets.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

STAGES = ("hook.before_", "hook.approve_", "hook.after_")

logger = logging.getLogger("hook")


def describe(method: str, params: dict[str, Any]) -> str:
    match method:
        case "hook.event":
            return f"event {params['Kind']}"
        case "hook.before_llm":
            return f"before_llm {params['model']}: {len(params.get('messages') or [])} messages"
        case "hook.before_tool" | "hook.approve_tool" | "hook.after_tool":
            names = ", ".join(params.get("arguments") or {})
            return f"{method.removeprefix('hook.')} {params['tool']}({names})"
    return method.removeprefix("hook.")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    logger.info(describe(method, params))
    if method == "hook.hello":
        return {"ok": True, "name": "logger"}
    return {"action": "continue"} if method.startswith(STAGES) else None


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
    file = sys.argv[1] if len(sys.argv) > 1 else None
    logging.basicConfig(filename=file, format="%(asctime)s %(message)s", level=logging.INFO)
    serve(answer)


if __name__ == "__main__":
    main()
