"""What the host needs of an event loop, as ten verbs; one implementation for asyncio, one for trio.

Persistent callbacks, not tasks: a task per call or per read is what makes stream layers slow. Callbacks run on the loop's
own thread and must not raise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterable


class Promise(Protocol):
    """One value that one task awaits, once; `Reactor.settle` gives it.

    It has no timer of its own: one for each call is what calls do without. What its owner notes on it spares an object
    beside it.
    """

    about: Any
    request: int
    deadline: float
    limit: float
    patience: float

    def __await__(self) -> Generator[Any, Any, Any]: ...


NOTES = ("about", "deadline", "limit", "patience", "request")
"""What an owner notes on a promise."""


@dataclass(slots=True)
class Failure:
    """What a promise is given in place of a value: awaiting it raises the error."""

    error: Exception


class Alarm(Protocol):
    """Calls back once it is as late as it is set to. Cheap to have, for many deadlines at once."""

    def set(self, when: float) -> None:
        """Ring at this time, and not at the one before."""

    def off(self) -> None:
        """Do not ring."""


class Waiter(Protocol):
    """One value that somebody waits for, until a deadline."""

    def settle(self, value: Any) -> None:
        """Give the value. The first one counts."""

    async def wait(self, deadline: float) -> Any:
        """The value, or `TimeoutError`."""


class Reactor(Protocol):
    """An event loop, as far as the host needs one."""

    def now(self) -> float:
        """The loop's monotonic clock; all deadlines are on it."""

    def is_here(self) -> bool:
        """Whether it is this event loop that runs the code that asks."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back once, in the loop's next round."""

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[], object]) -> None:
        """Run this in a task that no caller's cancellation reaches. It must not raise.

        The task ends by itself, or the end of the event loop cancels it. Then `ended` is called, in every case.
        """

    def on_readable(self, fd: int, callback: Callable[[], object]) -> None:
        """Call back whenever the descriptor can be read, until it is released."""

    def on_writable(self, fd: int, callback: Callable[[], bool]) -> None:
        """Call back whenever the descriptor can be written, as long as the callback says that it has more to write."""

    def release(self, fd: int) -> None:
        """Forget a descriptor. Call it before closing one."""

    def promise(self, left: Callable[[Any], object]) -> Promise:
        """A value to come. `left` is called with it when the task that awaits it is cancelled."""

    def settle(self, ended: Iterable[tuple[Any, Any]]) -> None:
        """Give promises their values, or a `Failure`; no more to those that were left.

        The tasks may go on at once, before this returns.
        """

    def alarm(self, callback: Callable[[], None]) -> Alarm:
        """An alarm that is off. It has to be off again before the loop ends."""

    def waiter(self) -> Waiter:
        """Something to wait for."""
