"""Calls over a pipe: `Peer` says what the bytes mean, `LinePipe` moves them, and this joins both to somebody who waits."""

from __future__ import annotations

import math
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import HandshakeError, HookCrashedError, HookError, HookReplyError, HookTimeoutError, LocalProtocolError
from ..model.decisions import CONTINUE
from ..observe.log import Allowance
from ..protocol.peer import GO_ON, Event, Noise, Overflow, Peer, Told
from ..wire import words
from ..wire.text import cut
from .pipe import CHUNK, WIDE, pipe_kind
from .reactor import Failure
from .slots import Slots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..model.decisions import Decision
    from ..model.stages import Stage
    from ..observe.log import Log
    from ..protocol.messages import Answer
    from ..protocol.raw_line import RawLine
    from .reactor import Promise, Reactor, Waiter

NOISE_QUOTA = 100
"""Dropped lines that are forgiven in one window."""
NOISE_WINDOW = 10.0
TOLD_QUOTA = 10_000
"""Notifications that a hook may send in the same window, where it may send any."""
LOGGED_LINES = 50
"""Lines of `host.log` that are logged in a second; the rest is left out."""
STRIKES = 3
"""Time-outs of the oldest pending call, in a row, after which a process counts as hung."""
CLOSED_OUTPUT = "it closed its output"
CLOSED_INPUT = "it closed its input"
PIPE_ENDS = frozenset({CLOSED_OUTPUT, CLOSED_INPUT})
"""Faults that are most often the first that is seen of a process's end. What it wrote before is still good."""
LISTEN = 0.25
"""Seconds in which a process that is given up shows why it was silent."""
FILLING = 48 * 1024
"""Bytes of further greetings: fewer than a pipe holds, and enough for the answers to fill any usual output buffer."""
NEVER = float("inf")
WRITES_A_TURN = 32
"""So many writes at most before the event loop gets its turn."""


@dataclass(slots=True)
class Counters:
    """What happened to one hook, over all its incarnations."""

    calls: int = 0
    failures: int = 0
    timeouts: int = 0
    noise: int = 0
    dropped_events: int = 0


