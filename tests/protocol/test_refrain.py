"""What is known again by its bytes is what decoding it would have said."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st

from picohook import wire
from picohook.protocol.messages import Answer, decode
from picohook.protocol.refrain import Refrain

GO_ON = '{"jsonrpc":"2.0","id":%s,"result":{"action":"continue"}}'


def after(learnt: bytes) -> Refrain:
    """What has heard one answer."""
    refrain = Refrain()
    refrain.learn(learnt, decode(learnt))
    return refrain


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("number", [1, 9, 10, 2345, 10**17])
def test_an_answer_is_known_again_whatever_its_id(separators, number):
    first, later = (
        json.dumps({"id": n, "result": wire.GO_ON, "jsonrpc": "2.0"}, separators=separators).encode()
        for n in (7, number)
    )
    assert after(first).request(later) == number


@pytest.mark.parametrize(
    "line",
    [
        b"8",
        b"",
        (GO_ON % "08").encode(),
        (GO_ON % "-8").encode(),
        (GO_ON % "8.0").encode(),
        (GO_ON % '"8"').encode(),
        (GO_ON % "8 ").encode(),
        (GO_ON % "").encode(),
        (GO_ON % "0").encode(),
        (GO_ON % "\u0668").encode(),
        (GO_ON % ("9" * 5000)).encode(),
        (GO_ON % '8,"id":9').encode(),
        (GO_ON % "8").replace("continue", "abort").encode(),
        (GO_ON % "8").encode() + b" ",
    ],
)
def test_what_differs_in_more_than_the_digits_has_to_be_decoded(line):
    assert after((GO_ON % 7).encode()).request(line) == 0


def test_before_anything_was_heard_nothing_is_known():
    assert [Refrain().request(line) for line in (b"", b"7", (GO_ON % 7).encode())] == [0, 0, 0]


@pytest.mark.parametrize(
    ("line", "later"),
    [(GO_ON % 2, (GO_ON % 2).replace("2.0", "3.0")), (GO_ON % 0, GO_ON % 5), (GO_ON % "-0", GO_ON % "-5")],
)
def test_an_id_that_cannot_be_told_from_other_digits_is_not_learnt(line, later):
    assert after(line.encode()).request(later.encode()) == 0


def test_a_line_that_is_long_for_what_it_says_is_not_kept():
    padded = GO_ON.replace("{", "{" + " " * 300, 1)
    assert after((padded % 7).encode()).request((padded % 8).encode()) == 0


def test_nothing_but_continue_is_learnt():
    denial = GO_ON.replace("continue", "deny_tool")
    assert after((denial % 7).encode()).request((denial % 8).encode()) == 0


gaps = st.sampled_from(["", " ", "\t"])
members = st.sampled_from(
    [
        '"jsonrpc":"2.0"',
        '"id":@',
        '"result":{"action":"continue"}',
        '"result":{"action":"continue","x":2}',
        '"result": {"action" :"continue"}',
        '"x":@',
        '"x":"@"',
        '"x":7',
        '"method":"m"',
        '"error":null',
    ]
)
shapes = st.builds(
    lambda inside, gap, most: "{" + f",{gap}".join([*inside, *most]) + "}",
    st.lists(members, max_size=2),
    gaps,
    st.permutations(['"jsonrpc":"2.0"', '"id":@', '"result":{"action":"continue"}']),
)
numbers = st.one_of(st.integers(-3, 3000).map(str), st.sampled_from(["2.0", '"7"', "1e2", "007", "null", "7,7", "[7]"]))


@given(shapes, numbers, numbers)
@example(GO_ON.replace("%s", "@"), "7", "8")
def test_what_is_known_is_what_decoding_says(shape, one, other):
    first, later = (shape.replace("@", number).encode() for number in (one, other))
    learnt = decode(first)
    refrain = Refrain()
    if isinstance(learnt, Answer):
        refrain.learn(first, learnt)
    number = refrain.request(later)
    if number:
        assert decode(later) == Answer(number, wire.GO_ON)
