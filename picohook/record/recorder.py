"""Writing down what a host asks and tells."""

from __future__ import annotations

import os
import stat
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import EncodeError, PicohookError
from ..hooks.base import DecidedHook
from ..listeners.listener import Account, Listener
from ..model.decisions import Retry
from ..model.payloads import Payload
from ..model.spec import WholeModeSpec
from ..observe.log import Log
from ..protocol.messages import encode
from ..wire.regular_files import open_regular
from ..wire.text import escape
from ..wire.version import VERSION as PICOHOOK
from .form import KEPT, VERSION, decision_to_json
from .sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ..hooks.base import Hook
    from ..model.decisions import Asked, Decision, Outcome
    from ..model.encoded import Encoded
    from ..model.events import Event
    from ..model.stages import Stage
    from ..observe.log import Logger
    from ..protocol.raw_line import RawLine

P = TypeVar("P", bound=Payload)

BEGINNING = b'{"type":"record",'
"""Of every record."""


class Scribe(Listener):
    """Makes the lines of a record, and hands them on."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self._put = put
        self._began = time.monotonic()
        self._chains = 0
        self._known: dict[str, Hook] = {}

    def opened(self) -> None:
        self._began = time.monotonic()
        now = datetime.now(UTC).isoformat()
        self._put(encode({"type": "record", "version": VERSION, "time": now, "picohook": PICOHOOK}) + b"\n")

    def begin(self, stage: Stage[P], payload: P) -> Account[P]:
        self._chains += 1
        return _Chain(self, self._chains, stage, payload)

    def told(self, event: Event, hooks: Sequence[Hook]) -> None:
        for hook in hooks:
            self.know(hook)
        line: dict[str, Any] = {"event": event.kind, "payload": event.payload}
        meta = {name: value for name, value in event.meta.wire().items() if value}
        self.write("event", line | ({"meta": meta} if meta else {}) | {"hooks": [hook.name for hook in hooks]})

    def line(self, line: RawLine) -> None:
        self.write("wire", {"hook": line.hook, "sent": line.sent, "line": line.text})

    def closed(self) -> None:
        self.write("close", {})

    def now(self) -> float:
        """Seconds since the host began."""
        return round(time.monotonic() - self._began, 6)

    def write(self, kind: str, said: dict[str, Any], params: bytes | None = None, *, at: float | None = None) -> None:
        """One line. `params` are JSON already."""
        line = encode({"type": kind, "at": self.now() if at is None else at, **said})
        self._put(line + b"\n" if params is None else b'%b,"params":%b}\n' % (line[:-1], params))

    def know(self, hook: Hook) -> None:
        """Say what a hook is, unless it was said."""
        if self._known.get(hook.name) is hook or isinstance(hook, DecidedHook):
            return
        self._known[hook.name] = hook
        settings = hook.spec.model_dump(mode="json", include=set(KEPT), exclude_defaults=True)
        line = {"hook": hook.name, "runs": hook.spec.runs, "settings": settings}
        self.write("hook", line | ({"whole_modes": True} if isinstance(hook.spec, WholeModeSpec) else {}))


class _Chain(Account[P]):
    """One chain. Its beginning is written with what follows it: a payload that is no JSON is never asked about."""

    def __init__(self, scribe: Scribe, number: int, stage: Stage[P], payload: P) -> None:
        super().__init__(stage, payload)
        self._scribe = scribe
        self._given = payload
        """Without what later listeners mark it with."""
        self._of = {"chain": number}
        self._at = scribe.now()
        self._resumed: dict[str, Any] = {}
        self._written: P | None = None
        """The payload whose params were written last."""

    def resumed(self, said: tuple[str, Decision] | None, without: Collection[str]) -> None:
        if said is not None:
            self._resumed["said"] = {"hook": said[0], **decision_to_json(said[1])}
        self._resumed["without"] = sorted(without)

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        self._begin(encoded.params() if encoded.payload is self._given else None)
        self._scribe.know(hook)
        said = self._of | {"hook": hook.name} | ({"stands_in": True} if isinstance(hook, DecidedHook) else {})
        self._scribe.write("ask", said, self._params(encoded))

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        self._begin(encoded.params() if encoded.payload is self._given else None)
        entry, decision = asked.entry, asked.decision
        said: dict[str, Any] = {
            **self._of,
            "hook": hook.name,
            "action": decision.action,
            "seconds": round(entry.duration, 6),
            "failed": asked.entry.failure,
            "error": entry.error,
            "reason": decision.reason,
            "feedback": decision.feedback if isinstance(decision, Retry) else "",
            "notes": entry.notes.wire() if entry.notes is not None else None,
            "result": None if asked.result is None else asked.result.wire(),
            "retries": entry.retries,
            "answer": _plain(asked.answer),
        }
        self._scribe.write("answer", _given(said), self._params(asked.encoded))

    def concluded(self, outcome: Outcome[P]) -> None:
        self._begin(None)
        said: dict[str, Any] = {
            **self._of,
            "action": outcome.action,
            "approved": outcome.approved,
            "reason": outcome.reason,
            "feedback": outcome.feedback,
            "result": None if outcome.result is None else outcome.result.wire(),
            "hook": outcome.hook,
            "skipped": [entry.hook for entry in outcome.trail if entry.skipped],
        }
        self._scribe.write("end", _given(said))

    def abandoned(self, error: BaseException) -> None:
        if self._written is not None:
            self._scribe.write("abandoned", {**self._of, "why": type(error).__name__})

    def _begin(self, params: bytes | None) -> None:
        if self._written is None:
            params = encode(self._given.wire()) if params is None else params
            self._scribe.write("begin", {**self._of, "stage": self.stage.name, **self._resumed}, params, at=self._at)
            self._written = self._given

    def _params(self, encoded: Encoded[P]) -> bytes | None:
        if encoded.payload is self._written:
            return None
        self._written = encoded.payload
        return encoded.params()


def _plain(answer: Any) -> Any:
    """An answer as JSON. A function in this process can answer what has no such form."""
    try:
        encode(answer)
    except EncodeError:
        return repr(answer)
    return answer


def _given(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is False or value or name in {"chain", "seconds"}}


class Recorder(Scribe):
    """Writes what a host asks, is answered and tells into a file: `Host(hooks, listeners=[Recorder("session.jsonl")])`.

    The file is for its owner alone, since all payloads are in it. One that is there is replaced, if it is a record; any other
    is left as it is, and the host does not start. It is written in a thread: the host never waits for it, except, for five
    seconds at most, at its end. When it cannot be written, that is logged once, what it has up to there stays, and `lost`
    counts the lines that it lacks. With `wire`, the raw lines of every process are in it too: what went to its standard input
    and what came from its standard output.
    """

    def __init__(self, path: str | os.PathLike[str], *, wire: bool = False, logger: Logger | None = None) -> None:
        super().__init__(self._take)
        self.path = os.fspath(path)
        self.wants_lines = wire
        self._log = Log(logger)
        self._sink: Sink | None = None
        self._open = False
        self._told = False

    @property
    def lost(self) -> int:
        """Lines that are not in the file."""
        return 0 if self._sink is None else self._sink.lost

    def opened(self) -> None:
        if self._sink is not None:
            raise PicohookError("a recorder is for one host: make another one")
        self._sink = Sink(open_record(self.path))
        self._open = True
        super().opened()

    def closed(self) -> None:
        super().closed()
        self._open = False
        assert self._sink is not None
        self._sink.close()
        self._say_what_failed(self._sink)

    def _take(self, line: bytes) -> None:
        assert self._sink is not None
        if self._open:
            self._sink.put(line)
            self._say_what_failed(self._sink)

    def _say_what_failed(self, sink: Sink) -> None:
        if sink.failure and not self._told:
            self._told = True
            self._log.error("the record cannot be written, and ends here", path=self.path, why=sink.failure)


def open_record(path: str) -> int:
    """A descriptor to write a record to, which nobody else can read. Raises `PicohookError`."""
    try:
        # Not waiting: a pipe that nobody reads is an error, instead of a host that never begins.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            _require_record(path)
            os.fchmod(descriptor, 0o600)
            os.ftruncate(descriptor, 0)
        os.set_blocking(descriptor, True)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError):
            raise _unwritable(path, error) from None
        raise
    return descriptor


def _require_record(path: str) -> None:
    """What is there and is no record was not meant to be replaced."""
    other, _ = open_regular(path)
    try:
        if os.read(other, len(BEGINNING)) not in {b"", BEGINNING}:
            raise PicohookError(f"{escape(path)} is there, and is no record: name another file")
    finally:
        os.close(other)


def _unwritable(path: str, error: Exception) -> PicohookError:
    why = error.strerror if isinstance(error, OSError) else "its name holds a NUL character"
    return PicohookError(f"{escape(path)} cannot be written: {why}")
