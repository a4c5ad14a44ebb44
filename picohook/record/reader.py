"""Reading a record, line by line, with what belongs to each chain kept until that chain is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from ..errors import PicohookError
from ..model.events import known_kind
from ..model.payloads import Meta
from ..model.spec import HookSpec
from ..model.stages import STAGES
from ..protocol.codec import decode_value
from ..wire.text import cut, escape
from ..wire.words import PAUSE
from .form import (
    KEPT,
    LINES,
    VERSION,
    AbandonedLine,
    AnswerLine,
    AnyLine,
    AskLine,
    BeginLine,
    CloseLine,
    EndLine,
    EventLine,
    Header,
    HookLine,
    WireLine,
    decision_from_json,
    facts_of_answer,
    facts_of_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model.decisions import Decision
    from ..model.payloads import Payload
    from ..model.stages import Stage

LONGEST_HEADER = 4096
LONGEST_LINE = 256 << 20
"""A line holds at most a few payloads, each of at most one line of the protocol."""


class RecordError(PicohookError):
    """What was given is no record, or one that was damaged; the message names the line."""


@dataclass(slots=True)
class Chain:
    """A chain, as far as it was read."""

    number: int
    line: int
    """Where it begins in the record."""
    at: float
    stage: Stage[Any]
    asked_about: dict[str, Any]
    said: tuple[str, Decision] | None
    without: tuple[str, ...]
    params: dict[str, Any]
    """What the hooks asked so far have made of it."""
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What hooks were asked about, that have not answered yet."""
    answers: list[AnswerLine] = field(default_factory=list)

    def payload(self) -> Payload:
        """What it was asked about."""
        return payload_of(self.stage, self.asked_about)


@dataclass(frozen=True, slots=True)
class Begun:
    """A chain begins."""

    chain: Chain


@dataclass(frozen=True, slots=True)
class Ask:
    """A hook is asked."""

    line: int
    at: float
    chain: Chain
    hook: str
    params: dict[str, Any]
    stands_in: bool
    again: bool
    """It has decided already, in this chain or before it: a guard, that may no longer change anything."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking a hook."""

    said: AnswerLine
    chain: Chain
    before: dict[str, Any]
    """What it was asked about."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a replay is held to."""
        return facts_of_answer(self.said, approves=self.chain.stage.approves)


