"""Text of a call as a person sees it: what is invisible, acts on a screen, or looks like something else is an escape."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from pathlib import Path

from ...wire.text import escape

_WORD = re.compile(r"\w*[^\W\x00-\x7f]\w*")
_ODD = re.compile(r"[^\x00-\x7f]")
_DASH = re.compile(r"(?<!\S)[\u2010-\u2015\u2212\ufe58](?=\S)")
"""A dash where an option begins."""
_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_LIKE_MARKS, _BLANK, _LIKE_LETTERS = (frozenset("".join(_DATA[name])) for name in ("marks", "blanks", "letters"))


def plain(text: str) -> str:
    """The text with escapes for control characters, marks of direction, blanks and look-alikes. Lines and tabs stay."""
    if not text.isascii():
        text = _DASH.sub(_escaped, _WORD.sub(_word, text))
        text = _ODD.sub(_odd, text)
    return "\n".join("\t".join(map(escape, line.split("\t"))) for line in text.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _word(found: re.Match[str]) -> str:
    """A word without look-alikes: it mixes scripts, or all its letters look Latin."""
    word = found[0]
    letters = [letter for letter in word if letter.isalpha()]
    if any(letter.isascii() for letter in letters) or all(letter in _LIKE_LETTERS for letter in letters):
        return _ODD.sub(
            lambda one: _escaped(one) if one[0] in _LIKE_LETTERS or _script(one[0]) in _DATA["scripts"] else one[0],
            word,
        )
    return word


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _odd(found: re.Match[str]) -> str:
    """A character, or its escape."""
    one = found[0]
    before = found.string[found.start() - 1 : found.start()]
    stands_alone = (
        unicodedata.combining(one) and before.isascii() and len(unicodedata.normalize("NFC", before + one)) > 1
    )
    hidden = one in _LIKE_MARKS or one in _BLANK or not one.isprintable() or "\ufe00" <= one <= "\ufe0f"
    if hidden or stands_alone or "\U000e0100" <= one <= "\U000e01ef" or unicodedata.normalize("NFKC", one).isascii():
        return _escaped(found)
    return one
