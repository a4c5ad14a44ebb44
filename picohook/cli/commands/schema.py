"""`picohook schema`: the schema of a configuration, a stage or the protocol."""

import json
from typing import Annotated

import typer

from ... import config as configs, extensions
from ...config.problems import meant, quoted
from ...model.stages import STAGES
from .. import output
from ..command import App, Json

app = App()


def _kinds() -> list[str]:
    return ["config", *extensions.every("schemas"), *STAGES]


@app.command()
def schema(
    what: Annotated[
        str,
        typer.Argument(
            metavar="config|protocol|STAGE",
            help=f"STAGE is one of {', '.join(STAGES)}.",
            autocompletion=_kinds,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Print the schema of a configuration, a stage or the protocol.

    `config` is the JSON Schema of a configuration file. STAGE is the JSON Schema of the params that hooks of the stage get.
    `protocol` is the OpenRPC document of `picohook serve`. All are printed as JSON; with --json on one line.
    """
    if what == "config":
        document = configs.schema()
    elif what in STAGES:
        document = STAGES[what].payload.model_json_schema()
    elif (made := extensions.find("schemas", what)) is not None:
        document = made.load()()
    else:
        raise typer.BadParameter(f"there is no schema of {quoted(what)} ({meant(what, _kinds())})")
    if as_json:
        output.data(document)
    else:
        output.verbatim(json.dumps(document, indent=2))
