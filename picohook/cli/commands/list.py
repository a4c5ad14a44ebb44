"""`picohook list`: the hooks of each stage, in the order they are asked, with their settings."""

import os
from typing import Any

from ...engine.order import audiences, in_order, layer, seats
from ...engine.seat import Seat
from ...hooks.base import Hook
from ...model.spec import KINDS, HookSpec
from ...projects.layers import Layers
from ...wire import words
from .. import output
from ..command import App, Json, reads_files
from ..configuration import Named, configured, described

app = App()
_IN_COLUMNS = {"name", *KINDS, "stages", "observe", "priority", "timeout", "approval_timeout", "timeouts"}
_OF_A_GROUP = {"filter", "file"}
_NOT_FOR_A_TABLE = {"on_failure", "dir", "env", "inherit_env", "enabled"}


@app.command()
@reads_files
def list_hooks(config: Named = None, *, as_json: Json = False) -> None:
    """List the hooks in the order they are asked, stage by stage.

    Shows the layer and the file of each hook, its settings, and the hooks that get events. Starts nothing.
    """
    settings = configured(config)
    ordered = in_order(spec.make() for spec in settings.hooks)
    by_stage = {stage: places for stage, places in seats(ordered, settings.timeouts).items() if places}
    if as_json:
        output.data(_document(settings, ordered, by_stage))
        return
    for file in settings.configs:
        place = f"{file.layer}, {file.dialect}" if file.layer else file.dialect
        output.line(f"{file.path} ({place}, hooks: {len(file.hooks)})", style="bold")
    if ordered:
        output.line()
        output.table(
            ("hook", "layer", "file", "runs"),
            (
                (hook.name, layer(hook), _short(hook.spec.source), member.runs)
                for hook in ordered
                for member in hook.spec.members
            ),
        )
    for stage, places in by_stage.items():
        output.line()
        output.line(stage, style="bold cyan")
        output.table(
            ("  hook", "priority", "timeout", "on failure", "settings"),
            (_row(seat, approves=stage == "approve_tool") for seat in places),
        )
    watching = [hook for hook in ordered if hook.spec.observe]
    if watching:
        output.line()
        output.line("events", style="bold cyan")
        output.table(("  hook", "kinds"), ((f"  {hook.name}", _kinds(hook.spec)) for hook in watching))


def _short(path: str) -> str:
    """Returns the path relative to this directory, or to the home directory as ~/."""
    for base, instead in ((os.getcwd(), ""), (os.path.expanduser("~"), "~/")):
        inside = os.path.realpath(base).rstrip("/") + "/"
        if path.startswith(inside):
            return instead + path.removeprefix(inside)
    return path


def _row(seat: Seat, *, approves: bool) -> tuple[str, ...]:
    spec = seat.hook.spec
    on_failure = "deny" if approves else spec.on_failure.value
    return f"  {spec.name}", str(spec.priority), f"{seat.timeout:g} s", on_failure, _further(spec)


def _further(spec: HookSpec) -> str:
    """Returns the settings that have no column."""
    is_group = spec.kind == "handlers"
    hidden = _IN_COLUMNS | {spec.kind} | _NOT_FOR_A_TABLE | (_OF_A_GROUP if is_group else set())
    rest = spec.model_dump(mode="json", exclude_defaults=True, exclude=hidden)
    rest = {"handlers": len(spec.members), **rest} if is_group else rest
    return ", ".join(name if value is True else f"{name} {_brief(value)}" for name, value in rest.items())


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{key}={_brief(inner)}" for key, inner in value.items() if inner not in (None, {}))
    return str(value)


def _kinds(spec: HookSpec) -> str:
    kinds = [kind for kind in words.EVENT_KINDS if kind in spec.kinds]
    return "all" if len(kinds) == len(words.EVENT_KINDS) else " ".join(kinds)


def _document(found: Layers, ordered: list[Hook], by_stage: dict[str, tuple[Seat, ...]]) -> dict[str, Any]:
    return {
        "configs": [described(config) for config in found.configs],
        "stages": {
            stage: [{"hook": seat.hook.name, "timeout": seat.timeout} for seat in places]
            for stage, places in by_stage.items()
        },
        "events": {kind: [hook.name for hook in told] for kind, told in audiences(ordered).items() if told},
        "hooks": [
            {
                **hook.spec.model_dump(mode="json", exclude={"enabled"}),
                "env": sorted(hook.spec.env),  # only the names: the values may be secrets
                "layer": layer(hook),
                "source": hook.spec.source,
            }
            for hook in ordered
        ],
    }
