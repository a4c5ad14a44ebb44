"""`picohook check`: find mistakes in a configuration."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ...config import Config
from ...config.document import PicoClaw
from ...errors import ConfigError, HookCrashedError, Problem, TrustError
from ...model.spec import HookSpec
from ...projects import trust
from ...projects.layers import Layers
from .. import output
from ..command import App, Json
from ..configuration import AlsoNamed, AsPicoClaw, described, either, missing_script, program, read

app = App()

_AS_PICOCLAW: dict[PicoClaw, str] = {
    "0.2.8": "as PicoClaw 0.2.8: events are hook.event; for 0.2.9 and newer add --picoclaw 0.2.9",
    "0.2.9": "as PicoClaw 0.2.9: events are hook.runtime_event, before_llm leaves tools and system messages as they are"
    " (0.2.9+edits lets hooks change them)",
    "0.2.9+edits": "as PicoClaw 0.2.9, and before_llm may change tools and system messages",
}
"""The description of a PicoClaw configuration, by version."""


@app.command()
def check(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]",
            help="The configuration. Default: your own, and those of this directory and above.",
            show_default=False,
        ),
    ] = None,
    *,
    named: AlsoNamed = None,
    picoclaw: AsPicoClaw = None,
    as_json: Json = False,
) -> None:
    """Check a configuration, and find the programs of its hooks.

    Shows the program of each hook, and all mistakes. Starts nothing. Exits with 1 if there is a mistake.
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
    """The hooks, problems and warnings of the configuration files."""

    def __init__(self) -> None:
        self.configs: tuple[Config, ...] = ()
        self.hooks: list[dict[str, Any]] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._models: dict[tuple[str, str], str] = {}
        """The models that hooks ask, by the hook's file and its name there."""

    def take(self, found: Layers) -> None:
        """Make the checks that reading the files does not: order, models, programs, trust."""
        self.configs = found.configs
        self.warnings += found.warnings
        try:
            if any(spec.after for spec in found.hooks):  # nothing else can fail, and hooks import much
                from ...engine.order import in_order  # as the hooks themselves

                in_order(spec.make() for spec in found.hooks)
        except ConfigError as error:
            keys = self._keys(found)
            self.problems += [
                replace(problem, where=keys.get(problem.where, problem.where)) for problem in error.problems
            ]
        self._look_for_models(found)
        names = iter(found.hooks)
        for config in found.configs:
            if not config.hooks:
                if "model" in config.tables:
                    continue
                why = "it has no hooks" if config.enabled else "hooks.enabled is false: no hook will run"
                self.warnings.append(Problem(str(config.path), "", why))
            for spec in config.hooks:
                name = next(names).name
                for member in spec.members:
                    self._resolve(config, member, config.key_paths[spec.name], name)
            try:
                trust.require_trust(config)
            except TrustError as error:
                self.warnings += error.problems

    def _look_for_models(self, found: Layers) -> None:
        unusable: dict[Problem, None] = {}
        for config in found.configs:
            for spec in config.hooks:
                model = spec.asked_model(found)
                if model is None:
                    continue
                self._models[str(config.path), spec.name] = model.shown
                if model.problem is not None and model.file:
                    unusable[model.problem] = None
                elif model.problem is not None:
                    self.warnings.append(replace(model.problem, where=config.key_paths[spec.name]))
        self.problems += unusable

    @staticmethod
    def _keys(found: Layers) -> dict[str, str]:
        """Returns the key path of each hook's `after` in its file, by the one that `in_order` reports."""
        specs = [(config, spec) for config in found.configs for spec in config.hooks]
        return {
            f"hooks.{there.name}.after": f"{config.key_paths[spec.name]}.after"
            for there, (config, spec) in zip(found.hooks, specs, strict=True)
        }

    def _resolve(self, config: Config, spec: HookSpec, where: str, name: str) -> None:
        file = str(config.path)
        found = None
        try:
            found = program(spec)
            missing = missing_script(spec.examined)
            if missing:
                self.warnings.append(Problem(file, where, f"there is no {missing}"))
        except HookCrashedError as error:
            self.problems.append(Problem(file, where, str(error)))
        shown = {"name": name, "layer": spec.layer, "source": file}
        model = self._models.get((file, spec.name)) or None if spec.kind == "prompt" else None
        runs = {"runs": spec.runs, "program": found, "model": model, "dir": spec.dir}
        self.hooks.append({**shown, **runs})

    def show(self, *, as_json: bool) -> None:
        """Print the report."""
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
