"""The host's side of the conversation with one process: request ids, matching of replies, the handshake, and the send queue.

It does no I/O. `receive_data` takes the bytes that were read, and returns events; `receive_eof` takes the end of the stream.
`data_to_send` returns the bytes to write. `data_sent` takes the number of bytes written, so the peer knows which requests were
sent: it does not accept a reply to a request that is still queued.

There are two queues. Requests are sent first, in order. Events wait in a bounded queue that drops its oldest, and are sent only
when no request waits. A line whose first byte was sent is always finished first.

Where the first of many is looked for while others are removed, there is an `OrderedDict`: a dict takes long to find its first
key after removals.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any

from ..errors import ProtocolError
from ..wire import words
from ..wire.text import cut, show
from . import hello
from .codec import between_id_and_params, decode, encode, notification_line
from .hints import TEXT_ID, hint_of_line, hint_of_unknown
from .known_reply import COMPACT, PlainReply, spelling_of
from .lines import LineBuffer
from .messages import InvalidLine, Message, Notification, Reply, Request, Response, read_response

GATHER = 64
"""The most buffers that `data_to_send` returns: enough for an efficient write, and within every system's limit."""
SPLICE = 32 * 1024
"""Params of this size or more are a separate buffer: they are not copied into their envelope."""
ABANDONED = 4096
"""The number of abandoned requests that are remembered: a late reply to one of them is not the hook's fault."""
BLANK_LINES = 100
"""The number of blank lines that count as one dropped line."""


class PeerState(Enum):
    """The state of the conversation."""

    NEW = "new"
    GREETING = "greeting"
    READY = "ready"
    CLOSED = "closed"


# A member of an enum is slow to look up, and every line needs these.
_READY = PeerState.READY
_CLOSED = PeerState.CLOSED


@dataclass(slots=True)
class DroppedLine:
    """The host dropped a line of the hook."""

    reason: str
    excerpt: str = ""
    late: bool = field(default=False, compare=False)
    """Whether it is the first reply to an abandoned request, which is not the hook's fault."""
    hint: str = field(default="", compare=False)
    """Advice to the author of the hook; empty if the mistake is not typical."""


@dataclass(slots=True)
class LineTooLong:
    """The hook wrote a line longer than the limit. Nothing more is read from it."""

    limit: int


ReplyReceived = tuple[Any, Reply | PlainReply]
"""The token of a request, and its reply. A request gets at most one. Only a `Reply` answers hello or a strict request."""
PeerEvent = ReplyReceived | Notification | DroppedLine | LineTooLong
"""A notification is one that the hook's capabilities allow, with an object as params: a log line or progress."""

# Each request makes one of each. They are tuples, because an object costs four times as much.
_Line = tuple[int, tuple[bytes, ...]]
"""A queued line: its size, and its buffers."""
_PLAIN = frozenset({"action", "reason"})
_Pending = tuple[int, Any, bool]
"""A request that waits for its reply: its id, its token, and whether its reply is read strictly."""


