"""`picohook shim`: your hooks in the agent of another vendor."""

from pathlib import Path
from typing import Annotated

import typer

from ...cli import output
from ...cli.command import App, require_file, seconds
from ...errors import ConfigError
from ...model.stages import STAGES
from ...projects import layers
from .dialects import NAMES, vendor_named
from .shim.files import HookFile, hook_file

app = App()

SPARE = 10.0
"""Seconds before the agent's timeout in which the client denies a call."""


@app.command()
def shim(
    vendor: Annotated[
        str,
        typer.Argument(metavar="VENDOR", help=f"The agent: {', '.join(NAMES)}."),
    ],
    *,
    project: Annotated[
        bool,
        typer.Option("--project", help="Write to this directory's hook file. Default: your own, for all projects."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Ask the hooks of this configuration. Default: your own, and those of the agent's project if you trust it.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            parser=seconds(1),
            help="How long the agent waits for an answer, within its own limit.",
        ),
    ] = 300.0,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the entries again.")] = False,
) -> None:
    """Use your hooks in the agent of another vendor.

    Writes an entry for each event into the vendor's hook file. The agent then asks a small client, and the client asks your
    hooks, which a host keeps running. Your own entries stay. A backup of the file is kept beside it.
    """
    if vendor not in NAMES:
        raise typer.BadParameter(f"must be one of {', '.join(NAMES)}, not {vendor}")
    known = vendor_named(vendor)
    here = Path.cwd() if project else None
    if config is not None:
        if here is not None:
            raise typer.BadParameter(
                "names a file of this machine: leave it out, or leave out --project", param_hint="--config"
            )
        require_file(config)
    file = HookFile(hook_file(known, here), known, here)
    if remove:
        output.line(f"{file.path} is as it was without picohook" if file.take_out() else "nothing to change")
        return
    changed = file.put_in(vendor, timeout, config)
    output.line(f"{file.path} asks picohook now" if changed else f"{file.path} asks picohook already")
    if changed and file.backup.exists():
        output.line(f"Its backup is {file.backup}")
    output.line(f"Events: {', '.join(known.asked)}")
    output.line(known.shim.opens)
    _warn(file, here, config, timeout)


def _warn(file: HookFile, project: Path | None, config: Path | None, timeout: float) -> None:
    """Warn about what the shim cannot do: hooks that are switched off, or have more time, and a configuration with mistakes."""
    vendor = file.vendor
    if file.document.get("disableAllHooks") is True:
        output.warn(f"{file.path}: disableAllHooks is true: {vendor.agent} runs no hooks")
    try:
        found = layers.named(config) if config else layers.discover(project, without=vendor.shim.runs)
        if config is None:
            found.require_trust()
    except ConfigError as error:
        output.warn(f"every call will be denied until you correct this: {error}")
        return
    for note in found.notes:
        output.warn(str(note))
    unasked = [hook.name for hook in found.hooks if {"before_llm", "after_llm"} & {*hook.stages}]
    if unasked:
        output.warn(f"{vendor.agent} does not ask at before_llm and after_llm: {', '.join(unasked)}")
    for hook in found.hooks:
        asked = (hook.timeout_at(stage, found.timeouts, approves=STAGES[stage].approves) for stage in hook.stages)
        longest = max(asked, default=0.0)
        if hook.waits_for_person and longest + SPARE > timeout:
            output.warn(
                f"{hook.name} gives a person {longest:g} s, and {vendor.agent} waits for {timeout:g}:"
                f" --timeout {longest + SPARE:g}"
            )
