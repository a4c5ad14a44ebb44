"""A review gate, a tool plugin and a redactor in one hook, as methods of a JSON-RPC server.

Run it with: python3 jsonrpcserver_hook.py        (needs: pip install jsonrpcserver)

jsonrpcserver finds the method of each message and makes the answer: "Method not found" for an unknown method, and no answer
for a notification.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from jsonrpcserver import Result, Success, dispatch, method

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


@method(name="hook.hello")
def hello(**_: Any) -> Result:
    return Success({"ok": True, "name": "python-jsonrpcserver"})


@method(name="hook.before_llm")
def before_llm(*, tools: list[Any] | None = None, **_: Any) -> Result:
    if WEATHER in (tools or []):
        return Success({"action": "continue"})
    return Success({"action": "modify", "request": {"tools": [*(tools or []), WEATHER]}})


@method(name="hook.before_tool")
def before_tool(*, tool: str, arguments: dict[str, Any] | None = None, **_: Any) -> Result:
    arguments = arguments or {}
    if tool == "get_weather":
        return Success({"action": "respond", "result": {"for_llm": f"{arguments.get('city', '')}: 21 °C, sunny"}})
    command = arguments.get("command", "")
    if tool == "bash" and (not isinstance(command, str) or "rm -rf" in command):
        return Success({"action": "deny_tool", "reason": "rm -rf is not allowed"})
    return Success({"action": "continue"})


@method(name="hook.approve_tool")
def approve_tool(*, tool: str, **_: Any) -> Result:
    if tool in READ_ONLY:
        return Success({"approved": True})
    return Success({"approved": False, "reason": f"{tool} is not a read-only tool"})


@method(name="hook.after_tool")
def after_tool(*, result: dict[str, Any] | None = None, **_: Any) -> Result:
    texts = {name: text for name, text in (result or {}).items() if name in {"for_llm", "for_user"} and text}
    clean = {name: SECRETS.sub("[redacted]", text) for name, text in texts.items()}
    return Success({"action": "continue"} if clean == texts else {"action": "modify", "result": clean})


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
