"""A tool call, and where it is made."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel

from ...config.checks import validate
from ...config.problems import Problems

_ROOTS = (".git", ".picohook", "picohook.toml", ".hg", ".jj")


class Place(NamedTuple):
    """Where a call is made."""

    cwd: str
    project: str = ""
    """The project's root; empty for the directory of `cwd`."""
    home: str = ""
    """The user's home directory; empty for that of this process."""

    @classmethod
    def here(cls) -> Self:
        """The current directory, and the project around it."""
        return cls(os.getcwd(), root_of(os.getcwd()))


def root_of(directory: str) -> str:
    """The project around a directory: the nearest one with a repository or a configuration; else the directory itself."""
    here = Path(directory).resolve()
    found = (one for one in (here, *here.parents) if any((one / name).exists() for name in _ROOTS))
    return str(next(found, directory))


class Call(BaseModel):
    """A tool call, as a line of JSON or a rule's example has it."""

    tool: str
    arguments: dict[str, Any]
    cwd: str | None = None
    project: str | None = None
    agent: str | None = None
    home: str | None = None

    @property
    def place(self) -> Place:
        """Where it is made. Without `cwd`, it is where this process is."""
        here = Place(self.cwd) if self.cwd else Place.here()
        return Place(here.cwd, self.project or here.project, self.home or "")

    @property
    def shown(self) -> str:
        """The call in one line."""
        if self.tool == "Bash" and self.arguments.keys() == {"command"}:
            return str(self.arguments["command"])
        return f"{self.tool} {json.dumps(self.arguments, ensure_ascii=False)}"


C = TypeVar("C", bound=Call)


def calls(lines: Iterable[bytes], kind: type[C]) -> Iterator[tuple[Any, C | None, str]]:
    """Yields the value of each line of JSON, and its call. Where it is no call: None, and what is wrong with the line."""
    for number, line in enumerate(lines, 1):
        row, problems = None, Problems(f"line {number}")
        try:
            row = json.loads(line) if line.strip() else ...
        except (ValueError, RecursionError) as error:
            problems.add((), str(error))
        if row is not ...:
            call = None if problems.found else validate(kind, row, problems)
            yield row, call, str(problems.found[0]) if call is None else ""
