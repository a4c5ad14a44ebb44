"""Reads a record line by line. The lines of a chain are kept until the chain has ended."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from ...errors import PicohookError
from ...model.failure_policy import describe
from ...model.payloads import Payload
from ...model.stages import FIXED, STAGES, Stage
from ...protocol.codec import decode_own
from ...wire.text import escape
from .format import VERSION, Line, check

MOST_ENDED = 1024
"""The chains whose hooks in shadow may answer after their end."""
LONGEST_HEADER = 4096
LONGEST_LINE = 256 << 20
"""The most bytes of a line. It holds a few payloads, each of at most one line of the protocol."""


class RecordError(PicohookError):
    """The file is not a record, or is damaged. The message names the line."""


@dataclass(slots=True)
class Chain:
    """A question to hooks, as far as it is known: what was asked, each hook's answer, and the outcome."""

    number: int
    at: float
    stage: Stage[Any]
    asked_about: dict[str, Any]
    payload: Payload
    """The payload at its beginning."""
    params: dict[str, Any]
    """The params as the hooks asked so far have changed them."""
    resumed: bool = False
    """Whether it goes on after a pause, so that the hooks that had decided are not asked again."""
    waiting: list[str] = field(default_factory=list)
    """The hooks that have been asked and have not answered yet. One that is asked again is there again."""
    answers: list[Line] = field(default_factory=list)
    shadows: list[Line] = field(default_factory=list)
    """The answers of hooks in shadow that came before its end."""
    end: Line | None = None
    """Its end, or that it was abandoned."""
    succeeded: bool | None = None
    """Whether its call succeeded, by the transcript of an agent; None for a chain of a record."""
    now: "Chain | None" = None
    """The same question, asked again."""

    @property
    def verdict(self) -> str:
        """The action of its outcome; of approvers, whether they approved."""
        if self.end is None:
            return "has no end"
        approved = self.end.get("approved")
        return str(self.end.get("action", "abandoned")) if approved is None else "approved" if approved else "denied"


def editable(params: dict[str, Any]) -> dict[str, Any]:
    """The part of a payload that hooks can change. Tracing may change the rest."""
    return {name: value for name, value in params.items() if name not in FIXED}


Entry = tuple[Line, Chain | None]
"""A line of a record, and the chain that it is about. That of a hook in shadow has one only after the end of its chain."""


class Record:
    """A record in a file. Each iteration reads it from its beginning, and keeps only the chains that have not ended.

    The first iteration checks every line. Only a regular file can be read again.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._checked = False
        self.name = name
        self.open: dict[int, Chain] = {}
        """The chains that have not ended yet, by their numbers."""
        self._ended: OrderedDict[int, Chain] = OrderedDict()
        """The chains that ended last, for hooks in shadow."""
        self.closed = False
        """Whether it was written until the host ended."""
        try:
            self.header = header = decode_own(file.readline(LONGEST_HEADER))
            version, made_by, _ = header["version"], escape(header["picohook"]), header["time"]
        except (ValueError, LookupError, TypeError):
            raise RecordError(f"{name}: is not a record: `--record` and `Recorder` make them") from None
        if version != VERSION:
            raise RecordError(
                f"{name}: is a record of version {version}, made by picohook {made_by}; "
                f"this one reads version {VERSION}: read it with the other"
            )

    def __iter__(self) -> Iterator[Entry]:
        if self._checked:
            self._file.seek(0)
            self._file.readline()
            self.open.clear()
            self._ended.clear()
        for number, data in enumerate(iter(lambda: self._file.readline(LONGEST_LINE), b""), 2):
            if len(data) == LONGEST_LINE:
                raise RecordError(f"{self.name}: line {number} has more than {LONGEST_LINE >> 20} MiB")
            try:
                line = decode_own(data)
                if not self._checked:
                    check(line)
                chain = self._chain_of(line)
            except ValueError as error:
                if not data.endswith(b"\n"):
                    break  # it is incomplete, as after a crash
                raise RecordError(f"{self.name}: line {number} is damaged: {describe(error)}") from None
            yield line, chain
        self._checked = True

    def _chain_of(self, line: Line) -> Chain | None:
        """Returns the chain that a line is about. Raises `ValueError` for what is wrong, and is not by its form."""
        kind, number = line["type"], line.get("chain")
        if number is None:
            self.closed = self.closed or kind == "close"
            return None
        if kind == "begin":
            stage, params = STAGES.get(line["stage"]), line["params"]
            if stage is None:
                raise ValueError(f"there is no stage {line['stage']!r}")
            payload = stage.payload.model_validate(params)
            self.open[number] = Chain(number, line["at"], stage, params, payload, params, "without" in line)
            return self.open[number]
        chain = self.open.get(number)
        if kind == "would":  # one that comes very late has no chain
            if chain is None:
                return self._ended.get(number)
            chain.shadows.append(line)
            return None
        if chain is None:
            raise ValueError(f"chain {number} is not under way")
        if "params" in line:
            chain.stage.payload.model_validate(line["params"])
            chain.params = line["params"]
        if kind == "ask":
            chain.waiting.append(line["hook"])
        elif kind == "answer":
            chain.waiting = [hook for hook in chain.waiting if hook != line["hook"]]
            chain.answers.append(line)
        else:
            chain.end = line
            del self.open[number]
            if kind == "end":
                self._ended[number] = chain
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)
        return chain
