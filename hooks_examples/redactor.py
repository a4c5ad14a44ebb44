"""Takes secrets out of what goes into tools, what comes out of them, and what the model says.

Run it with: python3 redactor.py [--flat]

PicoClaw wants an edited result inside all the params that came with it; picohook also takes the result alone, which is
what --flat sends.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

SECRETS = re.compile(r"sk-[A-Za-z0-9]{12,}|(?<=password: )\S+|(?<=password=)\S+")
FLAT = "--flat" in sys.argv[1:]


def redact(value: Any) -> Any:
    """The value with every secret in it, however deep, replaced."""
    if isinstance(value, str):
        return SECRETS.sub("[redacted]", value)
    if isinstance(value, list):
        return [redact(item) for item in value]
    if isinstance(value, dict):
        return {key: redact(item) for key, item in value.items()}
    return value


def edited(params: dict[str, Any], part: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """The answer with these keys of a part of the params redacted; `continue` where there is nothing to redact."""
    found = params.get(part) or {}
    clean = {**found, **{key: redact(found[key]) for key in keys if key in found}}
    if clean == found:
        return {"action": "continue"}
    return {"action": "modify", part: clean if FLAT else {**params, part: clean}}


def before_tool(call: dict[str, Any]) -> dict[str, Any]:
    clean = redact(call.get("arguments"))
    if clean == call.get("arguments"):
        return {"action": "continue"}
    return {"action": "modify", "call": {**call, "arguments": clean}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "hook.hello":
            return {"ok": True, "name": "redactor"}
        case "hook.before_tool":
            return before_tool(params)
        case "hook.after_tool":
            return edited(params, "result", ("for_llm", "for_user"))
        case "hook.after_llm":
            # Not its tool_calls, whose arguments are JSON in a string: before_tool sees them decoded.
            return edited(params, "response", ("content",))
    return {"action": "continue"}


def main() -> None:
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request.get("id"):  # 0 or none: an event, and nobody waits for an answer
            result = answer(request["method"], request.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
