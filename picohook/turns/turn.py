"""One turn of an agent: from what the user said to what the agent answered, asking hooks at every step.

The steps are `prompt`, `llm`, `tools`, `compact` and `finish`; `run` is the loop that most agents make of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from ..errors import PicohookError
from ..model.conversation import assistant_message, calls_of, content_of, text_of, tool_message
from ..model.payloads import Finish, LLMRequest, LLMResponse, Meta, Prompt, ToolCall, ToolResult, deep_copy
from ..wire import words
from ..wire.text import cut, escape
from .batch import Batch, decided_in, require_taken
from .calls import Rounds, raise_if_ended, run_llm, with_notes
from .delivery import Delivery
from .errors import AbortTurnError, PausedError
from .paused import PausedTurn, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType
    from typing import Self

    from ..model.decisions import Decision, Outcome
    from ..model.trail import StageTrail
    from .session import Session


_SUMMARY = 200
"""Bytes of a failed call's result that turn_end has."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a whole turn came to."""

    content: str
    messages: tuple[dict[str, Any], ...]
    iterations: int
    response: dict[str, Any] = field(default_factory=dict)
    undelivered: tuple[Delivery, ...] = ()
    """What tools had for the user, where the session has nothing that delivers."""
    trails: tuple[StageTrail, ...] = field(default=(), compare=False)
    """What the hooks of each stage did, in order; of a resumed turn, since it was resumed."""


