"""Claude Code's matchers, which decide the handlers that run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..patterns import javascript
from ..permission_rule import fires
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import Facts, HandlerInput, Rule

NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")
"""A matcher of only these characters is a list of names."""
_ALSO = {"Agent": ("Task",)}
"""The earlier names of tools, which matchers may still have."""


def select(event: str, rules: Sequence[Rule], handler_input: HandlerInput, facts: Facts) -> list[int]:
    """Returns the indexes of the handlers whose matcher matches, and whose `if` matches or may match."""
    subject = handler_input.stdin.get(EVENTS[event].matched) if EVENTS[event].matched else None
    names = [str(subject), *_ALSO.get(str(subject), ())]
    return [
        index
        for index, rule in enumerate(rules)
        if (subject is None or any(matches(rule.matcher, name) for name in names))
        and (
            not rule.only_if
            or (
                handler_input.call is not None
                and fires(rule.only_if, handler_input.call.tool, handler_input.call.input, facts.cwd, facts.project)
            )
        )
    ]


def matches(matcher: str, subject: str) -> bool:
    """Whether a matcher matches."""
    if matcher in {"", "*"}:
        return True
    if NAMES.fullmatch(matcher):
        return subject in {name.strip() for name in re.split(r"[|,]", matcher)}
    return javascript(matcher).matches(subject)
