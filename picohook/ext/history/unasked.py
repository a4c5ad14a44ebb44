"""Joins past calls with audit logs, to find the calls that ran and about which no hook was asked."""

import contextlib
import math
from collections.abc import Iterable
from pathlib import Path

from ...errors import PicohookError
from ...journal.ledger import files_of, lines_of
from ...projects import layers
from ...protocol.codec import decode_own
from .transcripts import PastCall, seconds_of

_BEFORE = ("hook.before_tool", "hook.approve_tool")
ASKED, UNASKED = "asked", "unasked"
NOT_RUN = "did not run, or the transcript does not say so"
FILTERED = "asked no hook because of filters"
EARLIER = "before the first record of the audit log, or without a time"
UNCLEAR = "in a session whose records have no ids of calls"
KNOWN = (ASKED, UNASKED, FILTERED)
"""The verdicts about calls of which it is known whether a hook was asked."""


class Asked:
    """The calls that hooks were asked about, by the records of audit logs."""

    def __init__(self) -> None:
        self.first = math.inf
        """The time of the first record."""
        self._asked: dict[int, bool] = {}
        """Whether any hook was asked, by a hash of the session and the call's id, which is None if a question has none."""

    def take(self, line: bytes) -> None:
        """Take a line of a log. A torn one is left out: `picohook audit verify` tells of it."""
        record = None
        with contextlib.suppress(ValueError):
            record = decode_own(line)
        if not isinstance(record, dict):
            return
        self.first = min(self.first, seconds_of(record.get("time")) or math.inf)
        if record.get("method") in _BEFORE:
            key = hash((str(record.get("session", "")), record.get("call") or None))
            asked = any(isinstance(hook, dict) and not hook.get("skipped") for hook in record.get("hooks", ()))
            self._asked[key] = self._asked.get(key, False) or asked

    def verdict(self, call: PastCall) -> str:
        """Returns whether a hook was asked about this call, or why that cannot be known."""
        if call.outcome in {"denied", "unknown"}:
            return NOT_RUN
        found = self._asked.get(hash((call.session, call.id)))
        if found is not None:
            return ASKED if found else FILTERED
        if call.at < self.first:
            return EARLIER
        return UNCLEAR if hash((call.session, None)) in self._asked else UNASKED


def audited(paths: Iterable[Path]) -> Asked:
    """Returns the questions in these audit logs, by default in those of the configuration. Raises `PicohookError`."""
    named = [*paths] or [table.path for table in layers.discover().tables.get("audit", ())]  # type: ignore[attr-defined] # an `AuditTable`
    if not named:
        raise PicohookError(
            "the configuration has no [audit], so nothing shows what hooks were asked: name a log with --audit FILE"
        )
    asked = Asked()
    for path in named:
        try:
            for line in lines_of(files_of(path)):
                asked.take(line)
        except OSError as error:
            raise PicohookError(f"{path} cannot be read: {error.strerror}") from None
    if math.isinf(asked.first):
        raise PicohookError(
            f"{', '.join(map(str, named))}: is no audit log, or has no record: run the agent with its hooks first"
        )
    return asked
