"""An audit log: what hooks were asked, what they said and what came of it, in a file that shows what was done to it.

A record is written when a chain is concluded, before the caller gets the outcome: what was approved is in the file before it
runs. Payloads, and texts that may quote them, are left out unless they are wanted.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import EncodeError, PicohookError
from ..model.payloads import Payload, ToolCall
from ..protocol.codec import encode
from ..wire import words
from ..wire.text import cut, escape
from ..wire.version import VERSION
from .ledger import LOST, START, STOP, Ledger, keyed
from .listener import Account, Listener

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..hooks.base import Hook
    from ..model.decisions import Asked, Outcome
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.payloads import Meta
    from ..model.spec import HookSpec
    from ..model.stages import Stage
    from ..model.trail import TrailEntry

P = TypeVar("P", bound=Payload)

MOST = 256
"""Bytes of an id or a name that a record has: some of them are a model's own words."""
UNWRITTEN = "the audit log cannot be written"
"""What the model is told of a call that is denied for it."""
_TOO_MANY = frozenset({"llm_delta"})
"""Events that are no news."""
_OF_EVENTS = {"Tool": "tool", "Status": "status", "IsError": "is_error", "Stage": "stage"}
"""What of an event's payload is no content."""


class AuditLog(Listener):
    """Writes the log of one host at a time.

    `payloads`: records have what was asked about and every text, where otherwise they have a hash of it. `required`: what
    cannot be written is not allowed, as if a hook had failed whose `on_failure` is deny; otherwise it is counted, and the log
    says later how much is missing. `key`: nobody who lacks it can make a chain that holds. `max_size`: bytes after which it
    goes on in a new file; it does so, too, when its file is moved away.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        payloads: bool = False,
        required: bool = False,
        key: bytes | str = b"",
        max_size: int | None = None,
    ) -> None:
        self.path = os.path.abspath(path)
        self.payloads = payloads
        self.required = required
        self.failures = 0
        """Records that could not be written."""
        self._key = key.encode() if isinstance(key, str) else key
        # A plain hash of something short is guessed by trying. Without a key they can be compared within a run, and no more.
        self._secret = self._key or secrets.token_bytes(32)
        self.max_size = max_size
        self._ledger: Ledger | None = None
        self._lost = 0
        self._seen: dict[str, tuple[HookSpec, str]] = {}

    @property
    def records(self) -> int:
        """How many records the log has, as far as this knows."""
        return self._ledger.count if self._ledger else 0

    @property
    def head(self) -> str:
        """The hash of the last record: kept elsewhere, it shows whether the end of the log is missing."""
        return self._ledger.head if self._ledger else ""

    # What is listened.

    def opened(self) -> None:
        if self._ledger is not None and not self._ledger.closed:
            raise PicohookError("an audit log is of one host at a time: make another one")
        self._ledger = Ledger(self.path, self._key, most=self.max_size)
        self._seen = {}
        try:
            self.write(START, {"picohook": VERSION, "pid": os.getpid(), "payloads": self.payloads})
        except PicohookError:
            self._ledger.close()
            raise

    def begin(self, stage: Stage[P], payload: P) -> Account[P]:
        return Entry(self, stage, payload)

    def happened(self, event: Event) -> None:
        if event.kind in _TOO_MANY:
            return
        said = event.payload
        shown = {name: said[key] for key, name in _OF_EVENTS.items() if isinstance(said.get(key), str | bool)}
        more = {"payload": _plain(dict(said))} if self.payloads else _short(shown)
        self.write(words.EVENT, {"kind": event.kind, **_place(event.meta), **more})

    def closed(self) -> None:
        assert self._ledger is not None
        try:
            self.write(STOP, {})
        finally:
            self._ledger.close()

    # For its entries.

    def write(self, method: str, about: Mapping[str, Any]) -> None:
        """Add a record, and before it how many were lost. Raises `PicohookError` when this one is."""
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
        """Note what a hook is, the first time and whenever its settings are others."""
        spec, (known, mark) = hook.spec, self._seen.get(hook.name, (None, ""))
        if spec is known:
            return
        if spec.fingerprint != mark:
            layer = spec.layer or ("builtin" if hook.in_process else "user")
            self.write("host.hook", {"hook": hook.name, "layer": layer, "fingerprint": spec.fingerprint})
        self._seen[hook.name] = spec, spec.fingerprint

    def stamp(self, name: str, payload: Any) -> dict[str, Any]:
        """A payload as a record has it: itself, or a hash of it; nothing, where it is no JSON."""
        value = payload.wire()
        value.pop("meta", None)
        if not self.payloads:
            try:
                return {f"{name}_digest": keyed(self._secret, value)}
            except (TypeError, ValueError, RecursionError):
                pass  # it may be JSON to the host all the same, which knows more types
        try:
            plain = json.loads(encode(value))
        except (EncodeError, ValueError, RecursionError):
            return {}
        return {name: plain} if self.payloads else {f"{name}_digest": keyed(self._secret, plain)}


class Entry(Account[P]):
    """One chain, until it is a record."""

    def __init__(self, log: AuditLog, stage: Stage[P], payload: P) -> None:
        super().__init__(stage, payload)
        self._log = log
        self._began = time.perf_counter()
        # Taken now: the program could change what is inside.
        self._about = {**_tool(payload), **log.stamp("payload", payload)}
        self._hooks: list[Hook] = []
        self._entries: list[TrailEntry] = []

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        del encoded
        self._hooks.append(hook)
        self._entries.append(asked.entry)

    def concluded(self, outcome: Outcome[P]) -> None:
        try:
            self._write(self._concluded(outcome))
        except Exception:
            if self._log.required:
                _refuse(self.stage, outcome)
            raise

    def abandoned(self, error: BaseException) -> None:
        self._write({"abandoned": type(error).__qualname__, **self._asked(self._entries)})

    def _concluded(self, outcome: Outcome[P]) -> dict[str, Any]:
        about: dict[str, Any] = {"action": outcome.action}
        if outcome.approved is not None:
            about["approved"] = outcome.approved
        if outcome.hook:
            about["hook"] = outcome.hook
        if outcome.payload is not self.payload:
            about |= self._log.stamp("changed", outcome.payload)
        if self._log.payloads:
            texts = {"reason": outcome.reason, "feedback": outcome.feedback}
            about |= {name: text for name, text in texts.items() if text}
            if outcome.result is not None:
                about |= self._log.stamp("result", outcome.result)
        return about | self._asked(outcome.trail)

    def _asked(self, trail: Sequence[TrailEntry]) -> dict[str, Any]:
        return {"hooks": [_said(entry, texts=self._log.payloads) for entry in trail], "duration_ms": _ms(self._began)}

    def _write(self, about: Mapping[str, Any]) -> None:
        for hook in self._hooks:
            self._log.meet(hook)
        self._log.write(self.stage.method, {**_place(self.payload.meta), **self._about, **about})


def _refuse(stage: Stage[Any], outcome: Outcome[Any]) -> None:
    """What nobody can be shown to have decided is decided against, unless hooks have done so already."""
    if outcome.action in {words.DENY, words.ABORT_TURN, words.HARD_ABORT}:
        return
    denies = stage.approves or words.DENY in stage.actions
    outcome.action = words.DENY if denies else words.ABORT_TURN
    outcome.approved = False if stage.approves else None
    outcome.reason, outcome.result, outcome.feedback, outcome.hook = UNWRITTEN, None, "", ""


def _said(entry: TrailEntry, *, texts: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"hook": entry.hook}
    if entry.skipped:
        return {**shown, "skipped": True}
    shown |= {"action": entry.action, "duration_ms": round(entry.duration * 1000, 3)}
    if entry.failure:
        shown["failure"] = entry.failure
    if entry.retries:
        shown["retries"] = entry.retries
    if texts:
        shown |= {name: text for name, text in (("reason", entry.reason), ("error", entry.error)) if text}
    return shown


def _place(meta: Meta) -> dict[str, str]:
    ids = {
        "session": meta.session_key,
        "agent": meta.agent_id,
        "turn": meta.turn_id,
        "parent_turn": meta.parent_turn_id,
        "traceparent": meta.traceparent,
    }
    return _short({name: value for name, value in ids.items() if value})


def _tool(payload: Payload) -> dict[str, Any]:
    if not isinstance(payload, ToolCall):
        return {}
    return _short({"tool": payload.tool, **({"call": payload.tool_call_id} if payload.tool_call_id else {})})


def _short(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: cut(value, MOST) if isinstance(value, str) else value for name, value in shown.items()}


def _plain(value: Any) -> Any:
    """What of an event is JSON; observers would not have got the rest either."""
    try:
        return json.loads(encode(value))
    except EncodeError:
        return None


def _ms(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
