"""Calls the listeners of a host, so that none of them can hurt it, and refuses what a required one could not take in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..listeners.listener import Account, RequiredListener
from ..model.payloads import Payload
from ..wire import words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ..hooks.base import Hook
    from ..listeners.listener import Listener
    from ..model.decisions import Asked, Decision, Outcome
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.stages import Stage
    from ..observe.log import Log
    from ..protocol.raw_line import RawLine

P = TypeVar("P", bound=Payload)

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
        """Have a listener begin its account, whose payload may have another meta. Raises what it raises."""
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
