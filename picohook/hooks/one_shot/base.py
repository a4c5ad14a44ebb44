"""Hooks that are asked anew each time, in j-cli's words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import HookTimeoutError
from ...wire import words
from ...wire.text import cut
from ..queued_events import QueuedEventsHook
from . import contract as jcli

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...model.decisions import Decision
    from ...model.events import Event
    from ..base import HostServices, Question

UNLIMITED = 1 << 30
WARNED = 100
"""Different parts of answers that are remembered as logged."""


class OneShotHook(QueuedEventsHook):
    """A kind of hook says in `answer` how a context becomes a result."""

    in_process = False

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._warned: set[tuple[str, str]] = set()
        self._turns = anyio.Semaphore(self.spec.max_in_flight or UNLIMITED)

    async def answer(self, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        """The result that a context leads to."""
        raise NotImplementedError

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        return self.own_timeout, "timeout"

    @property
    def cwd(self) -> str:
        """The directory that it is told of."""
        return os.path.abspath(self.spec.dir or "")

    async def handle(self, question: Question[Any]) -> Decision:
        stage, payload = question.stage, question.payload
        context = jcli.context(stage, payload, self.cwd)
        result = await self._in_turn(context, question.deadline)
        if stage.approves and self._host.reactor.now() > question.deadline:
            raise HookTimeoutError("no answer in time", hook=self.name)
        self._warn_of_ignored(context["event"], result)
        return jcli.decide(stage, payload, result)

    async def take(self, event: Event) -> None:
        context = jcli.event_context(event, self.cwd)
        result = await self._in_turn(context, self._host.reactor.now() + self.own_timeout)
        self._warn_of_ignored(context["event"], result)

    async def _in_turn(self, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        with anyio.CancelScope(deadline=deadline) as scope:
            await self._turns.acquire()
        if scope.cancelled_caught:
            raise HookTimeoutError("its turn did not come in time", hook=self.name)
        try:
            return await self.answer(context, deadline)
        finally:
            self._turns.release()

    def _warn_of_ignored(self, event: str, result: Mapping[str, Any]) -> None:
        fields = ", ".join(jcli.ignored(event, result))
        if fields:
            about = event, cut(fields, words.MAX_REASON)
            again = about in self._warned
            if len(self._warned) < WARNED:
                self._warned.add(about)
            say = self._host.log.info if again else self._host.log.warning
            say("ignored a part of its answer", at=event, fields=fields, known=", ".join(sorted(jcli.known(event))))
