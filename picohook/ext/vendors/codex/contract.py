"""Codex's contract with its hooks."""

from __future__ import annotations

import re
from functools import partial

from ..contract import Dialect
from ..patterns import matches, rust
from .decode import read
from .encode import PATCH, codex_call, tell
from .events import ANSWERS, COMMON, EVENTS, UNSUPPORTED, VERSION
from .merge import counted, join

_NAMES = re.compile(r"[A-Za-z0-9_|]*")
"""A matcher of only these characters is a list of names."""
_ALSO = {PATCH: ("Edit", "Write"), "spawn_agent": ("Agent",)}
"""The other names that a matcher may have for a tool."""

CONTRACT = Dialect(
    "Codex",
    VERSION,
    EVENTS,
    COMMON,
    ANSWERS,
    UNSUPPORTED,
    shown=codex_call,
    tell=tell,
    matches=partial(matches, expression=rust, lists=_NAMES),
    names=lambda _event, name, _input: (name, *_ALSO.get(name, ())),
    read=read,
    counted=counted,
    join=join,
)
