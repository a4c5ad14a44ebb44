"""A review gate, a tool plugin and a redactor in one hook, with picohook's SDK.

Run it with: python3 sdk_hook.py        (needs: picohook)
"""

from __future__ import annotations

import re

from picohook.sdk import AfterTool, ApproveTool, BeforeTool, Decision, HookApp

READ_ONLY = {"read_file", "list_dir", "search", "get_weather"}
SECRETS = re.compile(r"(?<=password=)\S+|sk-[A-Za-z0-9]{8,}")

app = HookApp("python-sdk")


@app.before_tool(tool="bash")
def gate(call: BeforeTool) -> Decision | None:
    if "rm -rf" in str(call.arguments.get("command", "")):
        return call.deny("rm -rf is not allowed")
    return None


@app.approve_tool
def approve(call: ApproveTool) -> Decision:
    if call.tool in READ_ONLY:
        return call.approve()
    return call.deny(f"{call.tool} is not a read-only tool")


@app.tool(description="Today's weather in a city.")
def get_weather(city: str) -> str:
    return f"{city}: 21 °C, sunny"


@app.after_tool
def redact(call: AfterTool) -> Decision | None:
    result = call.result
    for_llm, for_user = (SECRETS.sub("[redacted]", text) for text in (result.for_llm, result.for_user))
    if (for_llm, for_user) == (result.for_llm, result.for_user):
        return None
    return call.modify(for_llm=for_llm, for_user=for_user)


if __name__ == "__main__":
    app.run()