class Turn:
    """Made by `Session.turn` or `Session.resume`. Its block begins with turn_start, and ends with turn_end.

    When a hook pauses it, it ends without: the resumed turn will, in whatever process that is.
    """

    def __init__(
        self,
        session: Session,
        meta: Meta,
        user_message: str = "",
        *,
        parent: Turn | None = None,
        label: str = "",
        media_count: int = 0,
        resumed: tuple[PausedTurn, Decision] | None = None,
    ) -> None:
        self.session = session
        self.host = session.host
        self.meta = meta
        self.user_message = user_message
        self.messages: list[dict[str, Any]] = [] if parent else list(session.messages)
        """The conversation, as the model sees it. Each step adds what was said in it."""
        self.interrupted = False
        """A graceful interrupt came: no more tools, one last answer."""
        self.ending: dict[str, Any] = {}
        """What turn_end is to say beside what the turn knows: Workspace, ActiveSkills, and whatever else the agent has."""
        self.undelivered: list[Delivery] = []
        """What tools had for the user, where the session has nothing that delivers."""
        self.paused: PausedTurn | None = None
        """What to keep, when a hook has paused the turn."""
        self.trails: list[StageTrail] = []
        """What the hooks of each stage did, in order; of a resumed turn, since it was resumed."""
        self._parent = parent
        self._label = label
        self._media_count = media_count
        self._resumed = self._pending = resumed
        self._context: list[str] = []
        self._injected: list[dict[str, Any]] = []
        self._steering: list[str] = []
        self._inbox: list[tuple[str, str]] = []
        self._open = False
        self._last_answer = False
        self._response: dict[str, Any] = {}
        self._model = ""
        self._system_prompt: str | None = None
        """The model and the system prompt of the last request, as hooks left them."""
        self._rounds = Rounds(self.host)
        self._executed: list[dict[str, Any]] = []
        if resumed is not None:
            self._restore(resumed[0])

    def _restore(self, paused: PausedTurn) -> None:
        self.messages = paused.messages
        self.interrupted = paused.interrupted
        self._context, self._injected = paused.context, paused.injected
        self._steering, self._inbox = paused.steering, paused.inbox
        self._response = paused.response
        self._model, self._system_prompt = paused.model, paused.system_prompt
        self._rounds = Rounds(self.host, paused.rounds)
        self._executed = paused.executed

    # Its life.

    async def __aenter__(self) -> Self:
        self.session.require_going()
        self._open = True
        self._began = time.monotonic_ns()
        if self._resumed is None:
            if self._parent is not None:
                spawned = {
                    "AgentID": self.meta.agent_id,
                    "Label": self._label,
                    "ParentTurnID": self.meta.parent_turn_id,
                }
                self.emit("subturn_spawn", spawned)
            self.emit("turn_start", {"UserMessage": self.user_message, "MediaCount": self._media_count})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if self.paused is not None and _is_pause(error):
            return
        if not self.meta.parent_turn_id:
            self.session.messages = self.messages
        if error is None:
            await self.end("completed")
        else:
            failed = isinstance(error, Exception) and not isinstance(error, AbortTurnError)
            await self.end("error" if failed else "aborted", str(error) or type(error).__name__)

    async def end(self, status: str, reason: str = "") -> None:
        """Tell that it ended: completed, with an error, or aborted. Leaving the block does it."""
        self._open = False
        reason = escape(cut(reason, words.MAX_REASON))
        if status == "error":
            self.emit("error", {"Stage": "turn", "Message": reason})
        if status != "completed":
            with anyio.CancelScope(shield=True):
                about = self.session.about(self.meta)
                await self.host.emit_and_wait("turn_abort", {"Reason": reason}, about=about)
        for child, _ in self._inbox:
            self._orphaned(self.meta.turn_id, child)
        self.emit("turn_end", {
            "Status": status,
            "Iterations": self.meta.iteration,
            "Duration": time.monotonic_ns() - self._began,
            "FinalContentLen": len(self.content),
            "UserMessage": self.user_message,
            "FinalContent": self.content,
            "Workspace": "",
            "ActiveSkills": [],
            "AttemptedSkills": [],
            "FinalSuccessfulPath": [],
            "SkillContextSnapshots": [],
            "ToolKinds": list(dict.fromkeys(one["name"] for one in self._executed)),
            "ToolExecutions": self._executed,
            **self.ending,
        })  # fmt: skip
        if status == "completed":
            self.emit("task_completed", {"Status": status, "FinalContent": self.content})
        if self.meta.parent_turn_id:
            self.emit("subturn_end", {"AgentID": self.meta.agent_id, "Status": status})
            if status == "completed" and not (self._parent is not None and self._parent.adopt(self)):
                self._orphaned(self.meta.parent_turn_id, self.meta.turn_id)

    def _orphaned(self, parent: str, child: str) -> None:
        self.emit("subturn_orphan", {"ParentTurnID": parent, "ChildTurnID": child, "Reason": "the parent ended"})

    @property
    def content(self) -> str:
        """The text of what the model said last."""
        return text_of(self._response)

    def emit(self, kind: str, payload: dict[str, Any]) -> None:
        """An event of this turn."""
        self.host.emit(kind, payload, about=self.session.about(self.meta))

    # From outside.

    def steer(self, message: str) -> bool:
        """The user says something meanwhile: tools that have not begun are skipped, and the model is told.

        Returns whether the turn still takes it: when it has ended, paused, or gives its last answer, it does not.
        """
        if taken := self._arrived("steering", message):
            self._steering.append(message)
        return taken

    def interrupt(self, message: str = "") -> bool:
        """Come to an end gracefully: tools that have not begun are skipped, and the model answers one last time.

        Returns whether the turn still takes it.
        """
        if taken := self._arrived("graceful", message):
            self.interrupted = True
            self._steering += [message] if message else []
        return taken

    def _arrived(self, kind: str, message: str) -> bool:
        if not self._open or self._last_answer:
            return False
        told = {
            "Kind": kind,
            "Role": "user",
            "ContentLen": len(message),
            "QueueDepth": len(self._steering),
            "HintLen": len(message) if kind == "graceful" else 0,
        }
        self.emit("interrupt_received", told)
        return True

    def adopt(self, child: Turn) -> bool:
        """A sub-turn ended; whether this turn is still there to take what it came to."""
        if self._open and child.content:
            self._inbox.append((child.meta.turn_id, child.content))
        return self._open

    def collect(self) -> list[dict[str, Any]]:
        """What arrived meanwhile, from the user and from sub-turns: it is put into the conversation, as messages."""
        said, self._steering = self._steering, []
        results, self._inbox = self._inbox, []
        if said:
            self.emit("steering_injected", {"Count": len(said), "TotalContentLen": sum(map(len, said))})
        for _, content in results:
            place = {"TargetChannel": self.session.channel, "TargetChatID": self.session.chat_id}
            self.emit("subturn_result_delivered", {**place, "ContentLen": len(content)})
        arrived = [_user(text) for text in (*said, *(content for _, content in results))]
        self.messages += arrived
        return arrived

    @property
    def why_skip(self) -> str:
        """Why tools that have not begun are skipped; empty while they are not."""
        if self.interrupted:
            return "the turn was interrupted"
        return "the user said something meanwhile" if self._steering else ""

    # The steps.

    def _goes_on(self, stage: str) -> tuple[PausedTurn, Decision] | None:
        """What a resumed turn goes on with in this step, which has to be its first."""
        pending = self._pending
        if pending is not None and pending[0].stage != stage:
            raise PicohookError(f"this turn was paused at {pending[0].stage}: it goes on there, and nowhere else")
        self._pending = None
        return pending

    async def prompt(self, prompt: str | None = None) -> str:
        """before_prompt: what the user said, as hooks leave it."""
        self._goes_on("before_prompt")
        said = self.user_message if prompt is None else prompt
        outcome = await self.host.before_prompt(
            Prompt(prompt=said, messages=self.messages, **self._place("turn.prompt"))
        )
        self.take(outcome)
        said, self.messages = outcome.payload.prompt, list(outcome.payload.messages)
        raise_if_ended(outcome)
        self.user_message = said
        self.emit("prompt_sent", {"UserMessage": said, "Messages": [*self.messages]})
        self.messages.append(_user(said))
        return said

    async def llm(self, request: LLMRequest, complete: Callable[[LLMRequest], Awaitable[Any]]) -> LLMResponse:
        """before_llm, the model, after_llm. What hooks have asked to be added since the last time is added."""
        self._goes_on("before_llm")
        self._last_answer = self.interrupted
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
        response = await run_llm(self.host, request, complete, self._rounds, self._take_of_llm)
        self._response = dict(response.response)
        self.messages.append(assistant_message(response.response))
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
        if calls is None and self._pending is None:
            raise PicohookError("there are no tool calls to go on with: only a resumed turn takes None for them")
        if calls is not None and self._pending is not None:
            raise PicohookError("a resumed turn has its tool calls already: it takes None for them")
        if (resumed := self._goes_on("before_tool")) is not None:
            paused, decision = resumed
            batch = Batch(self, paused.batch, execute, parallel=parallel, trusted=paused.authentic)
            return await batch.run(paused.at, (paused.hook, decision))
        place = self._place("turn.tool")
        # Copies: what anybody does to the calls from here on changes nothing.
        steps = [Step(call=deep_copy(call).model_copy(update=place)) for call in calls or ()]
        return await Batch(self, steps, execute, parallel=parallel).run()

    async def finish(self, response: LLMResponse | None = None, **about: Any) -> bool:
        """before_finish: whether the turn may end. If not, `messages` has what to go on with.

        `about` is what else hooks are told, `model` and `system_prompt`: those of the last request, unless they are given.
        """
        resumed = self._goes_on("before_finish")
        if response is not None:
            self._response = dict(response.response)
        finish = Finish(
            prompt=self.user_message,
            messages=self.messages,
            response=self._response,
            **{"model": self._model or None, "system_prompt": self._system_prompt, **about},
            **self._place("turn.finish"),
        )
        said, asked = None, {}
        if resumed is not None:
            said, asked = (resumed[0].hook, resumed[1]), resumed[0].asked
        known = {name for name, seen in asked.items() if self.host.fingerprint(name) == seen}
        outcome = await self.host.before_finish(finish, said=said, without=known)
        require_taken(said, outcome)
        self.take(outcome)
        self.messages = list(outcome.payload.messages)
        if outcome.action == words.RETRY:
            self._go_round(outcome)
            return False
        if outcome.action == words.PAUSE:
            asked |= {name: self.host.fingerprint(name) for name in decided_in(outcome)}
            raise PausedError(outcome, self.keep("before_finish", outcome, asked=asked))
        raise_if_ended(outcome)
        return True

    def _go_round(self, outcome: Outcome[Any]) -> None:
        self._rounds.spend(outcome.feedback, outcome.payload)
        if outcome.feedback:
            self.messages.append(_user(outcome.feedback))

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

        A hook that skips the micro one skips the auto one too. Hooks are told the model and the system prompt of the last
        request, unless they are given.
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
        complete: Callable[[LLMRequest], Awaitable[Any]],
        execute: Callable[[ToolCall], Any],
        parallel: bool = True,
        **request: Any,
    ) -> TurnResult:
        """The whole turn, or the rest of a resumed one; `request` is what each `LLMRequest` has beside its messages."""
        stage = "" if self._pending is None else self._pending[0].stage
        if not stage:
            await self.prompt()
        while True:
            calls: list[ToolCall] | None = None
            if not stage:
                self.collect()
                response = await self.llm(LLMRequest(messages=self.messages, **request), complete)
                calls = calls_of(response.response)
            at_its_end = True
            if stage == "before_tool" or calls:
                results = await self.tools(calls, execute, parallel=parallel)
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
        """Whether the model was told all that arrived, or will be told no more."""
        return self._last_answer or not (self._steering or self._inbox)

    # Shared with its batches.

    def keep(self, stage: str, outcome: Outcome[Any], **more: Any) -> PausedTurn:
        """What has to be kept to go on after this pause."""
        self._open = False
        self.paused = PausedTurn.of(
            stage=stage,
            hook=outcome.hook,
            reason=outcome.reason,
            meta=self.meta,
            user_message=self.user_message,
            messages=self.messages,
            context=self._context,
            injected=self._injected,
            steering=self._steering,
            inbox=self._inbox,
            interrupted=self.interrupted,
            rounds=self._rounds.used,
            response=self._response,
            model=self._model,
            system_prompt=self._system_prompt,
            executed=self._executed,
            **more,
        )
        return self.paused

    def record(self, call: ToolCall, result: ToolResult) -> None:
        """A call is done: the model gets its result."""
        self.messages.append(tool_message(call, result))

    def note_run(self, call: ToolCall, result: ToolResult) -> None:
        """A call is done, by its tool or by a hook: turn_end will say so."""
        done: dict[str, Any] = {"name": call.tool, "success": not result.is_error}
        if result.is_error:
            done["error_summary"] = cut(content_of(result).strip(), _SUMMARY)
        self._executed.append(done)

    async def deliver(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Bring what a result has for the user to the user: text, and media where `response_handled` says so.

        If that fails, it is an error, and the model is told. Where nothing delivers, it is kept in `undelivered`, and the
        model gets the media.
        """
        text = "" if result.silent else result.for_user
        media = tuple(result.media) if result.response_handled else ()
        if not (text or media):
            return result
        delivery = Delivery(text, media, call.tool, call.channel, call.chat_id)
        if self.session.deliver is None:
            self.undelivered.append(delivery)
            return result.model_copy(update={"response_handled": False}) if media else result
        try:
            sent = self.session.deliver(delivery)
            if hasattr(sent, "__await__"):
                await sent
        except Exception as error:  # noqa: BLE001 - a channel can fail in any way; the model can say so
            told = f"{result.for_llm}\nDelivery to the user failed: {str(error) or type(error).__name__}".strip()
            return result.model_copy(update={"is_error": True, "for_llm": told, "response_handled": False})
        return result

    def take(self, outcome: Outcome[Any]) -> None:
        """Keep what hooks did, and what they added beside it for the next request; show what is for the user."""
        self._keep_trail(outcome)
        self.host.take_note(outcome)
        for notes in outcome.notes:
            if notes.additional_context:
                self._context.append(notes.additional_context)
            self._injected.extend(notes.inject_messages)
            self._show(notes.system_message)

    def _take_of_llm(self, outcome: Outcome[Any]) -> None:
        """As `take`; but what belongs to a request that is still under way, `run_llm` adds there."""
        if outcome.stage == "before_llm" and outcome.action != words.RETRY:
            self.asked_with(outcome)
        if outcome.action == words.RETRY or (outcome.stage == "before_llm" and outcome.action != words.RESPOND):
            self._keep_trail(outcome)
            for notes in outcome.notes:
                self._show(notes.system_message)
        else:
            self.take(outcome)

    def asked_with(self, outcome: Outcome[LLMRequest]) -> None:
        """Keep what the stages after a model call are told of the request, as before_llm left it."""
        request = with_notes(outcome.payload, outcome.notes)
        self._model, self._system_prompt = request.model, request.system_prompt

    def _keep_trail(self, outcome: Outcome[Any]) -> None:
        self.trails.append(outcome.stage_trail)

    def _show(self, message: str) -> None:
        if message and self.session.show is not None:
            self.session.show(message)

    def _place(self, source: str) -> dict[str, Any]:
        meta = self.meta.model_copy(update={"source": source})
        session = self.session
        known = {} if session.context is None else {"context": session.context}
        return {"meta": meta, "channel": session.channel, "chat_id": session.chat_id, **known}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _is_pause(error: BaseException | None) -> bool:
    """Whether a block ended with nothing but a pause; the embedder's own task groups wrap it."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(PausedError)[1] is None
    return error is None or isinstance(error, PausedError)
