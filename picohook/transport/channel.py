"""Calls to one process of a hook: `Peer` interprets the bytes, `LinePipe` moves them, and callers await the replies here."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from ..errors import HandshakeError, HookCrashedError, HookError, HookTimeoutError, ProtocolError
from ..model.decisions import CONTINUE, Decision
from ..model.replies import plain_decision
from ..model.stages import Stage
from ..observe.log import LEVELS, Log
from ..observe.rate_limit import RateLimit
from ..protocol.known_reply import CONTINUE_REPLY, PlainReply
from ..protocol.messages import Notification, Reply
from ..protocol.peer import DroppedLine, LineTooLong, Peer, PeerEvent
from ..protocol.raw_line import RawLine
from ..wire import words
from ..wire.text import cut
from .concurrency import ConcurrencyLimit
from .deadlines import Deadlines, no_answer
from .pipe import CHUNK, WIDE, LinePipe
from .reactor import PROGRESS, Failure, Promise, Reactor, Waiter
from .silence import SilenceProbe

DROPPED_QUOTA = 100
"""The number of lines that may be dropped in one window of `QUOTA_WINDOW` seconds. One more is a fault."""
NOTIFICATION_QUOTA = 10_000
"""The number of notifications that a hook may send in one window, if it may send any."""
QUOTA_WINDOW = 10.0
LOGGED_LINES = 50
"""The number of lines of `host.log` that are logged in a second. Further lines are not logged."""
STRIKES = 3
"""The number of timeouts of the oldest pending call, in a row, after which the process counts as hung."""
CLOSED_OUTPUT = "it closed its output"
CLOSED_INPUT = "it closed its input"
PIPE_ENDS = frozenset({CLOSED_OUTPUT, CLOSED_INPUT})
"""Faults that are usually the first sign that a process ends. Its earlier output still counts."""
WRITES_A_TURN = 32
"""The most writes before the event loop gets its turn."""


@dataclass(slots=True)
class HookCounters:
    """The counts of one hook, over all its processes."""

    calls: int = 0
    timeouts: int = 0
    dropped_lines: int = 0
    dropped_events: int = 0


class Channel:
    """Calls to one process of a hook.

    It never closes itself. A fault that makes the process useless is reported to `on_fault`; the owner then kills the process
    and calls `close(error)`, which gives every pending call that error at once.
    """

    __deletable__ = ("_deadlines", "_on_cancel", "_on_fault", "_read")  # for mypyc

    def __init__(
        self,
        reactor: Reactor,
        stdout: int,
        stdin: int,
        *,
        name: str,
        log: Log,
        counters: HookCounters,
        read: Callable[[Stage[Any], Reply], Decision],
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
        self._slots = None if max_in_flight is None else ConcurrencyLimit(reactor, max_in_flight)
        self._blocked = False
        self._scheduled = False
        self._strikes = 0
        self._struck = 0
        self._latest = 0
        self._ignoring = False
        """Whether the process's output is read and discarded."""
        self._dropped_lines = RateLimit(DROPPED_QUOTA, QUOTA_WINDOW)
        self._notifications = RateLimit(NOTIFICATION_QUOTA, QUOTA_WINDOW)
        self._logged_lines = RateLimit(LOGGED_LINES, 1.0)
        self._error: HookError | None = None
        self._flush_waiters: dict[Waiter, None] = {}
        self.failed_calls = 0
        """The number of calls that failed when the channel was closed."""
        self._hint = ""
        """Advice to the author of the hook, from a dropped line."""
        self._hint_at = 0
        """The last request that was sent before that line came."""
        self._silence: SilenceProbe | None = None
        self._deadlines = Deadlines(reactor, self._peer, self._timed_out)
        self._on_cancel = self._abandon  # stored, because each lookup of a method makes an object
        self._pipe = LinePipe(reactor, stdout, stdin, self._received, self._ended, tap=tap, name=name)

    # Calling and notifying.

    async def hello(self, modes: Sequence[str], deadline: float) -> None:
        """Send hello, and wait for an answer that accepts it. Raises `HandshakeError`."""
        call = self._reactor.promise(self._on_cancel)
        call.about, call.deadline, call.limit, call.timeout = None, deadline, deadline, 0.0
        call.request = self._peer.hello(self.name, modes, call)
        self._send(call)
        try:
            reply: Reply = await call
        except HookTimeoutError:
            if self._peer.received_bytes:
                why = f"it wrote other things{self._hinted(1)}"
            else:
                self._ignoring = True
                self._silence = SilenceProbe(self._reactor, self._pipe)
                why = await self._silence.reason()
            raise HandshakeError(f"hook.hello was not answered in time; {why}", hook=self.name) from None
        finally:
            del call  # it holds the error, whose traceback holds this frame
        if reply.error is not None:
            raise HandshakeError(f"hook.hello was answered with an error: {reply.error}", hook=self.name)
        refusal = self._peer.accept_hello(reply.result)
        if refusal is not None:
            raise HandshakeError(f"hook.hello was refused: {refusal}", hook=self.name)
        offered = self._peer.slots
        if offered is not None and (self._slots is None or offered < self._slots.free):
            self._slots = ConcurrencyLimit(self._reactor, offered)

    @property
    def capabilities(self) -> frozenset[str]:
        return self._peer.capabilities

    def end_is_explained(self) -> bool:
        """Note the end of the process. Returns whether `hello` is about to raise the cause."""
        return self._silence is not None and self._silence.ended()

    def _hinted(self, request: int) -> str:
        """The advice to add to a message; empty if no line gave any since this request was sent."""
        return f": {self._hint}" if request <= self._hint_at else ""

    def call(self, stage: Stage[Any], params: bytes, deadline: float, limit: float, now: float) -> Awaitable[Decision]:
        """Send a request. Await the result at once for the decision.

        Errors known at once are raised here, later ones when awaited. `deadline`, `limit` and `now` are times on the reactor's
        clock. A hook that reports progress moves its deadline, but never beyond `limit`.
        """
        if self._slots is None or self._error is not None:
            return self._call(stage, params, deadline, limit, now)
        return self._call_with_slot(self._slots, stage, params, deadline, limit)

    def _call(self, stage: Stage[Any], params: bytes, deadline: float, limit: float, now: float) -> Awaitable[Decision]:
        if self._error is not None:
            raise copy(self._error)
        if now >= deadline:
            raise HookTimeoutError("its deadline had passed before it was asked", hook=self.name)
        call = self._reactor.promise(self._on_cancel)
        call.about = stage
        call.deadline = deadline
        call.limit = limit
        call.timeout = deadline - now
        try:
            call.request = self._peer.request(stage.method, params, call, stage.approves)
        except ProtocolError as error:
            raise HookCrashedError(str(error), hook=self.name) from None
        self._counters.calls += 1
        self._send(call)
        return call

    async def _call_with_slot(
        self, slots: ConcurrencyLimit, stage: Stage[Any], params: bytes, deadline: float, limit: float
    ) -> Decision:
        await slots.acquire(deadline, self.name)
        try:
            return await self._call(stage, params, deadline, limit, self._reactor.now())
        finally:
            slots.release()

    def _send(self, call: Promise) -> None:
        self._latest = call.request
        if call.deadline < self._deadlines.next:
            self._deadlines.add(call)
        # A single request is written at once; several in one turn of the loop are written together.
        if self._scheduled:
            return
        if self._peer.in_flight() == 1 and not self._blocked:
            self._flush()
        else:
            self._flush_soon()

    def _abandon(self, call: Promise) -> None:
        self._peer.abandon(call.request, "the host stopped waiting")
        self._flush_soon()

    def _timed_out(self, calls: list[Promise]) -> None:
        ended: list[tuple[Promise, Failure]] = []
        for call in calls:
            self._counters.timeouts += call.about is not None
            message = no_answer(call.timeout)
            if call.about is not None and call.deadline < call.limit:  # else the time of the whole chain was used up
                message += " (approval_timeout)" if call.about.approves else " (timeout)"
            message += self._hinted(call.request)
            ended.append((call, Failure(HookTimeoutError(message, hook=self.name))))
            self._strike(call.request)
            self._abandon(call)
        self._reactor.settle(ended)

    def notify(self, line: bytes) -> None:
        """Queue an event. Never waits: if the hook is too slow, the oldest events are dropped and counted."""
        before = self._peer.dropped_events
        self._peer.notify(line)
        self._counters.dropped_events += self._peer.dropped_events - before
        self._flush_soon()

    @property
    def is_idle(self) -> bool:
        """Whether no call waits for its answer, and nothing waits to be written."""
        return not (self._peer.wants_to_send or self._peer.in_flight())

    async def flushed(self, deadline: float) -> bool:
        """Wait until everything queued is written. Returns False if it is not by the deadline, or if the channel has failed."""
        if not self.faulted and self._error is None and self._peer.wants_to_send:
            self._flush_soon()
            waiter = self._reactor.waiter()
            self._flush_waiters[waiter] = None
            try:
                await waiter.wait(deadline)
            except TimeoutError:
                return False
            finally:
                del self._flush_waiters[waiter]
        return not self.faulted and self._error is None

    # Ending.

    def close(self, error: HookError) -> None:
        """Fail every pending and every later call with this error. Output is still read, so that an ending hook can write."""
        if self._error is not None:
            return
        self._error = error
        for waiter in self._flush_waiters:
            waiter.settle(None)
        before = self._peer.dropped_events
        calls = self._peer.receive_eof()
        self.failed_calls = sum(call.about is not None for call in calls)
        self._counters.dropped_events += self._peer.dropped_events - before
        # A copy for each call, because an error collects the frames that it is raised in, and this one is kept.
        self._reactor.settle([(call, Failure(copy(error))) for call in calls])

    def close_stdin(self) -> None:
        self._pipe.close_write()

    def drain(self) -> None:
        """Read the output that the process left when it ended."""
        self._pipe.drain(max(2 * self._max_line, WIDE))

    def release(self) -> None:
        """Close both pipes and break all reference cycles, so that their memory, maybe megabytes, is freed at once."""
        self._deadlines.close()
        self._pipe.close()
        self._peer.forget()
        del self._deadlines, self._on_cancel, self._on_fault, self._read

    def _fault(self, reason: str) -> None:
        self._ignoring = self._ignoring or reason not in PIPE_ENDS
        if not self.faulted:
            self.faulted = True
            for waiter in self._flush_waiters:
                waiter.settle(None)
            self._on_fault(reason)

    def _strike(self, request: int) -> None:
        """Count a timeout; after `STRIKES` in a row the process is at fault.

        Only a timeout of the oldest call counts, because later calls may only wait for it. After one counts, the next has to be
        of a call that was sent later.
        """
        if request > self._struck and self._peer.oldest == request:
            self._struck = self._latest
            self._strikes += 1
            if self._strikes >= STRIKES:
                self._fault(f"it left {STRIKES} requests in a row without an answer")

    # The pipe's callbacks.

    def _received(self, data: bytes) -> None:
        if self._ignoring or self._error is not None:
            if self._silence is not None:
                self._silence.output.settle(data)
            return
        ended: list[tuple[Promise, Any]] = []
        try:
            for event in self._peer.receive_data(data):
                if type(event) is tuple:
                    call, reply = event
                    ended.append((call, self._outcome(call, reply)))
                else:
                    self._other_event(event)
                    self._flush_soon()
                    if self._ignoring:
                        break
        finally:  # even if an exception ends the event loop, which may run again
            if len(ended) > 1:
                self._flush_later()  # so that the callers woken now share one write
            # This comes last, because a caller may continue at once, and call again or close this channel.
            self._reactor.settle(ended)

    def _outcome(self, call: Promise, reply: Reply | PlainReply) -> Any:
        """The decision in a reply, or a `Failure`; for hello, the reply itself."""
        stage = call.about
        if stage is None:
            return reply
        self._strikes = 0
        if self._reactor.now() > call.deadline:
            return Failure(HookTimeoutError("its answer came after the deadline", hook=self.name))
        if reply is CONTINUE_REPLY and not stage.approves:
            return CONTINUE  # as nearly always
        if isinstance(reply, tuple):
            action, reason = reply
            plain = plain_decision(stage, action, reason)
            if plain is not None:
                return plain
            reply = Reply({"action": action, "reason": reason} if reason else {"action": action})
        try:
            return self._read(stage, reply)
        except BaseException as error:  # it is raised to the caller, even if it ends the program
            error.__context__ = None  # its frames refer to the call, which will hold this error
            return Failure(error.with_traceback(None))

    def _other_event(self, event: PeerEvent) -> None:
        if isinstance(event, DroppedLine):
            self._line_dropped(event)
        elif isinstance(event, LineTooLong):
            self._fault(f"it wrote a line longer than {event.limit} bytes (max_line_bytes)")
        elif isinstance(event, Notification):
            self._notified(event.method, event.params)

    def _line_dropped(self, event: DroppedLine) -> None:
        self._counters.dropped_lines += 1
        if event.late:
            self._log.debug("dropped a late answer", line=event.excerpt)
        elif self._dropped_lines.take(self._reactor.now()):
            # One mistake spoils many lines, so the advice is logged once.
            known = event.hint and event.hint == self._hint
            hint = {"hint": event.hint} if event.hint and not known else {}
            say = self._log.info if known else self._log.warning
            say("dropped a line", why=event.reason, line=event.excerpt, **hint)
        else:
            self._fault(f"in {QUOTA_WINDOW:.0f} s it wrote more than {DROPPED_QUOTA} lines that are not answers")
        if event.hint:
            self._hint, self._hint_at = event.hint, self._latest

    def _notified(self, method: str, params: Mapping[str, Any]) -> None:
        now = self._reactor.now()
        if not self._notifications.take(now):
            self._fault(f"it sent more than {NOTIFICATION_QUOTA} notifications in {QUOTA_WINDOW:.0f} s")
        elif method == words.LOG:
            if not self._logged_lines.take(now):
                return
            message = cut(str(params.get("message")), words.MAX_REASON)
            fields = cut(repr(params.get("fields")), words.MAX_REASON)
            level = params.get("level") if params.get("level") in LEVELS else "info"
            getattr(self._log, str(level))("said", message=message, fields=fields)
        else:
            call = self._peer.pending_token(params.get("id"))
            if call is not None and now <= call.deadline:
                call.deadline = min(now + call.timeout, call.limit)
                if (context := call.waiting) is not None and (told := context.get(PROGRESS)) is not None:
                    told()

    def _ended(self) -> None:
        if self._error is None and not self.end_is_explained():
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

    def _flush(self) -> None:
        if not self._write_out():
            self._blocked = True
            self._pipe.when_writable(self._writable)

    def _writable(self) -> bool:
        self._blocked = not self._write_out()
        return self._blocked

    def _write_out(self) -> bool:
        """Write the queued data. Returns False if the pipe is full, or the event loop has to get its turn."""
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
            return False
        for waiter in self._flush_waiters:
            waiter.settle(None)
        return True
