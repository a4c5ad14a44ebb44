"""The format of a record: one JSON object a line, in the order in which things happened. The first line is the header.

A chain has a `begin`, an `ask` for each time that a hook is asked, an `answer` for each hook that was waited for, and an `end`
or `abandoned`. `params` are written if they differ from the last ones of their chain. In an `ask` they are the params that the
hook saw, and in an `answer` those after its edits.
"""

from functools import lru_cache
from typing import Any

from ...model.decisions import Outcome
from ...model.events import known_kind
from ...model.payloads import Meta
from ...model.trail import TrailEntry

VERSION = 1
"""The version of the format. A reader refuses every other one."""

Line = dict[str, Any]
"""A line."""
_NEEDED = {
    "hook": "hook runs",
    "begin": "chain stage params",
    "ask": "chain hook",
    "answer": "chain hook action seconds",
    "would": "chain hook action seconds",
    "end": "chain action",
    "abandoned": "chain why",
    "event": "event payload",
    "wire": "hook sent line",
    "close": "",
}
"""The types of lines after the header, and the keys that each has, besides `type` and `at`, the seconds since the host started.

- `begin`: after a pause, the hooks in `without` are not asked again.
- `answer`: `failed` is the kind of its failure, and `action` then the one of its `on_failure`. `answer` is its answer if that
  was no decision. `would` is the same of a hook in shadow, maybe after the end of its chain.
- `end`: `approved` by approvers, and the hooks in `skipped` were not asked because of their filters.
- `abandoned`: the caller of the chain was cancelled.
- `event`: with the `hooks` that were told of it.
- `wire`: a raw line, which the hook received if it was `sent`, and else wrote. A long one is cut.
- `close`: the host has ended.
"""
_TYPES = {
    "at seconds": (int, float),
    "chain retries": (int,),
    "params notes result payload meta": (dict,),
    "without skipped hooks": (list,),
    "approved sent": (bool,),
    "type hook stage action failed error reason feedback why event line": (str,),
    "answer": (dict, list, str, int, float, bool, type(None)),
    # Older records have these, too. They say nothing that is shown or compared.
    "runs": (str,),
    "settings said": (dict,),
    "whole_modes stands_in": (bool,),
}
"""The types of all keys."""
_TYPES_OF = {name: types for names, types in _TYPES.items() for name in names.split()}
_KEYS = {kind: frozenset({"type", "at", *keys.split()}) for kind, keys in _NEEDED.items()}


def check(line: Any) -> None:
    """Raise `ValueError` for what is no line after the header."""
    kind = line.get("type") if isinstance(line, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ValueError("type: is not a line of a record")
    if mistake := _mistake_in(kind, tuple(line), tuple(map(type, line.values()))):
        raise ValueError(f"{kind}.{mistake}")
    if kind == "event":
        known_kind(line["event"])
        Meta.model_validate(line.get("meta", {}))


@lru_cache  # most lines have the same keys
def _mistake_in(kind: str, names: tuple[str, ...], types: tuple[type, ...]) -> str:
    if missing := _KEYS[kind].difference(names):
        return f"{min(missing)}: is missing"
    wrong = (name for name, found in zip(names, types, strict=True) if found not in _TYPES_OF.get(name, ()))
    return next((f"{name}: is no key of a record, or has a value of another type" for name in wrong), "")


def end_of(outcome: Outcome[Any]) -> Line:
    """Returns the end of a chain with this outcome, without its time, its chain and what hooks have edited."""
    shown = {
        "action": outcome.action,
        "approved": outcome.approved,
        "reason": outcome.reason,
        "feedback": outcome.feedback,
        "result": outcome.result and outcome.result.wire(),
        "hook": outcome.hook,
        "skipped": [entry.hook for entry in outcome.trail if entry.skipped],
    }
    return without_empty(shown)


def answer_of(entry: TrailEntry, **more: Any) -> Line:
    """Returns the answer of a hook with this entry, without its time and its chain."""
    shown = {
        "hook": entry.hook,
        "action": entry.action,
        "seconds": round(entry.duration, 6),
        "failed": entry.failure,
        "error": entry.error,
        "reason": entry.reason,
        "notes": entry.notes and entry.notes.wire(),
        "retries": entry.retries,
    }
    return without_empty(shown | more)


def without_empty(line: Line) -> Line:
    """Returns a line without what is empty, and not false. A time of zero is not empty."""
    return {name: value for name, value in line.items() if value or value is False or isinstance(value, float)}
