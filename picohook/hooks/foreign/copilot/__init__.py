"""GitHub Copilot's contract with its hooks: that of its CLI, and of its cloud agent."""

from __future__ import annotations

from ..contract import Dialect
from .decode import decode
from .encode import encode, select
from .events import ANSWERS, COMMON, EVENTS, VERSION, WITHOUT
from .merge import chain, merge

COPILOT = Dialect("Copilot", VERSION, EVENTS, COMMON, ANSWERS, WITHOUT, encode, select, decode, merge, chain=chain)
