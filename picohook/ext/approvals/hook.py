"""Hooks whose calls wait in the queue until a person answers."""

import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from ...errors import HookError, HookUnavailableError, PicohookError
from ...hooks.base import Hook, HostServices, Question
from ...model.decisions import AbortTurn, Approve, Continue, Decision, Deny, Retry
from ...process.runner import Runner
from ...protocol.codec import encode
from ...transport.reactor import Waiter
from ...wire import words
from ...wire.text import explain, last_words
from .grants_part import GrantsPart
from .queue import Answer, Queue, State, Waiting
from .spec import AskSpec, QueueSpec

LOOK = 0.05
"""Seconds between two looks at the queue while a call waits. A look takes microseconds."""
SPARE = 0.5
"""The most seconds between the end of a call's waiting and the hook's deadline."""
NOTIFIERS, NOTIFIED_WITHIN, SHOWN_TAIL = 4, 30.0, 400
"""The most notifiers of a hook that run at once, the seconds that each has, and the characters of its stderr in the log."""


@dataclass(eq=False, slots=True)
class _Place:
    """A call that waits for an answer, in the queue or on its way there."""

    waiting: Waiting
    answer: Waiter
    """Gets the answer, or the error because of which there is none."""
    is_in: anyio.Event = field(default_factory=anyio.Event)
    """The call is in the queue."""
    link: str = ""
    """The address of this call on the page, if one is open."""

    def told(self) -> bytes:
        """The input of the notifier."""
        return encode({**self.waiting.wire(), "link": self.link}) + b"\n"


