"""Codex. It ignores an answer with an unknown field."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ....wire.regular_files import open_regular
from ..claude.shim import group, stopped
from ..shim.vendor import Fields, HookEntry, VendorAgent, hook_entries, with_inner
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..contract import HandlerAnswer
    from ..shim.vendor import AgentEvent


TTY = "tty"
_RECENT = 8 << 20
"""The last bytes of a transcript, in which a call is looked for."""


def terminal(tool: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `tty` of a call of a shell, which events leave out: into a shell with one, `write_stdin` types without an event.

    Codex writes each call into its transcript before it runs hooks. If it cannot be found there, `tty` is "unknown".
    """
    if tool != "Bash":
        return {}
    try:
        path, call_id = str(event["transcript_path"]), event["tool_use_id"]
        descriptor, status = open_regular(path)
        with open(descriptor, "rb") as file:
            file.seek(max(0, status.st_size - _RECENT), os.SEEK_SET)
            lines = file.read(_RECENT).splitlines()
        for line in reversed(lines):
            if json.dumps(call_id).encode() not in line:
                continue
            payload = json.loads(line).get("payload", {})
            if payload.get("call_id") == call_id and payload.get("type") in {"function_call", "local_shell_call"}:
                given = json.loads(payload.get("arguments") or "{}")
                return {TTY: True} if given.get(TTY) else {}
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        pass
    return {TTY: "unknown"}


def _group(event: str, entry: HookEntry, command: str, timeout: float) -> dict[str, Any]:
    """A group like Claude Code's. Codex has no setting for failures."""
    made = group(event, entry, command, timeout)
    made["hooks"][0].pop("onFailure", None)
    return made


def _show(event: str, answer: HandlerAnswer, _agent_event: AgentEvent) -> dict[str, Any]:
    output: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    match event:
        case "PreToolUse" if answer.verdict:  # it has no continue: false before a tool
            inner |= {"permissionDecision": "deny", "permissionDecisionReason": answer.reason}
        case "PreToolUse" if answer.input is not None:
            changed = {name: value for name, value in answer.input.items() if name != TTY}
            inner |= {"permissionDecision": "allow", "updatedInput": changed}
        case "PostToolUse" if answer.ends is not None:
            output |= {"continue": False, "stopReason": answer.ends, "decision": "block", "reason": answer.ends}
        case "PostToolUse" if answer.output is not None:
            output |= {"decision": "block", "reason": answer.output.strip() or "a hook removed the result"}
        case "UserPromptSubmit" | "Stop" | "SubagentStop" if answer.verdict == "deny":
            output |= stopped(event, answer)
    if answer.context and event in {"PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"}:
        inner["additionalContext"] = answer.context
    return with_inner(event, answer, output, inner)


AGENT = VendorAgent(
    title="Codex",
    user_file="~/.codex/hooks.json",
    project_file=".codex/hooks.json",
    home="CODEX_HOME",
    runs=("codex",),
    events=hook_entries(
        EVENTS,
        {
            "deny": ("PreToolUse", "PostToolUse", "UserPromptSubmit"),
            "pass": ("Stop", "SubagentStop", "PreCompact", "PostCompact", "SessionStart", "SessionEnd", "Interrupt"),
        },
        SessionEnd=3.0,
        Interrupt=3.0,
    ),
    entry=_group,
    show=_show,
    opens="Codex makes the call if the time-out passes: it has no setting for failures. "
    "It runs the hooks of a project only after you trusted them in Codex.",
    fields=Fields(turn="turn_id"),
    asks=False,
    unsaid=terminal,
)
