"""An arrangement: the hooks that a host or a session asks, each with its task, and the chains that ask them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from ..errors import PicohookError
from ..model.stages import STAGES
from .order import audiences, seats

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from ..hooks.base import Hook
    from ..model.spec import Timeouts
    from ..model.stages import Stage
    from ..transport.reactor import Reactor
    from .seat import Seat
    from .tool_ownership import Ownership

T = TypeVar("T")


class Service(Generic[T]):
    """Work that a host does in a task of its own, until it is done or the host ends. Cancelling a caller does not stop it.

    It can be made in a callback of the event loop, where anyio knows of no event loop. So its scope is made in its task.
    """

    def __init__(self, work: Callable[[], Awaitable[T]], over: Callable[[Any], None] = lambda _: None) -> None:
        """`over` is called with this object when the task has ended."""
        self._work = work
        self._when_over = over
        self._scope: anyio.CancelScope | None = None
        self._cancelled = False
        self.task = 0
        """The id of its task, once it runs."""
        self.ended = anyio.Event()
        self._results: list[T] = []
        self.error: Exception | SystemExit | None = None
        """The exception that the work raised."""

    def start(self, reactor: Reactor) -> None:
        reactor.spawn(self._run, self._over)

    def cancel(self) -> None:
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    async def _run(self) -> None:
        try:
            self.task = anyio.get_current_task().id
            with anyio.CancelScope() as self._scope:
                if self._cancelled:
                    self._scope.cancel()
                self._results.append(await self._work())
        except (Exception, SystemExit) as error:  # `result` raises it
            self.error = error

    def _over(self) -> None:
        self._when_over(self)
        del self._work, self._when_over  # they often belong to an object that holds this service: that would be a cycle
        self.ended.set()

    async def result(self) -> T:
        """Wait for the end. Returns the work's result. Raises its error, or `PicohookError` if the host was closed."""
        await self.ended.wait()
        if self.error is not None:
            raise self.error
        if not self._results:
            raise PicohookError("the host was closed")
        return self._results[0]


class Mounted(Service[None]):
    """A hook, and the task that it runs in."""

    def __init__(self, hook: Hook, over: Callable[[Any], None] = lambda _: None) -> None:
        super().__init__(hook.run, over)
        self.hook = hook


class Generation:
    """The chains of one stage that begin with the same seats. A replaced hook is stopped when they are over."""

    __slots__ = ("_longest", "_over", "about_pauses", "budget", "running", "seats", "stage")

    def __init__(self, stage: Stage[Any], seats: tuple[Seat, ...], timeouts: Timeouts) -> None:
        self.stage = stage
        self.seats = tuple(seat for seat in seats if seat.shadow or not seat.hook.answers_pauses)
        """The hooks that are asked, in order."""
        self.about_pauses = tuple(seat for seat in seats if seat not in self.seats)
        """The hooks that are asked behind them about what one of them has paused."""
        for seat in self.about_pauses:
            seat.guard = True  # about a payload that was changed after the answer, it is asked again
        self.budget = math.inf if stage.approves else timeouts.chain
        """Seconds for all of them together."""
        self.running = 0
        """The number of its chains that are running."""
        self._longest = _longest(stage, seats, timeouts)
        self._over: anyio.Event | None = None

    def named(self, name: str) -> tuple[Seat, ...]:
        """The seat of one hook, or nothing if it has none here."""
        return tuple(seat for seat in self.seats if seat.name == name)

    def leave(self) -> None:
        """Note that one of its chains is over."""
        self.running -= 1
        if self._over is not None and not self.running:
            self._over.set()

    async def over(self) -> None:
        """Wait until its chains are over, or the longest has had its time. Called when no more of them can begin."""
        self._over = self._over or anyio.Event()
        if self.running:
            with anyio.move_on_after(self._longest):
                await self._over.wait()


def _longest(stage: Stage[Any], seats: Iterable[Seat], timeouts: Timeouts) -> float:
    """Returns the most seconds that a chain can take."""
    unbudgeted = [
        seat.longest * (1 + seat.hook.spec.retry) for seat in seats if stage.approves or seat.waits_for_person
    ]
    return max(unbudgeted, default=0.0) if stage.approves else timeouts.chain + sum(unbudgeted)


class Arrangement:
    """The hooks of a host or of a session, by name, by stage and by kind of event."""

    session_id = ""
    """The session that it is for; empty for the host's."""

    def __init__(self, owners: Ownership, timeouts: Timeouts) -> None:
        self.owners = owners
        self.own: Mapping[str, Mounted] = {}
        """The hooks that were mounted here, by name."""
        self.by_name: Mapping[str, Mounted] = {}
        """All hooks that are asked and told, by name."""
        self.generations = {name: Generation(stage, (), timeouts) for name, stage in STAGES.items()}
        """For each stage, the generation of the chains that begin now."""
        self.earlier: list[Generation] = []
        """The earlier generations with running chains."""
        self.audiences: dict[str, tuple[Hook, ...]] = {}
        """For each kind of event, the hooks that are told."""

    @property
    def hooks(self) -> tuple[Hook, ...]:
        return tuple(mounted.hook for mounted in self.by_name.values())

    def arrange(self, ordered: Sequence[Hook], timeouts: Timeouts) -> None:
        """Ask and tell these hooks from now on. A chain that began before keeps the seats that it has."""
        self.earlier = [one for one in (*self.earlier, *self.generations.values()) if one.running]
        seated = seats(ordered, timeouts)
        self.generations = {name: Generation(stage, seated[name], timeouts) for name, stage in STAGES.items()}
        self.audiences = audiences(ordered)
        self.owners.provide({hook.name: () if hook.shadow else hook.spec.provides for hook in ordered})

    def require_here(self) -> Reactor:
        """The event loop. Raises `PicohookError` unless these hooks can be asked, and from the current event loop."""
        raise NotImplementedError

    def seat(self, mounted: Mapping[str, Mounted]) -> None:
        """From now on, ask only these hooks and send events only to them, in place of those that were mounted here."""
