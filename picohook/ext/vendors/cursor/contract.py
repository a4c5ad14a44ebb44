"""Cursor's contract with its hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..contract import Dialect
from ..patterns import matches
from .decode import failed, read
from .encode import SHOWN_MCP, cursor_call, tell
from .events import ANSWERS, COMMON, EVENTS, UNSUPPORTED, VERSION
from .merge import join

if TYPE_CHECKING:
    from ..contract import HandlerInput


def _names(event: str, name: str, _input: HandlerInput) -> tuple[str]:
    return (SHOWN_MCP + name if event in {"beforeMCPExecution", "afterMCPExecution"} else name,)


CONTRACT = Dialect(
    "Cursor",
    VERSION,
    EVENTS,
    COMMON,
    ANSWERS,
    UNSUPPORTED,
    shown=cursor_call,
    tell=tell,
    matches=matches,
    names=_names,
    read=read,
    failed=failed,
    join=join,
    parts_failures=False,
    most_blocks=None,
)
