"""A hook that is a Python callable in the host's own process."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, get_args

import anyio
import anyio.to_thread

from .. import wire
from ..decisions import APPROVE, CONTINUE, Decision, Deny
from ..errors import HookError, HookTimeoutError, PicohookError
from ..replies import read_decision
from ..spec import HookSpec
from ..text import explain
from .mailbox import MailboxHook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..events import Event
    from .base import Question, Site

_DECISIONS = get_args(Decision)
THREADS = 16
"""Plain functions of one hook that run at once. Its own: one that hangs takes no thread from anybody else."""


class FunctionHook(MailboxHook):
    """Callables, by stage; and one for events.

    A callable gets the stage's payload and returns a decision, or None to go on, or what a hook process would answer (a
    mapping); from an approver also True or False. It may be async; one that is not runs in a thread, so that it never
    blocks the event loop, and what it still does after its deadline is its own affair.
    """

    def __init__(
        self,
        name: str,
        stages: Mapping[str, Callable[[Any], Any]] | None = None,
        *,
        on_event: Callable[[Event], Any] | None = None,
        **settings: Any,
    ) -> None:
        self._handlers = dict(stages or {})
        self._on_event = on_event
        if on_event is not None:
            settings.setdefault("observe", ("*",))
        super().__init__(HookSpec.model_validate({"name": name, "stages": tuple(self._handlers), **settings}))

    def open(self, site: Site) -> None:
        super().open(site)
        self._threads = anyio.CapacityLimiter(THREADS)

    async def handle(self, question: Question[Any]) -> Decision:
        stage = question.stage
        with anyio.CancelScope(deadline=question.deadline) as scope:
            said = await self._call(self._handlers[stage.name], question.payload)
        if scope.cancelled_caught or (stage.approves and self._site.reactor.now() > question.deadline):
            raise HookTimeoutError("no answer in time", hook=self.name)
        if isinstance(said, _DECISIONS):
            decision: Decision = said
            return decision
        if said is None and not stage.approves:
            return CONTINUE
        if stage.approves and isinstance(said, bool):
            return APPROVE if said else Deny()
        return read_decision(stage, said)

    async def take(self, event: Event) -> None:
        if self._on_event is not None:
            self._warn_of_decision(event, await self._call(self._on_event, event))

    def _warn_of_decision(self, event: Event, said: Any) -> None:
        """Log what a callable decided about an event: nothing comes of it."""
        action = said.get("action") if isinstance(said, dict) else None
        if isinstance(said, _DECISIONS):
            action = said.action
        if action not in (None, "", wire.CONTINUE):
            why = f"it returned {action!r}, and an event is only told"
            self._site.log.warning("what it decided has no effect", kind=event.kind, why=why)

    async def _call_in_time(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """As `_call`, for an event, within the hook's own timeout."""
        with anyio.CancelScope(deadline=self._site.reactor.now() + self.own_timeout) as scope:
            return await self._call(function, *arguments)
        assert scope.cancelled_caught
        why = f"it was cut off after {self.own_timeout:g} s, its timeout"
        raise HookTimeoutError(why, hook=self.name)

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await call(function, *arguments, threads=self._threads)
        except PicohookError:
            raise
        except Exception as error:
            raise HookError(explain(error), hook=self.name) from error


async def call(function: Callable[..., Any], *arguments: Any, threads: anyio.CapacityLimiter | None = None) -> Any:
    """What a callable returns: an async one, or one that is not, in a thread, where it blocks nobody."""
    try:
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return await function(*arguments)
        said = await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True, limiter=threads)
        return await said if inspect.isawaitable(said) else said
    except SystemExit as error:
        raise HookError(f"it called exit({error.code!r})") from None
