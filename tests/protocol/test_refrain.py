"""What is known again by its bytes is what decoding it would have said."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st

from picohook import wire
from picohook.protocol.messages import Answer, decode
from picohook.protocol.refrain import Refrain

GO_ON = '{"jsonrpc":"2.0","id":%s,"result":{"action":"continue"}}'


def after(learnt: bytes, limit: int = 10_000) -> Refrain:
    """What has heard one answer, if that is one."""
    refrain, message = Refrain(limit), decode(learnt)
    if isinstance(message, tuple):
        number, answer = message
        refrain.learn(learnt, b"%d" % number, answer.result)
    return refrain


def known(refrain: Refrain, line: bytes) -> bytes:
    """The id of the request that it knows this line to answer; empty if it does not."""
    parts = refrain.cut(line + b"\n")
    return parts[0] if len(parts) == 1 and parts[0].isdigit() else b""


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("number", [1, 9, 10, 2345, 10**17])
def test_an_answer_is_known_again_whatever_its_id(separators, number):
    first, later = (
        json.dumps({"id": n, "result": wire.GO_ON, "jsonrpc": "2.0"}, separators=separators).encode()
        for n in (7, number)
    )
    assert known(after(first), later) == b"%d" % number


def test_many_answers_are_cut_at_once_and_what_is_between_them_is_given_back_whole():
    refrain = after((GO_ON % 7).encode())
    lines = [GO_ON % 8, GO_ON % 9, '{"other":1}', "noise", "", GO_ON % 10]
    parts = refrain.cut("".join(f"{line}\n" for line in lines).encode())
    assert parts[0] == b"8"
    assert refrain.whole(parts[1]).decode().split("\n") == [*lines[1:], ""]
    assert len(parts) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"8",
        b"",
        (GO_ON % "-8").encode(),
        (GO_ON % "8.0").encode(),
        (GO_ON % '"8"').encode(),
        (GO_ON % "8 ").encode(),
        (GO_ON % "").encode(),
        (GO_ON % "\u0668").encode(),
        (GO_ON % '8,"id":9').encode(),
        (GO_ON % "8").replace("continue", "abort").encode(),
        (GO_ON % "8").encode() + b" ",
    ],
)
def test_what_differs_in_more_than_the_digits_has_to_be_decoded(line):
    assert known(after((GO_ON % 7).encode()), line) == b""


@pytest.mark.parametrize("data", [b"", b"\n", b"7\n", (GO_ON % 7).encode(), (GO_ON % 7).encode() + b"\n"])
def test_before_anything_was_heard_nothing_is_known(data):
    assert Refrain(1000).cut(data) == []


@pytest.mark.parametrize("cut", range(1, len(GO_ON % 8)))
def test_a_line_that_has_not_come_to_its_end_is_not_cut(cut):
    line = (GO_ON % 8).encode()
    refrain = after((GO_ON % 7).encode())
    assert refrain.cut(line[:cut]) == refrain.cut(line[cut:] + b"\n") == []


@pytest.mark.parametrize(
    ("line", "later"),
    [(GO_ON % 2, (GO_ON % 2).replace("2.0", "3.0")), (GO_ON % 0, GO_ON % 5), (GO_ON % "-0", GO_ON % "-5")],
)
def test_an_id_that_cannot_be_told_from_other_digits_is_not_learnt(line, later):
    assert known(after(line.encode()), later.encode()) == b""


@pytest.mark.parametrize("limit", [10_000, 80])
def test_a_line_that_is_long_for_what_it_says_is_not_kept(limit):
    padded = GO_ON.replace("{", "{" + " " * (300 if limit > 300 else 10), 1)
    assert known(after((padded % 7).encode(), limit), (padded % 8).encode()) == b""


def test_nothing_but_continue_is_learnt():
    denial = GO_ON.replace("continue", "deny_tool")
    assert known(after((denial % 7).encode()), (denial % 8).encode()) == b""


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


@given(shapes, numbers, st.lists(st.tuples(shapes, numbers), min_size=1, max_size=4))
@example(GO_ON.replace("%s", "@"), "7", [(GO_ON.replace("%s", "@"), "8")])
def test_what_is_known_is_what_decoding_says_and_nothing_is_lost(shape, one, others):
    first, *later = (shape.replace("@", number).encode() for shape, number in [(shape, one), *others])
    refrain = after(first)
    data = b"".join(line + b"\n" for line in later)
    parts = refrain.cut(data)
    assert not parts or b"".join(map(refrain.whole, parts)) == data
    for part in parts:
        line = refrain.whole(part).removesuffix(b"\n")
        if part.isdigit() and b"%d" % int(part) == part and part != b"0":
            assert decode(line) == (int(part), Answer(wire.GO_ON))
