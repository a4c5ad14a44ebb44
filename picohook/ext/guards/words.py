"""Words of a shell line: texts of which parts may be unknown, and the expansions that need no file system.

Parts that cannot be known are single characters that no text of a call may have.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.)|(.))",
    re.DOTALL,
)
_ANSI_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_BRACES = re.compile(r"\{([^{},]*(?:,[^{},]*)+|(-?\d+)\.\.(-?\d+)(?:\.\.-?\d+)?|\w\.\..*?)\}")
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


def ansi(text: str, other: str = "\\") -> str:
    """The text of `$'...'`, or of a string of another language. `other`: what is before a letter that means itself."""

    def one(match: re.Match[str]) -> str:
        letter, octal, *codes, control, plain = match.groups()
        if letter:
            return _ANSI_LETTERS[letter]
        if control:
            return chr(ord(control) & 0x1F)
        if plain:
            return other + plain
        code = int(octal, 8) & 0xFF if octal else int(next(filter(None, codes)), 16)
        return chr(code) if 0 <= code < 0x110000 and not 0xD800 <= code < 0xE000 else UNKNOWN

    return _ANSI.sub(one, text)


def joined(words: Sequence[Word]) -> Word:
    """One word of the texts of these, with blanks between them."""
    return Word(" ".join(word.text for word in words), inside=tuple(one for word in words for one in word.inside))


def braces(text: str) -> list[str]:
    """The texts that a shell makes of `a{b,c}` and `{1..3}`. Raises `ValueError` for other sequences.

    It also does if they are too many, or in each other.
    """
    found = _BRACES.search(text)
    if found is None:
        return [text]
    before, after = text[: found.start()], text[found.end() :]
    if ("{" in before and "}" in after) or not (found[2] or "," in found[1]):
        raise ValueError
    parts = _numbers(int(found[2]), int(found[3])) if found[2] else found[1].split(",")
    made = [more for part in parts for more in braces(before + part + after)]
    if len(made) > MOST_WORDS:
        raise ValueError
    return made


def _numbers(first: int, last: int) -> list[str]:
    step = 1 if last >= first else -1
    return [PLAIN] if abs(last - first) >= MOST_WORDS else [*map(str, range(first, last + step, step))]


def edited(value: str, operator: str, operand: str) -> str:
    """`${value%operand}` and `${value#operand}`."""
    ends = operator[0] == "%"
    parts = [(value[:at], value[at:]) for at in range(len(value) + 1)]
    kept = [a if ends else b for a, b in parts if fnmatch.fnmatchcase(b if ends else a, operand)]
    return (min if operator[1:] else max)(kept, key=len, default=value)


def printed(form: str, values: list[str]) -> str | None:
    """What `printf` prints; None if it is not computed."""
    form, rest, out = ansi(form), values[::-1], ""
    if re.search("%(?:[^sdbq]|$)", form.replace("%%", "")):
        return None

    def one(found: re.Match[str]) -> str:
        value = "%" if found[1] == "%" else rest.pop() if rest else ""
        return ansi(value) if found[1] == "b" else value

    while True:
        before = len(rest)
        out += re.sub("%(.)", one, form)
        if not rest or len(rest) == before:
            return out
