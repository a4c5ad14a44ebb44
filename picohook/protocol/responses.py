"""Reads the responses that are not simply a result: errors, and replies that break the protocol."""

from __future__ import annotations

from typing import Any

from ..wire import words
from ..wire.answer_fields import misplaced
from ..wire.text import cut, escape
from .messages import ABSENT, DuplicateKeys, Reply, Response


def read_response(response: Response, *, strict: bool) -> Reply:
    """The reply in a response. For a `strict` request, an approval, a flaw is an error; for others it is a warning."""
    result, error = response.result, response.error
    failed = error is not ABSENT and error is not None
    reply = Reply()
    flaw = _flaw(response)
    if response.unread:
        reply.error = response.unread
    elif response.duplicates is DuplicateKeys.ON_TOP or (response.duplicates is DuplicateKeys.INSIDE and strict):
        reply.error = "its answer has the same key twice"
    elif failed and result is not ABSENT and result is not None:
        reply.error = "its answer has both a result and an error"
    elif failed:
        reply.code, reply.error = _read_error(error)
    elif problem := misplaced(result, response.beside):
        reply.error = problem
    elif flaw and strict:
        reply.error = flaw
    else:
        reply.warning = flaw
        reply.result = None if result is ABSENT else result
    return reply


def _read_error(error: Any) -> tuple[int, str]:
    code = error.get("code") if isinstance(error, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    text = escape(cut(message, words.MAX_REASON)) if isinstance(message, str) else "no message"
    return (code if type(code) is int else 0), text


def _flaw(response: Response) -> str:
    if not response.versioned:
        return 'its answer lacks "jsonrpc": "2.0"'
    if response.result is ABSENT:
        return "its answer has neither a result nor an error"
    return ""
