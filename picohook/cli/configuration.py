"""The configuration that a command works with, and the programs of its hooks."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import Config
from ..errors import HookCrashedError
from ..model.spec import HookSpec, python_file
from ..process.plan import plan
from ..projects import hook_files, layers
from ..projects.layers import Layers
from . import output
from .command import GIVEN, require_file

Named = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Use this configuration, and not your own or those of this directory and above.",
    ),
]
AlsoNamed = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The same as the argument."),
]
NOWHERE = "there is no picohook.toml, picohook.yaml or picohook.json here"
_SCRIPTS = (".py", ".sh", ".js", ".mjs", ".rb", ".pl")


def either(positional: Path | None, named: Path | None) -> Path | None:
    """Returns the path given as an argument or with --config. Raises `typer.BadParameter` if both are given."""
    if positional is not None and named is not None:
        raise typer.BadParameter(f"give one of {positional} and --config {named}")
    return positional or named


def read(named: Path | None, way_out: str = "name one with --config FILE") -> Layers:
    """Read the configuration that the user named, or all that are found. Trust is not checked."""
    if named is not None:
        return layers.named(require_file(named), given=GIVEN)
    found = layers.discover(given=GIVEN)
    if not found.configs:
        raise typer.BadParameter(f"{NOWHERE}, and none of your own: {way_out}")
    return found


def configured(named: Path | None) -> Layers:
    """Read the configuration that hooks are started from: named by the user, or found and trusted. Print its warnings."""
    found = read(named)
    found.require_trust()
    for warning in found.warnings:
        output.warn(str(warning))
    return found


def described(config: Config) -> dict[str, Any]:
    """Returns the description of a configuration file for JSON output."""
    return {
        "config": str(config.path),
        "layer": config.layer,
        "dialect": config.dialect,
        "hooks": len(config.hooks),
        **{key: shown[0] for key, table in config.tables.items() if (shown := table.about())},
    }


def program(spec: HookSpec) -> str | None:
    """Returns the program or module that a hook runs; None if it runs none. Raises `HookCrashedError` if it is missing."""
    if spec.kind not in {"command", "run", "python"}:
        return None
    if spec.python is None:
        return plan(spec, os.environ).argv[0]
    module = spec.python.partition(":")[0]
    file = python_file(spec)
    if file is None and find_spec(module.partition(".")[0]) is None:
        raise HookCrashedError(f"there is no module {module}, neither in {spec.dir} nor installed", hook=spec.name)
    return module if file is None else str(file)


def missing_script(spec: HookSpec) -> str | None:
    """Returns the script that a hook should run, if that file does not exist."""
    if spec.run is not None:
        return next((path for path in hook_files.programs(spec) if not os.path.exists(path)), None)
    script = spec.command[1] if len(spec.command) > 1 else ""
    path = os.path.join(spec.dir or "", script)
    return path if script.endswith(_SCRIPTS) and not script.startswith("-") and not os.path.exists(path) else None
