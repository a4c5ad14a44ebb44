"""Reads short plain replies by their bytes, without decoding them: an action, and maybe a reason.

The result is the same as the codec's. All other lines have to be decoded.
"""

import json
from itertools import product

from ..wire import words
from .messages import Reply

PlainReply = tuple[str, str]
"""A reply that is only an action and its reason, which may be empty."""
CONTINUE_REPLY = Reply(words.CONTINUE_RESULT)
"""The reply that every `continue` without a reason stands for."""

LONGEST_LINE = 65536
"""The most bytes of a line that is read here. Slicing a longer one would copy it."""
_ACTIONS = {
    action.encode(): action
    for action in (words.CONTINUE, words.DENY, words.SKIP, words.PAUSE, words.ABORT_TURN, words.HARD_ABORT)
}


class Spelling:
    """One spelling of plain replies: all bytes but those of the id, the action and the reason, which are its blanks."""

    __slots__ = ("_after", "_before", "_before_action", "_before_reason", "_continue")

    def __init__(self, members: tuple[str, ...], gap: str) -> None:
        """`members` are those of the envelope in their order, the id before the result. `gap` follows commas and colons."""
        blank = {"jsonrpc": "2.0", "id": 1, "result": {"action": "@", "reason": "@"}}
        text = json.dumps({name: blank[name] for name in members}, separators=("," + gap, ":" + gap)).replace("1", "@")
        self._before, self._before_action, self._before_reason, end = text.encode().split(b"@")
        self._after = end[1:]
        """The bytes after the quote that ends the action or the reason."""
        self._continue = words.CONTINUE.encode() + end

    def read(self, line: bytes) -> tuple[bytes, Reply | PlainReply | None]:
        """Returns the bytes in place of the id, and the reply; None as the reply if the line has to be decoded.

        If the bytes are the digits of a number, the codec would read the same.
        """
        if len(line) > LONGEST_LINE:
            return b"", None
        head, _, answer = line.partition(self._before_action)
        if not head.startswith(self._before):
            return b"", None
        digits = head[len(self._before) :]
        if answer == self._continue:
            return digits, CONTINUE_REPLY
        word, with_reason, rest = answer.partition(self._before_reason)
        text, _, after = (rest if with_reason else word).partition(b'"')
        action = _ACTIONS.get(word if with_reason else text)
        if action is None or after != self._after or len(text) > words.MAX_REASON:
            return digits, None
        if not with_reason:
            return digits, (action, "")
        try:
            reason = text.decode()
        except UnicodeDecodeError:
            return digits, None
        return digits, (action, reason) if reason and "\\" not in reason and reason.isprintable() else None


_ORDERS = (("jsonrpc", "id", "result"), ("id", "result", "jsonrpc"), ("id", "jsonrpc", "result"))
SPELLINGS = [Spelling(members, gap) for members, gap in product(_ORDERS, ("", " "))]
COMPACT = SPELLINGS[0]
"""The most frequent spelling."""


def spelling_of(line: bytes) -> Spelling | None:
    """The spelling of a line with a plain reply; None if it is not one, or has to be decoded."""
    return next((spelling for spelling in SPELLINGS if spelling.read(line)[1] is not None), None)
