"""What a configuration says in vain: no mistake, and nothing that anybody wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Problem
from ..model.stages import STAGES
from ..wire.text import escape
from .problems import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..model.spec import HookSpec, Timeouts
    from .layers import Layers
    from .load import Config

_HINTS = {"native": "raise defaults.chain_budget", "picoclaw": "", "jcli": ""}

_TELLS = {
    "tool": frozenset({"tool_exec_start", "tool_exec_end", "tool_exec_skipped"}),
    "model": frozenset({"llm_request"}),
    "channel": frozenset[str](),
}
"""The events that a part of a filter can match; all others have none of it."""

_OF_INTERCEPTORS = frozenset(name for name, stage in STAGES.items() if not stage.approves)
_NEEDS = {
    "timeout": ("every stage but approve_tool", _OF_INTERCEPTORS),
    "retry": ("every stage but approve_tool", _OF_INTERCEPTORS),
    "on_failure": ("every stage but approve_tool", _OF_INTERCEPTORS),
    "approval_timeout": ("approve_tool", frozenset({"approve_tool"})),
    "provides": ("before_tool", frozenset({"before_tool"})),
    "respond": ("before_llm and before_tool", frozenset({"before_llm", "before_tool"})),
    "may_edit": ("before_llm", frozenset({"before_llm"})),
    "canary": ("before_tool and approve_tool", frozenset({"before_tool", "approve_tool"})),
}
"""The stages at which a setting matters, in words and by name."""
_OF_PROCESSES = ("events", "restart")
_ONE_SHOT = ("run", "prompt")


def doubts(read: Config | Layers) -> list[Problem]:
    """All that is to be warned of, each with its file and, of a hook, its key path."""
    found = []
    for config in read.configs:
        file = escape(str(config.path))
        found += [Problem(file, "", escape(warning)) for warning in config.warnings]
        for spec in config.hooks:
            found += [
                Problem(file, f"{place(config, spec)}.{key}", message, _HINTS[config.dialect])
                for key, message in _cut_short(spec, config.timeouts, read.timeouts.chain)
            ]
    return found


def place(config: Config, spec: HookSpec) -> str:
    """The key path of a hook in its file."""
    if config.dialect == "jcli":
        event, _, number = spec.name.rpartition("-")
        return dotted((event, int(number) - 1))
    return escape(dotted(("hooks", *(("processes",) if config.dialect == "picoclaw" else ()), spec.name)))


def _cut_short(spec: HookSpec, own: Timeouts, budget: float) -> Iterator[tuple[str, str]]:
    """A hook's own time is never more than that of the whole chain."""
    for stage in sorted(_OF_INTERCEPTORS.intersection(spec.asked_at)):
        seconds = spec.timeout_at(stage, own, approves=False)
        if seconds > budget:
            key = f"timeouts.{stage}" if stage in spec.timeouts else "timeout"
            message = f"{seconds:g} s at {stage} is more than the {budget:g} s of the whole chain, which end it before"
            yield key, message


def of_hook(spec: HookSpec, given: Iterable[str]) -> Iterator[str]:
    """What of a native hook's settings can never matter; `given` are those that its own table sets."""
    given = frozenset(given)
    asked = frozenset(spec.asked_at)
    for key, (where, stages) in _NEEDS.items():
        if key in given and not stages & asked and not (key == "timeout" and _is_timed_at_events(spec)):
            yield f"{key}: it is for {where}, and the hook is not asked there"
    for stage in spec.timeouts:
        if stage not in asked:
            yield f"timeouts.{stage}: the hook is not asked there"
    if "events" in given and not spec.observe:
        yield "events: the hook observes none"
    for key in () if spec.command else _OF_PROCESSES:
        if key in given:
            yield f"{key}: it is for a process that is kept running, and this hook has none"
    if "stdio" in given and not (spec.command or spec.run):
        yield "stdio: it is for a hook that is a program"
    yield from _filtered(spec)


def _is_timed_at_events(spec: HookSpec) -> bool:
    return bool(spec.observe) and any(getattr(spec, kind) for kind in _ONE_SHOT)


def _filtered(spec: HookSpec) -> Iterator[str]:
    wanted = spec.filter
    if wanted is None:
        return
    for stage in spec.asked_at:
        fields = STAGES[stage].payload.model_fields
        for part in wanted.never_has(fields, _fields_of_result(stage)):
            yield f"filter.{part}: {stage} has none, so it is never asked there"
    if spec.observe:
        for part, kinds in _TELLS.items():
            if getattr(wanted, part) is not None and not kinds & spec.kinds:
                yield f"filter.{part}: the events it observes have none, so it is never told"


def _fields_of_result(stage: str) -> dict[str, object]:
    field = STAGES[stage].payload.model_fields.get("result")
    return dict(getattr(field.annotation, "model_fields", {})) if field is not None else {}