class QueueHook(Hook):
    """Puts each call into the queue: the very bytes that approvers are asked about.

    Its task alone uses the file, in a thread, so that no disk and no lock holds up the event loop or a call whose time is over.
    """

    keeps_decisions = False
    waits_for_person = True
    spec: QueueSpec | AskSpec

    def open(self, host: HostServices) -> None:
        self._host = host
        notifier = self.spec.notifier
        self._runner = None if notifier is None else Runner(notifier, host)
        self._notifiers = anyio.CapacityLimiter(NOTIFIERS)
        self._places: dict[str, _Place] = {}
        """The calls that wait for an answer."""
        self._new: list[str] = []
        """The calls that are not in the queue yet."""
        self._left: dict[str, State] = {}
        """The calls that wait no more, and are in the queue still."""
        self._wake = anyio.Event()
        self._stopped = False
        self._queue: Queue | None = None

    async def handle(self, question: Question[Any]) -> Decision:
        now, timeout = self._host.reactor.now, question.deadline - question.begun
        # A denial that comes before the deadline has its own reason. A later one would be the hook's failure.
        end = question.deadline - min(SPARE, timeout / 4)
        waiting = Waiting(question.shared.params(), time.time() + end - now(), self._about(question))
        place = self._places[waiting.id] = _Place(waiting, self._host.reactor.waiter())
        self._new.append(waiting.id)
        self._wake.set()
        answer: Answer | Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                if self._runner is not None:
                    tasks.start_soon(self._notify, self._runner, place)
                with suppress(TimeoutError):
                    answer = await place.answer.wait(end)
                tasks.cancel_scope.cancel()
        finally:
            if self._places.pop(waiting.id, None) is not None:
                self._left[waiting.id] = "over" if now() >= end else "gone"
                self._wake.set()
        if isinstance(answer, Exception):
            why = str(answer) if isinstance(answer, PicohookError) else explain(answer)
            raise HookUnavailableError(why, cause="unreachable")
        if answer is None:
            return self._unanswered(question, f"nobody answered within {timeout:g} s")
        return self._decided(question, answer)

    def _decided(self, question: Question[Any], answer: Answer) -> Decision:
        if answer.yes:
            return Approve(reason=f"approved through {answer.by}", grant=answer.grant)
        return self._unanswered(question, f"the user said: {answer.reason}" if answer.reason else "the user said no")

    def _unanswered(self, _question: Question[Any], why: str) -> Decision:
        return Deny(why)

    async def _notify(self, runner: Runner, place: _Place) -> None:
        await place.is_in.wait()
        async with self._notifiers:
            try:
                told = await anyio.to_thread.run_sync(place.told)  # a call may be large
                ended = await runner.run(told, self._host.reactor.now() + NOTIFIED_WITHIN, {})
                tail = last_words(ended.stderr_tail, SHOWN_TAIL)
                why = f"it exited with code {ended.exit_code}: {tail}" if ended.exit_code else ""
            except Exception as error:
                why = str(error) if isinstance(error, HookError) else explain(error)
        if why:
            self._host.log.warning("nobody was notified", command=self.spec.notify[0], why=why)

    def _about(self, _question: Question[Any]) -> dict[str, Any]:
        spec, where = self.spec, ""
        with suppress(OSError):
            where = os.getcwd()  # which asks no disk
        return {
            "hook": spec.name,
            "source": spec.source,
            "filter": spec.filter.model_dump(exclude_defaults=True) if spec.filter else {},
            "grants": self._host.part(GrantsPart) is not None,
            "program": os.path.basename(sys.argv[0] if sys.argv else ""),
            "pid": os.getpid(),
            "directory": where,
        }

    # Its task.

    async def run(self) -> None:
        try:
            while not self._stopped:
                with anyio.move_on_after(LOOK if self._places or self._left else math.inf):
                    await self._wake.wait()
                self._wake = anyio.Event()
                if self._places or self._left:
                    await self._look()
        finally:
            with anyio.CancelScope(shield=True):
                await self._close(PicohookError("the host ends"))

    async def _look(self) -> None:
        """Tell the queue what is new, and give the calls the answers that came since the last look."""
        new = [self._places[one] for one in self._new if one in self._places]
        left, self._new, self._left = self._left, [], {}
        try:
            used = await anyio.to_thread.run_sync(self._exchange, new, left)
        except Exception as error:  # the file can fail in any way: no call is approved then
            if "database is locked" not in str(error.__cause__):
                self._host.log.warning("the queue of approvals failed", why=explain(error))
                await self._close(error)
            else:  # another program writes, and nothing has changed: what is in the queue waits
                self._left |= left
                self._end(new, error)
            return
        for place in new:
            place.is_in.set()
        for one in used:
            if (found := self._places.pop(one.id, None)) is not None:
                is_same = one.call == found.waiting.call
                found.answer.settle(one.answer if is_same else PicohookError(f"{one.id}: the call was changed"))

    def _exchange(self, new: Sequence[_Place], left: Mapping[str, State]) -> list[Waiting]:
        """In a thread: add and remove calls of the queue. Returns those that somebody has answered."""
        queue = self._queue = self._queue or Queue(present=True)
        if self._runner is not None:
            for place in new:
                place.link = queue.link(place.waiting.id)
        return queue.exchange([place.waiting for place in new], left)

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def _end(self, places: Iterable[_Place], error: Exception) -> None:
        for place in places:
            self._places.pop(place.waiting.id, None)
            place.answer.settle(error)

    async def _close(self, error: Exception) -> None:
        """End all calls that wait, and close the queue, which they leave with it. The next call opens it anew."""
        self._end([*self._places.values()], error)
        queue, self._queue, self._new, self._left = self._queue, None, [], {}
        if queue is not None:
            await anyio.to_thread.run_sync(queue.close)


class AskHook(QueueHook):
    """Puts what other hooks have paused into the queue: the call, or the end of a turn, as those hooks left it."""

    answers_pauses = True
    in_process = False
    spec: AskSpec

    def _about(self, question: Question[Any]) -> dict[str, Any]:
        return {**super()._about(question), "grants": False, "paused": [*question.pauses]}

    def _decided(self, question: Question[Any], answer: Answer) -> Decision:
        if answer.yes:
            return Continue(reason=f"approved through {answer.by}")
        if words.RETRY in question.stage.actions:
            return Retry(feedback=answer.reason or "the user said no")
        return super()._decided(question, answer)

    def _unanswered(self, question: Question[Any], why: str) -> Decision:
        return Deny(why) if words.DENY in question.stage.actions else AbortTurn(reason=why)
