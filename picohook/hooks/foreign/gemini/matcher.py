"""Gemini CLI's matchers: decides which handlers of an event run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..patterns import javascript
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import Facts, HandlerInput, Rule


def select(event: str, rules: Sequence[Rule], handler_input: HandlerInput, _facts: Facts) -> list[int]:
    """The places of the handlers whose matcher matches. Of those that are the same, only the first runs."""
    matched = EVENTS[event].matched
    subject = str(handler_input.stdin.get(matched, "")) if matched else ""
    indexes: dict[str, int] = {}
    for index, rule in enumerate(rules):
        if not subject or matches(event, rule.matcher, subject):
            indexes.setdefault(rule.identity or str(index), index)
    return list(indexes.values())


def matches(event: str, matcher: str, subject: str) -> bool:
    """Whether a matcher matches: an expression for tools, and the word itself for all else. Raises `ValueError`."""
    matcher = matcher.strip()
    if matcher in {"", "*"}:
        return True
    if EVENTS[event].matched == "tool_name":
        return javascript(matcher).search(subject) is not None
    return matcher == subject
