"""Warnings: settings that are valid and have no effect."""

import re
from collections.abc import Iterable, Iterator

from ..errors import Problem
from ..model.expressions import ADVICE
from ..model.spec import SYSTEM_SHARE, HookSpec, Timeouts
from ..model.stages import STAGES
from ..wire.text import escape
from .document import Config

_EVENTS_WITH = {
    "tool": frozenset({"tool_exec_start", "tool_exec_end", "tool_exec_skipped"}),
    "model": frozenset({"llm_request"}),
    "channel": frozenset[str](),
}
"""The events that each part of a filter can match."""
_OF_EXPRESSIONS = re.compile(r"[\^$()+\\{}]|\.\*")
"""Characters that regular expressions have, and names of tools do not have."""

_INTERCEPTED = ("every stage but approve_tool", frozenset(name for name, stage in STAGES.items() if not stage.approves))
_STAGES_OF = {
    "timeout": _INTERCEPTED,
    "retry": _INTERCEPTED,
    "on_failure": _INTERCEPTED,
    "fallback": _INTERCEPTED,
    "approval_timeout": ("approve_tool", frozenset({"approve_tool"})),
    "provides": ("before_tool", frozenset({"before_tool"})),
    "respond": ("before_llm and before_tool", frozenset({"before_llm", "before_tool"})),
    "may_edit": ("before_llm", frozenset({"before_llm"})),
    "stream": ("after_llm", frozenset({"after_llm"})),
    "canary": ("before_tool and approve_tool", frozenset({"before_tool", "approve_tool"})),
}
"""The stages at which a setting has an effect, in words and by name."""


def warnings(configs: Iterable[Config], budget: float) -> list[Problem]:
    """The warnings of all files, each with its file and, for a hook's setting, its key path.

    `budget` is the seconds that all hooks of one stage may take together.
    """
    found = []
    for config in configs:
        file, hint = escape(str(config.path)), "raise defaults.chain_budget" if config.dialect == "native" else ""
        found += [Problem(file, "", escape(warning)) for warning in config.warnings]
        for spec in config.hooks:
            found += [
                Problem(file, f"{config.key_paths[spec.name]}.{key}", message, hint)
                for key, message in _cut_short(spec, config.timeouts, budget)
            ]
    return found


def _cut_short(spec: HookSpec, own: Timeouts, budget: float) -> Iterator[tuple[str, str]]:
    """The hook's timeouts that are longer than the budget of the whole chain, or than the share of the system's hooks in it."""
    is_system = spec.layer == "system"
    if spec.waits_for_person and not is_system:
        return
    most, whose = (budget * SYSTEM_SHARE, "all hooks of the system") if is_system else (budget, "the whole chain")
    for stage in sorted(stage for stage in spec.asked_at if not STAGES[stage].approves):
        seconds = spec.timeout_at(stage, own, approves=False)
        if seconds > most:
            key = f"timeouts.{stage}" if stage in spec.timeouts else "timeout"
            yield key, f"{seconds:g} s at {stage} is more than the {most:g} s of {whose}, which run out first"


def unused_settings(spec: HookSpec, keys: Iterable[str]) -> Iterator[str]:
    """A warning for each setting without effect of a native hook. `keys` are the keys that the hook's own table sets."""
    keys = frozenset(keys)
    stages_asked = frozenset(spec.asked_at)
    waits_for_events = bool(spec.observe and spec.is_run_anew)
    for key, (where, stages) in _STAGES_OF.items():
        if key in keys and not stages & stages_asked and not (key == "timeout" and waits_for_events):
            yield f"{key}: it is for {where}, and the hook is not asked there"
    for stage in spec.timeouts:
        if stage not in stages_asked:
            yield f"timeouts.{stage}: the hook is not asked there"
    if "events" in keys and not spec.observe:
        yield "events: the hook observes no events"
    for key in () if spec.command else ("events", "restart"):
        if key in keys:
            yield f"{key}: it is for a process that is kept running, and this hook has none"
    for key in () if spec.command or spec.run else ("stdio", "session"):
        if key in keys:
            yield f"{key}: it is for a hook that is a program"
    if spec.stream and spec.is_run_anew:
        yield "stream: it is for a process that is kept running or a function, and this hook is run anew for each question"
    yield from _unused_filters(spec)


def _unused_filters(spec: HookSpec) -> Iterator[str]:
    wanted = spec.filter
    if wanted is None:
        return
    if wanted.unreadable:
        yield f"filter.tool: {wanted.tool} matches every tool, because it cannot be read: {wanted.unreadable} ({ADVICE})"
    elif wanted.is_glob and _OF_EXPRESSIONS.search(wanted.tool or ""):
        yield f"filter.tool: {wanted.tool} is read as a glob: write a regular expression between slashes, /{wanted.tool}/"
    for stage in spec.asked_at:
        fields = STAGES[stage].payload.model_fields
        result = getattr(fields["result"].annotation, "model_fields", {}) if "result" in fields else {}
        for part in wanted.never_has(fields, result):
            yield f"filter.{part}: {stage} has no such field, so the hook is never asked there"
    if spec.observe:
        for part, kinds in _EVENTS_WITH.items():
            if getattr(wanted, part) is not None and not kinds & spec.kinds:
                yield f"filter.{part}: the events it observes have no such field, so the hook is never told"
