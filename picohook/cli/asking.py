"""`picohook call`: one stage, asked once."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from ..model.stages import STAGES
from . import given, outcomes, output
from .listeners import Audit, Otel, Record, Wire
from .logged import held
from .source import AsPicoClaw, Json, Named, Verbose, configured, with_hooks

if TYPE_CHECKING:
    from ..host import Host


def call(
    stage: Annotated[str, typer.Argument(metavar="STAGE", help=f"One of {', '.join(STAGES)}.", show_default=False)],
    *,
    config: Named = None,
    picoclaw: AsPicoClaw = None,
    params: Annotated[
        str,
        typer.Option(metavar="JSON|@FILE|-", help="What the stage is about: JSON, a file of it, or standard input."),
    ] = "{}",
    audit: Audit = None,
    otel: Otel = False,
    record: Record = None,
    wire: Wire = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Ask one stage of the hooks, and show what they conclude.

    \b
    picohook call before_tool --params '{"tool": "bash", "arguments": {"command": "ls"}}'

    Starts the hooks, asks those of STAGE in their order, and stops them. Exits with 0 whenever there is an outcome, also
    when that is a denial.
    """  # noqa: D301 - click wants this character, and not its name
    del verbose
    chosen = configured(config, picoclaw)
    source, data = "--params", os.fsencode(params)
    if params == "-" or params.startswith("@"):
        source = params.removeprefix("@")
        data = given.read_source(source)
    try:
        question = given.question(stage, data, source)
    except ConfigError as error:
        output.problems(error)
        if stage in STAGES:
            output.note(f"What it may be: picohook schema {stage}")
        raise typer.Exit(2) from None

    async def ask(host: "Host") -> None:
        outcome = await question.ask(host)
        shown.extend(outcomes.causes(outcome))
        if as_json:
            output.data(outcome.wire())
        else:
            outcomes.show(outcome, question.payload)

    with held() as shown:
        with_hooks(chosen, ask, audit=audit, otel=otel, record=record, wire=wire)
