"""From bytes to keys and values: TOML, YAML and JSON, with what a parser may silently pass over refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from .problems import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

    from .problems import KeyPath, Problems

SUFFIXES = (".toml", ".yaml", ".yml", ".json")
MOST_DEPTH = 32
"""Tables and lists inside each other, and parts of a dotted key. A parser may take their square in memory."""
MOST_VALUES = 20_000
"""Values of a document. Checks compare some of them with each other."""
_LONGEST_SCALAR = 4096
"""Characters of a YAML value that is not text: a number in base 60 takes the square of its length."""

_TOO_DEEP = "is nested too deeply"
_TOO_MANY = "has too many values"
_TEXT = "tag:yaml.org,2002:str"

# Each alternative takes what it begins, closed or not, and none gives anything back: linear in the text, whatever it is.
_TOML = re.compile(
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


def parse(
    data: bytes, suffix: str, problems: Problems, *, values: int = MOST_VALUES, depth: int = MOST_DEPTH
) -> tuple[dict[str, Any], list[KeyPath]]:
    """The document, and the keys it gives twice. `ConfigError` has the line and column if it is none.

    `values` and `depth` are the most that it may have.
    """
    if suffix not in SUFFIXES:
        problems.fail("", f"{quoted(suffix)} is not a known suffix", "known: " + ", ".join(SUFFIXES))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.fail(f"byte {error.start}", "is not UTF-8")
    if not text.strip():
        problems.fail("", "is empty", "a hook is a table [hooks.NAME] with a command, and stages or observe")
    parser = {".toml": _toml, ".json": _json}.get(suffix, _yaml)
    try:
        document = parser(text, problems)
        repeated = list(_repeats(document, problems, iter(range(values)), depth))
    except RecursionError:
        problems.fail("", _TOO_DEEP)
    except (ValueError, OverflowError) as error:  # an integer of thousands of digits
        problems.fail("", f"cannot be read: {error}")
    if not isinstance(document, dict):
        problems.fail("", f"must be a table of keys and values, not {quoted(document)}")
    return document, repeated


def _toml(text: str, problems: Problems) -> Any:
    import tomllib  # noqa: PLC0415 - of three parsers, one is needed

    _check_keys(text, problems)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(?s)(.*) \(at (line \d+, column \d+|end of document)\)", str(error))
        message, place = found.groups() if found else (str(error), "")
        problems.fail(place, f"is not TOML: {message}")


def _check_keys(text: str, problems: Problems) -> None:
    """No dotted key has too many parts, nor all of them together."""
    dots = all_dots = 0
    for token in _TOML.finditer(text):
        if token.lastgroup == "dot":
            dots, all_dots = dots + 1, all_dots + 1
            if dots >= MOST_DEPTH or all_dots > MOST_VALUES:
                problems.fail(f"line {text.count(chr(10), 0, token.start()) + 1}", _TOO_DEEP)
        elif token.lastgroup in {"other", "rest"}:
            dots = 0


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys it was given more than once."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        made.repeated = tuple(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    return made


def _json(text: str, problems: Problems) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        problems.fail(f"line {error.lineno}, column {error.colno}", f"is not JSON: {error.msg}")


def _repeats(value: Any, problems: Problems, left: Iterator[int], depth: int, at: KeyPath = ()) -> Iterator[KeyPath]:
    if len(at) > depth:
        problems.fail("", _TOO_DEEP)
    if next(left, None) is None:
        problems.fail("", _TOO_MANY)
    if isinstance(value, _Object):
        yield from ((*at, key) for key in value.repeated)
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _repeats(inner, problems, left, depth, (*at, step))
    elif not isinstance(value, str | int | float | None):
        problems.fail(at, f"is a {type(value).__name__}, which no setting is", "put it in quotes")


def _yaml(text: str, problems: Problems) -> Any:
    import yaml  # noqa: PLC0415

    class Loader(yaml.SafeLoader):
        """Counts while it reads: PyYAML takes seconds for a megabyte."""

        depth = values = 0

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            self.depth, self.values = self.depth + 1, self.values + 1
            if self.depth > MOST_DEPTH + 1:
                problems.fail("", _TOO_DEEP)
            if self.values > 2 * MOST_VALUES:  # keys are nodes too
                problems.fail("", _TOO_MANY)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    try:
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return {}
            _check_node(node, problems, (), set())
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        problems.fail(
            _place(error.problem_mark), "is not YAML: " + ", ".join(filter(None, (error.context, error.problem)))
        )
    except yaml.reader.ReaderError as error:
        problems.fail(f"character {error.position}", f"is not YAML: {error.reason}")


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _check_node(node: yaml.Node, problems: Problems, at: KeyPath, seen: set[int]) -> None:
    import yaml  # noqa: PLC0415

    # An alias is the same node once more: nine lines of them make a document of gigabytes, or one without end.
    if id(node) in seen:
        problems.fail(_place(node.start_mark), "anchors and aliases are not read", "what hooks share goes in defaults")
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and len(node.value) > _LONGEST_SCALAR:
        problems.fail(_place(node.start_mark), "cannot be read: this value is too long")
    if isinstance(node, yaml.SequenceNode):
        for index, inner in enumerate(node.value):
            _check_node(inner, problems, (*at, index), seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, inner in node.value:
            if key.tag != _TEXT:
                problems.fail(_place(key.start_mark), "this key is not text to YAML", "put it in quotes")
            line = key.start_mark.line + 1
            if key.value in lines:
                problems.add((*at, key.value), f"is given twice, in line {lines[key.value]} and in line {line}")
            lines[key.value] = line
            _check_node(inner, problems, (*at, key.value), seen)
