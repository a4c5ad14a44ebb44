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
from .facts import facts_of_answer, facts_of_end
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
    OfChain,
    WireLine,
    WouldLine,
    decision_from_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...model.decisions import Decision
    from ...model.stages import Stage

MOST_ENDED = 1024
"""The chains whose hooks in shadow may answer after their end."""
LONGEST_HEADER = 4096
LONGEST_LINE = 256 << 20
"""The most bytes of a line. It holds a few payloads, each of at most one line of the protocol."""


class RecordError(PicohookError):
    """The file is not a record, or is damaged. The message names the line."""


@dataclass(slots=True)
class Chain:
    """A chain, as far as it has been read. As an entry, it is the beginning of the chain.

    After a pause it is resumed with a decision for the hook that paused, and the hooks that had decided are not asked again.
    """

    number: int
    line_number: int
    """The line of the record where it begins."""
    at: float
    stage: Stage[Any]
    asked_about: dict[str, Any]
    resumed: Resumed
    params: dict[str, Any]
    """The params as the hooks asked so far have changed them."""
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each hook that has not answered yet, by its name, the params that it was asked about."""
    answers: list[AnswerLine] = field(default_factory=list)
    shadows: list[WouldLine] = field(default_factory=list)
    """The answers of hooks in shadow that came before its end."""
    agent: str = ""
    """The agent that made this call; empty for a chain of a record."""
    succeeded: bool | None = None
    """Whether the call was made and succeeded; None if this is not known."""

    payload: Payload = field(default_factory=Payload)
    """The payload at its beginning."""


@dataclass(frozen=True, slots=True)
class HookAsked:
    """A hook is asked."""

    line_number: int
    at: float
    chain: Chain
    hook: str
    params: dict[str, Any]
    stands_in: bool
    again: bool
    """Whether a guard is asked again, in this chain or after a pause. Its second decision may not change anything."""


@dataclass(frozen=True, slots=True)
class HookAnswered:
    """A hook answered, or failed."""

    line: AnswerLine
    chain: Chain
    before: dict[str, Any]
    """The params that it was asked about."""

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that a replay compares."""
        return facts_of_answer(self.line, approves=self.chain.stage.approves)


