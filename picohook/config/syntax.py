"""Reads TOML, YAML and JSON. Refuses mistakes that their parsers accept, such as a key that is given twice."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..wire.extras import needs
from .problems import KeyPath, Problems, quoted

if TYPE_CHECKING:
    import yaml  # an extra

MOST_DEPTH = 32
"""The most tables and lists inside each other, and parts of a dotted key. A parser may need the square of this in memory."""
MOST_VALUES = 20_000
"""The most values of a document. Checks compare some of them with each other."""

TOO_DEEP = "is nested too deeply"
TOO_MANY = "has too many values"

_LONGEST_SCALAR = 4096
"""The most characters of a value that is not text. The time to read a number in base 60 is the square of its length."""
_TEXT = "tag:yaml.org,2002:str"
COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|\A\ufeff', re.DOTALL)
"""A string, which is its group, or a comment."""
_HINTS = (
    ("", "^[^#\"']*[“”‘’]", "use straight quotes"),
    ("Cannot declare .* twice", "", "give one of the two tables another name"),
    ("Cannot overwrite", "", "this key was given before: keep one"),
    (
        "Invalid value|Expecting value",
        r"(?<![\w.\"'])(True|False|None|TRUE|FALSE)\b",
        "write true or false, in small letters",
    ),
    ("Invalid value", r"=\s*([A-Za-z_][\w .:/-]*?)\s*$", 'text needs quotes: "{}"'),
    ("Invalid hex|Unescaped", "", "in \"...\" a backslash begins an escape: put the text in '...'"),
    ("Expected '=' after", ":", "write KEY = VALUE"),
    (r"character '\\n'|Expected \"'|Unterminated", "", "a quote is missing at the end of the text"),
    (r"'\\t'", "", "indent with spaces, and not with tabs"),
    (
        "<block end>|mapping values",
        "",
        "the keys of one table begin in the same column, and a text with a colon needs quotes",
    ),
    ("Expecting|Extra data", r"^\s*(//|/\*|#)", "JSON has no comments: leave it out, or name the file .jsonc"),
    ("Expecting property|Illegal trailing|Expecting value", r"(^\s*|,\s*)[}\]]", "leave out the last comma"),
    ("Expecting", "'", "put text in \"...\", and not in '...'"),
)
"""For each typical mistake: patterns of the message and of the line, and the way out."""

_TEXT_IN_TOML = re.compile(
    r"""\#[^\n]*+ | \"{3}(?:[^\\"]|\\.|"(?!""))*+(?:\"{3})? | '{3}(?:[^']|'(?!''))*+(?:'{3})?
    | "(?:[^"\\\n]|\\.)*+"? | '[^'\n]*+'?""",
    re.VERBOSE | re.DOTALL,
)
"""A comment or a string, to its end if it has one. It never backtracks, so the time is linear in any text."""
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_DEPTH}}}")


def parse(
    data: bytes, suffix: str, problems: Problems, *, values: int = MOST_VALUES, depth: int = MOST_DEPTH
) -> tuple[dict[str, Any], list[KeyPath]]:
    """The document, and the keys that JSON and YAML give twice. Raises `ConfigError` with the line and column of a mistake.

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
    except (AttributeError, LookupError):  # from PyYAML, such as for !!timestamp with another text
        problems.fail("", "cannot be read: a value does not fit its tag", "leave the tag out")
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


def _parse_toml(text: str, problems: Problems) -> Any:
    """The document. Raises `ConfigError` if the text is not TOML, or a dotted key has too many parts."""
    import tomllib  # of three parsers, one is needed

    bare = _TEXT_IN_TOML.sub(lambda found: "_" + "\n" * found[0].count("\n"), text)
    deep = _DEEP_KEY.search(bare)
    if deep is not None or bare.count(".") > MOST_VALUES:
        problems.fail("" if deep is None else f"line {bare.count(chr(10), 0, deep.start()) + 1}", TOO_DEEP)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(?s)(.*) \(at (line (\d+), column \d+|end of document)\)", str(error))
        message, place, line = found.groups() if found else (str(error), "", None)
        problems.fail(place, f"is not TOML: {message}", hint_of(message, text, int(line or 1)))


def _parse_yaml(text: str, problems: Problems) -> Any:
    """The document. Raises `ConfigError` if it is not YAML, and for aliases and keys that are not text."""
    try:
        import yaml  # an extra
    except ImportError:
        problems.fail("", needs("a file in YAML", "PyYAML", "yaml"))

    class Loader(yaml.SafeLoader):
        """Counts while it reads, because PyYAML takes seconds for a megabyte."""

        depth = values = 0

        def compose_node(self, parent: "yaml.Node | None", index: Any) -> "yaml.Node | None":
            place = _line_of(self.peek_event().start_mark)  # type: ignore[no-untyped-call] # PyYAML has no types for it
            if self.check_event(yaml.AliasEvent):  # nine lines of aliases can make a document of gigabytes
                problems.fail(place, "anchors and aliases are not read", "put shared settings in defaults")
            self.depth, self.values = self.depth + 1, self.values + 1
            if self.depth > MOST_DEPTH + 1:
                problems.fail("", TOO_DEEP)
            if self.values > 2 * MOST_VALUES:  # keys are nodes too
                problems.fail("", TOO_MANY)
            node = super().compose_node(parent, index)
            self.depth -= 1
            if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and len(node.value) > _LONGEST_SCALAR:
                problems.fail(place, "cannot be read: this value is too long")
            return node

        def construct_table(self, node: "yaml.MappingNode") -> _Object:
            for key, _ in node.value:
                if key.tag != _TEXT or not isinstance(key, yaml.ScalarNode):
                    problems.fail(_line_of(key.start_mark), "this key is not text to YAML", "put it in quotes")
            return _object([(key.value, self.construct_object(value, deep=True)) for key, value in node.value])

    Loader.add_constructor("tag:yaml.org,2002:map", Loader.construct_table)
    try:
        document = yaml.load(text, Loader)  # noqa: S506 - it is a SafeLoader
        return {} if document is None else document
    except yaml.MarkedYAMLError as error:
        message = ", ".join(filter(None, (error.context, error.problem)))
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.fail(_line_of(error.problem_mark), f"is not YAML: {message}", hint_of(message, text, line))
    except yaml.reader.ReaderError as error:
        problems.fail(f"character {error.position}", f"is not YAML: {error.reason}")


def _line_of(mark: "yaml.Mark | None") -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def hint_of(message: str, text: str, line: int) -> str:
    """The way out of a mistake in this line, which counts from 1; empty without a guess."""
    shown = (text.splitlines()[line - 1 :] or [""])[0]
    for told, looks, hint in _HINTS:
        found = re.search(looks, shown)
        if found is not None and re.search(told, message):
            return hint.format(*found.groups())
    return ""


_PARSERS: dict[str, Callable[[str, Problems], Any]] = {
    ".toml": _parse_toml,
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".json": parse_json,
    ".jsonc": lambda text, problems: parse_json(without_comments(text), problems),
}


class _Object(dict[str, Any]):
    """An object of JSON or YAML that remembers the keys that were given twice."""

    repeated: tuple[str, ...] = ()


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        made.repeated = tuple(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    return made


def _repeated(value: Any, problems: Problems, left: Iterator[int], depth: int, at: KeyPath = ()) -> Iterator[KeyPath]:
    """The keys that objects in this value have twice. Checks the number, depth and types of all values."""
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
