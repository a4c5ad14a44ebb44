"""Joins the answers of the handlers of one of Gemini CLI's events: a block before an ask, and an ask before an allow.

Gemini CLI takes the changes of the last handler in the file. Where handlers run one after the other, each reads the changes of
those before it, and picohook takes all of these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....errors import HookReplyError
from ....model.decisions import AbortTurn, Deny, Respond, Retry
from ....model.payloads import LLMRequest, LLMResponse, ToolReturn
from ..contract import GroupAnswer
from ..merging import UNEXPLAINED, for_user, let_pass, notes_of, reason_of
from .events import EVENTS, LAST_DECIDES
from .model import changed_request, selected_tools, text_of_response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....model.decisions import Decision
    from ....model.payloads import Payload
    from ....model.trail import Notes
    from ..contract import Failures, HandlerAnswer, HandlerInput


def join(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, failures: Failures
) -> GroupAnswer:
    """Returns the group's answer. Raises `HookReplyError` if a gate's changes are malformed in strict."""
    denying = [answer for answer in answers if answer.verdict == "deny"]
    asking = [answer for answer in answers if answer.verdict == "ask"]
    ends = "\n".join(answer.ends for answer in answers if answer.ends is not None)
    notes = _notes(answers)
    reason = reason_of(answers) or UNEXPLAINED
    if event == "AfterAgent":
        return _of_end(reason, notes, blocks=bool(denying), ends=ends)
    if ends:
        return GroupAnswer(AbortTurn(ends, notes=notes))
    try:
        blocked = reason if denying else ""
        decision = _decision(event, answers, handler_input, payload, notes, blocked=blocked, failures=failures)
    except HookReplyError as error:
        if failures == "strict" and EVENTS[event].gate:
            raise
        return GroupAnswer(let_pass(notes), failures=(error,))
    return GroupAnswer(decision, asks=bool(asking) and not denying)


def counted(
    event: str, answers: Sequence[HandlerAnswer], _handler_input: HandlerInput, failures: Failures
) -> Sequence[HandlerAnswer]:
    """The answers as Gemini CLI counts them. Of some events only the last decision, and an `llm_response` only with a block."""
    if failures == "strict" or event not in LAST_DECIDES:
        return answers
    last = next((index for index in reversed(range(len(answers))) if answers[index].verdict), None)
    blocked = last is not None and answers[last].verdict == "deny"
    made = []
    for index, answer in enumerate(answers):
        output = answer.output
        if event == "BeforeModel" and output and not blocked:
            output = {name: edit for name, edit in output.items() if name != "llm_response"}
        made.append(replace(answer, verdict=answer.verdict if index == last else "", output=output))
    return made


def _decision(
    event: str,
    answers: Sequence[HandlerAnswer],
    handler_input: HandlerInput,
    payload: Payload,
    notes: Notes | None,
    *,
    blocked: str,
    failures: Failures,
) -> Decision:
    """`blocked` is the reason of a block; empty without a block."""
    match event:
        case "BeforeTool":
            if blocked:
                return Deny(blocked, notes=notes)
            inputs = [answer.input for answer in answers if answer.input is not None]
            if not inputs or handler_input.call is None:
                return let_pass(notes)
            before = handler_input.call.input if failures == "strict" else {}
            arguments = handler_input.call.arguments({**before, **inputs[-1]})
            return let_pass(notes, {"arguments": arguments} if arguments != payload.__dict__["arguments"] else None)
        case "AfterTool":
            assert isinstance(payload, ToolReturn)
            return _of_result(payload, notes, blocked)
        case "BeforeModel":
            assert isinstance(payload, LLMRequest)
            return _of_request(answers, handler_input, payload, notes, blocked)
        case "BeforeToolSelection":
            assert isinstance(payload, LLMRequest)
            configs = [answer.output["toolConfig"] for answer in answers if answer.output]
            return let_pass(notes, selected_tools(configs, payload, handler_input.names))
        case "AfterModel":
            assert isinstance(payload, LLMResponse)
            return AbortTurn(blocked, notes=notes) if blocked else _of_response(answers, payload, notes)
    return AbortTurn(blocked, notes=notes) if blocked and EVENTS[event].blocks else let_pass(notes)


def _notes(answers: Sequence[HandlerAnswer]) -> Notes | None:
    """The texts of the answers. Gemini CLI escapes the brackets in those for the model."""
    return notes_of([replace(answer, context=_escaped(answer.context)) for answer in answers], "\n")


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _of_result(payload: ToolReturn, notes: Notes | None, blocked: str) -> Decision:
    if blocked:
        hidden = {"for_llm": blocked, "for_user": payload.result.for_user and blocked, "media": []}
        return let_pass(for_user(notes), hidden)
    if notes is None or not notes.additional_context:
        return let_pass(for_user(notes))
    context = f"<hook_context>{notes.additional_context}</hook_context>"
    return let_pass(for_user(notes), {"for_llm": f"{payload.result.for_llm}\n\n{context}"})


def _of_request(
    answers: Sequence[HandlerAnswer],
    handler_input: HandlerInput,
    payload: LLMRequest,
    notes: Notes | None,
    blocked: str,
) -> Decision:
    edits: dict[str, Any] = {}
    for answer in answers:
        edits |= answer.output or {}
    response = text_of_response(edits["llm_response"]) if "llm_response" in edits else None
    if response is not None:
        return Respond({"content": response}, notes=notes)
    if blocked:
        return AbortTurn(blocked, notes=notes)
    request = {**handler_input.stdin["llm_request"], **edits.get("llm_request", {})}
    return let_pass(notes, changed_request(request, payload.model, payload.messages, payload.options))


def _of_response(answers: Sequence[HandlerAnswer], payload: LLMResponse, notes: Notes | None) -> Decision:
    responses = [answer.output["llm_response"] for answer in answers if answer.output]
    text = text_of_response(responses[-1]) if responses else None
    if text is None:
        return let_pass(notes)
    return let_pass(notes, {"response": {**payload.response, "content": text}})


def _of_end(reason: str, notes: Notes | None, *, blocks: bool, ends: str) -> GroupAnswer:
    if ends or not blocks:
        return GroupAnswer(let_pass(for_user(notes)))
    return GroupAnswer(Retry(reason, notes=for_user(notes)), blocks=True)
