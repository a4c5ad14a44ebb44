"""Recognises `continue`, the most frequent reply, by its bytes, without decoding it."""

from __future__ import annotations

from typing import Any

from ..wire import words

MAX_LINE = 256
"""The longest line that is learnt, in bytes."""
MAX_DIGITS = 18
"""The most digits of a request id."""


class KnownReply:
    """One spelling of `continue`: the bytes before the id and the bytes after it. Only the id differs between replies.

    Incoming data is split at the bytes between two ids. All other data has to be decoded.
    """

    __slots__ = ("_after", "_before", "_between")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after + b"\n"
        self._between = self._after + before

    @classmethod
    def learn(cls, line: bytes, digits: bytes, result: Any, limit: int) -> KnownReply | None:
        """The spelling of a line with this id and result; None if it cannot be learnt. `limit`: the longest line allowed."""
        if len(line) <= min(limit, MAX_LINE) - MAX_DIGITS and result == words.CONTINUE_RESULT:
            parts = line.split(digits)
            if len(parts) == 2:  # noqa: PLR2004 - the digits occur once, so they are the id
                return cls(*parts)
        return None

    def cut(self, data: bytes, *, new_line: bool) -> tuple[bytes, list[bytes], bytes]:
        """Split data into the bytes before the known replies, the ids of the replies, and the bytes after them.

        An id may turn out to be other bytes than the digits of a request: then `whole` returns the lines it was cut from.
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
