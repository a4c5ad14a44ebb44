"""Reads TOML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .hints import hint_of
from .limits import MOST_DEPTH, MOST_VALUES, TOO_DEEP

if TYPE_CHECKING:
    from ..problems import Problems

# Each alternative matches to its end, closed or not, and never backtracks. So the time is linear in any text.
_TOKEN = re.compile(
    r"""
    (?P<space> [ \t]++ )
    | (?P<dot> \. )
    | (?P<part> [\w-]++ )
    | (?P<other> \#[^\n]*+ | \"{3}(?:[^\\"]|\\.|"(?!""))*+(?:\"{3})? | '{3}(?:[^']|'(?!''))*+(?:'{3})? )
    | (?P<quoted> "(?:[^"\\\n]|\\.)*+"? | '[^'\n]*+'? )
    | (?P<rest> [^\s.\w"'\#-]++ | . )
    """,
    re.VERBOSE | re.DOTALL,
)


def parse_toml(text: str, problems: Problems) -> Any:
    """The document. Raises `ConfigError` if the text is not TOML, or a dotted key has too many parts."""
    import tomllib  # of three parsers, one is needed

    _check_keys(text, problems)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(?s)(.*) \(at (line (\d+), column \d+|end of document)\)", str(error))
        message, place, line = found.groups() if found else (str(error), "", None)
        problems.fail(place, f"is not TOML: {message}", hint_of(message, text, int(line or 1)))


def _check_keys(text: str, problems: Problems) -> None:
    """Raise `ConfigError` if a dotted key, or all of them together, have too many parts."""
    dots = all_dots = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "dot":
            dots, all_dots = dots + 1, all_dots + 1
            if dots >= MOST_DEPTH or all_dots > MOST_VALUES:
                problems.fail(f"line {text.count(chr(10), 0, token.start()) + 1}", TOO_DEEP)
        elif token.lastgroup in {"other", "rest"}:
            dots = 0
