"""Hooks that are started anew for each question and each event: shell commands, by picohook's contract."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..errors import HookCrashedError
from ..process.advice import advice
from ..process.runner import Runner
from ..protocol.codec import encode
from ..transport.concurrency import ConcurrencyLimit
from ..wire import words
from ..wire.text import cut, last_words
from . import native_contract
from .queued_events import QueuedEventsHook

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from ..model.decisions import Decision
    from ..model.events import Event
    from .base import HostServices, Question

SHOWN_TAIL = 400
"""The number of characters of stderr that an error shows."""
UNLIMITED = 1 << 30
WARNED = 100
"""The number of warnings about ignored fields that are remembered, so that they are logged once."""


class OneShotHook(QueuedEventsHook):
    """A hook that is run anew for each question. A subclass sets `contract`, and implements `answer`."""

    in_process = False
    keeps_decisions = False
    contract: ModuleType
    """The form of the context, and the meaning of the result."""

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._warned: set[tuple[str, str]] = set()
        self._slots = ConcurrencyLimit(host.reactor, self.spec.max_in_flight or UNLIMITED)

    @property
    def parts(self) -> None:
        """None: it would be started anew for each part."""
        return

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        """The hook's result for a context. Raises an exception if the hook fails."""
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
        decision: Decision = self.contract.decide(stage, payload, result)
        return decision

    async def take(self, event: Event) -> None:
        name, context = self.contract.event(event, self.spec.events, self.cwd)
        await self._ask(name, context, self._host.reactor.now() + self.own_timeout)

    async def _ask(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        """The result. Waits for one of the `max_in_flight` slots, and logs fields of the result that have no meaning."""
        await self._slots.acquire(deadline, self.name)
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


class CommandHook(OneShotHook):
    """Runs its command with `sh -c`: the context is on stdin, the result on stdout. An exit code other than 0 is a failure.

    All processes that it started end with the command, at its timeout at the latest.
    """

    contract = native_contract

    def open(self, host: HostServices) -> None:
        super().open(host)
        self._runner = Runner(self.spec, host)

    async def answer(self, event: str, context: dict[str, Any], deadline: float) -> Mapping[str, Any]:
        more = self.contract.environment(event, self.cwd)
        finished = await self._runner.run(encode(context) + b"\n", deadline, more)
        if finished.exit_code:
            code, tail = finished.exit_code, finished.stderr_tail
            ended = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
            said = last_words(tail, SHOWN_TAIL)
            stderr = f"; it said: {said}{advice(self.spec, '', said)}" if said else ""
            raise HookCrashedError(f"it {ended}{stderr}", hook=self.spec.name, exit_code=code, stderr_tail=tail)
        return native_contract.read_result(finished.stdout)
