"""Gemini CLI's contract with its hooks."""

from __future__ import annotations

from ..contract import Dialect
from .chain import chain
from .decode import decode
from .encode import encode
from .events import ANSWERS, COMMON, EVENTS, UNSUPPORTED, VERSION
from .matcher import select
from .merge import merge

CONTRACT = Dialect(
    "Gemini CLI", VERSION, EVENTS, COMMON, ANSWERS, UNSUPPORTED, encode, select, decode, merge, chain=chain
)