@dataclass(frozen=True, slots=True)
class End:
    """What a chain concluded."""

    said: EndLine
    chain: Chain

    @property
    def facts(self) -> dict[str, Any]:
        """What a replay is held to."""
        return facts_of_end(self.said, self.chain.answers, self.chain.params)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A chain came to nothing."""

    at: float
    chain: Chain
    why: str


@dataclass(frozen=True, slots=True)
class Told:
    """An event."""

    line: int
    at: float
    kind: str
    payload: dict[str, Any]
    meta: Meta
    hooks: tuple[str, ...]


Entry = Begun | Ask | Answer | End | Abandoned | Told | HookLine | WireLine | CloseLine


class Reader:
    """Takes the lines of a record, one after another, and says what they mean. Raises `RecordError`."""

    def __init__(self, name: str = "") -> None:
        self.header: Header | None = None
        self.chains: dict[int, Chain] = {}
        """Those that are not over."""
        self.closed = False
        """Whether the last line was that the host has ended."""
        self._name = name
        self._number = 0

    def take(self, data: bytes) -> Entry | None:
        """What the next line means; None for the header."""
        self._number += 1
        try:
            value = decode_value(data)
        except ValueError as error:
            raise (self.wrong(f"is not JSON: {error}") if self.header else self._no_record()) from None
        if self.header is None:
            self.header = self._read_header(value)
            return None
        try:
            return self._read(LINES.validate_python(value))
        except ValidationError as error:
            raise self.wrong(_first_of(error)) from None

    def wrong(self, why: str) -> RecordError:
        """What is wrong with the line that was taken last."""
        return RecordError(f"{self._name}: line {self._number}: {escape(cut(why, 400))}")

    def _no_record(self) -> RecordError:
        return RecordError(f"{self._name}: is no record: `--record` and `Recorder` make them")

    def _read_header(self, value: Any) -> Header:
        try:
            header = Header.model_validate(value)
        except ValidationError:
            raise self._no_record() from None
        if header.version != VERSION:
            raise RecordError(
                f"{self._name}: is a record of version {header.version}, made by picohook {escape(header.picohook)}; "
                f"this one reads version {VERSION}"
            )
        return header

    def _read(self, line: AnyLine) -> Entry:
        if self.closed:
            raise self.wrong("comes after the end of the host")
        match line:
            case BeginLine():
                return Begun(self._begin(line))
            case EventLine():
                return self._event(line)
            case HookLine():
                self._check_settings(line.settings)
                return line
            case WireLine():
                return line
            case CloseLine():
                self.closed = True
                return line
        chain = self.chains.get(line.chain)
        if chain is None:
            raise self.wrong(f"is of chain {line.chain}, which is not under way")
        match line:
            case AskLine():
                return self._ask(chain, line)
            case AnswerLine():
                before = chain.waiting.pop(line.hook, chain.params)
                chain.answers.append(line)
                chain.params = chain.params if line.params is None else line.params
                return Answer(line, chain, before)
            case EndLine():
                del self.chains[line.chain]
                return End(line, chain)
            case AbandonedLine():
                del self.chains[line.chain]
                return Abandoned(line.at, chain, line.why)

    def _begin(self, line: BeginLine) -> Chain:
        if line.stage not in STAGES:
            raise self.wrong(f"stage: there is no stage {line.stage!r}")
        if line.chain in self.chains:
            raise self.wrong(f"chain: {line.chain} is under way already")
        stage = STAGES[line.stage]
        said = None if line.said is None else self._said(stage, line.said)
        payload_of(stage, line.params)
        chain = Chain(line.chain, self._number, line.at, stage, line.params, said, line.without, line.params)
        self.chains[line.chain] = chain
        return chain

    def _said(self, stage: Stage[Any], given: dict[str, Any]) -> tuple[str, Decision]:
        try:
            hook, decision = given["hook"], decision_from_json(given)
        except (LookupError, TypeError, ValueError):
            raise self.wrong("said: is no decision") from None
        if not isinstance(hook, str) or decision.action not in stage.actions - {PAUSE}:
            raise self.wrong("said: is no decision that answers for a hook here")
        return hook, decision

    def _check_settings(self, settings: dict[str, Any]) -> None:
        """They come to apply to a program: a record that somebody made has no say in how that is run."""
        for name in settings.keys() - set(KEPT):
            raise self.wrong(f"settings.{name}: is none that a record has")
        HookSpec.model_validate(settings)

    def _ask(self, chain: Chain, line: AskLine) -> Ask:
        if line.params is not None:
            payload_of(chain.stage, line.params)
            chain.params = line.params
        chain.waiting[line.hook] = chain.params
        again = line.hook in chain.without or any(answer.hook == line.hook for answer in chain.answers)
        return Ask(self._number, line.at, chain, line.hook, chain.params, line.stands_in, again)

    def _event(self, line: EventLine) -> Told:
        try:
            kind = known_kind(line.event)
        except ValueError as error:
            raise self.wrong(f"event: {error}") from None
        return Told(self._number, line.at, kind, line.payload, Meta.model_validate(line.meta), line.hooks)


class Record:
    """A record in a file. Iterating over it reads it once, and holds no more of it than the chains that are under way."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._reader = Reader(name)
        self.cut_off = False
        """Whether the last line is not whole, as after a crash: it is left out."""
        first = file.readline(LONGEST_HEADER)
        if not first:
            raise RecordError(f"{name}: is empty")
        self._reader.take(first)
        assert self._reader.header is not None
        self.header = self._reader.header

    def __iter__(self) -> Iterator[Entry]:
        while line := self._file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise self._reader.wrong(f"comes before a line of more than {LONGEST_LINE >> 20} MiB")
            if not line.endswith(b"\n"):
                try:
                    decode_value(line)
                except ValueError:
                    self.cut_off = True
                    return
            entry = self._reader.take(line)
            assert entry is not None
            yield entry

    @property
    def closed(self) -> bool:
        """Whether it was written to the end of the host."""
        return self._reader.closed

    @property
    def open_chains(self) -> list[Chain]:
        """Those that have not ended, so far."""
        return list(self._reader.chains.values())


def payload_of(stage: Stage[Any], params: dict[str, Any]) -> Payload:
    """The params of a request as the payload that they were made of."""
    payload: Payload = stage.payload.model_validate(params)
    return payload


def _first_of(error: ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    if detail["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        return "type: is none that a record has"
    place = ".".join(str(step) for step in detail["loc"])
    return f"{place}: {detail['msg']}" if place else detail["msg"]
