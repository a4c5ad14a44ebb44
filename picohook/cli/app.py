"""All commands, put together."""

import io
import os
import sys

import typer

from ..errors import ConfigError, PicohookError
from ..wire.version import VERSION
from . import output
from .asking import call
from .auditing import app as audit
from .configs import check, schema
from .conformance import conformance, probe
from .control import app as control
from .doctor import doctor
from .listing import list_hooks
from .logged import log_to_stderr
from .new import new
from .replaying import replay, trace
from .scripts import run as run_script
from .serving import serve
from .source import Verbose
from .top import top
from .trusting import trust
from .usage import App, Commands

app = App(
    name="picohook",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        output.verbatim(f"picohook {VERSION}")
        raise typer.Exit


@app.callback()
def _picohook(
    verbose: Verbose = False,
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_version, help="Print the version."),
) -> None:
    """A host for agent hooks: it starts them, asks them in order, and shows what they conclude.

    Data is printed on stdout, everything else on stderr.

    Exit codes: 0 ok, 1 failed, 2 wrong usage, 128 and more ended by a signal.
    """
    del verbose, version


app.command()(check)
app.command("list")(list_hooks)
app.command()(call)
app.command(context_settings={"allow_interspersed_args": False})(conformance)
app.command()(doctor)
app.command()(new)
app.command()(probe)
app.command()(replay)
app.command("run")(run_script)
app.command()(schema)
app.command()(top)
app.command()(trace)
app.command()(serve)
app.command()(trust)
app.add_typer(audit, name="audit")
app.add_typer(control, name="control")


def run() -> None:
    """Run the command that the arguments ask for. Ends in `SystemExit`."""
    # Streams that were closed by whoever started this are none, and print would take the other one for them.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what its encoding lacks is no reason to fail
    log_to_stderr()
    try:
        try:
            app(prog_name="picohook")
        except OSError:
            output.flush()  # if it is help that could not be written, this says so
            raise
    except ConfigError as failure:
        output.problems(failure)
        raise SystemExit(1) from None
    except PicohookError as failure:
        output.error(str(failure))
        raise SystemExit(1) from None
