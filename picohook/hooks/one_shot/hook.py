"""A hook that is started anew for each question and each event."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from ...errors import HookTimeoutError
from ...wire import words
from ...wire.text import cut
from ..queued_events import QueuedEventsHook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...model.decisions import Decision
    from ...model.events import Event
    from ...model.payloads import Payload
    from ...model.stages import Stage
    from ..base import HostServices, Question

UNLIMITED = 1 << 30
WARNED = 100
"""Different ignored fields that are remembered as logged."""


class Contract(Protocol):
    """What a one-shot hook is given, and what its result means: `native_contract` or `jcli_contract`."""

    def environment(self, event: str, cwd: str) -> dict[str, str]:
        """The variables that a command gets."""

    def stage_name(self, stage: Stage[Any], payload: Payload) -> str:
        """The name under which the hook is asked."""

    def kind_name(self, event: Event, dialect: str) -> str:
        """The name under which the hook is told of an event."""

    def context(self, stage: Stage[Any], payload: Payload, cwd: str) -> dict[str, Any]:
        """What the hook is given with a question."""

    def event_context(self, event: Event, dialect: str, cwd: str) -> dict[str, Any]:
        """What the hook is given with an event."""

    def decide(self, stage: Stage[Any], payload: Payload, result: Mapping[str, Any]) -> Decision:
        """The decision in a result. Raises `ValueError` for a result that the stage does not allow."""

    def known(self, event: str) -> set[str]:
        """The fields that a result may have, for the log."""

    def ignored(self, event: str, result: Mapping[str, Any]) -> list[str]:
        """The fields of a result that mean nothing."""


class OneShotHook(QueuedEventsHook):
    """A subclass sets `contract`, and says in `answer` how a context becomes a result."""

    in_process = False
    contract: Contract

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._warned: set[tuple[str, str]] = set()
        self._slots = anyio.Semaphore(self.spec.max_in_flight or UNLIMITED)

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        """The hook's result for this context."""
        raise NotImplementedError

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        return self.own_timeout, "timeout"

    @property
    def cwd(self) -> str:
        """The hook's working directory."""
        return os.path.abspath(self.spec.dir or "")

    async def handle(self, question: Question[Any]) -> Decision:
        stage, payload = question.stage, question.payload
        name = self.contract.stage_name(stage, payload)
        context = self.contract.context(stage, payload, self.cwd)
        result = await self._in_turn(name, context, question.deadline)
        if stage.approves and self._host.reactor.now() > question.deadline:
            raise HookTimeoutError("no answer in time", hook=self.name)
        self._warn_of_ignored(name, result)
        return self.decide(stage, payload, result)

    def decide(self, stage: Stage[Any], payload: Payload, result: Mapping[str, Any]) -> Decision:
        """The decision in a result. Raises `ValueError` for a result that the stage does not allow."""
        return self.contract.decide(stage, payload, result)

    async def take(self, event: Event) -> None:
        dialect = self.spec.events
        name = self.contract.kind_name(event, dialect)
        context = self.contract.event_context(event, dialect, self.cwd)
        result = await self._in_turn(name, context, self._host.reactor.now() + self.own_timeout)
        self._warn_of_ignored(name, result)

    async def _in_turn(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        with anyio.CancelScope(deadline=deadline) as scope:
            await self._slots.acquire()
        if scope.cancelled_caught:
            raise HookTimeoutError("timed out waiting for a free slot (max_in_flight)", hook=self.name)
        try:
            return await self.answer(event, context, deadline)
        finally:
            self._slots.release()

    def _warn_of_ignored(self, event: str, result: Mapping[str, Any]) -> None:
        fields = ", ".join(self.contract.ignored(event, result))
        if fields:
            about = event, cut(fields, words.MAX_REASON)
            again = about in self._warned
            if len(self._warned) < WARNED:
                self._warned.add(about)
            say = self._host.log.info if again else self._host.log.warning
            known = ", ".join(sorted(self.contract.known(event)))
            say("ignored a part of its answer", at=event, fields=fields, known=known)
