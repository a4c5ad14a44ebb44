"""The engine: it starts hooks, asks them, tells them, and ends them. `Host` adds configuration files, turns and sessions."""

from __future__ import annotations

import copy
import weakref
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import anyio

from ..errors import PicohookError
from ..hooks import make_hook
from ..hooks.base import DecidedHook
from ..hooks.process import ProcessHook
from ..listeners.listener import Listeners
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
from ..model.spec import HookSpec, RespondRule, Timeouts
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
from ..observe.log import Log
from ..wire import words
from .chain import Seat, run_chain
from .mounted import MountedHooks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from ..hooks.base import Complete, Hook, HookStatus, StateChange
    from ..listeners.listener import Listener
    from ..model.decisions import Decision, Outcome
    from ..model.stages import Stage
    from ..observe.log import Logger
    from ..process.plan import Verify
    from .generations import Reloaded
    from .session_hooks import SessionHooks

P = TypeVar("P", bound=Payload)


@dataclass(frozen=True, slots=True)
class HostStatus:
    """How a host and its hooks do."""

    hooks: tuple[HookStatus, ...]
    containment: str
    """What holds the descendants of every hook that was started: "namespace", "sweep", "group", or "none" when none was."""
    log_failures: int
    containment_lacks: dict[str, str] = field(default_factory=dict)
    """The kinds of containment that were tried and are not to be had here, and why."""

    def wire(self) -> dict[str, Any]:
        """The plain JSON form."""
        return asdict(self)


class Settings(TypedDict, total=False):
    """What an engine takes by name, beside its hooks."""

    timeouts: Timeouts | None
    logger: Logger | None
    retry_limit: int
    verify: Verify | None
    complete: Complete | None
    model_of: Callable[[HookSpec], Complete | None] | None
    listeners: Iterable[Listener]


