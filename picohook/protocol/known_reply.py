"""Recognises the reply that hooks send nearly always, `continue`, by its bytes, without decoding it."""

from __future__ import annotations

from typing import Any

from ..wire import words

MAX_LINE = 256
"""Longer lines are not learnt, in bytes."""
MAX_DIGITS = 18
"""No request id has more digits."""


class KnownReply:
    """One spelling of `continue`: the bytes before the id and the bytes after it. From reply to reply only the id differs.

    Incoming data is split at the bytes that stand between two ids. Anything else in it has to be decoded.
    """

    __slots__ = ("_after", "_before", "_between")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after + b"\n"
        self._between = self._after + before

    @classmethod
    def learn(cls, line: bytes, digits: bytes, result: Any, limit: int) -> KnownReply | None:
        """Learn from a line with this id and result; `limit` is the length that a line may have. Returns None if it cannot."""
        if len(line) <= min(limit, MAX_LINE) - MAX_DIGITS and result == words.CONTINUE_RESULT:
            parts = line.split(digits)
            if len(parts) == 2:  # noqa: PLR2004 - the digits occur once, so they are the id
                return cls(*parts)
        return None

    def cut(self, data: bytes, *, new_line: bool) -> tuple[bytes, list[bytes], bytes]:
        """Split data into the bytes before the known replies, what stands where each one has its id, and the bytes after them.

        A part that is the digits of an id is the reply to that request. For any other part, `whole` returns its bytes.
        `new_line`: whether the data starts at the start of a line.
        """
        begin = 0 if new_line and data.startswith(self._before) else data.find(b"\n" + self._before) + 1 or len(data)
        end = len(data) if data.endswith(self._after) else data.rfind(self._after) + len(self._after)
        if end - begin <= len(self._between):
            return data, [], b""
        inner = data[begin + len(self._before) : end - len(self._after)]
        return data[:begin], inner.split(self._between), data[end:]

    def whole(self, part: bytes) -> bytes:
        """The lines that a part was cut from."""
        return self._before + part + self._after
