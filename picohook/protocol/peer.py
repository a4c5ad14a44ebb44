"""One side of one conversation with one process: ids, pending requests, the handshake, what to write next.

The four verbs are those of a sans-I/O protocol: `receive_data` and `receive_eof` take what came in and give events,
`data_to_send` gives what to write and `data_sent` is told how much of it was. So "written" is known, and a reply to a
request that is still in the queue matches nothing.

Two lanes lead out. Requests go first, in order. Events wait in a bounded lane that drops its oldest, and enter the stream
only when no request waits; once the first byte of a line is out, the rest of that line is what comes next.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..errors import LocalProtocolError
from ..wire import words
from ..wire.spelling import outside
from ..wire.text import cut, escape, show
from .known_reply import Refrain
from .lines import LineBuffer
from .messages import ABSENT, Answer, Doubled, Junk, Notification, Request, Response, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GATHER = 64
"""Buffers handed out at once: enough to make a write worth its call, few enough for any system's limit."""
SPLICE = 32 * 1024
"""From this size on, parameters go out as their own buffer instead of being copied behind their envelope."""


ABANDONED = 4096
"""Requests that were sent and given up, and may still be answered, that are remembered."""
BLANK = 100
"""So many blank lines count as one that was dropped."""


class State(Enum):
    """How far the conversation is."""

    NEW = "new"
    GREETING = "greeting"
    READY = "ready"
    CLOSED = "closed"


# An enum's members are slow to come by, and these are looked at with every line.
_READY = State.READY
_CLOSED = State.CLOSED


@dataclass(slots=True)
class Told:
    """A notification that the other side may send."""

    method: str
    params: Mapping[str, Any]


@dataclass(slots=True)
class Noise:
    """Something that was dropped."""

    reason: str
    excerpt: str = ""
    late: bool = field(default=False, compare=False)
    """A first answer to a request that nobody waits for any more: not the other side's fault."""
    hint: str = field(default="", compare=False)
    """What the author of the hook probably has to change."""


@dataclass(slots=True)
class Overflow:
    """The other side wrote a line longer than the limit: nothing more can be read."""

    limit: int


Answered = tuple[Any, Answer]
"""The token that a request was asked with, and what it came to. Exactly one comes for each request that is answered."""
Event = Answered | Told | Noise | Overflow

# Plain tuples, because they are made for every request, and an object costs four times as much.
_Line = tuple[int, int, tuple[bytes, ...]]
"""A whole line on its way out: the id of the request that it is, or one of the two below; its size; its buffers."""
_NO_REQUEST, _AN_EVENT = 0, -1
_Pending = tuple[int, Any, bool]
"""A request that waits for its answer: its id, its token, and whether no sloppy answer is taken."""

GO_ON = Answer(words.GO_ON)
"""What a refrain comes to."""


