"""The program `picohook`. Each command is a file of `commands/`, which is imported when the command is run."""

import gc
import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup
from typer.main import get_command

from .. import extensions
from ..errors import ConfigError, PicohookError
from ..extension import Keyword, Option
from ..process.environment import hide_keys
from ..wire.version import VERSION
from . import output
from .command import GIVEN, KEYWORDS, App, Command, Verbose
from .log import log_to_stderr

OWN = {
    "new": "Write a first hook, its configuration and a test.",
    "check": "Check a configuration, and find the programs of its hooks.",
    "doctor": "Find out whether hooks work here, and what to do if not.",
    "list": "List the hooks in the order they are asked, stage by stage.",
    "call": "Ask the hooks of one stage, and show what they decide.",
    "run": "Run a script of stages and events, line by line.",
    "trust": "Trust the configurations of this directory and above.",
    "conformance": "Test whether a hook keeps to the protocol.",
    "probe": "Test whether a host keeps to the protocol.",
    "schema": "Print the schema of a configuration, a stage or the protocol.",
    "extensions": "List the extensions, and where they come from.",
}
"""The commands in `commands/`, each with the first line of its help."""

ORDER = tuple(
    """
    new check doctor list call run trust approvals grants serve worker mcp shim drill guard explain control top trace replay
    history audit conformance probe schema extensions
    """.split()  # noqa: SIM905 - thirty lines otherwise
)
"""The order in which a newcomer needs the commands. Those of other packages follow."""


def summaries() -> dict[str, str]:
    """The commands, each with the first line of its help. No command is imported."""
    found = OWN | {name: command.summary for name, command in extensions.every("commands").items()}
    return {name: found[name] for name in (*ORDER, *sorted(found.keys() - set(ORDER)))}


class LazyCommand(Command):
    """A command's name and summary. Its module is imported when its arguments are read."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        command = load_command(str(self.name))
        own = {flag for param in command.params for flag in param.opts}
        # Other packages are looked at only for an option that the command lacks, and for its help.
        lacks = any(one.startswith("--") and one.partition("=")[0] not in own for one in args) or "-h" in args
        added = _added_options(command, extensions.every if lacks else extensions.every_built_in)
        added = {flag: option for flag, option in added.items() if flag not in own}
        given: dict[str, Any] = {}
        KEYWORDS.clear()
        GIVEN.clear()
        command.params[-1:-1] = [_parameter(flag, option, given) for flag, option in added.items()]
        context = command.make_context(info_name, args, parent, **extra)
        for flag, value in given.items():
            option = added[flag]
            if isinstance(option, Option):
                option.use.load()(context, value)
            else:
                kept = GIVEN if option.part is None else KEYWORDS
                kept[flag.removeprefix("--").replace("-", "_")] = value
        return context


def _added_options(command: Any, every: Callable[[str], dict[str, Any]]) -> dict[str, Option | Keyword]:
    """Returns the options that extensions have for a command, by their flags. `every` returns a field of all their rows."""
    added: dict[str, Option | Keyword] = {}
    for key, keyword in every("keywords").items():
        mark = "reads_files" if keyword.part is None else "starts_hooks"
        if keyword.help and getattr(command.callback, mark, False):
            added[f"--{key.replace('_', '-')}"] = keyword
    for key, option in every("options").items():
        of, _, flag = key.rpartition(" ")
        if of == command.name:
            added[flag] = option
    return added


def _parameter(flag: str, option: Option | Keyword, given: dict[str, Any]) -> Any:
    """The option for typer. If it is given, its value is added to `given`."""

    def take(value: Any) -> None:
        if value:
            given[flag] = value

    def command(value: Any = None) -> None: ...

    kind: Any = str if option.metavar else bool
    if isinstance(option, Option) and option.many:
        kind = list[str]
    elif isinstance(option, Keyword) and option.choices:
        kind = Literal[option.choices]
    declared = typer.Option(
        flag, help=option.help, callback=take, expose_value=False, show_default=False, metavar=option.metavar or None
    )
    command.__annotations__["value"] = Annotated[kind | None if option.metavar else kind, declared]
    app = App()
    app.command()(command)
    made = get_command(app).params[0]
    made.name = flag  # the parser keeps values by it
    return made


class Commands(TyperGroup):
    """All commands, in the order of `summaries`. Other packages' are looked for only if no built-in command has the name."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        self.commands = {name: LazyCommand(name, help=summary) for name, summary in summaries().items()}
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = cmd_name in OWN or extensions.find("commands", cmd_name) is not None
        if not known:
            self.list_commands(ctx)  # for a hint at a similar name
        return self.commands.get(cmd_name, LazyCommand(cmd_name)) if known else None


def load_command(name: str) -> Any:
    """Returns a command, imported now. Enables the garbage collector if `main` disabled it, for all later objects."""
    app = (
        import_module(f".commands.{name}", __package__).app
        if name in OWN
        else extensions.find("commands", name).app.load()
    )
    command = get_command(app)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    command.name = name
    return command


app = App(
    name="picohook",
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        output.verbatim(f"picohook {VERSION}")
        raise typer.Exit


@app.callback()
def _picohook(
    _verbose: Verbose = False,
    _version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_print_version, help="Print the version."
    ),
) -> None:
    """Start the hooks of an AI agent, ask them in order, and show what they decide.

    Data is printed on stdout, everything else on stderr.

    Exit codes: 0 ok, 1 failed, 2 wrong usage, 128 and more ended by a signal.
    """


def run() -> None:
    """Run the command that the arguments name. Ends in `SystemExit`."""
    # A stream that was closed before the start is None, and print would write to the other stream instead.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the encoding lacks is escaped
    log_to_stderr()
    hide_keys()
    try:
        try:
            app(prog_name="picohook")
        except OSError as error:
            output.flush()  # raises a `PicohookError` if the help could not be written
            if isinstance(error, FileNotFoundError) and error.filename is None:  # only `os.getcwd` names no file
                raise PicohookError("the working directory was removed: change to another one") from None
            raise
    except ConfigError as failure:
        output.problems(failure)
        raise SystemExit(1) from None
    except PicohookError as failure:
        output.error(str(failure))
        raise SystemExit(1) from None
