"""The deadlines of all calls to a process, with an alarm that rings when a test says so."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from picohook.protocol.peer import Peer
from picohook.transport.deadlines import PAUSE, Deadlines


class Call:
    """A call in flight."""

    def __init__(self, deadline):
        self.deadline = deadline
        self.request = 0


class Alarm:
    def __init__(self, callback):
        self.callback = callback
        self.when = math.inf

    def set(self, when):
        self.when = when

    def off(self):
        self.when = math.inf


class Calls:
    """Calls to one process, on a clock that the test moves. It stands for the event loop."""

    def __init__(self):
        self.time = 0.0
        self.rings = 0
        self.timed_out = []
        self.peer = Peer(max_outbound=10**9)
        self.peer.hello("a hook", ["tool"], "hello")
        self.peer.data_sent(sum(map(len, self.peer.data_to_send())))
        list(self.peer.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{}}\n'))
        self.peer.accept_hello({"capabilities": {}})
        self.deadlines = Deadlines(self, self.peer, self._on_timeout)

    def now(self):
        return self.time

    def alarm(self, callback):
        self._alarm = Alarm(callback)
        return self._alarm

    def _on_timeout(self, late):
        self.timed_out += late
        for call in late:
            call.ended = self.time
            self.end(call)

    def ask(self, deadline):
        call = Call(deadline)
        call.request = self.peer.request("hook.before_tool", b"{}", call)
        if call.deadline < self.deadlines.next:
            self.deadlines.add(call)
        return call

    def end(self, call):
        self.peer.abandon(call.request, "it has ended")

    def wait_until(self, time):
        """Let the time pass, with all rings of the alarm on the way. Returns the calls that timed out."""
        self.timed_out = []
        while self._alarm.when <= time:
            self.time, self._alarm.when = max(self.time, self._alarm.when), math.inf
            self.rings += 1
            self._alarm.callback()
        self.time = time
        return self.timed_out


times = st.integers(0, 6).map(float)
actions = st.one_of(
    st.tuples(st.just("ask"), st.one_of(times, st.just(math.inf))),
    st.tuples(st.just("ask many"), times),
    st.tuples(st.just("end"), st.integers(0, 100)),
    st.tuples(st.just("later"), st.integers(0, 100)),
    st.tuples(st.just("wait"), times),
)


@settings(max_examples=400)
@given(st.lists(actions, min_size=5, max_size=60))
def test_each_call_times_out_at_its_own_deadline_and_no_other_call_does(story):
    calls, waiting = Calls(), []
    for action, value in story:
        if action == "ask":
            waiting.append(calls.ask(calls.time + value))
        elif action == "ask many":
            for _ in range(64):
                calls.end(calls.ask(calls.time + value))
        elif action == "end" and waiting:
            calls.end(waiting.pop(value % len(waiting)))
        elif action == "later" and waiting:
            waiting[value % len(waiting)].deadline += 2
        elif action == "wait":
            until = calls.time + value
            expected = [call for call in waiting if call.deadline <= until]
            assert sorted(calls.wait_until(until), key=waiting.index) == expected
            waiting = [call for call in waiting if call.deadline > until]


@pytest.mark.parametrize("deadline", [2.0, 3.0, 4.0])
def test_a_call_made_after_another_timed_out_has_its_own_deadline(deadline):
    calls = Calls()
    first, second = calls.ask(1.0), calls.ask(3.0)
    assert calls.wait_until(1.0) == [first]
    third = calls.ask(deadline)
    for time in (2.0, 3.0, 4.0):
        due = [call for call in (second, third) if call.deadline == time]
        assert calls.wait_until(time) == due


def test_a_deadline_that_is_moved_after_another_call_timed_out_counts():
    calls = Calls()
    first, second = calls.ask(1.0), calls.ask(2.0)
    assert calls.wait_until(1.0) == [first]
    second.deadline = 3.0
    assert calls.wait_until(2.9) == []
    assert calls.wait_until(3.0) == [second]


def test_calls_that_time_out_together_do_so_oldest_first():
    calls = Calls()
    late = [calls.ask(deadline) for deadline in (3.0, 1.0, 2.0)]
    first = calls.ask(0.5)
    calls.wait_until(0.5)
    calls.time = 3.0  # the event loop was held up
    assert calls.wait_until(3.0) == late
    assert first not in calls.timed_out


def test_calls_with_many_different_deadlines_are_looked_at_together_and_hardly_later():
    calls = Calls()
    for place in range(2000):
        calls.ask(1.0 + place % 7 + place * PAUSE / 100)
    for call in calls.wait_until(10.0):
        assert call.deadline <= call.ended <= call.deadline + PAUSE
    assert calls.rings <= 7 * (2000 / 100 + 1)


def test_while_no_call_times_out_the_alarm_is_set_once_and_no_call_has_to_be_added():
    calls = Calls()
    calls.ask(1.0)
    for _ in range(10):
        call = calls.ask(2.0)
        assert call.deadline >= calls.deadlines.next
        calls.end(call)
    assert calls.rings == 0
