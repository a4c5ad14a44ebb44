"""Starts each hook alone on a host of its own, greets it, and asks it about its canary, or about sample calls."""

from collections.abc import Iterable
from typing import Any

import anyio

from ...errors import PicohookError
from ...host import Host
from ...model.spec import HookSpec, Service, Timeouts
from ...projects.layers import Layers
from . import gates
from .findings import Finding, Level, about, confined_by

AT_ONCE = 4
"""The most hooks that are tried at the same time."""
_NOT_NOW = "it is started for each question, and was not started now"
_TIMES = ("timeout", "approval_timeout", "hello_timeout", "grace")


async def try_all(specs: Iterable[HookSpec], found: Layers, time_limit: float) -> dict[str, list[Finding]]:
    """Try the hooks. Returns the findings by the names of the hooks."""
    timeouts = Timeouts(**{name: min(value, time_limit) for name, value in found.timeouts.model_dump().items()})
    results: dict[str, list[Finding]] = {}
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def one(spec: HookSpec) -> None:
        async with limiter:
            results[spec.name] = await _try(_hurried(spec, time_limit), found, timeouts, time_limit)

    async with anyio.create_task_group() as tasks:
        for spec in specs:
            tasks.start_soon(one, spec)
    return results


def _hurried(spec: HookSpec, time_limit: float) -> HookSpec:
    """Returns the hook's settings with shorter timeouts, and without those that concern other hooks."""
    changed: dict[str, Any] = {
        name: min(value, time_limit) for name in _TIMES if (value := getattr(spec, name)) is not None
    }
    changed["timeouts"] = {stage: min(value, time_limit) for stage, value in spec.timeouts.items()}
    return spec.model_copy(update={**changed, "required": False, "after": (), "retry": 0, "observe": ()})


async def _try(spec: HookSpec, found: Layers, timeouts: Timeouts, time_limit: float) -> list[Finding]:
    findings = []
    service = spec.service()
    if service is not None:
        finding = _asks(spec, service)
        if service.problem is not None or (spec.canary is None and spec.kind != "handlers"):
            return [finding]
        findings.append(finding)
    try:
        hook = spec.make()
        if hook.shadow:  # a host does not wait for its start
            hook = getattr(spec, "KIND", type(spec)).make(spec)
        async with Host([hook], timeouts=timeouts, verify=found.verify) as host:
            trial = hook.trial(time_limit)
            if trial is not None:
                return findings + [finding async for finding in trial]
            findings = [_started(host, spec)]
            if spec.canary is not None and findings[0].level is Level.OK:
                findings.append(await gates.try_canary(host, spec))
            return findings
    except PicohookError as error:
        return [Finding(Level.ERROR, about(spec), "start", str(error), _by_hand(spec))]


def _asks(spec: HookSpec, service: Service) -> Finding:
    """Returns the finding about the model that a hook asks. It is not asked."""
    problem = service.problem
    if problem is None:
        message = f"it asks {service.title}, which was not tried"
        hint = "give it a canary, a call that it must deny: then the model is asked about it"
        return Finding(Level.NOTE, about(spec), "model", message, hint)
    if service.title:
        return Finding(Level.ERROR, about(spec), "model", problem.message, problem.hint)
    why = f"it {problem.message}: a host does not start with it"
    return Finding(Level.WARNING, about(spec), "model", why, problem.hint)


def _started(host: Host, spec: HookSpec) -> Finding:
    (status,) = host.status().hooks
    if status.state != "ready" or status.last_error:
        why = status.last_error or f"it is {status.state}"
        return Finding(Level.ERROR, about(spec), "start", why, _by_hand(spec))
    if spec.kind != "command":
        started = {"python": "it was imported", "run": _NOT_NOW, "handlers": _NOT_NOW}
        return Finding(Level.OK, about(spec), "start", started.get(spec.kind, "it is ready, and starts no process"))
    held = [f"containment: {status.containment}"]
    held += [name for name in ("limits", "sandbox") if getattr(spec, name) is not None]
    return Finding(Level.OK, about(spec), "start", f"it starts and says hello ({', '.join(held)})")


def _by_hand(spec: HookSpec) -> str:
    if spec.command:
        held = confined_by(spec)
        see = f"allow what it needs in its {held}; see what it does without them" if held else "see what it does"
        return f"{see}: picohook conformance -- {spec.runs}"
    if spec.kind == "nats":
        return "start the server, or correct [nats]"
    return f"correct what it runs: {spec.runs}"
