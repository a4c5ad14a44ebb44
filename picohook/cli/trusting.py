"""`picohook trust`: consent to what a configuration that is found in a directory would run."""

from pathlib import Path
from typing import Annotated

import typer

from .. import config as configs
from ..config import Config, layers, model_endpoints as models, trust as trusted
from ..errors import ConfigError, Problem
from . import output
from .source import AlsoNamed, Json, Positional, either, require_file


def trust(
    config: Positional = None,
    *,
    named: AlsoNamed = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the consent back.")] = False,
    as_json: Json = False,
) -> None:
    """Trust the configuration of this directory, as it is now.

    Then its hooks run without it being named. Covers the file and the files of the project that its commands name, by
    content: when one of them changes, nothing of it runs until it is trusted again. What those programs import is not
    covered. A hook that does not tell which files it runs is refused: its `trust` names them. A configuration that is
    named with --config needs no trust.
    """
    config = either(config, named)
    if remove:
        # The file may be gone, and its consent still there to take back.
        for path in [config] if config else _here("name the one to forget: picohook trust --remove FILE"):
            _remove(path, as_json=as_json)
        return
    for settings in _load([require_file(config)] if config else _here("there is nothing to trust")):
        _trust(settings, as_json=as_json)


def _here(otherwise: str) -> list[Path]:
    found = layers.project_configs(".")
    if not found:
        raise typer.BadParameter(f"there is no picohook.toml, picohook.yaml or picohook.json here: {otherwise}")
    return found


def _load(paths: list[Path]) -> list[Config]:
    """All of them, or the mistakes of all."""
    problems: list[Problem] = []
    read = []
    for path in paths:
        try:
            read.append(configs.load(path, found=True))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return read


def _trust(settings: Config, *, as_json: bool) -> None:
    files = trusted.covered(settings)
    if not as_json:
        output.line("These hooks may run when picohook is used in this directory:")
        output.table(("  hook", "runs"), ((f"  {one.name}", one.runs) for one in settings.hooks))
        if settings.model is not None:
            output.line(f"What hooks of this file ask a model goes to {models.shown(settings.model)}.")
        output.line("as long as these files stay as they are:")
        for file in files:
            output.line(f"  {file}")
    trusted.trust(settings)
    if not layers.is_looked_for(settings):
        output.warn(f"{settings.path} is at no place that is looked at: name it with --config, which needs no trust")
    if as_json:
        hooks = [{"name": one.name, "runs": one.runs} for one in settings.hooks]
        model = settings.model and models.shown(settings.model)
        output.data({"config": str(settings.path), "trusted": True, "hooks": hooks, "model": model, "files": files})
    else:
        output.line(f"{settings.path} is trusted", style="bold green")


def _remove(path: Path, *, as_json: bool) -> None:
    was_trusted = trusted.untrust(path)
    if as_json:
        output.data({"config": str(path.absolute()), "trusted": False, "was_trusted": was_trusted})
    else:
        output.line(f"{path} is trusted no longer" if was_trusted else f"{path} was not trusted")
