"""`Operation`, a listener's view of a whole turn, model call or tool call: its questions, and the work between them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ..wire import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from ..model.payloads import Payload

OperationKind: TypeAlias = Literal["turn", "model_call", "tool_call"]

_NOTHING: Final = nullcontext()


class Operation:
    """One turn, model call or tool call. This class does nothing: a listener overrides `current` and `ended`."""

    traceparent = ""
    """For a turn: the `traceparent` of its payloads and events, unless it is empty."""

    def current(self) -> AbstractContextManager[None]:
        """A block of its work: a question to hooks, the model, or the tool. There are several, and they may run at once."""
        return _NOTHING

    def ended(self, action: str = "", error: str = "", payload: Payload | None = None) -> None:
        """Note the end of the operation. Only the first call counts.

        `action` is what hooks decided. `error` is the kind of an error, such as the name of an exception. `payload` is that of
        the last stage, with the result.
        """

    def failed(self, raised: BaseException) -> None:
        """Note that the operation ended with this exception. A pause does not count as an error."""
        action = getattr(getattr(raised, "outcome", None), "action", "")
        self.ended(action, "" if action == words.PAUSE else type(raised).__qualname__)

    def work(self) -> AbstractContextManager[None]:
        """Like `current`. An exception in the block ends the operation."""
        return _NOTHING if self is NO_OPERATION else self._work()

    @contextmanager
    def _work(self) -> Iterator[None]:
        try:
            with self.current():
                yield
        except BaseException as error:
            self.failed(error)
            raise


NO_OPERATION: Final = Operation()


class Operations(Operation):
    """The operations of several listeners. Their errors are logged by `safely`."""

    def __init__(self, operations: Sequence[Operation], safely: Callable[..., Any]) -> None:
        self._all = operations
        self._safely = safely
        self._open = True
        self.traceparent = next((one.traceparent for one in operations if one.traceparent), "")

    @contextmanager
    def current(self) -> Iterator[None]:
        with ExitStack() as stack:
            for one in self._all:
                self._safely(lambda one=one: stack.enter_context(one.current()))
            yield

    def ended(self, action: str = "", error: str = "", payload: Payload | None = None) -> None:
        if self._open:
            self._open = False
            for one in self._all:
                self._safely(one.ended, action, error, payload)
