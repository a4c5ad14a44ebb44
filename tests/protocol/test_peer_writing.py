"""What is written when: requests, events, what was abandoned, and how much may wait."""

from __future__ import annotations

import json

import pytest

from picohook.errors import ProtocolError
from picohook.protocol.codec import encode, notification_line
from picohook.protocol.peer import GATHER, SPLICE


def event(text: str) -> bytes:
    return notification_line("hook.event", encode({"Kind": text}))


class TestARequestOnItsWay:
    def test_a_line_has_the_form_of_the_protocol(self, hook):
        hook.ask("token", "hook.approve_tool", b'{"tool":"bash"}')
        assert hook.take() == b'{"jsonrpc":"2.0","id":2,"method":"hook.approve_tool","params":{"tool":"bash"}}\n'

    @pytest.mark.parametrize("size", [SPLICE - 1, SPLICE, 10 * SPLICE])
    def test_big_parameters_make_the_same_line(self, hook, size):
        params = b'{"text":"' + b"x" * (size - 11) + b'"}'
        assert len(params) == size
        hook.ask("token", params=params)
        assert hook.take() == b'{"jsonrpc":"2.0","id":2,"method":"hook.before_tool","params":' + params + b"}\n"

    def test_big_parameters_are_not_copied(self, hook):
        params = b'{"text":"' + b"x" * SPLICE + b'"}'
        hook.ask("one", params=params)
        hook.ask("two", params=params)
        assert sum(buffer is params for buffer in hook.peer.data_to_send()) == 2

    def test_many_go_out_in_order_and_not_all_at_once(self, hook):
        for number in range(3 * GATHER):
            hook.ask(number)
        assert len(hook.peer.data_to_send()) == GATHER
        hook.take()
        assert [line["id"] for line in hook.read] == list(range(2, 2 + 3 * GATHER))

    def test_without_messages_there_is_nothing_to_write(self, hook):
        assert not hook.peer.wants_to_send
        assert list(hook.peer.data_to_send()) == []
        hook.peer.data_sent(0)
        assert not hook.peer.wants_to_send

    def test_a_write_that_took_nothing_is_repeated(self, hook):
        hook.ask("token")
        before = b"".join(hook.peer.data_to_send())
        hook.peer.data_sent(0)
        assert b"".join(hook.peer.data_to_send()) == before

    def test_what_is_left_of_a_line_shrinks_with_each_write_until_the_next_line_is_the_first(self, hook):
        assert hook.peer.left_of_line == 0
        hook.ask("one", params=b'{"n":1}')
        hook.ask("two", params=b'{"n":22}')
        one = hook.peer.left_of_line
        hook.take(10)
        assert hook.peer.left_of_line == one - 10
        hook.take(one - 10)
        assert hook.peer.left_of_line == one + 1
        hook.take()
        assert hook.peer.left_of_line == 0

    def test_in_flight_and_oldest_follow_the_waiting_requests(self, hook):
        assert (hook.peer.in_flight(), hook.peer.oldest) == (0, None)
        first, second, third = hook.ask("a"), hook.ask("b"), hook.ask("c")
        hook.take()
        assert (hook.peer.in_flight(), hook.peer.oldest) == (3, first)
        hook.says({"id": second, "result": {}})
        assert (hook.peer.in_flight(), hook.peer.oldest) == (2, first)
        hook.peer.abandon(first, "late")
        assert (hook.peer.in_flight(), hook.peer.oldest) == (1, third)

    @pytest.mark.parametrize("of", [1, "1", True, None, 1.0, [], 99])
    def test_a_token_is_found_by_the_exact_id_of_a_waiting_request(self, talk, of):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        assert hook.peer.pending_token(of) == ("token" if of == 1 and type(of) is int else None)


