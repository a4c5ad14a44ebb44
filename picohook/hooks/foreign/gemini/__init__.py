"""Gemini CLI's contract with its hooks."""

from __future__ import annotations

from ..contract import Dialect
from .chain import chain
from .decode import decode
from .encode import encode, select
from .events import ANSWERS, COMMON, EVENTS, VERSION, WITHOUT
from .merge import merge

GEMINI = Dialect("Gemini CLI", VERSION, EVENTS, COMMON, ANSWERS, WITHOUT, encode, select, decode, merge, chain=chain)
