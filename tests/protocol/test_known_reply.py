"""What is read by its bytes is what decoding it would have said."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import example, given, strategies as st
from rows import each

from picohook.protocol.codec import decode
from picohook.protocol.known_reply import (
    COMPACT,
    CONTINUE_REPLY,
    LONGEST_LINE,
    SPELLINGS,
    PlainReply,
    Spelling,
    spelling_of,
)
from picohook.protocol.messages import Reply, read_response
from picohook.protocol.peer import DroppedLine, Peer
from picohook.wire import words

SEVENTH = b'{"jsonrpc":"2.0","id":7,"result":{"action":"continue"}}'


def read(line: bytes, spelling: Spelling = COMPACT) -> tuple[bytes, Reply | PlainReply] | None:
    """The id and the reply that a peer would take from these bytes; None if it would decode the line."""
    digits, reply = spelling.read(line)
    return (digits, reply) if reply is not None and digits.isdigit() and b"%d" % int(digits) == digits else None


def spelled(*members: str) -> bytes:
    return ("{" + ",".join(members) + "}").encode()


VERSION, ID = '"jsonrpc":"2.0"', '"id":7'


def with_result(result: str) -> bytes:
    return spelled(VERSION, ID, f'"result":{result}')


@each("order", list(permutations([VERSION, ID, '"result":{"action":"skip","reason":"a why"}'])))
@each("gap", ["", " "])
def test_a_spelling_is_found_where_the_id_is_before_the_result(order, gap):
    line = spelled(*order).replace(b":", b":" + gap.encode()).replace(b",", b"," + gap.encode())
    spelling = spelling_of(line)
    if line.index(b'"result"') < line.index(b'"id"'):
        assert spelling is None
    else:
        assert read(line, spelling) == (b"7", ("skip", "a why"))


def test_a_long_line_is_decoded():
    assert read(with_result(f'{{"action":"skip","reason":"{"x" * 1000}"}}')) is not None
    assert read(with_result(f'{{"action":"skip","reason":"{"x" * LONGEST_LINE}"}}')) is None


@pytest.mark.parametrize("number", [1, 9, 10, 2345, 10**17, 10**30])
def test_a_spelling_has_any_id_action_and_reason(number):
    learnt, later, last = (
        json.dumps({"id": n, "result": result, "jsonrpc": "2.0"}).encode()
        for n, result in (
            (7, {"action": "continue"}),
            (number, {"action": "deny_tool", "reason": "no"}),
            (number, {"action": "continue"}),
        )
    )
    spelling = spelling_of(learnt)
    assert read(later, spelling) == (b"%d" % number, ("deny_tool", "no"))
    assert read(last, spelling) == (b"%d" % number, CONTINUE_REPLY)
    assert read(last) is None


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ('{"action":"continue"}', CONTINUE_REPLY),
        ('{"action":"deny_tool"}', ("deny_tool", "")),
        ('{"action":"continue","reason":"grüße, 你好 🙂"}', ("continue", "grüße, 你好 🙂")),
        ('{"action":"pause","reason":"%s"}' % ("y" * words.MAX_REASON), ("pause", "y" * words.MAX_REASON)),
    ],
)
def test_an_action_with_or_without_a_reason_is_recognised(result, expected):
    assert read(with_result(result)) == (b"7", expected)


@each(
    "line",
    [
        with_result('{"action":"continue","reason":""}'),
        with_result('{"action":"continue","reason":"%s"}' % ("é" * (words.MAX_REASON // 2) + "y")),
        with_result('{"action": "continue"}'),
        with_result('{"action":"continue","reason": "a"}'),
        with_result('{"action":"modify"}'),
        with_result('{"action":"nonsense","reason":"a"}'),
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
        b"",
        b"7",
        b'7,"result":{"action":"continue"}}',
        b" " + SEVENTH,
        SEVENTH + b" ",
        SEVENTH + b"\r",
        SEVENTH + SEVENTH,
        b"\xef\xbb\xbf" + SEVENTH,
        spelled(VERSION, ID, ID),
        spelled(VERSION, '"id":7.0', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":"7"', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":07', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":-7', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":7 ', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":\u0667', '"result":{"action":"continue"}'),
        spelled(VERSION, '"id":7', '"id":7', '"result":{"action":"continue"}'),
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
    assert read(line) is None


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
        "\x7f",
        "\u2028",
        "\u0667",
    ),
    *('"id":2', '"id":3', '"jsonrpc":"2.0"', '"result"', '"action"', '"reason"', '"continue"', '"error":null', '"x":1'),
    *(
        '","reason":"',
        '", "reason": "',
        ',"result":{"action":"',
        '"}}',
        '"},"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","id":',
    ),
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
    """Whether a line is recognised by its bytes, in any spelling. Then decoding it has to give the same."""
    recognised = [plain for spelling in SPELLINGS if (plain := read(line, spelling)) is not None]
    for digits, answer in recognised:
        response = decode(line)
        assert (response.id, read_response(response, strict=True)) == (int(digits), as_reply(answer))
    return bool(recognised)


@pytest.mark.parametrize("members", list(permutations(["jsonrpc", "id", "result"])))
@pytest.mark.parametrize("reason", [{}, {"reason": "a é"}])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_no_single_change_of_an_answer_makes_it_be_recognised_as_something_else(members, reason, separators):
    whole = {"jsonrpc": "2.0", "id": 7, "result": {"action": "continue", **reason}}
    answer = {name: whole[name] for name in members}
    line = json.dumps(answer, separators=separators, ensure_ascii=False).encode()
    recognised = 0
    for start in range(len(line) + 1):
        for token in (b"", b"\xff", *map(str.encode, TOKENS)):
            for end in {start, start + 1, start + len(token)}:
                recognised += require_same(line[:start] + token + line[end:])
    assert recognised > len(line) or members.index("result") < members.index("id")


@given(st.lists(mutated(), min_size=1, max_size=3))
@example([SEVENTH.replace(b"7", b"2"), SEVENTH.replace(b"7", b"3"), SEVENTH.replace(b"7", b"4")])
def test_answers_recognised_by_their_bytes_give_the_same_as_answers_that_are_decoded(lines):
    for line in lines:
        require_same(line)
    # A space at the end of a line keeps it from being recognised, and means nothing.
    assert heard(lines, b"") == heard(lines, b" ")
