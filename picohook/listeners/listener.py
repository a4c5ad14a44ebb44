"""Seeing what a host asks and tells: what recordings, traces and audit logs are made from.

A host calls its listeners at once, inside the chain. They must not block, and cannot hurt: what one raises is logged, and
nobody else notices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..model.payloads import Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ..hooks.base import Hook
    from ..model.decisions import Asked, Decision, Outcome
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.stages import Stage
    from ..observe.log import Log
    from ..protocol.raw_line import RawLine

P = TypeVar("P", bound=Payload)


class Account(Generic[P]):
    """One chain as a listener sees it: hook by hook, then the end. A subclass overrides what it cares about."""

    def __init__(self, stage: Stage[P], payload: P) -> None:
        self.stage = stage
        self.payload = payload
        """What the hooks are asked about. A listener may replace its `meta`, so that hooks can join a trace; the caller gets
        its own back."""

    def resumed(self, said: tuple[str, Decision] | None, without: Collection[str]) -> None:
        """It goes on after a pause: this answers for the hook that paused, and these are not asked again."""

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        """A hook is about to be asked about this; once more for each time that it is asked again because it failed."""

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        """A hook was asked about this, and this came of it."""

    def concluded(self, outcome: Outcome[P]) -> None:
        """The chain came to this."""

    def abandoned(self, error: BaseException) -> None:
        """The chain came to nothing: its caller gave up, or gave what is no JSON."""


class Listener:
    """Sees one host, for as long as it runs."""

    wants_lines = False
    """Whether it is told of every line that goes to a hook's process or comes from it."""

    def opened(self) -> None:
        """The host begins. What this raises, entering the host raises, before anything runs: a log that cannot be kept."""

    def begin(self, stage: Stage[P], payload: P) -> Account[P] | None:
        """A chain begins; None if it is of no interest."""

    def happened(self, event: Event) -> None:
        """An event was emitted; nobody has been told of it yet."""

    def told(self, event: Event, hooks: Sequence[Hook]) -> None:
        """An event was handed on to these."""

    def line(self, line: RawLine) -> None:
        """A line went to a hook's process or came from it; only where `wants_lines` is set."""

    def closed(self) -> None:
        """The host has ended, and every hook with it."""


class Listeners:
    """All listeners of a host, called so that none of them can hurt it."""

    def __init__(self, listeners: Sequence[Listener], log: Log) -> None:
        self.all = tuple(listeners)
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
        accounts: list[Account[P]] = []
        given = payload
        for listener in self.all:
            begun: tuple[Account[P], P] | None = self._safely(_begun, listener, stage, payload)
            if begun is not None:
                account, payload = begun
                accounts.append(account)
        for account in accounts:
            self._safely(setattr, account, "payload", payload)
        return Accounts(stage, payload, given, accounts, self._safely)

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
        """What is called with every raw line; None if no listener wants to see them."""
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
        except BaseException as error:  # noqa: BLE001 - who looks on changes nothing; nothing waits here, so nothing is cancelled
            self._log.warning("a listener failed", why=repr(error))
            return None


def _begun(listener: Listener, stage: Stage[P], payload: P) -> tuple[Account[P], P] | None:
    account = listener.begin(stage, payload)
    return None if account is None else (account, account.payload)


class Accounts(Account[P]):
    """One chain as all listeners see it."""

    def __init__(
        self, stage: Stage[P], payload: P, given: P, accounts: Sequence[Account[P]], safely: Callable[..., Any]
    ) -> None:
        super().__init__(stage, payload)
        self._given = given
        self._all = accounts
        self._safely = safely

    def resumed(self, said: tuple[str, Decision] | None, without: Collection[str]) -> None:
        for account in self._all:
            self._safely(account.resumed, said, without)

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        for account in self._all:
            self._safely(account.asking, hook, encoded)

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        for account in self._all:
            self._safely(account.asked, hook, encoded, asked)

    def concluded(self, outcome: Outcome[P]) -> None:
        for account in self._all:
            self._safely(account.concluded, outcome)
        given = self._given
        if given is not self.payload:
            own = {"meta": given.meta}
            outcome.payload = given if outcome.payload is self.payload else outcome.payload.model_copy(update=own)
            if isinstance(outcome.result, Payload):
                outcome.result = outcome.result.model_copy(update=own)

    def abandoned(self, error: BaseException) -> None:
        for account in self._all:
            self._safely(account.abandoned, error)
