"""Framing: bytes to lines."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from rows import each

from picohook.protocol.lines import LineBuffer


class Watched(bytes):
    """Bytes that count how many of them a search looked at."""

    looked_at = 0

    def find(self, wanted: bytes, start: int = 0) -> int:
        found = super().find(wanted, start)
        type(self).looked_at += (found + 1 if found >= 0 else len(self)) - start
        return found

    def split(self, wanted: bytes) -> list[bytes]:
        type(self).looked_at += len(self)
        return super().split(wanted)


def split(buffer: LineBuffer, *chunks: bytes) -> list[bytes]:
    return [line for chunk in chunks for line in buffer.feed(chunk)]


def one_by_one(data: bytes) -> list[bytes]:
    return [data[place : place + 1] for place in range(len(data))]


@pytest.mark.parametrize("arrives", [lambda data: [data], one_by_one], ids=["at once", "byte by byte"])
class TestTheLimitIsExact:
    def test_a_line_of_just_the_limit_comes_out(self, arrives):
        buffer = LineBuffer(8)
        assert split(buffer, *arrives(b"12345678\n12345678\n")) == [b"12345678", b"12345678"]
        assert not buffer.too_long

    def test_one_byte_more_overflows(self, arrives):
        buffer = LineBuffer(8)
        assert split(buffer, *arrives(b"123456789\n")) == []
        assert buffer.too_long

    def test_it_overflows_before_the_line_ends(self, arrives):
        buffer = LineBuffer(8)
        assert split(buffer, *arrives(b"12345678")) == []
        assert not buffer.too_long
        assert split(buffer, *arrives(b"9")) == []
        assert buffer.too_long

    def test_a_good_line_before_an_endless_one_comes_out(self, arrives):
        buffer = LineBuffer(8)
        assert split(buffer, *arrives(b"good\n123456789\nlost\n")) == [b"good"]
        assert buffer.too_long


def test_after_an_overflow_no_lines_come_out_and_no_bytes_are_kept():
    buffer = LineBuffer(8)
    assert split(buffer, b"123456789", b"\n", b"{}\n", b"12") == []
    assert buffer.pending == 0


@pytest.mark.parametrize("start", [b"", b"1234"], ids=["at a line's start", "inside a line"])
def test_F1_an_endless_line_is_never_held_beyond_the_limit(start):
    buffer = LineBuffer(8)
    split(buffer, start, b"x" * 1000)
    assert buffer.pending == 0
    assert buffer.too_long


@each(
    "character",
    ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0"],
)
def test_F7_only_a_newline_ends_a_line(character):
    line = f'{{"said": "one{character}two"}}'.encode()
    assert split(LineBuffer(100), line + b"\n") == [line]
    assert split(LineBuffer(100), *one_by_one(line + b"\n")) == [line]


def test_a_newline_right_at_a_chunks_edge_ends_one_line_and_starts_no_other():
    assert split(LineBuffer(9), b"one", b"\n", b"two\n", b"three") == [b"one", b"two"]


def test_blank_lines_come_out_blank():
    assert split(LineBuffer(9), b"\n\n\r\n one\n") == [b"", b"", b"\r", b" one"]


def test_a_fragment_is_held_until_it_is_a_line():
    buffer = LineBuffer(9)
    assert split(buffer, b"{}") == []
    assert buffer.pending == 2


def test_feeding_nothing_changes_nothing():
    buffer = LineBuffer(9)
    assert split(buffer, b"ab", b"", b"c\n") == [b"abc"]


def test_F1_no_byte_is_looked_at_twice_however_slowly_a_long_line_arrives():
    Watched.looked_at = 0
    buffer = LineBuffer(100_000)
    data = b"x" * 50_000 + b"\n" + b"y" * 49 + b"\n"
    lines = [line for place in range(0, len(data), 7) for line in buffer.feed(Watched(data[place : place + 7]))]
    assert [len(line) for line in lines] == [50_000, 49]
    assert Watched.looked_at == len(data)


def test_a_long_line_is_gathered_in_place_and_not_copied_with_every_chunk():
    buffer = LineBuffer(100_000)
    split(buffer, b"begun")
    held = buffer.tail
    for _ in range(100):
        split(buffer, b"x" * 100)
        assert buffer.tail is held
    assert [len(line) for line in split(buffer, b"\n")] == [10_005]


def test_no_byte_is_looked_at_twice_when_many_lines_come_in_one_chunk():
    Watched.looked_at = 0
    data = b"{}\n" * 10_000 + b"{"
    assert sum(1 for _ in LineBuffer(100).feed(Watched(data))) == 10_000
    assert Watched.looked_at == len(data)


chunks = st.lists(st.lists(st.sampled_from([b"\n", b"\r\n", b"x", b"\xe2\x80\xa8", b"yy"]), max_size=8).map(b"".join))


@given(chunks, st.integers(1, 12))
def test_the_lines_do_not_depend_on_the_chunks(pieces, limit):
    whole, piecemeal = LineBuffer(limit), LineBuffer(limit)
    assert split(piecemeal, *pieces) == split(whole, b"".join(pieces))
    assert (piecemeal.too_long, piecemeal.pending) == (whole.too_long, whole.pending)


@given(st.lists(st.binary(max_size=20)), st.integers(1, 12))
def test_the_lines_are_those_between_newlines_up_to_the_first_that_is_too_long(pieces, limit):
    buffer = LineBuffer(limit)
    *complete, rest = b"".join(pieces).split(b"\n")
    fits = [len(line) <= limit for line in [*complete, rest]]
    first_bad = fits.index(False) if False in fits else len(fits)
    assert split(buffer, *pieces) == complete[:first_bad]
    assert buffer.too_long is (first_bad < len(fits))
    assert buffer.pending == (0 if buffer.too_long else len(rest))
