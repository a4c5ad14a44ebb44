"""Listeners see what a host asks and tells: recordings, traces and audit logs are made of it.

A host calls its listeners at once, inside the chain: they must not block. There are two kinds. What a `Listener` raises is
logged, and changes nothing. What a `RequiredListener` raises about a chain denies what the chain allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from ..model.payloads import Payload

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..hooks.base import Hook
    from ..model.decisions import Asked, Decision, Outcome
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.stages import Stage
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
        """The chain goes on after a pause: `answered` is the hook that paused and its answer, `skip` is not asked again."""

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