class Peer:
    """The host's side of a conversation with one incarnation of one hook."""

    def __init__(
        self,
        *,
        max_line: int = words.MAX_LINE,
        max_outbound: int = words.MAX_OUTBOUND,
        max_events: int = 1024,
        max_event_bytes: int = 8 * 1024 * 1024,
    ) -> None:
        self.state = State.NEW
        self.capabilities: frozenset[str] = frozenset()
        self.dropped_events = 0
        self.received_bytes = 0
        self._lines = LineBuffer(max_line)
        self._refrain: Refrain | None = None
        self._max_outbound = max_outbound
        self._max_events = max_events
        self._max_event_bytes = max_event_bytes
        self._next_id = 1
        self._sent = 0
        """The last request that was written to its end; those before it were."""
        self._pending: dict[bytes, _Pending] = {}
        """By the digits of their ids, oldest first."""
        self._abandoned: dict[int, None] = {}
        self._blank = 0
        self._out: deque[_Line] = deque()
        self._offset = 0
        self._queued = 0
        self._events: deque[bytes] = deque()
        self._event_bytes = 0

    # What we send.

    def hello(self, name: str, modes: Sequence[str], token: Any) -> int:
        """Open the conversation. Nothing else can be sent before this is answered."""
        if self.state is not State.NEW:
            raise LocalProtocolError(f"hello was already said: the conversation is {self.state.value}")
        self.state = State.GREETING
        params = encode({"name": name, "version": words.VERSION, "modes": list(modes)})
        return self.request(words.HELLO, params, token)

    @staticmethod
    def greeting(request: int, name: str, modes: Sequence[str]) -> bytes:
        """The line that `hello` sends, made once more."""
        params = encode({"name": name, "version": words.VERSION, "modes": list(modes)})
        return b'{"jsonrpc":"2.0","id":%d%b%b}\n' % (request, _before_params(words.HELLO), params)

    def greeted(self, result: Any) -> str | None:
        """Take the answer to hello: None, or why this is a refusal."""
        if isinstance(result, dict):
            reason = _refusal(result)
            if reason is not None:
                return reason
            offered = result.get("capabilities")
            if isinstance(offered, dict):
                self.capabilities = words.CAPABILITIES & {name for name, wanted in offered.items() if wanted is True}
        self.state = State.READY
        return None

    def request(self, method: str, params: bytes, token: Any, strict: bool = False) -> int:  # noqa: FBT001, FBT002 - by position, because it is called for every question
        """Queue a request whose params are encoded already. The token comes back with its answer."""
        if self.state is not _READY and (self.state is not State.GREETING or method != words.HELLO):
            raise LocalProtocolError(f"nothing can be asked: the conversation is {self.state.value}")
        request_id = self._next_id
        digits = b"%d" % request_id
        buffers: tuple[bytes, ...]
        if len(params) < SPLICE:
            whole = b"".join((b'{"jsonrpc":"2.0","id":', digits, _before_params(method), params, b"}\n"))
            buffers, size = (whole,), len(whole)
        else:
            head = b"".join((b'{"jsonrpc":"2.0","id":', digits, _before_params(method)))
            buffers, size = (head, params, b"}\n"), len(head) + len(params) + 2
        if self._queued + size > self._max_outbound:
            raise LocalProtocolError(f"its input queue is full: {self._queued} bytes wait to be read by it")
        self._next_id = request_id + 1
        self._out.append((request_id, size, buffers))
        self._queued += size
        self._pending[digits] = request_id, token, strict
        return request_id

    def notify(self, line: bytes) -> None:
        """Queue an event: a whole line, made once for all who get it. The oldest ones make room."""
        if self.state is State.CLOSED:
            return
        self._events.append(line)
        self._event_bytes += len(line)
        while len(self._events) > self._max_events or (
            self._event_bytes > self._max_event_bytes and len(self._events) > 1
        ):
            self._event_bytes -= len(self._events.popleft())
            self.dropped_events += 1

    def abandon(self, request_id: int, reason: str) -> None:
        """Stop waiting for a request. One that was not begun is not sent at all."""
        pending = self._pending.pop(b"%d" % request_id, None)
        if pending is None or self.state is State.CLOSED:
            return
        if request_id > self._sent and not (self._offset and self._out[0][0] == request_id):
            line = next(line for line in self._out if line[0] == request_id)
            self._out.remove(line)
            self._queued -= line[1]
            return
        self._abandoned[request_id] = None
        if len(self._abandoned) > ABANDONED:
            del self._abandoned[next(iter(self._abandoned))]
        if "cancel" in self.capabilities:
            params = {"id": request_id, "reason": cut(reason, words.MAX_REASON)}
            self._enqueue(notification(words.CANCEL, encode(params)))

    def _enqueue(self, line: bytes, what: int = _NO_REQUEST) -> None:
        self._out.append((what, len(line), (line,)))
        self._queued += len(line)

    # What to write.

    @property
    def oldest(self) -> int | None:
        """The id of the request that waits longest."""
        return next((request_id for request_id, _, _ in self._pending.values()), None)

    @property
    def waiting(self) -> list[Any]:
        """The tokens of the requests that wait for their answer, oldest first."""
        return [token for _, token, _ in self._pending.values()]

    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._pending)

    @property
    def wants_to_send(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._out or (self._events and self.state is State.READY))

    @property
    def left_of_line(self) -> int:
        """How many bytes of the line that is next, or on its way, are not written."""
        return self._out[0][1] - self._offset if self._out else 0

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """The buffers to write next, if any; report with `data_sent` how much of them went out."""
        out = self._out
        if not out and self._events and self.state is State.READY:
            while self._events and len(out) < GATHER:
                event = self._events.popleft()
                self._event_bytes -= len(event)
                self._enqueue(event, _AN_EVENT)
        if not out:
            return ()
        if len(out) == 1 and not self._offset:
            return out[0][2]
        buffers: list[bytes | memoryview] = []
        for _, _, parts in islice(out, GATHER):
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
        """So many bytes of `data_to_send` were written; whether nothing is left to be written."""
        out = self._out
        self._queued -= count
        if not self._queued and not self._events:  # all of it, as nearly always
            self._sent = self._next_id - 1
            out.clear()
            self._offset = 0
            return True
        count += self._offset
        while out and count >= out[0][1]:
            what, size, _ = out.popleft()
            count -= size
            self._sent = max(self._sent, what)
        self._offset = count
        # Events that were handed out and not begun return to their lane: a request that comes now goes before them.
        while out and out[-1][0] == _AN_EVENT and (len(out) > 1 or not count):
            _, size, (event,) = out.pop()
            self._queued -= size
            self._event_bytes += size
            self._events.appendleft(event)
        return not (out or self._events)

    # What we receive.

    def receive_data(self, data: bytes) -> Iterator[Event]:
        """What these bytes say, one event at a time: stop taking events, and the rest is never looked at."""
        self.received_bytes += len(data)
        if self.state is _CLOSED:
            return
        refrain = self._refrain  # the one that this is cut by; another may be learnt meanwhile
        if refrain is None:
            yield from self._read(data)
            return
        first, parts, last = refrain.cut(data, new_line=self._lines.tail is None)
        if first:
            yield from self._read(first)
        for part in parts:
            pending = self._pending.get(part)
            if pending is not None and pending[0] <= self._sent and self.state is not _CLOSED:
                del self._pending[part]
                yield pending[1], GO_ON
            else:
                yield from self._read(refrain.whole(part))
        if last:
            yield from self._read(last)

    def _read(self, data: bytes) -> Iterator[Event]:
        for line in self._lines.feed(data):
            message = decode(line)
            event = self._result(*message, line) if isinstance(message, tuple) else self._take(message, line)
            if event is not None:
                yield event
        if self._lines.overflowed and self.state is not _CLOSED:
            self.state = State.CLOSED
            yield Overflow(self._lines.limit)

    def receive_eof(self) -> list[Any]:
        """The stream ended: an unfinished line is discarded, and the tokens of all pending requests come back."""
        self.state = State.CLOSED
        tokens = self.waiting
        self._pending.clear()
        self._out.clear()
        self.dropped_events += len(self._events)
        self._events.clear()
        self._offset = self._queued = self._event_bytes = 0
        return tokens

    def forget(self) -> None:
        """Nothing more comes in: what has come of a line that is not complete is dropped."""
        self._lines.tail = self._refrain = None

    def _result(self, request_id: int, answer: Answer, line: bytes) -> Event:
        pending = self._waiting(request_id)
        if pending is None or request_id > self._sent:
            return self._unexpected(request_id, line)
        digits = b"%d" % request_id
        del self._pending[digits]
        self._refrain = Refrain.of(line, digits, answer.result, self._lines.limit) or self._refrain
        return pending[1], answer

    def _take(self, message: Response | Request | Notification | Junk, line: bytes) -> Event | None:
        """What comes of any message that is not simply a result."""
        if isinstance(message, Response):
            return self._answered(message, line)
        if isinstance(message, Junk):
            if not line or line.isspace():
                self._blank += 1
                return None if self._blank % BLANK else Noise(f"{BLANK} blank lines")
            return Noise(message.reason, show(line), hint=hint_of(line))
        if isinstance(message, Notification):
            return self._told(message, line)
        return self._asked_by(message, line)

    def _answered(self, response: Response, line: bytes) -> Event:
        pending = self._waiting(response.id)
        if pending is None or pending[0] > self._sent:
            return self._unexpected(response.id, line)
        request_id, token, strict = pending
        del self._pending[b"%d" % request_id]
        return token, _read_answer(response, strict=strict)

    def _unexpected(self, request_id: object, line: bytes) -> Noise:
        if self._waiting(request_id) is not None:
            return Noise("a reply to a request that was not sent yet", show(line))
        late = type(request_id) is int and self._abandoned.pop(request_id, self) is None
        meant = number_meant(request_id)
        hint = hint_of_id(request_id) if meant is not None and self._waiting(meant) is not None else ""
        return Noise("a reply that no request waits for", show(line), late, hint)

    def _told(self, message: Notification, line: bytes) -> Event:
        allowed = (message.method == words.LOG and "log" in self.capabilities) or (
            message.method == words.PROGRESS and "progress" in self.capabilities
        )
        if allowed and isinstance(message.params, dict):
            return Told(message.method, message.params)
        return Noise("a notification that nobody here takes", show(line))

    def _asked_by(self, message: Request, line: bytes) -> Event:
        """Requests of the other side are answered, so that none of its callers waits for ever."""
        if type(message.id) in {int, float, str}:
            error = {"code": words.METHOD_NOT_FOUND, "message": "the host offers no such method"}
            reply = encode({"jsonrpc": "2.0", "id": message.id, "error": error}) + b"\n"
            if self._queued + len(reply) <= self._max_outbound:
                self._enqueue(reply)
        return Noise("a request, and the host offers none", show(line))

    def pending_token(self, request_id: object) -> Any:
        """The token of a request that still waits, or None."""
        pending = self._waiting(request_id)
        return None if pending is None else pending[1]

    def _waiting(self, request_id: object) -> _Pending | None:
        if type(request_id) is int and 0 < request_id < self._next_id:
            return self._pending.get(b"%d" % request_id)
        return None


