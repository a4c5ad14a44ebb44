"""Counts the steps of Python code: how much work it is, on a busy machine too."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def steps(function: Callable[[], object]) -> int:
    """How many bytecodes run until the function returns, its own and those of all that it calls."""
    count = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def growth(prepare: Callable[[int], Callable[[], object]], few: int = 200, many: int = 1600) -> float:
    """How many times as many steps each of many takes as each of few. `prepare` returns the function whose steps count."""
    return (steps(prepare(many)) / many) / (steps(prepare(few)) / few)
