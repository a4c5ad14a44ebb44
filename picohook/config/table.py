"""The base of the tables that extensions add to a configuration file."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from ..model.spec import Settings
from .document import Config
from .problems import Problems

if TYPE_CHECKING:
    from ..engine.part import Part  # whoever only reads a file needs no engine


class Consent(NamedTuple):
    """One thing that a user agrees to by trusting a file."""

    sentence: str
    writes: str = ""
    """The path of a file that picohook writes for it."""
    sends_to: str = ""
    """The place to which it sends hooks' questions."""


class Table(Settings):
    """A top-level table of a configuration file. A subclass has its keys as fields, and overrides the methods that it needs."""

    user_only: ClassVar[bool] = False
    """Whether a project's file cannot have it."""
    bare: ClassVar[str] = ""
    """The field that is the whole value of the key, for a key whose value is no table."""

    def placed(self, directory: Path) -> Self:
        """Returns the table with absolute paths. `directory` is the file's."""
        del directory
        return self

    def apply(self, config: Config, problems: Problems) -> Config:
        """Returns the configuration of the file with what the table changes: hooks, timeouts, warnings."""
        del problems
        return config

    def consent(self) -> Iterable[Consent]:
        """The acts that a user allows by trusting a file with this table."""
        return ()

    def about(self) -> tuple[Any, str] | None:
        """The value and the sentence by which `picohook check` describes a file with this table; None without them."""
        return None

    @classmethod
    def part(cls, tables: Sequence[Self]) -> "Part | None":
        """Returns the part of a host whose files have these tables, in the order of their layers; None if it needs none."""
        del tables
        return None
