"""Joins past calls with audit logs, to find the calls that ran and about which no hook was asked."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from ...journal.ledger import files_of, lines_of
from ...projects import layers
from ...protocol.codec import decode_own
from ...wire.regular_files import open_regular
from .transcripts import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from .transcripts import PastCall

_BEFORE = ("hook.before_tool", "hook.approve_tool")
ASKED, UNASKED = "asked", "unasked"
NOT_RUN = "did not run, or the transcript does not say so"
FILTERED = "asked no hook because of filters"
EARLIER = "before the first record of the audit log"
NO_TIME = "without a time"
UNCLEAR = "in a session whose records have no ids of calls"


class Asked:
    """The calls that hooks were asked about, by the records of audit logs."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self.first = math.inf
        """The time of the first record."""
        self._asked: dict[int, bool] = {}
        """The calls by a hash of session and id, and whether any hook was asked."""
        self._nameless: Counter[tuple[str, str]] = Counter()
        """The questions about calls without an id, by session and tool."""
        for record in records:
            self.first = min(self.first, seconds_of(record.get("time")) or math.inf)
            if record.get("method") in _BEFORE:
                self._take(record)
        self._unclear = {session for session, _ in self._nameless}

    def _take(self, record: dict[str, Any]) -> None:
        session, call = str(record.get("session", "")), record.get("call")
        if call:
            asked = any(isinstance(hook, dict) and not hook.get("skipped") for hook in record.get("hooks", ()))
            key = hash((session, call))
            self._asked[key] = self._asked.get(key, False) or asked
        elif record["method"] == _BEFORE[0]:
            self._nameless[session, str(record.get("tool", ""))] += 1

    def verdict(self, call: PastCall) -> str:
        """Returns whether a hook was asked about this call, or why that cannot be known."""
        if call.outcome in {"denied", "unknown"}:
            return NOT_RUN
        found = self._asked.get(hash((call.session, call.id)))
        if found is not None:
            return ASKED if found else FILTERED
        if call.at < self.first:
            return EARLIER if call.at else NO_TIME
        key = call.session, call.tool
        if self._nameless[key] > 0:
            self._nameless[key] -= 1
            return ASKED
        return UNCLEAR if call.session in self._unclear else UNASKED


def audited(paths: Iterable[Path]) -> Asked:
    """Returns the questions in these audit logs, by default in those of the configuration. Raises `PicohookError`."""
    named = [*paths] or [table.path for table in layers.discover().tables.get("audit", ())]  # type: ignore[attr-defined] # an `AuditTable`
    if not named:
        raise PicohookError(
            "the configuration has no [audit], so nothing shows what hooks were asked: name a log with --audit FILE"
        )
    asked = Asked(record for path in named for record in _records(path))
    if math.isinf(asked.first):
        raise PicohookError(
            f"{', '.join(map(str, named))}: is no audit log, or has no record: run the agent with its hooks first"
        )
    return asked


def _records(path: Path) -> Iterator[dict[str, Any]]:
    try:
        for file in files_of(path):
            with open(open_regular(file)[0], "rb") as log:
                for line in lines_of(log):
                    try:
                        record = decode_own(line)
                    except ValueError:
                        continue  # a torn last line; `picohook audit verify` tells of others
                    if isinstance(record, dict):
                        yield record
    except OSError as error:
        raise PicohookError(f"{path} cannot be read: {error.strerror}") from None
