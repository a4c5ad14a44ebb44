"""The row in which an extension lists its additions to picohook. It is data: names of objects that are imported when used.

A row imports this module and nothing else. `picohook.extensions` finds the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import PicohookError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from .cli.doctor.findings import Finding
    from .config.document import Config
    from .config.problems import Problems
    from .config.table import Table
    from .engine.part import Part
    from .hooks.base import Hook
    from .model.spec import HookSpec
    from .projects.layers import Layers

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Lazy(Generic[T_co]):
    """An object that is imported when it is used: `Lazy("package.module:name")`."""

    path: str

    def load(self) -> T_co:
        """Returns the object, imported now. Raises `PicohookError` if it cannot be imported."""
        module, _, name = self.path.partition(":")
        try:
            found: T_co = getattr(import_module(module), name)
        except PicohookError:
            raise
        except Exception as error:  # a package can fail in any way
            why = f"{self.path} cannot be imported: {type(error).__name__}: {error}"
            raise PicohookError(why + _way_out(module.partition(".")[0])) from error
        return found


def _way_out(package: str) -> str:
    """How to do without an import package that fails; empty if no installed package brings it."""
    from importlib.metadata import packages_distributions, version  # slow

    names = dict.fromkeys(packages_distributions().get(package, ()))
    return f": update or uninstall {' and '.join(f'{name} {version(name)}' for name in names)}" if names else ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The form in which another system writes its configuration."""

    title: str
    """The system's name, for people."""
    is_meant: Lazy[Callable[[dict[str, Any], Path], bool]]
    """Whether a document at this path is in this dialect."""
    read: Lazy[Callable[[dict[str, Any], Problems, Config], Config]]
    """Returns the configuration with the hooks and settings of the document. Adds every mistake to the problems."""
    section: str = ""
    """The one top-level key that is read, if the rest of the file belongs to another program."""
    user_files: tuple[str, ...] = ()
    """Paths of the user's own file: relative to picohook's own directory, absolute, or from `~`."""
    project_files: tuple[str, ...] = ()
    """Paths of a project's file, relative to the project. `Host.discover` looks there if the extension is built in."""
    trust_in: str = ""
    """The place where a user sets `trust` for the hooks of such a file; empty if it is in their own tables."""
    has_comments: bool = False
    """Whether its files with the suffix `.json` may have comments."""
    all_apply: bool = False
    """Whether all of these files apply together. Otherwise, at most one of the user's may exist, and one of a project's."""


@dataclass(frozen=True, slots=True)
class HookKey:
    """A key that hooks of every kind may have."""

    type: Lazy[Any]
    """The type of its value, such as a `Literal` or a class of settings."""
    apply: Lazy[Callable[[Hook, Any], Hook]]
    """Gets the hook that was made, and the value. Returns the hook to mount."""
    description: str
    """The meaning of the key, for editors of configuration files."""


@dataclass(frozen=True, slots=True)
class Command:
    """`picohook NAME`."""

    app: Lazy[Any]
    """The `typer.Typer` of the command."""
    summary: str
    """The first line of the command's help, which is shown without importing it."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword argument of `Host`, and, with a `help`, an option of each command that starts hooks."""

    part: Lazy[Callable[[Any], Part | Table]] | None
    """Returns the part for the argument's value. A table counts as one more of the configuration, under the same key.

    None for a keyword of `Host.from_config` and `discover`, and an option of each command that reads a configuration. Its value
    takes the place of the top-level key of the same name, in each file.
    """
    metavar: str = ""
    """The name of the option's value in the help; empty for an option without a value."""
    help: str = ""
    choices: tuple[str, ...] = ()
    """The values that the option may have; empty for any."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a command of picohook, or of another extension, has in addition."""

    use: Lazy[Callable[[Any, Any], None]]
    """Called with the command's `typer.Context` and the option's value, before the command runs, if the option is given."""
    help: str
    metavar: str = ""
    """The name of its value; empty if it has none."""
    many: bool = False
    """Whether it can be given several times. Then its value is a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The additions of a package to picohook. Its keys are unique among all extensions, and differ from the core's."""

    name: str
    needs: str = ""
    """The oldest version of picohook that it works with."""
    uses: tuple[str, ...] = ()
    """The extensions whose public modules it imports."""
    public: tuple[str, ...] = ()
    """The extension's modules that other extensions may import."""
    kinds: Mapping[str, Lazy[type[HookSpec]]] = field(default_factory=dict)
    """Kinds of hook, by the key that says what a hook runs. The class has all keys of such a hook, and makes it."""
    hook_keys: Mapping[str, HookKey] = field(default_factory=dict)
    """Keys of hooks of every kind."""
    tables: Mapping[str, Lazy[type[Table]]] = field(default_factory=dict)
    """Top-level keys of a configuration file."""
    keywords: Mapping[str, Keyword] = field(default_factory=dict)
    dialects: Mapping[str, Dialect] = field(default_factory=dict)
    commands: Mapping[str, Command] = field(default_factory=dict)
    options: Mapping[str, Option] = field(default_factory=dict)
    """Options of other extensions' commands and of picohook's own, each by its command and name: `doctor --mutate`."""
    schemas: Mapping[str, Lazy[Callable[[], dict[str, Any]]]] = field(default_factory=dict)
    """The documents that `picohook schema NAME` prints."""
    doctor: Lazy[Callable[[Layers], AsyncIterator[Finding]]] | None = None
    """A further examination of `picohook doctor`. It gets the configurations that may run."""
