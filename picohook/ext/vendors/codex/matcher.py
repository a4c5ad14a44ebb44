"""Codex's matchers, which decide the handlers that run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..patterns import rust
from .encode import PATCH
from .events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..contract import Facts, HandlerInput, Rule

NAMES = re.compile(r"[A-Za-z0-9_|]*")
"""A matcher of only these characters is a list of names."""
_ALSO = {PATCH: ("Edit", "Write"), "spawn_agent": ("Agent",)}
"""The other names that a matcher may have for a tool."""


def select(event: str, rules: Sequence[Rule], handler_input: HandlerInput, _facts: Facts) -> list[int]:
    """Returns the indexes of the handlers whose matcher matches."""
    matched = EVENTS[event].matched
    subject = str(handler_input.stdin.get(matched, "")) if matched else None
    names = () if subject is None else (subject, *_ALSO.get(subject, ()))
    return [index for index, rule in enumerate(rules) if subject is None or matches(rule.matcher, names)]


def matches(matcher: str, names: Sequence[str]) -> bool:
    """Whether a matcher matches one of the names."""
    if matcher in {"", "*"}:
        return True
    if NAMES.fullmatch(matcher):
        return not set(matcher.split("|")).isdisjoint(names)
    expression = rust(matcher)
    return any(expression.matches(name) for name in names)
