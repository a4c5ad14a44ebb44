"""Cursor's contract with its hooks."""

from __future__ import annotations

from ..contract import Dialect
from .decode import decode
from .encode import encode, select
from .events import ANSWERS, COMMON, EVENTS, VERSION, WITHOUT
from .merge import merge

CURSOR = Dialect("Cursor", VERSION, EVENTS, COMMON, ANSWERS, WITHOUT, encode, select, decode, merge, most_blocks=None)