class TestTwoLanes:
    def test_requests_go_before_events_that_wait(self, hook):
        hook.peer.notify(event("one"))
        hook.peer.notify(event("two"))
        hook.ask("asked")
        hook.take()
        assert [line["method"] for line in hook.read] == ["hook.before_tool", "hook.event", "hook.event"]
        assert [line["params"].get("Kind") for line in hook.read] == [None, "one", "two"]

    def test_an_event_goes_alone(self, hook):
        hook.peer.notify(event("one"))
        assert hook.take() == event("one")

    @pytest.mark.parametrize("taken", [1, 5, len(event("one")) - 1])
    def test_a_request_waits_for_the_line_that_is_begun_and_for_no_other_event(self, hook, taken):
        for number in range(2 * GATHER):
            hook.peer.notify(event(f"{number:03}"))
        hook.take(taken)
        hook.ask("asked")
        hook.take()
        methods = [line["method"] for line in hook.read]
        assert methods[:3] == ["hook.event", "hook.before_tool", "hook.event"]
        assert [line["params"]["Kind"] for line in hook.read if "id" not in line] == [
            f"{number:03}" for number in range(2 * GATHER)
        ]

    def test_after_a_whole_event_a_request_is_next(self, hook):
        for number in range(5):
            hook.peer.notify(event(f"{number}"))
        hook.take(2 * len(event("0")))
        hook.ask("asked")
        hook.take()
        assert [line["method"] for line in hook.read].index("hook.before_tool") == 2

    def test_a_write_that_took_nothing_begins_no_event(self, hook):
        hook.peer.notify(event("one"))
        hook.peer.data_to_send()
        hook.peer.data_sent(0)
        hook.ask("asked")
        hook.take()
        assert [line["method"] for line in hook.read] == ["hook.before_tool", "hook.event"]

    def test_a_request_that_is_queued_while_events_are_written_comes_after_the_one_that_was_begun(self, hook):
        for number in range(3):
            hook.peer.notify(event(f"{number}"))
        begun = b"".join(hook.peer.data_to_send())[: len(event("0")) + 3]
        hook.ask("asked")
        assert hook.peer.data_sent(len(begun)) is False
        stream = begun
        while data := b"".join(hook.peer.data_to_send()):
            stream += data
            hook.peer.data_sent(len(data))
        methods = [json.loads(line)["method"] for line in stream.splitlines()]
        assert methods == ["hook.event", "hook.event", "hook.before_tool", "hook.event"]

    def test_events_are_written_many_at_a_time(self, hook):
        for number in range(GATHER + 5):
            hook.peer.notify(event(f"{number}"))
        assert len(hook.peer.data_to_send()) == GATHER

    def test_the_oldest_are_dropped_by_count(self, talk):
        hook = talk(max_events=3)
        for number in range(10):
            hook.peer.notify(event(f"{number}"))
        assert hook.peer.dropped_events == 7
        hook.take()
        assert [line["params"]["Kind"] for line in hook.read] == ["7", "8", "9"]

    def test_the_oldest_are_dropped_by_size(self, talk):
        size = len(event("0"))
        hook = talk(max_event_bytes=3 * size)
        for number in range(4):
            hook.peer.notify(event(f"{number}"))
        assert hook.peer.dropped_events == 1
        hook.take()
        assert [line["params"]["Kind"] for line in hook.read] == ["1", "2", "3"]

    def test_the_size_is_exact(self, talk):
        size = len(event("0"))
        for bound, dropped in ((3 * size, 0), (3 * size - 1, 1)):
            hook = talk(max_event_bytes=bound)
            for number in range(3):
                hook.peer.notify(event(f"{number}"))
            assert hook.peer.dropped_events == dropped

    def test_an_event_bigger_than_the_bound_is_kept_if_it_is_alone(self, talk):
        hook = talk(max_event_bytes=10)
        hook.peer.notify(event("small"))
        hook.peer.notify(event("big"))
        assert hook.peer.dropped_events == 1
        hook.take()
        assert [line["params"]["Kind"] for line in hook.read] == ["big"]

    def test_writing_makes_room_again(self, talk):
        hook = talk(max_events=2, max_event_bytes=2 * len(event("0")))
        for number in range(8):
            hook.peer.notify(event(f"{number}"))
            if number % 2:
                hook.take(1)
                hook.take()
        assert hook.peer.dropped_events == 0
        assert len(hook.read) == 8

    def test_one_that_is_begun_is_written_to_its_end(self, talk):
        hook = talk(max_events=2)
        hook.peer.notify(event("begun"))
        hook.take(5)
        for number in range(10):
            hook.peer.notify(event(f"{number}"))
        hook.take()
        assert [line["params"]["Kind"] for line in hook.read] == ["begun", "8", "9"]
        assert hook.peer.dropped_events == 8

    def test_those_handed_out_and_not_begun_are_still_in_the_bounded_lane(self, talk):
        hook = talk(max_events=4)
        for number in range(4):
            hook.peer.notify(event(f"{number}"))
        hook.take(len(event("0")) + 3)
        for number in range(4, 8):
            hook.peer.notify(event(f"{number}"))
        hook.take()
        assert [line["params"]["Kind"] for line in hook.read] == ["0", "1", "4", "5", "6", "7"]
        assert hook.peer.dropped_events == 2


