"""The table of programs: a row with a mistake says which, and how words are read and chosen."""

import pytest
from pydantic import ValidationError

from picohook.ext.guards.rows import Row, Step, row_of, split, table
from picohook.ext.guards.words import Word


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"does": "operands"}, "a step has one of act, append"),
        ({"read": "operands", "write": "operands"}, "a step has one of"),
        ({"read": "operand"}, "operand: there is no such choice of words"),
        ({"read": "operands", "if": "piped|tired"}, "tired: there is no such choice of words, and no such fact"),
        ({"read": "operands", "whether": "-n"}, "Extra inputs"),
    ],
)
def test_a_step_with_a_mistake_says_which(step, message):
    with pytest.raises(ValidationError, match=message):
        Step.model_validate(step)


def test_a_row_says_which_key_it_does_not_know():
    with pytest.raises(ValidationError, match="value"):
        Row.model_validate({"value": "n"})


def test_all_rows_are_read():
    rows = table()
    assert rows["gtimeout"] == rows["timeout"]
    assert rows["docker"].nested
    assert row_of("python3.12") is rows["python"]
    assert row_of("nobody-has-this").name == ""


@pytest.mark.parametrize(
    ("line", "options", "operands"),
    [
        ("tar czf a.tgz b", {"-c": "", "-z": "", "-f": "a.tgz"}, ["b"]),
        ("rm -i -rf a", {"-r": "", "-f": ""}, ["a"]),
        ("timeout -k 5 10 rm -x", {"-k": "5"}, ["10", "rm", "-x"]),
        ("curl --data-bin @a -sd b c", {"--data-binary": "@a", "-s": "", "-d": "b"}, ["c"]),
        ("python3 -m pip -x", {"-m": "pip"}, ["-x"]),
        ("chmod -x a", {}, ["-x", "a"]),
        ("git -- -x", {"--": ""}, ["-x"]),
    ],
)
def test_words_are_told_apart(line, options, operands):
    words = [Word(text) for text in line.split()]
    made = split(words, row_of(words[0].text))
    assert made.options == options
    assert [word.text for word in made.operands] == operands
