"""A hook that is a process, and speaks the protocol on its standard streams."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ..errors import HookRefusedError, HookReplyError
from ..model.decisions import CONTINUE
from ..model.replies import read_decision
from ..process.advice import advice
from ..process.restart import StartTurns
from ..process.states import HookState
from ..process.supervisor import Supervisor
from ..wire import words
from .base import Hook, StateChange

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..errors import HookError
    from ..model.decisions import Decision
    from ..model.events import Event
    from ..model.spec import Parts
    from ..model.stages import Stage
    from ..protocol.messages import Reply
    from .base import HookStatus, HostServices, Question


def start_turns(host: HostServices) -> StartTurns:
    """The limit of how many processes of a host start at once."""
    return StartTurns(host.reactor)


class ProcessHook(Hook):
    """A hook whose process a `Supervisor` keeps running."""

    in_process = False
    takes_bytes = True
    keeps_decisions = False
    _supervisor: Supervisor
    _noted: HookError | None = None
    """The last error of the supervisor that was copied to `failures`."""

    def open(self, host: HostServices) -> None:
        self._host = host
        self._supervisor = Supervisor(
            self.spec, host, host.shared(start_turns), read=self._read, on_state=self._on_state
        )

    @property
    def parts(self) -> Parts | None:
        """The hook's settings for parts of a response; None while it is not ready, or if its hello does not offer `stream`."""
        channel = self._supervisor.channel
        return self.spec.parts if channel is not None and words.STREAM in channel.capabilities else None

    def _on_state(self, state: HookState) -> None:
        if state is HookState.READY and self.spec.parts is not None and self.parts is None:
            why = (
                f"its hello does not offer the capability `{words.STREAM}`: responses wait until it has seen them whole"
            )
            self._host.log.warning("stream has no effect", why=why)
        error = self._supervisor.last_error
        if error is not self._noted:
            self._noted, self.failures.last = error, str(error)
        if self._host.notice is not None:
            self._host.notice(StateChange(self.name, state.value, self._supervisor.pid))

    async def run(self) -> None:
        await self._supervisor.run()

    async def started(self) -> None:
        await self._supervisor.first_attempt.wait()

    def stop(self) -> None:
        self._supervisor.stop()

    def reset(self) -> None:
        """Start it again after the host gave it up."""
        self._supervisor.reset()

    def restart(self) -> None:
        """Restart its process."""
        self._supervisor.restart()

    @property
    def error(self) -> HookError | None:
        return None if self._supervisor.state is HookState.READY else self._supervisor.last_error

    def handle(self, question: Question[Any]) -> Awaitable[Decision]:
        channel = self._supervisor.channel
        if channel is None:
            return self._handle_when_ready(question)
        return channel.call(question.stage, question.shared.params(), question.deadline, question.limit, question.begun)

    async def _handle_when_ready(self, question: Question[Any]) -> Decision:
        channel = await self._supervisor.ready(question.deadline)
        now = self._host.reactor.now()
        return await channel.call(question.stage, question.shared.params(), question.deadline, question.limit, now)

    def _read(self, stage: Stage[Any], answer: Reply) -> Decision:
        """The decision in an answer. Raises `HookError` or `ValueError` if it has none."""
        if answer.error is None:
            if answer.warning:
                self._host.log.warning("accepted a sloppy answer", method=stage.method, why=answer.warning)
            return read_decision(stage, answer.result)
        if answer.code is None:
            raise HookReplyError(answer.error, hook=self.name)
        # A hook with a `WholeModeSpec` is asked at all stages of a mode, including those that its configuration does not name.
        if answer.code == words.METHOD_NOT_FOUND and stage.name not in self.spec.stages and not stage.approves:
            return CONTINUE
        why = f"error {answer.code}: {answer.error}"
        if answer.code == words.METHOD_NOT_FOUND and stage.name in self.spec.stages:
            why += f" (it has no handler for {stage.name}, which its `stages` name)"
        raise HookRefusedError(why + advice(self.spec, "", answer.error), code=answer.code, hook=self.name)

    def notify(self, event: Event) -> None:
        channel = self._supervisor.channel
        if channel is None:
            self._supervisor.counters.dropped_events += 1
        else:
            channel.notify(event.line(self.spec.events))

    async def flushed(self, deadline: float) -> bool:
        channel = self._supervisor.channel
        return channel is not None and await channel.flushed(deadline)

    def status(self) -> HookStatus:
        supervisor = self._supervisor
        return replace(
            super().status(),
            state=supervisor.state.value,
            pid=supervisor.pid,
            starts=supervisor.starts,
            containment=supervisor.containment,
            **asdict(supervisor.counters),
        )
