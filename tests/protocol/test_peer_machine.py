"""Any conversation at all: every request ends exactly once, and the stream to the hook is made of whole lines."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from picohook.errors import ProtocolError
from picohook.protocol.codec import notification_line
from picohook.protocol.messages import Reply
from picohook.protocol.peer import SPLICE, DroppedLine, LineTooLong, Peer, PeerState

MAX_LINE = 200

REPLIES = {
    "a result": b'{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}',
    "an error": b'{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":"no"}}',
    "both": b'{"jsonrpc":"2.0","id":%d,"result":{},"error":{"code":%d}}',
    "neither": b'{"jsonrpc":"2.0","id":%d}',
    "no version": b'{"id":%d,"result":{}}',
    "a key twice": b'{"jsonrpc":"2.0","id":%d,"result":{"a":1,"a":2}}',
    "a key twice inside": b'{"jsonrpc":"2.0","id":%d,"result":{"a":{"b":1,"b":2}}}',
}
TAKEN = {"a result": True, "neither": False, "no version": False, "a key twice inside": False}
"""The replies that give a result; and whether they do so for a strict request too."""


class Conversation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer(max_line=MAX_LINE, max_outbound=4 * SPLICE, max_events=5, max_event_bytes=500)
        self.peer.hello("a hook", ["tool"], "hello")
        self.stream = b""
        self.waiting = {1: ("hello", False)}
        self.ended: Counter[str] = Counter()
        self.asked = 1
        self.events = 0
        self.write(10**9)
        ((token, _),) = self.peer.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        self.peer.accept_hello({"capabilities": {"cancel": True}})
        self.end(token, 1)
        self.pending_input = b""

    requests = Bundle("requests")

    def end(self, token: str, request: int) -> None:
        assert self.waiting.pop(request)[0] == token
        self.ended[token] += 1

    def written(self) -> list[dict]:
        *lines, _ = self.stream.split(b"\n")
        return [json.loads(line) for line in lines]

    @rule(target=requests, strict=st.booleans(), size=st.sampled_from([2, 40, SPLICE, 2 * SPLICE]))
    def ask(self, strict, size):
        token = f"request {self.asked}"
        try:
            request = self.peer.request("hook.x", b'"%s"' % (b"x" * (size - 2)), token, strict=strict)
        except ProtocolError:
            return self.asked
        self.asked += 1
        assert request == self.asked
        self.waiting[request] = (token, strict)
        return request

    @rule()
    def tell(self):
        self.peer.notify(notification_line("hook.event", b'{"n":%d}' % self.events))
        self.events += 1

    @rule(most=st.one_of(st.integers(0, 100), st.sampled_from([SPLICE - 20, SPLICE, 10**9])))
    def write(self, most):
        while most and self.peer.wants_to_send:
            data = b"".join(self.peer.data_to_send())[:most]
            self.peer.data_sent(len(data))
            self.stream += data
            most -= len(data)

    def hear(self, line: bytes) -> list:
        if self.peer.state is PeerState.CLOSED:
            return list(self.peer.receive_data(line + b"\n"))
        (event,) = self.peer.receive_data(line + b"\n")
        return [event]

    @rule(request=st.one_of(requests, st.integers(0, 30)), kind=st.sampled_from(sorted(REPLIES)))
    def reply(self, request, kind):
        template = REPLIES[kind]
        line = template % ((request, 7) if template.count(b"%d") == 2 else request)
        is_written = any(read.get("id") == request and read.get("method") == "hook.x" for read in self.written())
        events = self.hear(line)
        if self.peer.state is PeerState.CLOSED:
            assert events == []
        elif request in self.waiting and is_written:
            token, strict = self.waiting[request]
            ((whose, answer),) = events
            assert isinstance(answer, Reply)
            self.end(whose, request)
            assert whose == token
            assert (answer.error is None) is (kind in TAKEN and (TAKEN[kind] or not strict))
        else:
            assert isinstance(events[0], DroppedLine)

    @rule(
        line=st.sampled_from([b"noise", b"[]", b'{"jsonrpc":"2.0","method":"m"}', b"\xff", b'{"id":1,"result":1e999}'])
    )
    def noise(self, line):
        assert all(isinstance(event, DroppedLine) for event in self.hear(line))

    @rule(request=st.one_of(requests, st.integers(100, 200)))
    def is_asked(self, request):
        """Its ids are its own, whatever numbers it takes."""
        assert all(
            isinstance(event, DroppedLine) for event in self.hear(b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % request)
        )

    @rule(request=st.one_of(requests, st.integers(0, 30)))
    def abandon(self, request):
        self.peer.abandon(request, "late")
        if request in self.waiting:
            self.end(self.waiting[request][0], request)

    @rule()
    def overflow(self):
        events = list(self.peer.receive_data(b"x" * (MAX_LINE + 1)))
        assert events == ([LineTooLong(MAX_LINE)] if events else [])
        assert self.peer.state is PeerState.CLOSED

    @rule()
    def eof(self):
        tokens = self.peer.receive_eof()
        assert tokens == [token for token, _ in self.waiting.values()]
        for request, (token, _) in list(self.waiting.items()):
            self.end(token, request)
        assert not self.peer.wants_to_send

    @invariant()
    def every_request_that_has_not_ended_waits(self):
        assert self.peer.in_flight() == len(self.waiting)
        assert self.peer.oldest == next(iter(self.waiting), None)

    @invariant()
    def the_hook_reads_whole_lines_and_each_request_at_most_once(self):
        read = self.written()
        asked = [line["id"] for line in read if line.get("method") in {"hook.x", "hook.hello"}]
        assert asked == sorted(set(asked))
        told = [line["params"]["n"] for line in read if line.get("method") == "hook.event"]
        assert told == sorted(set(told))
        cancelled = [line["params"]["id"] for line in read if line.get("method") == "hook.cancel"]
        assert set(cancelled) <= set(asked)

    def teardown(self):
        self.eof()
        assert set(self.ended) == {"hello", *(f"request {number}" for number in range(1, self.asked))}
        assert set(self.ended.values()) == {1}


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=150, stateful_step_count=40)
