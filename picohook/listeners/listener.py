"""Listeners see what a host asks and tells: recordings, traces and audit logs are made of it.

A host calls its listeners at once, inside the chain: they must not block. There are two kinds. What a `Listener` raises is
logged, and changes nothing. What a `RequiredListener` raises about a chain denies what the chain allowed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ..model.payloads import Payload
from ..wire import words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ..hooks.base import Hook
    from ..model.decisions import Asked, Decision, Outcome
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.stages import Stage
    from ..observe.log import Log
    from ..protocol.raw_line import RawLine

P = TypeVar("P", bound=Payload)


class Account(Generic[P]):
    """One chain as a listener sees it: hook by hook, then its end. A subclass overrides the methods that it needs."""

    def __init__(self, stage: Stage[P], payload: P) -> None:
        self.stage = stage
        self.payload = payload
        """The payload that hooks are asked about. A listener may replace its `meta`, so that hooks can join a trace; the
        caller gets its own meta back."""

    def resumed(self, answered: tuple[str, Decision] | None, skip: Collection[str]) -> None:
        """The chain is resumed after a pause: `answered` is the hook that paused and its answer, `skip` is not asked again."""

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        """A hook is about to be asked about this payload. Called again for each retry."""

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        """A hook was asked about this payload. `asked` is a copy of its answer and its trail entry."""

    def concluded(self, outcome: Outcome[P]) -> None:
        """The chain has ended with an outcome, of which this is a copy."""

    def abandoned(self, error: BaseException) -> None:
        """The chain has ended without an outcome: its caller was cancelled, or the payload has no JSON form."""


class Listener:
    """Sees one host, for as long as it runs. It changes no outcome: it gets copies, and its errors are only logged."""

    wants_lines = False
    """Whether `line` is called with each line that goes to a hook's process or comes from it."""

    def opened(self) -> None:
        """The host begins. Entering the host raises what this raises, before any hook is started."""

    def begin(self, stage: Stage[P], payload: P) -> Account[P] | None:
        """A chain begins. Return None to see nothing of it."""

    def happened(self, event: Event) -> None:
        """An event was emitted; no hook has been told of it yet."""

    def told(self, event: Event, hooks: Sequence[Hook]) -> None:
        """An event was handed on to these hooks."""

    def line(self, line: RawLine) -> None:
        """A line went to a hook's process or came from it. Only called where `wants_lines` is set."""

    def closed(self) -> None:
        """The host has ended, and every hook with it."""


class RequiredListener(Listener):
    """A listener that has to take in every chain: where its `begin`, or its account's `concluded`, raises, the call is denied.

    It counts as a hook that failed and whose `on_failure` is deny; an outcome that denies or aborts already stays. Required
    listeners are called before the others.
    """

    refusal = "a required listener failed"
    """The reason of the denial. Models are told it."""


# How a host calls them.

_FAILED: Final = object()
"""Returned in place of a result by a call that raised."""


class Listeners:
    """All listeners of a host. The required ones come first, so that the others see the outcome that counts."""

    def __init__(self, listeners: Iterable[Listener], log: Log) -> None:
        self.all = tuple(sorted(listeners, key=lambda listener: not isinstance(listener, RequiredListener)))
        self._log = log
        self._open = False

    def open(self) -> None:
        """The host begins. Raises what a listener raises, when those before it have been closed again."""
        for index, listener in enumerate(self.all):
            try:
                listener.opened()
            except BaseException:
                for earlier in self.all[:index]:
                    self._safely(earlier.closed)
                raise
        self._open = True

    def begin(self, stage: Stage[P], payload: P) -> Accounts[P]:
        """A chain begins."""
        accounts = Accounts(stage, payload, self._safely)
        for listener in self.all:
            if self._safely(accounts.begin, listener) is _FAILED:
                accounts.refuse_for(listener)
        accounts.share_payload()
        return accounts

    def happened(self, event: Event) -> None:
        """An event was emitted."""
        for listener in self.all:
            self._safely(listener.happened, event)

    def told(self, event: Event, hooks: Sequence[Hook]) -> None:
        """An event was handed on."""
        for listener in self.all:
            self._safely(listener.told, event, hooks)

    @property
    def tap(self) -> Callable[[RawLine], None] | None:
        """Called with every raw line; None if no listener wants to see them."""
        return self._line if any(listener.wants_lines for listener in self.all) else None

    def _line(self, line: RawLine) -> None:
        for listener in self.all:
            if listener.wants_lines:
                self._safely(listener.line, line)

    def close(self) -> None:
        """The host has ended. Twice is fine."""
        if not self._open:
            return
        self._open = False
        for listener in self.all:
            self._safely(listener.closed)

    def _safely(self, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return call(*given)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a listener cannot hurt; nothing waits here, so nothing is cancelled
            self._log.warning("a listener failed", why=repr(error))
            return _FAILED


class Accounts(Account[P]):
    """One chain as all listeners see it."""

    def __init__(self, stage: Stage[P], payload: P, safely: Callable[..., Any]) -> None:
        super().__init__(stage, payload)
        self._given = payload
        self._safely = safely
        self._all: list[tuple[Listener, Account[P]]] = []
        self._refusal = ""

    def begin(self, listener: Listener) -> None:
        """Have a listener begin its account, whose payload may have another meta. Raises the listener's errors."""
        account = listener.begin(self.stage, self.payload)
        if account is not None:
            self.payload = account.payload
            self._all.append((listener, account))

    def share_payload(self) -> None:
        """Give all accounts the payload that hooks are asked about."""
        for _, account in self._all:
            self._safely(setattr, account, "payload", self.payload)

    def resumed(self, answered: tuple[str, Decision] | None, skip: Collection[str]) -> None:
        for _, account in self._all:
            self._safely(account.resumed, answered, skip)

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        for _, account in self._all:
            self._safely(account.asking, hook, encoded)

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        for _, account in self._all:
            self._safely(account.asked, hook, encoded, replace(asked, entry=replace(asked.entry)))

    def concluded(self, outcome: Outcome[P]) -> None:
        """Show the outcome to the listeners, each in a copy, and refuse it if a required one failed."""
        for listener, account in self._all:
            self._refuse(outcome)
            shown = replace(outcome, trail=tuple(map(replace, outcome.trail)))
            if self._safely(account.concluded, shown) is _FAILED:
                self.refuse_for(listener)
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

    def refuse_for(self, listener: Listener) -> None:
        """Refuse what the chain concludes, if this listener is required."""
        if isinstance(listener, RequiredListener):
            self._refusal = self._refusal or listener.refusal

    def _refuse(self, outcome: Outcome[P]) -> None:
        """Deny what was allowed, as if a hook had failed whose `on_failure` is deny."""
        if not self._refusal or outcome.action in {words.DENY, words.ABORT_TURN, words.HARD_ABORT}:
            return
        stage = self.stage
        outcome.action = words.DENY if stage.approves or words.DENY in stage.actions else words.ABORT_TURN
        outcome.approved = False if stage.approves else None
        outcome.reason, outcome.result, outcome.feedback, outcome.hook = self._refusal, None, "", ""
