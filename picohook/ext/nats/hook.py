"""A hook that workers serve over NATS, for many hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from ...errors import HookError, HookRefusedError, HookReplyError, HookTimeoutError, HookUnavailableError
from ...hooks.base import Hook, HookStatus, Question, StateChange
from ...model.replies import read_decision
from . import connection as states
from .answers import EDIT_REFUSED
from .breaker import Breaker
from .calls import ABSENT, BUSY, Calls
from .connection import Connections
from .subjects import ANY

if TYPE_CHECKING:
    from ...hooks.base import HostServices
    from ...model.decisions import Decision
    from ...model.stages import Stage
    from ...protocol.messages import Reply
    from .connection import NatsConnection
    from .settings import NatsSpec

SECOND_TRY = 0.05
"""Seconds before the second try if no worker was there: a worker that replaces another may not listen yet."""
FORBIDDEN, OPEN = states.FORBIDDEN, "breaker"
_AWAY = frozenset({states.CONNECTING, states.DISCONNECTED})
_UNSEEN = frozenset({ABSENT, BUSY})
"""Causes for which no worker can have begun with the question."""


class NatsHook(Hook):
    """`nats = "NAME"`: the hook of this name that workers serve. See `picohook worker`.

    It fails at once, and not at its deadline, if there is no connection, if no worker is there, or if all are busy. A failure
    is never an approval.
    """

    in_process = False
    takes_bytes = True
    keeps_decisions = False
    spec: NatsSpec
    _connection: NatsConnection
    _calls: Calls

    def __init__(self, spec: NatsSpec) -> None:
        super().__init__(spec)
        self.breaker = Breaker()
        self._shown = states.CONNECTING

    def open(self, host: HostServices) -> None:
        self._host = host
        self._connections = host.shared(Connections)
        self._connection = self._connections.of(self.spec.connection)
        self._calls = Calls(
            self._connection, self.spec.nats, self.breaker, host.reactor, host.log, name=self.name, read=self._read
        )
        self._ending = anyio.Event()
        self._listening = anyio.Event()
        self._awaited_until = host.reactor.now() + (self.spec.hello_timeout or host.timeouts.hello)

    async def run(self) -> None:
        self._connection.on_change.add(self._changed)
        try:
            await self._calls.open()
            self._listening.set()
            self._changed()
            await self._ending.wait()
        finally:
            self._connection.on_change.discard(self._changed)
            with anyio.CancelScope(shield=True):
                await self._calls.aclose()
                await self._connections.leave(self._connection)

    def stop(self) -> None:
        self._ending.set()

    async def started(self) -> None:
        patience = max(0.0, self._awaited_until - self._host.reactor.now())
        if await self._connection.connected(patience):
            with anyio.move_on_after(patience):
                await self._listening.wait()

    @property
    def error(self) -> HookError | None:
        if self.state == FORBIDDEN:
            return HookUnavailableError(self._connection.last_error, cause=FORBIDDEN, hook=self.name)
        if not self._connection.is_connected:
            return HookUnavailableError(str(self._connection.unreachable()), cause=states.UNREACHABLE, hook=self.name)
        return None

    @property
    def state(self) -> str:
        """`ready`, or why it is not asked: connecting, disconnected, forbidden, or breaker open."""
        if not self._connection.is_connected:
            known = self._connection.state
            return states.DISCONNECTED if known == states.CONNECTED else known
        if self._calls.is_refused:
            return FORBIDDEN
        return "breaker open" if self.breaker.is_open else "ready"

    # Asking.

    async def handle(self, question: Question[Any]) -> Decision:
        """Ask the workers, if the breaker allows it, and report the result to the breaker."""
        breaker = self.breaker
        if breaker.is_open and not breaker.allows(question.begun):
            raise self.error or HookUnavailableError(
                f"its breaker is open, no worker answers: {breaker.why}", cause=OPEN, hook=self.name
            )
        worker, answers = breaker.worker(question.begun), breaker.answers
        try:
            try:
                decision = await self._calls.call(question, worker, question.begun)
            except HookUnavailableError as error:
                now = await self._second_try(error, worker, question.deadline)
                worker = ANY
                decision = await self._calls.call(question, worker, now)
        except HookTimeoutError as error:
            breaker.failed(worker, str(error), answers, self._host.reactor.now())
            self._changed()
            raise
        if self._shown != "ready":
            self._changed()
        return decision

    async def _second_try(self, error: HookUnavailableError, worker: str, deadline: float) -> float:
        """Returns the time of a second try. Raises the error if it is too late, or a worker may have the question."""
        if error.cause == ABSENT:
            self.breaker.gone(worker)
        wait = SECOND_TRY if error.cause == ABSENT and worker == ANY else 0.0
        now = self._host.reactor.now
        if error.cause not in _UNSEEN or now() + wait >= deadline:
            raise error
        if wait:
            await anyio.sleep(wait)
        return now()

    def _read(self, stage: Stage[Any], answer: Reply) -> Decision:
        """The decision in an answer. Raises `HookError` or `ValueError` if it has none."""
        if answer.error is None:
            decision = read_decision(stage, answer.result)
            if type(answer.result) is dict and answer.result.get(EDIT_REFUSED) is True:
                self.metrics.stages[stage.name].refused_edits += 1
            return decision
        if answer.code is None:
            raise HookReplyError(answer.error, hook=self.name)
        raise HookRefusedError(f"error {answer.code}: {answer.error}", code=answer.code, hook=self.name)

    def _changed(self) -> None:
        """The connection or the breaker may have changed: fail the calls that can get no answer, and tell the new state."""
        self._calls.connection_changed()
        if self._shown in _AWAY and self._connection.is_connected:
            self.breaker.close()  # the workers may be back with the server
        state = self.state
        if state == self._shown:
            return
        self._shown = state
        say = self._host.log.info if state == "ready" else self._host.log.warning
        say("state changed", state=state, why=self.breaker.why if self.breaker.is_open else self._connection.last_error)
        if self._host.notice is not None:
            self._host.notice(StateChange(self.name, state))

    def status(self) -> HookStatus:
        calls = self._calls
        return HookStatus(
            self.name,
            self.state,
            calls=calls.calls,
            failures=self.metrics.failures,
            timeouts=calls.timeouts,
            dropped_lines=calls.late,
            last_error=self.failures.last,
            stages=self.metrics.wire(),
        )
