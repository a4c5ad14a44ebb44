"""What can be asked of any running host: how it does, and to change something about it. Payloads are never told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.order import in_order, layer
from ..hooks.base import StateChange
from ..model.decisions import Outcome
from ..model.stages import STAGES
from ..observe.prometheus import prometheus
from .rpc import REFUSED
from .table import Method, Params

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.engine import Engine
    from ..engine.generations import Reloaded
    from .client import Tell


class Operator:
    """One client's view of a host."""

    def __init__(self, host: Engine, tell: Tell) -> None:
        self.host = host
        self._tell = tell

    def watch(self) -> None:
        """Tell the client of every change from now on."""
        self.host.watchers.add(self._notice)

    async def aclose(self) -> None:
        """The client is gone."""
        self.host.watchers.discard(self._notice)

    def _notice(self, what: StateChange | Outcome[Any] | Reloaded) -> None:
        self._tell(*_as_notification(what))


class HookName(Params):
    """Which hook."""

    hook: str


async def _status(on: Operator, _: Params) -> dict[str, Any]:
    return on.host.status().wire()


async def _list(on: Operator, _: Params) -> dict[str, Any]:
    host = on.host
    asked = {
        name: [
            {
                "hook": hook.name,
                "layer": layer(hook),
                "timeout": hook.spec.timeout_at(name, host.timeouts, approves=stage.approves),
            }
            for hook in host.asked_at(name)
        ]
        for name, stage in STAGES.items()
    }
    observers = [
        {"hook": hook.name, "layer": layer(hook), "observe": [*hook.spec.observe]}
        for hook in in_order(host.hooks)
        if hook.spec.observe
    ]
    return {"stages": {name: hooks for name, hooks in asked.items() if hooks}, "events": observers}


async def _metrics(on: Operator, _: Params) -> str:
    return prometheus(on.host.status().wire()["hooks"])


async def _reload(on: Operator, _: Params) -> dict[str, Any]:
    return (await on.host.reload()).wire()


async def _reset(on: Operator, params: HookName) -> bool:
    on.host.reset(params.hook)
    return True


async def _restart(on: Operator, params: HookName) -> bool:
    on.host.restart(params.hook)
    return True


async def _watch(on: Operator, _: Params) -> bool:
    on.watch()
    return True


_NAMES = {"type": "array", "items": {"type": "string"}}

OPERATING = (
    Method(
        "status",
        "How every hook does, in the form of `HostStatus`.",
        _status,
        result={
            "type": "object",
            "properties": {
                "hooks": {"type": "array", "items": {"type": "object"}},
                "containment": {"type": "string"},
                "log_failures": {"type": "integer"},
                "containment_lacks": {"type": "object"},
            },
            "required": ["hooks", "containment", "log_failures", "containment_lacks"],
        },
    ),
    Method(
        "list",
        "The hooks of each stage in the order they are asked, and who observes what.",
        _list,
        result={
            "type": "object",
            "properties": {
                "stages": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": {"type": "object"}},
                },
                "events": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["stages", "events"],
        },
    ),
    Method("metrics", "Counts and times, in Prometheus' text format.", _metrics, result={"type": "string"}),
    Method(
        "reload",
        "Read the configuration again, and take it over without losing a call.",
        _reload,
        result={
            "type": "object",
            "properties": {
                **dict.fromkeys(("added", "removed", "changed", "kept"), _NAMES),
                "failed": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["added", "removed", "changed", "kept", "failed"],
        },
        errors=(REFUSED,),
    ),
    Method("reset", "Start a hook again that was given up.", _reset, HookName, errors=(REFUSED,)),
    Method("restart", "End a hook's process and start a new one.", _restart, HookName, errors=(REFUSED,)),
    Method(
        "watch",
        "Be told of every change, as notifications `state`, `outcome` and `reloaded`, until the connection ends.",
        _watch,
    ),
)


def _as_notification(what: StateChange | Outcome[Any] | Reloaded) -> tuple[str, Mapping[str, Any]]:
    if isinstance(what, StateChange):
        return "state", {"hook": what.hook, "state": what.state, "pid": what.pid}
    if not isinstance(what, Outcome):
        return "reloaded", what.wire()
    trail = [{key: value for key, value in entry.wire().items() if key != "notes"} for entry in what.trail]
    told = {"stage": what.stage, "action": what.action, "hook": what.hook, "reason": what.reason, "trail": trail}
    return "outcome", told | ({} if what.approved is None else {"approved": what.approved})
