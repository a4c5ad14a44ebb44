"""Recognises short plain replies by their bytes, without decoding them: `continue`, or any action with a reason.

What is recognised here is read as the codec would read it. All other lines have to be decoded.
"""

from __future__ import annotations

import re

from ..wire import words
from .messages import Reply

MAX_DIGITS = 18
"""The most digits of a request id."""

PlainReply = tuple[str, str]
"""A reply that is only an action and its reason, which may be empty."""
CONTINUE_REPLY = Reply(words.CONTINUE_RESULT)
"""The reply that every `continue` without a reason stands for."""

_RESULT = rb'\{"action": ?"([a-z_]+)"(?:, ?"reason": ?"([^"\\\x00-\x1f]{1,%d})")?\}' % words.MAX_REASON
# Each member is a group of its own. There are three members, so if all groups have matched, each member is there once.
_LINE = re.compile(
    rb'\{(?:(?:(?<=\{)|(?<!\{), ?)(?:("jsonrpc": ?"2\.0")|"id": ?([1-9][0-9]{0,%d})|"result": ?%s)){3}\}'
    % (MAX_DIGITS - 1, _RESULT)
)


def read_plain(line: bytes) -> tuple[bytes, Reply | PlainReply] | None:
    """The digits of the id, and the reply, of a line with a plain reply; None for any other line.

    The reason has no escaped characters. The codec would read the same.
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    version, digits, action, reason = found.groups()
    if version is None or digits is None or action is None:
        return None
    if reason is None:
        return digits, CONTINUE_REPLY if action == b"continue" else (action.decode(), "")
    try:
        return digits, (action.decode(), reason.decode())
    except UnicodeDecodeError:
        return None


class KnownReply:
    """One spelling of `continue`: the bytes before the id and the bytes after it. Only the id differs between replies.

    Incoming data is split at the bytes between two ids. So many replies are recognised at once.
    """

    __slots__ = ("_after", "_before", "_between")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after + b"\n"
        self._between = self._after + before

    @classmethod
    def learn(cls, line: bytes, digits: bytes, limit: int) -> KnownReply | None:
        """The spelling of a plain `continue` with this id. None if with a longer id it would exceed the limit of a line."""
        if len(line) - len(digits) + MAX_DIGITS > limit:
            return None
        start = line.index(digits, line.index(b'"id"'))
        return cls(line[:start], line[start + len(digits) :])

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
