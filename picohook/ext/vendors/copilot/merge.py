"""Joins the answers of the handlers of one of Copilot's events, which run one after the other. Most rules are Claude Code's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..claude.merge import join as join_as_claude
from ..contract import GroupAnswer
from ..merging import let_pass, notes_of
from .events import BASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....model.payloads import Payload
    from ..contract import Failures, HandlerAnswer, HandlerInput

_AS_CLAUDE = {
    "preToolUse": "PreToolUse",
    "permissionRequest": "PermissionRequest",
    "postToolUse": "PostToolUse",
    "postToolUseFailure": "PostToolUseFailure",
    "userPromptSubmitted": "UserPromptSubmit",
    "agentStop": "Stop",
    "subagentStop": "SubagentStop",
}
"""The events whose answers have the same meaning as in Claude Code."""
BYPASS = "requestSandboxBypass"
"""With this argument, a call asks to leave the sandbox. A hook cannot allow that: its allow counts as no answer."""


def join(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, failures: Failures
) -> GroupAnswer:
    """Returns the group's answer."""
    base = BASE[event]
    if base in _AS_CLAUDE:
        return join_as_claude(_AS_CLAUDE[base], answers, handler_input, payload, failures)
    prompts = [answer.output for answer in answers if answer.output is not None]
    return GroupAnswer(let_pass(notes_of(answers), {"prompt": prompts[-1]} if prompts else None))


def counted(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, failures: Failures
) -> Sequence[HandlerAnswer]:
    """The answers as Copilot counts them: about a permission, the last decision. In strict, any denial counts."""
    if BASE[event] != "permissionRequest":
        return answers
    bypasses = handler_input.call is not None and handler_input.call.input.get(BYPASS) is True
    counted = [replace(one, verdict="") if bypasses and one.verdict == "allow" else one for one in answers]
    last = next((one for one in reversed(counted) if one.verdict), None)
    if failures == "strict":
        return counted
    return [one if one is last else replace(one, verdict="") for one in counted]
