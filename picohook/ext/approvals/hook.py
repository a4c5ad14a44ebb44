"""Hooks whose calls wait in the queue until a person answers."""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from ...engine.resumed import PAUSES
from ...errors import HookError, HookUnavailableError, PicohookError
from ...hooks.base import Hook
from ...model.decisions import AbortTurn, Approve, Continue, Deny, Retry
from ...process.runner import Runner
from ...protocol.codec import encode
from ...wire import words
from ...wire.text import explain, last_words
from .database import DatabaseError
from .grants_part import GrantsPart
from .queue import Answer, Queue, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...hooks.base import HostServices, Question
    from ...model.decisions import Decision
    from .queue import State
    from .spec import AskSpec, QueueSpec

T = TypeVar("T")

LOOK = 0.05
"""Seconds between two looks at the queue while a call waits. A look takes microseconds."""
SPARE = 0.5
"""The most seconds between the end of a call's waiting and the hook's deadline."""
NOTIFIERS, NOTIFIED_WITHIN, SHOWN_TAIL = 4, 30.0, 400
"""The most notifiers of a hook that run at once, the seconds that each has, and the characters of its stderr in the log."""


class Place:
    """A call's place in the queue."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.ended = anyio.Event()
        self.answer: Answer | None = None
        self.error: Exception | None = None
        """The reason why it cannot be answered."""


class QueueHook(Hook):
    """Puts each call into the queue: the very bytes that approvers are asked about.

    Its task does all that touches the file, in threads, so that no disk holds up the event loop.
    """

    keeps_decisions = False
    waits_for_person = True
    spec: QueueSpec | AskSpec

    def open(self, host: HostServices) -> None:
        self._host = host
        notifier = self.spec.notifier
        self._runner = None if notifier is None else Runner(notifier, host)
        self._notifiers, self._thread = anyio.CapacityLimiter(NOTIFIERS), anyio.CapacityLimiter(1)
        self._places: dict[str, Place] = {}
        """The calls that wait."""
        self._wake = anyio.Event()
        self._stopped = False
        self._queue: Queue | None = None
        """It is used in one thread at a time, so that no disk holds up the event loop."""
        self._seen: tuple[int, int] | None = None

    async def handle(self, question: Question[Any]) -> Decision:
        now, timeout = self._host.reactor.now, question.deadline - question.begun
        # A denial that comes before the deadline has its own reason. A later one would be the hook's failure.
        end = question.deadline - min(SPARE, timeout / 4)
        place = Place(Waiting(question.shared.params(), time.time() + end - now(), self._about()))
        try:
            with anyio.CancelScope(deadline=end):
                link = await self._in_thread(self._put, place)
                self._wake.set()
                await self._ended(place, link)
        except PicohookError as error:
            place.error = error
        finally:
            if self._places.pop(place.waiting.id, None) is not None and not place.ended.is_set():
                with anyio.CancelScope(shield=True), suppress(PicohookError):
                    await self._in_thread(self._withdraw, place, "over" if now() >= end else "gone")
        if place.error is not None:
            why = str(place.error) if isinstance(place.error, PicohookError) else explain(place.error)
            raise HookUnavailableError(why, cause="unreachable")
        if place.answer is None:
            return self._unanswered(question, f"nobody answered within {timeout:g} s")
        return self._decided(question, place.answer)

    async def _in_thread(self, work: Callable[..., T], *given: Any) -> T:
        return await anyio.to_thread.run_sync(work, *given, limiter=self._thread)

    def _decided(self, question: Question[Any], answer: Answer) -> Decision:
        if answer.yes:
            return Approve(reason=f"approved through {answer.by}", grant=answer.grant)
        return self._unanswered(question, f"the user said: {answer.reason}" if answer.reason else "the user said no")

    def _unanswered(self, _question: Question[Any], why: str) -> Decision:
        return Deny(why)

    async def _ended(self, place: Place, link: str) -> None:
        """Wait until the call is answered. Meanwhile the notifier runs, if there is one."""
        async with anyio.create_task_group() as tasks:
            if self._runner is not None:
                tasks.start_soon(self._notify, self._runner, place.waiting, link)
            await place.ended.wait()
            tasks.cancel_scope.cancel()

    async def _notify(self, runner: Runner, one: Waiting, link: str) -> None:
        about = encode({"id": one.id, "until": one.until, "link": link, **one.about})
        line = about[:-1] + b',"call":' + one.call + b"}\n"
        async with self._notifiers:
            try:
                ended = await runner.run(line, self._host.reactor.now() + NOTIFIED_WITHIN, {})
                tail = last_words(ended.stderr_tail, SHOWN_TAIL)
                why = f"it exited with code {ended.exit_code}: {tail}" if ended.exit_code else ""
            except HookError as error:
                why = str(error)
        if why:
            self._host.log.warning("nobody was notified", command=self.spec.notify[0], why=why)

    def _about(self) -> dict[str, Any]:
        spec, program = self.spec, os.path.basename(sys.argv[0] if sys.argv else "")
        rule = {} if spec.filter is None else spec.filter.model_dump(exclude_defaults=True)
        where = os.getcwd() if os.path.isdir(".") else ""
        keeps_grants = self._host.part(GrantsPart) is not None
        about = {"hook": spec.name, "source": spec.source, "filter": rule, "grants": keeps_grants}
        return {**about, "program": program, "pid": os.getpid(), "directory": where}

    # Its task.

    async def run(self) -> None:
        try:
            while not self._stopped:
                with anyio.move_on_after(LOOK if self._places else math.inf):
                    await self._wake.wait()
                self._wake = anyio.Event()
                try:
                    for place in await self._in_thread(self._look):
                        place.ended.set()
                except Exception as error:  # the file can fail in any way: no call is approved then
                    if not (isinstance(error, DatabaseError) and error.may_pass):
                        self._host.log.warning("the queue of approvals failed", why=explain(error))
                        await self._close(error)
        finally:
            with anyio.CancelScope(shield=True):
                await self._close(PicohookError("the host ends"))

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    async def _close(self, error: Exception) -> None:
        """End all calls that wait, and close the queue, which they leave with it. The next call opens it anew."""
        places, self._places = self._places, {}
        for place in places.values():
            place.error = error
            place.ended.set()
        queue, self._queue, self._seen = self._queue, None, None
        if queue is not None:
            await self._in_thread(queue.close)

    # In the thread.

    def _put(self, place: Place) -> str:
        """Returns the address at which this call alone is shown and answered; empty if no page is open."""
        queue = self._queue = self._queue or Queue(present=True)
        link = queue.link(place.waiting.id)
        queue.put(place.waiting)
        self._places[place.waiting.id] = place
        return link

    def _withdraw(self, place: Place, state: State) -> None:
        if self._queue is not None:
            self._queue.withdraw(place.waiting.id, state)

    def _look(self) -> list[Place]:
        """Use the answers that came since the last look. Returns their calls."""
        queue = self._queue
        if queue is None or (version := queue.version()) == self._seen:
            return []
        ended = [place for call in queue.answered() if (place := self._places.get(call)) is not None]
        for place in ended:
            place.answer = queue.use(place.waiting)
            if place.answer is None:
                place.error = PicohookError(f"{queue.path}: the call was changed")
        self._seen = version
        return ended


class AskHook(QueueHook):
    """Puts what other hooks have paused into the queue: the call, or the end of a turn, as those hooks left it."""

    answers_pauses = True
    in_process = False
    spec: AskSpec

    def _about(self) -> dict[str, Any]:
        return {**super()._about(), "grants": False, "paused": [*PAUSES.get()]}

    def _decided(self, question: Question[Any], answer: Answer) -> Decision:
        if answer.yes:
            return Continue(reason=f"approved through {answer.by}")
        if words.RETRY in question.stage.actions:
            return Retry(feedback=answer.reason or "the user said no")
        return super()._decided(question, answer)

    def _unanswered(self, question: Question[Any], why: str) -> Decision:
        return Deny(why) if words.DENY in question.stage.actions else AbortTurn(reason=why)
