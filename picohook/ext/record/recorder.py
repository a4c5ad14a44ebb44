"""Records a host's questions to its hooks, their answers, and the events that they are told of. Shows raw lines."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ...engine.listener import Account, Listener
from ...engine.part import Part
from ...errors import EncodeError, PicohookError
from ...journal.writer import BackgroundWriter
from ...model.decisions import Retry
from ...model.payloads import Payload
from ...observe.log import Log
from ...protocol.codec import encode
from ...wire.text import escape
from ...wire.version import VERSION as PICOHOOK
from ...wire.written_files import is_special, open_to_write
from .format import VERSION, answer_of, end_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...engine.resumed import Resumed
    from ...hooks.base import Hook
    from ...host import Host
    from ...model.decisions import Asked, Outcome
    from ...model.encoded import Encoded
    from ...model.events import Event
    from ...model.stages import Stage
    from ...observe.log import Logger
    from ...protocol.raw_line import RawLine

P = TypeVar("P", bound=Payload)

BEGINNING = b'{"type":"record",'
"""The first bytes of every record."""


class Recorder(Listener):
    """Records a host in a file: `Host(hooks, listeners=[Recorder("session.jsonl")])`.

    Only the owner may read the file, because it holds all payloads. An existing record is replaced. Any other existing file is
    left as it is, and the host does not start.

    A thread writes the file. The host waits for it only at its end, for at most five seconds. If the file cannot be written,
    the failure is logged once, the lines written so far stay, and `lost` counts the others.

    With `wire`, the record also has the raw lines of every process: its standard input and its standard output.
    """

    def __init__(self, path: str | os.PathLike[str], *, wire: bool = False, logger: Logger | None = None) -> None:
        self.path = os.fspath(path)
        self.wants_lines = wire
        self._log = Log(logger)
        self._writer: BackgroundWriter | None = None
        self._logged = False
        self._chains = 0

    @property
    def lost(self) -> int:
        """The number of lines that could not be written."""
        return 0 if self._writer is None else self._writer.lost

    def opened(self) -> None:
        if self._writer is not None:
            raise PicohookError("a recorder is for one host: make another one")
        self._writer = BackgroundWriter(open_record(self.path))
        self._began = time.monotonic()
        now = datetime.now(UTC).isoformat()
        self._put(encode({"type": "record", "version": VERSION, "time": now, "picohook": PICOHOOK}) + b"\n")

    def begin(self, stage: Stage[P], payload: P) -> Account[P]:
        self._chains += 1
        return _ChainLines(self, self._chains, stage, payload)

    def happened(self, event: Event, hooks: Sequence[Hook]) -> None:
        line: dict[str, Any] = {"event": event.kind, "payload": event.payload}
        meta = {name: value for name, value in event.meta.wire().items() if value}
        self.write("event", line | ({"meta": meta} if meta else {}) | {"hooks": [hook.name for hook in hooks]})

    def line(self, line: RawLine) -> None:
        self.write("wire", {"hook": line.hook, "sent": line.sent, "line": line.text})

    def closed(self) -> None:
        self.write("close", {})
        assert self._writer is not None
        self._writer.close()
        self._log_failure(self._writer)

    def write(self, kind: str, values: dict[str, Any], params: bytes | None = None) -> None:
        """Write one line. `params` are encoded as JSON already."""
        line = encode({"type": kind, "at": round(time.monotonic() - self._began, 6), **values})
        self._put(line + b"\n" if params is None else b'%b,"params":%b}\n' % (line[:-1], params))

    def _put(self, line: bytes) -> None:
        assert self._writer is not None
        self._writer.put(line)
        self._log_failure(self._writer)

    def _log_failure(self, writer: BackgroundWriter) -> None:
        if writer.failure and not self._logged:
            self._logged = True
            self._log.error("the record cannot be written, and ends here", path=self.path, why=writer.failure)


class _ChainLines(Account[P]):
    """The lines of one chain. They begin with its first question, since a payload without a JSON form is never asked about."""

    def __init__(self, recorder: Recorder, number: int, stage: Stage[P], payload: P) -> None:
        super().__init__(stage, payload)
        self._recorder = recorder
        self._number = number
        self._resumed: dict[str, Any] = {}
        self._written: P | None = None
        """The payload whose params were written last."""

    def resumed(self, resumed: Resumed) -> None:
        self._resumed = {"without": sorted(resumed.skip)}

    def asking(self, hook: Hook, encoded: Encoded[P]) -> None:
        self._write("ask", {"hook": hook.name}, encoded)

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        del hook, encoded
        self._write("answer", _answer(asked), asked.encoded)

    def would(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        del hook
        self._write("would", _answer(asked), None if asked.encoded is encoded else asked.encoded)

    def concluded(self, outcome: Outcome[P]) -> None:
        self._write("end", end_of(outcome))

    def abandoned(self, error: BaseException) -> None:
        if self._written is not None:
            self._write("abandoned", {"why": type(error).__name__})

    def _write(self, kind: str, values: dict[str, Any], encoded: Encoded[P] | None = None) -> None:
        """Write a line, with the params of this payload unless they were written last. The first one comes after `begin`."""
        params = None if encoded is None else encoded.params()
        of = {"chain": self._number}
        if self._written is None:
            first = encode(self.payload.wire()) if encoded is None or encoded.payload is not self.payload else params
            self._recorder.write("begin", of | {"stage": self.stage.name} | self._resumed, first)
            self._written = self.payload
        if encoded is not None and encoded.payload is not self._written:
            self._written = encoded.payload
        else:
            params = None
        self._recorder.write(kind, of | values, params)


def _answer(asked: Asked[Any]) -> dict[str, Any]:
    """Returns the line of an answer without its time, its chain and the params after it."""
    feedback = asked.decision.feedback if isinstance(asked.decision, Retry) else ""
    result, answer = asked.result and asked.result.wire(), asked.answer
    try:
        encode(answer)
    except EncodeError:
        answer = repr(answer)  # a function may return something that has no JSON form
    return answer_of(asked.entry, action=asked.decision.action, feedback=feedback, result=result, answer=answer)


def open_record(path: str) -> int:
    """Returns a descriptor to write a record to. Only the owner may read the file.

    Raises `PicohookError`, also unless only we write the file, and it is empty or a record: it is emptied.
    """
    # A pipe is only written to: without a reader this is an error, and does not block the host's start for ever.
    flags = os.O_WRONLY if is_special(path) else os.O_RDWR | os.O_CREAT
    with ExitStack() as undo:
        try:
            descriptor = open_to_write(path, flags)
            undo.callback(os.close, descriptor)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.pread(descriptor, len(BEGINNING), 0) not in {b"", BEGINNING}:
                    raise PicohookError(f"{escape(path)} exists, and is not a record: name another file")
                os.fchmod(descriptor, 0o600)
                os.ftruncate(descriptor, 0)
            os.set_blocking(descriptor, True)
        except BlockingIOError:
            raise PicohookError(f"{escape(path)} is being written by another host: name another file") from None
        except OSError as error:
            raise PicohookError(f"{escape(path)} cannot be written: {error.strerror}") from None
        undo.pop_all()
    return descriptor


class RecordPart(Part):
    """A record of the host, with the raw lines if these are shown, too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._recorder = Recorder(path)
        self.listeners = [self._recorder]

    async def open(self, host: Host) -> None:
        self._recorder.wants_lines = host.parts.find(WirePart) is not None


class WirePart(Part, Listener):
    """Shows the raw lines of each process on stderr."""

    wants_lines = True

    def __init__(self, _: object) -> None:
        self.listeners = [self]

    def line(self, line: RawLine) -> None:
        from ...cli.output import show_line  # needs the extra `cli`

        show_line(line)
