"""`picohook trust`: allow the configuration of a directory to run its hooks."""

from pathlib import Path
from typing import Annotated

import typer

from ... import config as configs
from ...config import Config
from ...config.problems import Problems
from ...projects import layers, system_layer, trust as trusted
from .. import output
from ..command import App, Json, require_file
from ..configuration import NOWHERE, AlsoNamed, either

app = App()


@app.command()
def trust(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="[CONFIG]", help="The configuration. Default: those of this directory and above."),
    ] = None,
    *,
    named: AlsoNamed = None,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting it.")] = False,
    as_json: Json = False,
) -> None:
    """Trust the configurations of this directory and above.

    Commands then run its hooks without --config. Trust covers the content of the file, and of the project's files that its
    commands name. When one of them changes, no hook of it runs until it is trusted again. Files that those programs import are
    not covered. A hook whose command does not show its files is refused until `trust` in its settings names them. A
    configuration that is named with --config needs no trust.
    """
    path = either(config, named)
    if remove:
        # The file may be gone while its trust is still stored.
        for one in [path] if path else _here("name the file: picohook trust --remove FILE"):
            was_trusted = trusted.untrust(one)
            if as_json:
                output.data({"config": str(one.absolute()), "trusted": False, "was_trusted": was_trusted})
            else:
                output.line(f"{one} is no longer trusted" if was_trusted else f"{one} was not trusted")
        return
    problems = Problems()
    read = []
    for one in [require_file(path)] if path else _here("there is nothing to trust"):
        with problems.gathered():
            read.append(configs.load(one, found=True))
    problems.check()
    for settings in read:
        _trust(settings, as_json=as_json)
    for settings in () if as_json else system_layer.configs():
        output.line(f"{settings.path} is root's and needs no trust: its hooks are asked first, whatever you trust")


def _here(otherwise: str) -> list[Path]:
    found = layers.project_configs(".")
    if not found:
        raise typer.BadParameter(f"{NOWHERE}: {otherwise}")
    return found


def _trust(settings: Config, *, as_json: bool) -> None:
    files = trusted.covered(settings)
    consents = [consent for table in settings.tables.values() for consent in table.consent()]
    if not as_json:
        output.line("These hooks may run when picohook is used in this directory:")
        output.table(
            ("  hook", "runs"), ((f"  {one.name}", part.runs) for one in settings.hooks for part in one.members)
        )
        for consent in consents:
            output.line(consent.sentence)
        output.line("They may run as long as these files do not change:")
        for file in files:
            output.line(f"  {file}")
    trusted.trust(settings)
    if not layers.is_looked_for(settings):
        output.warn(
            f"{settings.path} is not found by itself in any directory: name it with --config, which needs no trust"
        )
    if as_json:
        hooks = [{"name": one.name, "runs": one.runs} for one in settings.hooks]
        model = next((one.sends_to for one in consents if one.sends_to), None)
        writes = [one.writes for one in consents if one.writes]
        shown = {"hooks": hooks, "model": model, "files": files, "writes": writes}
        output.data({"config": str(settings.path), "trusted": True, **shown})
    else:
        output.line(f"{settings.path} is trusted", style="bold green")
