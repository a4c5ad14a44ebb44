"""Events for other machines: the records of an audit log, put into a spool on disk, from which they are sent."""

from __future__ import annotations

import contextlib
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import PicohookError
from ..observe.log import Log
from ..protocol.codec import encode
from ..transport.nats.spool import MOST, Spool
from ..wire import words
from .audit import AuditRecords

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from ..observe.log import Logger
    from ..transport.nats.spool import Sync
    from .audit import AuditLog

DROPPED = "events.dropped"
"""The method of a record that says how many events were dropped."""
AT_MOST, AT_LEAST = 60.0, 1.0
"""Seconds after which events that are being dropped are reported again, and between any two reports."""


class Sender(Protocol):
    """Sends the events of a spool, without using the host's event loop."""

    def start(self, spool: Spool) -> None:
        """Begin to send."""

    def finish(self) -> None:
        """Send what is left if that takes no more than a few seconds, and end."""


class SpooledEvents(AuditRecords):
    """Puts the records of one host into a spool. No call ever waits for it.

    Events that had to be dropped are counted. The count is logged, written to each of `audit_logs`, and is an event itself. The
    settings are those of `Spool` and of an audit log.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        most: int = MOST,
        sync: Sync = "system",
        payloads: bool = False,
        key: bytes = b"",
        audit_logs: Sequence[AuditLog] = (),
        sender: Sender | None = None,
        logger: Logger | None = None,
    ) -> None:
        super().__init__(payloads=payloads, key=key)
        self.directory = directory
        self.spool: Spool | None = None
        self._most = most
        self._sync: Sync = sync
        self._audit_logs = audit_logs
        self._sender = sender
        self._log = Log(logger)
        self._reported = -math.inf
        """When dropped events were last reported."""

    def opened(self) -> None:
        if self.spool is not None:
            raise PicohookError("these events are those of another host: make another listener")
        self.spool = Spool(self.directory, most=self._most, sync=self._sync)
        if self._sender is not None:
            self._sender.start(self.spool)
        super().opened()

    def closed(self) -> None:
        assert self.spool is not None
        super().closed()
        self.spool.close()
        self._report()
        if self._sender is not None:
            self._sender.finish()
        self.spool.release()

    def write(self, method: str, about: Mapping[str, Any]) -> None:
        assert self.spool is not None
        kept = self._put(method, about)
        if self.spool.drops and time.monotonic() - self._reported > (AT_LEAST if kept else AT_MOST):
            self._reported = time.monotonic()
            about = self._report()
            if kept:
                self._put(DROPPED, about)

    def _put(self, method: str, about: Mapping[str, Any]) -> bool:
        kind = about["kind"] if method == words.EVENT else method.removeprefix("hook.")
        more = {"traceparent": about["traceparent"]} if "traceparent" in about else {}
        return self.put(method, kind, encode({"method": method, **about}), session=about.get("session", ""), **more)

    def put(self, method: str, kind: str, body: bytes, *, session: str = "", **more: str | int) -> bool:
        """Put an event into the spool. Returns False if it was dropped. `more` are headers."""
        assert self.spool is not None
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        head = {"type": method, "kind": kind, "session": session, "time": now, "more": more}
        return self.spool.put(head, body)

    def _report(self) -> Mapping[str, Any]:
        """Report how many events were dropped since the last report, if any were. Returns the record."""
        assert self.spool is not None
        drops = self.spool.take_drops()
        about = drops._asdict()
        if drops:
            self._log.error("events were dropped", count=drops.events, why=drops.why)
            for log in self._audit_logs:
                with contextlib.suppress(PicohookError):  # the log counts the records that it lacks
                    log.write(DROPPED, about)
        return about