class Peer:
    """The host's side of the conversation with one process of a hook."""

    def __init__(
        self,
        *,
        max_line: int = words.MAX_LINE,
        max_outbound: int = words.MAX_OUTBOUND,
        max_events: int = 1024,
        max_event_bytes: int = 8 * 1024 * 1024,
    ) -> None:
        self.state = PeerState.NEW
        self.capabilities: frozenset[str] = frozenset()
        self.slots: int | None = None
        """The number of requests that the hook accepts at once; None if its answer to hello did not say."""
        self.dropped_events = 0
        self.received_bytes = 0
        self._lines = LineBuffer(max_line)
        self._spelling = COMPACT
        """The hook's spelling of plain replies."""
        self._max_outbound = max_outbound
        self._max_events = max_events
        self._max_event_bytes = max_event_bytes
        self._next_id = 1
        self._sent = 0
        """The id of the last request that was written completely."""
        self._pending: OrderedDict[bytes, _Pending] = OrderedDict()
        """The requests that wait for a reply, by the digits of the id, oldest first."""
        self._abandoned: OrderedDict[int, None] = OrderedDict()
        self._blank_lines = 0
        self._out: OrderedDict[int, _Line] = OrderedDict()
        """The queued lines by the ids of their requests; those of no request have negative keys."""
        self._others = 0
        """The number of queued lines that belong to no request."""
        self._offset = 0
        """The number of bytes of the first queued line that were written."""
        self._queued = 0
        """The number of bytes of queued lines that are not written yet."""
        self._events: deque[bytes] = deque()
        self._event_bytes = 0
        self._offers_events = False
        """Whether what `data_to_send` returned last were events."""

    # Sending.

    def hello(self, name: str, modes: Sequence[str], token: Any) -> int:
        """Queue the hello. No other request can be sent before its answer. Returns its id. Raises `ProtocolError`."""
        if self.state is not PeerState.NEW:
            raise ProtocolError(f"hello was already sent: the conversation is {self.state.value}")
        self.state = PeerState.GREETING
        return self.request(words.HELLO, hello.hello_params(name, modes), token)

    def accept_hello(self, result: Any) -> str | None:
        """Take the answer to hello. Returns None, or the reason for which the answer is a refusal."""
        answer = result if isinstance(result, dict) else {}
        reason = hello.refusal(answer)
        if reason is None:
            self.capabilities, self.slots = hello.capabilities(answer), hello.slots_offered(answer)
            self.state = PeerState.READY
        return reason

    def request(self, method: str, params: bytes, token: Any, strict: bool = False) -> int:  # noqa: FBT001, FBT002 - by position, because every call passes here
        """Queue a request with encoded params. Returns its id. The reply comes with `token`. Raises `ProtocolError`."""
        if self.state is not _READY and (self.state is not PeerState.GREETING or method != words.HELLO):
            raise ProtocolError(f"no request can be sent: the conversation is {self.state.value}")
        request_id = self._next_id
        digits = b"%d" % request_id
        buffers: tuple[bytes, ...]
        if len(params) < SPLICE:
            whole = b"".join((b'{"jsonrpc":"2.0","id":', digits, between_id_and_params(method), params, b"}\n"))
            buffers, size = (whole,), len(whole)
        else:
            head = b"".join((b'{"jsonrpc":"2.0","id":', digits, between_id_and_params(method)))
            buffers, size = (head, params, b"}\n"), len(head) + len(params) + 2
        if self._queued + size > self._max_outbound:
            held = f"{self._queued} of at most {self._max_outbound} bytes wait to be sent to it"
            raise ProtocolError(f"its input queue is full: {held}, and this request has {size}")
        self._next_id = request_id + 1
        self._out[request_id] = size, buffers
        self._queued += size
        self._pending[digits] = request_id, token, strict
        return request_id

    def notify(self, line: bytes) -> None:
        """Queue an event: a whole line, encoded once for all hooks that get it. Drops the oldest events if there is no room."""
        if self.state is PeerState.CLOSED:
            return
        self._events.append(line)
        self._event_bytes += len(line)
        while len(self._events) > self._max_events or (
            self._event_bytes > self._max_event_bytes and len(self._events) > 1
        ):
            self._next_event()
            self.dropped_events += 1

    def _next_event(self) -> bytes:
        event = self._events.popleft()
        self._event_bytes -= len(event)
        return event

    def abandon(self, request_id: int, reason: str) -> None:
        """Stop waiting for a request. If nothing of it was written, it is dropped. Else a hook that can cancel is told to."""
        pending = self._pending.pop(b"%d" % request_id, None)
        if pending is None or self.state is PeerState.CLOSED:
            return
        if request_id > self._sent and not (self._offset and next(iter(self._out)) == request_id):
            self._queued -= self._out.pop(request_id)[0]
            return
        self._abandoned[request_id] = None
        if len(self._abandoned) > ABANDONED:
            self._abandoned.popitem(last=False)
        if "cancel" in self.capabilities:
            params = {"id": request_id, "reason": cut(reason, words.MAX_REASON)}
            self._enqueue(notification_line(words.CANCEL, encode(params)))

    def _enqueue(self, line: bytes) -> None:
        self._others += 1
        self._out[-self._others] = len(line), (line,)
        self._queued += len(line)

    # Writing.

    @property
    def oldest(self) -> int | None:
        """The id of the request that has waited longest; None if none waits."""
        first = next(iter(self._pending), None)
        return None if first is None else int(first)

    @property
    def waiting(self) -> list[Any]:
        """The tokens of the requests that wait for a reply, oldest first."""
        return [pending[1] for pending in self._pending.values()]

    def in_flight(self) -> int:
        return len(self._pending)

    @property
    def wants_to_send(self) -> bool:
        return bool(self._out or (self._events and self.state is PeerState.READY))

    @property
    def left_of_line(self) -> int:
        """The number of bytes of the first queued line that are not written yet."""
        return next(iter(self._out.values()))[0] - self._offset if self._out else 0

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """The buffers to write next, if any. Tell `data_sent` how many of their bytes were written."""
        out = self._out
        self._offers_events = not out
        if not out:
            return list(islice(self._events, GATHER)) if self.state is _READY else ()
        if len(out) == 1 and not self._offset:
            return next(iter(out.values()))[1]
        buffers: list[bytes | memoryview] = []
        for _, parts in islice(out.values(), GATHER):
            buffers += parts
        skip = self._offset
        while skip:
            first = buffers.pop(0)
            if skip < len(first):
                buffers.insert(0, memoryview(first)[skip:])
                break
            skip -= len(first)
        return buffers[:GATHER]

    def data_sent(self, count: int) -> bool:
        """Note that `count` bytes of `data_to_send` were written. Returns whether nothing is left to write."""
        out = self._out
        if self._offers_events:
            while self._events and count >= len(self._events[0]):
                count -= len(self._next_event())
            if count:  # the next one was begun: nothing may come before its end
                self._enqueue(self._next_event())
                out.move_to_end(-self._others, last=False)
                self._queued -= count
                self._offset = count
            return not (out or self._events)
        self._queued -= count
        if not self._queued and not self._events:  # everything was written, as nearly always
            self._sent = self._next_id - 1
            out.clear()
            self._offset = 0
            return True
        count += self._offset
        while out:
            first = next(iter(out))
            size = out[first][0]
            if count < size:
                break
            count -= size
            del out[first]
            self._sent = max(self._sent, first)
        self._offset = count
        return not (out or self._events)

    # Receiving.

    def receive_data(self, data: bytes) -> Iterator[PeerEvent]:
        """The events in these bytes, one at a time. A caller that stops iterating leaves the rest unread."""
        self.received_bytes += len(data)
        if self.state is _CLOSED:
            return
        for line in self._lines.feed(data):
            digits, plain = self._spelling.read(line)
            pending = None if plain is None else self._pending.get(digits)
            if pending and plain and not pending[2] and pending[0] <= self._sent and self.state is _READY:
                del self._pending[digits]
                yield pending[1], plain
                continue
            event = self._line_received(decode(line), line)
            if event is not None:
                yield event
        if self._lines.too_long and self.state is not _CLOSED:
            self.state = PeerState.CLOSED
            yield LineTooLong(self._lines.limit)

    def receive_eof(self) -> list[Any]:
        """Note the end of the stream, and discard both queues. Returns the tokens of all requests that waited for a reply."""
        self.state = PeerState.CLOSED
        tokens = self.waiting
        self._pending.clear()
        self._out.clear()
        self.dropped_events += len(self._events)
        self._events.clear()
        self._offset = self._queued = self._event_bytes = 0
        self._offers_events = False
        return tokens

    def forget(self) -> None:
        """Free the memory of an unfinished line. Call it when no more data comes."""
        self._lines.tail = None

    def _line_received(self, message: Message, line: bytes) -> PeerEvent | None:
        """The event for a line; None for most blank lines."""
        if isinstance(message, Response):
            return self._response_received(message, line)
        if isinstance(message, InvalidLine):
            if not line or line.isspace():
                self._blank_lines += 1
                return None if self._blank_lines % BLANK_LINES else DroppedLine(f"{BLANK_LINES} blank lines")
            return DroppedLine(message.reason, show(line), hint=hint_of_line(line))
        if isinstance(message, Notification):
            return self._notification_received(message, line)
        return self._request_received(message, line)

    def _response_received(self, response: Response, line: bytes) -> PeerEvent:
        pending = self._take(response.id)
        if pending is None:
            return self._unexpected(response.id, line)
        reply = read_response(response, strict=pending[2])
        if type(reply.result) is dict and reply.result.keys() <= _PLAIN:
            self._spelling = spelling_of(line) or self._spelling
        return pending[1], reply

    def _unexpected(self, request_id: object, line: bytes) -> DroppedLine:
        if self._waiting(request_id) is not None:
            return DroppedLine("a reply to a request that was not sent yet", show(line))
        late, hint = False, ""
        if type(request_id) is int:
            late = self._abandoned.pop(request_id, self) is None
            if not 0 < request_id < self._next_id:
                hint = hint_of_unknown(request_id)
        elif isinstance(request_id, str) and request_id.encode("utf-8", "replace") in self._pending:
            hint = TEXT_ID
        return DroppedLine("a reply that no request waits for", show(line), late, hint)

    def _notification_received(self, message: Notification, line: bytes) -> PeerEvent:
        allowed = (message.method == words.LOG and "log" in self.capabilities) or (
            message.method == words.PROGRESS and "progress" in self.capabilities
        )
        if allowed and isinstance(message.params, dict):
            return message
        return DroppedLine("a notification that the host does not accept", show(line))

    def _request_received(self, message: Request, line: bytes) -> PeerEvent:
        """Answer a request with an error, so that the hook does not wait for ever. Returns the event."""
        if type(message.id) in {int, float, str}:
            error = {"code": words.METHOD_NOT_FOUND, "message": "the host offers no such method"}
            reply = encode({"jsonrpc": "2.0", "id": message.id, "error": error}) + b"\n"
            if self._queued + len(reply) <= self._max_outbound:
                self._enqueue(reply)
        return DroppedLine("a request: the host offers no methods", show(line))

    def pending_token(self, request_id: object) -> Any:
        """The token of a request that waits for a reply, or None."""
        pending = self._waiting(request_id)
        return None if pending is None else pending[1]

    def _take(self, request_id: object) -> _Pending | None:
        """Take a request out of those that wait. Returns None if it does not wait, or was not sent yet."""
        pending = self._waiting(request_id)
        if pending is None or pending[0] > self._sent:
            return None
        return self._pending.pop(b"%d" % pending[0])

    def _waiting(self, request_id: object) -> _Pending | None:
        if type(request_id) is int and 0 < request_id < self._next_id:
            return self._pending.get(b"%d" % request_id)
        return None
