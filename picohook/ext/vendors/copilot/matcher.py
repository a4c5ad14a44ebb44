"""Copilot's matchers, which decide the handlers that run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..output import BLANK, BOM
from ..patterns import javascript
from .events import CLAUDE_NAMES, EVENTS, is_pascal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import Facts, HandlerInput, Rule

_NAMES = re.compile(r"[\w-]+(\|[\w-]+)*", re.ASCII)
"""A matcher of Claude Code's form that is a list of names."""
_EVERYTHING = frozenset({"", "*", "**"})
_ALSO = {"task": ("Task",)}


def select(event: str, rules: Sequence[Rule], handler_input: HandlerInput, _facts: Facts) -> list[int]:
    """Returns the indexes of the handlers whose matcher matches."""
    matched = EVENTS[event].matched
    if not matched:
        return list(range(len(rules)))
    if is_pascal(event) and handler_input.call is not None:
        tool = handler_input.call.tool
        names = (CLAUDE_NAMES.get(tool, tool), tool, *_ALSO.get(tool, ()))
        return [index for index, rule in enumerate(rules) if matches_as_claude(rule.matcher, names)]
    subject = str(handler_input.stdin.get(matched, ""))
    return [index for index, rule in enumerate(rules) if matches(rule.matcher, subject)]


def matches(matcher: str, subject: str) -> bool:
    """Whether the whole of a text matches."""
    return not matcher or javascript(matcher, whole=True).matches(subject)


def matches_as_claude(matcher: str, names: Sequence[str]) -> bool:
    """Whether a list has one of a tool's names, or an expression matches its first name."""
    matcher = matcher.strip(BLANK + BOM)
    if matcher in _EVERYTHING:
        return True
    if _NAMES.fullmatch(matcher):
        return not set(matcher.split("|")).isdisjoint(names)
    return matches(matcher, names[0])
