"""The engine: asks hooks at stages and tells them of events. `Host` adds configuration files, turns and sessions."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ..model.encoded import Encoded
from ..model.events import Event, known_kind
from ..model.payloads import (
    NO_META,
    Compaction,
    Finish,
    LLMRequest,
    LLMResponse,
    Meta,
    Payload,
    Prompt,
    ToolCall,
    ToolReturn,
    deep_copy,
)
from ..model.spec import RespondRule
from ..model.stages import (
    AFTER_COMPACT,
    AFTER_LLM,
    AFTER_TOOL,
    APPROVE_TOOL,
    BEFORE_COMPACT,
    BEFORE_FINISH,
    BEFORE_LLM,
    BEFORE_PROMPT,
    BEFORE_TOOL,
    STAGES,
)
from ..wire import words
from .base import BaseEngine
from .chain import Chain
from .lifecycle import MountedHooks
from .operation import NO_OPERATION
from .respond import approved_answer
from .seat import Seat, seats_after_pause, seats_named
from .session_hooks import SessionHooks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
    from typing import Self, TypeAlias, Unpack

    from ..hooks.base import Hook
    from ..model.decisions import Decision, Outcome
    from ..model.proof import Proof
    from ..model.stages import Stage
    from .operation import Operation, OperationKind
    from .settings import EventOf

    Answered: TypeAlias = tuple[str, Decision]
    """The name of the hook that paused, and the answer in its place."""

P = TypeVar("P", bound=Payload)


class Engine(BaseEngine):
    """Starts hooks, asks them, tells them of events, and stops them."""

    # Asking.

    async def before_llm(self, request: LLMRequest | Mapping[str, Any]) -> Outcome[LLMRequest]:
        """The request to send to the model."""
        given = BEFORE_LLM.given(request)
        self._mounted.owners.offered(given)
        return await self._run(BEFORE_LLM, given, self._mounted.owners.edited)

    async def after_llm(self, response: LLMResponse | Mapping[str, Any]) -> Outcome[LLMResponse]:
        """The response of the model, as hooks leave it."""
        return await self._run(AFTER_LLM, AFTER_LLM.given(response))

    def before_tool(
        self,
        call: ToolCall | Mapping[str, Any],
        *,
        answered: Answered | None = None,
        skip: Collection[str] = (),
    ) -> Coroutine[Any, Any, Outcome[ToolCall]]:
        """Whether the tool is called, and with which arguments.

        If a hook answers for a tool that it does not own, approvers have been asked before this outcome is returned. After a
        pause, `answered` is the answer for the hook that paused, and the hooks named in `skip` are not asked again.
        """
        return self._run(BEFORE_TOOL, BEFORE_TOOL.given(call), None, answered, skip, self._responded)

    def _responded(self, outcome: Outcome[ToolCall]) -> Awaitable[Outcome[ToolCall]]:
        return approved_answer(outcome, self._owns, self.approve_tool)

    def _owns(self, hook: str, call: ToolCall) -> bool:
        """Whether the hook may answer the call without approval."""
        mounted = self._mounted.by_name.get(hook)
        rule = RespondRule.APPROVE if mounted is None else mounted.hook.spec.respond
        return rule is RespondRule.OWN and self._mounted.owners.owns(hook, call)

    async def approve_tool(self, call: ToolCall | Mapping[str, Any]) -> Outcome[ToolCall]:
        """Whether all approvers say yes. Without approvers, the call is approved."""
        return await self._run(APPROVE_TOOL, APPROVE_TOOL.given(call))

    async def before_prompt(self, prompt: Prompt | Mapping[str, Any]) -> Outcome[Prompt]:
        """The user's prompt, before the agent acts on it.

        If a hook refuses it with feedback, the feedback becomes the prompt, and the other hooks are asked about the feedback.
        If another hook refuses that too, the turn is aborted.
        """
        refused = await self._run(BEFORE_PROMPT, BEFORE_PROMPT.given(prompt))
        if refused.action != words.RETRY:
            return refused
        instead = refused.payload.model_copy(update={"prompt": refused.feedback or refused.payload.prompt})
        outcome = await self._run(BEFORE_PROMPT, instead, skip=(refused.hook,))
        trail = refused.trail + outcome.trail
        if outcome.action == words.RETRY:
            reason = f"hook {refused.hook} refused the prompt, and hook {outcome.hook} its replacement: "
            return replace(outcome, action=words.ABORT_TURN, reason=reason + outcome.feedback, feedback="", trail=trail)
        action = words.MODIFY if outcome.action == words.CONTINUE else outcome.action
        whole = replace(outcome, action=action, trail=trail)
        whole.asked = outcome.asked  # the payload is the same object
        return whole

    async def before_finish(
        self,
        finish: Finish | Mapping[str, Any],
        *,
        answered: Answered | None = None,
        skip: Collection[str] = (),
    ) -> Outcome[Finish]:
        """Whether the turn may end with this response. After a pause, `answered` and `skip` are as at `before_tool`."""
        return await self._run(BEFORE_FINISH, BEFORE_FINISH.given(finish), answered=answered, skip=skip)

    async def before_compact(self, compaction: Compaction | Mapping[str, Any]) -> Outcome[Compaction]:
        """Whether the messages are compacted, and which ones."""
        return await self._run(BEFORE_COMPACT, BEFORE_COMPACT.given(compaction))

    async def after_compact(self, compaction: Compaction | Mapping[str, Any]) -> Outcome[Compaction]:
        """The messages after they were compacted."""
        return await self._run(AFTER_COMPACT, AFTER_COMPACT.given(compaction))

    async def after_tool(self, returned: ToolReturn | Mapping[str, Any]) -> Outcome[ToolReturn]:
        """The result of a tool call, as hooks leave it."""
        return await self._run(AFTER_TOOL, AFTER_TOOL.given(returned))

    async def ask(
        self,
        stage: str,
        payload: Payload | Mapping[str, Any],
        *,
        answered: Answered | None = None,
        skip: Collection[str] = (),
    ) -> Outcome[Any]:
        """Run the chain of one stage, by its name. Approvers are not asked about a hook's answer for a tool."""
        row = STAGES[stage]
        return await self._run(row, row.given(payload), answered=answered, skip=skip)

    def ask_hook(
        self,
        name: str,
        stage: Stage[P],
        encoded: Encoded[P],
        *,
        within: float = math.inf,
    ) -> Coroutine[Any, Any, Outcome[P]]:
        """Ask one hook alone, for at most `within` seconds. The trail is empty if it is not asked at this stage."""
        return self._run(stage, encoded.payload, only=name, encoded=encoded, within=within)

    async def _run(  # noqa: PLR0917 - by position: it is called for every question
        self,
        stage: Stage[P],
        payload: P,
        edited: Callable[[Hook, P, P], None] | None = None,
        answered: Answered | None = None,
        skip: Collection[str] = (),
        responded: Callable[[Outcome[P]], Awaitable[Outcome[P]]] | None = None,
        *,
        only: str | None = None,
        encoded: Encoded[P] | None = None,
        within: float = math.inf,
    ) -> Outcome[P]:
        mounted_hooks = self._mounted
        clock = mounted_hooks.require_here().now
        generation = mounted_hooks.generations[stage.name]
        seats = generation.seats
        decided: tuple[Seat, ...] = ()
        if only is not None:
            seats = seats_named(only, seats)
        resumed = answered is not None or skip
        if resumed:
            seats, decided = seats_after_pause(stage, seats, mounted_hooks.by_name, answered, skip)
        account = None
        if self._listeners.all:
            account = self._listeners.begin(stage, payload)
            if account.payload is not payload:
                payload = account.payload
            if resumed:
                account.resumed(answered, skip)
        generation.running += 1
        try:
            if encoded is None or account is not None or (seats and seats[0].guard):
                encoded = Encoded(payload)
            end = clock() + (within if stage.approves else min(generation.budget, within))
            outcome = await Chain(stage, encoded, clock, end, account, edited).run(seats, decided)
        except BaseException as error:
            if account is not None:
                account.abandoned(error)
            raise
        finally:
            generation.leave()
        if account is not None:
            account.concluded(outcome)
        if self.on_change:
            self._changed(replace(outcome, payload=deep_copy(outcome.payload), result=deep_copy(outcome.result)))
        if responded is not None and outcome.action == words.RESPOND:
            return await responded(outcome)
        return outcome

    async def prove_life(self) -> tuple[Proof, ...]:
        """Ask the hooks now about harmful calls that they must deny. Returns what became of each. No tool is called.

        The calls are those of `proof_of_life`, and each hook's own `canary`, about which it is asked alone. Without any, it is
        `bash` with `rm -rf /`. A call that is not denied, or is denied only because a hook failed, is logged, and emits the
        event `error`.
        """
        return await self._prover.prove()

    def _proved(self, proof: Proof) -> None:
        super()._proved(proof)
        if proof.verdict != "denied":
            message = f"{proof.call.tool}: {proof.verdict}: {proof.why}"
            self.emit("error", {"Stage": "proof_of_life", "Message": message}, meta=proof.call.meta)

    def operation(self, kind: OperationKind, payload: Payload) -> Operation:
        """Begin a turn, a model call or a tool call, for the listeners that see them."""
        return self._listeners.operation(kind, payload) if self._listeners.all else NO_OPERATION

    def fingerprint(self, name: str) -> str:
        """A fingerprint of the hook's settings, to see whether they have changed; empty if it is not mounted."""
        mounted = self._mounted.by_name.get(name)
        return "" if mounted is None else mounted.hook.spec.fingerprint

    # For sessions.

    def session_view(self) -> Self:
        """This host as one session sees it. `add_session_hooks` adds hooks that only this view asks."""
        view = copy.copy(self)
        view.is_session_view = True
        view.ended_by = None
        if isinstance(self._mounted, SessionHooks):
            view._mounted = self._mounted.mounted_hooks  # noqa: SLF001 - without the hooks of the other session
        return view

    def add_session_hooks(self, session_id: str) -> SessionHooks:
        """Give this view its own arrangement of hooks, and return it. The session's hooks are added to it."""
        assert isinstance(self._mounted, MountedHooks)
        self._mounted = hooks = SessionHooks(self._mounted, session_id)
        return hooks

    def note_hard_abort(self, outcome: Outcome[Any]) -> None:
        """Set `ended_by` if this is a hard abort by a hook whose hard aborts end the session."""
        if outcome.action == words.HARD_ABORT and self.is_session_view:
            mounted = self._mounted.by_name.get(outcome.hook)
            if mounted is not None and mounted.hook.ends_sessions:
                self.ended_by = outcome

    def forget(self, session_id: str) -> None:
        """Forget which tools hooks own in this session, which is over."""
        self._mounted.owners.forget(session_id)

    # Events.

    def emit(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        meta: Meta | None = None,
        about: Payload | None = None,
    ) -> None:
        """Tell the observers of an event, without waiting: they get it in the event loop's next round.

        `about` is the payload that the event is about, such as a `ToolCall`. The event takes its place, and its meta unless
        `meta` is given. Raises `PicohookError` for an unknown kind, and `EncodeError` for a payload that has no JSON form.
        """
        mounted_hooks = self._mounted
        mounted_hooks.require_here()
        kind = known_kind(kind)
        audience = mounted_hooks.audiences[kind]
        if not audience.hooks and not self._listeners.all:
            return
        event = Event(kind, payload or {}, meta or (NO_META if about is None else about.meta), about)
        audience = audience.wanting(event)
        if audience.in_process or self._listeners.all:
            event = event.deep_copy()  # the caller may change its own before the event is handed on
        for dialect in audience.dialects:
            event.line(dialect)  # encoded now, to raise the caller's mistake: a payload without a JSON form
        if self._listeners.all:
            self._listeners.happened(event)
        if audience.hooks or self._listeners.all:
            mounted_hooks.events.put(event, audience.hooks)

    async def emit_and_wait(self, kind: str, payload: Mapping[str, Any] | None = None, **of: Unpack[EventOf]) -> None:
        """Tell the observers of an event, and wait until each has it.

        A process has the event when it is written, within the observer timeout. A hook that runs anew for each event has it
        when the hook is done, within its own timeout. So has a callback of Blade or of the worker that cleans up. An observer
        that takes longer is logged, and is not waited for.
        """
        mounted_hooks = self._mounted
        self.emit(kind, payload, **of)
        mounted_hooks.events.flush()
        now = mounted_hooks.require_open().now
        begun = now()

        async def wait_for(hook: Hook) -> None:
            own, setting = hook.event_timeout
            patience = mounted_hooks.timeouts.observer if own is None else own
            if not await hook.flushed(begun + patience) and now() >= begun + patience:
                mounted_hooks.log.warning(
                    "stopped waiting for an observer",
                    hook=hook.name,
                    kind=kind,
                    why=f"it was not done with the event after {patience:g} s, its {setting}",
                )

        async with anyio.create_task_group() as tasks:
            for hook in mounted_hooks.audiences[known_kind(kind)].hooks:
                tasks.start_soon(wait_for, hook)
