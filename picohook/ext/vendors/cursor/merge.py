"""Joins the answers of the handlers of one of Cursor's events: a denial before an ask, and an ask before an allow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ....model.decisions import CONTINUE, AbortTurn, Deny, Retry
from ....model.payloads import ToolReturn
from ..claude.tool_response import text_in
from ..contract import GroupAnswer
from ..merging import UNEXPLAINED, changed_arguments, let_pass, notes_of, reason_of
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....model.decisions import Decision
    from ....model.payloads import Payload
    from ....model.trail import Notes
    from ..contract import Failures, HandlerAnswer, HandlerInput


def join(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, _failures: Failures
) -> GroupAnswer:
    """Returns the group's answer."""
    denying = [answer for answer in answers if answer.verdict == "deny"]
    row = EVENTS[event]
    if row.stage == "before_finish":
        return _of_end(denying, handler_input)
    notes = notes_of(answers)
    reason = reason_of(answers) or UNEXPLAINED
    if denying:
        return GroupAnswer((Deny if row.stage == "before_tool" else AbortTurn)(reason, notes=notes))
    if event == "preToolUse":
        arguments = changed_arguments(answers, handler_input)
        changes = None if arguments is None else {"arguments": arguments}
        return GroupAnswer(let_pass(notes, changes), asks=_asks(answers))
    if isinstance(payload, ToolReturn):
        return GroupAnswer(_of_result(answers, handler_input, payload, notes))
    env = {name: value for answer in answers for name, value in answer.env.items()}
    return GroupAnswer(let_pass(notes), asks=_asks(answers), env=env)


def _asks(answers: Sequence[HandlerAnswer]) -> bool:
    return any(answer.verdict == "ask" for answer in answers)


def _of_result(
    answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: ToolReturn, notes: Notes | None
) -> Decision:
    """The decision about a result. The changed output of a server's tool counts, and every context is added."""
    outputs = [answer.output for answer in answers if answer.output is not None]
    for_llm = payload.result.for_llm
    if outputs and handler_input.call is not None and handler_input.call.tool.startswith("MCP:"):
        text = text_in(outputs[-1])
        for_llm = json.dumps(outputs[-1], ensure_ascii=False) if text is None else text
    if notes is not None and notes.additional_context:
        for_llm = f"{for_llm}\n\n{notes.additional_context}"
    return let_pass(None, {"for_llm": for_llm} if for_llm != payload.result.for_llm else None)


def _of_end(denying: Sequence[HandlerAnswer], handler_input: HandlerInput) -> GroupAnswer:
    """The decision at the end of a turn. It continues with the messages of the handlers that have not reached their limit."""
    count = handler_input.stdin["loop_count"]
    messages = [one.reason for one in denying if one.most_blocks is None or count < one.most_blocks]
    if not messages:
        return GroupAnswer(CONTINUE)
    return GroupAnswer(Retry("\n\n".join(messages)), blocks=True)
