"""Asks hooks at stages, and tells them of events."""

import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import anyio

from ..hooks.base import Hook
from ..model.decisions import Outcome
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
from ..model.spec import RespondRule, Timeouts
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
    Stage,
)
from ..wire import words
from .arrangement import Arrangement, Generation, Service
from .chain import Chain
from .event_queue import EventOf
from .lifecycle import MountedHooks
from .listener import NO_OPERATION, Operation, OperationKind
from .resumed import Resumed
from .status import HostStatus

if TYPE_CHECKING:
    from .seat import Seat

P = TypeVar("P", bound=Payload)
T = TypeVar("T")


class Asker:
    """Asks the hooks of one arrangement, and tells them of events. It has no life of its own: the mounted hooks have."""

    def __init__(self, mounted_hooks: MountedHooks) -> None:
        self._mounted = mounted_hooks
        self._arrangement: Arrangement = mounted_hooks
        """The hooks that are asked and told."""
        self._listeners = mounted_hooks.listeners

    # Asking.

    def before_llm(self, request: LLMRequest | Mapping[str, Any]) -> Coroutine[Any, Any, Outcome[LLMRequest]]:
        """The request to send to the model."""
        return self._ask(BEFORE_LLM, request)

    def after_llm(self, response: LLMResponse | Mapping[str, Any]) -> Coroutine[Any, Any, Outcome[LLMResponse]]:
        """The response of the model, as hooks leave it."""
        return self._ask(AFTER_LLM, response)

    def before_tool(
        self, call: ToolCall | Mapping[str, Any], *, resumed: Resumed | None = None
    ) -> Coroutine[Any, Any, Outcome[ToolCall]]:
        """Whether the tool is called, and with which arguments.

        If a hook answers for a tool that it does not own, approvers have been asked before this outcome is returned. After a
        pause, `resumed` has the decision in place of the hook that paused. Raises `PicohookError` if it cannot be taken.
        """
        return self._ask(BEFORE_TOOL, call, resumed, answered=self._approved_answer)

    async def _approved_answer(self, outcome: Outcome[ToolCall]) -> Outcome[ToolCall]:
        """Returns the outcome with a hook's answer; if the hook does not own the tool, after approval, or the denial.

        If the hook renamed the tool, both calls need approval: the one that it was asked about, and its own.
        """
        asked, answered, trail = outcome.asked_about, outcome.payload, outcome.trail
        calls = [answered]
        if asked is not None and asked.tool != answered.tool:  # with the caller's own meta, as in the outcome
            calls.insert(0, asked.model_copy(update={"meta": answered.meta}))
        mounted, owners = self._arrangement.by_name.get(outcome.hook), self._arrangement.owners
        may_own = mounted is not None and mounted.hook.spec.respond is RespondRule.OWN
        for call in calls:
            if not (may_own and owners.owns(outcome.hook, call)):
                approval = await self.approve_tool(call)
                trail += approval.trail
                if not approval.approved:
                    return replace(approval, stage=BEFORE_TOOL.name, trail=trail)
        return replace(outcome, trail=trail)

    def approve_tool(self, call: ToolCall | Mapping[str, Any]) -> Coroutine[Any, Any, Outcome[ToolCall]]:
        """Whether all approvers say yes. Without approvers, the call is approved."""
        return self._ask(APPROVE_TOOL, call)

    async def before_prompt(self, prompt: Prompt | Mapping[str, Any]) -> Outcome[Prompt]:
        """The user's prompt, before the agent acts on it.

        If a hook refuses it with feedback, the feedback becomes the prompt, and the other hooks are asked about the feedback.
        If another hook refuses that too, the turn is aborted.
        """
        refused = await self._ask(BEFORE_PROMPT, prompt)
        if refused.action != words.RETRY:
            return refused
        instead = refused.payload.model_copy(update={"prompt": refused.feedback or refused.payload.prompt})
        outcome = await self._ask(BEFORE_PROMPT, instead, Resumed(skip=(refused.hook,)))
        trail = refused.trail + outcome.trail
        if outcome.action == words.RETRY:
            reason = f"hook {refused.hook} refused the prompt, and hook {outcome.hook} its replacement: "
            return replace(outcome, action=words.ABORT_TURN, reason=reason + outcome.feedback, feedback="", trail=trail)
        action = words.MODIFY if outcome.action == words.CONTINUE else outcome.action
        whole = replace(outcome, action=action, trail=trail)
        whole.asked = outcome.asked  # the payload is the same object
        return whole

    def before_finish(
        self, finish: Finish | Mapping[str, Any], *, resumed: Resumed | None = None
    ) -> Coroutine[Any, Any, Outcome[Finish]]:
        """Whether the turn may end with this response. `resumed` is as at `before_tool`."""
        return self._ask(BEFORE_FINISH, finish, resumed)

    def before_compact(self, compaction: Compaction | Mapping[str, Any]) -> Coroutine[Any, Any, Outcome[Compaction]]:
        """Whether the messages are compacted, and which ones."""
        return self._ask(BEFORE_COMPACT, compaction)

    def after_compact(self, compaction: Compaction | Mapping[str, Any]) -> Coroutine[Any, Any, Outcome[Compaction]]:
        """The messages after they were compacted."""
        return self._ask(AFTER_COMPACT, compaction)

    def after_tool(self, returned: ToolReturn | Mapping[str, Any]) -> Coroutine[Any, Any, Outcome[ToolReturn]]:
        """The result of a tool call, as hooks leave it."""
        return self._ask(AFTER_TOOL, returned)

    def ask(
        self, stage: str, payload: Payload | Mapping[str, Any], *, resumed: Resumed | None = None
    ) -> Coroutine[Any, Any, Outcome[Any]]:
        """Run the chain of one stage, by its name. Approvers are not asked about a hook's answer for a tool."""
        return self._ask(STAGES[stage], payload, resumed)

    def ask_hook(
        self, name: str, stage: Stage[P], encoded: Encoded[P], *, within: float = math.inf
    ) -> Coroutine[Any, Any, Outcome[P]]:
        """Ask one hook alone, for at most `within` seconds. The trail is empty if it is not asked at this stage."""
        return self._ask(stage, encoded.payload, only=name, encoded=encoded, within=within)

    async def _ask(
        self,
        stage: Stage[P],
        given: P | Mapping[str, Any],
        resumed: Resumed | None = None,
        *,
        answered: Callable[[Outcome[P]], Awaitable[Outcome[P]]] | None = None,
        only: str | None = None,
        encoded: Encoded[P] | None = None,
        within: float = math.inf,
    ) -> Outcome[P]:
        """Run the chain of one stage with the hooks that are asked now, and show it to the listeners.

        An outcome with a hook's own answer is passed through `answered`.
        """
        payload = stage.given(given)
        arrangement, listeners = self._arrangement, self._listeners
        clock = arrangement.require_here().now
        generation = arrangement.generations[stage.name]
        seats = generation.seats if only is None else generation.named(only)
        decided: tuple[Seat, ...] = ()
        if resumed is not None:
            seats, decided = resumed.seats(stage, seats, arrangement.by_name)
        account = None
        if listeners.all:
            account = listeners.begin(stage, payload)
            payload = account.payload
            if resumed is not None:
                account.resumed(resumed)
        generation.running += 1
        try:
            if encoded is None or account is not None or (seats and seats[0].guard):
                encoded = Encoded(payload)
            end = clock() + (generation.budget if generation.budget < within else within)  # noqa: FURB136 - min() takes longer
            chain = Chain(stage, encoded, clock, end, account)
            if only is None and (stage.approves or stage is BEFORE_LLM or generation.about_pauses):
                self._complete(chain, generation)
            outcome = await chain.run(seats, decided)
        except BaseException as error:
            if account is not None:
                account.abandoned(error)
            raise
        finally:
            generation.leave()
        if account is not None:
            account.concluded(outcome)
        if listeners.on_change:
            listeners.changed(replace(outcome, payload=deep_copy(outcome.payload), result=deep_copy(outcome.result)))
        if resumed is not None:
            resumed.require_taken(outcome)
        if answered is not None and outcome.action == words.RESPOND:
            outcome = await answered(outcome)
        return outcome

    def _complete(self, chain: Chain[Any], generation: Generation) -> None:
        """Give a chain the parts that answer in place of approvers, the hooks that answer pauses, and the tools' owners."""
        chain.about_pauses, chain.owners = generation.about_pauses, self._arrangement.owners
        if chain.stage.approves:
            chain.answering = self._mounted.parts.answering
        elif chain.stage is BEFORE_LLM:
            chain.owners.offered(chain.first)

    def operation(self, kind: OperationKind, payload: Payload) -> Operation:
        """Begin a turn, a model call or a tool call, for the listeners that see them."""
        return self._listeners.operation(kind, payload) if self._listeners.all else NO_OPERATION

    def fingerprint(self, name: str) -> str:
        """A fingerprint of the hook's settings, to see whether they have changed; empty if it is not mounted."""
        mounted = self._arrangement.by_name.get(name)
        return "" if mounted is None else mounted.hook.spec.fingerprint

    def forget(self, session_id: str) -> None:
        """Forget which tools hooks own in this session, which is over."""
        self._arrangement.owners.forget(session_id)

    def begin_task(self, work: Callable[[], Awaitable[T]]) -> Service[T]:
        """Do something in a task of the host's own. It continues if its caller is cancelled, until the host ends."""
        return self._mounted.begin(work)

    # What is asked.

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that are asked and told."""
        return self._arrangement.hooks

    def asked_at(self, stage: str) -> tuple[Hook, ...]:
        """The hooks that are asked at a stage, in order."""
        generation = self._arrangement.generations[stage]
        return tuple(seat.hook for seat in (*generation.seats, *generation.about_pauses))

    def may_ask(self, stage: Stage[P], payload: P) -> tuple[Hook, ...]:
        """The hooks that may be asked at a stage about this payload, whose fields that can be edited are not known yet."""
        seats = self._arrangement.generations[stage.name].seats
        return tuple(seat.hook for seat in seats if seat.wants(payload) or (seat.filter and seat.filter.when))

    def status(self) -> HostStatus:
        """The state of the host and of each hook."""
        hooks = tuple(hook.status() for hook in self.hooks)
        held = self._mounted.containment
        tier, lacks = (None, {}) if held is None else (held.tier, dict(held.unable))
        return HostStatus(hooks, tier or "none", self._mounted.log.failures, lacks, self._mounted.parts.status())

    @property
    def timeouts(self) -> Timeouts:
        """The timeouts of hooks that set none of their own."""
        return self._mounted.timeouts

    @property
    def inherited(self) -> bool:
        """Whether this process is a child that the host's own process forked while the host ran."""
        return self._mounted.inherited

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
        self._arrangement.require_here()
        kind = known_kind(kind)
        hooks, listeners = self._arrangement.audiences[kind], self._listeners
        if not hooks and not listeners.all:
            return
        event = Event(kind, payload or {}, meta or (NO_META if about is None else about.meta), about)
        hooks = tuple([hook for hook in hooks if (wanted := hook.spec.filter) is None or wanted.matches_event(event)])
        if listeners.all or not all(hook.takes_bytes for hook in hooks):
            event = event.deep_copy()  # the caller may change its own before the event is handed on
        for dialect in {hook.spec.events for hook in hooks if not hook.in_process}:
            event.line(dialect)  # encoded now, to raise the caller's mistake: a payload without a JSON form
        if listeners.all:
            listeners.show("happened", event, hooks)
        if hooks:
            self._mounted.events.put(event, hooks)

    async def emit_and_wait(self, kind: str, payload: Mapping[str, Any] | None = None, **of: Unpack[EventOf]) -> None:
        """Tell the observers of an event, and wait until each has it.

        A process has the event when it is written, within the observer timeout. A hook that runs anew for each event has it
        when the hook is done, within its own timeout. So has a function that cleans up. An observer that takes longer is
        logged, and is not waited for.
        """
        mounted_hooks = self._mounted
        self.emit(kind, payload, **of)
        mounted_hooks.events.flush()
        now = self._arrangement.require_here().now
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
            for hook in self._arrangement.audiences[known_kind(kind)]:
                tasks.start_soon(wait_for, hook)
