"""Joins past calls with audit logs, to find the calls about which no hook was asked."""

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
    from collections.abc import Iterable
    from pathlib import Path

    from .transcripts import PastCall

_BEFORE = ("hook.before_tool", "hook.approve_tool")
ASKED, UNASKED = "asked", "unasked"
FILTERED = "asked no hook because of filters"
EARLIER = "before the first record of the audit log"
NO_TIME = "without a time"
UNCLEAR = "in a session whose records have no ids of calls"


class Asked:
    """The calls that hooks were asked about, by audit logs."""

    def __init__(self) -> None:
        self.first = math.inf
        """The time of the first record."""
        self._asked: dict[int, bool] = {}
        """The calls by a hash of session and id, and whether any hook was asked."""
        self._nameless: Counter[tuple[str, str]] = Counter()
        """The questions about calls without an id, by session and tool."""
        self._unclear: set[str] = set()

    def take(self, record: dict[str, Any]) -> None:
        """Take one record."""
        self.first = min(self.first, seconds_of(record.get("time")) or math.inf)
        if record.get("method") not in _BEFORE:
            return
        session, call = str(record.get("session", "")), record.get("call")
        asked = any(isinstance(hook, dict) and not hook.get("skipped") for hook in record.get("hooks", ()))
        if call:
            key = hash((session, call))
            self._asked[key] = self._asked.get(key, False) or asked
        elif record["method"] == _BEFORE[0]:
            self._nameless[session, str(record.get("tool", ""))] += 1
            self._unclear.add(session)

    def verdict(self, call: PastCall) -> str:
        """Returns whether a hook was asked about this call, or why that cannot be known."""
        found = self._asked.get(hash((call.session, call.id)))
        if found is not None:
            return ASKED if found else FILTERED
        if not call.at:
            return NO_TIME
        if call.at < self.first:
            return EARLIER
        key = call.session, call.tool
        if self._nameless[key] > 0:
            self._nameless[key] -= 1
            return ASKED
        return UNCLEAR if call.session in self._unclear else UNASKED


def audited(paths: Iterable[Path]) -> Asked:
    """Returns the questions in these audit logs, by default in those of the configuration. Raises `PicohookError`."""
    named = [*paths]
    if not named:
        tables = layers.discover().tables.get("audit", ())
        named = [table.path for table in tables]  # type: ignore[attr-defined] # an `AuditTable`
    if not named:
        raise PicohookError(
            "the configuration has no [audit], so nothing shows what hooks were asked: name a log with --audit FILE"
        )
    asked = Asked()
    for path in named:
        try:
            for file in files_of(path):
                with open(open_regular(file)[0], "rb") as log:
                    for line in lines_of(log):
                        try:
                            record = decode_own(line)
                        except ValueError:
                            continue  # a torn last line; `picohook audit verify` tells of others
                        if isinstance(record, dict):
                            asked.take(record)
        except OSError as error:
            raise PicohookError(f"{path} cannot be read: {error.strerror}") from None
    if math.isinf(asked.first):
        raise PicohookError(
            f"{', '.join(map(str, named))}: is no audit log, or has no record: run the agent with its hooks first"
        )
    return asked
