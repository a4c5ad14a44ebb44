"""Reads a record line by line. The lines of a chain are kept until the chain has ended."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from ...engine.resumed import Resumed
from ...errors import PicohookError
from ...model.decisions import CONTINUE
from ...model.events import known_kind
from ...model.payloads import Meta, Payload
from ...model.spec import HookSpec
from ...model.stages import STAGES
from ...protocol.codec import decode_own
from ...wire.text import cut, escape
from ...wire.words import PAUSE
from .format import (
    LINES,
    SETTINGS,
    VERSION,
    AbandonedLine,
    AnswerLine,
    AskLine,
    BeginLine,
    CloseLine,
    EndLine,
    EventLine,
    Header,
    HookLine,
    WouldLine,
    decision_from_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...model.stages import Stage
    from .format import AnyLine

MOST_ENDED = 1024
"""The chains whose hooks in shadow may answer after their end."""
LONGEST_HEADER = 4096
LONGEST_LINE = 256 << 20
"""The most bytes of a line. It holds a few payloads, each of at most one line of the protocol."""


class RecordError(PicohookError):
    """The file is not a record, or is damaged. The message names the line."""


@dataclass(slots=True)
class Chain:
    """A past question to hooks, as far as it has been read: what was asked, each hook's answer, and the outcome.

    After a pause it is resumed with a decision for the hook that paused, and the hooks that had decided are not asked again.
    """

    number: int
    line_number: int
    """The line of the record where it begins."""
    at: float
    stage: Stage[Any]
    asked_about: dict[str, Any]
    payload: Payload
    """The payload at its beginning."""
    resumed: Resumed = field(default_factory=Resumed)
    params: dict[str, Any] = field(default_factory=dict)
    """The params as the hooks asked so far have changed them."""
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each hook that has not answered yet, by its name, the params that it was asked about."""
    answers: list[AnswerLine] = field(default_factory=list)
    shadows: list[WouldLine] = field(default_factory=list)
    """The answers of hooks in shadow that came before its end."""
    end: EndLine | None = None
    abandoned: str = ""
    """Why it has no end and will have none: its caller was cancelled, as by the error of this name."""
    again: bool = False
    """For one hook alone: whether it had been asked before about this call. A guard may then not change it."""
    agent: str = ""
    """The agent that made this call; empty for a chain of a record."""
    succeeded: bool | None = None
    """Whether the call was made and succeeded; None if this is not known."""

    @property
    def edited(self) -> dict[str, Any] | None:
        """The params after all hooks; None if they have not changed them."""
        return None if self.params is self.asked_about else self.params


Entry = tuple["AnyLine", Chain | None]
"""A line of a record, and the chain that it is about. A transcript has entries too."""


