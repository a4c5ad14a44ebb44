"""GitHub Copilot's contract with its hooks: that of its CLI, and of its cloud agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..contract import Dialect
from ..output import BLANK, BOM
from ..patterns import javascript
from .decode import failed, read
from .encode import copilot_call, tell
from .events import ANSWERS, COMMON, EVENTS, UNSUPPORTED, VERSION, is_pascal
from .merge import counted, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import HandlerInput

_NAMES = re.compile(r"[\w-]+(\|[\w-]+)*", re.ASCII)
"""A matcher of Claude Code's form that is a list of names."""
_ALSO = {"task": ("Task",)}


def _names(event: str, name: str, handler_input: HandlerInput) -> tuple[str, ...]:
    call = handler_input.call
    return (name, call.tool, *_ALSO.get(call.tool, ())) if is_pascal(event) and call is not None else (name,)


def matches(event: str, matcher: str, names: Sequence[str]) -> bool:
    """Whether a list has one of the names, or an expression matches the whole of the first name."""
    if is_pascal(event):
        matcher = matcher.strip(BLANK + BOM)
    if matcher in {"", "*", "**"}:
        return True
    if _NAMES.fullmatch(matcher):
        return not set(matcher.split("|")).isdisjoint(names)
    return javascript(matcher, whole=True).matches(names[0])


CONTRACT = Dialect(
    "Copilot",
    VERSION,
    EVENTS,
    COMMON,
    ANSWERS,
    UNSUPPORTED,
    shown=copilot_call,
    tell=tell,
    matches=matches,
    names=_names,
    read=read,
    failed=failed,
    counted=counted,
    join=join,
)
