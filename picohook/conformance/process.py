"""A process of the hook, with its whole input and output, byte by byte.

It does not share the host's code, because the kit has to see mistakes that the host tolerates. It is blocking code with
deadlines.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ..errors import HookCrashedError, PicohookError
from ..model.spec import HookSpec
from ..process.plan import plan
from ..protocol.hints import TEXT_ID, hint_of_line
from ..protocol.raw_line import RawLine, RawLineSplitter
from ..wire.pipes import Started
from ..wire.text import escape, last_words

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_TAIL = 300
"""The most characters of stderr that a failure shows."""
LISTEN = 0.5
"""Seconds to wait for output that shows why a hook was silent."""
FILLING = 48 * 1024
"""Bytes of further greetings: fewer than a pipe holds, and enough for the answers to fill a usual output buffer."""


@dataclass(frozen=True)
class OutputLine:
    """A line that the hook wrote, without its newline."""

    data: bytes
    ended: bool = True
    """Whether the line ended with a newline."""

    @cached_property
    def message(self) -> dict[str, Any] | None:
        """The object on the line, or None. It is read tolerantly, since `line_checks` reports mistakes in its form."""
        try:
            value = json.loads(self.data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


class HookProcess:
    """A running hook in a process group of its own, which is killed when the block ends."""

    def __init__(self, command: Sequence[str], *, timeout: float, grace: float) -> None:
        self.timeout = timeout
        self.grace = grace
        self.lines: list[OutputLine] = []
        self.sent: list[Any] = []
        """The ids of all messages that were written to it."""
        self.raw: list[RawLine] = []
        """Every line in both directions, in order."""
        self._to_it = RawLineSplitter("hook", self.raw.append, sent=True)
        self._from_it = RawLineSplitter("hook", self.raw.append, sent=False)
        self._answers: dict[int, dict[str, Any]] = {}
        """The first answer with each id."""
        self._first = b""
        """The first bytes that were written to it."""
        self._probing = False
        """Whether the run is over, and only the cause of a silence is still looked for."""
        self._over = False
        """Whether further output is ignored."""
        self._unended = bytearray()
        try:
            self._hook = Started(command, self._take)
        except (OSError, ValueError) as error:
            raise PicohookError(f"{command[0]!r} cannot be started: {_why(command, error)}") from None
        self._pipes = self._hook.pipes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.close()

    def call_lines(self, name: str) -> None:
        """Set the name that the raw lines have from here on."""
        self._to_it.hook = self._from_it.hook = name

    # Writing.

    def write(self, data: bytes) -> None:
        """Write these bytes, and read meanwhile. A closed input is not an error here: the next check fails then."""
        self._first = self._first or data
        if not self._hook.stdin.closed:
            self._note(self._to_it, data)
            with contextlib.suppress(BrokenPipeError):
                self._pipes.write(data, self.timeout)

    def close(self) -> None:
        """Close the hook's standard input."""
        self._hook.stdin.close()

    def signal(self, name: str) -> None:
        """Send a signal to the hook itself, and not to its children."""
        if self._hook.wait(0) is None:
            os.kill(self._hook.process.pid, signal.Signals[f"SIG{name}"])

    # Reading.

    def reply(self, request_id: int) -> dict[str, Any] | None:
        """Returns the first answer with this id; None if the hook ends or the timeout passes without one."""
        self._pipes.until(lambda: request_id in self._answers, self.timeout)
        return self._answers.get(request_id)

    def finish(self) -> None:
        """Close its input, and read its output to the end or until the grace has passed."""
        self.close()
        self._pipes.until(lambda: False, self.grace)
        for lines in (self._to_it, self._from_it):
            lines.close()
        if self._unended:
            self.lines.append(OutputLine(bytes(self._unended), ended=False))
            self._unended.clear()

    def ended(self) -> int | None:
        """Returns its exit code, as in `subprocess`; None if it does not end within the grace."""
        started = time.monotonic()
        self._pipes.until(lambda: False, self.grace)  # to the end: a child of the hook may keep the output open
        return self._hook.wait(started + self.grace - time.monotonic())

    @property
    def silence(self) -> str:
        """Returns the reason why it does not answer."""
        silent = not (self.lines or self._unended)
        if not self._pipes.over and self._hook.wait(0) is None:
            hint = "" if silent else self._hint("it gives no answer")
            return hint or self._why_silent(wrote_nothing=silent)
        code = self.ended()
        how = "it closed its output" if code is None else f"it ended with exit code {code}"
        if code == 0:
            how += (
                " and wrote nothing: does it call app.run(), or read its input in a loop?" if silent else self._hint()
            )
        said = last_words(self._hook.stderr, SHOWN_TAIL)
        return f"{how}: {escape(said)}" if said else how

    def _note(self, lines: RawLineSplitter, data: bytes) -> None:
        if not self._probing:
            lines.take(data)

    def _why_silent(self, *, wrote_nothing: bool) -> str:
        """Returns the reason why no answer comes. The bytes that this sends and reads are not part of the run."""
        before, self._probing = len(self.lines), True

        def heard() -> bool:
            return len(self.lines) > before or bool(self._unended)

        try:
            if wrote_nothing:
                self.write(self._first * (FILLING // len(self._first)))
                self._pipes.until(heard, LISTEN)
                if heard():
                    return "it buffers its answers: flush standard output after each one"
            self.close()
            self._pipes.until(heard, LISTEN)
            if not heard():
                return "it runs, and writes nothing"
            way_out = "answer each line as it comes, and do not read to the end first"
            if not wrote_nothing:
                way_out = "flush standard output after each answer"
            return f"it answered when its input was closed: {way_out}"
        finally:
            del self.lines[before:]
            self._unended, self._over = bytearray(), True

    def _hint(self, before: str = "") -> str:
        """Returns this text and the probable mistake in the lines that are not answers; "" if it is not known."""
        for line in self.lines:
            message = line.message
            if message is None or not {"id", "method"} & message.keys():
                hint = hint_of_line(line.data)
            else:
                hint = TEXT_ID if isinstance(message.get("id"), str) else ""
            if hint:
                return f"{before}: {hint}"
        return ""

    def _take(self, data: bytes) -> None:
        if self._over:
            return
        self._note(self._from_it, data)
        self._unended += data
        if b"\n" in data:
            *lines, self._unended = self._unended.split(b"\n")
            for line in lines:
                self.lines.append(OutputLine(bytes(line)))
                message = self.lines[-1].message or {}
                if "method" not in message and type(message.get("id")) is int:
                    self._answers.setdefault(message["id"], message)


def _why(command: Sequence[str], error: Exception) -> str:
    """Returns why a program does not start, as a host says it, and the way out."""
    if getattr(error, "errno", None) == errno.ENOEXEC:
        return "its first line names no interpreter: add one, or name its interpreter before it"
    with contextlib.suppress(ValueError):
        try:
            plan(HookSpec(name="hook", command=tuple(command)), os.environ).close()
        except HookCrashedError as known:
            return str(known).partition(": ")[2]
    return str(getattr(error, "strerror", None) or error)
