"""`picohook check`: find mistakes in a configuration."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import ConfigError, HookCrashedError, Problem, TrustError
from ...model.spec import HookSpec
from ...projects import trust
from ...projects.layers import Layers
from .. import output
from ..command import App, Json, reads_files
from ..configuration import AlsoNamed, described, either, missing_script, program, read

if TYPE_CHECKING:
    from ...config import Config

app = App()


@app.command()
@reads_files
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
    as_json: Json = False,
) -> None:
    """Check a configuration, and find the programs of its hooks.

    Shows the program of each hook, and all mistakes. Starts nothing. Exits with 1 if there is a mistake.
    """
    report = _Report()
    try:
        report.take(read(either(config, named), "name one: picohook check FILE"))
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
        hooks = iter(found.hooks)
        for config in found.configs:
            if not config.hooks:
                if "model" in config.tables:
                    continue
                why = "it has no hooks" if config.enabled else "hooks.enabled is false: no hook will run"
                self.warnings.append(Problem(str(config.path), "", why))
            for spec in config.hooks:
                hook, where = next(hooks), config.key_paths[spec.name]
                self._look_for_service(hook, where)
                for member in hook.members:
                    self._resolve(member, where)
            try:
                trust.require_trust(config)
            except TrustError as error:
                self.warnings += error.problems

    def _look_for_service(self, spec: HookSpec, where: str) -> None:
        """Look for the service that a hook asks. A program may give its host one, so that none is named is a warning."""
        service = spec.service()
        problem = None if service is None else service.problem
        if service is None or problem is None or problem in self.problems:
            return
        if service.title:
            self.problems.append(problem)
        else:
            why = f"{problem.message}: a host does not start with it"
            self.warnings.append(replace(problem, where=where, message=why))

    @staticmethod
    def _keys(found: Layers) -> dict[str, str]:
        """Returns the key path of each hook's `after` in its file, by the one that `in_order` reports."""
        specs = [(config, spec) for config in found.configs for spec in config.hooks]
        return {
            f"hooks.{there.name}.after": f"{config.key_paths[spec.name]}.after"
            for there, (config, spec) in zip(found.hooks, specs, strict=True)
        }

    def _resolve(self, spec: HookSpec, where: str) -> None:
        file = spec.source
        found = None
        try:
            found = program(spec)
            missing = missing_script(spec.examined)
            if missing:
                self.warnings.append(Problem(file, where, f"there is no {missing}"))
        except HookCrashedError as error:
            self.problems.append(Problem(file, where, str(error)))
        shown = {"name": spec.name, "layer": spec.layer, "source": file}
        service = spec.service()
        runs = {"runs": spec.runs, "program": found, "model": service and (service.title or None), "dir": spec.dir}
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
            for _, sentence in filter(None, (table.about() for table in config.tables.values())):
                output.line(f"{config.path}: {sentence}")
        for config in () if self.problems else self.configs:
            output.line(f"{config.path}: ok", style="bold green")
