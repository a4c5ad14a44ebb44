"""Turns whose loop is somebody else's: what of them is kept here, while a client asks stage by stage.

A client's own loop knows when it asks its model and its tools. Kept for it are the ids and the iteration, what hooks asked to
be added to the next request, how often they may still ask to go round, where they paused, and the events of all that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..model.payloads import LLMRequest
from ..model.replies import read_decision
from ..model.stages import STAGES
from ..turns.model_call import answered, requested, with_notes
from ..turns.paused import decided_in, not_asked_again, require_taken
from ..turns.session import Session
from ..turns.tool_call import denied, ended, started
from ..turns.turn import Turn
from ..wire import words
from .rpc import INVALID_PARAMS, NOT_OPEN, RpcError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..model.decisions import Outcome
    from ..model.payloads import Payload
    from ..model.stages import Stage

_SOURCES = {
    "before_prompt": "turn.prompt",
    "before_llm": "turn.llm.request",
    "after_llm": "turn.llm.request",
    "before_tool": "turn.tool",
    "approve_tool": "turn.tool",
    "after_tool": "turn.tool",
    "before_finish": "turn.finish",
    "before_compact": "turn.compact",
    "after_compact": "turn.compact",
}


_LACKS = {
    "after_llm": frozenset({"model"}),
    "before_finish": frozenset({"prompt", "response", "model", "system_prompt"}),
    "before_compact": frozenset({"model", "system_prompt"}),
}
"""What hooks are told there of the turn and its last request, where the client leaves it out."""


class KeptTurn(Turn):
    """A turn that is asked stage by stage."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._again = False
        """Whether the next request is another round of the same iteration."""
        self._to_compact = 0
        self._paused_at: dict[str, tuple[Outcome[Any], set[str]]] = {}
        """By the id of the tool call: what was concluded, and who had decided."""

    async def ask(self, stage: Stage[Any], given: Payload) -> Outcome[Any]:
        """Ask one stage. What the client left out of the meta is filled in."""
        payload = self._next_request(given) if isinstance(given, LLMRequest) else given
        added = payload is not given
        payload = payload.model_copy(update=self._filled_in(stage, payload))
        outcome: Outcome[Any] = await getattr(self.host, stage.name)(payload)
        if added and outcome.action == words.CONTINUE:
            outcome = replace(outcome, action=words.MODIFY)
        return self._took(outcome, payload)

    async def resume(self, call_id: str, answer: Mapping[str, Any]) -> Outcome[Any]:
        """Go on where a hook paused: the answer is its own, in the form in which a hook gives one."""
        if call_id not in self._paused_at:
            about = f" about the call {call_id!r}" if call_id else ""
            raise RpcError(NOT_OPEN, f"no hook has paused the turn {self.meta.turn_id!r}{about}")
        paused, decided = self._paused_at[call_id]
        stage = STAGES[paused.stage]
        try:
            said = (paused.hook, read_decision(stage, answer))
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: decision: {error}") from None
        outcome = await getattr(self.host, stage.name)(paused.payload, answered=said, skip=decided)
        require_taken(said, outcome)
        self._paused_at.pop(call_id, None)
        return self._took(outcome, paused.payload, decided)

    async def end_with(self, status: str, reason: str, content: str | None) -> None:
        """The client says that it ended; where it says no text, that is what the model said last."""
        if content is not None:
            self._response = {"content": content}
        await self.end(status, reason)
        if self._parent is not None:
            self._parent.collect()  # the client has what the sub-turn came to, and gives it to its parent

    def _keep_trail(self, outcome: Outcome[Any]) -> None:
        """The client gets each with its answer; a turn may have any number of them."""

    # Going in.

    def _filled_in(self, stage: Stage[Any], payload: Payload) -> dict[str, Any]:
        """What the client says itself stays."""
        said = {name: value for name, value in payload.meta.__dict__.items() if value}
        known: dict[str, Any] = {
            "model": self._model,
            "system_prompt": self._system_prompt,
            "prompt": self.user_message,
            "response": self._response,
        }
        lacks = _LACKS.get(stage.name, frozenset()) - payload.model_fields_set
        return {
            **{name: known[name] for name in lacks if known[name]},
            "meta": self.meta.model_copy(update={"source": _SOURCES.get(stage.name, f"turn.{stage.mode}"), **said}),
            "channel": payload.channel or self.session.channel,
            "chat_id": payload.chat_id or self.session.chat_id,
            "context": payload.context or self.session.context,
        }

    def _next_request(self, request: LLMRequest) -> LLMRequest:
        """One more iteration, with what hooks have asked to be added since the last one."""
        if not self._again:
            self.meta = self.meta.model_copy(update={"iteration": request.meta.iteration or self.meta.iteration + 1})
        self._again = False
        context, injected = self._context, self._injected
        self._context, self._injected = [], []
        if not context and not injected:
            return request
        prompt = "\n\n".join(text for text in (request.system_prompt or "", *context) if text)
        return request.model_copy(update={"system_prompt": prompt or None, "messages": [*request.messages, *injected]})

    # Coming out.

    def _took(self, outcome: Outcome[Any], given: Payload, decided: Collection[str] = ()) -> Outcome[Any]:
        """Keep what there is to keep of an outcome, and tell what it means. Raises `RetryLimitError`."""
        if outcome.stage == "before_llm" and outcome.action != words.RETRY:
            self.asked_with(outcome)
        if outcome.stage == "before_llm" and outcome.action in {words.CONTINUE, words.MODIFY}:
            outcome = _with_its_notes(outcome)  # they belong to this very request
        else:
            self.take(outcome)
        _TELLS.get(outcome.stage, _nothing)(self, outcome)
        if outcome.action == words.PAUSE:
            call_id = getattr(outcome.payload, "tool_call_id", None) or ""
            stale = not_asked_again(self.host, outcome, given)
            self._paused_at[call_id] = outcome, {*decided, *decided_in(outcome)} - stale
        if outcome.action == words.RETRY:
            self._again = outcome.stage in {"before_llm", "after_llm"}
            self._rounds.spend(outcome.feedback, outcome.payload)
        return outcome

    def tell_of_prompt(self, outcome: Outcome[Any]) -> None:
        """before_prompt."""
        if outcome.action in {words.CONTINUE, words.MODIFY}:
            self.user_message = outcome.payload.prompt
            told = {"UserMessage": self.user_message, "Messages": outcome.payload.messages}
            self.host.emit("prompt_sent", told, about=outcome.payload)

    def tell_of_request(self, outcome: Outcome[Any]) -> None:
        """before_llm."""
        if outcome.action in {words.CONTINUE, words.MODIFY}:
            requested(self.host, outcome.payload)
        elif outcome.action == words.RESPOND:
            self._response = dict(outcome.result.response)

    def tell_of_response(self, outcome: Outcome[Any]) -> None:
        """after_llm."""
        answered(self.host, outcome.payload)
        self._response = dict(outcome.payload.response)

    def tell_of_call(self, outcome: Outcome[Any]) -> None:
        """before_tool."""
        if outcome.action == words.DENY:
            denied(self.host, outcome)
        elif outcome.action == words.RESPOND:
            started(self.host, outcome.payload)
            ended(self.host, outcome.payload, outcome.result, 0)
            self.note_run(outcome.payload, outcome.result)

    def tell_of_approval(self, outcome: Outcome[Any]) -> None:
        """approve_tool: the call runs now, or not at all."""
        if outcome.approved:
            started(self.host, outcome.payload)
        else:
            denied(self.host, outcome)

    def tell_of_return(self, outcome: Outcome[Any]) -> None:
        """after_tool."""
        ended(self.host, outcome.payload, outcome.payload.result, outcome.payload.duration)
        self.note_run(outcome.payload, outcome.payload.result)

    def tell_of_finish(self, outcome: Outcome[Any]) -> None:
        """before_finish."""
        self._response = dict(outcome.payload.response) or self._response

    def note_to_compact(self, outcome: Outcome[Any]) -> None:
        """before_compact."""
        self._to_compact = len(outcome.payload.messages)

    def tell_of_compaction(self, outcome: Outcome[Any]) -> None:
        """after_compact."""
        left = len(outcome.payload.messages)
        dropped = max(self._to_compact - left, 0)
        told = {"Reason": outcome.payload.scope, "DroppedMessages": dropped, "RemainingMessages": left}
        self.host.emit("context_compress", told, about=outcome.payload)


class KeptSession(Session):
    """A session of such turns."""

    kind_of_turn = KeptTurn


_TELLS = {
    "before_prompt": KeptTurn.tell_of_prompt,
    "before_llm": KeptTurn.tell_of_request,
    "after_llm": KeptTurn.tell_of_response,
    "before_tool": KeptTurn.tell_of_call,
    "approve_tool": KeptTurn.tell_of_approval,
    "after_tool": KeptTurn.tell_of_return,
    "before_finish": KeptTurn.tell_of_finish,
    "before_compact": KeptTurn.note_to_compact,
    "after_compact": KeptTurn.tell_of_compaction,
}


def _nothing(_: KeptTurn, __: Outcome[Any]) -> None:
    """There is nothing to tell of this stage."""


def _with_its_notes(outcome: Outcome[Any]) -> Outcome[Any]:
    payload = with_notes(outcome.payload, outcome.notes)
    return outcome if payload is outcome.payload else replace(outcome, action=words.MODIFY, payload=payload)
