"""Words of a shell line: texts of which parts may be unknown, and the expansions that need no file system.

Parts that cannot be known are single characters that no text of a call may have.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNKNOWN = "\U0010f001"
"""Any text, as a part of one word."""
OPEN = "\U0010f002"
"""Any text, of which a shell may make several words, or none."""
PLAIN = "\U0010f003"
"""A text that is not empty, and has no slash, no blank and no dash at its start."""
DEFENDED = "\U0010f004"
"""A text that is not empty."""
SPLIT = "\U0010f005"
"""Where a shell splits a value."""
QUOTED = "\U0010f006"
"""A quoted part, which may be empty."""
_BASE = 0x10F100
_SPECIAL = "*?[]{},~.!@+("
_HIDE = {ord(one): chr(_BASE + ord(one)) for one in _SPECIAL}
_SHOW = {_BASE + ord(one): one for one in _SPECIAL} | {ord(QUOTED): None}
_IS_SPECIAL = re.compile(r"[*?\[\]{},~.!@+(]")
_HIDDEN = re.compile("[\U0010f006\U0010f100-\U0010f1ff]")
_UNKNOWN = re.compile("[\U0010f001-\U0010f004]")
_NAMES = {ord(UNKNOWN): "?", ord(OPEN): "?", ord(PLAIN): "?", ord(DEFENDED): "?", ord(SPLIT): " "}
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.))"
)
_ANSI_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")
MOST_WORDS = 64
"""Words that braces may make of one."""


@dataclass(slots=True)
class Word:
    """One word of a command."""

    text: str
    glob: bool = False
    """Whether the shell takes it as a pattern of file names."""
    inside: tuple[Any, ...] = ()
    """The commands whose output is a part of it."""
    variables: tuple[str, ...] = ()
    """The variables of unknown value in it."""

    @property
    def known(self) -> bool:
        """Whether all of it is known."""
        return _UNKNOWN.search(self.text) is None

    @property
    def shown(self) -> str:
        """The word for people, with `?` for what is unknown."""
        return self.text.translate(_NAMES)


def hidden(text: str) -> str:
    """A quoted text: nothing in it is a pattern."""
    return text.translate(_HIDE) if _IS_SPECIAL.search(text) else text


def shown(text: str) -> str:
    """The text without the marks of quotes."""
    return text.translate(_SHOW) if _HIDDEN.search(text) else text


def unknown(text: str) -> bool:
    """Whether a part of the text is not known."""
    return _UNKNOWN.search(text) is not None


def ansi(text: str) -> str:
    """The text of `$'...'`."""

    def one(match: re.Match[str]) -> str:
        letter, octal, *codes, control = match.groups()
        if letter:
            return _ANSI_LETTERS[letter]
        if control:
            return chr(ord(control) & 0x1F)
        code = int(octal, 8) & 0xFF if octal else int(next(filter(None, codes)), 16)
        return chr(code) if 0 <= code < 0x110000 and not 0xD800 <= code < 0xE000 else UNKNOWN

    return _ANSI.sub(one, text)


def braces(text: str) -> Iterator[str]:
    """The texts that a shell makes of `a{b,c}` and `{1..3}`. Raises `ValueError` if they are too many."""
    made = [text]
    for _ in range(16):
        grown = [more for one in made for more in _brace(one)]
        if len(grown) > MOST_WORDS:
            raise ValueError
        if grown == made:
            return iter(made)
        made = grown
    raise ValueError


def _brace(text: str) -> list[str]:
    start = text.find("{")
    while start >= 0:
        depth, commas, at = 0, [], start
        for at in range(start, len(text)):
            letter = text[at]
            if letter == "{":
                depth += 1
            elif letter == "}":
                depth -= 1
                if depth == 0:
                    break
            elif letter == "," and depth == 1:
                commas.append(at)
        if depth:
            start = text.find("{", start + 1)
            continue
        before, inner, after = text[:start], text[start + 1 : at], text[at + 1 :]
        if commas:
            edges = [start, *commas, at]
            return [before + text[a + 1 : b] + after for a, b in itertools.pairwise(edges)]
        found = _RANGE.fullmatch(inner)
        if found:
            return [f"{before}{one}{after}" for one in _sequence(found[1], found[2])]
        start = text.find("{", start + 1)
    return [text]


def _sequence(first: str, last: str) -> Sequence[str]:
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        a, b = int(first), int(last)
        if abs(a - b) >= MOST_WORDS:
            return [PLAIN]
        return [str(one) for one in range(a, b + (1 if b >= a else -1), 1 if b >= a else -1)]
    if len(first) + len(last) != 2 or not (first + last).isalpha():
        return [f"{{{first}..{last}}}"]
    a, b = ord(first), ord(last)
    return [chr(one) for one in range(a, b + (1 if b >= a else -1), 1 if b >= a else -1)]
