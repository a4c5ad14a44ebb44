"""What is recognised by its bytes is what decoding it would have said."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import example, given, strategies as st

from picohook.protocol.codec import decode
from picohook.protocol.known_reply import CONTINUE_REPLY, MAX_DIGITS, KnownReply, PlainReply, read_plain
from picohook.protocol.messages import Reply
from picohook.protocol.peer import DroppedLine, Peer
from picohook.wire import words

GO_ON = '{"jsonrpc":"2.0","id":%s,"result":{"action":"continue"}}'


def after(learnt: bytes, limit: int = 10_000) -> KnownReply | None:
    """What is kept of one answer, if it is a plain `continue`."""
    plain = read_plain(learnt)
    if plain is None or plain[1] is not CONTINUE_REPLY:
        return None
    return KnownReply.learn(learnt, plain[0], limit)


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


def test_a_line_that_a_longer_id_would_make_too_long_is_not_learnt():
    longest = len(SEVENTH) - 1 + MAX_DIGITS
    assert after(SEVENTH, longest - 1) is None
    assert known(after(SEVENTH, longest), (GO_ON % (10**MAX_DIGITS - 1)).encode())


def test_only_continue_is_learnt():
    assert after(SEVENTH.replace(b"continue", b"deny_tool")) is None


def spelled(*members: str) -> bytes:
    return ("{" + ",".join(members) + "}").encode()


VERSION, ID = '"jsonrpc":"2.0"', '"id":7'


def with_result(result: str) -> bytes:
    return spelled(VERSION, ID, f'"result":{result}')


@pytest.mark.parametrize("order", list(permutations([VERSION, ID, '"result":{"action":"skip","reason":"a why"}'])))
@pytest.mark.parametrize("gap", ["", " "])
def test_a_plain_answer_is_recognised_with_its_members_in_any_order(order, gap):
    line = spelled(*order).replace(b":", b":" + gap.encode()).replace(b",", b"," + gap.encode())
    assert read_plain(line) == (b"7", ("skip", "a why"))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ('{"action":"continue"}', CONTINUE_REPLY),
        ('{"action":"deny_tool"}', ("deny_tool", "")),
        ('{"action":"continue","reason":"grüße, 你好 🙂"}', ("continue", "grüße, 你好 🙂")),
        ('{"action":"x","reason":"%s"}' % ("y" * words.MAX_REASON), ("x", "y" * words.MAX_REASON)),
    ],
)
def test_an_action_with_or_without_a_reason_is_recognised(result, expected):
    assert read_plain(with_result(result)) == (b"7", expected)


@pytest.mark.parametrize(
    "line",
    [
        with_result('{"action":"continue","reason":""}'),
        with_result('{"action":"continue","reason":"%s"}' % ("y" * words.MAX_REASON + "y")),
        with_result('{"action":"deny_tool","reason":"a \\u0041"}'),
        with_result('{"action":"deny_tool","reason":"a \\" b"}'),
        with_result('{"\\u0061ction":"deny_tool","reason":"a"}'),
        with_result('{"action":"deny_tool","reason":"a\tb"}'),
        with_result('{"action":"deny_tool","reason":"a\x00b"}'),
        with_result('{"action":"deny_tool","reason":"@"}').replace(b"@", b"\xff"),
        with_result('{"action":"deny_tool","reason":"@"}').replace(b"@", b"\xed\xa0\x80"),
        with_result('{"action":"deny_tool","reason":7}'),
        with_result('{"action":"deny_tool","reason":null}'),
        with_result('{"action":null,"reason":"a"}'),
        with_result('{"action":["continue"]}'),
        with_result('{"action":"continue","action":"deny_tool"}'),
        with_result('{"action":"deny_tool","action":"continue","reason":"a"}'),
        with_result('{"action":"continue","reason":"a","reason":"b"}'),
        with_result('{"action":"continue","reason":"a","x":1}'),
        with_result('{"Action":"continue"}'),
        with_result('{"reason":"a"}'),
        with_result("{}"),
        with_result('{"action":"continue"}') + b"}",
        b" " + SEVENTH,
        b"\xef\xbb\xbf" + SEVENTH,
        spelled(VERSION, ID, ID),
        spelled(VERSION, '"id":7.0', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":"7"', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":07', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":-7', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":0', '"result":{"action":"continue"}'),
        spelled(VERSION, f'"id":{10**MAX_DIGITS}', '"result":{"action":"continue"}'),
        spelled('"jsonrpc":"2.1"', ID, '"result":{"action":"continue"}'),
        spelled('"jsonrpc":2.0', ID, '"result":{"action":"continue"}'),
        spelled(ID, '"result":{"action":"continue"}'),
        spelled(VERSION, ID, '"result":{"action":"continue"}', '"error":null'),
        spelled(VERSION, ID, '"result":{"action":"continue"}', ID),
        spelled(VERSION, VERSION, ID),
        SEVENTH.replace(b",", b"", 1),
        SEVENTH.replace(b"{", b"{,", 1),
    ],
)
def test_any_other_answer_has_to_be_decoded(line):
    assert read_plain(line) is None


def asked() -> Peer:
    """A peer whose requests 2 to 5 wait for replies; the last one was not sent yet, and number 4 is read strictly."""
    peer = Peer()
    peer.hello("a hook", [], "hello")
    peer.data_sent(len(b"".join(peer.data_to_send())))
    list(peer.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{}}\n'))
    peer.accept_hello({})
    for number in range(2, 5):
        peer.request("hook.x", b"{}", number, strict=number == 4)
    peer.data_sent(len(b"".join(peer.data_to_send())))
    peer.request("hook.x", b"{}", 5)
    return peer


def as_reply(answer: Reply | PlainReply) -> Reply:
    """The reply that a plain one stands for."""
    if isinstance(answer, Reply):
        return answer
    action, reason = answer
    return Reply({"action": action, "reason": reason} if reason else {"action": action})


def heard(lines: list[bytes], end: bytes) -> list[object]:
    """What comes of these lines, each with this end."""
    seen: list[object] = []
    for event in asked().receive_data(b"".join(line + end + b"\n" for line in lines)):
        if isinstance(event, DroppedLine):
            seen.append(("dropped", event.late))  # the reason may name a column
        elif isinstance(event, tuple):
            seen.append((event[0], as_reply(event[1])))
        else:
            seen.append(event)
    return seen


TOKENS = [
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        '"',
        "\\",
        "\\u0061",
        "\n",
        "\t",
        "\x00",
        "é",
        "0",
        "2",
        "7",
        "-",
        ".0",
        "e5",
        "null",
    ),
    *('"id":2', '"id":3', '"jsonrpc":"2.0"', '"result"', '"action"', '"reason"', '"continue"', '"error":null', '"x":1'),
]
tokens = st.sampled_from(TOKENS)
places = st.floats(0, 1)


@st.composite
def mutated(draw) -> bytes:
    """A plain answer, and what a few changes make of it."""
    number = draw(st.sampled_from(["2", "3", "4", "5", "6", "02", "2.0", '"2"']))
    reason = draw(st.one_of(st.none(), st.just("a why"), st.text(max_size=5)))
    result = {"action": draw(st.sampled_from(["continue", "deny_tool", "modify", "nonsense", ""]))}
    if reason is not None:
        result["reason"] = reason
    gap = draw(st.sampled_from(["", " "]))
    written = json.dumps(result, separators=("," + gap, ":" + gap), ensure_ascii=draw(st.booleans()))
    order = draw(st.permutations([f'"jsonrpc":{gap}"2.0"', f'"id":{gap}{number}', f'"result":{gap}{written}']))
    line = ("{" + f",{gap}".join(order) + "}").encode("utf-8", "surrogatepass")
    for _ in range(draw(st.integers(0, 3))):
        start = int(draw(places) * len(line))
        what = draw(st.integers(0, 3))
        piece = draw(tokens).encode() if what < 3 else draw(st.binary(max_size=2))
        line = line[:start] + piece + line[start + (0, 1, len(piece), 1)[what] :]
    return line


def require_same(line: bytes) -> bool:
    """Whether a line is recognised by its bytes. Then decoding it has to give the same."""
    plain = read_plain(line)
    if plain is not None:
        digits, answer = plain
        assert decode(line) == (int(digits), as_reply(answer))
    return plain is not None


@pytest.mark.parametrize("result", ['{"action":"continue"}', '{"action": "skip", "reason": "a é"}'])
def test_no_single_change_of_an_answer_makes_it_be_recognised_as_something_else(result):
    line = with_result(result)
    recognised = 0
    for start in range(len(line) + 1):
        for token in map(str.encode, ["", *TOKENS]):
            for end in {start, start + 1, start + len(token)}:
                recognised += require_same(line[:start] + token + line[end:])
    assert recognised > len(line)


@given(st.lists(mutated(), min_size=1, max_size=3))
@example([SEVENTH.replace(b"7", b"2"), SEVENTH.replace(b"7", b"3"), SEVENTH.replace(b"7", b"4")])
def test_answers_recognised_by_their_bytes_give_the_same_as_answers_that_are_decoded(lines):
    for line in lines:
        require_same(line)
    # A space at the end of a line keeps it from being recognised, and means nothing.
    assert heard(lines, b"") == heard(lines, b" ")


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
