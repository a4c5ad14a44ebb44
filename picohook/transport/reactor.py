"""The interface of an event loop, as the host needs it. asyncio and trio each have an implementation.

It uses persistent callbacks instead of tasks, because a task for each call or read is slow. Callbacks run on the loop's own
thread and must not raise.
"""

import types
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

T = TypeVar("T")

PROGRESS: ContextVar[Callable[[], None] | None] = ContextVar("picohook.progress", default=None)
"""Called when a hook reports progress on the question for whose answer a task waits. That task has set it."""


class Promise:
    """A value that one task awaits once, and `Reactor.settle` provides.

    It has no timer. Its owner keeps notes about the call on it, to save an object for each call. They are `NOTES`.
    """

    if not TYPE_CHECKING:
        __slots__ = ()
    about: Any
    request: int
    deadline: float
    limit: float
    timeout: float

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError

    @property
    def waiting(self) -> Context | None:
        """The context of the task that awaits it; None if none does."""
        raise NotImplementedError


NOTES = ("about", "deadline", "limit", "request", "timeout")
"""The attributes for an owner's notes."""


@dataclass(slots=True)
class Failure:
    """An error that settles a promise: awaiting the promise raises it."""

    error: BaseException


class Alarm(Protocol):
    """Calls back at a set time."""

    def set(self, when: float) -> None:
        """Call back at this time, in place of any time set before."""

    def off(self) -> None:
        """Do not call back."""


class Waiter(Protocol):
    """A value that one task waits for until a deadline."""

    def settle(self, value: Any) -> None:
        """Provide the value. Only the first one counts."""

    async def wait(self, deadline: float) -> Any:
        """Wait for the value. Raises `TimeoutError` at the deadline."""


HELD = 0.25
"""The most seconds for which a task may hold the event loop."""


@types.coroutine
def timed(
    work: Coroutine[Any, Any, T], now: Callable[[], float], held: Callable[[float], None]
) -> Generator[Any, Any, T]:
    """Await `work`. Returns its result. Calls `held` with the seconds for which a step of it held the loop, if too long."""
    late = now() + HELD
    try:
        wanted = work.send(None)
        while True:
            if now() > late:
                held(now() - late + HELD)
            try:
                value = yield wanted
            except GeneratorExit:
                late = now() + HELD
                work.close()
                raise
            except BaseException as error:  # all are for the work
                late = now() + HELD
                wanted = work.throw(error)
            else:
                late = now() + HELD
                wanted = work.send(value)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        if now() > late:
            held(now() - late + HELD)


class Reactor(Protocol):
    """An event loop."""

    def now(self) -> float:
        """The time on the loop's monotonic clock, to which all deadlines refer."""

    def is_here(self) -> bool:
        """Whether this event loop runs the calling code."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back once, in the loop's next round."""

    def from_thread(self, callback: Callable[[], None]) -> None:
        """Call back once, soon. Any thread may call this. Raises `RuntimeError` if the loop has ended."""

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]], ended: Callable[[], object]) -> Callable[[], object]:
        """Run this in a task of its own, which callers do not cancel. It must not raise. Returns what cancels it.

        `ended` is called when the task has ended, also if it was cancelled.
        """

    def on_readable(self, fd: int, callback: Callable[[], object]) -> None:
        """Call back whenever the descriptor can be read, until it is released."""

    def on_writable(self, fd: int, callback: Callable[[], bool]) -> None:
        """Call back whenever the descriptor can be written, until the callback returns False: then it has no more to write."""

    def release(self, fd: int) -> None:
        """Stop watching a descriptor. Call it before closing the descriptor."""

    def promise(self, on_cancel: Callable[[Any], object]) -> Promise:
        """A new promise. If the task that awaits it is cancelled, `on_cancel` is called with the promise."""

    def settle(self, ended: Iterable[tuple[Any, Any]]) -> None:
        """Settle promises, each with a value or a `Failure`. Cancelled promises are skipped.

        The tasks that await them may continue at once, before this returns.
        """

    def alarm(self, callback: Callable[[], None]) -> Alarm:
        """A new alarm, which is off. It must be off before the loop ends."""

    def waiter(self) -> Waiter:
        """A new waiter."""
