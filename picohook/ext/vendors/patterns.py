"""The patterns of other agents' files: regular expressions of JavaScript and of Rust, and globs of paths.

A pattern that cannot be read matches every text.
"""

import re
import string
from collections.abc import Callable, Sequence
from functools import lru_cache

from ...model.expressions import EMPTY_CLASSES, Expression, Language

_LETTERS = set(string.ascii_letters) - set("bBcdDfknrsStuvwWxpP")
"""The letters that a backslash does not change in JavaScript."""
_WORD = "0-9A-Za-z_"
_WORDS = {
    **{f"\\{letter}": letter for letter in (*_LETTERS, "<", ">")},
    ".": r"[^\n\r\u2028\u2029]",
    r"\0": r"\x00",
    r"\d": "[0-9]",
    r"\D": "[^0-9]",
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\b": r"(?-u:\b)",
    r"\B": r"(?-u:\B)",
    r"\d]": "0-9",
    r"\D]": r"\D\u0080-\U0010FFFF",
    r"\w]": _WORD,
    r"\W]": r"\W\u0080-\U0010FFFF",
    r"\b]": r"\x08",
    "[]": r"[^\s\S]",
    "[^]": r"[\s\S]",
}
_JAVASCRIPT = Language(_WORDS, lacks=re.compile(r"\(\?(?![:=!<])|[*+?]\+"), token=EMPTY_CLASSES)


@lru_cache(maxsize=256)
def javascript(pattern: str, *, whole: bool = False) -> Expression:
    """An expression of JavaScript, without flags."""
    return Expression(pattern, _JAVASCRIPT, whole=whole)


@lru_cache(maxsize=256)
def rust(pattern: str) -> Expression:
    """An expression of Rust's `regex`."""
    return Expression(pattern)


def matches(matcher: str, names: Sequence[str], expression: Callable[[str], Expression], lists: str) -> bool:
    """Whether a matcher matches one of the names: every name, a list with one of them, or an expression.

    A matcher of the form `lists` is a list.
    """
    if matcher in {"", "*"}:
        return True
    if lists and re.fullmatch(lists, matcher):
        return not {name.strip() for name in re.split(r"[|,]", matcher)}.isdisjoint(names)
    return any(map(expression(matcher).matches, names))


_GLOB = re.compile(r"\*\*/|\*\*|.", re.DOTALL)
_GLOBS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=256)
def path_glob(glob: str) -> Expression:
    """A glob of a path. `*` and `?` stop at a slash, and `**` does not. A directory matches everything below it."""
    made = _GLOB.sub(lambda found: _GLOBS.get(found[0]) or re.escape(found[0]), glob)
    return Expression(f"(?s:{made.removesuffix('/')}(?:/.*)?)", whole=True)
