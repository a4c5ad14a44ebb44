"""`picohook call`: ask the hooks of one stage, once."""

from typing import Annotated

import typer

from ...host import Host
from ...model.stages import STAGES
from .. import outcomes, output
from ..command import KEYWORDS, App, Json, Verbose, reads_files, starts_hooks
from ..configuration import Named, configured
from ..host import with_hooks
from ..log import held
from ..params import question as read_question

app = App()


@app.command()
@reads_files
@starts_hooks
def call(
    stage: Annotated[
        str,
        typer.Argument(
            metavar="STAGE",
            help=f"One of {', '.join(STAGES)}.",
            autocompletion=lambda: list(STAGES),
        ),
    ],
    *,
    config: Named = None,
    params: Annotated[
        str,
        typer.Option(metavar="JSON|@FILE|-", help="The params: JSON, a file, or - for standard input."),
    ] = "{}",
    as_json: Json = False,
    _verbose: Verbose = False,
) -> None:
    """Ask the hooks of one stage, and show what they decide.

    \b
    picohook call before_tool --params '{"tool": "bash", "arguments": {"command": "ls"}}'

    Starts the hooks, asks those of STAGE in order, and stops them. Exits with 0 if there is a decision, even a denial.
    """  # noqa: D301 - click reads a backspace character, not an escape
    chosen = configured(config)
    question = read_question(stage, params)

    async def ask(host: Host) -> None:
        outcome = await getattr(host, question.stage.name)(question.payload)
        shown.extend(outcomes.causes(outcome))
        if as_json:
            output.data(outcome.wire())
        else:
            outcomes.show(outcome, question.payload)

    with held() as shown:
        with_hooks(chosen, ask, **KEYWORDS)
