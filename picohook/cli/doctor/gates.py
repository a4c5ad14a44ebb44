"""Gates are the hooks that decide about tool calls. Checks their settings, and whether they deny their canary."""

import json
from collections.abc import Iterator
from typing import Any

from ...hooks.foreign.spec import GroupSpec
from ...host import Host
from ...model.decisions import Outcome
from ...model.payloads import ToolCall
from ...model.spec import HookSpec, OnFailure
from ...wire import words
from .findings import Finding, Level, about, confined_by

DECIDES = ("before_tool", "approve_tool")
_DENIALS = {words.DENY, words.ABORT_TURN, words.HARD_ABORT}
_FAILED = "it failed"
_EXAMPLE = 'canary = { tool = "bash", arguments = { command = "rm -rf /" } }'


def settings(spec: HookSpec, dialect: str) -> Iterator[Finding]:
    """Yield findings about the settings of a gate."""
    asked = [stage for stage in DECIDES if stage in spec.asked_at]
    fails_open = "before_tool" in asked and spec.on_failure is OnFailure.CONTINUE
    where = "" if dialect == "native" else ", in picohook's own format"
    if not asked:
        return
    if "approve_tool" in asked and spec.stdio == "pipe" and (spec.command or spec.run):
        message = "its answers go through a pipe: other programs of the same user can write an approval into it, through /proc"
        hint = f'set stdio = "socket"{where}, unless it opens /dev/stdin or /dev/stdout by name'
        yield Finding(Level.NOTE, about(spec), "stdio", message, hint)
    if isinstance(spec, GroupSpec):
        return  # `foreign_gates` has tried it
    if not (spec.guard or spec.canary or "approve_tool" in asked):
        deny = 'on_failure = "deny", and ' if fails_open else ""
        message = "it can deny calls, and has no canary" + (", and while it is down, calls pass" if fails_open else "")
        hint = f"if it has to deny calls, set {deny}a canary, which is a call that it must deny{where}"
        yield Finding(Level.NOTE, about(spec), "gate", message, hint)
        return
    if fails_open:
        message = "it fails open: while it is down or hangs, before_tool allows what it would deny"
        yield Finding(Level.WARNING, about(spec), "gate", message, f'set on_failure = "deny"{where}')
    if spec.canary is None:
        message = "it has no canary: nothing shows that it denies any call"
        yield Finding(Level.WARNING, about(spec), "gate", message, f"set a call that it must deny{where}: {_EXAMPLE}")


async def try_canary(host: Host, spec: HookSpec) -> Finding:
    """Ask a gate about its canary. No tool is called."""
    assert spec.canary is not None
    call = ToolCall(tool=spec.canary.tool, arguments=spec.canary.arguments)
    shown = f"{call.tool} {json.dumps(call.arguments)}"
    hint = "correct the hook or its canary, and do not rely on the hook until this is ok"
    said = []
    for stage in DECIDES:
        if stage not in spec.asked_at:
            continue
        outcome = await getattr(host, stage)(call)
        answer, denied = _answer(outcome, spec.name, stage)
        if denied:
            reason = f": {outcome.reason}" if outcome.reason else ""
            return Finding(Level.OK, about(spec), "canary", f"it denies {shown} at {stage}{reason}")
        said.append(f"{stage}: {answer}")
    if not said:
        message, hint = "it has a canary, and answers neither before_tool nor approve_tool", "remove the canary"
    else:
        message = f"it does not deny its canary, {shown} ({'; '.join(said)})"
        if _FAILED in message and (held := confined_by(spec)):
            hint = f"allow what it needs in its {held}, or {hint}"
    return Finding(Level.ERROR, about(spec), "canary", message, hint)


def _answer(outcome: Outcome[Any], name: str, stage: str) -> tuple[str, bool]:
    """Return the hook's answer, and whether it is a denial. A denial because the hook failed does not count."""
    entries = [entry for entry in outcome.trail if entry.hook == name and outcome.stage == stage]
    if not entries or entries[0].skipped:
        return "its filter keeps it from being asked", False
    if failed := next((entry.error for entry in entries if entry.error), None):
        return f"{_FAILED}, {failed}", False
    if outcome.approved is not None and stage == "approve_tool":
        return "approved" if outcome.approved else "denied", not outcome.approved
    return outcome.action, outcome.action in _DENIALS
