"""Logs what it is asked and told, and changes nothing.

Run it with: python3 logger.py [FILE]

Each question and each event becomes one line in FILE, or on stderr, which the host puts into its own log. The lines say
what was asked about, not what was in it: arguments and messages may hold secrets.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

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


def main() -> None:
    file = sys.argv[1] if len(sys.argv) > 1 else None
    logging.basicConfig(filename=file, format="%(asctime)s %(message)s", level=logging.INFO)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        logger.info(describe(request["method"], request.get("params") or {}))
        if request.get("id"):  # 0 or none: an event, and nobody waits for an answer
            result = {"ok": True, "name": "logger"} if request["method"] == "hook.hello" else {"action": "continue"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
