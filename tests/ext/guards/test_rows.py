"""The table of programs: what a row may have, and how words are read and chosen."""

import pytest

from picohook.ext.guards.programs import Started
from picohook.ext.guards.rows import FACTS, Row, Step, row_of, split, table
from picohook.ext.guards.words import Word

FILES = {
    "read",
    "read-tree",
    "write",
    "append",
    "create",
    "delete",
    "delete-tree",
    "move",
    "mode",
    "owner",
    "extract",
} | {
    "git-delete",
    "mount",
    "sent",
}
"""The acts on files."""


def test_each_row_has_steps_that_somebody_takes():
    for name, row in table().items():
        for step in row.steps:
            assert hasattr(Started, step.method) or step.kind in FILES, (name, step.kind)
            assert all(option.startswith("-") for option in step.options), (name, step.what)
            for names, _ in (*step.subs, *((one.options | one.globs, one.wanted) for one in step.needs)):
                known = {one for one in names if one.startswith("-")} | FACTS.keys()
                assert step.subs or names <= known, (name, names)


@pytest.mark.parametrize(
    "given", [{"if": "-x"}, {"read": "operands", "write": "operands"}, {"read": "operands", "whether": "-n"}]
)
def test_a_step_has_one_act_and_no_unknown_key(given):
    with pytest.raises(ValueError, match="values to unpack"):
        Step(given)


def test_a_row_has_no_unknown_key():
    with pytest.raises(TypeError, match="value"):
        Row(value="n")


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
        ("xargs -i{} -l rm -x", {"-i": "{}", "-l": ""}, ["rm", "-x"]),
        ("pip --pre x", {"--pre": ""}, ["x"]),
        ("jq --rawfile a b .c", {"--rawfile": "b"}, [".c"]),
    ],
)
def test_words_are_told_apart(line, options, operands):
    words = [Word(text) for text in line.split()]
    made = split(words, row_of(words[0].text))
    assert made.options == options
    assert [word.text for word in made.operands] == operands
