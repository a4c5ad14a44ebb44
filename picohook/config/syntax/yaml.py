"""Reads YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...wire.extras import needs
from .hints import hint_of
from .limits import MOST_DEPTH, MOST_VALUES, TOO_DEEP, TOO_MANY

if TYPE_CHECKING:
    import yaml

    from ..problems import KeyPath, Problems

_LONGEST_SCALAR = 4096
"""The most characters of a value that is not text. The time to read a number in base 60 is the square of its length."""
_TEXT = "tag:yaml.org,2002:str"


def parse_yaml(text: str, problems: Problems) -> Any:
    """Returns the document, and adds keys that a table has twice to the problems.

    Raises `ConfigError` if it is not YAML, and for aliases and keys that are not text.
    """
    try:
        import yaml  # an extra
    except ImportError:
        problems.fail("", needs("a file in YAML", "PyYAML", "yaml"))

    class Loader(yaml.SafeLoader):
        """Counts while it reads, because PyYAML takes seconds for a megabyte."""

        depth = values = 0

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            self.depth, self.values = self.depth + 1, self.values + 1
            if self.depth > MOST_DEPTH + 1:
                problems.fail("", TOO_DEEP)
            if self.values > 2 * MOST_VALUES:  # keys are nodes too
                problems.fail("", TOO_MANY)
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
        message = ", ".join(filter(None, (error.context, error.problem)))
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.fail(_line_of(error.problem_mark), f"is not YAML: {message}", hint_of(message, text, line))
    except yaml.reader.ReaderError as error:
        problems.fail(f"character {error.position}", f"is not YAML: {error.reason}")


def _line_of(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _check_node(node: yaml.Node, problems: Problems, at: KeyPath, seen: set[int]) -> None:
    import yaml

    # An alias repeats a node. Nine lines of aliases can make a document of gigabytes, or an endless one.
    if id(node) in seen:
        problems.fail(_line_of(node.start_mark), "anchors and aliases are not read", "put shared settings in defaults")
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and len(node.value) > _LONGEST_SCALAR:
        problems.fail(_line_of(node.start_mark), "cannot be read: this value is too long")
    if isinstance(node, yaml.SequenceNode):
        for index, inner in enumerate(node.value):
            _check_node(inner, problems, (*at, index), seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, inner in node.value:
            if key.tag != _TEXT:
                problems.fail(_line_of(key.start_mark), "this key is not text to YAML", "put it in quotes")
            line = key.start_mark.line + 1
            if key.value in lines:
                problems.add((*at, key.value), f"is given twice, in line {lines[key.value]} and in line {line}")
            lines[key.value] = line
            _check_node(inner, problems, (*at, key.value), seen)
