"""A hook that is a process, and speaks the protocol on its standard streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import HookRefusedError, HookReplyError
from ..model.decisions import CONTINUE
from ..model.replies import read_decision
from ..process.advice import advice
from ..wire import words
from .supervised import HookState, SupervisedHook

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..model.decisions import Decision
    from ..model.events import Event
    from ..model.spec import Parts
    from ..model.stages import Stage
    from ..protocol.messages import Reply
    from .base import Question


class ProcessHook(SupervisedHook):
    """A hook whose process is kept running, and is asked by the protocol."""

    in_process = False
    takes_bytes = True
    keeps_decisions = False

    @property
    def parts(self) -> Parts | None:
        """The hook's settings for parts of a response; None while it is not ready, or if its hello does not offer `stream`."""
        offers = self.channel is not None and words.STREAM in self.channel.capabilities
        return self.spec.parts if offers else None

    def _enter(self, state: HookState) -> None:
        super()._enter(state)
        if state is HookState.READY and self.spec.parts is not None and self.parts is None:
            why = (
                f"its hello does not offer the capability `{words.STREAM}`: responses wait until it has seen them whole"
            )
            self._host.log.warning("stream has no effect", why=why)

    def handle(self, question: Question[Any]) -> Awaitable[Decision]:
        channel = self.channel
        if channel is None:
            return self._handle_when_ready(question)
        return channel.call(question.stage, question.shared.params(), question.deadline, question.limit, question.begun)

    async def _handle_when_ready(self, question: Question[Any]) -> Decision:
        channel = await self.ready(question.deadline)
        return await channel.call(
            question.stage, question.shared.params(), question.deadline, question.limit, self._now()
        )

    def read(self, stage: Stage[Any], answer: Reply) -> Decision:
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
        if self.channel is None:
            self.counters.dropped_events += 1
        else:
            self.channel.notify(event.line(self.spec.events))

    async def flushed(self, deadline: float) -> bool:
        return self.channel is not None and await self.channel.flushed(deadline)
