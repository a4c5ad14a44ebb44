"""Checks gates, the hooks that decide about tool calls: their settings, and whether they deny their canary."""

import json
from collections.abc import Iterator

from ...host import Host
from ...model.spec import HookSpec, OnFailure
from .findings import Finding, Level, about, confined_by

DECIDES = ("before_tool", "approve_tool")
_EXAMPLE = 'canary = { tool = "bash", arguments = { command = "rm -rf /" } }'


def settings(spec: HookSpec, dialect: str) -> Iterator[Finding]:
    """Yields findings about the settings of a gate."""
    stages = [stage for stage in DECIDES if stage in spec.asked_at]
    fails_open = "before_tool" in stages and spec.on_failure is OnFailure.CONTINUE
    where = "" if dialect == "native" else ", in picohook's own format"
    if not stages:
        return
    if "approve_tool" in stages and spec.stdio == "pipe" and (spec.command or spec.run):
        message = "its answers go through a pipe: other programs of the same user can write an approval into it, through /proc"
        hint = f'set stdio = "socket"{where}, unless it opens /dev/stdin or /dev/stdout by name'
        yield Finding(Level.NOTE, about(spec), "stdio", message, hint)
    if spec.kind == "handlers":
        return  # its own trial is instead
    is_gate = spec.guard or "approve_tool" in stages or spec.canary is not None
    if fails_open and is_gate:
        message = "it fails open: while it is down or hangs, before_tool allows what it would deny"
        yield Finding(Level.WARNING, about(spec), "gate", message, f'set on_failure = "deny"{where}')
    if spec.canary is None:
        message = "it has no canary, so nothing shows that it denies calls"
        level = Level.WARNING if is_gate else Level.NOTE
        yield Finding(level, about(spec), "gate", message, f"set a call that it must deny{where}: {_EXAMPLE}")


async def try_canary(host: Host, spec: HookSpec) -> Finding:
    """Ask a gate, the only hook of this host, about its canary. No tool is called."""
    (proof,) = await host.prove_life()
    shown = f"{proof.call.tool} {json.dumps(proof.call.arguments)}"
    if proof.verdict == "denied":
        end = proof.trails[-1]
        reason = f": {end.reason}" if end.reason else ""
        return Finding(Level.OK, about(spec), "canary", f"it denies {shown} at {end.stage}{reason}")
    if not proof.trails:
        message, hint = "it has a canary, but is asked neither at before_tool nor at approve_tool", "remove the canary"
        return Finding(Level.ERROR, about(spec), "canary", message, hint)
    hint = "correct the hook or its canary, and do not rely on the hook until this is ok"
    if any(entry.failure for trail in proof.trails for entry in trail.trail) and (held := confined_by(spec)):
        hint = f"allow what it needs in its {held}, or {hint}"
    return Finding(Level.ERROR, about(spec), "canary", f"it does not deny its canary, {shown} ({proof.why})", hint)
