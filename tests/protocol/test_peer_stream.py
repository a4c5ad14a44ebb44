"""The end of a conversation, and that nothing depends on how its bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from picohook.errors import ProtocolError
from picohook.protocol.codec import encode, notification_line
from picohook.protocol.known_reply import CONTINUE_REPLY
from picohook.protocol.messages import Reply
from picohook.protocol.peer import GATHER, SPLICE, LineTooLong, Peer, PeerState
from picohook.wire import words

GO_ON = b'{"jsonrpc":"2.0","id":%d,"result":{"action":"continue"}}'
OTHERWISE = b'{"id":%d,"jsonrpc":"2.0","result":{"action":"continue"}}'


def event(text: str) -> bytes:
    return notification_line("hook.event", encode({"Kind": text}))


class TestTheEnd:
    def test_every_pending_request_comes_back_once(self, hook):
        hook.ask("written")
        hook.take()
        hook.ask("answered")
        hook.take()
        hook.says({"id": 3, "result": {}})
        hook.peer.abandon(hook.ask("abandoned"), "late")
        hook.ask("begun")
        hook.take(4)
        hook.ask("queued")
        assert hook.peer.receive_eof() == ["written", "begun", "queued"]
        assert hook.peer.receive_eof() == []
        assert hook.peer.in_flight() == 0

    def test_F5_a_fragment_is_discarded_even_if_it_is_a_message(self, hook):
        request = hook.ask("asked")
        hook.take()
        assert list(hook.peer.receive_data(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % request)) == []
        assert hook.peer.receive_eof() == ["asked"]

    def test_no_lines_are_written_and_no_questions_taken_any_more(self, hook):
        hook.ask("asked")
        hook.take(3)
        hook.peer.notify(event("one"))
        hook.peer.receive_eof()
        hook.peer.notify(event("two"))
        assert not hook.peer.wants_to_send
        assert list(hook.peer.data_to_send()) == []
        assert hook.peer.state is PeerState.CLOSED
        with pytest.raises(ProtocolError, match="closed"):
            hook.ask("late")
        with pytest.raises(ProtocolError, match="closed"):
            hook.peer.hello("late", [], "token")

    def test_input_after_the_end_does_not_count(self, hook):
        hook.ask("asked")
        hook.take()
        hook.peer.receive_eof()
        assert hook.says({"id": 2, "result": {}}, b"noise", {"id": 1, "method": "host.run"}, b"x" * 1000) == []
        assert not hook.peer.wants_to_send

    def test_an_event_after_the_end_is_not_counted_as_dropped(self, hook):
        hook.peer.receive_eof()
        for number in range(2000):
            hook.peer.notify(event(f"{number}"))
        assert hook.peer.receive_eof() == []
        assert hook.peer.dropped_events == 0

    def test_events_that_were_not_written_are_counted_as_dropped(self, hook):
        for number in range(3):
            hook.peer.notify(event(f"{number}"))
        hook.take(len(event("0")) + 1)
        hook.peer.receive_eof()
        assert hook.peer.dropped_events == 1

    def test_F3_a_good_line_before_a_too_long_one_counts_and_later_ones_do_not(self, talk):
        hook = talk(max_line=100)
        request = hook.ask("asked")
        later = hook.ask("later")
        hook.take()
        events = hook.says({"id": request, "result": {}}, b"x" * 101, {"id": later, "result": {}})
        assert [type(one) for one in events] == [tuple, LineTooLong]
        assert events[1].limit == 100
        assert hook.says({"id": later, "result": {}}) == []
        assert hook.peer.state is PeerState.CLOSED
        assert hook.peer.receive_eof() == ["later"]

    def test_F3_a_known_reply_after_a_too_long_line_does_not_count(self, talk):
        hook = talk(max_line=100)
        _, *requests = [hook.ask(token) for token in ("other", "learnt", "before", "after", "last")]
        hook.take()
        lines = [GO_ON % request for request in requests]
        hook.says(lines[0])
        events = hook.says(lines[1], b"x" * 101, *lines[2:])
        assert [events[0][0], type(events[1]), len(events)] == ["before", LineTooLong, 2]
        assert hook.peer.receive_eof() == ["other", "after", "last"]

    def test_R3_a_known_reply_does_not_answer_a_request_that_was_not_sent(self, hook):
        _, learnt, early = (hook.ask(token) for token in ("other", "learnt", "early"))
        hook.take(len(hook.peer.data_to_send()[0]) * 2)
        hook.says(GO_ON % learnt)
        assert hook.is_noise(GO_ON % early)
        hook.take()
        assert hook.says(GO_ON % early) == [("early", Reply(words.CONTINUE_RESULT))]

    def test_F2_a_line_of_the_limit_counts(self, talk):
        hook = talk(max_line=100)
        reply = b'{"jsonrpc":"2.0","id":2,"result":""}'
        exact = reply.replace(b'""', b'"%s"' % (b"x" * (100 - len(reply))))
        assert len(exact) == 100
        assert hook.answers(exact).error is None

    def test_a_reader_that_stops_taking_events_gets_no_more(self, hook):
        hook.ask("one")
        hook.ask("two")
        hook.take()
        events = hook.peer.receive_data(b'{"jsonrpc":"2.0","id":2,"result":{}}\n{"jsonrpc":"2.0","id":3,"result":{}}\n')
        assert next(events)[0] == "one"
        events.close()
        assert hook.peer.receive_eof() == ["two"]


def conversation() -> tuple[Peer, list[bytes]]:
    """A peer with a bit of everything to write, and the lines in the order they have to come."""
    peer = Peer()
    peer.hello("a hook", [], "hello")
    peer.data_sent(len(b"".join(peer.data_to_send())))
    list(peer.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{}}\n'))
    peer.accept_hello({})
    lines = []
    for size in (2, SPLICE, 5, SPLICE + 7):
        params = b'"%s"' % (b"p" * (size - 2))
        number = peer.request("hook.x", params, size)
        lines.append(b'{"jsonrpc":"2.0","id":%d,"method":"hook.x","params":%s}\n' % (number, params))
    for number in range(GATHER + 3):
        peer.notify(event(f"{number}"))
        lines.append(event(f"{number}"))
    return peer, lines


@given(st.lists(st.one_of(st.integers(0, 100), st.integers(SPLICE - 9, SPLICE + 99)), min_size=1, max_size=40))
def test_the_stream_is_the_same_however_the_link_takes_it(sizes):
    peer, lines = conversation()
    stream = b""
    turn = 0
    while peer.wants_to_send:
        data = b"".join(peer.data_to_send())
        taken = data[: sizes[turn % len(sizes)] + (turn // len(sizes))]
        peer.data_sent(len(taken))
        stream += taken
        turn += 1
    assert stream == b"".join(lines)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4096])
def test_a_link_that_takes_a_few_bytes_at_a_time_gets_the_same_stream(size):
    peer, lines = conversation()
    stream = bytearray()
    while peer.wants_to_send:
        buffer = peer.data_to_send()[0][:size]
        stream += buffer
        peer.data_sent(len(buffer))
    assert stream == b"".join(lines)


hook_output = st.lists(
    st.one_of(
        st.sampled_from([
            b'{"jsonrpc":"2.0","id":2,"result":{"a":1}}\n', b'{"jsonrpc":"2.0","id":3,"error":{"code":1}}\r\n', b"\n",
            b'{"jsonrpc":"2.0","id":"2","result":{}}\n', b'{"method":"host.log","params":{}}\n', b'{"id":7,"method":"m"}\n',
            b"noise\n", b'{"jsonrpc":"2.0","id":4,"result":"\xe2\x80\xa8"}\n', b'{"jsonrpc":"2.0","id":2,', b"[]\n", b"\xff\n",
            b'{"jsonrpc":"2.0","id":4,"result":"' + b"x" * 150 + b'"}\n',
        ]),
        st.integers(0, 9).map(lambda number: OTHERWISE % number + b"\n"),
        st.integers(0, 9).map(lambda number: b'{"jsonrpc":"2.0","id":%d,"result":{"action":"continue"}}\n' % number),
        st.sampled_from([b'{"jsonrpc":"2.0","id":03,"result":{"action":"continue"}}\n', b'{"jsonrpc":"2.0","id":"', b'"}}\n']),
        st.binary(max_size=10),
    )
).map(b"".join)  # fmt: skip


def listening() -> Peer:
    peer = Peer(max_line=120)
    peer.hello("a hook", [], "hello")
    peer.data_sent(len(b"".join(peer.data_to_send())))
    list(peer.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{}}\n'))
    peer.accept_hello({"capabilities": {"log": True}})
    for token in "abc":
        peer.request("hook.x", b"{}", token)
    peer.data_sent(len(b"".join(peer.data_to_send())))
    return peer


@given(hook_output, st.lists(st.integers(0, 400)))
def test_the_events_do_not_depend_on_how_the_stream_is_cut(output, cuts):
    whole, piecemeal = listening(), listening()
    edges = sorted({0, len(output), *(cut for cut in cuts if cut < len(output))})
    pieces = [output[start:end] for start, end in pairwise(edges)]
    expected = list(whole.receive_data(output))
    assert [event for piece in pieces for event in piecemeal.receive_data(piece)] == expected
    assert b"".join(piecemeal.data_to_send()) == b"".join(whole.data_to_send())
    assert piecemeal.receive_eof() == whole.receive_eof()


def test_noise_whose_end_looks_like_an_answer_is_not_an_answer(hook):
    _, learnt, waiting = (hook.ask(token) for token in ("other", "learnt", "waiting"))
    hook.take()
    hook.says(GO_ON % learnt)
    assert list(hook.peer.receive_data(b"noise ")) == []
    assert hook.is_noise(GO_ON % waiting)
    assert hook.says(GO_ON % waiting) == [("waiting", Reply(words.CONTINUE_RESULT))]


def test_a_request_stays_written_whatever_is_written_after_it(talk):
    hook = talk(capabilities={"cancel": True})
    given_up = hook.ask("given up")
    hook.take()
    waiting = hook.ask("waiting")
    hook.peer.abandon(given_up, "late")
    hook.ask("later")
    asked, cancelled, _ = hook.peer.data_to_send()
    hook.take(len(asked) + len(cancelled) + 1)
    assert hook.says(GO_ON % waiting) == [("waiting", Reply(words.CONTINUE_RESULT))]


def test_of_each_spelling_the_first_answer_is_decoded_and_the_next_ones_are_recognised(hook):
    requests = [hook.ask(f"{number}") for number in range(6)]
    hook.take()
    denial = b'{"jsonrpc":"2.0","id":%d,"result":{"action":"deny_tool"}}'
    ways = [GO_ON, OTHERWISE, OTHERWISE, denial, denial, OTHERWISE]
    events = hook.says(*(way % request for way, request in zip(ways, requests, strict=True)))
    going_on = Reply(words.CONTINUE_RESULT)
    replies = [going_on, going_on, going_on, Reply({"action": "deny_tool"}), ("deny_tool", ""), going_on]
    assert events == [(f"{number}", reply) for number, reply in enumerate(replies)]
    assert [event[1] is CONTINUE_REPLY for event in events] == [True, False, True, False, False, False]


@given(st.lists(st.binary()))
def test_arbitrary_bytes_never_raise_and_answer_nothing_twice(chunks):
    peer = listening()
    answered = [event[0] for chunk in chunks for event in peer.receive_data(chunk) if isinstance(event, tuple)]
    assert sorted(answered + peer.receive_eof()) == ["a", "b", "c"]
