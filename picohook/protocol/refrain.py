"""The answer that hooks give nearly always, `continue`, known again by its bytes."""

from __future__ import annotations

from typing import Any

from .. import wire

LONGEST = 256
"""Bytes of a line that is kept in mind."""
DIGITS = 18
"""No id of ours is longer."""


class Refrain:
    """How one program writes `continue`. From one answer to the next nothing changes but the id.

    So what comes in is cut at what stands between two ids. Whatever else it says, and whatever is written otherwise, has to
    be decoded.
    """

    __slots__ = ("_before", "_behind", "_between", "_least", "_limit")

    def __init__(self, limit: int) -> None:
        self._before = self._behind = self._between = b""
        self._limit = min(limit, LONGEST) - DIGITS
        self._least = 0

    def learn(self, line: bytes, digits: bytes, result: Any) -> None:
        """A line, the id in it, and what it was decoded to."""
        if len(line) <= self._limit and result == wire.GO_ON:
            parts = line.split(digits)
            if len(parts) == 2:  # noqa: PLR2004 - they are there once: they are the id
                self._before, self._behind = parts[0], parts[1] + b"\n"
                self._between = self._behind + self._before
                self._least = len(self._between)

    def cut(self, data: bytes) -> list[bytes]:
        """What stands where an id would, in these lines; nothing if they neither begin nor end as they would.

        What of it is the digits of an id is that one's answer. Of anything else `whole` is what was said.
        """
        if len(data) > self._least > 0 and data.startswith(self._before) and data.endswith(self._behind):
            return data[len(self._before) : -len(self._behind)].split(self._between)
        return []

    def whole(self, part: bytes) -> bytes:
        """The lines that a part was cut out of."""
        return self._before + part + self._behind
