"""A hook that is started anew for each question and each event."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import HookTimeoutError
from ...protocol.codec import decode_value
from ...wire import words
from ...wire.text import cut, show
from ..queued_events import QueuedEventsHook

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from ...model.decisions import Decision
    from ...model.events import Event
    from ..base import HostServices, Question

UNLIMITED = 1 << 30
WARNED = 100
"""Different ignored fields that are remembered as logged."""


class OneShotHook(QueuedEventsHook):
    """A subclass sets `contract`, and says in `answer` how a context becomes a result."""

    in_process = False
    contract: ModuleType
    """`native_contract` or `jcli_contract`: what the hook is given, and what its result means."""

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
        name, context = self.contract.question(stage, payload, self.cwd)
        result = await self._ask(name, context, question.deadline)
        if stage.approves and self._host.reactor.now() > question.deadline:
            raise HookTimeoutError("no answer in time", hook=self.name)
        decision: Decision = self.contract.decide(stage, payload, result)
        return decision

    async def take(self, event: Event) -> None:
        name, context = self.contract.event(event, self.spec.events, self.cwd)
        await self._ask(name, context, self._host.reactor.now() + self.own_timeout)

    async def _ask(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        """The result, once one of the `max_in_flight` slots is free. Fields that mean nothing are logged."""
        with anyio.CancelScope(deadline=deadline) as scope:
            await self._slots.acquire()
        if scope.cancelled_caught:
            raise HookTimeoutError("timed out waiting for a free slot (max_in_flight)", hook=self.name)
        try:
            result = await self.answer(event, context, deadline)
        finally:
            self._slots.release()
        self._warn_of_ignored(event, result)
        return result

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


def read_result(text: bytes) -> dict[str, Any]:
    """The JSON object in a hook's output; an empty one for no output. Raises `ValueError` for anything else."""
    if not text.strip():
        return {}
    try:
        value = decode_value(text.strip())
    except ValueError as error:
        raise ValueError(f"its output is not JSON: {error}: {show(text.strip(), 80)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"its output is no JSON object: {show(text.strip(), 80)}")
    return value
