"""A review gate, a tool plugin and a redactor in one hook, with picohook's SDK.

Run it with: python3 sdk_hook.py

A handler returns a decision, made by a method of its argument, or None to continue. `print` goes to the host's log.
"""

from __future__ import annotations

import re

from picohook import sdk

READ_ONLY = {"read_file", "list_dir", "search", "get_weather"}
SECRETS = re.compile(r"(?<=password=)\S+|sk-[A-Za-z0-9]{8,}")

app = sdk.HookApp("python-sdk")


@app.tool(description="Today's weather in a city.")
def get_weather(city: str) -> str:
    return f"{city}: 21 °C, sunny"


@app.before_tool
def before_tool(call: sdk.BeforeTool) -> sdk.Decision | None:
    """A tool is about to be called. Some agents write bash, and some Bash."""
    command = call.arguments.get("command", "")
    if call.tool.lower() == "bash" and (not isinstance(command, str) or "rm -rf" in command):
        return call.deny("rm -rf is not allowed")
    return None


@app.approve_tool
def approve_tool(call: sdk.ApproveTool) -> sdk.Decision:
    """May a tool be called? Anything but a clear yes is a no."""
    if call.tool in READ_ONLY:
        return call.approve()
    return call.deny(f"{call.tool} is not a read-only tool")


@app.after_tool
def redact(call: sdk.AfterTool) -> sdk.Decision | None:
    result = call.result
    for_llm, for_user = (SECRETS.sub("[redacted]", text) for text in (result.for_llm, result.for_user))
    if (for_llm, for_user) == (result.for_llm, result.for_user):
        return None
    return call.modify(for_llm=for_llm, for_user=for_user)


if __name__ == "__main__":
    app.run()
