"""A small agent that asks hooks as Claude Code does, for the tests of a drill: it calls the tools that its model names."""

import json
import os
import subprocess
import sys
import urllib.request


def refusal(settings, tool, given):
    """Ask the hooks about a call. Returns why it must not run; empty if it may."""
    event = json.dumps({"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given}).encode()
    for group in [] if settings.get("disableAllHooks") else settings.get("hooks", {}).get("PreToolUse", []):
        if group.get("matcher") not in (None, tool):
            continue
        for handler in group["hooks"]:
            done = subprocess.run(handler["command"], shell=True, input=event, capture_output=True, check=False)
            if done.returncode == 2 or (done.returncode and handler.get("onFailure") == "block"):
                return f"refused: {done.stderr.decode()}"
    return ""


def done(settings, call):
    """Returns the result of a call, for the model."""
    tool, given = call["name"], call["input"]
    refused = refusal(settings, tool, given)
    if not refused and tool == "Bash":
        subprocess.run(given["command"], shell=True, check=True)
    elif not refused:
        with open(given["file_path"], "x", encoding="utf-8") as file:
            file.write(given["content"])
    return {"type": "tool_result", "tool_use_id": call["id"], "content": refused or "ran"}


def asked(messages):
    """Ask the model. Returns its calls."""
    body = json.dumps({"model": "m", "tools": [{"name": "Bash"}], "messages": messages}).encode()
    request = urllib.request.Request(f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages", body)
    calls = []
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        for line in response:
            data = json.loads(line[5:]) if line.startswith(b"data:") else {}
            if data.get("content_block", {}).get("type") == "tool_use":
                calls.append(data["content_block"])
            elif data.get("delta", {}).get("type") == "input_json_delta":
                calls[-1]["input"] = json.loads(data["delta"]["partial_json"])
    return calls


def main():
    if "--version" in sys.argv:
        sys.stdout.write(f"{os.environ.get('FAKE_VERSION', '2.1.330')} (a fake)\n")
        return
    with open(os.path.join(os.environ["CLAUDE_CONFIG_DIR"], "settings.json"), encoding="utf-8") as file:
        settings = json.load(file)
    if os.path.exists(".claude/settings.json"):
        with open(".claude/settings.json", encoding="utf-8") as file:
            settings = {**settings, **json.load(file)}
    messages = [{"role": "user", "content": sys.argv[-1]}]
    while calls := asked(messages):
        messages += [
            {"role": "assistant", "content": [{"type": "tool_use", **call} for call in calls]},
            {"role": "user", "content": [done(settings, call) for call in calls]},
        ]


main()
