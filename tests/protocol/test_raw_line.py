"""Raw lines: whole, cut, without an end, and shown so that they cannot change a terminal."""

from __future__ import annotations

import pytest

from picohook.protocol.raw_line import MAX_KEPT, RawLine, RawLineSplitter


def split(*parts, sent=True):
    found = []
    splitter = RawLineSplitter("h", found.append, sent=sent)
    for part in parts:
        splitter.take(part)
    splitter.close()
    return found


@pytest.mark.parametrize("parts", [(b"ab\n\ncd\n",), (b"a", b"b\n", b"", b"\nc", b"d\n")], ids=["at once", "in pieces"])
def test_lines_are_the_same_however_their_bytes_arrive(parts):
    assert split(*parts) == [RawLine("h", True, b"ab", 2), RawLine("h", True, b"", 0), RawLine("h", True, b"cd", 2)]


def test_an_unfinished_line_is_reported_at_the_end():
    assert split(b"a\nb", sent=False) == [RawLine("h", False, b"a", 1), RawLine("h", False, b"b", 1, ended=False)]


def test_of_a_long_line_the_beginning_and_the_size_are_kept():
    long, short = split(b"x" * MAX_KEPT, b"xx\ny\n")
    assert (long.data, long.size, short.data) == (b"x" * MAX_KEPT, MAX_KEPT + 2, b"y")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (RawLine("h", True, b"{}", 2), "→ h  {}"),
        (RawLine("h", False, b"\x1b[2J\xff", 5, ended=False), "← h  \\x1b[2J\\xff (no newline)"),
        (RawLine("h", True, b"ab", 9), "→ h  ab… (9 bytes)"),
    ],
)
def test_a_line_is_shown_with_its_direction_and_cannot_change_a_terminal(line, shown):
    assert line.shown == shown
