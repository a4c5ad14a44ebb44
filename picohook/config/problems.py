"""Mistakes in a configuration file: for each, the place, the cause and the way out."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ..errors import ConfigError, Problem
from ..wire.did_you_mean import nearest
from ..wire.text import cut, escape, shortened

KeyPath = tuple[str | int, ...]

MOST_PROBLEMS = 50
"""The most mistakes of one file that are reported. Then reading stops."""
_SHOWN = 400
"""Bytes that are shown of a key path or a message."""


@dataclass(slots=True)
class Problems:
    """The mistakes of one file, or of several, as they are found."""

    file: str = ""
    found: list[Problem] = field(default_factory=list)

    def add(self, at: KeyPath | str, message: str, hint: str = "") -> None:
        """Add a mistake. `at` is a key path, or a place in the text. Raises `ConfigError` if there are too many."""
        where = at if isinstance(at, str) else dotted(at)
        self.found.append(
            Problem(escape(self.file), *(cut(escape(cut(text, _SHOWN)), _SHOWN) for text in (where, message, hint)))
        )
        if len(self.found) >= MOST_PROBLEMS:
            self.check()

    def fail(self, at: KeyPath | str, message: str, hint: str = "") -> NoReturn:
        """Add a mistake that ends the reading. Raises `ConfigError`."""
        self.add(at, message, hint)
        raise ConfigError(self.found)

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Add the mistakes that the block raises, and go on after it."""
        try:
            yield
        except ConfigError as error:
            self.found += error.problems

    def check(self, kind: type[ConfigError] = ConfigError) -> None:
        """Raise `ConfigError`, or another `kind` of it, if there are any."""
        if self.found:
            raise kind(self.found)


def dotted(path: KeyPath) -> str:
    """The path as people write it: `hooks.gate.stages[1]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = cut(step, _SHOWN)
            plain = name.replace("_", "").replace("-", "").isalnum()
            text += ("." if text else "") + (name if plain else quoted(name))
    return text


def quoted(value: Any) -> str:
    """A value of the file, short and safe to show."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    shown = json.dumps(cut(value, _SHOWN) if isinstance(value, str) else value, ensure_ascii=False, default=str)
    return escape(shortened(shown, 80))


def meant(word: Any, known: Iterable[str]) -> str:
    """A hint: the known name that is nearest, or all known names if none is near."""
    names = list(known)
    near = nearest(word, names) if isinstance(word, str) else ""
    return f"did you mean {quoted(near)}?" if near else "known: " + ", ".join(names)
