"""The base class of all hooks, and what passes between a hook and its host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..model.payloads import Payload
from ..observe.failure_log import FailureLog
from ..observe.metrics import HookMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from ..errors import HookError
    from ..model.decisions import Decision
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.spec import HookSpec, Timeouts
    from ..model.stages import Stage
    from ..observe.log import Log
    from ..process.plan import Verify
    from ..process.spawn import Spawner
    from ..protocol.raw_line import RawLine
    from ..transport.reactor import Reactor

    Complete: TypeAlias = Callable[[str, str | None], str | Awaitable[str]]
    """Asks a model: takes a prompt and a model's name (None for the default), and returns the answer's text."""

P = TypeVar("P", bound=Payload)


@dataclass(slots=True)
class Question(Generic[P]):
    """One stage, one payload, one hook, one deadline."""

    stage: Stage[P]
    shared: Encoded[P]
    """The host's payload and its bytes, for hooks that need the bytes alone."""
    deadline: float
    """On the reactor's clock. `Hook.handle` has to end by then."""
    limit: float
    """The latest deadline that a hook can reach by showing progress."""
    begun: float
    """When the hook was asked."""
    _own: Encoded[P] | None = None

    @property
    def encoded(self) -> Encoded[P]:
        """A copy of the payload that this hook alone has, with its bytes. Raises `PicohookError` if the payload was changed."""
        if self._own is None:
            self._own = self.shared.deep_copy()
        return self._own

    @property
    def payload(self) -> P:
        """The payload that the hook is asked about: a copy that this hook alone has."""
        return self.encoded.payload


@dataclass(frozen=True, slots=True)
class StateChange:
    """A hook's new state."""

    hook: str
    state: str
    pid: int | None = None


@dataclass(slots=True)
class HostServices:
    """What a mounted hook uses of its host."""

    reactor: Reactor
    log: Log
    timeouts: Timeouts
    """The host's defaults. A reload may replace them."""
    spawner: Spawner
    """How the host starts processes."""
    verify: Verify | None = None
    """Called before every start of a process; raises if the process must not run."""
    model_of: Callable[[HookSpec], Complete | None] | None = None
    """Returns the function that asks the model of a hook with these settings; None if there is no model."""
    notice: Callable[[StateChange], None] | None = None
    """Called with each new state of the hook."""
    tap: Callable[[RawLine], None] | None = None
    """Called with every line to and from a process."""


@dataclass(frozen=True, slots=True)
class HookStatus:
    """A hook's state and counts, for people and for metrics."""

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
    """Its last failure, at a stage, an event or its start."""
    containment: str | None = None
    """How its process is contained, while it has one."""
    stages: dict[str, Any] = field(default_factory=dict)
    """Counts and times, by stage."""


class Hook:
    """One hook: asked at stages, told of events. A subclass overrides `handle`, `notify` or both.

    `handle` ends by `question.deadline` and returns a decision that the stage allows. An exception from it is a failure.
    """

    in_process = True
    """In-process hooks are asked before those that are processes."""
    takes_bytes = False
    """Whether it takes questions and events as bytes. Any other hook gets copies, and its decision is copied."""
    waits_for_person = False
    """Whether it may wait for a person: its own timeout bounds it then, and not the chain's budget."""

    ends_sessions = False
    """Whether its hard abort ends the session as well as the agent's loop."""

    def __init__(self, spec: HookSpec) -> None:
        self.spec = spec
        self.metrics = HookMetrics()
        self.failures = FailureLog()

    @property
    def name(self) -> str:
        """Unique on a host."""
        return self.spec.name

    def handle(self, question: Question[Any]) -> Awaitable[Decision]:
        """Decide. The result is awaited at once, and once: a subclass may write `async def handle`."""
        raise NotImplementedError(f"{self.name} is asked at {question.stage.name}, and has no `handle`")

    def notify(self, event: Event) -> None:
        """Take an event, without waiting."""

    def open(self, host: HostServices) -> None:
        """Called once, first, when the hook is mounted."""

    async def run(self) -> None:
        """The hook's own task while it is mounted. `stop` ends it."""

    async def started(self) -> None:
        """Wait until the hook is ready, or its first start has failed."""

    @property
    def error(self) -> HookError | None:
        """Why it is not ready; None if it is."""
        return None

    def stop(self) -> None:
        """End `run`."""

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        """Seconds for an event that the host waits for, and the name of that setting; None: the host's default."""
        return None, "observer_timeout"

    async def flushed(self, deadline: float) -> bool:
        """Wait until its events are delivered. Returns whether they were, by the deadline."""
        del deadline
        return True

    def status(self) -> HookStatus:
        """Its state and counts."""
        return HookStatus(
            self.name,
            "ready",
            failures=self.metrics.failures,
            last_error=self.failures.last,
            stages=self.metrics.wire(),
        )


class DecidedHook(Hook):
    """Answers for a hook that paused, with the decision that was taken since."""

    def __init__(self, spec: HookSpec, decision: Decision) -> None:
        super().__init__(spec)
        self._decision = decision

    async def handle(self, _question: Question[Any]) -> Decision:
        return self._decision
