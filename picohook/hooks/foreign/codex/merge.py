"""What the handlers of one of Codex's events say together. Any deny wins; most is as in Claude Code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import HookReplyError
from ....model.decisions import Modify
from ..claude.merge import merge as merge_as_claude
from .encode import PATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....model.payloads import Payload
    from ..contract import Failures, GroupAnswer, HandlerAnswer, HandlerInput


def merge(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, failures: Failures
) -> GroupAnswer:
    """The verdict. Raises the failure that decides."""
    if handler_input.call is not None and handler_input.call.tool == PATCH and not handler_input.call.fields:
        answers = [_of_patch(answer, handler_input) for answer in answers]
    verdict = merge_as_claude(event, answers, handler_input, payload, failures)
    if event != "PostToolUse" or not isinstance(verdict.decision, Modify):
        return verdict
    blocked = [answer.reason for answer in answers if answer.verdict == "deny"]
    contexts = [answer.context for answer in answers if answer.context]
    if not blocked:
        return verdict
    instead = Modify({"for_llm": "\n\n".join([*blocked, *contexts])}, notes=verdict.decision.notes)
    return verdict._replace(decision=instead)


def _of_patch(answer: HandlerAnswer, handler_input: HandlerInput) -> HandlerAnswer:
    """The answer about a call that was only shown as a patch. A changed patch is a failure: it cannot be turned back."""
    assert handler_input.call is not None
    if answer.input is None:
        return answer
    if answer.input == handler_input.call.input:
        return replace(answer, input=None)
    return replace(
        answer,
        verdict="",
        input=None,
        failure=HookReplyError("it changes the patch that a call is shown as, and the call cannot be changed so"),
    )
