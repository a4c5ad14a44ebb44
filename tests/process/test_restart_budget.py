"""When a process is started again, and when it is given up: numbers only, without a process."""

from __future__ import annotations

import pytest

from picohook import RestartPolicy
from picohook.process.restart import BACKOFF_FIRST, BACKOFF_MOST, STABLE, RestartBudget


@pytest.fixture
def budget() -> RestartBudget:
    return RestartBudget(RestartPolicy(max_starts=3, window=10))


def test_it_allows_as_many_starts_as_the_policy_says_and_more_once_the_window_has_passed(budget):
    for now in (0, 1, 2):
        assert budget.allows(now)
        budget.started(now)
    assert not budget.allows(9.9)
    assert budget.allows(10)
    budget.started(10)
    assert not budget.allows(10.5)
    assert budget.allows(11)


def test_once_given_up_it_allows_none_until_it_is_reset(budget):
    budget.given_up = True
    assert not budget.allows(1000)
    budget.reset()
    assert budget.allows(1000)


def test_a_reset_forgets_starts_and_failures(budget):
    for now in (0, 1, 2):
        budget.started(now)
        budget.ended(now, now + 0.5)
    budget.reset()
    assert budget.allows(2)
    assert budget.failures == 0


@pytest.mark.parametrize(
    ("failures", "most"), [(0, 0.05), (1, 0.05), (2, 0.1), (3, 0.2), (7, 3.2), (8, 5.0), (50, 5.0)]
)
def test_the_wait_doubles_up_to_its_bound_less_at_most_half(budget, failures, most):
    assert (BACKOFF_FIRST, BACKOFF_MOST) == (0.05, 5.0)
    budget.failures = failures
    delays = [budget.delay() for _ in range(200)]
    assert most / 2 <= min(delays) <= max(delays) <= most
    assert len(set(delays)) > 100


def test_a_stable_process_resets_the_row_of_failures(budget):
    budget.ended(0, STABLE - 0.1)
    budget.ended(20, 20 + STABLE - 0.1)
    assert budget.failures == 2
    budget.ended(40, 40 + STABLE)
    assert budget.failures == 0