@cache
def _before_params(method: str) -> bytes:
    """What of a request stands between its id and its params."""
    return b',"method":"%s","params":' % method.encode()


PRETTY = "it prints JSON over several lines, and each message has to be on one line"
NO_JSON = "it prints text to standard output, which is for the protocol alone: print to standard error"
TEXT_ID = "it sends the id back as a string, and it has to be the number that came"
FRACTION_ID = "it sends the id back with a fraction, and it has to be the whole number that came"
NO_DICT = "it prints a Python dict, which is not JSON: print json.dumps(...) of it"
NO_ENVELOPE = 'its answer has to be the "result" of {"jsonrpc": "2.0", "id": ID, "result": ...}, with the id that came'
"""What authors of hooks get wrong most often."""


def hint_of_id(request_id: object) -> str:
    """What the author of a reply that has its id in this form has to change."""
    return TEXT_ID if isinstance(request_id, str) else FRACTION_ID


def number_meant(request_id: object) -> int | None:
    """The id that was probably meant by one that is no whole number."""
    try:
        return int(request_id) if isinstance(request_id, str | float) else None
    except (ValueError, OverflowError):
        return None


def hint_of(line: bytes) -> str:
    """What the author of a line that is no message probably has to change; empty if it is not typical."""
    text = line.strip()
    if text.rstrip(b",") in _BRACKETS or (text[:1] == b'"' and b'":' in text):
        return PRETTY
    if text[:1] != b"{":
        return NO_JSON if text[:1] != b"[" else ""
    if text[:2] == b"{'":
        return NO_DICT
    return NO_ENVELOPE if text[-1:] == b"}" else ""


