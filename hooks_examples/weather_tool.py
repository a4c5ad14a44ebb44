"""Gives the model a tool that the agent does not have.

Run it with: python3 weather_tool.py

before_llm adds get_weather to the tools of the model. When the model calls it, before_tool answers with `respond`, so the
agent does not need the tool.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Today's weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

FORECASTS = {"berlin": "12 °C, rain", "lisbon": "24 °C, clear", "tokyo": "18 °C, windy"}


def before_llm(request: dict[str, Any]) -> dict[str, Any]:
    tools = request.get("tools") or []
    if TOOL in tools:
        return {"action": "continue"}
    # PicoClaw uses the answer as the whole request, so the rest of it goes back unchanged.
    return {"action": "modify", "request": {**request, "tools": [*tools, TOOL]}}


def before_tool(call: dict[str, Any]) -> dict[str, Any]:
    if call["tool"] != "get_weather":
        return {"action": "continue"}
    city = str((call.get("arguments") or {}).get("city", ""))
    forecast = FORECASTS.get(city.lower())
    text = f"{city}: {forecast}" if forecast else f"There is no forecast for {city!r}."
    return {"action": "respond", "result": {"for_llm": text, "silent": False, "is_error": forecast is None}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "hook.hello":
            return {"ok": True, "name": "weather_tool"}
        case "hook.before_llm":
            return before_llm(params)
        case "hook.before_tool":
            return before_tool(params)
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
    serve(answer)


if __name__ == "__main__":
    main()
