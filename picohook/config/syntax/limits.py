"""The largest configuration that is read, whatever its syntax."""

from __future__ import annotations

MOST_DEPTH = 32
"""Tables and lists inside each other, and parts of a dotted key. A parser may take the square of it in memory."""
MOST_VALUES = 20_000
"""Values of a document. Checks compare some of them with each other."""

TOO_DEEP = "is nested too deeply"
TOO_MANY = "has too many values"
