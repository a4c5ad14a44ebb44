"""A hook whose calls wait in the queue until a person answers."""

from __future__ import annotations

import os
import queue as queues
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import current_token

from ...errors import HookError, HookUnavailableError, PicohookError
from ...hooks.base import Hook
from ...model.decisions import Approve, Deny
from ...process.runner import Runner
from ...protocol.codec import encode
from ...wire.text import explain, last_words
from .database import DatabaseError
from .grants_part import GrantsPart
from .presence import Presence
from .queue import Answer, Queue, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...hooks.base import HostServices, Question
    from ...model.decisions import Decision
    from .queue import State
    from .spec import QueueSpec

LOOK = 0.05
"""Seconds between two looks at the queue while a call waits. A look takes microseconds."""
LAST_RESORT = 5.0
"""Seconds in which the thread has to end."""
SPARE = 0.5
"""The most seconds between the end of a call's waiting and the hook's deadline."""
NOTIFIERS, NOTIFIED_WITHIN, SHOWN_TAIL = 4, 30.0, 400
"""The most notifiers of a hook that run at once, the seconds that each has, and the characters of its stderr in the log."""


class Place:
    """A call's place in the queue."""

    def __init__(self, waiting: Waiting) -> None:
        self.waiting = waiting
        self.placed, self.ended = anyio.Event(), anyio.Event()
        self.answer: Answer | None = None
        self.error = ""
        """The reason why it cannot be answered."""
        self.link = ""
        """The address at which this call alone is shown and answered; empty if no page is open."""

    def end(self) -> None:
        """Let those who wait for it continue."""
        self.placed.set()
        self.ended.set()


class QueueHook(Hook):
    """Puts each call into the queue: the very bytes that approvers are asked about."""

    keeps_decisions = False
    waits_for_person = True
    spec: QueueSpec

    def open(self, host: HostServices) -> None:
        self._host = host
        self._desk = host.shared(Desk)
        notifier = self.spec.notifier
        self._runner = None if notifier is None else Runner(notifier, host)
        self._notifiers = anyio.CapacityLimiter(NOTIFIERS)

    async def handle(self, question: Question[Any]) -> Decision:
        now, timeout = self._host.reactor.now, question.deadline - question.begun
        # A denial that comes before the deadline has its own reason. A later one would be the hook's failure.
        end = question.deadline - min(SPARE, timeout / 4)
        place = Place(Waiting(question.shared.params(), time.time() + end - now(), self._about()))
        try:
            with anyio.CancelScope(deadline=end):
                await self._desk.put(place)
                await self._ended(place)
        finally:
            if not place.ended.is_set():
                self._desk.leave(place, "over" if now() >= end else "gone")
        if place.error:
            raise HookUnavailableError(place.error, cause="unreachable")
        if place.answer is None:
            return Deny(f"nobody answered within {timeout:g} s")
        if place.answer.yes:
            return Approve(reason=f"approved through {place.answer.by}", grant=place.answer.grant)
        return Deny(f"the user said: {place.answer.reason}" if place.answer.reason else "the user said no")

    async def _ended(self, place: Place) -> None:
        """Wait until the call is answered. Meanwhile the notifier runs, if there is one."""
        async with anyio.create_task_group() as tasks:
            if self._runner is not None and not place.error:
                tasks.start_soon(self._notify, self._runner, place)
            await place.ended.wait()
            tasks.cancel_scope.cancel()

    async def _notify(self, runner: Runner, place: Place) -> None:
        one = place.waiting
        about = encode({"id": one.id, "until": one.until, "link": place.link, **one.about})
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


class Desk:
    """The queue as one host uses it: in a thread of its own, so that no disk holds up the event loop.

    The thread starts with the first call. While a call waits, it looks at the queue every `LOOK` seconds.
    """

    def __init__(self, host: HostServices) -> None:
        self._log = host.log
        self._jobs: queues.SimpleQueue[Callable[[], None] | None] = queues.SimpleQueue()
        self._thread: threading.Thread | None = None
        # The thread's own:
        self._opened: tuple[Queue, Presence] | None = None
        self._places: dict[str, Place] = {}
        self._seen: tuple[int, int] | None = None
        self._next_look = 0.0

    # In the event loop.

    async def put(self, place: Place) -> None:
        """Put a call into the queue. If that fails, the place has ended with the error."""
        if self._thread is None:
            self._token = current_token()
            self._thread = threading.Thread(target=self._run, name="picohook approvals", daemon=True)
            self._thread.start()
        self._jobs.put(lambda: self._put(place))
        await place.placed.wait()

    def leave(self, place: Place, state: State) -> None:
        """Take a call out of the queue if it is still there. Does not wait."""
        self._jobs.put(lambda: self._leave(place, state))

    async def aclose(self) -> None:
        """End the thread. Calls that still wait leave the queue."""
        if self._thread is not None:
            self._jobs.put(None)
            await anyio.to_thread.run_sync(self._thread.join, LAST_RESORT)

    # In the thread.

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=LOOK if self._places else None)
                if job is None:
                    break
                job()
            except queues.Empty:
                pass
            except Exception as error:  # the file can fail in any way: no call is approved then
                self._fail(error)
            if self._places and time.monotonic() >= self._next_look:
                self._next_look = time.monotonic() + LOOK
                try:
                    self._look()
                except Exception as error:
                    self._fail(error)
        self._close()

    def _put(self, place: Place) -> None:
        try:
            if self._opened is None:
                opened = Queue()
                self._opened = opened, Presence(opened.directory)
            queue, presence = self._opened
            place.link = queue.link(place.waiting.id)
            queue.put(presence.name, place.waiting)
            self._places[place.waiting.id] = place
        except Exception as error:  # the other calls may still be answered
            self._end(place, error)
        self._tell(place.placed.set)

    def _look(self) -> None:
        """Use the answers that came since the last look."""
        assert self._opened is not None
        queue, presence = self._opened
        version = queue.version()
        for call in queue.answered(presence.name) if version != self._seen else ():
            place = self._places.get(call)
            if place is not None:
                place.answer = queue.use(place.waiting)
                self._end(place, PicohookError(f"{queue.path}: the call was changed") if place.answer is None else None)
        self._seen = version

    def _end(self, place: Place, error: Exception | None) -> None:
        self._places.pop(place.waiting.id, None)
        if error is not None:
            place.error = str(error) if isinstance(error, PicohookError) else explain(error)
        self._tell(place.end)

    def _tell(self, callback: Callable[[], None]) -> None:
        with suppress(Exception):  # the event loop has ended, and nobody waits
            anyio.from_thread.run_sync(callback, token=self._token)

    def _leave(self, place: Place, state: State) -> None:
        if self._places.pop(place.waiting.id, None) is not None and self._opened is not None:
            self._opened[0].withdraw(place.waiting.id, state)

    def _fail(self, error: Exception) -> None:
        """Deny all calls that wait, if no answer can be read. The next call opens the queue anew."""
        if isinstance(error, DatabaseError) and error.may_pass:
            return
        self._log.warning("the queue of approvals failed", why=explain(error))
        for place in [*self._places.values()]:
            self._end(place, error)
        self._close()

    def _close(self) -> None:
        for place in [*self._places.values()]:
            with suppress(PicohookError):
                self._leave(place, "gone")
        if self._opened is not None:
            self._opened[1].close()
            self._opened[0].close()
        self._opened = self._seen = None
