"""Asks a host's hooks about the events of a vendor's agent. The answers are in the words that all dialects share."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....calls.abort import AbortTurnError
from ....calls.tool_call import ended
from ....errors import PicohookError
from ....model.conversation import text_of
from ....model.decisions import CONTINUE, Deny
from ....model.payloads import Finish, Prompt, ToolCall, ToolResult, ToolReturn
from ....wire import words
from ..contract import HandlerAnswer, shortened
from ..surroundings import Recent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ....calls.tool_call import DecidedCall
    from ....host import Host
    from ....model.decisions import Decision, Outcome
    from ..vendor import Vendor
    from .telling import AgentEvent

MOST_REMEMBERED = 4096
"""The number of calls that are remembered until their tools have run."""
MOST_BLOCKS = 8
"""The number of times in a row that hooks may keep a turn from ending. Some vendors have no limit of their own."""
UNANSWERABLE = ("before_llm", "after_llm")
"""The stages that these agents have no event for."""

_Key = tuple[str, str]


class Decider:
    """Asks the hooks of one host, and remembers the calls that they have decided on."""

    def __init__(self, host: Host, vendor: Vendor) -> None:
        self._host, self._vendor = host, vendor
        self._decided: OrderedDict[_Key, DecidedCall] = OrderedDict()
        self._blocks: Recent[str, int] = Recent()
        self._ended: Recent[str, str] = Recent()
        """Turns that hooks have ended, with the reasons. Not every agent stops, so further calls are denied."""

    async def answer(self, agent_event: AgentEvent) -> HandlerAnswer:
        """Ask the hooks. Returns their answer. Raises `PicohookError` for a decision that no agent can follow."""
        payload = agent_event.payload
        try:
            match payload:
                case ToolReturn():
                    return await self._of_result(payload)
                case ToolCall():
                    self._blocks.pop(payload.meta.turn_id, None)
                    if (reason := self._ended.get(payload.meta.turn_id)) is not None:
                        return HandlerAnswer("deny", reason, ends=reason)
                    return await self._of_call(agent_event, payload)
                case Prompt():
                    self._ended.pop(payload.meta.turn_id, None)
                    return self._of_prompt(payload, await self._host.before_prompt(payload))
                case Finish():
                    return self._of_end(payload, await self._host.before_finish(payload))
        except AbortTurnError as error:
            reason = self._ended[payload.meta.turn_id] = _why(error.outcome)
            return _noted(HandlerAnswer("deny", reason, ends=reason), [error.outcome])
        if agent_event.at in {"before_compact", "after_compact"}:
            outcome = await self._host.ask(agent_event.at, payload)
            verdict, reason = ("deny", _why(outcome)) if outcome.action == words.SKIP else ("", "")
            return _ended(_noted(HandlerAnswer(verdict, reason), [outcome]), outcome)  # type: ignore[arg-type] # one of the words
        if agent_event.at == "session_end":
            for key in [key for key in self._decided if key[0] == payload.meta.session_key]:
                self._decided.pop(key).operation.ended()
            await self._host.emit_and_wait("session_end", {"SessionKey": payload.meta.session_key}, about=payload)
            self._host.forget(payload.meta.session_key)
        else:
            self._host.emit(agent_event.at, {"SessionKey": payload.meta.session_key}, about=payload)
        return HandlerAnswer(message=self._unasked() if agent_event.at == "session_start" else "")

    def _unasked(self) -> str:
        """A warning if there are no hooks, or about hooks that this agent cannot ask."""
        if not self._host.hooks:
            return "picohook: no hook was found, so nothing is guarded"
        names = sorted({hook.name for stage in UNANSWERABLE for hook in self._host.asked_at(stage)})
        if not names:
            return ""
        return f"picohook: this agent does not ask hooks at before_llm and after_llm: {', '.join(names)}"

    # Tools.

    async def _of_call(self, agent_event: AgentEvent, call: ToolCall) -> HandlerAnswer:
        """The answer about a call. If a hook pauses, the agent asks a person once all other hooks agree."""
        reasons: list[str] = []

        def go_on(paused: Outcome[ToolCall]) -> Decision:
            reason = paused.reason or "a hook asks for a person"
            if not self._vendor.shim.asks:
                return Deny(f"it has to be approved by a person, and this agent does not let hooks ask: {reason}")
            reasons.append(reason)
            return CONTINUE

        decided = await self._host.decide(call, on_pause=go_on)
        if decided.result is not None:
            return _noted(HandlerAnswer("deny", shortened(decided.result.for_llm)), decided.outcomes)
        now = decided.call
        changed = None
        if now.arguments != call.arguments:
            assert agent_event.call is not None
            changed = agent_event.call.arguments(now.arguments)
        why = ""
        if now.tool != call.tool:
            why = f"a hook replaced {call.tool} with {now.tool}, and this agent cannot run another tool"
        elif reasons and changed is not None and not self._vendor.shim.asks_about_changed:
            why = "a hook changed this call, another asks for a person, and this agent may run it unchanged"
        if why:
            ended(self._host, now, ToolResult(for_llm=why, is_error=True), 0)
            decided.operation.ended(words.DENY)
            return _noted(HandlerAnswer("deny", why), decided.outcomes)
        if call.tool_call_id:
            self._decided[call.meta.session_key, call.tool_call_id] = decided
            if len(self._decided) > MOST_REMEMBERED:
                self._decided.popitem(last=False)[1].operation.ended()
        answer = HandlerAnswer("ask", shortened("\n".join(reasons))) if reasons else HandlerAnswer()
        return _noted(replace(answer, input=changed), decided.outcomes)

    async def _of_result(self, returned: ToolReturn) -> HandlerAnswer:
        result, message = returned.result, ""
        decided = self._decided.pop((returned.meta.session_key, returned.tool_call_id or ""), None)
        own = None if decided is None else decided.call
        if own is not None and (own.tool, own.arguments) != (returned.tool, returned.arguments):
            message = f"picohook: {returned.tool} ran with another name or other arguments than its hooks decided on"
            decided = None
        if decided is None:
            outcome = await self._host.after_tool(returned)
            if outcome.action in {words.ABORT_TURN, words.HARD_ABORT}:
                raise AbortTurnError(outcome)
            left, outcomes = outcome.payload.result, [outcome]
        else:
            left = await decided.conclude(result, duration=returned.duration or None)
            outcomes = decided.outcomes[-1:]
        output = left.for_llm if left.for_llm != result.for_llm else None
        return _noted(HandlerAnswer(output=output, message=message), outcomes)

    # Turns.

    def _of_prompt(self, prompt: Prompt, outcome: Outcome[Prompt]) -> HandlerAnswer:
        answer = _ended(_noted(HandlerAnswer(), [outcome], outcome.payload.messages), outcome)
        if answer.ends is not None or outcome.payload.prompt == prompt.prompt:
            return answer
        raise PicohookError("a hook changed the prompt, and this agent cannot change prompts: let the hook refuse it")

    def _of_end(self, finish: Finish, outcome: Outcome[Finish]) -> HandlerAnswer:
        answer = _ended(_noted(HandlerAnswer(), [outcome], outcome.payload.messages), outcome)
        if answer.ends is not None or outcome.action != words.RETRY:
            return answer
        key = finish.meta.turn_id
        row = self._blocks.pop(key, 0)
        if row >= MOST_BLOCKS:
            return HandlerAnswer(message="picohook: the turn ends, although its hooks want it to continue")
        self._blocks[key] = row + 1
        feedback = "\n\n".join(filter(None, (outcome.feedback, answer.context))) or "a hook wants another round"
        return HandlerAnswer("deny", shortened(feedback), message=answer.message)


def _why(outcome: Outcome[Any]) -> str:
    return shortened(outcome.reason_for_llm) or "a hook decided so, and gave no reason"


def _ended(answer: HandlerAnswer, outcome: Outcome[Any]) -> HandlerAnswer:
    """The answer of an outcome that may have ended the turn."""
    if outcome.action not in {words.ABORT_TURN, words.HARD_ABORT}:
        return answer
    reason = _why(outcome)
    return HandlerAnswer("deny", reason, context=answer.context, message=answer.message, ends=reason)


def _noted(
    answer: HandlerAnswer, outcomes: Iterable[Outcome[Any]], added: Iterable[Mapping[str, Any]] = ()
) -> HandlerAnswer:
    """The answer with the texts of hooks for the conversation and for the user. `added` are messages from hooks."""
    notes = [note for outcome in outcomes for note in outcome.notes]
    texts = map(text_of, (*(message for note in notes for message in note.inject_messages), *added))
    contexts = filter(None, (*(note.additional_context for note in notes), *texts))
    messages = filter(None, (answer.message, *(note.system_message for note in notes)))
    return replace(answer, context=shortened("\n\n".join(contexts)), message=shortened("\n".join(messages)))
