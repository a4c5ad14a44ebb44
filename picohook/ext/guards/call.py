"""A tool call, and where it is made."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

_ROOTS = (".git", ".picohook", "picohook.toml", ".hg", ".jj")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call is made."""

    cwd: str
    project: str = ""
    """The project's root; empty for the directory of `cwd`."""
    agent: str = ""
    """The agent that makes it, such as "claude"; empty if it is not known."""
    home: str = ""
    """The user's home directory; empty for that of this process."""

    @classmethod
    def here(cls) -> Place:
        """The current directory, and the project around it."""
        return cls(os.getcwd(), root_of(os.getcwd()))


def root_of(directory: str) -> str:
    """The project around a directory: the nearest one with a repository or a configuration; else the directory itself."""
    here = Path(directory).resolve()
    found = (one for one in (here, *here.parents) if any((one / name).exists() for name in _ROOTS))
    return str(next(found, directory))


class Situation(BaseModel):
    """Where a call is made, as a line of JSON says it."""

    cwd: str | None = None
    project: str | None = None
    agent: str | None = None
    home: str | None = None

    @property
    def place(self) -> Place:
        """The place. Without `cwd`, it is this process's."""
        place = Place(self.cwd) if self.cwd else Place.here()
        given = {name: value for name in ("project", "agent", "home") if (value := getattr(self, name))}
        return replace(place, **given)


class Call(Situation):
    """A tool call, as a line of JSON or a rule's example has it."""

    tool: str
    arguments: dict[str, Any]

    @property
    def shown(self) -> str:
        """The call in one line."""
        if self.tool == "Bash" and self.arguments.keys() == {"command"}:
            return str(self.arguments["command"])
        return f"{self.tool} {json.dumps(self.arguments, ensure_ascii=False)}"
