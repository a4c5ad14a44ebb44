"""Translates patterns to Python's: regular expressions of JavaScript and of Rust, and globs of paths."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=256)
def javascript(pattern: str) -> re.Pattern[str]:
    """Compiles a JavaScript expression. Raises `ValueError` if it is invalid, or if Python cannot express it."""
    return _compiled(_translated(pattern, _JAVASCRIPT), pattern)


@lru_cache(maxsize=256)
def rust(pattern: str) -> re.Pattern[str]:
    """Compiles an expression of Rust's `regex`. Raises `ValueError` if it is invalid."""
    if re.search(r"\(\?(?:[=!>(#]|<[=!])|\\[1-9]|\(\?P=", pattern):
        raise ValueError(f"{pattern} is not a regular expression: it looks around, or refers back")
    return re.compile(_compiled(_translated(pattern, _RUST), pattern).pattern)


def _compiled(translated: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern} is not a regular expression: {error}") from None


# Outside of a class. A group of the first expression that matches is kept or replaced.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?.?[<=!]?|[*+?}]\+|\$|.", re.DOTALL)
_CLASS = re.compile(r"\[(\^?)((?:\\.|[^\]\\])*)\]", re.DOTALL)
_JAVASCRIPT = {"\\A": "A", "\\Z": "Z", "\\a": "a", "$": r"\Z", "\\/": "/", "\\-": "-"}
_RUST = {"$": r"\Z", "\\z": r"\Z"}


def _translated(pattern: str, words: dict[str, str]) -> str:
    """The expression with each construct that means something else in Python replaced."""
    is_javascript = words is _JAVASCRIPT
    made, at = [], 0
    while at < len(pattern):
        if pattern[at] == "[":
            found = _CLASS.match(pattern, at)
            if is_javascript and found is not None and not found[2]:
                made.append(r"[\s\S]" if found[1] else "(?!)")  # [^] and []
                at = found.end()
                continue
            end = _end_of_class(pattern, at)
            made.append("[" + re.sub(r"(?<!\\)\[", r"\\[", pattern[at + 1 : end]) + pattern[end : end + 1])
            at = end + 1
            continue
        token = _TOKEN.match(pattern, at)
        assert token is not None
        text = token[0]
        if text.startswith("(?<") and text not in {"(?<=", "(?<!"}:
            text = "(?P<"
        elif is_javascript and text.startswith("(?") and text not in {"(?:", "(?=", "(?!", "(?<=", "(?<!"}:
            raise ValueError(f"{pattern} is not a regular expression of JavaScript: {text}")
        elif is_javascript and re.fullmatch(r"[*+?}]\+", text):
            raise ValueError(f"{pattern} is not a regular expression of JavaScript: nothing to repeat")
        elif is_javascript and text == "\\k" and (name := re.match(r"<(\w+)>", pattern[token.end() :])):
            made.append(f"(?P={name[1]})")
            at = token.end() + name.end()
            continue
        made.append(words.get(text, text))
        at = token.end()
    return "".join(made)


def _end_of_class(pattern: str, start: int) -> int:
    at = start + 1
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at


@lru_cache(maxsize=256)
def path_glob(glob: str) -> re.Pattern[str]:
    """Compiles a glob of a path. `*` and `?` stop at a slash, and `**` does not. A directory matches everything below it."""
    made = ""
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at):
            made, at = made + "(?:.*/)?", at + 3
        elif glob.startswith("**", at):
            made, at = made + ".*", at + 2
        elif glob[at] == "*":
            made, at = made + "[^/]*", at + 1
        elif glob[at] == "?":
            made, at = made + "[^/]", at + 1
        else:
            made, at = made + re.escape(glob[at]), at + 1
    return re.compile(made.removesuffix("/") + "(?:/.*)?", re.DOTALL)
