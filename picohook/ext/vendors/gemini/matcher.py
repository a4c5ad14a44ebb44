"""Gemini CLI's matchers, which decide the handlers that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..patterns import javascript
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import Facts, HandlerInput, Rule


def select(event: str, rules: Sequence[Rule], handler_input: HandlerInput, _facts: Facts) -> list[int]:
    """Returns the indexes of the handlers whose matcher matches. Of handlers with the same identity, only the first runs."""
    matched = EVENTS[event].matched
    subject = str(handler_input.stdin.get(matched, "")) if matched else ""
    indexes: dict[str, int] = {}
    for index, rule in enumerate(rules):
        if not subject or matches(event, rule.matcher, subject):
            indexes.setdefault(rule.identity or str(index), index)
    return list(indexes.values())


def matches(event: str, matcher: str, subject: str) -> bool:
    """Whether a matcher matches: for tools an expression, otherwise the same word."""
    matcher = matcher.strip()
    if matcher in {"", "*"}:
        return True
    if EVENTS[event].matched == "tool_name":
        return javascript(matcher).matches(subject)
    return matcher == subject
