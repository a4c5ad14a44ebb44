"""Words of a shell line: texts of which parts may be unknown, and the expansions that need no file system.

Parts that cannot be known are single characters that no text of a call may have.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def known(text: str) -> str | None:
    """The text; None if a part of it is not known."""
    return None if unknown(text) else text


def joined(words: Sequence[Word]) -> Word:
    """One word of the texts of these, with blanks between them."""
    return Word(" ".join(word.text for word in words), inside=tuple(one for word in words for one in word.inside))


def braces(text: str) -> list[str]:
    """The texts that a shell makes of `a{b,c}` and `{1..3}`. Raises `ValueError` if they are too many."""
    if text.count("{") > MOST_WORDS:
        raise ValueError
    made = [text]
    for _ in range(16):
        grown = [more for one in made for more in _brace(one)]
        if len(grown) > MOST_WORDS:
            raise ValueError
        if grown == made:
            return made
        made = grown
    raise ValueError


def _brace(text: str) -> list[str]:
    """The texts of the first brace that means several; the text itself if there is none."""
    for start in (at for at, letter in enumerate(text) if letter == "{"):
        depth, edges = 0, [start]
        for end in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                break
            if text[end] == "," and depth == 1:
                edges.append(end)
        else:
            continue
        parts = [text[a + 1 : b] for a, b in itertools.pairwise([*edges, end])]
        if len(parts) == 1:
            found = _RANGE.fullmatch(parts[0])
            parts = _sequence(found[1], found[2]) if found else []
        if parts:
            return [text[:start] + part + text[end + 1 :] for part in parts]
    return [text]


def _sequence(first: str, last: str) -> list[str]:
    if first.isalpha() and last.isalpha():
        a, b, write = ord(first), ord(last), chr
    elif first.isalpha() or last.isalpha():
        return []
    else:
        a, b, write = int(first), int(last), str
    if abs(a - b) >= MOST_WORDS:
        return [PLAIN]
    step = 1 if b >= a else -1
    return [write(one) for one in range(a, b + step, step)]


def edited(value: str, operator: str, operand: str, rest: str) -> str | None:
    """`${value%operand}` and its like; None if it is not computed."""
    if operator[0] in "^,":
        change = str.upper if operator[0] == "^" else str.lower
        return None if operand else change(value) if operator[1:] else change(value[:1]) + value[1:]
    if operator[0] in "%#":
        ends = operator[0] == "%"
        parts = [(value[:at], value[at:]) for at in range(len(value) + 1)]
        kept = [a if ends else b for a, b in parts if fnmatch.fnmatchcase(b if ends else a, operand)]
        return (min if operator[1:] else max)(kept, key=len, default=value)
    if operator[0] == "/" and not re.search(r"[*?\[\\$'\"#%&]", rest):
        old, _, new = rest.partition("/")
        return value.replace(old, new, -1 if operator[1:] else 1)
    found = re.fullmatch(r"\s*(-?\d+)(?::(\d+))?", rest) if operator == ":" else None
    return None if found is None else value[int(found[1]) :][: int(found[2]) if found[2] else None]


def printed(form: str, values: list[str]) -> str | None:
    """What `printf` prints; None if it is not computed."""
    form = ansi(form)
    plain = form.replace("%%", "")
    count = plain.count("%")
    if len(re.findall("%[sdbq]", plain)) != count:
        return None
    if not count:
        return form.replace("%%", "%")
    if "%b" in plain:
        values = [*map(ansi, values)]
    values = values or [""]
    values += [""] * (-len(values) % count)
    form = re.sub("%[dbq]", "%s", form)
    return "".join(form % tuple(values[at : at + count]) for at in range(0, len(values), count))
