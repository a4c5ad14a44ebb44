"""The base of the commands: the class that shows their help, and the options that several commands have."""

import math
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from ..config.problems import meant, quoted
from ..wire.did_you_mean import file_meant
from .log import verbose

F = TypeVar("F", bound=Callable[..., Any])

Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=verbose, help="Show the host's log on stderr, and the hooks' stderr."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one value a line.")]


KEYWORDS: dict[str, Any] = {}
"""The keywords of `Host` that the options of the running command have given, without those in `GIVEN`."""
GIVEN: dict[str, Any] = {}
"""The top-level keys of a configuration that these options have given. They take the place of each file's own."""


def starts_hooks(command: F) -> F:
    """Marks a command that starts hooks: it has an option for each keyword of a part with a help, and passes `KEYWORDS` on."""
    command.starts_hooks = True  # type: ignore[attr-defined]
    return command


def reads_files(command: F) -> F:
    """Marks a command that reads configurations: it has an option for each keyword that is a key of a file."""
    command.reads_files = True  # type: ignore[attr-defined]
    return command


class Command(TyperCommand):
    """A command whose help shows arguments by their metavars, without the brackets and types that typer adds."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        del ctx
        return ["[OPTIONS]", *(_metavar(param) for param in self.params if _is_argument(param))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and _is_argument(param):
                sections["Arguments"].append((_metavar(param), record[1]))
            elif record is not None:
                sections["Options"].append(record)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """A command or a group of commands with this help, plain text and no completion of its own."""

    def __init__(self, *, add_completion: bool = False, **settings: Any) -> None:
        super().__init__(
            add_completion=add_completion, pretty_exceptions_enable=False, rich_markup_mode=None, **settings
        )

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **settings: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **settings)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name)


def require_file(named: Path) -> Path:
    """Returns the path, or raise `typer.BadParameter` if it does not exist."""
    if not named.is_symlink() and not named.exists():
        near = file_meant(str(named))
        raise typer.BadParameter(f"there is no file {named}" + (f": did you mean {near}?" if near else ""))
    return named


def require_known(names: Collection[str], known: Collection[str], hint: str) -> None:
    """Raise `typer.BadParameter` for a name that is not known. `hint` is the option that has it."""
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"there is no {quoted(name)} ({meant(name, known)})", param_hint=hint)


def exit_at_signals() -> None:
    """In a program without an event loop, let signals that end it raise `SystemExit`, so that it cleans up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def seconds(least: float) -> Callable[[str | float], float]:
    """Returns a parser for `typer.Option(parser=...)`: a number of seconds, `least` or more."""

    def read(text: str | float) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number < math.inf:
            raise typer.BadParameter(f"must be a number of seconds, {least:g} or more, not {text}")
        return number

    return read
