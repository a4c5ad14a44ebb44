"""One turn of an agent: from what the user said to what the agent answered, asking hooks at every step.

The steps are `prompt`, `llm`, `tools`, `compact` and `finish`; `run` is the loop that most agents make of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from . import wire
from .batch import Batch
from .conversation import assistant_message, calls_of, text_of, tool_message
from .delivery import Delivery
from .errors import AbortTurnError, PausedError
from .models import Finish, LLMRequest, LLMResponse, Meta, Prompt, ToolCall, ToolResult
from .paused import PausedTurn
from .run import Rounds, raise_if_ended, run_llm

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType
    from typing import Self

    from .decisions import Decision, Outcome
    from .session import Session


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a whole turn came to."""

    content: str
    messages: tuple[dict[str, Any], ...]
    iterations: int
    response: dict[str, Any] = field(default_factory=dict)


class Turn:
    """Made by `Session.turn` or `Session.resume`. Its block begins with turn_start, and ends with turn_end."""

    def __init__(
        self,
        session: Session,
        meta: Meta,
        user_message: str = "",
        *,
        parent: Turn | None = None,
        label: str = "",
        media_count: int = 0,
        paused: PausedTurn | None = None,
        decision: Decision | None = None,
    ) -> None:
        self.session = session
        self.host = session.host
        self.meta = meta
        self.user_message = user_message
        self.messages: list[dict[str, Any]] = []
        """The conversation, as the model sees it. `run` fills it; who takes the steps alone may, and need not."""
        self.interrupted = False
        """A graceful interrupt came: no more tools, one last answer."""
        self._parent = parent
        self._label = label
        self._media_count = media_count
        self._paused = paused
        self._decision = decision
        self._context: list[str] = []
        self._injected: list[dict[str, Any]] = []
        self._steering: list[str] = []
        self._inbox: list[str] = []
        self._open = False
        self._content = ""
        self._response: dict[str, Any] = {}
        self._rounds = Rounds(self.host, paused.rounds if paused else 0)
        if paused is not None:
            self.messages = list(paused.messages)
            self._context, self._injected = list(paused.context), list(paused.injected)
            self._response = paused.response

    # Its life.

    async def __aenter__(self) -> Self:
        self._open = True
        self._began = time.monotonic_ns()
        if self._parent is not None:
            spawned = {"AgentID": self.meta.agent_id, "Label": self._label, "ParentTurnID": self.meta.parent_turn_id}
            self.emit("subturn_spawn", spawned)
        if self._paused is None:
            self.emit("turn_start", {"UserMessage": self.user_message, "MediaCount": self._media_count})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if self._parent is None:
            self.session.messages = self.messages
        if isinstance(error, PausedError):
            return
        if error is None:
            status = "completed"
        else:
            status = "error" if isinstance(error, Exception) and not isinstance(error, AbortTurnError) else "aborted"
            if status == "error":
                self.emit("error", {"Stage": "turn", "Message": str(error)})
            with anyio.CancelScope(shield=True):
                await self.host.emit_and_wait(
                    "turn_abort", {"Reason": str(error) or type(error).__name__}, meta=self.meta
                )
        self.emit("turn_end", {
            "Status": status,
            "Iterations": self.meta.iteration,
            "Duration": time.monotonic_ns() - self._began,
            "FinalContentLen": len(self._content),
            "UserMessage": self.user_message,
            "FinalContent": self._content,
        })  # fmt: skip
        if status == "completed":
            self.emit("task_completed", {"Status": status, "FinalContent": self._content})
        self._report(status)

    def _report(self, status: str) -> None:
        """Tell the parent, if there is one and it is still there."""
        if self._parent is None:
            return
        self.emit("subturn_end", {"AgentID": self.meta.agent_id, "Status": status})
        if not self._parent.adopt(self._content):
            orphan = {
                "ParentTurnID": self.meta.parent_turn_id,
                "ChildTurnID": self.meta.turn_id,
                "Reason": "parent ended",
            }
            self.emit("subturn_orphan", orphan)

    def emit(self, kind: str, payload: dict[str, Any]) -> None:
        """An event of this turn."""
        self.host.emit(kind, payload, meta=self.meta)

    # From outside.

    def steer(self, message: str) -> None:
        """The user says something meanwhile: tools that have not begun are skipped, and the model is told."""
        self._arrived("steering", message)
        self._steering.append(message)

    def interrupt(self, message: str = "") -> None:
        """Come to an end gracefully: tools that have not begun are skipped, and the model answers one last time."""
        self._arrived("graceful", message)
        self.interrupted = True
        if message:
            self._steering.append(message)

    def _arrived(self, kind: str, message: str) -> None:
        told = {"Kind": kind, "Role": "user", "ContentLen": len(message), "QueueDepth": len(self._steering)}
        self.emit("interrupt_received", told)

    def adopt(self, content: str) -> bool:
        """A sub-turn ended with this; whether this turn is still there to take it."""
        if self._open:
            self._inbox.append(content)
        return self._open

    @property
    def why_skip(self) -> str:
        """Why tools that have not begun are skipped; empty while they are not."""
        if self.interrupted:
            return "the turn was interrupted"
        return "the user said something meanwhile" if self._steering else ""

    # The steps.

    async def prompt(self, prompt: str | None = None) -> str:
        """before_prompt: what the user said, as hooks leave it."""
        said = self.user_message if prompt is None else prompt
        while True:
            outcome = await self.host.before_prompt(
                Prompt(prompt=said, messages=self.messages, **self._place("turn.prompt"))
            )
            self.take(outcome)
            if outcome.action != wire.RETRY:
                raise_if_ended(outcome)
                break
            self._rounds.spend(outcome.feedback, self.meta)
            said = outcome.feedback or outcome.payload.prompt
        self.user_message = outcome.payload.prompt
        self.emit("prompt_sent", {"UserMessage": self.user_message, "Messages": [*self.messages]})
        return self.user_message

    async def llm(self, request: LLMRequest, complete: Callable[[LLMRequest], Awaitable[Any]]) -> LLMResponse:
        """before_llm, the model, after_llm. What hooks have asked to be added since the last time is added."""
        self.meta = self.meta.model_copy(update={"iteration": self.meta.iteration + 1})
        prompt = "\n\n".join(text for text in (request.system_prompt or "", *self._context) if text)
        request = request.model_copy(
            update={
                **self._place("turn.llm.request"),
                "messages": [*request.messages, *self._injected],
                "system_prompt": prompt or request.system_prompt,
                **({"graceful_terminal": True, "tools": []} if self.interrupted else {}),
            }
        )
        self._context, self._injected = [], []
        response = await run_llm(self.host, request, complete, self._rounds, self._take_response)
        self._response = dict(response.response)
        return response

    async def tools(
        self,
        calls: Sequence[ToolCall] | None,
        execute: Callable[[ToolCall], Any],
        *,
        parallel: bool = True,
    ) -> list[ToolResult]:
        """A batch of calls: hooks are asked one call after another, tools run at the same time, hooks see the results.

        Every call gets a result, whatever happens. When a hook pauses, `PausedError.paused` is what to keep; a resumed turn
        takes None for the calls. When one aborts, `AbortTurnError.results` has what there is.
        """
        paused, decision, self._paused, self._decision = self._paused, self._decision, None, None
        if calls is None and paused is not None and paused.stage == "before_tool":
            batch = Batch(self, paused.batch, execute, parallel=parallel, trusted=paused.authentic)
            return await batch.run(at=paused.at, hook=paused.hook, decision=decision)
        place = self._place("turn.tool")
        located = [call.model_copy(update={**place, "context": call.context}) for call in calls or ()]
        return await Batch.of(self, located, execute, parallel=parallel).run()

    async def finish(self, response: LLMResponse | None = None, **about: Any) -> bool:
        """before_finish: whether the turn may end. If not, `messages` has what to go on with."""
        paused, decision, self._paused, self._decision = self._paused, self._decision, None, None
        answer = self._response if response is None else dict(response.response)
        finish = Finish(
            prompt=self.user_message, messages=self.messages, response=answer, **about, **self._place("turn.finish")
        )
        said = (paused.hook, decision) if paused is not None and decision is not None else None
        outcome = await self.host.before_finish(finish, said=said)
        self.take(outcome)
        if outcome.action == wire.RETRY:
            self._rounds.spend(outcome.feedback, self.meta)
            self.messages = list(outcome.payload.messages)
            if outcome.feedback:
                self.messages.append({"role": "user", "content": outcome.feedback})
            return False
        if outcome.action == wire.PAUSE:
            raise PausedError(outcome, self.keep("before_finish", outcome))
        raise_if_ended(outcome)
        self.messages = list(outcome.payload.messages)
        self._content = text_of(answer)
        return True

    async def compact(
        self,
        messages: list[dict[str, Any]],
        *,
        micro: Callable[[list[dict[str, Any]]], Any] | None = None,
        auto: Callable[[list[dict[str, Any]]], Any] | None = None,
        system_prompt: str | None = None,
        model: str | None = None,
    ) -> list[dict[str, Any]]:
        """before_compact, the compaction, after_compact: first the micro one, then the auto one, where given.

        A hook that skips the micro one skips the auto one too.
        """
        for scope, shorten in (("micro", micro), ("auto", auto)):
            if shorten is None:
                continue
            about = {"scope": scope, "system_prompt": system_prompt, "model": model, **self._place("turn.compact")}
            before = await self.host.before_compact({**about, "messages": messages})
            self.take(before)
            if before.action == wire.SKIP:
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
        complete: Callable[[LLMRequest], Awaitable[Any]],
        execute: Callable[[ToolCall], Any],
        parallel: bool = True,
        **request: Any,
    ) -> TurnResult:
        """The whole turn, or the rest of a resumed one; `request` is what each `LLMRequest` has beside its messages."""
        calls: list[ToolCall] | None = None
        stage = self._paused.stage if self._paused is not None else ""
        if not stage:
            self.messages.append({"role": "user", "content": await self.prompt()})
        while True:
            if not stage:
                self._inject()
                response = await self.llm(LLMRequest(messages=self.messages, **request), complete)
                self.messages.append(assistant_message(response.response))
                calls = calls_of(response.response)
            if stage == "before_tool" or calls:
                results = await self.tools(calls, execute, parallel=parallel)
                if results and all(result.response_handled for result in results):
                    break
            elif await self.finish():
                break
            stage, calls = "", None
        self._content = self._content or text_of(self._response)
        return TurnResult(self._content, tuple(self.messages), self.meta.iteration, self._response)

    def _inject(self) -> None:
        """Put what arrived meanwhile into the conversation."""
        if self._steering:
            said, self._steering = self._steering, []
            self.messages += [{"role": "user", "content": text} for text in said]
            self.emit("steering_injected", {"Count": len(said), "TotalContentLen": sum(map(len, said))})
        self.collect()

    def collect(self) -> list[str]:
        """The results of sub-turns that have come in; they are put into the conversation."""
        arrived, self._inbox = self._inbox, []
        for content in arrived:
            place = {"TargetChannel": self.session.channel, "TargetChatID": self.session.chat_id}
            self.emit("subturn_result_delivered", {**place, "ContentLen": len(content)})
            self.messages.append({"role": "user", "content": content})
        return arrived

    # Shared with its batches.

    def keep(self, stage: str, outcome: Outcome[Any], batch: Sequence[Any] = (), at: int = 0) -> PausedTurn:
        """What has to be kept to go on after this pause."""
        return PausedTurn.model_validate({
            "stage": stage,
            "hook": outcome.hook,
            "reason": outcome.reason,
            "meta": self.meta,
            "user_message": self.user_message,
            "messages": self.messages,
            "context": self._context,
            "injected": self._injected,
            "rounds": self._rounds.used,
            "response": self._response,
            "batch": list(batch),
            "at": at,
        })  # fmt: skip

    def record(self, call: ToolCall, result: ToolResult) -> None:
        """A call is done: the model gets its result."""
        self.messages.append(tool_message(call, result))

    async def deliver(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Bring what a result has for the user to the user. If that fails, it is an error, and the model is told."""
        wanted = not result.silent and (result.for_user or (result.media and result.response_handled))
        if self.session.deliver is None or not wanted:
            return result
        try:
            sent = self.session.deliver(
                Delivery(result.for_user, tuple(result.media), call.tool, call.channel, call.chat_id)
            )
            if hasattr(sent, "__await__"):
                await sent
        except Exception as error:  # noqa: BLE001 - a channel can fail in any way; the model can say so
            told = f"{result.for_llm}\nDelivery to the user failed: {error}".strip()
            return result.model_copy(update={"is_error": True, "for_llm": told, "response_handled": False})
        return result

    def take(self, outcome: Outcome[Any]) -> None:
        """Keep what hooks added beside their decisions for the next request, and show what is for the user."""
        for notes in outcome.notes:
            if notes.additional_context:
                self._context.append(notes.additional_context)
            self._injected.extend(notes.inject_messages)
            self._show(notes.system_message)

    def _take_response(self, outcome: Outcome[Any]) -> None:
        if outcome.stage == "before_llm":
            for notes in outcome.notes:
                self._show(notes.system_message)
        else:
            self.take(outcome)

    def _show(self, message: str) -> None:
        if message and self.session.show is not None:
            self.session.show(message)

    def _place(self, source: str) -> dict[str, Any]:
        meta = self.meta.model_copy(update={"source": source})
        return {"meta": meta, "channel": self.session.channel, "chat_id": self.session.chat_id}
