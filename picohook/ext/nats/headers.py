"""The header of questions and answers over NATS. There is one, because each costs as much as the rest of a message."""

from __future__ import annotations

import re

NAME = "Picohook"
"""In a question: the SHA-256 of its body, the milliseconds that are left for the answer, its id. In an answer: that SHA-256.

The milliseconds are no time of day, because clocks differ. The id has session, turn, call, stage, a checksum of the params,
hook and try. All but the try name the question, when it is asked again too, and no other question.
"""
TRACE_PARENT = "traceparent"

STATUS = "Status"
"""The server's own status of a message."""
NOBODY = "503"
"""The status of the server's answer to a question that has no receiver."""

_TIME = re.compile(r"\S* ([0-9]{1,15})(?: |$)", re.ASCII)
"""With more digits, it is no time that a clock has."""


def of_question(digest: str, seconds: float, question_id: str) -> str:
    """Returns the header's value for a question with this many seconds left."""
    return f"{digest} {max(1, int(seconds * 1000))} {question_id}"


def seconds_left(value: str) -> float | None:
    """The seconds that are left for the answer, as the header of a question says; None if it says none."""
    found = _TIME.match(value)
    return None if found is None else int(found[1]) / 1000
