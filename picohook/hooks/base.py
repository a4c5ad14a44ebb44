"""The base class of all hooks, and the data that a hook and its host exchange."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Generic, TypeVar

import anyio

from ..errors import HookError, HookTimeoutError, Problem
from ..model.decisions import Decision
from ..model.encoded import Encoded
from ..model.events import Event
from ..model.payloads import Payload, ToolCall
from ..model.spec import HookSpec, Parts
from ..model.stages import Stage
from ..model.trail import TrailEntry
from ..observe.failure_log import FailureLog
from ..observe.metrics import HookMetrics
from ..process.spawn import ProcessServices

P = TypeVar("P", bound=Payload)
Q = TypeVar("Q")
S = TypeVar("S")


class TimeLimit:
    """Cancels its block at the deadline, and then raises `HookTimeoutError`."""

    __slots__ = ("_scope", "_why")

    def __init__(self, deadline: float, why: str = "", scope: type[anyio.CancelScope] = anyio.CancelScope) -> None:
        """`why` is another message than the usual one. `scope` is the event loop's own class, which is made sooner."""
        self._scope = scope(deadline=deadline)
        self._why = why

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scope.__exit__(kind, error, trace) and self._scope.cancelled_caught:
            raise HookTimeoutError(self._why) from None


@dataclass(slots=True)
class Question(Generic[P]):
    """A question to one hook: a stage, a payload and a deadline."""

    stage: Stage[P]
    shared: Encoded[P]
    """The host's payload and its bytes, for hooks that need only the bytes."""
    deadline: float
    """The time on the reactor's clock by which `Hook.handle` must end."""
    limit: float
    """The latest deadline that a hook can reach by reporting progress."""
    begun: float
    """The time when the hook was asked."""
    retries: int = 0
    """The number of times that the hook was asked before, and failed."""
    pauses: tuple[str, ...] = ()
    """The reasons of the pauses in this chain, for a hook that answers pauses."""
    _own: Encoded[P] | None = None

    @property
    def encoded(self) -> Encoded[P]:
        """The hook's own copy of the payload, with its bytes. Raises `PicohookError` if the payload was changed in place."""
        if self._own is None:
            self._own = self.shared.deep_copy()
        return self._own

    @property
    def payload(self) -> P:
        """The payload of the question: the hook's own copy. Raises as `encoded` does."""
        return self.encoded.payload

    def time_limit(self, why: str = "", scope: type[anyio.CancelScope] = anyio.CancelScope) -> TimeLimit:
        """A block that is cancelled at the deadline, and then raises `HookTimeoutError`. See `TimeLimit`."""
        return TimeLimit(self.deadline, why, scope)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A hook's new state."""

    hook: str
    state: str
    pid: int | None = None


@dataclass(slots=True)
class HostServices(ProcessServices):
    """The parts of a host that a mounted hook uses."""

    notice: Callable[[StateChange], None] | None = None
    """Called with each new state of the hook."""
    has_approver: "Callable[[ToolCall, Hook | None], bool]" = lambda _call, _abstaining: False
    """Whether a hook is asked to approve the call. Given a hook that abstains, hooks that may abstain too do not count."""
    find_part: Callable[[type[Any]], Any] = lambda _: None
    _shared: "dict[Callable[[HostServices], Any], Any]" = field(default_factory=dict)
    """The objects that `shared` has made, for all hooks of the host."""

    def shared(self, kind: "Callable[[HostServices], S]") -> S:
        """The one object of this kind on this host.

        It is made at the first call, by a call of `kind`. If it has a method `aclose`, it is called when the hooks have ended.
        The object that was made last is closed first.
        """
        if kind not in self._shared:
            self._shared[kind] = kind(replace(self, log=self.log.unbound()))
        made: S = self._shared[kind]
        return made

    async def aclose(self) -> None:
        """Close the shared objects. Only the host calls this."""
        while self._shared:
            _, made = self._shared.popitem()
            if hasattr(made, "aclose"):
                await made.aclose()

    def part(self, kind: type[Q]) -> Q | None:
        """The host's part of this class, if it has one."""
        found: Q | None = self.find_part(kind)
        return found