_BRACKETS = {b"{", b"}", b"[", b"]", b"{}", b"[]"}


def notification(method: str, params: bytes) -> bytes:
    """A whole line that expects no answer: made once, sent to everybody who is to be told."""
    return b'{"jsonrpc":"2.0","method":"%s","params":%s}\n' % (method.encode(), params)


def _refusal(result: Mapping[str, Any]) -> str | None:
    version = result.get("version", words.VERSION)
    if result.get("ok") is False:
        said = next((result[key] for key in ("reason", "error", "message") if isinstance(result.get(key), str)), "")
        return f"it says no: {escape(cut(said, words.MAX_REASON))}" if said else "it says no, and gives no reason"
    if type(version) is not int or version != words.VERSION:
        return f"it speaks version {escape(cut(repr(version), 80))}, and this host speaks {words.VERSION}"
    return None


def _read_answer(response: Response, *, strict: bool) -> Answer:
    """What a reply means that is not simply a result."""
    result, error = response.result, response.error
    failed = error is not ABSENT and error is not None
    answer = Answer()
    sloppy = _sloppiness(response)
    if response.doubled is Doubled.ON_TOP or (response.doubled is Doubled.INSIDE and strict):
        answer.error = "its answer has one key twice"
    elif failed and result is not ABSENT and result is not None:
        answer.error = "its answer has both a result and an error"
    elif failed:
        answer.code, answer.error = _read_error(error)
    elif misplaced := outside(result, response.beside):
        answer.error = misplaced
    elif sloppy and strict:
        answer.error = sloppy
    else:
        answer.warning = sloppy
        answer.result = None if result is ABSENT else result
    return answer


def _read_error(error: Any) -> tuple[int, str]:
    code = error.get("code") if isinstance(error, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    text = escape(cut(message, words.MAX_REASON)) if isinstance(message, str) else "no message"
    return (code if type(code) is int else 0), text


def _sloppiness(response: Response) -> str:
    if not response.versioned:
        return 'its answer lacks "jsonrpc": "2.0"'
    if response.result is ABSENT:
        return "its answer has neither a result nor an error"
    return ""
