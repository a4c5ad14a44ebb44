"""The answer that hooks give nearly always, `continue`, known again by its bytes."""

from __future__ import annotations

from typing import Any

from ..wire import words

LONGEST = 256
"""Bytes of a line that is kept in mind."""
DIGITS = 18
"""No id of ours is longer."""


class Refrain:
    """One way to write `continue`. From one answer to the next nothing changes but the id.

    So what comes in is cut at what stands between two ids. Whatever else it says, and whatever is written otherwise, has to
    be decoded.
    """

    __slots__ = ("_before", "_behind", "_between")

    def __init__(self, before: bytes, behind: bytes) -> None:
        self._before = before
        self._behind = behind + b"\n"
        self._between = self._behind + before

    @classmethod
    def of(cls, line: bytes, digits: bytes, result: Any, limit: int) -> Refrain | None:
        """What can be kept of a line, the id in it, and what it was decoded to. `limit`: bytes that a line may have."""
        if len(line) <= min(limit, LONGEST) - DIGITS and result == words.GO_ON:
            parts = line.split(digits)
            if len(parts) == 2:  # noqa: PLR2004 - they are there once: they are the id
                return cls(*parts)
        return None

    def cut(self, data: bytes, *, new_line: bool) -> tuple[bytes, list[bytes], bytes]:
        """What was said first, what stands where an id would, and what was said last.

        Of the parts in between, what is the digits of an id is that one's answer; of anything else `whole` is what was said.
        `new_line`: whether the data begins with a line's beginning.
        """
        begin = 0 if new_line and data.startswith(self._before) else data.find(b"\n" + self._before) + 1 or len(data)
        end = len(data) if data.endswith(self._behind) else data.rfind(self._behind) + len(self._behind)
        if end - begin <= len(self._between):
            return data, [], b""
        inner = data[begin + len(self._before) : end - len(self._behind)]
        return data[:begin], inner.split(self._between), data[end:]

    def whole(self, part: bytes) -> bytes:
        """The lines that a part was cut out of."""
        return self._before + part + self._behind