class Record:
    """A record in a file. Iterating over it reads it once, and keeps only the chains that have not ended."""

    def __init__(self, file: IO[bytes], name: str, *, checked: bool = False) -> None:
        """`checked`: it was read before, without an error."""
        self._file = file
        self.name = name
        self._checked = checked
        self._chains: dict[int, Chain] = {}
        self._ended: OrderedDict[int, Chain] = OrderedDict()
        """The chains that ended last, for hooks in shadow."""
        self.closed = False
        """Whether it was written until the host ended."""
        self.cut_off = False
        """Whether the last line is incomplete, as after a crash. It is skipped."""
        self.number = 1
        """The number of the line that was read last."""
        first = file.readline(LONGEST_HEADER)
        if not first:
            raise RecordError(f"{name}: is empty")
        try:
            self.header = Header.model_validate_json(first)
        except ValidationError:
            raise RecordError(f"{name}: is not a record: `--record` and `Recorder` make them") from None
        if self.header.version != VERSION:
            raise RecordError(
                f"{name}: is a record of version {self.header.version}, made by picohook "
                f"{escape(self.header.picohook)}; this one reads version {VERSION}: read it with the other"
            )

    @property
    def open_chains(self) -> list[Chain]:
        """The chains that have not ended yet."""
        return list(self._chains.values())

    def __iter__(self) -> Iterator[Entry]:
        while data := self._file.readline(LONGEST_LINE):
            if len(data) == LONGEST_LINE:
                raise self._wrong(f"comes before a line of more than {LONGEST_LINE >> 20} MiB")
            if not data.endswith(b"\n"):
                try:
                    decode_own(data)
                except ValueError:
                    self.cut_off = True
                    return
            self.number += 1
            try:
                line = self._read(data)
                chain = self._place(line)
            except ValidationError as error:
                raise self._wrong(_first_of(error)) from None
            yield line, chain

    def _read(self, data: bytes) -> AnyLine:
        if self._checked:
            return LINES.validate_json(data)  # in half the time
        try:
            value = decode_own(data)
        except ValueError as error:
            raise self._wrong(f"is not JSON: {error}") from None
        return LINES.validate_python(value)

    def _wrong(self, why: str) -> RecordError:
        """An error about the line that was read last."""
        return RecordError(f"{self.name}: line {self.number}: {escape(cut(why, 400))}")

    def _place(self, line: AnyLine) -> Chain | None:
        """Check what the form of a line does not say, and returns its chain."""
        if isinstance(line, WouldLine):
            return self._would(line)
        if self.closed:
            raise self._wrong("comes after the end of the host")
        match line:
            case BeginLine():
                return self._begin(line)
            case AskLine() | AnswerLine() | EndLine() | AbandonedLine():
                return self._continue(line)
            case EventLine():
                Meta.model_validate(line.meta)
                try:
                    known_kind(line.event)
                except ValueError as error:
                    raise self._wrong(f"event: {error}") from None
            case HookLine():
                # Other settings would change how a program is run, and the record may come from anywhere.
                for name in line.settings.keys() - set(SETTINGS):
                    raise self._wrong(f"settings.{name}: is not a setting of a record")
                HookSpec.model_validate(line.settings)
            case CloseLine():
                self.closed = True
        return None

    def _begin(self, line: BeginLine) -> Chain:
        if line.stage not in STAGES:
            raise self._wrong(f"stage: there is no stage {line.stage!r}")
        if line.chain in self._chains:
            raise self._wrong(f"chain: {line.chain} is under way already")
        stage, params = STAGES[line.stage], line.params
        payload = stage.payload.model_validate(params)
        resumed = self._resumed(stage, line)
        chain = Chain(line.chain, self.number, line.at, stage, params, payload, resumed, params)
        self._chains[line.chain] = chain
        return chain

    def _resumed(self, stage: Stage[Any], line: BeginLine) -> Resumed:
        hook, decision = "", CONTINUE
        if line.said is not None:
            try:
                hook, decision = line.said["hook"], decision_from_json(line.said)  # type: ignore[assignment] # any decision
            except (LookupError, TypeError, ValueError):
                raise self._wrong("said: is not a decision") from None
            if not isinstance(hook, str) or decision.action not in stage.actions - {PAUSE}:
                raise self._wrong("said: is not a decision that answers for a hook here")
        return Resumed(hook, decision, line.without)

    def _continue(self, line: AskLine | AnswerLine | EndLine | AbandonedLine) -> Chain:
        chain = self._chains.get(line.chain)
        if chain is None:
            raise self._wrong(f"is of chain {line.chain}, which is not under way")
        match line:
            case AskLine():
                if line.params is not None:
                    chain.stage.payload.model_validate(line.params)
                    chain.params = line.params
                chain.waiting[line.hook] = chain.params
            case AnswerLine():
                chain.waiting.pop(line.hook, None)
                chain.answers.append(line)
                chain.params = chain.params if line.params is None else line.params
            case _:
                del self._chains[line.chain]
                if isinstance(line, AbandonedLine):
                    chain.abandoned = line.why
                    return chain
                chain.end = line
                self._ended[line.chain] = chain
                if len(self._ended) > MOST_ENDED:
                    self._ended.popitem(last=False)
        return chain

    def _would(self, line: WouldLine) -> Chain | None:
        """An answer before the end of its chain is kept in it. One that came very late has no chain."""
        chain = self._chains.get(line.chain)
        if chain is not None:
            chain.shadows.append(line)
        return chain or self._ended.get(line.chain)


def _first_of(error: ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    if detail["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        return "type: is not a line of a record"
    place = ".".join(str(step) for step in detail["loc"])
    return f"{place}: {detail['msg']}" if place else detail["msg"]
