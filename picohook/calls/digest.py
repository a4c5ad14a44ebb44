"""The digest of a call. It shows that the tool runs the very call that hooks passed and approvers approved."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ..protocol.codec import encode

if TYPE_CHECKING:
    from ..model.decisions import Outcome
    from ..model.payloads import ToolCall


def call_digest(call: ToolCall) -> bytes:
    """The digest of a call's bytes. Raises `EncodeError` for a call that has no JSON form."""
    return hashlib.sha256(encode(call.wire())).digest()


def approved_digest(before: Outcome[ToolCall]) -> bytes | None:
    """The digest of the call that hooks were asked about last; None if the outcome holds another call by now."""
    shown = before.asked
    if shown is not None and shown.payload is before.payload:
        return hashlib.sha256(shown.params()).digest()  # a later change in place is seen before the tool runs
    return call_digest(before.payload) if before.intact else None
