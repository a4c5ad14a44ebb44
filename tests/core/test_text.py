"""Text of a hook, made fit to be shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as st
from rows import each

from picohook.wire.text import cut, escape, show


@each(
    ("text", "shown"),
    [
        ("plain, ünï, 漢字, 😀", "plain, ünï, 漢字, 😀"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\rc\td\0", r"a\nb\rc\td\x00"),
        ("\x7f\x85\x9b", r"\x7f\x85\x9b"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\u202a\u202e\u2066\u2069\u200e\u200f\u061c", r"\u202a\u202e\u2066\u2069\u200e\u200f\u061c"),
        ("\ud800", r"\ud800"),
        ("", ""),
    ],
)
def test_characters_that_could_act_on_a_terminal_are_escaped(text, shown):
    assert escape(text) == shown


@given(st.text(st.characters()))
def test_escaped_text_is_one_line_without_control_characters(text):
    shown = escape(text)
    assert len(shown.splitlines()) <= 1
    assert not any(unicodedata.category(one) in {"Cc", "Cs"} or unicodedata.bidirectional(one) in BIDI for one in shown)
    shown.encode()


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 40))
def test_cut_text_is_the_longest_beginning_that_fits(text, limit):
    short = cut(text, limit)
    assert text.startswith(short)
    assert len(short.encode()) <= limit
    assert short == text or len((short + text[len(short)]).encode()) > limit


def test_cutting_survives_lone_surrogates():
    assert cut("\ud800" * 10, 100) == "\ud800" * 10
    assert len(cut("\ud800" * 100, 10).encode("utf-8", "surrogatepass")) <= 10


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", "plain"),
        ("é\u2028".encode(), r"é\u2028"),
        (b"\xff\x1b[2J\n", r"\xff\x1b[2J\n"),
        (b"x" * 200, "x" * 200),
        (b"x" * 201, "x" * 200 + "… (201 bytes)"),
        (b"x" * 199 + "é".encode(), "x" * 199 + r"\xc3… (201 bytes)"),
    ],
)
def test_bytes_are_shown_as_one_line_with_how_many_there_were(data, shown):
    assert show(data) == shown
