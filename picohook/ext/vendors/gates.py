"""Tests gates in the hook files of other agents, which have no canary: asks each about a harmless and a harmful call.

A gate that always gives the same answer probably reads a field that its vendor does not send.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias

from ...cli.doctor.findings import Finding, Level, about
from ...cli.doctor.gates import DECIDES
from ...model.payloads import Meta, ToolCall
from .contract import HandlerInput, HandlerResult, Rule
from .effect import Effect, effect
from .samples import OTHER, SAMPLES, Sample
from .spec import GroupSpec, Selection
from .tools import known_name

Ask: TypeAlias = Callable[[int, ToolCall], Awaitable[tuple[HandlerInput, HandlerResult] | None]]
"""Runs the handler with this index. Returns its input and its result; None if the call does not match it."""

_SESSION = Meta(session_key="picohook-doctor")
_SHOWN = 60
"""The most characters of a call in a message."""
_CHECK = "gate"
_OF_A_SERVER = "mcp__example__run"
_MOST = 5
"""The most tools that are tried until a gate refuses a harmful call."""


def is_gate(spec: GroupSpec) -> bool:
    """Whether its handlers decide about tool calls."""
    row = spec.filter.contract.events[spec.filter.event]
    return row.gate and row.stage in DECIDES


async def try_handlers(spec: GroupSpec, ask: Ask) -> AsyncIterator[Finding]:
    """Yields a finding for each handler. No tool is called."""
    for index, handler in enumerate(spec.filter.handlers):
        rule, whose = handler.rule, about(spec)
        if rule.in_background:
            continue
        if rule.kind == "unsupported":
            message, hint = f"{rule.at}: it cannot be run: {rule.why}", "replace it with a handler of type command"
            yield Finding(Level.WARNING, whose, _CHECK, message, hint)
        elif rule.kind == "prompt":
            message, hint = f"{rule.at}: its model was not asked", "ask about a call by hand: picohook call"
            yield Finding(Level.NOTE, whose, _CHECK, message, hint)
        else:
            yield await _Trial(spec, index, ask).finding()


class _Trial:
    """Asks one handler."""

    def __init__(self, spec: GroupSpec, index: int, ask: Ask) -> None:
        self._spec, self._index, self._ask_handler = spec, index, ask
        self._rule = spec.filter.handlers[index].rule

    async def finding(self) -> Finding:
        """Ask about sample calls. Returns a finding. No tool is called."""
        tools = list(tools_of(self._spec.filter, self._index))[:_MOST]
        if not tools:
            return self._finding(
                Level.NOTE,
                "it was not tried: its matcher matches none of the sample calls",
                "ask about a call that it has to refuse by hand: picohook call",
            )
        tool, sample = tools[0]
        harmless, harmful = await self._ask(tool, sample.harmless), await self._ask(tool, sample.harmful)
        if harmless.failed:
            way_out = f"correct what it runs: {self._spec.filter.handlers[self._index].spec.runs}"
            return self._finding(
                Level.ERROR, f"it fails about {_shown(tool, sample.harmless)}: {harmless.why}", way_out
            )
        if harmless.refuses:
            return self._finding(
                Level.WARNING,
                f"it refuses {'every call' if harmful.refuses else 'a harmless call and no harmful one'}:"
                f" {_shown(tool, sample.harmless)}{_because(harmless)}",
                f"if it should let some calls pass, it {_MISREADS}",
            )
        for other, its in tools[1:]:
            if harmful.refuses or harmful.word == "approves":
                break
            tool, sample, harmful = other, its, await self._ask(other, its.harmful)
        return self._about_harmful(_shown(tool, sample.harmful), harmful, tools)

    def _about_harmful(self, shown: str, harmful: Effect, tools: list[tuple[str, Sample]]) -> Finding:
        """The finding about a gate that lets the harmless call pass."""
        if harmful.failed:
            return self._finding(
                Level.WARNING, f"it fails about {shown}: {harmful.why}", f"a failure is not a decision: {_BY_HAND}"
            )
        if harmful.refuses:
            return self._finding(Level.OK, f"it {_PAST[harmful.word]} {shown}{_because(harmful)}, and no harmless call")
        if harmful.word == "approves":
            return self._finding(
                Level.WARNING,
                f"it approves every call: {shown}",
                f"if it should refuse some calls, it {_MISREADS}",
            )
        names = ", ".join(name for name, _ in tools)
        return self._finding(
            Level.NOTE,
            f"it refuses no call: neither {_shown(*_first(tools))}, nor another harmful one ({names})",
            f"if it should refuse some calls, it is about others, or {_MISREADS}",
        )

    async def _ask(self, tool: str, arguments: object) -> Effect:
        call = ToolCall(tool=tool, arguments=arguments, tool_call_id="doctor", meta=_SESSION)  # type: ignore[arg-type]
        result = await self._ask_handler(self._index, call)
        if result is None:
            return Effect("passes")
        handler_input, ran = result
        group = self._spec.filter
        return effect(group.contract, group.event, [(self._rule, ran)], handler_input, call, failures="strict")

    def _finding(self, level: Level, message: str, hint: str = "") -> Finding:
        return Finding(level, about(self._spec), _CHECK, f"{self._rule.at}: {message}", hint)


_BY_HAND = "give it this call on standard input, and read its answer"
_MISREADS = f"probably reads a field that is not sent: {_BY_HAND}"
_PAST = {"denies": "denies", "asks": "asks about", "pauses": "pauses"}


def tools_of(group: Selection, index: int) -> Iterator[tuple[str, Sample]]:
    """Yields the tools that a handler is asked about: those with samples, and those that its matcher names."""
    rule = group.handlers[index].rule
    for tool, sample in {**dict.fromkeys(_named(rule), OTHER), **SAMPLES, _OF_A_SERVER: OTHER}.items():
        if any(_wants(group, index, tool, arguments) for arguments in sample):
            yield tool, sample


def _named(rule: Rule) -> Iterator[str]:
    """Yields names of tools in a matcher that are not in the table."""
    for word in re.findall(r"\w[\w-]*", rule.matcher):
        if known_name(word, {}) not in SAMPLES:
            yield from (word, f"{word}x")  # such as mcp__server__.*


def _wants(group: Selection, index: int, tool: str, arguments: object) -> bool:
    call = ToolCall(tool=tool, arguments=arguments, meta=_SESSION)  # type: ignore[arg-type]
    return index in group.chosen(call, group.facts())[1]


def _first(tools: list[tuple[str, Sample]]) -> tuple[str, object]:
    return tools[0][0], tools[0][1].harmful


def _shown(tool: str, arguments: object) -> str:
    text = f"{tool} {json.dumps(arguments)}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _because(found: Effect) -> str:
    return f" ({found.why})" if found.why else ""
