"""Events in an agent. Observers get them, and the agent does not wait for observers."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..protocol.codec import encode, notification_line
from ..wire import words
from ..wire.did_you_mean import nearest
from .payloads import Meta, Payload, deep_copy

_SEVERITIES = {
    "error": "error",
    "subturn_orphan": "error",
    "llm_retry": "warn",
    "context_compress": "warn",
    "tool_exec_skipped": "warn",
    "turn_abort": "warn",
    "channel.lifecycle.start_failed": "error",
    "channel.message.outbound_failed": "error",
    "channel.rate_limited": "warn",
    "bus.publish.failed": "error",
    "gateway.reload.failed": "error",
    "mcp.server.failed": "error",
}
"""The severity of each kind that is not `info`."""
_ENDINGS = {"error": "error", "aborted": "warn"}
_PLACE = (
    "channel", "account", "chat_id", "topic_id", "space_id", "space_type", "chat_type", "sender_id", "message_id"
)  # fmt: skip
"""The fields of an inbound message that say where it came from. They are added to an event's scope."""


class Event:
    """One event. Its line is encoded when it is first needed, once for all hooks of a dialect."""

    __slots__ = ("_lines", "about", "kind", "meta", "payload")

    def __init__(self, kind: str, payload: Mapping[str, Any], meta: Meta, about: Payload | None = None) -> None:
        self.kind = kind
        self.payload = payload
        self.meta = meta
        self.about = about
        """The payload that the event is about. Its context and channel are added to the scope."""
        self._lines: dict[str, bytes] = {}

    def deep_copy(self) -> "Event":
        """A copy whose payload shares nothing with this one's. Its `about` keeps only the meta, context, channel and chat."""
        about = self.about
        if about is not None:
            about = Payload(
                meta=about.meta, context=deep_copy(about.context), channel=about.channel, chat_id=about.chat_id
            )
        return Event(self.kind, deep_copy(dict(self.payload)), self.meta, about)

    def line(self, dialect: str) -> bytes:
        """The whole line for hooks of this dialect. Raises `EncodeError`."""
        line = self._lines.get(dialect)
        if line is None:
            method = words.RUNTIME_EVENT if dialect == "runtime" else words.EVENT
            line = self._lines[dialect] = notification_line(method, encode(self.params(dialect)))
        return line

    def params(self, dialect: str) -> dict[str, Any]:
        """The params for hooks of this dialect."""
        if dialect == "runtime":
            return self._runtime()
        return {"Kind": self.kind, "Meta": self.meta.wire(), "Payload": self.payload}

    def _runtime(self) -> dict[str, Any]:
        meta = self.meta
        correlation = {"parent_turn_id": meta.parent_turn_id, "trace_id": meta.trace_path}
        if meta.traceparent:
            correlation["traceparent"] = meta.traceparent
        kind = words.EVENT_KINDS[self.kind]
        component = kind.partition(".")[0]
        attributes = {"agent_source": meta.source, "iteration": meta.iteration}
        return {
            "id": uuid.uuid4().hex,
            "kind": kind,
            "time": datetime.now(UTC).isoformat(),
            "source": {"component": component, "name": meta.agent_id if component == "agent" else ""},
            "scope": {
                "agent_id": meta.agent_id,
                "session_key": meta.session_key,
                "turn_id": meta.turn_id,
                **self._place(),
            },
            "correlation": correlation,
            "severity": self._severity(),
            "payload": self.payload,
            "attrs": {name: value for name, value in attributes.items() if value},
        }

    def _place(self) -> dict[str, Any]:
        """The fields that say where the user is."""
        if self.about is None:
            return {}
        inbound = (self.about.context or {}).get("inbound")
        known = {"channel": self.about.channel, "chat_id": self.about.chat_id}
        if isinstance(inbound, dict):
            known |= {name: inbound[name] for name in _PLACE if inbound.get(name)}
        return {name: value for name, value in known.items() if value}

    def _severity(self) -> str:
        payload = self.payload
        if self.kind == "turn_end":
            return _ENDINGS.get(str(payload.get("Status")), "info")
        if self.kind == "tool_exec_end":
            return "warn" if payload.get("IsError") is True else "info"
        return _SEVERITIES.get(self.kind, "info")


def known_kind(kind: str) -> str:
    """The legacy name of an event kind, from either of its names. Raises `ValueError` for an unknown kind."""
    if kind in words.EVENT_KINDS:
        return kind
    if kind in words.RUNTIME_KINDS:
        return words.RUNTIME_KINDS[kind]
    near = nearest(kind, [*words.EVENT_KINDS, *words.RUNTIME_KINDS])
    raise ValueError(f"there is no event kind {kind!r}" + (f": did you mean {near!r}?" if near else ""))
