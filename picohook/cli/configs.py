"""`picohook check` and `schema`: what a configuration must be, and whether this one is."""

import json
import os
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from .. import config as configs
from ..config import Config, model_endpoints as models, trust
from ..config.hooks import PicoClaw
from ..config.layers import Layers
from ..config.problems import meant, quoted
from ..config.warnings import doubts, place
from ..engine.order import in_order
from ..errors import ConfigError, HookCrashedError, Problem, TrustError
from ..hooks import make_hook
from ..model.spec import NO_MODEL, NO_MODEL_HINT, HookSpec, python_file
from ..model.stages import STAGES
from ..process.plan import plan
from . import output
from .source import AlsoNamed, AsPicoClaw, Json, Positional, either, read

_AS_PICOCLAW: dict[PicoClaw, str] = {
    "0.2.8": "as PicoClaw 0.2.8: events are hook.event; for 0.2.9 and newer add --picoclaw 0.2.9",
    "0.2.9": "as PicoClaw 0.2.9: events are hook.runtime_event, before_llm leaves tools and system messages as they are"
    " (0.2.9+edits lets hooks change them)",
    "0.2.9+edits": "as PicoClaw 0.2.9, and before_llm may change tools and system messages",
}
"""What each version means for hooks, and how another one is chosen."""
_SCRIPTS = (".py", ".sh", ".js", ".mjs", ".rb", ".pl")


def check(
    config: Positional = None, *, named: AlsoNamed = None, picoclaw: AsPicoClaw = None, as_json: Json = False
) -> None:
    """Check a configuration, and find the programs of its hooks.

    Or check all that would be used. Starts nothing. Shows the program that each hook comes to, or all that is wrong; then the
    exit code is 1.
    """
    report = _Report()
    try:
        report.take(read(either(config, named), picoclaw, "name one: picohook check FILE"))
    except ConfigError as error:
        report.problems += error.problems
    report.show(as_json=as_json)
    if report.problems:
        raise typer.Exit(1)


class _Report:
    """What a check found."""

    def __init__(self) -> None:
        self.configs: tuple[Config, ...] = ()
        self.hooks: list[dict[str, Any]] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._models: dict[tuple[str, str], str] = {}
        """What hooks ask that ask a model, by their files and names there."""

    def take(self, found: Layers) -> None:
        """Look at what the files' types and names cannot say."""
        self.configs = found.configs
        self.warnings += doubts(found)
        try:
            in_order(map(make_hook, found.hooks))
        except ConfigError as error:
            keys = self._keys(found)
            self.problems += [
                replace(problem, where=keys.get(problem.where, problem.where)) for problem in error.problems
            ]
        self._look_for_models(found)
        names = iter(found.hooks)
        for config in found.configs:
            if not config.hooks:
                if config.model is not None:
                    continue
                why = "it has no hooks" if config.enabled else "hooks.enabled is false: no hook will run"
                self.warnings.append(Problem(str(config.path), "", why))
            for spec in config.hooks:
                self._resolve(config, spec, next(names).name)
            try:
                trust.require_trust(config)
            except TrustError as error:
                self.warnings += error.problems

    def _look_for_models(self, found: Layers) -> None:
        unusable: dict[Problem, None] = {}
        for config, spec, named in models.asked_by(found):
            if named is None:
                why = f"{NO_MODEL}: a host does not start with it"
                self.warnings.append(Problem(str(config.path), place(config, spec), why, NO_MODEL_HINT))
                continue
            file, model = named
            self._models[str(config.path), spec.name] = models.shown(model, spec.model)
            if (problem := models.unusable(file, model)) is not None:
                unusable[problem] = None
        self.problems += unusable

    @staticmethod
    def _keys(found: Layers) -> dict[str, str]:
        """By the place that a hook has on a host, its key in its file."""
        specs = [(config, spec) for config in found.configs for spec in config.hooks]
        return {
            f"hooks.{there.name}.after": f"{place(config, spec)}.after"
            for there, (config, spec) in zip(found.hooks, specs, strict=True)
        }

    def _resolve(self, config: Config, spec: HookSpec, name: str) -> None:
        file, where = str(config.path), place(config, spec)
        found = None
        try:
            found = program(spec)
            missing = missing_script(spec)
            if missing:
                self.warnings.append(Problem(file, where, f"there is no {missing}"))
        except HookCrashedError as error:
            self.problems.append(Problem(file, where, str(error)))
        shown = {"name": name, "layer": spec.layer, "source": file}
        runs = {"runs": spec.runs, "program": found, "model": self._models.get((file, spec.name)), "dir": spec.dir}
        self.hooks.append({**shown, **runs})

    def show(self, *, as_json: bool) -> None:
        """Print it."""
        if as_json:
            output.data(
                {
                    "ok": not self.problems,
                    "configs": [described(config) for config in self.configs],
                    "hooks": self.hooks,
                    "problems": [asdict(problem) for problem in self.problems],
                    "warnings": [asdict(problem) for problem in self.warnings],
                }
            )
            return
        if self.hooks:
            rows = ((hook["name"], hook["program"] or hook["model"] or "-", hook["runs"]) for hook in self.hooks)
            output.table(("hook", "program", "runs"), rows)
        for warning in self.warnings:
            output.warn(str(warning))
        for problem in self.problems:
            output.error(str(problem))
        for config in self.configs:
            if config.picoclaw is not None:
                output.line(f"{config.path}: {_AS_PICOCLAW[config.picoclaw]}")
        for config in () if self.problems else self.configs:
            output.line(f"{config.path}: ok", style="bold green")


def described(config: Config) -> dict[str, Any]:
    """A configuration, for programs."""
    return {
        "config": str(config.path),
        "layer": config.layer,
        "dialect": config.dialect,
        "hooks": len(config.hooks),
        **({"picoclaw": config.picoclaw} if config.picoclaw is not None else {}),
    }


def program(spec: HookSpec) -> str | None:
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


def missing_script(spec: HookSpec) -> str | None:
    """The script that an interpreter is told to run, where there is none: it would start, and end at once."""
    script = spec.command[1] if len(spec.command) > 1 else ""
    path = os.path.join(spec.dir or "", script)
    return path if script.endswith(_SCRIPTS) and not script.startswith("-") and not os.path.exists(path) else None


def schema(
    what: Annotated[
        str,
        typer.Argument(
            metavar="config|protocol|STAGE",
            help=f"The last is one of {', '.join(STAGES)}.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Print the schema of a configuration, a stage or the protocol.

    `config` is the JSON Schema of the configuration, STAGE that of what hooks are asked about there, `protocol` the OpenRPC
    document of what `picohook serve` speaks. It is JSON either way; with --json it is on one line.
    """
    if what == "config":
        document = configs.schema()
    elif what == "protocol":
        from ..serve.methods.openrpc import openrpc  # noqa: PLC0415 - of all commands, this one

        document = openrpc()
    elif what in STAGES:
        document = STAGES[what].payload.model_json_schema()
    else:
        hint = meant(what, ("config", "protocol", *STAGES))
        raise typer.BadParameter(f"there is no schema of {quoted(what)} ({hint})")
    if as_json:
        output.data(document)
    else:
        output.verbatim(json.dumps(document, indent=2))
