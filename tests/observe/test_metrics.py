"""How long hooks take, as it is counted."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, strategies as st

from picohook.model.trail import TrailEntry
from picohook.observe.metrics import BATCH, BOUNDS, StageMetrics

times = st.one_of(st.floats(0, 1e-5), st.floats(0, 1), st.floats(0, 1e5), st.integers(0, 400).map(lambda n: n / 1e6))


@example([100e-6, 105e-6], 60, 1.0)
@given(st.lists(times, min_size=1, max_size=60), st.integers(0, 60), st.floats(0.01, 1))
def test_a_quantile_is_exact_to_a_sixteenth_whenever_the_times_are_looked_at(durations, looked_at, share):
    figures = StageMetrics()
    for number, duration in enumerate(durations):
        figures.record(TrailEntry("h", "continue", duration))
        if number == looked_at:
            assert figures.executions == number + 1
    assert figures.executions == len(durations)
    assert figures.total == pytest.approx(sum(durations))
    exact = sorted(durations)[max(math.ceil(share * len(durations) - 1e-9), 1) - 1]
    assert exact <= figures.quantile(share) * (1 + 1e-9)
    assert figures.quantile(share) <= exact * 17 / 16 + 2e-6


@given(st.lists(times, max_size=60))
def test_a_histogram_is_exact_so_that_those_of_several_hosts_can_be_added(durations):
    figures = StageMetrics()
    for duration in durations:
        figures.record(TrailEntry("h", "continue", duration))
    assert figures.histogram == tuple(sum(int(time * 1e6) < round(end * 1e6) for time in durations) for end in BOUNDS)


def test_decisions_are_counted_by_action_and_events_are_none():
    figures = StageMetrics()
    for action in ("continue", "deny_tool", "continue", "modify", "deny_tool"):
        figures.record(TrailEntry("h", action, 0.1))
    assert figures.decisions == {"continue": 2, "deny_tool": 2, "modify": 1}
    figures.record(TrailEntry("h", "", 0.1))
    assert figures.decisions == {"continue": 2, "deny_tool": 2, "modify": 1}
    assert StageMetrics().decisions == {}


def test_sixteen_severities_are_counted_apart_and_others_together():
    figures = StageMetrics()
    for number in (*range(20), 3, 19):
        figures.record(TrailEntry("gate", "deny_tool", severity=f"level {number}"))
    assert len(figures.severities) == 17
    assert (figures.severities["level 3"], figures.severities["other"]) == (2, 5)


def test_many_times_are_counted_as_they_come():
    figures = StageMetrics()
    for number in range(3 * BATCH + 5):
        figures.record(TrailEntry("h", "continue", number % 7 * 1e-3))
    assert figures.executions == 3 * BATCH + 5
    assert figures.quantile(1) == pytest.approx(6e-3, rel=1 / 16)
