"""Which worker is asked next, and when none is."""

from __future__ import annotations

import pytest

from picohook.ext.nats.breaker import EVERY, FAILURES, WAIT, Breaker
from picohook.ext.nats.subjects import ANY


@pytest.fixture
def breaker():
    return Breaker()


def test_the_server_chooses_while_every_question_is_answered(breaker):
    for worker in ("a", "b"):
        assert breaker.worker(0.0) == ANY
        breaker.answered(worker)
    assert breaker.worker(0.0) == ANY


def test_after_a_question_without_an_answer_the_worker_that_gave_the_last_answer_is_asked(breaker):
    breaker.answered("hangs, perhaps")
    breaker.answered("lives")
    breaker.failed(ANY, "late", breaker.answers, 0.0)
    assert [breaker.worker(0.0) for _ in range(3)] == ["lives"] * 3


def test_workers_that_answered_while_a_question_waited_are_asked_in_turn(breaker):
    before = breaker.answers
    breaker.answered("a")
    breaker.answered("b")
    breaker.failed(ANY, "late", before, 0.0)
    assert [breaker.worker(0.0) for _ in range(4)] == ["a", "b", "a", "b"]


def test_one_question_in_many_goes_to_any_worker_then(breaker):
    breaker.answered("lives")
    breaker.failed(ANY, "late", breaker.answers, 0.0)
    assert [breaker.worker(0.0) for _ in range(2 * EVERY)].count(ANY) == 2


def test_a_known_worker_that_does_not_answer_is_not_asked_again(breaker):
    breaker.answered("lives")
    breaker.failed(ANY, "late", breaker.answers, 0.0)
    breaker.failed(breaker.worker(0.0), "late", breaker.answers, 0.0)
    assert breaker.worker(0.0) == ANY


def test_it_opens_after_enough_questions_in_a_row_without_an_answer_and_tries_again_after_a_while(breaker):
    for _ in range(FAILURES):
        assert breaker.allows(0.0)
        breaker.failed(ANY, "late", breaker.answers, 0.0)
    assert not breaker.allows(0.0)
    assert breaker.allows(WAIT)
    breaker.failed(ANY, "late", breaker.answers, WAIT)
    assert not breaker.allows(WAIT)


def test_it_stays_closed_if_another_question_was_answered_meanwhile(breaker):
    for _ in range(2 * FAILURES):
        before = breaker.answers
        breaker.answered("lives")
        breaker.failed(ANY, "late", before, 0.0)
    assert breaker.allows(0.0)
