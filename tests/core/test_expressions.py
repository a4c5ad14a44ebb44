"""Expressions that a configuration or a client supplies, on texts that the model supplies."""

from __future__ import annotations

import re

import pytest
from rows import each

from picohook.model.expressions import LONGEST_PATTERN, MOST_WORK, PYTHON, Expression, globs


def matches(pattern, text):
    expression = Expression(pattern, PYTHON, whole=True)
    assert not expression.problem
    return expression.matches(text)


@each(
    "pattern",
    [
        *("a|b", "ab?", "(?P<x>a)b", "[a-c]+", "[^a]", "[[]", "[a&&b]", "[~~a]", r"[\w-]", r"[\]a]", r"[\b]", r"[\d-]", "[]a]"),
        *("a{2}", "a{1,2}", "a{,2}", "a{2,}", "a{", "a{,", "{}", "}", r"\d", r"\w", r"\s", r"\ba\b", r"\<", r"\-", r"\Z"),
        *("(?i)AB", "(?s).", ".", "é", r"\x41", "(a|b)*", "^a$"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
def test_an_expression_of_python_means_what_it_means_there(pattern):
    texts = [
        "",
        "a",
        "b",
        "ab",
        "aa",
        "aaa",
        "a{",
        "a{,",
        "{}",
        "}",
        "[",
        "&",
        "~",
        ",",
        "-",
        "]",
        "\x08",
        "1",
        "é",
        "<",
        "A",
        "\n",
    ]
    assert [text for text in texts if matches(pattern, text)] == [t for t in texts if re.fullmatch(pattern, t)]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "unclosed group"),
        ("(?<=a)b", "look-around, including look-ahead and look-behind, is not supported"),
        ("(?!a)b", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        ("[a", "unclosed character class"),
        (r"\w{1000}", "Compiled regex exceeds size limit of 10485760 bytes."),
        ("(?x) a", "the flag x is not supported"),
        ("a" * (LONGEST_PATTERN + 1), "it has more than 10000 characters"),
        ("(?i)" + "[!-\U0010ffff]" * 30, "it ignores the case of too many ranges"),
    ],
)
def test_what_cannot_be_read_matches_every_text_and_says_why(pattern, why):
    expression = Expression(pattern, PYTHON, whole=True)
    assert (expression.problem, expression.matches("zzz")) == (why, True)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(\w+_?)+_write", "a" * 10_000),
        ("(a*)*b", "a" * 10_000),
        ("(a|aa)+$", "a" * 10_000 + "!"),
        ("(.*a){20}", "b" * 10_000),
        (r"(\s*\w+\s*,?)+;", "a " * 5000),
        ("((a?){9}){9}b", "a" * 5000),
    ],
)
def test_E1_no_expression_backtracks_on_the_loop(pattern, text):
    assert not matches(pattern, text)


def test_E1_a_text_that_would_take_too_long_matches():
    expression = Expression("((a?){1000}){20}b")
    assert not expression.matches("a" * 10)
    assert expression.matches("a" * (MOST_WORK // 20_000))


def test_a_half_of_a_surrogate_pair_hides_no_name():
    assert matches(".*bash.*", "bash\ud800")


def test_the_stars_of_globs_do_not_backtrack():
    assert not globs("*a" * 40 + "b").matches("a" * 10_000)
    assert globs("*[*]?|[!a]").matches("x*y")
