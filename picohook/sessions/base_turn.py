"""A turn's state: its beginning and end, messages from outside, pauses, and the records of its steps and batches."""

import time
from types import TracebackType
from typing import Any, Self

import anyio

from ..calls.abort import AbortTurnError, PausedError
from ..calls.rounds import Rounds
from ..engine.listener import NO_OPERATION
from ..engine.resumed import Resumed
from ..errors import PicohookError
from ..model.conversation import assistant_message, content_of, text_of, tool_message
from ..model.decisions import Outcome
from ..model.payloads import LLMRequest, Meta, ToolCall, ToolResult
from ..model.trail import Notes, StageTrail
from ..wire import words
from ..wire.text import cut, escape
from .base_session import BaseSession
from .delivery import Delivery
from .paused import PausedTurn, use

_SUMMARY = 200
"""Bytes of a failed call's result in turn_end."""
_KEPT: tuple[str, ...] = ("messages", "interrupted", "_context", "_injected", "_steering", "_inbox")
_KEPT += ("_response", "_model", "_system_prompt", "_executed")
"""The attributes of a turn that a paused one has as fields."""


class BaseTurn:
    """A turn without its steps: see `Turn`."""

    def __init__(
        self,
        session: BaseSession,
        meta: Meta,
        user_message: str = "",
        *,
        parent: "BaseTurn | None" = None,
        label: str = "",
        media_count: int = 0,
        resumed: tuple[PausedTurn, Resumed] | None = None,
    ) -> None:
        self.session = session
        self.host = session.host
        self.meta = meta
        self.user_message = user_message
        self.messages: list[dict[str, Any]] = [] if parent else list(session.messages)
        """The conversation, as the model sees it. Each step adds its messages."""
        self.interrupted = False
        """Whether a graceful interrupt came: no more tools run, and the model answers one last time."""
        self.ending: dict[str, Any] = {}
        """More fields of turn_end: Workspace, ActiveSkills, and others that the agent has."""
        self.undelivered: list[Delivery] = []
        """The deliveries for the user, where the session has no `deliver`."""
        self.paused: PausedTurn | None = None
        """The paused turn to keep, when a hook has paused it."""
        self.operation = NO_OPERATION
        """The turn, as listeners see it."""
        self.trails: list[StageTrail] = []
        """The decisions of hooks at each stage, in order. For a resumed turn, only since it was resumed."""
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
        self._executed: list[dict[str, Any]] = []
        used = 0
        if resumed is not None:
            used = resumed[0].rounds
            for name in _KEPT:
                setattr(self, name, getattr(resumed[0], name.removeprefix("_")))
        self._rounds = Rounds(self.host, self.host.settings.retry_limit, used)

    # Its life.

    async def __aenter__(self) -> Self:
        self.session.require_open()
        if self._resumed is not None:
            settings = self.host.settings
            assert settings.used_pauses is not None  # `Session.resume` requires it
            await use(self._resumed[0], settings.used_pauses, settings.pause_lasts)
        self._open = True
        if self._parent is None:
            (context, injected), self.session.added = self.session.added, ([], [])
            self._context, self._injected = context + self._context, injected + self._injected
        self._began = time.monotonic_ns()
        with NO_OPERATION.current() if self._parent is None else self._parent.operation.current():
            self.operation = self.host.operation("turn", self.session.about(self.meta))
        if self.operation.traceparent:
            self.meta = self.meta.model_copy(update={"traceparent": self.operation.traceparent})
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
            self.operation.ended(words.PAUSE)
            return
        if error is not None:
            self.operation.failed(error)
        if not self.meta.parent_turn_id:
            self.session.messages = self.messages
        if error is None:
            await self.end("completed")
        elif isinstance(error, anyio.get_cancelled_exc_class()):
            await self.end("aborted", "the turn was cancelled")
        else:
            failed = isinstance(error, Exception) and not isinstance(error, AbortTurnError)
            await self.end("error" if failed else "aborted", str(error) or type(error).__name__)

    async def end(self, status: str, reason: str = "") -> None:
        """Emit the events of its end: completed, with an error, or aborted. Leaving the block does this too."""
        self._open = False
        if self._parent is None:
            context, injected = self.session.added
            self.session.added = (context + self._context, injected + self._injected)
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
        self.operation.ended(error="" if status == "completed" else status)

    def _orphaned(self, parent: str, child: str) -> None:
        self.emit("subturn_orphan", {"ParentTurnID": parent, "ChildTurnID": child, "Reason": "the parent ended"})

    @property
    def content(self) -> str:
        """The text of the model's last response."""
        return text_of(self._response)

    def emit(self, kind: str, payload: dict[str, Any]) -> None:
        """Emit an event of this turn."""
        self.host.emit(kind, payload, about=self.session.about(self.meta))

    # From outside.

    def steer(self, message: str) -> bool:
        """Add a message that the user sends meanwhile. Tools that have not begun are skipped, and the model is told.

        Returns whether the turn takes the message. It takes none after it has ended or paused, or during its last answer.
        """
        if taken := self._arrived("steering", message):
            self._steering.append(message)
        return taken

    def interrupt(self, message: str = "") -> bool:
        """End gracefully: tools that have not begun are skipped, and the model answers one last time.

        Returns whether the turn takes it, as `steer` does.
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

    def adopt(self, child: "BaseTurn") -> bool:
        """Take the result of a sub-turn that ended. Returns whether this turn is still open."""
        if self._open and child.content:
            self._inbox.append((child.meta.turn_id, child.content))
        return self._open

    def collect(self) -> list[dict[str, Any]]:
        """Add the user's new messages and the results of sub-turns to the conversation. Returns these messages."""
        steering, self._steering = self._steering, []
        results, self._inbox = self._inbox, []
        if steering:
            self.emit("steering_injected", {"Count": len(steering), "TotalContentLen": sum(map(len, steering))})
        for _, content in results:
            place = {"TargetChannel": self.session.channel, "TargetChatID": self.session.chat_id}
            self.emit("subturn_result_delivered", {**place, "ContentLen": len(content)})
        arrived = [from_user(text) for text in (*steering, *(content for _, content in results))]
        self.messages += arrived
        return arrived

    @property
    def why_skip(self) -> str:
        """The reason why tools that have not begun are skipped, in PicoClaw's words; empty if they are not."""
        if self.interrupted:
            return "graceful interrupt requested"
        return "queued user steering message" if self._steering else ""

    # Pausing and resuming.

    def _resumed_at(self, stage: str) -> tuple[PausedTurn, Resumed] | None:
        """In the first step of a resumed turn, the paused turn and the answer. Raises `PicohookError` in a wrong step."""
        pending = self._pending
        if pending is not None and not self._open:
            raise PicohookError("this turn is resumed inside its block: use `async with`")
        if pending is not None and pending[0].stage != stage:
            raise PicohookError(f"this turn was paused at {pending[0].stage}: resume it there")
        self._pending = None
        return pending

    def keep(self, stage: str, outcome: Outcome[Any], **more: Any) -> PausedTurn:
        """Pause the turn. Returns the paused turn, from which it can be resumed."""
        self._open = False
        self.paused = PausedTurn.of(
            lasts=self.host.settings.pause_lasts,
            stage=stage,
            hook=outcome.hook,
            reason=outcome.reason,
            meta=self.meta,
            user_message=self.user_message,
            rounds=self._rounds.used,
            **{name.removeprefix("_"): getattr(self, name) for name in _KEPT},
            **more,
        )
        return self.paused

    # For its steps and batches.

    def record(self, call: ToolCall, result: ToolResult) -> None:
        """Add the result of a call to the conversation."""
        self.messages.append(tool_message(call, result))

    def note_run(self, call: ToolCall, result: ToolResult) -> None:
        """Note for turn_end that a call is done, by its tool or by a hook."""
        done: dict[str, Any] = {"name": call.tool, "success": not result.is_error}
        if result.is_error:
            done["error_summary"] = cut(content_of(result).strip(), _SUMMARY)
        self._executed.append(done)

    async def deliver(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Deliver the user's part of a result: the text, and the media if `response_handled` is set.

        Returns the result as the model gets it. If the session's `deliver` fails, the result says so. Without one, the delivery
        is added to `undelivered`, and the model gets the media.
        """
        text, media = "" if result.silent else result.for_user, tuple(result.media) if result.response_handled else ()
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
        except Exception as error:  # a channel can fail in any way; the model can say so
            told = f"{result.for_llm}\nDelivery to the user failed: {str(error) or type(error).__name__}".strip()
            return result.model_copy(update={"is_error": True, "for_llm": told, "response_handled": False})
        return result

    def take(self, outcome: Outcome[Any]) -> None:
        """Keep the trail of an outcome, and its hooks' additions to the next request. Show the user their messages."""
        self._keep_trail(outcome)
        self.host.note_hard_abort(outcome)
        for notes in outcome.notes:
            if notes.additional_context:
                self._context.append(notes.additional_context)
            self._injected.extend(notes.inject_messages)
            self._show(notes.system_message)

    def _take_of_llm(self, outcome: Outcome[Any]) -> None:
        """Like `take`, for a model call. The notes for a request that goes to the model are in it already."""
        if outcome.stage == "after_llm" and outcome.payload.partial:
            self._keep_trail(outcome)
            self.host.note_hard_abort(outcome)
            return
        before = outcome.stage == "before_llm"
        if before and outcome.action != words.RETRY:
            self.asked_with(outcome)
        if outcome.action == words.RETRY or (before and outcome.action != words.RESPOND):
            self._keep_trail(outcome)
            for notes in outcome.notes:
                self._show(notes.system_message)
        else:
            self.take(outcome)
        response = outcome.result if before else outcome.payload
        if outcome.action == words.RESPOND or (not before and outcome.action in {words.CONTINUE, words.MODIFY}):
            self._response = dict(response.response)
            self.messages.append(assistant_message(self._response))

    def _take_of_tool(self, outcome: Outcome[Any]) -> None:
        """Like `take`, for a tool call. Notes the call for turn_end when it is done."""
        self.take(outcome)
        if outcome.stage == "after_tool":
            self.note_run(outcome.payload, outcome.payload.result)
        elif outcome.action == words.RESPOND:
            self.note_run(outcome.payload, outcome.result)

    def with_added(self, request: LLMRequest) -> LLMRequest:
        """The request with what hooks have added since the last one."""
        added = [Notes(additional_context=text) for text in self._context]
        added.append(Notes(inject_messages=tuple(self._injected)))
        self._context, self._injected = [], []
        return request.with_notes(added)

    def asked_with(self, outcome: Outcome[LLMRequest]) -> None:
        """Keep the model and the system prompt for later stages, as before_llm left them."""
        request = outcome.payload.with_notes(outcome.notes)
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


def from_user(text: str) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": text}


def _is_pause(error: BaseException | None) -> bool:
    """Whether a pause alone ended a block. The embedder's own task groups may wrap its error."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(PausedError)[1] is None
    return error is None or isinstance(error, PausedError)
