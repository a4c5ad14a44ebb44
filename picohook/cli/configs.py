"""`picohook check` and `schema`: what a configuration must be, and whether this one is."""

import json
import os
from dataclasses import asdict
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import config as configs
from ..config import Config, trust
from ..config.problems import dotted
from ..errors import ConfigError, HookCrashedError, Problem, TrustError
from ..hooks import make_hook
from ..process.plan import plan
from ..roster import in_order
from ..spec import HookSpec, python_file
from . import output
from .source import Json, Positional, locate

_TABLES: dict[str, tuple[str, ...]] = {"native": ("hooks",), "picoclaw": ("hooks", "processes"), "jcli": ()}
"""Where a dialect has its hooks."""
_SCRIPTS = (".py", ".sh", ".js", ".mjs", ".rb", ".pl")


def check(config: Positional = None, as_json: Json = False) -> None:
    """Check a configuration, and find the programs of its hooks.

    Starts nothing. Shows the program that each hook comes to, or all that is wrong; then the exit code is 1.
    """
    path, found = locate(config, "name one: picohook check FILE")
    report = _Report(path)
    try:
        report.read(configs.load(path, found=found))
    except ConfigError as error:
        report.problems += error.problems
    report.show(as_json=as_json)
    if report.problems:
        raise typer.Exit(1)


class _Report:
    """What a check found."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.config: Config | None = None
        self.hooks: list[dict[str, Any]] = []
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def read(self, config: Config) -> None:
        """Look at what the file's types and names cannot say."""
        self.config = config
        self.path = str(config.path)
        self.warnings += config.warnings
        if not config.hooks:
            self.warnings.append("it has no hooks" if config.enabled else "hooks.enabled is false: no hook will run")
        try:
            in_order(map(make_hook, config.hooks))
        except ConfigError as error:
            self.problems += error.problems
        for spec in config.hooks:
            self._resolve(config, spec)
        try:
            trust.require_trust(config)
        except TrustError as error:
            self.warnings += [f"{problem.message}: picohook trust" for problem in error.problems]

    def _resolve(self, config: Config, spec: HookSpec) -> None:
        where = dotted((*_TABLES[config.dialect], spec.name))
        program = None
        try:
            program = _program(spec)
            missing = _missing_script(spec)
            if missing:
                self.warnings.append(f"{where}: there is no {missing}")
        except HookCrashedError as error:
            self.problems.append(Problem(self.path, where, str(error)))
        self.hooks.append({"name": spec.name, "runs": spec.runs, "program": program, "dir": spec.dir})

    def show(self, *, as_json: bool) -> None:
        """Print it."""
        if as_json:
            output.data(
                {
                    "config": self.path,
                    "ok": not self.problems,
                    "dialect": self.config and self.config.dialect,
                    "hooks": self.hooks,
                    "problems": [asdict(problem) for problem in self.problems],
                    "warnings": self.warnings,
                }
            )
            return
        if self.hooks:
            rows = ((hook["name"], hook["program"] or "-", hook["runs"]) for hook in self.hooks)
            output.table(("hook", "program", "runs"), rows)
        for warning in self.warnings:
            output.warn(f"{self.path}: {warning}")
        for problem in self.problems:
            output.error(str(problem))
        if not self.problems:
            output.line(f"{self.path}: ok", style="bold green")


def _program(spec: HookSpec) -> str | None:
    """The file that a hook comes to; None for one that asks a model. Raises `HookCrashedError`."""
    if spec.prompt is not None:
        return None
    if spec.python is None:
        return plan(spec, os.environ).argv[0]
    module = spec.python.partition(":")[0]
    file = python_file(spec)
    if file is None and find_spec(module.partition(".")[0]) is None:
        raise HookCrashedError(f"there is no module {module}, neither in {spec.dir} nor installed", hook=spec.name)
    return module if file is None else str(file)


def _missing_script(spec: HookSpec) -> str | None:
    """The script that an interpreter is told to run, where there is none: it would start, and end at once."""
    script = spec.command[1] if len(spec.command) > 1 else ""
    path = os.path.join(spec.dir or "", script)
    return path if script.endswith(_SCRIPTS) and not script.startswith("-") and not os.path.exists(path) else None


class Described(StrEnum):
    """What there is a schema of."""

    CONFIG = "config"


def schema(
    what: Annotated[Described, typer.Argument(metavar="config", show_default=False)], as_json: Json = False
) -> None:
    """Print the JSON Schema of the configuration.

    For editors and other programs. It is JSON either way; with --json it is on one line.
    """
    del what
    if as_json:
        output.data(configs.schema())
    else:
        output.verbatim(json.dumps(configs.schema(), indent=2))
