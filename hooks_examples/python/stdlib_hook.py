"""A review gate, a tool plugin and a redactor in one hook, with only Python's standard library.

Run it with: python3 stdlib_hook.py
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from typing import Any

READ_ONLY = {"read_file", "list_dir", "search", "get_weather"}
SECRETS = re.compile(r"(?<=password=)\S+|sk-[A-Za-z0-9]{8,}")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Today's weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def hello(_: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "name": "python-stdlib"}


def before_llm(request: dict[str, Any]) -> dict[str, Any]:
    tools = request.get("tools") or []
    if WEATHER in tools:
        return {"action": "continue"}
    return {"action": "modify", "request": {"tools": [*tools, WEATHER]}}


def before_tool(call: dict[str, Any]) -> dict[str, Any]:
    tool, arguments = call.get("tool"), call.get("arguments") or {}
    if tool == "get_weather":
        return {"action": "respond", "result": {"for_llm": f"{arguments.get('city', '')}: 21 °C, sunny"}}
    command = arguments.get("command", "")
    if tool == "bash" and (not isinstance(command, str) or "rm -rf" in command):
        return {"action": "deny_tool", "reason": "rm -rf is not allowed"}
    return {"action": "continue"}


def approve_tool(call: dict[str, Any]) -> dict[str, Any]:
    if call["tool"] in READ_ONLY:
        return {"approved": True}
    return {"approved": False, "reason": f"{call['tool']} is not a read-only tool"}


def after_tool(call: dict[str, Any]) -> dict[str, Any]:
    result = call.get("result") or {}
    texts = {name: result[name] for name in ("for_llm", "for_user") if result.get(name)}
    clean = {name: SECRETS.sub("[redacted]", text) for name, text in texts.items()}
    return {"action": "continue"} if clean == texts else {"action": "modify", "result": clean}


METHODS = {f"hook.{stage.__name__}": stage for stage in (hello, before_llm, before_tool, approve_tool, after_tool)}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the reply without its id."""
    if method not in METHODS:
        return {"error": {"code": -32601, "message": f"no such method: {method}"}}
    try:
        return {"result": METHODS[method](params)}
    except Exception as error:  # only this call has failed, not the hook
        traceback.print_exc()
        return {"error": {"code": -32603, "message": type(error).__name__}}


def main() -> None:
    for line in sys.stdin.buffer:  # bytes: these lines end at \n alone
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            print(f"not JSON: {error}", file=sys.stderr)
            continue
        match request:
            case {"id": 0 | None}:  # a notification with an id, from PicoClaw
                continue
            case {"id": number, "method": str(method)}:
                reply = answer(method, request.get("params") or {})
                print(json.dumps({"jsonrpc": "2.0", "id": number, **reply}), flush=True)


if __name__ == "__main__":
    main()
