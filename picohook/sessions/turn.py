"""One turn of an agent, from the user's prompt to the agent's answer. Hooks are asked at every step.

The steps are `prompt`, `llm`, `tools`, `compact` and `finish`; `run` is the loop that most agents make of them.
"""

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..calls.abort import PausedError, raise_if_ended
from ..calls.model_call import Complete, DecidedRequest, Show, in_rounds
from ..calls.tool_call import DecidedCall, OnPause, decide
from ..engine.resumed import decided_by
from ..errors import PicohookError
from ..model.conversation import answer_in, calls_of
from ..model.payloads import Finish, LLMRequest, LLMResponse, Prompt, ToolCall, ToolResult, deep_copy
from ..model.stages import BEFORE_LLM, BEFORE_TOOL
from ..model.trail import StageTrail
from ..wire import words
from .base_turn import BaseTurn, from_user
from .batch import Batch
from .delivery import Delivery
from .paused import Step, fingerprints, unchanged

F = TypeVar("F", bound="Callable[..., Coroutine[Any, Any, Any]]")


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The result of a whole turn."""

    content: str
    messages: tuple[dict[str, Any], ...]
    iterations: int
    response: dict[str, Any] = field(default_factory=dict)
    undelivered: tuple[Delivery, ...] = ()
    """The deliveries for the user, where the session has no `deliver`."""
    trails: tuple[StageTrail, ...] = field(default=(), compare=False)
    """The decisions of hooks at each stage, in order. For a resumed turn, only since it was resumed."""


def _step(method: F) -> F:
    """The method as a step of its turn, whose operation is the current one meanwhile."""

    @functools.wraps(method)
    async def step(turn: BaseTurn, *given: Any, **options: Any) -> Any:
        with turn.operation.current():
            return await method(turn, *given, **options)

    return step  # type: ignore[return-value] # of the same signature


class Turn(BaseTurn):
    """A turn, made by `Session.turn` or `Session.resume`. Its block begins with turn_start, and ends with turn_end.

    If a hook pauses it, its block ends without turn_end. The resumed turn emits that, in whichever process it runs.
    """

    # The steps.

    @_step
    async def prompt(self, prompt: str | None = None) -> str:
        """before_prompt. Returns the prompt, as hooks leave it."""
        self._resumed_at("before_prompt")
        prompt = self.user_message if prompt is None else prompt
        outcome = await self.host.before_prompt(
            Prompt(prompt=prompt, messages=self.messages, **self._place("turn.prompt"))
        )
        self.take(outcome)
        prompt, self.messages = outcome.payload.prompt, list(outcome.payload.messages)
        raise_if_ended(outcome)
        self.user_message = prompt
        self.emit("prompt_sent", {"UserMessage": prompt, "Messages": [*self.messages]})
        self.messages.append(from_user(prompt))
        return prompt

    @_step
    async def llm(
        self, request: LLMRequest | Mapping[str, Any], complete: Complete, *, stream: Show | None = None
    ) -> LLMResponse:
        """before_llm, the model, after_llm. The request gets what hooks have added since the last one.

        `stream` shows the user the pieces of the response, as with `Host.run_llm`.
        """
        return await in_rounds(await self.decide_llm(request), complete, stream)

    @_step
    async def decide_llm(self, request: LLMRequest | Mapping[str, Any]) -> DecidedRequest:
        """`Host.decide_llm` in this turn. The request gets what hooks have added since the last one."""
        self._resumed_at("before_llm")
        self._last_answer = self.interrupted
        self.meta = self.meta.model_copy(update={"iteration": self.meta.iteration + 1})
        last = {"graceful_terminal": True, "tools": []} if self.interrupted else {}
        request = self.with_added(BEFORE_LLM.given(request)).model_copy(
            update={**self._place("turn.llm.request"), **last}
        )
        return await DecidedRequest(self.host, request, self._take_of_llm, self._rounds).ask()

    @_step
    async def decide(
        self, call: ToolCall | Mapping[str, Any], *, known: DecidedCall | None = None, on_pause: OnPause | None = None
    ) -> DecidedCall:
        """`Host.decide` in this turn. The caller adds the result to the conversation, and delivers the user's part."""
        call = BEFORE_TOOL.given(call).model_copy(update=self._place("turn.tool"))
        return await decide(self.host, call, self._take_of_tool, known, on_pause)

    @_step
    async def tools(
        self,
        calls: Sequence[ToolCall | Mapping[str, Any]] | None,
        execute: Callable[[ToolCall], Any],
        *,
        parallel: bool = True,
    ) -> list[ToolResult]:
        """Run a batch of calls: hooks are asked about one call after another, tools run in parallel, hooks see the results.

        Returns a result for every call. If a hook aborts, `AbortTurnError.results` has the results. If a hook pauses, keep
        `PausedError.paused`. A resumed turn takes None for the calls. Raises `PicohookError` for calls that it has already, and
        for None in another turn.
        """
        if calls is None and self._pending is None:
            raise PicohookError("there are no tool calls: only a resumed turn takes None for them")
        if calls is not None and self._pending is not None:
            raise PicohookError("a resumed turn has its tool calls already: it takes None for them")
        if (resumed := self._resumed_at("before_tool")) is not None:
            paused, answer = resumed
            batch = Batch(self, paused.batch, execute, parallel=parallel, trusted=paused.authentic)
            return await batch.run(paused.at, answer)
        place = self._place("turn.tool")
        # Copies: later changes to the caller's own calls do not count.
        steps = [Step(call=deep_copy(BEFORE_TOOL.given(call)).model_copy(update=place)) for call in calls or ()]
        return await Batch(self, steps, execute, parallel=parallel).run()

    @_step
    async def finish(self, response: LLMResponse | None = None, **about: Any) -> bool:
        """Asks before_finish. Returns whether the turn may end; if not, `messages` has the feedback.

        `about` has `model` and `system_prompt` for the hooks. By default they are those of the last request.
        """
        resumed = self._resumed_at("before_finish")
        if response is not None:
            self._response = dict(response.response)
        finish = Finish(
            prompt=self.user_message,
            messages=self.messages,
            response=self._response,
            **{"model": self._model or None, "system_prompt": self._system_prompt, **about},
            **self._place("turn.finish"),
        )
        answer, known = None, set[str]()
        if resumed is not None:
            known = unchanged(self.host, resumed[0].asked)
            answer = replace(resumed[1], skip=known)
        outcome = await self.host.before_finish(finish, resumed=answer)
        self.take(outcome)
        self._edited(list(outcome.payload.messages))
        if outcome.action == words.RETRY:
            self._rounds.spend(outcome.feedback, outcome.payload)
            self.messages += [from_user(outcome.feedback)] if outcome.feedback else []
            return False
        if outcome.action == words.PAUSE:
            asked = fingerprints(self.host, decided_by(outcome, finish, self.host.hooks, known))
            raise PausedError(outcome, self.keep("before_finish", outcome, asked=asked))
        raise_if_ended(outcome)
        return True

    def _edited(self, messages: list[dict[str, Any]]) -> None:
        """Keep the messages as before_finish left them. An edit of the answer among them is an edit of the response."""
        before, after = (answer_in(of) for of in (self.messages, messages))
        if after != before:
            removed = after is None or after in self.messages  # what is the last answer now is of an earlier turn
            self._response = {**self._response, **({"content": ""} if removed or after is None else after)}
        self.messages = messages

    @_step
    async def compact(
        self,
        messages: list[dict[str, Any]],
        *,
        micro: Callable[[list[dict[str, Any]]], Any] | None = None,
        auto: Callable[[list[dict[str, Any]]], Any] | None = None,
        system_prompt: str | None = None,
        model: str | None = None,
    ) -> list[dict[str, Any]]:
        """before_compact, the compaction, after_compact, for `micro` and then for `auto`, where given.

        A hook that skips `micro` skips `auto`, too. Hooks get the model and the system prompt of the last request, unless
        others are given. Returns the messages that are left.
        """
        for scope, shorten in (("micro", micro), ("auto", auto)):
            if shorten is None:
                continue
            about = {
                "scope": scope,
                "system_prompt": self._system_prompt if system_prompt is None else system_prompt,
                "model": model or self._model or None,
                **self._place("turn.compact"),
            }
            before = await self.host.before_compact({**about, "messages": messages})
            self.take(before)
            if before.action == words.SKIP:
                return list(before.payload.messages)
            raise_if_ended(before)
            shorter = shorten(list(before.payload.messages))
            shorter = list(await shorter if hasattr(shorter, "__await__") else shorter)
            after = await self.host.after_compact({**about, "messages": shorter})
            self.take(after)
            raise_if_ended(after)
            dropped = len(messages) - len(after.payload.messages)
            messages = list(after.payload.messages)
            told = {"Reason": scope, "DroppedMessages": max(dropped, 0), "RemainingMessages": len(messages)}
            self.emit("context_compress", told)
        return messages

    # The loop.

    async def run(
        self,
        *,
        complete: Complete,
        execute: Callable[[ToolCall], Any],
        calls: Callable[[Mapping[str, Any]], list[ToolCall]] = calls_of,
        parallel: bool = True,
        stream: Show | None = None,
        **request: Any,
    ) -> TurnResult:
        """Run the whole turn, or the rest of a resumed one. `request` has each `LLMRequest`'s fields beside its messages.

        `calls` returns the tool calls of a response. Give your own to set each call's `tool_kind` and `affected_paths`.

        `stream` shows the user the pieces of each response, as with `Host.run_llm`.
        """
        stage = "" if self._pending is None else self._pending[0].stage
        if not stage:
            await self.prompt()
        while True:
            batch: list[ToolCall] | None = None
            if not stage:
                self.collect()
                response = await self.llm(LLMRequest(messages=self.messages, **request), complete, stream=stream)
                batch = calls(response.response)
            at_its_end = True
            if stage == "before_tool" or batch:
                results = await self.tools(batch, execute, parallel=parallel)
                at_its_end = self._last_answer or all(result.response_handled for result in results)
            stage = ""
            if at_its_end and self._all_heard and await self.finish() and self._all_heard:
                break
        self._open = False
        return TurnResult(
            self.content,
            tuple(self.messages),
            self.meta.iteration,
            self._response,
            tuple(self.undelivered),
            tuple(self.trails),
        )

    @property
    def _all_heard(self) -> bool:
        """Whether the model has seen all messages that arrived, or gives its last answer."""
        return self._last_answer or not (self._steering or self._inbox)