@dataclass(frozen=True, slots=True)
class ChainEnded:
    """The outcome of a chain."""

    line: EndLine
    chain: Chain

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that a replay compares."""
        chain = self.chain
        return facts_of_end(self.line, chain.answers, None if chain.params is chain.asked_about else chain.params)


@dataclass(frozen=True, slots=True)
class ChainAbandoned:
    """The caller of a chain was cancelled."""

    at: float
    chain: Chain
    why: str


@dataclass(frozen=True, slots=True)
class EventEmitted:
    """An event, and the hooks that were told of it."""

    line_number: int
    at: float
    kind: str
    payload: dict[str, Any]
    meta: Meta
    hooks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HookInShadow:
    """What a hook in shadow would have decided. The chain has ended."""

    line: WouldLine
    end: ChainEnded


Entry = (
    HookInShadow
    | WouldLine
    | Chain
    | HookAsked
    | HookAnswered
    | ChainEnded
    | ChainAbandoned
    | EventEmitted
    | HookLine
    | WireLine
    | CloseLine
)


class Reader:
    """Takes the lines of a record one after another, and makes entries of them."""

    def __init__(self, name: str = "") -> None:
        self.header: Header | None = None
        self.chains: dict[int, Chain] = {}
        """The chains that have not ended, by number."""
        self._ended: OrderedDict[int, ChainEnded] = OrderedDict()
        """The chains that ended last, for hooks in shadow."""
        self.closed = False
        """Whether the last line said that the host ended."""
        self.checked = False
        """Whether the lines were read before, so that each is known to be strict JSON."""
        self._name = name
        self._number = 0

    def take(self, data: bytes) -> Entry | None:
        """Returns the entry of the next line; None for the header. Raises `RecordError`."""
        self._number += 1
        if self.header is None:
            self.header = self._read_header(data)
            return None
        try:
            # A line that was read before takes half the time.
            read = LINES.validate_json(data) if self.checked else LINES.validate_python(decode_own(data))
            return self._would(read) if isinstance(read, WouldLine) else self._read(read)
        except ValidationError as error:
            raise self.wrong(_first_of(error)) from None
        except ValueError as error:
            raise self.wrong(f"is not JSON: {error}") from None

    def wrong(self, why: str) -> RecordError:
        """An error about the line that was taken last."""
        return RecordError(f"{self._name}: line {self._number}: {escape(cut(why, 400))}")

    def _read_header(self, data: bytes) -> Header:
        try:
            header = Header.model_validate_json(data)
        except ValidationError:
            raise RecordError(f"{self._name}: is not a record: `--record` and `Recorder` make them") from None
        if header.version != VERSION:
            raise RecordError(
                f"{self._name}: is a record of version {header.version}, made by picohook {escape(header.picohook)}; "
                f"this one reads version {VERSION}: read it with the other"
            )
        return header

    def _read(self, line: HookLine | OfChain | EventLine | WireLine | CloseLine) -> Entry:
        if self.closed:
            raise self.wrong("comes after the end of the host")
        match line:
            case BeginLine():
                return self._begin(line)
            case EventLine():
                return self._event(line)
            case HookLine():
                self._check_settings(line.settings)
                return line
            case WireLine() | CloseLine():
                self.closed = isinstance(line, CloseLine)
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
                return HookAnswered(line, chain, before)
            case EndLine():
                del self.chains[line.chain]
                end = self._ended[line.chain] = ChainEnded(line, chain)
                if len(self._ended) > MOST_ENDED:
                    self._ended.popitem(last=False)
                return end
            case AbandonedLine():
                del self.chains[line.chain]
                return ChainAbandoned(line.at, chain, line.why)

    def _would(self, line: WouldLine) -> Entry:
        """An answer before the end of its chain is kept in it. One that came very late is passed on as it is."""
        if line.chain in self.chains:
            self.chains[line.chain].shadows.append(line)
        end = self._ended.get(line.chain)
        return line if end is None else HookInShadow(line, end)

    def _begin(self, line: BeginLine) -> Chain:
        if line.stage not in STAGES:
            raise self.wrong(f"stage: there is no stage {line.stage!r}")
        if line.chain in self.chains:
            raise self.wrong(f"chain: {line.chain} is under way already")
        stage = STAGES[line.stage]
        hook, decision = ("", CONTINUE) if line.said is None else self._decision(stage, line.said)
        payload = payload_of(stage, line.params)
        resumed = Resumed(hook, decision, line.without)
        chain = Chain(line.chain, self._number, line.at, stage, line.params, resumed, line.params, payload=payload)
        self.chains[line.chain] = chain
        return chain

    def _decision(self, stage: Stage[Any], values: dict[str, Any]) -> tuple[str, Decision]:
        try:
            hook, decision = values["hook"], decision_from_json(values)
        except (LookupError, TypeError, ValueError):
            raise self.wrong("said: is not a decision") from None
        if not isinstance(hook, str) or decision.action not in stage.actions - {PAUSE}:
            raise self.wrong("said: is not a decision that answers for a hook here")
        return hook, decision

    def _check_settings(self, settings: dict[str, Any]) -> None:
        """Raise `RecordError` for settings that would change how a program is run: the record may come from anywhere."""
        for name in settings.keys() - set(SETTINGS):
            raise self.wrong(f"settings.{name}: is not a setting of a record")
        HookSpec.model_validate(settings)

    def _ask(self, chain: Chain, line: AskLine) -> HookAsked:
        if line.params is not None:
            payload_of(chain.stage, line.params)
            chain.params = line.params
        chain.waiting[line.hook] = chain.params
        again = line.hook in chain.resumed.skip or any(answer.hook == line.hook for answer in chain.answers)
        return HookAsked(self._number, line.at, chain, line.hook, chain.params, line.stands_in, again)

    def _event(self, line: EventLine) -> EventEmitted:
        try:
            kind = known_kind(line.event)
        except ValueError as error:
            raise self.wrong(f"event: {error}") from None
        return EventEmitted(self._number, line.at, kind, line.payload, Meta.model_validate(line.meta), line.hooks)


class Record:
    """A record in a file. Iterating over it reads it once, and keeps only the chains that have not ended."""

    def __init__(self, file: IO[bytes], name: str, *, checked: bool = False) -> None:
        """`checked`: it was read before, without an error."""
        self._file = file
        self._reader = Reader(name)
        self._reader.checked = checked
        self.cut_off = False
        """Whether the last line is incomplete, as after a crash. It is skipped."""
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
                    decode_own(line)
                except ValueError:
                    self.cut_off = True
                    return
            entry = self._reader.take(line)
            assert entry is not None
            yield entry

    @property
    def closed(self) -> bool:
        """Whether it was written until the host ended."""
        return self._reader.closed

    @property
    def open_chains(self) -> list[Chain]:
        """The chains that have not ended yet."""
        return list(self._reader.chains.values())


def payload_of(stage: Stage[Any], params: dict[str, Any]) -> Payload:
    """The payload with these params."""
    payload: Payload = stage.payload.model_validate(params)
    return payload


def _first_of(error: ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    if detail["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        return "type: is not a line of a record"
    place = ".".join(str(step) for step in detail["loc"])
    return f"{place}: {detail['msg']}" if place else detail["msg"]
