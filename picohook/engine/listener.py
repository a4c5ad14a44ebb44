"""Listeners see the questions and events of a host. Recordings, traces and logs are listeners.

A host calls its listeners inside the chain, so they must not block. There are two kinds. If a `Listener` raises, the error is
logged and changes nothing. If a `RequiredListener` raises about a chain that allowed a call, the call is denied.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

from ..model.payloads import Payload
from ..wire import words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from ..hooks.base import Hook, StateChange
    from ..model.decisions import Asked, Outcome
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.proof import Proof
    from ..model.stages import Stage
    from ..observe.log import Log
    from ..protocol.raw_line import RawLine
    from .resumed import Resumed
    from .status import Reloaded

P = TypeVar("P", bound=Payload)
OperationKind: TypeAlias = Literal["turn", "model_call", "tool_call"]

_NOTHING: Final = nullcontext()


class Account(Generic[P]):
    """A listener's view of one chain: each hook, then the end. A subclass overrides the methods that it needs."""

    def __init__(self, stage: Stage[P], payload: P) -> None:
        self.stage = stage
        self.payload = payload
        """The payload that hooks are asked about. A listener may replace its `meta`, so that hooks can join a trace. The
        caller's outcome has the caller's own meta."""

    def resumed(self, resumed: Resumed) -> None:
        """The chain resumes after a pause."""

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        """A hook is about to be asked about this payload. This is called again for each retry."""

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        """A hook was asked about this payload. `asked` is a copy of its answer and its trail entry."""

    def would(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        """A hook in shadow has answered about this payload, maybe after the end of the chain. `asked` is a copy."""

    def concluded(self, outcome: Outcome[P]) -> None:
        """The chain has ended. `outcome` is a copy of its outcome."""

    def abandoned(self, error: BaseException) -> None:
        """The chain has ended without an outcome, because its caller was cancelled or the payload has no JSON form."""


class Operation:
    """A listener's view of one turn, model call or tool call: its questions, and the work between them.

    This class does nothing: a listener overrides `current` and `ended`.
    """

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


class Listener:
    """Sees the chains and events of one host. It cannot change an outcome: it gets copies, and its errors are only logged."""

    wants_lines = False
    """Whether `line` is called with each line to and from a hook's process."""

    def opened(self) -> None:
        """The host is being entered, and no hook was started yet. If this raises, entering the host raises the same error."""

    def begin(self, stage: Stage[P], payload: P) -> Account[P] | None:
        """A chain begins. Returns an account to see the chain, or None."""

    def operation(self, kind: OperationKind, payload: Payload) -> Operation | None:
        """A turn, a model call or a tool call begins. Returns an operation to see its work, or None."""

    def happened(self, event: Event, hooks: Sequence[Hook]) -> None:
        """An event was emitted. These hooks are told next, and none has it yet."""

    def proved(self, proof: Proof) -> None:
        """Hooks were asked about a harmful call, as a proof of life. `begin` is not called for such a chain."""

    def line(self, line: RawLine) -> None:
        """A line went to a hook's process or came from it. This is only called if `wants_lines` is set."""

    def closed(self) -> None:
        """The host and all its hooks have ended."""


class RequiredListener(Listener):
    """A listener that has to see every chain. If its `begin` or its account's `concluded` raises, the call is denied.

    That counts as the failure of a hook whose `on_failure` is deny. An outcome that denies or aborts stays as it is. Required
    listeners are called before the others.
    """

    refusal = "a required listener failed"
    """The reason of the denial, also for models."""


# The host's side.

_FAILED: Final = object()
"""The result of a call that raised."""


class Listeners:
    """All listeners of a host. The required ones come first, so that the others see the outcome that counts."""

    def __init__(self, listeners: Iterable[Listener], log: Log) -> None:
        self.on_change: set[Callable[[StateChange | Outcome[Any] | Reloaded | Proof], None]] = set()
        """Functions that are called with each change. See `Engine.on_change`."""
        self._log = log
        self._open = False
        self._take(listeners)

    def _take(self, listeners: Iterable[Listener]) -> None:
        self.all = tuple(sorted(listeners, key=lambda listener: not isinstance(listener, RequiredListener)))
        self._of_operations = [one for one in self.all if type(one).operation is not Listener.operation]

    def open(self) -> None:
        """Open all listeners. If one raises, close those before it, and raise its error."""
        for index, listener in enumerate(self.all):
            try:
                listener.opened()
            except BaseException:
                for earlier in self.all[:index]:
                    self._safely(earlier.closed)
                raise
        self._open = True

    def add(self, more: Iterable[Listener]) -> None:
        """Add listeners while the host runs. If one raises, none is added, and its error is raised."""
        added = Listeners(more, self._log)
        added.open()
        self._take((*self.all, *added.all))

    def remove(self, some: Collection[Listener]) -> None:
        """Close these listeners, the last one first. The others continue."""
        self._take(one for one in self.all if one not in some)
        for listener in reversed([*some]):
            self._safely(listener.closed)

    def begin(self, stage: Stage[P], payload: P) -> Accounts[P]:
        """Begin the accounts of a chain. Returns them as one."""
        return Accounts(self.all, stage, payload, self._safely)

    def operation(self, kind: OperationKind, payload: Payload) -> Operation:
        """Begin an operation of all listeners that see operations. Returns them as one."""
        begun = [self._safely(listener.operation, kind, payload) for listener in self._of_operations]
        seen = [one for one in begun if one is not None and one is not _FAILED]
        return Operations(seen, self._safely) if seen else NO_OPERATION

    def show(self, method: Literal["happened", "proved"], *seen: Any) -> None:
        for listener in self.all:
            self._safely(getattr(listener, method), *seen)

    def changed(self, change: StateChange | Outcome[Any] | Reloaded | Proof) -> None:
        for call in tuple(self.on_change):
            try:
                call(change)
            except Exception as error:  # it must not hurt the host
                self._log.warning("a function of on_change failed", why=repr(error))

    @property
    def tap(self) -> Callable[[RawLine], None] | None:
        """A function to call with every raw line; None if no listener wants lines."""
        return self._line if any(listener.wants_lines for listener in self.all) else None

    def _line(self, line: RawLine) -> None:
        for listener in self.all:
            if listener.wants_lines:
                self._safely(listener.line, line)

    def close(self) -> None:
        """Close all listeners, the last one first. This may be called twice."""
        if not self._open:
            return
        self._open = False
        for listener in reversed(self.all):
            self._safely(listener.closed)

    def _safely(self, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return call(*given)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # no cancellation is lost, because nothing is awaited here
            self._log.warning("a listener failed", why=repr(error))
            return _FAILED


class Accounts(Account[P]):
    """The accounts of all listeners of one chain."""

    def __init__(self, listeners: Iterable[Listener], stage: Stage[P], payload: P, safely: Callable[..., Any]) -> None:
        super().__init__(stage, payload)
        self._given = payload
        self._safely = safely
        self._all: list[tuple[Listener, Account[P]]] = []
        self._refusal = ""
        for listener in listeners:
            if safely(self._begin, listener) is _FAILED:
                self._refuse_for(listener)
        for _, account in self._all:
            safely(setattr, account, "payload", self.payload)  # the one that hooks are asked about

    def _begin(self, listener: Listener) -> None:
        """Begin the account of a listener, and take over its payload, which may have another meta. Raises its errors."""
        account = listener.begin(self.stage, self.payload)
        if account is not None:
            self.payload = account.payload
            self._all.append((listener, account))

    def resumed(self, resumed: Resumed) -> None:
        for _, account in self._all:
            self._safely(account.resumed, resumed)

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        for _, account in self._all:
            self._safely(account.asking, hook, encoded)

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        for _, account in self._all:
            self._safely(account.asked, hook, encoded, replace(asked, entry=replace(asked.entry)))

    def would(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        for _, account in self._all:
            self._safely(account.would, hook, encoded, replace(asked, entry=replace(asked.entry)))

    def concluded(self, outcome: Outcome[P]) -> None:
        """Show each listener a copy of the outcome. If a required listener failed, deny the outcome."""
        for listener, account in self._all:
            self._refuse(outcome)
            shown = replace(outcome, trail=tuple(map(replace, outcome.trail)))
            if self._safely(account.concluded, shown) is _FAILED:
                self._refuse_for(listener)
        self._refuse(outcome)
        given = self._given
        if given is not self.payload:
            own = {"meta": given.meta}
            outcome.payload = given if outcome.payload is self.payload else outcome.payload.model_copy(update=own)
            if isinstance(outcome.result, Payload):
                outcome.result = outcome.result.model_copy(update=own)

    def abandoned(self, error: BaseException) -> None:
        for _, account in self._all:
            self._safely(account.abandoned, error)

    def _refuse_for(self, listener: Listener) -> None:
        """Note that a listener failed. If it is required, the chain's outcome will be denied."""
        if isinstance(listener, RequiredListener):
            self._refusal = self._refusal or listener.refusal

    def _refuse(self, outcome: Outcome[P]) -> None:
        """If a required listener failed, deny an outcome that allows the call, as for a hook whose `on_failure` is deny."""
        if not self._refusal or outcome.action in {words.DENY, words.ABORT_TURN, words.HARD_ABORT}:
            return
        stage = self.stage
        outcome.action = words.DENY if stage.approves or words.DENY in stage.actions else words.ABORT_TURN
        outcome.approved = False if stage.approves else None
        outcome.reason, outcome.result, outcome.feedback, outcome.hook = self._refusal, None, "", ""


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
