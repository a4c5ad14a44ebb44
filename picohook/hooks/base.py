"""What the host asks a hook, and what a hook is to the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..model.payloads import Payload
from ..observe.failures import Failures
from ..observe.metrics import HookMetrics
from ..process.spawn import Direct

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
    """What a host asks a model with: a prompt and a model's name, or None for its own choice, and back comes a text."""

P = TypeVar("P", bound=Payload)


@dataclass(slots=True)
class Question(Generic[P]):
    """One stage, one payload, one hook, one deadline."""

    stage: Stage[P]
    encoded: Encoded[P]
    """The payload with its bytes. The payload is a copy that this hook alone has."""
    deadline: float
    """On the reactor's clock. `Hook.handle` keeps it."""
    limit: float
    """How far a hook that shows progress can move its deadline."""
    begun: float
    """When it was put."""

    @property
    def payload(self) -> P:
        """What is asked about."""
        return self.encoded.payload


@dataclass(frozen=True, slots=True)
class StateChange:
    """What became of a hook."""

    hook: str
    state: str
    pid: int | None = None


@dataclass(slots=True)
class HostServices:
    """What a hook gets of the host it is mounted on."""

    reactor: Reactor
    log: Log
    timeouts: Timeouts
    """The host's defaults. A reload may replace them."""
    verify: Verify | None = None
    """Called before every start of a process; raises when it must not run (any more)."""
    model_of: Callable[[HookSpec], Complete | None] | None = None
    """What asks the model of a hook with these settings; None where there is no model."""
    notice: Callable[[StateChange], None] | None = None
    """Told of what becomes of the hook."""
    contained: Spawner | None = None
    """How the host starts processes."""
    tap: Callable[[RawLine], None] | None = None
    """Told of every line that goes to a process or comes from it, if somebody wants to see them."""

    @property
    def spawner(self) -> Spawner:
        """How processes are started."""
        return self.contained or Direct(self.reactor)


@dataclass(frozen=True, slots=True)
class HookStatus:
    """What a hook's state is, for people and for metrics."""

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
    """Why it failed last, at a stage, at an event or at its start."""
    containment: str | None = None
    """What holds the descendants of its process, while it has one."""
    stages: dict[str, Any] = field(default_factory=dict)
    """Counts and times by stage."""


class Hook:
    """One hook: asked at stages, told of events. A subclass overrides `handle`, `notify` or both.

    `handle` ends by `question.deadline` and returns a decision that the stage allows; whatever it raises counts as its failure.
    """

    in_process = True
    """In-process hooks are asked before those that are processes."""
    takes_bytes = False
    """Whether it is asked and told in bytes. Any other gets copies of payloads and events, and what it decides is copied."""
    waits_for_person = False
    """Whether it may have to wait for a person: then its own timeout bounds it, and not the chain's budget."""

    ends_sessions = False
    """Whether its hard abort ends the session, too, and not the agent's loop alone."""

    def __init__(self, spec: HookSpec) -> None:
        self.spec = spec
        self.metrics = HookMetrics()
        self.failures = Failures()

    @property
    def name(self) -> str:
        """Unique on a host."""
        return self.spec.name

    def put_parts(
        self, stage: Stage[P], encoded: Encoded[P], deadline: float, limit: float, begun: float
    ) -> Awaitable[Decision]:
        """Put a question to it, of which these are the parts: the chain's way to `handle`, which gets a copy of the payload."""
        return self.handle(Question(stage, encoded.deep_copy(), deadline, limit, begun))

    def handle(self, question: Question[Any]) -> Awaitable[Decision]:
        """Decide. What comes back is awaited at once, and once: a subclass may say `async def handle`."""
        raise NotImplementedError(f"{self.name} is asked at {question.stage.name}, and has no `handle`")

    def notify(self, event: Event) -> None:
        """Take note of an event. Never waits."""

    def open(self, host: HostServices) -> None:
        """The hook is mounted: called once, before anything else."""

    async def run(self) -> None:
        """What the hook does by itself while it is mounted. `stop` ends it."""

    async def started(self) -> None:
        """Wait until the hook can serve, or its first attempt at it failed."""

    @property
    def error(self) -> HookError | None:
        """Why it does not serve, while it does not."""
        return None

    def stop(self) -> None:
        """End `run`."""

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        """Seconds that an event may take it that is waited for, and the setting that says so; None: the host's own."""
        return None, "observer_timeout"

    async def flushed(self, deadline: float) -> bool:
        """Wait until the events it was told of are on their way; whether they are."""
        del deadline
        return True

    def status(self) -> HookStatus:
        """How it does."""
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