class TestAbandon:
    def test_before_it_is_begun_it_is_never_written(self, hook):
        first, second = hook.ask("first"), hook.ask("second")
        hook.peer.abandon(first, "late")
        hook.take()
        assert [line["id"] for line in hook.read] == [second]

    def test_one_behind_a_line_that_is_begun_is_never_written(self, hook):
        first, second = hook.ask("first"), hook.ask("second")
        hook.take(3)
        hook.peer.abandon(second, "late")
        hook.take()
        assert [line["id"] for line in hook.read] == [first]

    def test_F10_one_that_is_begun_is_written_to_its_end(self, hook):
        request = hook.ask("asked", params=b'{"text":"' + b"x" * 2 * SPLICE + b'"}')
        following = hook.ask("next")
        hook.take(SPLICE)
        hook.peer.abandon(request, "late")
        hook.take()
        assert [line["id"] for line in hook.read] == [request, following]
        assert hook.is_noise({"id": request, "result": {}})

    def test_with_the_capability_the_cancel_is_sent_after_the_line(self, talk):
        hook = talk(capabilities={"cancel": True})
        begun, written = hook.ask("begun"), hook.ask("written")
        hook.take(3)
        hook.peer.abandon(begun, "no time")
        hook.take()
        hook.peer.abandon(written, "enough")
        hook.take()
        assert [(line["method"], line.get("id"), line["params"]) for line in hook.read] == [
            ("hook.before_tool", begun, {}),
            ("hook.before_tool", written, {}),
            ("hook.cancel", None, {"id": begun, "reason": "no time"}),
            ("hook.cancel", None, {"id": written, "reason": "enough"}),
        ]
        assert all("id" not in line for line in hook.read[2:])

    def test_a_request_that_was_never_written_is_not_cancelled(self, talk):
        hook = talk(capabilities={"cancel": True})
        hook.peer.abandon(hook.ask("asked"), "late")
        assert hook.take() == b""

    def test_without_the_capability_no_cancel_is_sent(self, hook):
        request = hook.ask("asked")
        hook.take()
        hook.peer.abandon(request, "late")
        assert not hook.peer.wants_to_send

    def test_the_reason_is_cut(self, talk):
        hook = talk(capabilities={"cancel": True})
        request = hook.ask("asked")
        hook.take()
        hook.peer.abandon(request, "ö" * 2000)
        hook.take()
        assert hook.read[-1]["params"]["reason"] == "ö" * 512

    def test_a_cancel_that_is_repeated_late_or_unknown_does_nothing(self, talk):
        hook = talk(capabilities={"cancel": True})
        request = hook.ask("asked")
        hook.take()
        hook.says({"id": request, "result": {}})
        hook.peer.abandon(request, "late")
        hook.peer.abandon(99, "late")
        assert hook.take() == b""

    def test_after_the_end_a_cancel_is_not_sent(self, talk):
        hook = talk(capabilities={"cancel": True}, max_line=10_000)
        request = hook.ask("asked")
        hook.take()
        hook.says(b"x" * 10_001)
        hook.peer.abandon(request, "late")
        assert hook.take() == b""
        assert hook.peer.receive_eof() == []

    def test_its_room_in_the_queue_is_free_again(self, talk):
        hook = talk(max_outbound=200)
        for _ in range(100):
            hook.peer.abandon(hook.ask("asked", params=b'"%s"' % (b"x" * 100)), "late")
        hook.ask("asked", params=b'"%s"' % (b"x" * 100))


class TestTheOutboundBound:
    PARAMS = b'"%s"' % (b"x" * 100)
    LINE = len(b'{"jsonrpc":"2.0","id":2,"method":"hook.before_tool","params":}\n') + len(PARAMS)

    def test_it_is_exact(self, talk):
        hook = talk(max_outbound=3 * self.LINE)
        for _ in range(3):
            hook.ask("fits", params=self.PARAMS)
        with pytest.raises(ProtocolError, match="input queue is full"):
            hook.ask("does not", params=self.PARAMS)

    def test_one_byte_less_is_one_request_less(self, talk):
        hook = talk(max_outbound=3 * self.LINE - 1)
        hook.ask("fits", params=self.PARAMS)
        hook.ask("fits", params=self.PARAMS)
        with pytest.raises(ProtocolError, match="input queue is full"):
            hook.ask("does not", params=self.PARAMS)

    def test_a_message_that_did_not_fit_leaves_no_trace(self, talk):
        hook = talk(max_outbound=self.LINE)
        hook.ask("fits", params=self.PARAMS)
        with pytest.raises(ProtocolError, match="input queue is full"):
            hook.ask("does not", params=self.PARAMS)
        assert hook.peer.in_flight() == 1
        hook.take()
        assert hook.ask("the next id is not used up", params=self.PARAMS) == 3

    def test_written_bytes_make_room_one_by_one(self, talk):
        hook = talk(max_outbound=2 * self.LINE)
        hook.ask("first", params=self.PARAMS)
        hook.ask("second", params=self.PARAMS)
        hook.take(self.LINE - 1)
        with pytest.raises(ProtocolError, match="input queue is full"):
            hook.ask("third", params=self.PARAMS)
        hook.take(1)
        hook.ask("third", params=self.PARAMS)

    def test_events_that_wait_take_no_room_of_requests(self, talk):
        hook = talk(max_outbound=self.LINE)
        for number in range(20):
            hook.peer.notify(event(f"{number}"))
        hook.peer.data_to_send()
        hook.peer.data_sent(0)
        hook.ask("fits", params=self.PARAMS)


def test_a_notification_is_a_whole_line_without_an_id():
    line = notification_line("hook.event", b'{"Kind":"error"}')
    assert line.endswith(b"}\n")
    assert json.loads(line) == {"jsonrpc": "2.0", "method": "hook.event", "params": {"Kind": "error"}}
