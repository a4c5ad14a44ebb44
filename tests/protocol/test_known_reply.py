"""What is known again by its bytes is what decoding it would have said."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st

from picohook.protocol.codec import decode
from picohook.protocol.known_reply import MAX_LINE, KnownReply
from picohook.protocol.messages import Reply
from picohook.wire import words

GO_ON = '{"jsonrpc":"2.0","id":%s,"result":{"action":"continue"}}'


def after(learnt: bytes, limit: int = 10_000) -> KnownReply | None:
    """What is kept of one answer, if it is one."""
    message = decode(learnt)
    if not isinstance(message, tuple):
        return None
    number, answer = message
    return KnownReply.learn(learnt, b"%d" % number, answer.result, limit)


def known(refrain: KnownReply | None, line: bytes) -> bytes:
    """The id of the request that it knows this line to answer; empty if it does not."""
    if refrain is None:
        return b""
    first, parts, last = refrain.cut(line + b"\n", new_line=True)
    return parts[0] if not first and not last and len(parts) == 1 and parts[0].isdigit() else b""


SEVENTH = (GO_ON % 7).encode()


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("number", [1, 9, 10, 2345, 10**17])
def test_a_known_answer_is_recognized_with_any_id(separators, number):
    first, later = (
        json.dumps({"id": n, "result": words.CONTINUE_RESULT, "jsonrpc": "2.0"}, separators=separators).encode()
        for n in (7, number)
    )
    assert known(after(first), later) == b"%d" % number


def test_many_answers_are_split_at_once_and_other_bytes_between_them_are_kept_whole():
    refrain = after(SEVENTH)
    lines = [GO_ON % 8, GO_ON % 9, '{"other":1}', "noise", "", GO_ON % 10]
    first, parts, last = refrain.cut("".join(f"{line}\n" for line in lines).encode(), new_line=True)
    assert (first, parts[0], len(parts), last) == (b"", b"8", 2, b"")
    assert refrain.whole(parts[1]).decode().split("\n") == [*lines[1:], ""]


def test_bytes_before_the_first_and_after_the_last_answer_are_kept():
    data = f'9}}\n{{"other":1}}\n{GO_ON % 8}\n{GO_ON % 9}\nnoise\n{{"id":'
    assert after(SEVENTH).cut(data.encode(), new_line=False) == (
        b'9}\n{"other":1}\n',
        [b"8", b"9"],
        b'noise\n{"id":',
    )


def test_the_end_of_an_earlier_line_is_not_an_answer():
    data = f"{GO_ON % 8}\n{GO_ON % 9}\n".encode()
    assert after(SEVENTH).cut(data, new_line=False) == (f"{GO_ON % 8}\n".encode(), [b"9"], b"")


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
def test_a_line_that_differs_in_more_than_the_id_has_to_be_decoded(line):
    assert known(after(SEVENTH), line) == b""


@pytest.mark.parametrize("place", range(1, len(GO_ON % 8)))
def test_a_line_that_has_not_come_to_its_end_is_not_cut(place):
    line, refrain = (GO_ON % 8).encode(), after(SEVENTH)
    assert refrain.cut(line[:place], new_line=True) == (line[:place], [], b"")
    assert refrain.cut(line[place:] + b"\n", new_line=False) == (line[place:] + b"\n", [], b"")


@pytest.mark.parametrize("line", [GO_ON % 2, GO_ON % 0, GO_ON % "-0"])
def test_an_id_that_cannot_be_distinguished_from_other_digits_is_not_learnt(line):
    assert after(line.encode()) is None


@pytest.mark.parametrize(("padding", "limit"), [(300, 10_000), (10, 80)])
def test_a_line_that_is_too_long_for_its_content_is_not_kept(padding, limit):
    line = SEVENTH.replace(b"{", b"{" + b" " * padding, 1)
    assert after(line, limit) is None
    assert after(line, limit + 1000) is not None or padding > MAX_LINE


def test_only_continue_is_learnt():
    assert after(SEVENTH.replace(b"continue", b"deny_tool")) is None


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


@given(shapes, numbers, st.lists(st.tuples(shapes, numbers), min_size=1, max_size=4), st.integers(0, 40), st.booleans())
@example(GO_ON.replace("%s", "@"), "7", [(GO_ON.replace("%s", "@"), "8")], 0, True)
def test_known_replies_give_the_same_as_decoding_and_no_line_is_lost(shape, one, others, missing, new_line):
    learnt, *later = (shape.replace("@", number).encode() for shape, number in [(shape, one), *others])
    refrain = after(learnt)
    if refrain is None:
        return
    data = b"".join(line + b"\n" for line in later)[missing if not new_line else 0 :]
    first, parts, last = refrain.cut(data, new_line=new_line)
    assert first + b"".join(map(refrain.whole, parts)) + last == data
    assert new_line or first
    assert not parts or not first or first.endswith(b"\n")
    for part in parts:
        if part.isdigit() and b"%d" % int(part) == part and part != b"0":
            assert decode(refrain.whole(part).removesuffix(b"\n")) == (int(part), Reply(words.CONTINUE_RESULT))
