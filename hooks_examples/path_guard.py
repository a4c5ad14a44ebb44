"""Keeps tools inside one directory, and lets a shell do little but look.

Run it with: GUARD_ROOT=DIRECTORY python3 path_guard.py

before_tool denies a call with a path outside GUARD_ROOT (the hook's working directory, if it is not set). approve_tool says
yes to calls inside it; to a shell command only if it is a plain call of a program that changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import Any

ROOT = os.path.realpath(os.environ.get("GUARD_ROOT", "."))
SHELLS = {"bash", "shell", "exec"}
PATHS = ("path", "file", "file_path", "directory")
HARMLESS = {"cat", "date", "echo", "grep", "head", "ls", "pwd", "tail", "wc"}


def stray(call: dict[str, Any]) -> str | None:
    """Why a path of this call is not allowed, if one is not."""
    arguments = call.get("arguments") or {}
    for path in [arguments[name] for name in PATHS if name in arguments] + (call.get("affected_paths") or []):
        try:
            real = os.path.realpath(os.path.join(ROOT, str(path)))
        except ValueError as error:  # a NUL character
            return f"{path!r} cannot be a path: {error}"
        if os.path.commonpath([real, ROOT]) != ROOT:
            return f"{path} is outside the workspace"
    return None


def harm(call: dict[str, Any]) -> str | None:
    """Why this shell command is not allowed, if it is one and is not."""
    if call["tool"] not in SHELLS:
        return None
    command = str((call.get("arguments") or {}).get("command", ""))
    if re.search(r"[;&|<>$`\\(){}\n]", command):
        return "only a single plain command can be approved"
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"the command cannot be read: {error}"
    if not words or words[0] not in HARMLESS:
        return f"{words[0] if words else 'an empty command'} is not on the list of harmless commands"
    return None


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "hook.hello":
            return {"ok": True, "name": "path_guard"}
        case "hook.before_tool":
            reason = stray(params)
            return {"action": "deny_tool", "reason": reason} if reason else {"action": "continue"}
        case "hook.approve_tool":
            # What is approved is what runs, so the paths are looked at again: a later hook may have changed them.
            reason = stray(params) or harm(params)
            return {"approved": False, "reason": reason} if reason else {"approved": True}
    return {"action": "continue"}


def main() -> None:
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request.get("id"):  # 0 or none: an event, and nobody waits for an answer
            result = answer(request["method"], request.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
