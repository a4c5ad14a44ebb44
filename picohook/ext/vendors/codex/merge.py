"""Joins the answers of the handlers of one of Codex's events. Most rules are Claude Code's. Any deny wins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import HookReplyError
from ....model.decisions import Modify
from ..claude.merge import join as join_as_claude
from .encode import PATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....model.payloads import Payload
    from ..contract import Failures, GroupAnswer, HandlerAnswer, HandlerInput


def counted(
    _event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, _failures: Failures
) -> Sequence[HandlerAnswer]:
    """The answers, of which none can change a call that handlers read as a patch."""
    if handler_input.call is not None and handler_input.call.tool == PATCH and not handler_input.call.fields:
        return [_of_patch(answer, handler_input) for answer in answers]
    return answers


def join(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, failures: Failures
) -> GroupAnswer:
    """Returns the group's answer."""
    joined = join_as_claude(event, answers, handler_input, payload, failures)
    if event != "PostToolUse" or not isinstance(joined.decision, Modify):
        return joined
    blocked = [answer.reason for answer in answers if answer.verdict == "deny"]
    contexts = [answer.context for answer in answers if answer.context]
    if not blocked:
        return joined
    instead = Modify({"for_llm": "\n\n".join([*blocked, *contexts])}, notes=joined.decision.notes)
    return joined._replace(decision=instead)


def _of_patch(answer: HandlerAnswer, handler_input: HandlerInput) -> HandlerAnswer:
    """The answer about a call that handlers read as a patch. A changed patch is a failure: picohook cannot apply it."""
    assert handler_input.call is not None
    if answer.input is None:
        return answer
    if answer.input == handler_input.call.input:
        return replace(answer, input=None)
    return replace(
        answer,
        verdict="",
        input=None,
        failure=HookReplyError("it changes the patch, and picohook cannot turn a patch back into a call"),
    )
