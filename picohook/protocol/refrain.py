"""The answer that hooks give nearly always, `continue`, known again by its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import wire

if TYPE_CHECKING:
    from .messages import Answer

LONGEST = 256
"""Bytes of a line that is kept in mind."""
DIGITS = 18
"""No id of ours is longer."""
ZERO = ord("0")
"""None begins with it."""


class Refrain:
    """How one program writes `continue`. From one answer to the next nothing changes but the id.

    Whatever else it says, and whatever is written otherwise, has to be decoded.
    """

    __slots__ = ("_before", "_begin", "_behind", "_end")

    def __init__(self) -> None:
        self._before = self._behind = b""
        self._begin = self._end = 0

    def learn(self, line: bytes, answer: Answer) -> None:
        """A line, and what it was decoded to."""
        if len(line) <= LONGEST and answer.result == wire.GO_ON:
            parts = line.split(b"%d" % answer.token)
            if len(parts) == 2:  # noqa: PLR2004 - the digits are there once: they are the id
                self._before, self._behind = parts
                self._begin, self._end = len(self._before), -len(self._behind)

    def request(self, line: bytes) -> int:
        """The id of the request that this line answers with `continue`; 0 if that is not known."""
        digits = line[self._begin : self._end]
        if (
            digits.isdigit()
            and len(digits) <= DIGITS
            and digits[0] != ZERO
            and line.startswith(self._before)
            and line.endswith(self._behind)
        ):
            return int(digits)
        return 0
