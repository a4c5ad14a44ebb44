"""Events: what happens in an agent, told to whoever observes it and waited for by nobody."""

from __future__ import annotations

import difflib
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from . import wire
from .models import apart
from .protocol.messages import encode
from .protocol.peer import notification

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .models import Meta


class Event:
    """One event. Its lines on the wire are made when they are first needed, once for all who get them."""

    __slots__ = ("_lines", "kind", "meta", "payload")

    def __init__(self, kind: str, payload: Mapping[str, Any], meta: Meta) -> None:
        self.kind = kind
        self.payload = payload
        self.meta = meta
        self._lines: dict[str, bytes] = {}

    def apart(self) -> Event:
        """The same, with a payload that shares nothing with this one's."""
        return Event(self.kind, apart(dict(self.payload)), self.meta)

    def line(self, dialect: str) -> bytes:
        """The whole line that a hook of this dialect reads. Raises `EncodeError`."""
        line = self._lines.get(dialect)
        if line is None:
            line = self._lines[dialect] = self._runtime() if dialect == "runtime" else self._legacy()
        return line

    def _legacy(self) -> bytes:
        params = {"Kind": self.kind, "Meta": self.meta.wire(), "Payload": self.payload}
        return notification(wire.EVENT, encode(params))

    def _runtime(self) -> bytes:
        meta = self.meta
        correlation = {"parent_turn_id": meta.parent_turn_id, "trace_id": meta.trace_path}
        if meta.traceparent:
            correlation["traceparent"] = meta.traceparent
        params = {
            "id": uuid.uuid4().hex,
            "kind": wire.EVENT_KINDS[self.kind],
            "time": datetime.now(UTC).isoformat(),
            "source": {"component": "agent", "name": meta.agent_id},
            "scope": {"agent_id": meta.agent_id, "session_key": meta.session_key, "turn_id": meta.turn_id},
            "correlation": correlation,
            "severity": "error" if self.kind == "error" else "info",
            "payload": self.payload,
            "attrs": {},
        }
        return notification(wire.RUNTIME_EVENT, encode(params))


def known_kind(kind: str) -> str:
    """The legacy name of a kind given by either of its names. Raises `ValueError` for one that there is not."""
    if kind in wire.EVENT_KINDS:
        return kind
    if kind in wire.RUNTIME_KINDS:
        return wire.RUNTIME_KINDS[kind]
    near = difflib.get_close_matches(kind, [*wire.EVENT_KINDS, *wire.RUNTIME_KINDS], 1)
    raise ValueError(f"there is no event kind {kind!r}" + (f": did you mean {near[0]!r}?" if near else ""))
