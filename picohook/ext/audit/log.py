"""An audit log: the questions, answers and outcomes of hooks, in a file that shows later changes.

A record is written when a chain ends, before the caller gets the outcome: an approval is in the file before the tool runs.
Payloads, and texts that may quote them, are left out unless they are wanted.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from typing import TYPE_CHECKING, Any, TypeVar

from ...engine.listener import Account, Listener, RequiredListener
from ...errors import EncodeError, PicohookError
from ...journal.ledger import FORMAT, LOST, START, STOP, Ledger, keyed
from ...model.payloads import Payload, ToolCall
from ...protocol.codec import encode
from ...wire import words
from ...wire.text import cut, escape
from ...wire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...hooks.base import Hook
    from ...model.decisions import Asked, Outcome
    from ...model.encoded import Encoded
    from ...model.events import Event
    from ...model.payloads import Meta
    from ...model.proof import Proof
    from ...model.spec import HookSpec
    from ...model.stages import Stage
    from ...model.trail import TrailEntry

P = TypeVar("P", bound=Payload)

KEY = "PICOHOOK_AUDIT_KEY"
"""The environment variable with the key of every log that is not made in code."""
LONGEST_VALUE = 256
"""Bytes of an id or a name in a record: some of them are a model's own words."""
_TOO_MANY = frozenset({"llm_delta"})
"""Events that are not recorded."""
_OF_EVENTS = {"Tool": "tool", "Status": "status", "IsError": "is_error", "Stage": "stage"}
"""The fields of an event's payload that are no content."""