class Channel:
    """One incarnation of one hook, as something to call.

    It has one end: `close(error)` gives every pending call that error, at once. It never ends itself; a fault that makes the
    process useless is told to `on_fault`, and its owner kills the process and closes the channel.
    """

    def __init__(
        self,
        reactor: Reactor,
        stdout: int,
        stdin: int,
        *,
        name: str,
        log: Log,
        counters: Counters,
        read: Callable[[Stage[Any], Answer], Decision],
        on_fault: Callable[[str], None],
        max_line: int = words.MAX_LINE,
        max_in_flight: int | None = None,
        tap: Callable[[RawLine], None] | None = None,
    ) -> None:
        self.name = name
        self.faulted = False
        self._reactor = reactor
        self._log = log
        self._counters = counters
        self._read = read
        self._on_fault = on_fault
        self._peer = Peer(max_line=max_line)
        self._max_line = max_line
        self._slots = None if max_in_flight is None else Slots(reactor, max_in_flight)
        self._blocked = False
        self._scheduled = False
        self._strikes = 0
        self._struck = 0
        self._latest = 0
        self._deaf = False
        self._noise_left = Allowance(NOISE_QUOTA, NOISE_WINDOW)
        self._told_left = Allowance(TOLD_QUOTA, NOISE_WINDOW)
        self._logged_left = Allowance(LOGGED_LINES, 1.0)
        self._error: HookError | None = None
        self._flush_waiters: list[Waiter] = []
        self.failed_calls = 0
        """Questions that its end left without an answer."""
        self._hint = ""
        """What the lines that were dropped show to be wrong."""
        self._hint_at = 0
        """The last request that was sent before that was seen."""
        self._listener: Waiter | None = None
        """Waits for output that is not read any more."""
        self._alarm = reactor.alarm(self._expire)
        self._rings = NEVER
        """When the alarm is set to: no later than the first deadline, and perhaps earlier, for a call that is over."""
        self._left = self._give_up  # made once: a method is an object each time that it is looked up
        self._pipe = pipe_kind(tap, name)(reactor, stdout, stdin, on_data=self._received, on_end=self._ended)

    # Asking and telling.

    async def hello(self, modes: Sequence[str], deadline: float) -> None:
        """Shake hands, or raise `HandshakeError`."""
        call = self._reactor.promise(self._left)
        call.about, call.deadline, call.limit, call.patience = None, deadline, deadline, 0.0
        call.request = self._peer.hello(self.name, modes, call)
        self._send(call)
        try:
            answer: Answer = await call
        except HookTimeoutError:
            why = (
                f"it wrote other things{self._hinted(1)}" if self.wrote else await self._why_silent(call.request, modes)
            )
            raise HandshakeError(f"hook.hello was not answered in time; {why}", hook=self.name) from None
        finally:
            del call  # which has the error, whose traceback has this frame
        if answer.error is not None:
            raise HandshakeError(f"hook.hello was answered with an error: {answer.error}", hook=self.name)
        refusal = self._peer.greeted(answer.result)
        if refusal is not None:
            raise HandshakeError(f"hook.hello was refused: {refusal}", hook=self.name)
        offered = answer.result.get("max_in_flight") if isinstance(answer.result, dict) else None
        if type(offered) is int and offered > 0 and (self._slots is None or offered < self._slots.free):
            self._slots = Slots(self._reactor, offered)

    async def _why_silent(self, request: int, modes: Sequence[str]) -> str:
        """Why a process that is given up wrote nothing. What it is sent for that only makes it show what it holds back."""
        self._deaf = True
        again = self._peer.greeting(request, self.name, modes)
        with suppress(OSError):
            self._pipe.write([again * (FILLING // len(again))])
        if await self._heard():
            return "it holds its answers back: flush standard output after each of them"
        self.close_stdin()
        if await self._heard():
            return (
                "it answered when its input was closed: answer each line as it comes, and do not read to the end first"
            )
        return "it wrote nothing at all: does it read its input line by line, and flush its output?"

    async def _heard(self) -> bool:
        self._listener = self._reactor.waiter()
        try:
            return bool(await self._listener.wait(self._reactor.now() + LISTEN))
        except TimeoutError:
            return False

    @property
    def wrote(self) -> bool:
        """Whether the process has written anything."""
        return self._peer.received_bytes > 0

    def _hinted(self, request: int) -> str:
        """What is probably wrong, if that was seen since this request was sent."""
        return f": {self._hint}" if request <= self._hint_at else ""

    def call(  # noqa: PLR0917
        self,
        stage: Stage[Any],
        params: bytes,
        deadline: float,
        limit: float,
        now: float,
        in_turn: bool = False,  # noqa: FBT001, FBT002 - by position, because it is called for every question
    ) -> Awaitable[Decision]:
        """Ask, and give the decision; or raise, here or when it is awaited, what says why there is none.

        `deadline`, `limit` and `now` are on the reactor's clock: the hook may move the deadline by showing progress, and never
        past the limit. Await it at once. `in_turn`: where the hook takes so many at most, this one has its slot.
        """
        if self._error is not None:
            raise copy(self._error)
        if self._slots is not None and not in_turn:
            return self._call_in_turn(self._slots, stage, params, deadline, limit)
        if now >= deadline:
            raise HookTimeoutError("its time was over before it was asked", hook=self.name)
        call = self._reactor.promise(self._left)
        call.about = stage
        call.deadline = deadline
        call.limit = limit
        call.patience = deadline - now
        try:
            call.request = self._peer.request(stage.method, params, call, stage.approves)
        except LocalProtocolError as error:
            raise HookCrashedError(str(error), hook=self.name) from None
        self._counters.calls += 1
        self._send(call)
        return call

    async def _call_in_turn(
        self, slots: Slots, stage: Stage[Any], params: bytes, deadline: float, limit: float
    ) -> Decision:
        await slots.take(deadline, self.name)
        try:
            return await self.call(stage, params, deadline, limit, self._reactor.now(), in_turn=True)
        finally:
            slots.give_back()

    def _send(self, call: Promise) -> None:
        self._latest = call.request
        if call.deadline < self._rings:
            self._ring_at(call.deadline)
        # Alone, a request is written at once; in company, all of one turn's requests go out together.
        if self._scheduled:
            return
        if self._peer.in_flight() == 1 and not self._blocked:
            self._flush()
        else:
            self._flush_soon()

    def _give_up(self, call: Promise) -> None:
        self._peer.abandon(call.request, "the host stopped waiting")
        self._flush_soon()

    def _ring_at(self, when: float) -> None:
        self._rings = when
        if when < NEVER:
            self._alarm.set(when)

    def _expire(self) -> None:
        """End the calls whose deadline is over, and set the alarm to the next one's."""
        now, following = self._reactor.now(), NEVER
        over: list[tuple[Promise, Failure]] = []
        for call in self._peer.waiting:
            if call.deadline <= now:
                self._counters.timeouts += call.about is not None
                message = f"no answer within {_shown(call.patience)} s{self._hinted(call.request)}"
                late = HookTimeoutError(message, hook=self.name)
                over.append((call, Failure(late)))
                self._strike(call.request)
                self._give_up(call)
            else:
                following = min(following, call.deadline)
        self._ring_at(following)
        self._reactor.settle(over)

    def notify(self, line: bytes) -> None:
        """Queue an event. Never waits; when the hook does not keep up, the oldest events are dropped and counted."""
        before = self._peer.dropped_events
        self._peer.notify(line)
        self._counters.dropped_events += self._peer.dropped_events - before
        self._flush_soon()

    async def flushed(self, deadline: float) -> bool:
        """Whether all that was queued is written, waiting for it until the deadline."""
        if not self.faulted and self._error is None and self._peer.wants_to_send:
            self._flush_soon()
            waiter = self._reactor.waiter()
            self._flush_waiters.append(waiter)
            try:
                await waiter.wait(deadline)
            except TimeoutError:
                return False
            finally:
                self._flush_waiters.remove(waiter)
        return not self.faulted and self._error is None

    # Ending.

    def close(self, error: HookError) -> None:
        """End every pending call with this error, and every later one. Output is read on, so that a dying hook can write."""
        if self._error is not None:
            return
        self._error = error
        for waiter in self._flush_waiters:
            waiter.settle(None)
        before = self._peer.dropped_events
        calls = self._peer.receive_eof()
        self.failed_calls = sum(call.about is not None for call in calls)
        self._counters.dropped_events += self._peer.dropped_events - before
        # A copy for each: an error gathers the frames that it is raised in, and this one is kept.
        self._reactor.settle([(call, Failure(copy(error))) for call in calls])

    def close_stdin(self) -> None:
        """The hook reads the end of its input."""
        self._pipe.close_write()

    def drain(self) -> None:
        """Read what the process had written, before it is said that it ended."""
        self._pipe.drain(max(2 * self._max_line, WIDE))

    def release(self) -> None:
        """Close both pipes, and let go of what leads back to this: it may hold megabytes, which are freed at once."""
        self._alarm.off()
        self._pipe.close()
        self._peer.forget()
        del self._alarm, self._left, self._on_fault, self._read

    def _fault(self, reason: str) -> None:
        self._deaf = self._deaf or reason not in PIPE_ENDS
        if not self.faulted:
            self.faulted = True
            for waiter in self._flush_waiters:
                waiter.settle(None)
            self._on_fault(reason)

    def _strike(self, request: int) -> None:
        """A call timed out. Only the oldest one counts: those behind it may just be waiting their turn.

        So do those that were asked before the last one that counted, when it makes them the oldest.
        """
        if self._peer.oldest == request and request > self._struck:
            self._struck = self._latest
            self._strikes += 1
            if self._strikes >= STRIKES:
                self._fault(f"it left {STRIKES} requests in a row without an answer")

    # The pipe's callbacks.

    def _received(self, data: bytes) -> None:
        if self._deaf or self._error is not None:
            if self._listener is not None:
                self._listener.settle(True)
            return
        ended: list[tuple[Promise, Any]] = []
        try:
            for event in self._peer.receive_data(data):
                if type(event) is tuple:
                    call, answer = event
                    ended.append((call, self._said(call, answer)))
                else:
                    self._other(event)
                    self._flush_soon()
                    if self._deaf:
                        break
        except BaseException:  # what ends the event loop; whoever runs it on finds these answered
            self._reactor.soon(lambda: self._reactor.settle(ended))
            raise
        if len(ended) > 1:
            self._flush_later()  # what they ask next is company
        # Last of all: who waits goes on at once, and may ask again, or end this channel.
        self._reactor.settle(ended)

    def _said(self, call: Promise, answer: Answer) -> Any:
        """What an answer decides, or why it does not."""
        stage = call.about
        if stage is None:
            return answer
        self._strikes = 0
        if answer is GO_ON and not stage.approves:
            return CONTINUE  # as nearly always
        if stage.approves and self._reactor.now() > call.deadline:
            return Failure(HookTimeoutError("its answer came after the deadline", hook=self.name))
        try:
            return self._read(stage, answer)
        except Exception as error:  # noqa: BLE001 - it is for who asked
            error.__context__ = None  # its frames lead to the call, which is to have this error
            return Failure(error.with_traceback(None))
        except BaseException:  # what ends the event loop, as in `_received`
            unread = Failure(HookReplyError("its answer was not read to its end", hook=self.name))
            self._reactor.soon(lambda: self._reactor.settle([(call, unread)]))
            raise

    def _other(self, event: Event) -> None:
        if isinstance(event, Noise):
            self._noise(event)
        elif isinstance(event, Overflow):
            self._fault(f"it wrote a line longer than {event.limit} bytes")
        elif isinstance(event, Told):
            self._told(event.method, event.params)

    def _noise(self, event: Noise) -> None:
        self._counters.noise += 1
        if event.late:
            self._log.debug("dropped a late answer", line=event.excerpt)
        elif self._noise_left.take(self._reactor.now()):
            # One mistake makes many lines: what is wrong with them is said once.
            known = event.hint and event.hint == self._hint
            hint = {"hint": event.hint} if event.hint and not known else {}
            say = self._log.info if known else self._log.warning
            say("dropped a line", why=event.reason, line=event.excerpt, **hint)
        else:
            self._fault(f"it wrote more than {NOISE_QUOTA} lines in {NOISE_WINDOW:.0f} s that are no answers")
        if event.hint:
            self._hint, self._hint_at = event.hint, self._latest

    def _told(self, method: str, params: Mapping[str, Any]) -> None:
        now = self._reactor.now()
        if not self._told_left.take(now):
            self._fault(f"it sent more than {TOLD_QUOTA} notifications in {NOISE_WINDOW:.0f} s")
        elif method == words.LOG:
            if not self._logged_left.take(now):
                return
            message, level = params.get("message"), params.get("level")
            say = {"debug": self._log.debug, "warning": self._log.warning, "error": self._log.error}
            say.get(level if isinstance(level, str) else "", self._log.info)(
                "said",
                message=cut(str(message), words.MAX_REASON),
                fields=cut(repr(params.get("fields")), words.MAX_REASON),
            )
        else:
            call = self._peer.pending_token(params.get("id"))
            if call is not None:
                call.deadline = min(now + call.patience, call.limit)

    def _ended(self) -> None:
        if self._error is None:
            self._fault(CLOSED_OUTPUT)

    # Writing.

    def _flush_soon(self) -> None:
        if self._peer.wants_to_send:
            self._flush_later()

    def _flush_later(self) -> None:
        if not self._scheduled and not self._blocked:
            self._scheduled = True
            self._reactor.soon(self._flush_scheduled)

    def _flush_scheduled(self) -> None:
        self._scheduled = False
        if not self._blocked:
            self._flush()

    def _writable(self) -> bool:
        self._blocked = False
        self._blocked = not self._write_out()
        return self._blocked

    def _flush(self) -> None:
        if not self._write_out():
            self._blocked = True
            self._pipe.when_writable(self._writable)

    def _write_out(self) -> bool:
        """Write what waits; False if the pipe took less."""
        peer = self._peer
        for _ in range(WRITES_A_TURN):
            buffers = peer.data_to_send()
            try:
                if not buffers or peer.data_sent(written := self._pipe.write(buffers)):
                    break
            except OSError:
                self._fault(CLOSED_INPUT)
                return True
            full = written < sum(map(len, buffers))
            if full and not (peer.left_of_line > CHUNK and self._pipe.widen()):
                return False
        else:
            self._flush_soon()
            return True
        for waiter in self._flush_waiters:
            waiter.settle(None)
        return True


def _shown(patience: float) -> str:
    """In seconds, as it was set: what went by before the hook was asked is less than a millisecond, and counted in here."""
    millis = math.ceil(round(patience * 1000, 3))
    return f"{float(f'{millis / 1000:.3g}'):g}"
