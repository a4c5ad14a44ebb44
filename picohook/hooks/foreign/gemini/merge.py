"""What the handlers of one of Gemini CLI's events say together: a block before a question, and a question before a yes.

Gemini CLI takes the changes of the handler that stands last in the file. Where handlers run one after the other, each has
read the changes of those before it, and here all of these count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....errors import HookReplyError
from ....model.decisions import CONTINUE, AbortTurn, Continue, Deny, Modify, Respond, Retry
from ....model.payloads import LLMRequest, LLMResponse, ToolReturn
from ....model.trail import Notes
from ..contract import GroupAnswer, shortened
from .events import EVENTS, LAST_DECIDES
from .model import changed_request, text_of_response
from .tool_selection import selected_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....errors import HookError
    from ....model.decisions import Decision
    from ....model.payloads import Payload
    from ..contract import Failures, HandlerAnswer, HandlerInput

UNEXPLAINED = "blocked by a hook, which gave no reason"


def merge(
    event: str, answers: Sequence[HandlerAnswer], handler_input: HandlerInput, payload: Payload, failures: Failures
) -> GroupAnswer:
    """The verdict. Raises the first failure that decides: in strict, of a gate that nobody else closes."""
    failed = tuple(answer.failure for answer in answers if answer.failure is not None)
    if failures == "vendor" and event in LAST_DECIDES:
        answers = _with_the_last_decision(event, answers)
    denying = [answer for answer in answers if answer.verdict == "deny"]
    asking = [answer for answer in answers if answer.verdict == "ask"]
    ends = "\n".join(answer.ends for answer in answers if answer.ends is not None)
    if failed and failures == "strict" and EVENTS[event].gate and not denying and not ends:
        raise failed[0]
    notes = _notes(answers)
    reason = shortened("\n".join(answer.reason for answer in denying if answer.reason)) or UNEXPLAINED
    if event == "AfterAgent":
        return _of_end(reason, notes, failed, blocks=bool(denying), ends=ends)
    if ends:
        return GroupAnswer(AbortTurn(ends, notes=notes), failures=failed)
    try:
        decision = _decision(event, answers, handler_input, payload, notes, reason if denying else "")
    except HookReplyError as error:
        if failures == "strict" and EVENTS[event].gate:
            raise
        return GroupAnswer(_going_on(notes), failures=(*failed, error))
    return GroupAnswer(decision, asks=bool(asking) and not denying, failures=failed)


def _with_the_last_decision(event: str, answers: Sequence[HandlerAnswer]) -> list[HandlerAnswer]:
    """The answers as Gemini CLI takes them: only the last decision counts, and an answer of the model only beside a block."""
    last = next((index for index in reversed(range(len(answers))) if answers[index].verdict), None)
    blocked = last is not None and answers[last].verdict == "deny"
    made = []
    for index, answer in enumerate(answers):
        output = answer.output
        if event == "BeforeModel" and output and not blocked:
            output = {name: edit for name, edit in output.items() if name != "llm_response"}
        made.append(replace(answer, verdict=answer.verdict if index == last else "", output=output))
    return made


def _decision(  # noqa: PLR0917 - what `merge` has made
    event: str,
    answers: Sequence[HandlerAnswer],
    handler_input: HandlerInput,
    payload: Payload,
    notes: Notes | None,
    blocked: str,
) -> Decision:
    """`blocked` is the reason of a block; empty if nobody blocks."""
    match event:
        case "BeforeTool":
            if blocked:
                return Deny(blocked, notes=notes)
            inputs = [answer.input for answer in answers if answer.input is not None]
            if not inputs or handler_input.call is None:
                return _going_on(notes)
            arguments = handler_input.call.arguments({**handler_input.call.input, **inputs[-1]})
            return _going_on(notes, {"arguments": arguments} if arguments != payload.__dict__["arguments"] else None)
        case "AfterTool":
            assert isinstance(payload, ToolReturn)
            return _of_result(payload, notes, blocked)
        case "BeforeModel":
            assert isinstance(payload, LLMRequest)
            return _of_request(answers, handler_input, payload, notes, blocked)
        case "BeforeToolSelection":
            assert isinstance(payload, LLMRequest)
            configs = [answer.output["toolConfig"] for answer in answers if answer.output]
            return _going_on(notes, selected_tools(configs, payload, handler_input.names))
        case "AfterModel":
            assert isinstance(payload, LLMResponse)
            return AbortTurn(blocked, notes=notes) if blocked else _of_response(answers, payload, notes)
    return AbortTurn(blocked, notes=notes) if blocked and EVENTS[event].blocks else _going_on(notes)


def _notes(answers: Sequence[HandlerAnswer]) -> Notes | None:
    contexts = "\n".join(answer.context for answer in answers if answer.context)
    messages = "\n".join(answer.message for answer in answers if answer.message)
    return Notes(messages, _escaped(contexts)) if contexts or messages else None


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _going_on(notes: Notes | None, changes: dict[str, Any] | None = None) -> Decision:
    if changes:
        return Modify(changes, notes=notes)
    return Continue(notes=notes) if notes is not None else CONTINUE


def _of_result(payload: ToolReturn, notes: Notes | None, blocked: str) -> Decision:
    for_user = Notes(notes.system_message) if notes is not None and notes.system_message else None
    if blocked:
        hidden = {"for_llm": blocked, "for_user": payload.result.for_user and blocked, "media": []}
        return _going_on(for_user, hidden)
    if notes is None or not notes.additional_context:
        return _going_on(for_user)
    context = f"<hook_context>{notes.additional_context}</hook_context>"
    return _going_on(for_user, {"for_llm": f"{payload.result.for_llm}\n\n{context}"})


def _of_request(
    answers: Sequence[HandlerAnswer],
    handler_input: HandlerInput,
    payload: LLMRequest,
    notes: Notes | None,
    blocked: str,
) -> Decision:
    given: dict[str, Any] = {}
    for answer in answers:
        given |= answer.output or {}
    said = text_of_response(given["llm_response"]) if "llm_response" in given else None
    if said is not None:
        return Respond({"content": said}, notes=notes)
    if blocked:
        return AbortTurn(blocked, notes=notes)
    asked = {**handler_input.stdin["llm_request"], **given.get("llm_request", {})}
    return _going_on(notes, changed_request(asked, payload.model, payload.messages, payload.options))


def _of_response(answers: Sequence[HandlerAnswer], payload: LLMResponse, notes: Notes | None) -> Decision:
    given = [answer.output["llm_response"] for answer in answers if answer.output]
    said = text_of_response(given[-1]) if given else None
    if said is None:
        return _going_on(notes)
    return _going_on(notes, {"response": {**payload.response, "content": said}})


def _of_end(reason: str, notes: Notes | None, failed: tuple[HookError, ...], *, blocks: bool, ends: str) -> GroupAnswer:
    for_user = Notes(notes.system_message) if notes is not None and notes.system_message else None
    if ends or not blocks:
        return GroupAnswer(_going_on(for_user), failures=failed)
    return GroupAnswer(Retry(reason, notes=for_user), blocks=True, failures=failed)
