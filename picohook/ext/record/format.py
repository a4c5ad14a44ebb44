"""The format of a record: one JSON object a line, in the order in which things happened. The first line is the header.

A chain has a `begin`, an `ask` for each time that a hook is asked, an `answer` for each hook that was waited for, and an `end`
or `abandoned`. `params` are written if they differ from the last ones of their chain. In an `ask` they are the params that the
hook saw, and in an `answer` those after its edits.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

from ...model.decisions import Decision
from ...model.payloads import PlainModel
from ...model.trail import Notes

if TYPE_CHECKING:
    from ...model.decisions import Outcome

VERSION = 1
"""The version of the format. A reader refuses every other one."""

SETTINGS = ("stages", "events", "timeout", "approval_timeout", "hello_timeout", "timeouts", "respond", "may_edit")
"""The recorded settings of a hook: those that another program needs to answer in its place. They have no environment."""


Line = dict[str, Any]
"""A line."""
_ANSWER = "chain hook action seconds failed? error? reason? feedback? notes? result? retries? params? answer?"
KEYS = {
    "hook": "hook runs settings whole_modes?",
    "begin": "chain stage params said? without?",
    "ask": "chain hook params? stands_in?",
    "answer": _ANSWER,
    "would": _ANSWER,
    "end": "chain action approved? reason? feedback? result? hook? skipped?",
    "abandoned": "chain why",
    "event": "event payload meta? hooks?",
    "wire": "hook sent line",
    "close": "",
}
"""The keys of each type of line after the header, besides `type` and `at`, the seconds since the host started. One with a
question mark may be left out.

- `hook`: a hook, before it is first asked or told, and again when it has changed. With `whole_modes`, as in PicoClaw, it is
  asked at all stages of a mode, and need not know all of them.
- `begin`: after a pause, `said` is the hook that paused, with the decision in place of its answer. The hooks in `without` are
  not asked again.
- `ask`: if it `stands_in`, a decision replaces its answer after a pause, and the hook itself is not asked.
- `answer`: `failed` is the kind of its failure, and `action` then the one of its `on_failure`. `answer` is its answer if that
  was no decision. `would` is the same of a hook in shadow, maybe after the end of its chain.
- `end`: the hooks in `skipped` were not asked because of their filters.
- `abandoned`: the caller of the chain was cancelled.
- `event`: with the hooks that were told of it.
- `wire`: a raw line, which the hook received if it was `sent`, and else wrote. A long one is cut.
- `close`: the host has ended.
"""
_TYPES: dict[str, tuple[type, ...]] = {
    "at seconds": (int, float),
    "chain retries": (int,),
    "settings params said notes result payload meta": (dict,),
    "without skipped hooks": (list,),
    "whole_modes stands_in approved sent": (bool,),
}
"""The types of keys that are no texts; an `answer` may be anything."""
_TYPE_OF = {name: types for names, types in _TYPES.items() for name in names.split()}
_TEXT = (str,)
_NEEDED = {kind: {"type", "at", *(name for name in keys.split() if "?" not in name)} for kind, keys in KEYS.items()}
_ALLOWED = {kind: {"type", "at", *keys.replace("?", "").split()} for kind, keys in KEYS.items()}


def mistake_in(line: Any) -> str:
    """Returns what is wrong with a line after the header; empty if nothing is."""
    kind = line.get("type") if isinstance(line, dict) else None
    if not isinstance(kind, str) or kind not in KEYS:
        return "type: is not a line of a record"
    return _mistake_in(kind, tuple(line), tuple(map(type, line.values())))


@lru_cache  # most lines have the same keys
def _mistake_in(kind: str, names: tuple[str, ...], types: tuple[type, ...]) -> str:
    if missing := _NEEDED[kind].difference(names):
        return f"{kind}.{min(missing)}: is missing"
    for name, found in zip(names, types, strict=True):
        if name not in _ALLOWED[kind]:
            return f"{kind}.{name}: is not a key of such a line"
        if found not in _TYPE_OF.get(name, _TEXT) and name != "answer":
            return f"{kind}.{name}: has a value of another type"
    return ""


def end_of(outcome: Outcome[Any]) -> Line:
    """Returns the end of a chain with this outcome, without its time, its chain and what hooks have edited."""
    return {
        "action": outcome.action,
        "approved": outcome.approved,
        "reason": outcome.reason,
        "feedback": outcome.feedback,
        "result": None if outcome.result is None else outcome.result.wire(),
        "hook": outcome.hook,
        "skipped": [entry.hook for entry in outcome.trail if entry.skipped],
    }


_DECISIONS = {kind.__name__: kind for kind in get_args(Decision)}


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """A decision as JSON."""
    values: dict[str, Any] = {"kind": type(decision).__name__}
    for field in fields(decision):
        value = getattr(decision, field.name)
        if isinstance(value, Notes):
            values[field.name] = value.wire()
        elif value:
            plain = value.wire() if isinstance(value, PlainModel) else value
            values[field.name] = plain if isinstance(plain, str) else dict(plain)
    return values


def decision_from_json(values: dict[str, Any]) -> Decision:
    """The decision with this JSON form. Raises `LookupError`, `TypeError` or `ValueError` for any other JSON."""
    fields = {name: value for name, value in values.items() if name != "hook"}
    kind = _DECISIONS[fields.pop("kind")]
    if "notes" in fields:
        notes = fields["notes"]
        fields["notes"] = Notes(**{**notes, "inject_messages": tuple(notes.get("inject_messages", ()))})
    decision: Decision = kind(**fields)
    return decision