class Engine:
    """Starts hooks, asks them, tells them, and ends them.

    Entering starts every hook at once and waits until each can serve or its first start has failed; one that failed is
    started again in the background, and is fatal here only if it is `required`. Leaving stops them all: what is in flight
    fails, events that wait are written, then each process sees the end of its stdin, TERM, and KILL, with its own `grace`
    between them.
    """

    def __init__(
        self,
        hooks: Iterable[Hook | HookSpec] = (),
        *,
        timeouts: Timeouts | None = None,
        logger: Logger | None = None,
        retry_limit: int = 3,
        verify: Verify | None = None,
        complete: Complete | None = None,
        model_of: Callable[[HookSpec], Complete | None] | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.retry_limit = retry_limit
        self.of_session = False
        """Whether it is a session's host."""
        self.ended_by: Outcome[Any] | None = None
        """Of a session's host: the hard abort that ended the session."""
        self.watchers: set[Callable[[StateChange | Outcome[Any] | Reloaded], None]] = set()
        """Called with whatever becomes of a hook and a copy of whatever a chain concludes, at once: they must not block."""
        self._mounted: MountedHooks | SessionHooks = MountedHooks(
            Log(logger),
            timeouts or Timeouts(),
            verify=verify,
            complete=complete,
            model_of=model_of,
            notice=_weakly(self._tell),
        )
        self._listeners = Listeners(tuple(listeners), self._mounted.log)
        if self._listeners.all:
            self._mounted.told = self._listeners.told
            self._mounted.tap = self._listeners.tap
        self._waiting = [_as_hook(hook) for hook in hooks]

    # Life.

    async def __aenter__(self) -> Self:
        mounted_hooks = self._mounted
        assert isinstance(mounted_hooks, MountedHooks)  # nobody enters what `for_session` returned
        mounted_hooks.require_new()
        self._listeners.open()
        try:
            await mounted_hooks.enter()
        except BaseException:
            self._listeners.close()
            raise
        try:
            hooks, self._waiting = self._waiting, []
            await self._begin(mounted_hooks, hooks)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def _begin(self, mounted_hooks: MountedHooks, hooks: list[Hook]) -> None:
        """Mount the hooks that the engine was made with, and wait until each can serve or has failed to start."""
        mounted_hooks.mount(*hooks)
        for hook in hooks:
            await mounted_hooks.started(hook)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop all hooks. Leaving the host's block does the same; closing twice is fine.

        Any task of the host's event loop may do it, whichever entered the host.
        """
        ended = True
        try:
            ended = await self._mounted.leave()
        finally:
            if ended:
                self._listeners.close()

    async def mount(self, hook: Hook | HookSpec) -> None:
        """Add a hook, and wait until it can serve or its first start has failed.

        It is of the `session` layer, asked after all others, unless its settings name another.
        """
        made = _as_hook(_of_session(hook))
        self._mounted.mount(made)
        try:
            await self._mounted.started(made)
        except BaseException:
            if made in self.hooks:
                await self.unmount(made.name)
            raise

    async def unmount(self, name: str) -> None:
        """Take a hook out of every chain at once, then stop it. Calls it is busy with fail."""
        await self._mounted.unmount(name)

    async def reload(self) -> Reloaded:
        """Take over what the configuration says by now: for hosts that were made from one."""
        raise PicohookError("only a running host that was made by `Host.from_config` can be reloaded")

    def reset(self, name: str) -> None:
        """Start a hook again that was given up (FAILED)."""
        self._process(name).reset()

    def restart(self, name: str) -> None:
        """End a hook's process and start a new one. Calls in flight fail, and are not replayed."""
        self._process(name).restart()

    def _process(self, name: str) -> ProcessHook:
        self._mounted.require_here()
        hook = self._mounted.find(name)
        if not isinstance(hook, ProcessHook):
            raise PicohookError(f"hook {name!r} is no process: there is nothing to start")
        return hook

    def status(self) -> HostStatus:
        """How every hook does, in no particular order of stages."""
        hooks = tuple(hook.status() for hook in self.hooks)
        held = self._mounted.containment
        tier, lacks = ("none", {}) if held is None else (held.tier or "none", dict(held.unable))
        return HostStatus(hooks, tier, self._mounted.log.failures, lacks)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that are mounted."""
        return self._mounted.hooks

    @property
    def inherited(self) -> bool:
        """Whether this process is a child that the host's own process forked while the host ran."""
        return self._mounted.inherited

    @property
    def timeouts(self) -> Timeouts:
        """How long hooks may take that say nothing else."""
        return self._mounted.timeouts

    def asked_at(self, stage: str) -> tuple[Hook, ...]:
        """The hooks that are asked at a stage, in order."""
        return tuple(seat.hook for seat in self._mounted.chains[stage].seats)

    # Asking.

    async def before_llm(self, request: LLMRequest | Mapping[str, Any]) -> Outcome[LLMRequest]:
        """What is to be sent to the model."""
        given = BEFORE_LLM.given(request)
        self._mounted.owners.offered(given)
        return await self._run(BEFORE_LLM, given, self._mounted.owners.edited)

    async def after_llm(self, response: LLMResponse | Mapping[str, Any]) -> Outcome[LLMResponse]:
        """What the model answered."""
        return await self._run(AFTER_LLM, AFTER_LLM.given(response))

    def before_tool(
        self,
        call: ToolCall | Mapping[str, Any],
        *,
        said: tuple[str, Decision] | None = None,
        without: Collection[str] = (),
    ) -> Coroutine[Any, Any, Outcome[ToolCall]]:
        """Whether, and with what, a tool is to be called.

        A hook's answer for a tool that it does not own has been through `approve_tool` when it comes out of here.
        After a pause, `said` answers for the hook that paused, and `without` names those that have decided already.
        """
        return self._run(BEFORE_TOOL, BEFORE_TOOL.given(call), None, said, without, self._responded)

    async def _responded(self, outcome: Outcome[ToolCall]) -> Outcome[ToolCall]:
        """What comes of a hook's answer for a tool: it is put to approval, unless the tool is the hook's own.

        Where the hook gave the tool another name, that holds for both.
        """
        trail = outcome.trail
        for call in _names_of(outcome):
            if not self._may_respond(outcome.hook, call):
                approval = await self.approve_tool(call)
                trail += approval.trail
                if not approval.approved:
                    return replace(approval, stage=BEFORE_TOOL.name, trail=trail)
        return replace(outcome, trail=trail)

    async def approve_tool(self, call: ToolCall | Mapping[str, Any]) -> Outcome[ToolCall]:
        """Whether everybody who is asked for approval says yes. Nobody to ask is a yes."""
        return await self._run(APPROVE_TOOL, APPROVE_TOOL.given(call))

    async def before_prompt(self, prompt: Prompt | Mapping[str, Any]) -> Outcome[Prompt]:
        """What the user said, before anybody acts on it.

        When a hook refuses it with feedback, the feedback becomes the prompt, and the other hooks are asked about that. When
        another hook refuses the feedback too, the turn is aborted.
        """
        refused = await self._run(BEFORE_PROMPT, BEFORE_PROMPT.given(prompt))
        if refused.action != words.RETRY:
            return refused
        instead = refused.payload.model_copy(update={"prompt": refused.feedback or refused.payload.prompt})
        outcome = await self._run(BEFORE_PROMPT, instead, without=(refused.hook,))
        trail = refused.trail + outcome.trail
        if outcome.action == words.RETRY:
            reason = f"hook {refused.hook} refused the prompt, and hook {outcome.hook} what it put in its place: "
            return replace(outcome, action=words.ABORT_TURN, reason=reason + outcome.feedback, feedback="", trail=trail)
        action = words.MODIFY if outcome.action == words.CONTINUE else outcome.action
        whole = replace(outcome, action=action, trail=trail)
        whole.asked = outcome.asked  # the payload is the very same
        return whole

    async def before_finish(
        self,
        finish: Finish | Mapping[str, Any],
        *,
        said: tuple[str, Decision] | None = None,
        without: Collection[str] = (),
    ) -> Outcome[Finish]:
        """Whether the turn may end with this response; after a pause, `said` and `without` as at `before_tool`."""
        return await self._run(BEFORE_FINISH, BEFORE_FINISH.given(finish), said=said, without=without)

    async def before_compact(self, compaction: Compaction | Mapping[str, Any]) -> Outcome[Compaction]:
        """Whether, and from what, the messages are made fewer."""
        return await self._run(BEFORE_COMPACT, BEFORE_COMPACT.given(compaction))

    async def after_compact(self, compaction: Compaction | Mapping[str, Any]) -> Outcome[Compaction]:
        """What making the messages fewer left."""
        return await self._run(AFTER_COMPACT, AFTER_COMPACT.given(compaction))

    async def after_tool(self, returned: ToolReturn | Mapping[str, Any]) -> Outcome[ToolReturn]:
        """What came of a tool call."""
        return await self._run(AFTER_TOOL, AFTER_TOOL.given(returned))

    async def ask(
        self,
        stage: str,
        payload: Payload | Mapping[str, Any],
        *,
        said: tuple[str, Decision] | None = None,
        without: Collection[str] = (),
    ) -> Outcome[Any]:
        """The chain of one stage, by its name, and nothing beside it: what a hook answers for a tool is not put to approval."""
        row = STAGES[stage]
        return await self._run(row, row.given(payload), said=said, without=without)

    async def _run(  # noqa: PLR0917 - by position, because it is called for every question
        self,
        stage: Stage[P],
        payload: P,
        edited: Callable[[Hook, P, P], None] | None = None,
        said: tuple[str, Decision] | None = None,
        without: Collection[str] = (),
        responded: Callable[[Outcome[P]], Awaitable[Outcome[P]]] | None = None,
    ) -> Outcome[P]:
        mounted_hooks = self._mounted
        clock = mounted_hooks.require_here().now
        chains = mounted_hooks.chains[stage.name]
        seats = chains.seats
        decided: tuple[Seat, ...] = ()
        if said is not None or without:
            seats, decided = self._seats_left(stage, said, without)
        account = None
        if self._listeners.all:
            account = self._listeners.begin(stage, payload)
            payload = account.payload
            if said is not None or without:
                account.resumed(said, without)
        chains.under_way += 1
        try:
            outcome = await run_chain(stage, seats, Encoded(payload), clock, chains.budget, edited, account, decided)
        except BaseException as error:
            if account is not None:
                account.abandoned(error)
            raise
        finally:
            chains.leave()
        if account is not None:
            account.concluded(outcome)
        if self.watchers:
            self._tell(replace(outcome, payload=deep_copy(outcome.payload), result=deep_copy(outcome.result)))
        if responded is not None and outcome.action == words.RESPOND:
            return await responded(outcome)
        return outcome

    def _tell(self, what: StateChange | Outcome[Any] | Reloaded) -> None:
        for watcher in tuple(self.watchers):
            try:
                watcher(what)
            except Exception as error:  # noqa: BLE001 - it hurts nobody
                self._mounted.log.warning("a watcher failed", why=repr(error))

    def _seats_left(
        self, stage: Stage[Any], said: tuple[str, Decision] | None, without: Collection[str]
    ) -> tuple[tuple[Seat, ...], tuple[Seat, ...]]:
        """Who is still to be asked when some have decided already, and one is answered for; and the guards among these."""
        seats = self._mounted.chains[stage.name].seats
        left = tuple(seat for seat in seats if seat.hook.name not in without)
        answered = "" if said is None else said[0]
        guards = tuple(seat for seat in seats if seat.guard and (seat.name in without or seat.name == answered))
        if said is None:
            return left, guards
        name, decision = said
        if decision.action not in stage.actions or decision.action == words.PAUSE:
            raise PicohookError(f"{type(decision).__name__} is no answer for a hook that paused at {stage.name}")
        mounted = self._mounted.by_name.get(name)
        spec = HookSpec(name=name) if mounted is None else mounted.hook.spec
        others = tuple(seat for seat in left if seat.hook.name != name)
        answer = Seat(DecidedHook(spec, decision), self.timeouts.interceptor)
        answer.guard = False  # the hook itself is asked again, and not this answer
        return (answer, *others), guards

    def fingerprint(self, name: str) -> str:
        """What a hook's settings are, to see whether they changed; empty when it is not mounted."""
        mounted = self._mounted.by_name.get(name)
        return "" if mounted is None else mounted.hook.spec.fingerprint

    def _may_respond(self, hook: str, call: ToolCall) -> bool:
        mounted = self._mounted.by_name.get(hook)
        rule = RespondRule.APPROVE if mounted is None else mounted.hook.spec.respond
        return rule is RespondRule.OWN and self._mounted.owners.owns(hook, call)

    def for_session(self) -> Self:
        """The same host, for one session, which can have hooks of its own: see `with_hooks_of`."""
        view = copy.copy(self)
        view.of_session = True
        view.ended_by = None
        if not isinstance(self._mounted, MountedHooks):
            # Begun from another session, whose hooks are not this one's.
            view._mounted = self._mounted.mounted_hooks  # noqa: SLF001 - its own class
        return view

    def with_hooks_of(self, session_id: str) -> SessionHooks:
        """The hooks of this session, asked behind the others by this very object. For what `for_session` returned."""
        from .session_hooks import SessionHooks  # noqa: PLC0415 - most sessions have none

        assert isinstance(self._mounted, MountedHooks)
        self._mounted = hooks = SessionHooks(self._mounted, session_id)
        return hooks

    def take_note(self, outcome: Outcome[Any]) -> None:
        """Keep what ends the session that this host was made for: a hard abort by a hook whose hard aborts do that."""
        if outcome.action == words.HARD_ABORT and self.of_session:
            mounted = self._mounted.by_name.get(outcome.hook)
            if mounted is not None and mounted.hook.ends_sessions:
                self.ended_by = outcome

    def forget(self, session_id: str) -> None:
        """A session is over: what hooks own in it is forgotten."""
        self._mounted.owners.forget(session_id)

    # Telling.

    def emit(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        meta: Meta | None = None,
        about: Payload | None = None,
    ) -> None:
        """Tell the observers of an event. Nobody waits: it is handed on in the event loop's next round.

        `about` is what it is about, such as a `ToolCall`: its meta, unless another is given, and where the user is.
        """
        mounted_hooks = self._mounted
        mounted_hooks.require_here()
        kind = known_kind(kind)
        audience = mounted_hooks.audiences[kind]
        if not audience.hooks and not self._listeners.all:
            return
        event = Event(kind, payload or {}, _meta(meta, about), about)
        audience = audience.wanting(event)
        if audience.looking or self._listeners.all:
            event = event.deep_copy()  # now: it is handed on later
        for dialect in audience.dialects:
            event.line(dialect)  # a payload that is no JSON is the caller's mistake, raised here
        if self._listeners.all:
            self._listeners.happened(event)
        if audience.hooks or self._listeners.all:
            mounted_hooks.outbox.put(event, audience.hooks)

    async def emit_and_wait(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        meta: Meta | None = None,
        about: Payload | None = None,
    ) -> None:
        """Tell the observers, and wait until each has it.

        A process has it when it is written, within the observer timeout. What runs anew for each event, or cleans up as a
        callback of Blade or of the worker, has it when it is done, within its own timeout. An observer that takes longer is
        logged.
        """
        mounted_hooks = self._mounted
        self.emit(kind, payload, meta=meta, about=about)
        mounted_hooks.outbox.flush()
        now = mounted_hooks.require_open().now
        begun = now()

        async def wait_for(hook: Hook) -> None:
            own, setting = hook.event_timeout
            patience = mounted_hooks.timeouts.observer if own is None else own
            if not await hook.flushed(begun + patience) and now() >= begun + patience:
                mounted_hooks.log.warning(
                    "an observer is not waited for any longer",
                    hook=hook.name,
                    kind=kind,
                    why=f"it was not done with the event after {patience:g} s, its {setting}",
                )

        async with anyio.create_task_group() as tasks:
            for hook in mounted_hooks.audiences[known_kind(kind)].hooks:
                tasks.start_soon(wait_for, hook)


def _meta(given: Meta | None, about: Payload | None) -> Meta:
    return given or (NO_META if about is None else about.meta)


def _weakly(method: Callable[[StateChange], None]) -> Callable[[StateChange], None]:
    """The method as somebody may keep it whom its object has: so the object is freed as soon as nobody else has it."""
    weak = weakref.WeakMethod(method)

    def call(change: StateChange) -> None:
        strong = weak()
        if strong is not None:
            strong(change)

    return call


def _as_hook(given: Hook | HookSpec) -> Hook:
    return make_hook(given) if isinstance(given, HookSpec) else given


def _of_session(given: Hook | HookSpec) -> Hook | HookSpec:
    spec = given if isinstance(given, HookSpec) else given.spec
    if spec.layer is not None:
        return given
    placed = spec.model_copy(update={"layer": "session"})
    if isinstance(given, HookSpec):
        return placed
    given.spec = placed
    return given


def _names_of(outcome: Outcome[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls that an answer is for: first the one that the hook was asked about, where it gave the tool another name."""
    asked, answered = outcome.asked_about, outcome.payload
    if asked is None or asked.tool == answered.tool:
        return (answered,)
    return (asked.model_copy(update={"meta": answered.meta}), answered)  # the caller's own meta, as in the outcome