@dataclass(frozen=True, slots=True)
class HookStatus:
    """A hook's state and counts."""

    name: str
    state: str
    pid: int | None = None
    starts: int = 0
    calls: int = 0
    failures: int = 0
    timeouts: int = 0
    dropped_lines: int = 0
    dropped_events: int = 0
    last_error: str | None = None
    """The hook's last failure, at a stage, at an event or at its start."""
    containment: str | None = None
    """The tier of containment of its process; None without a process."""
    stages: dict[str, Any] = field(default_factory=dict)
    """Counts and times, by stage."""


class Hook:
    """One hook. It is asked at stages and gets events. A subclass overrides `handle`, `notify` or both.

    `handle` must end by `question.deadline`, and return a decision that the stage allows. If it raises, the hook has failed.
    """

    in_process = True
    """Whether it runs in the host's process. Such hooks are asked before all others."""
    takes_bytes = False
    """Whether it takes questions and events as bytes. Other hooks get copies."""
    keeps_decisions = True
    """Whether it may change a decision later that it has given. Such a decision is copied."""
    waits_for_person = False
    """Whether it may wait for a person. Then only its own timeout limits it, not the chain's."""

    shadow = False
    """Whether it is asked beside the chain, by `beside`. It is not waited for, and decides nothing."""
    abstains = False
    """Whether its approval may only mean that it leaves the call to other approvers."""
    approves_silently = False
    """Whether a call that it leaves to other approvers is approved if there are no others."""
    answers_pauses = False
    """Whether it is asked only about what other hooks have paused, after all others. If it continues, so does the call."""
    ends_sessions = False
    """Whether its hard abort also ends the session, not only the agent loop."""

    def __init__(self, spec: HookSpec) -> None:
        self.spec = spec
        self.metrics = HookMetrics()
        self.failures = FailureLog()

    @property
    def name(self) -> str:
        """The hook's name, which is unique on a host."""
        return self.spec.name

    @property
    def parts(self) -> Parts | None:
        """The settings by which it is asked about parts of a response now; None if it waits for the whole one."""
        return self.spec.parts

    def handle(self, question: Question[Any]) -> Awaitable[Decision]:
        """The decision, as an awaitable that is awaited at once and only once. A subclass may write `async def handle`."""
        raise NotImplementedError(f"{self.name} is asked at {question.stage.name}, and has no `handle`")

    def beside(self, stage: Stage[P], encoded: Encoded[P], told: Callable[..., None] | None) -> TrailEntry:
        """Ask a hook in shadow. Returns its entry in the trail at once, and sets `would` in it later.

        `told` is then called with the hook, the question and what would have come of it. This must not raise.
        """
        raise NotImplementedError

    def notify(self, event: Event) -> None:
        """Take an event. This must not wait."""

    def problem(self, host: HostServices) -> Problem | None:
        """The reason why the host cannot mount the hook; None if it can. Called before `open`."""

    def open(self, host: HostServices) -> None:
        """Take the host's services. Called once, before all other methods but `problem`, when the hook is mounted."""

    async def run(self) -> None:
        """Run the hook's own task while it is mounted. `stop` ends it."""

    async def started(self) -> None:
        """Wait until the hook is ready or its first start has failed."""

    @property
    def error(self) -> HookError | None:
        """The reason why the hook is not ready; None if it is ready."""
        return None

    def stop(self) -> None:
        """Stop the hook, which ends `run`."""

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        """Seconds for an awaited event (None: the host's default), and the name of the setting."""
        return None, "observer_timeout"

    async def flushed(self, deadline: float) -> bool:
        """Wait until its events are delivered. Returns False if they are not by the deadline."""
        del deadline
        return True

    def trial(self, _time_limit: float) -> AsyncIterator[Any] | None:
        """The findings of the hook's own trial, which `picohook doctor` shows; None if it is asked about its canary instead."""
        return None

    def status(self) -> HookStatus:
        """The hook's state and counts."""
        return HookStatus(
            self.name,
            "ready",
            failures=self.metrics.failures,
            last_error=self.failures.last,
            stages=self.metrics.wire(),
        )


class DecidedHook(Hook):
    """Stands in for a hook that paused, and answers with the decision that was made since."""

    def __init__(self, spec: HookSpec, decision: Decision) -> None:
        super().__init__(spec)
        self._decision = decision

    async def handle(self, _question: Question[Any]) -> Decision:
        return self._decision
