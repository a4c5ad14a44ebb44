"""Cursor's matchers, which decide the handlers that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..patterns import javascript
from .encode import SHOWN_MCP
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import Facts, HandlerInput, Rule


def select(event: str, rules: Sequence[Rule], handler_input: HandlerInput, _facts: Facts) -> list[int]:
    """Returns the indexes of the handlers whose matcher matches."""
    matched = EVENTS[event].matched
    subject = str(handler_input.stdin.get(matched, matched))
    if event in {"beforeMCPExecution", "afterMCPExecution"}:
        subject = SHOWN_MCP + subject
    return [index for index, rule in enumerate(rules) if not matched or matches(rule.matcher, subject)]


def matches(matcher: str, subject: str) -> bool:
    """Whether a matcher matches."""
    return matcher in {"", "*"} or javascript(matcher).matches(subject)
