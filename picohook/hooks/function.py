"""A hook that is a Python callable in the host's own process."""

from __future__ import annotations

import inspect
from collections import deque
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from ..decisions import (
    APPROVE,
    CONTINUE,
    AbortTurn,
    Approve,
    Continue,
    Decision,
    Deny,
    HardAbort,
    Modify,
    Pause,
    Respond,
    Retry,
)
from ..errors import EncodeError, HookReplyError, HookTimeoutError
from ..protocol.messages import encode
from ..replies import read_decision
from ..spec import HookSpec
from .base import Hook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..events import Event
    from .base import Question, Site

_DECISIONS = (Approve, Continue, Modify, Respond, Deny, Retry, Pause, AbortTurn, HardAbort)


class FunctionHook(Hook):
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
        self._events: deque[Event] = deque(maxlen=1024)
        self._busy = False
        self._dropped = 0
        self._stopping = False

    def open(self, site: Site) -> None:
        self._site = site
        self._wake = anyio.Event()
        self._idle = anyio.Event()

    async def handle(self, question: Question[Any]) -> Decision:
        stage = question.stage
        with anyio.CancelScope(deadline=question.deadline) as scope:
            said = await _call(self._handlers[stage.name], question.payload)
        if scope.cancelled_caught or (stage.approves and self._site.reactor.now() > question.deadline):
            raise HookTimeoutError("no answer in time", hook=self.name)
        if said is None and not stage.approves:
            return CONTINUE
        if stage.approves and isinstance(said, bool):
            return APPROVE if said else Deny()
        if not isinstance(said, _DECISIONS):
            return read_decision(stage, said)
        if isinstance(said, Approve) is not stage.approves and not (stage.approves and isinstance(said, Deny)):
            raise HookReplyError(f"{type(said).__name__} is no answer at {stage.name}", hook=self.name)
        if isinstance(said, Modify):
            try:
                encode({"changes": dict(said.changes), "patch": said.patch})
            except EncodeError as error:
                raise HookReplyError(str(error), hook=self.name) from None
        return said

    def notify(self, event: Event) -> None:
        if self._on_event is not None:
            self._dropped += len(self._events) == self._events.maxlen
            self._events.append(event)
            self._wake.set()

    async def run(self) -> None:
        while not self._stopping:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._events and self._on_event is not None:
                event = self._events.popleft()
                try:
                    await _call(self._on_event, event)
                except Exception as error:  # noqa: BLE001 - an observer hurts nobody
                    self.metrics.at("observe").record(0.0, "error", 0)
                    self._site.log.warning("an observer failed", kind=event.kind, why=repr(error))
            self._idle.set()
            self._idle = anyio.Event()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    async def flushed(self, deadline: float) -> bool:
        with anyio.CancelScope(deadline=deadline):
            while self._events:
                await self._idle.wait()
        return not self._events


async def _call(function: Callable[[Any], Any], argument: Any) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await function(argument)
    said = await anyio.to_thread.run_sync(function, argument, abandon_on_cancel=True)
    return await said if inspect.isawaitable(said) else said
