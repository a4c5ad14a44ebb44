"""Turns whose loop runs in a client, which asks the host stage by stage.

The client decides when to call its model and its tools. The turn keeps the ids and the iteration, the additions of hooks to the
next request, the number of rounds left, and the pauses. It emits the events.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...calls.abort import PausedError
from ...calls.model_call import answered, requested
from ...calls.tool_call import DecidedCall, denied, ended, started
from ...engine.resumed import Resumed, decided_by
from ...errors import PicohookError
from ...model.payloads import LLMRequest
from ...model.replies import read_decision
from ...model.stages import BEFORE_TOOL, STAGES
from ...rpc.jsonrpc import INVALID_PARAMS, NOT_OPEN, RpcError
from ...sessions.session import Session
from ...sessions.turn import Turn
from ...wire import words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ...calls.tool_call import OnPause
    from ...model.decisions import Outcome
    from ...model.payloads import Payload, ToolCall
    from ...model.stages import Stage

_FROM_LAST_REQUEST = {
    "after_llm": frozenset({"model"}),
    "before_finish": frozenset({"prompt", "response", "model", "system_prompt"}),
    "before_compact": frozenset({"model", "system_prompt"}),
}
"""Fields that are filled in from the turn and its last request if the client leaves them out."""


class RemoteTurn(Turn):
    """A turn whose stages a client asks one by one."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._again = False
        """Whether the next request is another round of the same iteration."""
        self._to_compact = 0
        self._paused_at: dict[str, tuple[Outcome[Any], frozenset[str], float]] = {}
        """The pauses, by the id of the tool call: the outcome, the hooks that had decided, and when its life ends."""

    async def ask(self, stage: Stage[Any], own: Payload) -> Outcome[Any]:
        """The outcome of one stage. Fills in fields that the client left out of the payload. Raises `RetryLimitError`."""
        payload = self._next_request(own) if isinstance(own, LLMRequest) else own
        changed = payload is not own
        payload = payload.model_copy(update=self._filled_in(stage, payload))
        outcome: Outcome[Any] = await getattr(self.host, stage.name)(payload)
        if changed and outcome.action == words.CONTINUE:
            outcome = replace(outcome, action=words.MODIFY)
        return self._record(outcome, payload)

    async def decide(
        self, call: ToolCall | Mapping[str, Any], *, known: DecidedCall | None = None, on_pause: OnPause | None = None
    ) -> DecidedCall:
        """`Turn.decide`, with the fields that the client left out."""
        del known
        payload = BEFORE_TOOL.given(call)
        call = payload.model_copy(update=self._filled_in(BEFORE_TOOL, payload))

        decided = DecidedCall(self.host, call, self._take_of_tool, on_pause)
        try:
            await decided.ask()
        except PausedError as paused:
            self._keep_pause(paused.outcome, call)
            raise
        return decided

    async def resume(self, call_id: str, answer: Mapping[str, Any]) -> Outcome[Any]:
        """The outcome of the stage at which a hook paused. `answer` is the reply of that hook. Raises `RpcError`."""
        if call_id not in self._paused_at:
            about = f" about the call {call_id!r}" if call_id else ""
            raise RpcError(NOT_OPEN, f"no hook has paused the turn {self.meta.turn_id!r}{about}")
        paused, decided, until = self._paused_at[call_id]
        stage = STAGES[paused.stage]
        try:
            resumed = Resumed(paused.hook, read_decision(stage, answer), decided)
        except ValueError as error:
            raise RpcError.because(INVALID_PARAMS, f"decision: {error}") from None
        del self._paused_at[call_id]  # before anything is awaited: a pause is used once
        if time.monotonic() > until:
            lasts = self.host.settings.pause_lasts
            raise RpcError(NOT_OPEN, f"the pause is over: it could be answered for {lasts:g} s")
        try:
            outcome = await getattr(self.host, stage.name)(paused.payload, resumed=resumed)
        except PicohookError:  # the answer is wrong, so the person has not been heard
            self._paused_at[call_id] = paused, decided, until
            raise
        return self._record(outcome, paused.payload, decided)

    async def end_with(self, status: str, reason: str, content: str | None) -> None:
        """End the turn as the client says. `content` is the turn's answer; None means the model's last response."""
        if content is not None:
            self._response = {"content": content}
        await self.end(status, reason)
        if self._parent is not None:
            self._parent.collect()  # the client gives the sub-turn's result to the parent itself

    def _keep_trail(self, outcome: Outcome[Any]) -> None:
        """Keep no trail: the client gets each one with its answer, and a turn may have any number of them."""

    # Payloads.

    def _filled_in(self, stage: Stage[Any], payload: Payload) -> dict[str, Any]:
        """Values for the fields of the payload that the client left out, and the meta."""
        ids = {name: value for name, value in payload.meta.__dict__.items() if value}
        known: dict[str, Any] = {
            "model": self._model,
            "system_prompt": self._system_prompt,
            "prompt": self.user_message,
            "response": self._response,
        }
        missing = _FROM_LAST_REQUEST.get(stage.name, frozenset()) - payload.model_fields_set
        return {
            **{name: known[name] for name in missing if known[name]},
            "meta": self.meta.model_copy(update={"source": _source(stage), **ids}),
            "channel": payload.channel or self.session.channel,
            "chat_id": payload.chat_id or self.session.chat_id,
            "context": payload.context or self.session.context,
        }

    def _next_request(self, request: LLMRequest) -> LLMRequest:
        """The request of the next iteration or round, with what hooks added since the last one."""
        if not self._again:
            self.meta = self.meta.model_copy(update={"iteration": request.meta.iteration or self.meta.iteration + 1})
        self._again = False
        return self.with_added(request)

    # Outcomes.

    def _record(self, outcome: Outcome[Any], payload: Payload, decided: Collection[str] = ()) -> Outcome[Any]:
        """Keep the parts of an outcome that the turn needs, and emit its events. Raises `RetryLimitError`."""
        if outcome.stage == "before_llm" and outcome.action != words.RETRY:
            self.asked_with(outcome)
        if outcome.stage == "before_llm" and outcome.action in {words.CONTINUE, words.MODIFY}:
            payload = outcome.payload.with_notes(outcome.notes)  # they belong to this request, and not to the next one
            if payload is not outcome.payload:
                outcome = replace(outcome, action=words.MODIFY, payload=payload)
        else:
            self.take(outcome)
        concluded = getattr(self, f"_concluded_{outcome.stage}", None)
        if concluded is not None:
            concluded(outcome)
        self._keep_pause(outcome, payload, decided)
        if outcome.action == words.RETRY:
            self._again = outcome.stage in {"before_llm", "after_llm"}
            self._rounds.spend(outcome.feedback, outcome.payload)
        return outcome

    def _keep_pause(self, outcome: Outcome[Any], payload: Payload, decided: Collection[str] = ()) -> None:
        """Keep the outcome for `resume`, if it is a pause."""
        if outcome.action == words.PAUSE:
            call_id = getattr(outcome.payload, "tool_call_id", None) or ""
            until = time.monotonic() + self.host.settings.pause_lasts
            self._paused_at[call_id] = outcome, decided_by(outcome, payload, self.host.hooks, decided), until

    def _concluded_before_prompt(self, outcome: Outcome[Any]) -> None:
        if outcome.action in {words.CONTINUE, words.MODIFY}:
            self.user_message = outcome.payload.prompt
            payload = {"UserMessage": self.user_message, "Messages": outcome.payload.messages}
            self.host.emit("prompt_sent", payload, about=outcome.payload)

    def _concluded_before_llm(self, outcome: Outcome[Any]) -> None:
        if outcome.action in {words.CONTINUE, words.MODIFY}:
            requested(self.host, outcome.payload)
        elif outcome.action == words.RESPOND:
            self._response = dict(outcome.result.response)

    def _concluded_after_llm(self, outcome: Outcome[Any]) -> None:
        answered(self.host, outcome.payload)
        self._response = dict(outcome.payload.response)

    def _concluded_before_tool(self, outcome: Outcome[Any]) -> None:
        if outcome.action == words.DENY:
            denied(self.host, outcome)
        elif outcome.action == words.RESPOND:
            started(self.host, outcome.payload)
            ended(self.host, outcome.payload, outcome.result, 0)
            self.note_run(outcome.payload, outcome.result)

    def _concluded_approve_tool(self, outcome: Outcome[Any]) -> None:
        # The client runs the tool now, or not at all.
        if outcome.approved:
            started(self.host, outcome.payload)
        else:
            denied(self.host, outcome)

    def _concluded_after_tool(self, outcome: Outcome[Any]) -> None:
        ended(self.host, outcome.payload, outcome.payload.result, outcome.payload.duration)
        self.note_run(outcome.payload, outcome.payload.result)

    def _concluded_before_finish(self, outcome: Outcome[Any]) -> None:
        self._response = dict(outcome.payload.response) or self._response

    def _concluded_before_compact(self, outcome: Outcome[Any]) -> None:
        self._to_compact = len(outcome.payload.messages)

    def _concluded_after_compact(self, outcome: Outcome[Any]) -> None:
        left = len(outcome.payload.messages)
        dropped = max(self._to_compact - left, 0)
        payload = {"Reason": outcome.payload.scope, "DroppedMessages": dropped, "RemainingMessages": left}
        self.host.emit("context_compress", payload, about=outcome.payload)


class RemoteSession(Session):
    """A session whose turns run in a client."""

    kind_of_turn = RemoteTurn


def _source(stage: Stage[Any]) -> str:
    what = stage.name.partition("_")[2]
    return "turn.llm.request" if what == "llm" else f"turn.{what}"
