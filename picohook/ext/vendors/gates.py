"""Tests gates in the hook files of other agents, which have no canary: asks each about a harmless and a harmful call.

A gate that always gives the same answer probably reads a field that its vendor does not send.
"""

import json
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ...cli.doctor.findings import Finding, Level, about
from ...cli.doctor.gates import DECIDES
from ...errors import HookError
from ...model.decisions import Approve, Continue, Modify, Pause
from ...model.payloads import Meta, ToolCall
from .contract import HandlerInput, HandlerResult
from .spec import GroupSpec, Selection

Ask: TypeAlias = Callable[[int, ToolCall], Awaitable[tuple[HandlerInput, HandlerResult] | None]]
"""Runs the handler with this index. Returns its input and its result; None if the call does not match it."""

_SESSION = Meta(session_key="picohook-doctor")
_SHOWN = 60
"""The most characters of a call in a message."""
_OF_A_SERVER = "mcp__example__run"
_MOST = 5
"""The most tools that are tried until a gate refuses a harmful call."""


def is_gate(spec: GroupSpec) -> bool:
    """Whether its handlers decide about tool calls."""
    row = spec.filter.contract.events[spec.filter.event]
    return row.gate and row.stage in DECIDES


class Effect(NamedTuple):
    """The effect of a handler's result on a call."""

    refuses: str = ""
    """The verb for a call that does not run, or runs only if a person agrees; empty for a call that runs."""
    why: str = ""
    """The reason of a refusal, or what went wrong."""
    failed: bool = False
    """Whether the handler failed. A failure decides only in strict."""
    approves: bool = False


class Sample(NamedTuple):
    """The arguments of two calls of one tool."""

    harmless: dict[str, Any]
    harmful: dict[str, Any]


_ALL = tomllib.loads(Path(__file__).with_name("samples.toml").read_text(encoding="utf-8"))
OTHER = Sample(**_ALL.pop("OTHER"))
"""For a tool of a server."""
SAMPLES = {tool: Sample(**calls) for tool, calls in _ALL.items()}
_BY_HAND = "give it this call on standard input, and read its answer"
_MISREADS = f"probably reads a field that is not sent: {_BY_HAND}"


async def try_handlers(spec: GroupSpec, ask: Ask) -> AsyncIterator[Finding]:
    """Yields a finding for each handler. No tool is called."""
    for index, handler in enumerate(spec.filter.handlers):
        rule = handler.rule
        if rule.in_background:
            continue
        if rule.kind == "unsupported":
            found = Level.WARNING, f"it cannot be run: {rule.why}", "replace it with a handler of type command"
        elif rule.kind == "prompt":
            found = Level.NOTE, "its model was not asked", "ask about a call by hand: picohook call"
        else:
            found = await _tried(spec, index, ask)
        level, message, hint = found
        yield Finding(level, about(spec), "gate", f"{rule.at}: {message}", hint)


async def _tried(spec: GroupSpec, index: int, ask: Ask) -> tuple[Level, str, str]:
    """Ask a handler about sample calls. Returns the level, the message and the hint of the finding. No tool is called."""
    tools = list(tools_of(spec.filter, index))[:_MOST]
    if not tools:
        message = "it was not tried: its matcher matches none of the sample calls"
        return Level.NOTE, message, "ask about a call that it has to refuse by hand: picohook call"
    tool, sample = tools[0]
    first, harmless = _shown(tool, sample.harmless), await _effect(spec, index, ask, tool, sample.harmless)
    if harmless.failed:
        way_out = f"correct what it runs: {spec.filter.handlers[index].runs}"
        return Level.ERROR, f"it fails about {first}: {harmless.why}", way_out
    for tool, sample in tools:
        harmful = await _effect(spec, index, ask, tool, sample.harmful)
        if harmful.refuses or harmful.approves or harmless.refuses:
            break
    shown = _shown(tool, sample.harmful)
    if harmless.refuses:
        which = "every call" if harmful.refuses else "a harmless call and no harmful one"
        message = f"it refuses {which}: {first}{_because(harmless)}"
        return Level.WARNING, message, f"if it should let some calls pass, it {_MISREADS}"
    if harmful.failed:
        return Level.WARNING, f"it fails about {shown}: {harmful.why}", f"a failure is not a decision: {_BY_HAND}"
    if harmful.refuses:
        return Level.OK, f"it {harmful.refuses} {shown}{_because(harmful)}, and no harmless call", ""
    if harmful.approves:
        return Level.WARNING, f"it approves every call: {shown}", f"if it should refuse some calls, it {_MISREADS}"
    message = f"it refuses no call, not even a harmful one ({', '.join(name for name, _ in tools)})"
    return Level.NOTE, message, f"if it should refuse some calls, it is about others, or {_MISREADS}"


async def _effect(spec: GroupSpec, index: int, ask: Ask, tool: str, arguments: Any) -> Effect:
    """What a handler does to a call."""
    call = ToolCall(tool=tool, arguments=arguments, tool_call_id="doctor", meta=_SESSION)
    result = await ask(index, call)
    if result is None:
        return Effect()
    handler_input, ran = result
    vendor, event = spec.filter.contract, spec.filter.event
    answer = vendor.decode(event, spec.filter.handlers[index].rule, ran, "strict")
    try:
        joined = vendor.merge(event, [answer], handler_input, call, "strict")
    except HookError as error:
        return Effect("denies", str(error), failed=True)
    decision, failures = joined.decision, joined.failures
    refuses = "asks about" if joined.asks else ""
    if not isinstance(decision, Approve | Continue | Modify):
        refuses = "pauses" if isinstance(decision, Pause) else "denies"
    approves = isinstance(decision, Approve) and not joined.silent
    why = str(failures[0]) if failures else getattr(decision, "reason", "") or ""
    return Effect(refuses, why, bool(failures), approves)


def tools_of(group: Selection, index: int) -> Iterator[tuple[str, Sample]]:
    """Yields the tools with samples that a handler is asked about."""
    for tool, sample in {**SAMPLES, _OF_A_SERVER: OTHER}.items():
        if any(index in group.chosen(ToolCall(tool=tool, arguments=given, meta=_SESSION))[1] for given in sample):
            yield tool, sample


def _shown(tool: str, arguments: Any) -> str:
    text = f"{tool} {json.dumps(arguments)}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _because(found: Effect) -> str:
    return f" ({found.why})" if found.why else ""
