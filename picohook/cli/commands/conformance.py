"""`picohook conformance`: test a hook against the requirements of the protocol."""

from collections.abc import Sequence
from typing import Annotated

import typer

from ...conformance import manifest
from ...conformance.hook import run
from ...errors import PicohookError
from ...model.stages import STAGES
from ...protocol.raw_line import RawLine
from .. import output
from ..command import App, Json, exit_at_signals, require_known, seconds
from ..report import Junit, conclude, require_writable

app = App()


@app.command(context_settings={"allow_interspersed_args": False})
def conformance(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command that starts the hook.")],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Test only this requirement. Can be given more than once.",
            autocompletion=lambda: list(manifest.load("hook").ids),
        ),
    ] = None,
    stages: Annotated[
        str, typer.Option(metavar="A,B", help="Stages that the hook must answer. Other stages are optional.")
    ] = "",
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="picoclaw|picohook",
            help="Require PicoClaw's stages, or all stages of picohook. Default: PicoClaw's, and --stages.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds(0.01), help="How long an answer may take.")
    ] = 5.0,
    junit: Junit = None,
    wire: Annotated[
        bool,
        typer.Option(
            "--wire",
            help="Show the raw lines of each requirement on stderr: → to the hook, ← from the hook.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Test whether a hook keeps to the protocol.

    \b
    picohook conformance -- python3 hook.py

    Runs the command a few times, and sends it what good and bad hosts send. Exits with 0 if every MUST holds.
    """  # noqa: D301 - click reads a backspace character, not an escape
    claimed = [stage for stage in stages.replace(",", " ").split() if stage]
    require_known(only or [], manifest.load("hook").ids, "--only")
    require_known(claimed, STAGES, "--stages")
    if junit is not None:
        require_writable(str(junit), "--junit")
    exit_at_signals()
    try:
        report = run(
            command,
            only=only or (),
            stages=claimed,
            profile=profile,
            timeout=timeout,
            seen=_show_lines if wire else None,
        )
    except PicohookError as error:
        raise typer.BadParameter(str(error)) from None
    conclude(report, junit, as_json=as_json)


def _show_lines(lines: Sequence[RawLine]) -> None:
    for line in lines:
        output.show_line(line)
