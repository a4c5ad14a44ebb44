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
from .format import SETTINGS, VERSION, Line, decision_from_json, mistake_in

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
    resumed: Resumed | None = None
    params: dict[str, Any] = field(default_factory=dict)
    """The params as the hooks asked so far have changed them."""
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each hook that has not answered yet, by its name, the params that it was asked about."""
    answers: list[Line] = field(default_factory=list)
    shadows: list[Line] = field(default_factory=list)
    """The answers of hooks in shadow that came before its end."""
    end: Line | None = None
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


Entry = tuple[Line, Chain | None]
"""A line of a record, and the chain that it is about."""


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
            self.header = header = decode_own(first)
            texts = (header["type"], header["time"], header["picohook"])
            is_record = texts[0] == "record" and all(isinstance(text, str) for text in texts)
            version = header["version"] if is_record else None
        except (ValueError, LookupError, TypeError):
            version = None
        if not isinstance(version, int):
            raise RecordError(f"{name}: is not a record: `--record` and `Recorder` make them")
        if version != VERSION:
            raise RecordError(
                f"{name}: is a record of version {version}, made by picohook {escape(header['picohook'])}; "
                f"this one reads version {VERSION}: read it with the other"
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
                line = decode_own(data)
            except ValueError as error:
                raise self._wrong(f"is not JSON: {error}") from None
            if not self._checked and (mistake := mistake_in(line)):
                raise self._wrong(mistake)
            try:
                chain = self._place(line)
            except ValidationError as error:
                raise self._wrong(_first_of(error)) from None
            yield line, chain

    def _wrong(self, why: str) -> RecordError:
        """An error about the line that was read last."""
        return RecordError(f"{self.name}: line {self.number}: {escape(cut(why, 400))}")

    def _place(self, line: Line) -> Chain | None:
        """Check what the form of a line does not say, and returns its chain."""
        kind = line["type"]
        if self.closed and kind != "would":
            raise self._wrong("comes after the end of the host")
        if kind == "begin":
            return self._begin(line)
        if "chain" in line:
            return self._continue(kind, line)
        if kind == "event":
            Meta.model_validate(line.get("meta", {}))
            try:
                known_kind(line["event"])
            except ValueError as error:
                raise self._wrong(f"event: {error}") from None
        elif kind == "hook":
            # Other settings would change how a program is run, and the record may come from anywhere.
            for name in line["settings"].keys() - set(SETTINGS):
                raise self._wrong(f"settings.{name}: is not a setting of a record")
            HookSpec.model_validate(line["settings"])
        self.closed = self.closed or kind == "close"
        return None

    def _begin(self, line: Line) -> Chain:
        number, params = line["chain"], line["params"]
        stage = STAGES.get(line["stage"])
        if stage is None:
            raise self._wrong(f"stage: there is no stage {line['stage']!r}")
        if number in self._chains:
            raise self._wrong(f"chain: {number} is under way already")
        payload = stage.payload.model_validate(params)
        chain = Chain(number, self.number, line["at"], stage, params, payload, params=params)
        if "said" in line or "without" in line:
            hook, decision = self._said(stage, line["said"]) if "said" in line else ("", CONTINUE)
            chain.resumed = Resumed(hook, decision, line.get("without", ()))
        self._chains[number] = chain
        return chain

    def _said(self, stage: Stage[Any], said: dict[str, Any]) -> tuple[str, Decision]:
        try:
            hook, decision = said["hook"], decision_from_json(said)
        except (LookupError, TypeError, ValueError):
            raise self._wrong("said: is not a decision") from None
        if not isinstance(hook, str) or decision.action not in stage.actions - {PAUSE}:
            raise self._wrong("said: is not a decision that answers for a hook here")
        return hook, decision

    def _continue(self, kind: str, line: Line) -> Chain | None:
        number = line["chain"]
        chain = self._chains.get(number)
        if kind == "would":  # before the end of its chain it is kept there, and one that comes very late has no chain
            if chain is not None:
                chain.shadows.append(line)
            return chain or self._ended.get(number)
        if chain is None:
            raise self._wrong(f"is of chain {number}, which is not under way")
        if kind == "ask":
            if "params" in line:
                chain.stage.payload.model_validate(line["params"])
            chain.params = line.get("params", chain.params)
            chain.waiting[line["hook"]] = chain.params
        elif kind == "answer":
            chain.params = line.get("params", chain.params)
            chain.waiting.pop(line["hook"], None)
            chain.answers.append(line)
        else:
            del self._chains[number]
            if kind == "abandoned":
                chain.abandoned = line["why"]
                return chain
            chain.end = line
            self._ended[number] = chain
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)
        return chain


def _first_of(error: ValidationError) -> str:
    detail = error.errors(include_url=False)[0]
    place = ".".join(str(step) for step in detail["loc"])
    return f"{place}: {detail['msg']}" if place else detail["msg"]
