"""Claude Code's contract with its hooks."""

from __future__ import annotations

import re
from functools import partial

from ..contract import Dialect
from ..patterns import matches
from .decode import failed, read
from .encode import tell
from .events import ANSWERS, COMMON, EVENTS, UNSUPPORTED, VERSION
from .merge import join

NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")
"""A matcher of only these characters is a list of names."""
_ALSO = {"Agent": ("Task",)}
"""The earlier names of tools, which matchers may still have."""

CONTRACT = Dialect(
    "Claude Code",
    VERSION,
    EVENTS,
    COMMON,
    ANSWERS,
    UNSUPPORTED,
    tell=tell,
    matches=partial(matches, lists=NAMES),
    names=lambda _event, name, _input: (name, *_ALSO.get(name, ())),
    read=read,
    failed=failed,
    join=join,
    hides=("OTEL_",),
)
