"""The answer that hooks give nearly always, `continue`, known again by its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import wire

if TYPE_CHECKING:
    from .messages import Answer

DIGITS = 18
"""No id of ours is longer."""


class Refrain:
    """How one program writes `continue`. From one answer to the next nothing changes but the id.

    Whatever else it says, and whatever is written otherwise, has to be decoded.
    """

    __slots__ = ("_before", "_behind")

    def __init__(self) -> None:
        self._before, self._behind = b"", b"\n"  # as no line is

    def learn(self, line: bytes, answer: Answer) -> None:
        """A line, and what it was decoded to."""
        if answer.result == wire.GO_ON:
            parts = line.split(b"%d" % answer.token)
            if len(parts) == 2:  # noqa: PLR2004 - the digits are there once: they are the id
                self._before, self._behind = parts

    def request(self, line: bytes) -> int:
        """The id of the request that this line answers with `continue`; 0 if that is not known."""
        if not (line.endswith(self._behind) and line.startswith(self._before)):
            return 0
        digits = line[len(self._before) : len(line) - len(self._behind)]
        if digits.isdigit() and len(digits) <= DIGITS and digits[0] != ord("0"):
            return int(digits)
        return 0
