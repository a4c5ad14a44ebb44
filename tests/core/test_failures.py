"""What is said of a hook that fails again and again, without a timer: at once, then by its count, and when it is over."""

from __future__ import annotations

import pytest

from picohook.observe.failure_log import TEXTS, WINDOW, FailureLog
from picohook.observe.log import Log
from picohook.wire.text import explain, last_words


class Written:
    def __init__(self):
        self.lines = []

    def __getattr__(self, level):
        return lambda event, **fields: self.lines.append((level, event, fields))

    @property
    def warnings(self):
        return [
            (event, fields.get("times"), fields["why"]) for level, event, fields in self.lines if level == "warning"
        ]


@pytest.fixture
def log():
    return Written()


@pytest.fixture
def failures(log):
    made = FailureLog()
    made.log_to(Log(log))
    return made


def fail(failures, *, why="no answer within 5 s", stage="before_tool", at=0.0):
    failures.add(stage, "timeout", why, "deny_tool", at)


def test_the_first_failure_is_logged_at_once_with_its_parts_as_fields(failures, log):
    fail(failures)
    fields = {"stage": "before_tool", "cause": "timeout", "counted_as": "deny_tool", "why": "no answer within 5 s"}
    assert log.lines == [("warning", "failed", fields)]
    assert failures.last == "no answer within 5 s"


def test_a_repeated_failure_is_counted_and_summed_up_at_the_end(failures, log):
    for _ in range(1234):
        fail(failures)
    failures.close()
    assert [times for _, times, _ in log.warnings] == [None, 1233]
    assert {event for event, times, _ in log.warnings if times} == {"failed again"}


def test_when_it_answers_again_the_count_is_logged_and_that_it_answers(failures, log):
    for _ in range(4):
        fail(failures)
    failures.answered("approve_tool", 1.0)
    assert len(log.lines) == 1
    failures.answered("before_tool", 1.0)
    assert [(level, event, fields.get("times")) for level, event, fields in log.lines[1:]] == [
        ("warning", "failed again", 3),
        ("info", "answers again", None),
    ]


def test_a_hook_that_fails_every_other_time_floods_no_log(failures, log):
    for call in range(100_000):
        fail(failures, at=call / 10_000)
        failures.answered("before_tool", call / 10_000)
    assert len(log.lines) < 10


def test_after_a_minute_the_same_is_logged_again(failures, log):
    fail(failures)
    fail(failures, at=WINDOW - 1)
    fail(failures, at=WINDOW)
    assert [(event, times) for event, times, _ in log.warnings] == [
        ("failed", None),
        ("failed again", 1),
        ("failed", None),
    ]


def test_another_cause_is_logged_at_once_up_to_a_limit(failures, log):
    for number in range(1000):
        fail(failures, why=f"it broke at {number}")
    assert [event for event, _, _ in log.warnings].count("failed") == TEXTS
    fail(failures, stage="after_tool")
    assert log.warnings[-1] == ("failed", None, "no answer within 5 s")


def test_a_log_that_fails_and_a_missing_log_do_no_harm():
    class Full:
        def warning(self, event, **fields):
            raise OSError("No space left on device")

        debug = info = error = warning

    log = Log(Full())
    logged, unlogged = FailureLog(), FailureLog()
    logged.log_to(log)
    for failures in (logged, unlogged):
        fail(failures)
        failures.answered("before_tool", 1.0)
        failures.close()
        assert failures.last == "no answer within 5 s"
    assert log.failures > 0


# An exception in few words.


def raised(function):
    try:
        function()
    except Exception as error:  # the point of it
        return error


def test_an_exception_has_its_type_its_text_and_its_place_in_the_authors_own_code():
    line = test_an_exception_has_its_type_its_text_and_its_place_in_the_authors_own_code.__code__.co_firstlineno + 2
    assert explain(raised(lambda: {}["nope"])) == f"KeyError: 'nope' (test_failures.py:{line})"


def test_the_place_is_not_in_the_library_that_raised_it():
    import json

    said = explain(raised(lambda: json.loads("{")))
    assert said.startswith("JSONDecodeError: ")
    assert "(test_failures.py:" in said


def test_its_text_is_one_line_cut_and_escaped_and_its_file_has_no_directory():
    def fail():
        raise RuntimeError("one\x1b[2J " + "x" * 5000 + "\ntwo")

    said = explain(raised(fail))
    assert said.startswith(r"RuntimeError: one\x1b[2J xxx")
    assert len(said) < 500
    assert "two" not in said
    assert "/" not in said


def test_an_exception_whose_text_ends_the_program_has_only_its_type():
    class Error(Exception):
        def __str__(self):
            raise SystemExit(0)

    def fail():
        raise Error

    assert explain(raised(fail)).startswith("Error (test_failures.py:")


def test_the_end_of_stderr_has_the_error_and_the_place_of_a_traceback():
    tail = (
        'a warning\nTraceback (most recent call last):\n  File "/home/me/hooks/guard.py", line 6, in <module>\n    x()\n'
        "  File \"/usr/lib/python3.12/json/decoder.py\", line 355, in raw_decode\n    raise\nKeyError: 'nope'\n"
    )
    assert last_words(tail, 400) == "a warning | KeyError: 'nope' (guard.py:6)"
    assert last_words("one\n\ntwo\n", 400) == "one | two"
    assert last_words("x" * 50, 10) == "x" * 10
    assert last_words("Traceback (most recent call last):\ncut", 400) == "Traceback (most recent call last): | cut"


def test_the_end_of_stderr_has_the_error_and_the_place_of_a_syntax_error():
    tail = '  File "/home/me/hooks/guard.py", line 3\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'
    assert last_words(f"a warning\n{tail}", 400) == "a warning | SyntaxError: invalid syntax (guard.py:3)"
