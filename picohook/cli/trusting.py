"""`picohook trust`: consent to what a configuration that is found in a directory would run."""

from typing import Annotated

import typer

from .. import config as configs
from ..config import trust as trusted
from ..config.load import NAMES
from . import output
from .source import Json, Positional, locate


def trust(
    config: Positional = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the consent back.")] = False,
    as_json: Json = False,
) -> None:
    """Trust the configuration of this directory, as it is now.

    Then its hooks run without it being named. Covers the file and the files beside it that its commands name, by
    content: when one of them changes, nothing of it runs until it is trusted again. What those programs import is not
    covered. A configuration that is named with --config needs no trust.
    """
    if remove:
        _remove(config, as_json=as_json)
        return
    path, _ = locate(config, "there is nothing to trust")
    settings = configs.load(path, found=True)
    files = trusted.covered(settings)
    if not as_json:
        output.line("These hooks may run when picohook is used in this directory:")
        output.table(("  hook", "runs"), ((f"  {one.name}", one.runs) for one in settings.hooks))
        output.line("as long as these files stay as they are:")
        for file in files:
            output.line(f"  {file}")
    trusted.trust(settings)
    if path.name not in NAMES:
        output.warn(f"only {', '.join(NAMES)} are looked for: name this one with --config, which needs no trust")
    if as_json:
        hooks = [{"name": one.name, "runs": one.runs} for one in settings.hooks]
        output.data({"config": str(settings.path), "trusted": True, "hooks": hooks, "files": files})
    else:
        output.line(f"{settings.path} is trusted", style="bold green")


def _remove(config: Positional, *, as_json: bool) -> None:
    # The file may be gone, and its consent still there to take back.
    path = config or locate(None, "name the one to forget: picohook trust --remove FILE")[0]
    was_trusted = trusted.untrust(path)
    if as_json:
        output.data({"config": str(path.absolute()), "trusted": False, "was_trusted": was_trusted})
    else:
        output.line(f"{path} is trusted no longer" if was_trusted else f"{path} was not trusted")
