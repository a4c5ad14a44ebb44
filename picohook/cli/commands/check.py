"""`picohook check`: find mistakes in a configuration."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import ConfigError, HookCrashedError, Problem, TrustError
from ...model.spec import HookSpec
from ...projects import trust
from ...projects.layers import Layers
from .. import output
from ..command import App, Json, reads_files
from ..configuration import AlsoNamed, described, either, missing_script, program, read

app = App()


@app.command()
@reads_files
def check(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]", help="The configuration. Default: your own, and those of this directory and above."
        ),
    ] = None,
    *,
    named: AlsoNamed = None,
    as_json: Json = False,
) -> None:
    """Check a configuration, and find the programs of its hooks.

    Shows the program of each hook, and all mistakes. Starts nothing. Exits with 1 if there is a mistake.
    """
    found, problems, warnings = Layers(), list[Problem](), list[Problem]()
    try:
        found = read(either(config, named), "name one: picohook check FILE")
        warnings += found.warnings
        problems += _mistaken_order(found)
    except ConfigError as error:
        problems += error.problems
    hooks = list(_hooks(found, problems, warnings))
    if as_json:
        shown = {"ok": not problems, "configs": [described(one) for one in found.configs], "hooks": hooks}
        mistakes = {"problems": [asdict(one) for one in problems], "warnings": [asdict(one) for one in warnings]}
        output.data(shown | mistakes)
    else:
        _show(found, hooks, problems, warnings)
    if problems:
        raise typer.Exit(1)


def _mistaken_order(found: Layers) -> Iterator[Problem]:
    """Yields the mistakes in `after`, each with its key path in its own file."""
    if not any(spec.after for spec in found.hooks):  # nothing else can fail, and hooks import much
        return
    from ...engine.order import in_order  # as the hooks themselves

    try:
        in_order(spec.make() for spec in found.hooks)
    except ConfigError as error:
        paths = (config.key_paths[spec.name] for config in found.configs for spec in config.hooks)
        keys = {f"hooks.{spec.name}.after": f"{path}.after" for spec, path in zip(found.hooks, paths, strict=True)}
        yield from (replace(problem, where=keys.get(problem.where, problem.where)) for problem in error.problems)


def _hooks(found: Layers, problems: list[Problem], warnings: list[Problem]) -> Iterator[dict[str, Any]]:
    """Yields the parts of all hooks as JSON. Adds mistakes that reading does not find: models, programs, trust."""
    hooks = iter(found.hooks)
    for config in found.configs:
        if not config.hooks and "model" in config.tables:
            continue
        if not config.hooks:
            why = "it has no hooks" if config.enabled else "hooks.enabled is false: no hook will run"
            warnings.append(Problem(str(config.path), "", why))
        for spec in config.hooks:
            hook, where = next(hooks), config.key_paths[spec.name]
            service = hook.service()
            problem = service and service.problem
            if service and problem and problem not in problems:
                if service.title:
                    problems.append(problem)
                else:  # a program may give its host one
                    why = f"{problem.message}: a host does not start with it"
                    warnings.append(replace(problem, where=where, message=why))
            for member in hook.members:
                yield _described(member, where, problems, warnings)
        try:
            trust.require_trust(config)
        except TrustError as error:
            warnings += error.problems


def _described(spec: HookSpec, where: str, problems: list[Problem], warnings: list[Problem]) -> dict[str, Any]:
    found = None
    try:
        found = program(spec)
        if missing := missing_script(spec.examined):
            warnings.append(Problem(spec.source, where, f"there is no {missing}"))
    except HookCrashedError as error:
        problems.append(Problem(spec.source, where, str(error)))
    service = spec.service()
    shown = {"name": spec.name, "layer": spec.layer, "source": spec.source, "runs": spec.runs, "program": found}
    return {**shown, "model": service and (service.title or None), "dir": spec.dir}


def _show(found: Layers, hooks: list[dict[str, Any]], problems: list[Problem], warnings: list[Problem]) -> None:
    if hooks:
        rows = ((hook["name"], hook["program"] or hook["model"] or "-", hook["runs"]) for hook in hooks)
        output.table(("hook", "program", "runs"), rows)
    for warning in warnings:
        output.warn(str(warning))
    for problem in problems:
        output.error(str(problem))
    for config in found.configs:
        for _, sentence in filter(None, (table.about() for table in config.tables.values())):
            output.line(f"{config.path}: {sentence}")
    for config in () if problems else found.configs:
        output.line(f"{config.path}: ok", style="bold green")
