"""Reads TOML, YAML and JSON. Refuses mistakes that their parsers accept, such as a key that is given twice."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..problems import quoted
from .hints import hint_of
from .limits import MOST_DEPTH, MOST_VALUES, TOO_DEEP, TOO_MANY
from .toml import parse_toml
from .yaml import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..problems import KeyPath, Problems


def parse(
    data: bytes, suffix: str, problems: Problems, *, values: int = MOST_VALUES, depth: int = MOST_DEPTH
) -> tuple[dict[str, Any], list[KeyPath]]:
    """The document, and the keys that JSON gives twice. Raises `ConfigError` with the line and column of a mistake.

    `values` and `depth` limit the number and the depth of values in a JSON document.
    """
    if suffix not in _PARSERS:
        problems.fail("", f"{quoted(suffix)} is not a known suffix", "known: " + ", ".join(_PARSERS))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.fail(f"byte {error.start}", "is not UTF-8")
    if not text.strip():
        problems.fail("", "is empty", "a hook is a table [hooks.NAME] with a command, and stages or observe")
    try:
        document = _PARSERS[suffix](text, problems)
        repeated = list(_repeated(document, problems, iter(range(values)), depth))
    except RecursionError:
        problems.fail("", TOO_DEEP)
    except (ValueError, OverflowError) as error:  # an integer of thousands of digits
        problems.fail("", f"cannot be read: {error}")
    if not isinstance(document, dict):
        problems.fail("", f"must be a table of keys and values, not {quoted(document)}")
    return document, repeated


def parse_json(text: str, problems: Problems) -> Any:
    """The document. Raises `ConfigError` if the text is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        problems.fail(place, f"is not JSON: {error.msg}", hint_of(error.msg, text, error.lineno))


def without_comments(text: str) -> str:
    """Returns JSON with spaces in place of comments and of a mark at its beginning, so that all other text keeps its place."""
    return COMMENT.sub(lambda found: found[1] or re.sub(r"\S", " ", found[0]), text)


COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|\A\ufeff', re.DOTALL)
"""A string, which is its group, or a comment."""
_PARSERS: dict[str, Callable[[str, Problems], Any]] = {
    ".toml": parse_toml,
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".json": parse_json,
    ".jsonc": lambda text, problems: parse_json(without_comments(text), problems),
}


class _Object(dict[str, Any]):
    """A JSON object that remembers the keys that were given twice."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        made.repeated = tuple(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    return made


def _repeated(value: Any, problems: Problems, left: Iterator[int], depth: int, at: KeyPath = ()) -> Iterator[KeyPath]:
    """The keys that JSON objects in this value have twice. Checks the number, depth and types of all values."""
    if len(at) > depth:
        problems.fail("", TOO_DEEP)
    if next(left, None) is None:
        problems.fail("", TOO_MANY)
    if isinstance(value, _Object):
        yield from ((*at, key) for key in value.repeated)
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _repeated(inner, problems, left, depth, (*at, step))
    elif not isinstance(value, str | int | float | None):
        problems.fail(at, f"is a {type(value).__name__}, and no setting takes one", "put it in quotes")