class AuditLog(Listener):
    """Writes the log of one host at a time.

    `payloads`: records have the payloads and all texts; otherwise they have hashes of the payloads. `key`: without it, no valid
    log can be made. `max_size`: bytes after which the log continues in a new file, as it does when its file is moved away.
    `below`: a directory in which the file has to lie, and below which no link is followed.
    Records that cannot be written are counted, and the log says later how many are missing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        payloads: bool = False,
        key: bytes | str = b"",
        max_size: int | None = None,
        below: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = os.path.abspath(path)
        self.failures = 0
        """Records that could not be written."""
        self._key = key.encode() if isinstance(key, str) else key
        self.payloads = payloads
        # The plain hash of a short text can be guessed. Without a key, hashes can be compared within one run only.
        self._secret = self._key or secrets.token_bytes(32)
        self._seen: dict[str, tuple[HookSpec, str]] = {}
        self.max_size = max_size
        self._below = below
        self._ledger: Ledger | None = None
        self._lost = 0

    @property
    def records(self) -> int:
        """The number of records that the log has."""
        return self._ledger.count if self._ledger else 0

    @property
    def head(self) -> str:
        """The hash of the last record: kept elsewhere, it shows whether the end of the log is missing."""
        return self._ledger.head if self._ledger else ""

    # What the host calls.

    def opened(self) -> None:
        if self._ledger is not None and not self._ledger.closed:
            raise PicohookError("this audit log is in use by another host: make another one")
        self._ledger = Ledger(self.path, self._key, most=self.max_size, below=self._below)
        self._seen = {}
        try:
            self.write(START, {"format": FORMAT, "picohook": VERSION, "pid": os.getpid(), "payloads": self.payloads})
        except PicohookError:
            self._ledger.close()
            raise

    def closed(self) -> None:
        assert self._ledger is not None
        try:
            self.write(STOP, {})
        finally:
            self._ledger.close()

    def begin(self, stage: Stage[P], payload: P) -> Account[P]:
        return Entry(self, stage, payload)

    def happened(self, event: Event, _hooks: Sequence[Hook]) -> None:
        if event.kind in _TOO_MANY:
            return
        payload = event.payload
        shown = {name: payload[key] for key, name in _OF_EVENTS.items() if isinstance(payload.get(key), str | bool)}
        more = {"payload": _plain(dict(payload))} if self.payloads else _short(shown)
        self.write(words.EVENT, {"kind": event.kind, **_place(event.meta), **more})

    def proved(self, proof: Proof) -> None:
        hooks = [_answer(entry, texts=self.payloads) for trail in proof.trails for entry in trail.trail]
        names = {"gate": proof.gate, "hook": proof.hook}
        about = {"verdict": proof.verdict, **{name: value for name, value in names.items() if value}, "hooks": hooks}
        self.write("host.proof_of_life", {**_tool(proof.call), **self.stamp("payload", proof.call), **about})

    # For its entries.

    def write(self, method: str, about: Mapping[str, Any]) -> None:
        """Add a record, after one that says how many were lost. Raises `PicohookError` if it cannot be written."""
        assert self._ledger is not None
        try:
            if self._lost:
                self._ledger.add(LOST, {"records": self._lost})
                self._lost = 0
            self._ledger.add(method, about)
        except OSError as error:
            self.failures += 1
            self._lost += 1
            raise PicohookError(f"the audit log {escape(self.path)} cannot be written: {error.strerror}") from None

    def meet(self, hook: Hook) -> None:
        """Write a record of the hook, the first time and whenever its settings have changed."""
        spec, (known, mark) = hook.spec, self._seen.get(hook.name, (None, ""))
        if spec is known:
            return
        if spec.fingerprint != mark:
            layer = spec.layer or ("builtin" if hook.in_process else "user")
            self.write("host.hook", {"hook": hook.name, "layer": layer, "fingerprint": spec.fingerprint})
        self._seen[hook.name] = spec, spec.fingerprint

    def stamp(self, name: str, payload: Any) -> dict[str, Any]:
        """A payload as a record has it: itself, or a hash of it; empty if it has no JSON form."""
        value = payload.wire()
        value.pop("meta", None)
        if not self.payloads:
            with contextlib.suppress(TypeError, ValueError, RecursionError):  # the host's encoder knows more types
                return {f"{name}_digest": keyed(self._secret, value)}
        plain = _plain(value)
        if plain is None:
            return {}
        return {name: plain} if self.payloads else {f"{name}_digest": keyed(self._secret, plain)}


class RequiredAuditLog(AuditLog, RequiredListener):
    """An audit log that has to be written: a call whose record cannot be written is denied."""

    refusal = "the audit log cannot be written"


class Entry(Account[P]):
    """One chain, until its record is written."""

    def __init__(self, log: AuditLog, stage: Stage[P], payload: P) -> None:
        super().__init__(stage, payload)
        self._log = log
        self._began = time.perf_counter()
        # Now: the program could change what is inside.
        self._about = {**_tool(payload), **log.stamp("payload", payload)}
        self._hooks: list[Hook] = []
        self._entries: list[TrailEntry] = []

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        del encoded
        self._hooks.append(hook)
        self._entries.append(asked.entry)

    def would(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        del encoded
        self._log.meet(hook)
        about = {"stage": self.stage.name, **_place(self.payload.meta), **_tool(self.payload)}
        self._log.write("host.would", {**about, "hooks": [_answer(asked.entry, texts=self._log.payloads)]})

    def concluded(self, outcome: Outcome[P]) -> None:
        texts = {"reason": outcome.reason, "feedback": outcome.feedback} if self._log.payloads else {}
        shown = {"action": outcome.action, "approved": outcome.approved, "hook": outcome.hook, **texts}
        about = {name: value for name, value in shown.items() if value not in (None, "")}
        if outcome.payload is not self.payload:
            about |= self._log.stamp("changed", outcome.payload)
        if self._log.payloads and outcome.result is not None:
            about |= self._log.stamp("result", outcome.result)
        self._write(about, outcome.trail)

    def abandoned(self, error: BaseException) -> None:
        self._write({"abandoned": type(error).__qualname__}, self._entries)

    def _write(self, about: Mapping[str, Any], trail: Sequence[TrailEntry]) -> None:
        for hook in self._hooks:
            self._log.meet(hook)
        asked = {hook.name for hook in self._hooks}
        # A part's reason, such as which grant it used, is never from a payload.
        hooks = [_answer(entry, texts=self._log.payloads or entry.hook not in asked) for entry in trail]
        took = round((time.perf_counter() - self._began) * 1000, 3)
        place = {**_place(self.payload.meta), **self._about}
        self._log.write(self.stage.method, {**place, **about, "hooks": hooks, "duration_ms": took})


def _answer(entry: TrailEntry, *, texts: bool) -> dict[str, Any]:
    if entry.skipped:
        return {"hook": entry.hook, "skipped": True}
    left_out = {"notes", "grant"} if texts else {"notes", "grant", "reason", "error"}
    shown = {name: value for name, value in entry.wire().items() if name not in left_out and value is not None}
    return shown | ({"failure": entry.failure} if entry.failure else {})


def _place(meta: Meta) -> dict[str, str]:
    ids = {
        "session": meta.session_key,
        "agent": meta.agent_id,
        "turn": meta.turn_id,
        "parent_turn": meta.parent_turn_id,
        "traceparent": meta.traceparent,
    }
    return _short(ids)


def _tool(payload: Payload) -> dict[str, Any]:
    if not isinstance(payload, ToolCall):
        return {}
    return _short({"tool": payload.tool, "call": payload.tool_call_id})


def _short(shown: Mapping[str, Any]) -> dict[str, Any]:
    cuts = {name: cut(value, LONGEST_VALUE) if isinstance(value, str) else value for name, value in shown.items()}
    return {name: value for name, value in cuts.items() if value not in (None, "")}


def _plain(value: Any) -> Any:
    """A payload as JSON; None if it has no JSON form."""
    try:
        return json.loads(encode(value))
    except (EncodeError, ValueError, RecursionError):
        return None
