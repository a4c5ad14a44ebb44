"""The limits of a configuration, in any syntax."""

from __future__ import annotations

MOST_DEPTH = 32
"""The most tables and lists inside each other, and parts of a dotted key. A parser may need the square of this in memory."""
MOST_VALUES = 20_000
"""The most values of a document. Checks compare some of them with each other."""

TOO_DEEP = "is nested too deeply"
TOO_MANY = "has too many values"
