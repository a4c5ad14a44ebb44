"""Many requests are abandoned: what is still written, what is kept of them, and how much work it is."""

from __future__ import annotations

import sys

import pytest
from steps import growth

from picohook.protocol.peer import ABANDONED, GATHER, SPLICE

MANY = 5 * GATHER


def newest_first(requests):
    return requests[::-1]


def oldest_first(requests):
    return requests


def mixed(requests):
    """Another order, with each request once: 10,007 is a prime."""
    return [requests[place * 10_007 % len(requests)] for place in range(len(requests))]


ORDERS = pytest.mark.parametrize("in_order", [newest_first, oldest_first, mixed])


@ORDERS
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("left", [2, 3, 70])
def test_those_between_others_are_never_written(hook, in_order, left, begun):
    requests = [hook.ask(number) for number in range(MANY)]
    hook.take(3 if begun else 0)
    kept = {request for request in requests if request % left == 0 or (begun and request == requests[0])}
    for request in in_order([request for request in requests if request not in kept]):
        hook.peer.abandon(request, "late")
    while hook.peer.wants_to_send:
        assert hook.take(50)
    assert [line["id"] for line in hook.read] == sorted(kept)
    assert hook.peer.waiting == [request - requests[0] for request in sorted(kept)]


@ORDERS
@pytest.mark.parametrize("number", [1, 2, MANY])
def test_when_all_are_abandoned_nothing_is_written_and_a_later_request_is(hook, in_order, number):
    for request in in_order([hook.ask(number) for number in range(number)]):
        hook.peer.abandon(request, "late")
    assert not hook.peer.wants_to_send
    assert list(hook.peer.data_to_send()) == []
    later = hook.ask("later")
    hook.take()
    assert [line["id"] for line in hook.read] == [later]


def test_events_behind_which_a_request_was_abandoned_still_let_the_next_request_go_first(hook):
    for number in range(3):
        hook.peer.notify(b'{"event":"%s"}\n' % (b"%d" % number * 200))
    hook.peer.data_to_send()
    hook.peer.abandon(hook.ask("late"), "late")
    hook.take(4)
    asked = hook.ask("next")
    while hook.peer.wants_to_send:
        assert hook.take(50)
    assert [line.get("id") for line in hook.read] == [None, asked, None, None]


def test_those_after_the_last_line_leave_nothing_behind_when_it_is_written(hook):
    first, second = hook.ask("first"), hook.ask("second")
    hook.peer.abandon(second, "late")
    hook.take()
    hook.peer.abandon(hook.ask("third"), "late")
    fourth = hook.ask("fourth")
    hook.take()
    assert [line["id"] for line in hook.read] == [first, fourth]


def test_an_event_is_written_when_all_requests_before_it_are_abandoned(hook):
    first, second = hook.ask("first"), hook.ask("second")
    hook.peer.notify(b'{"jsonrpc":"2.0","method":"hook.event","params":{}}\n')
    hook.peer.abandon(second, "late")
    hook.take()
    assert [line["method"] for line in hook.read] == ["hook.before_tool", "hook.event"]
    assert hook.read[0]["id"] == first


def test_the_memory_of_their_lines_is_freed_while_others_wait(hook):
    params = b'"%s"' % (b"x" * SPLICE)
    hook.ask("begun")
    hook.take(3)
    before = sys.getrefcount(params)
    waiting = hook.ask("waits", params=params)
    for _ in range(MANY):
        following = hook.ask("waits", params=params)
        hook.peer.abandon(waiting, "late")
        waiting = following
    assert sys.getrefcount(params) - before <= 3


@ORDERS
@pytest.mark.parametrize("written", [False, True])
def test_the_work_for_each_does_not_grow_with_their_number(talk, in_order, written):
    def prepare(number):
        hook = talk(capabilities={"cancel": True})
        requests = [hook.ask(number) for number in range(number)]
        if written:
            hook.take()

        def abandon():
            for request in in_order(requests):
                hook.peer.abandon(request, "late")
            hook.take()

        return abandon

    assert growth(prepare) < 1.25


@ORDERS
def test_the_work_for_each_does_not_grow_when_lines_are_written_meanwhile(talk, in_order):
    def prepare(number):
        hook = talk()
        requests = [hook.ask(number) for number in range(number)]

        def abandon():
            for request in in_order(requests):
                hook.peer.abandon(request, "late")
                hook.take(10)

        return abandon

    assert growth(prepare) < 1.25


def test_only_the_latest_that_were_written_are_remembered(hook):
    requests = [hook.ask(number) for number in range(ABANDONED + 2)]
    hook.take()
    for request in requests:
        hook.peer.abandon(request, "late")
    assert [hook.says({"id": request, "result": {}})[0].late for request in (*requests[:3], requests[-1])] == [
        False, False, True, True,
    ]  # fmt: skip


def test_the_oldest_request_is_found_whichever_ended_before(hook):
    requests = [hook.ask(number) for number in range(6)]
    hook.take()
    for ended, oldest in ((3, 0), (0, 1), (1, 2), (2, 4), (5, 4), (4, None)):
        hook.says({"id": requests[ended], "result": {}})
        assert hook.peer.oldest == (None if oldest is None else requests[oldest])
