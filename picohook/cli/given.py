"""What the user gives to be asked about, read and checked before anything is started."""

import errno
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer
from pydantic import Field

from ..config import syntax
from ..config.checks import validate
from ..config.problems import Problems, meant, quoted
from ..errors import ConfigError, EncodeError
from ..model.decisions import Outcome
from ..model.payloads import NO_META, Meta, Payload
from ..model.policy import JSON_WORDS
from ..model.spec import Settings
from ..model.stages import STAGES, Stage
from ..protocol.codec import encode
from ..wire import words
from ..wire.regular_files import read_open

if TYPE_CHECKING:
    from ..host import Host

_KINDS = frozenset({*words.EVENT_KINDS, *words.RUNTIME_KINDS})
"""The events, by either of their names."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A line of a script that asks a stage."""

    stage: Stage[Any]
    payload: Payload

    async def ask(self, host: "Host") -> Outcome[Any]:
        """Ask the host."""
        outcome: Outcome[Any] = await getattr(host, self.stage.name)(self.payload)
        return outcome


class Tell(Settings):
    """A line of a script that tells of an event."""

    event: str
    payload: dict[str, Any] = Field(default_factory=dict)
    meta: Meta = NO_META


class _AskLine(Settings):
    stage: str
    params: dict[str, Any] = Field(default_factory=dict)


def question(stage: str, params: bytes, source: str) -> Ask:
    """What `picohook call` wants, or `ConfigError` with all that is wrong with it."""
    asked = _stage_named(stage, Problems("STAGE"))
    problems = Problems("standard input" if source == "-" else source)
    return Ask(asked, _payload(asked, _object(params, problems), problems))


def script_line(data: bytes, number: int) -> Ask | Tell:
    """What a line of a script wants, or `ConfigError` with all that is wrong with it."""
    problems = Problems(f"line {number}")
    try:
        document = _object(data, problems)
    except ConfigError as error:
        # To the parser this is line 1.
        raise ConfigError(
            replace(problem, where=problem.where.removeprefix("line 1, ")) for problem in error.problems
        ) from None
    match "stage" in document, "event" in document:
        case True, True:
            problems.fail("", 'has both "stage" and "event"', "keep one of them")
        case False, True:
            return _tell(document, problems)
        case False, False:
            problems.fail("", 'has neither "stage" nor "event"')
    line = validate(_AskLine, document, problems, words=JSON_WORDS)
    problems.check()
    assert line is not None
    stage = _stage_named(line.stage, problems, "stage")
    return Ask(stage, _payload(stage, line.params, problems, ("params",)))


def _tell(document: Mapping[str, Any], problems: Problems) -> Tell:
    line = validate(Tell, document, problems, words=JSON_WORDS)
    problems.check()
    assert line is not None
    if line.event in STAGES:
        problems.fail(
            "event", f"{quoted(line.event)} is a stage", 'say "stage" for "event", and "params" for "payload"'
        )
    if line.event not in _KINDS:
        alike = words.RUNTIME_KINDS if "." in line.event else words.EVENT_KINDS
        problems.fail("event", f"{quoted(line.event)} is not an event", meant(line.event, alike))
    _check_encodes(line.payload, problems, ("payload",))
    return line


def _stage_named(name: str, problems: Problems, at: str = "") -> Stage[Any]:
    if name in _KINDS and at:
        problems.fail(at, f"{quoted(name)} is an event", 'say "event" for "stage", and "payload" for "params"')
    if name not in STAGES:
        problems.fail(at, f"{quoted(name)} is not a stage", meant(name, STAGES))
    return STAGES[name]


def _payload(stage: Stage[Any], given: Any, problems: Problems, at: tuple[str, ...] = ()) -> Payload:
    payload: Payload | None = validate(stage.payload, given, problems, at, words=JSON_WORDS)
    problems.check()
    assert payload is not None
    _check_encodes(payload.wire(), problems, at)
    return payload


def _check_encodes(value: Any, problems: Problems, at: tuple[str, ...]) -> None:
    try:
        encode(value)
    except EncodeError as error:
        problems.fail(at, str(error))


def _object(data: bytes, problems: Problems) -> dict[str, Any]:
    """The JSON object; keys that it gives twice are noted."""
    if not data.strip():
        problems.fail("", "is empty", "{} is the least there can be")
    try:
        # A payload's bound is that of a line, not that of a configuration.
        document, repeated = syntax.parse(data, ".json", problems, values=sys.maxsize, depth=sys.maxsize)
    except ConfigError as error:
        table = "a table of keys and values"  # as it is called where JSON is one format of several
        raise ConfigError(
            replace(problem, message=problem.message.replace(table, "an object")) for problem in error.problems
        ) from None
    for key in repeated:
        problems.add(key, "is given twice")
    return document


def complaint(error: ConfigError) -> str:
    """All that is wrong, without the place that the caller knows."""
    return "; ".join(str(problem).removeprefix(f"{problem.file}: ") for problem in error.problems)


def read_source(name: str) -> bytes:
    """All of a file, or of standard input for `-`. More than a line of the protocol can be is wrong usage."""
    descriptor = open_source(name)
    try:
        return read_open(descriptor, words.MAX_LINE)
    except OSError as error:
        raise _unreadable(name, error) from None
    finally:
        if descriptor:
            os.close(descriptor)


def open_source(name: str) -> int:
    """A descriptor to read a file from, or standard input for `-`. A pipe is waited for: the user named it."""
    try:
        descriptor = 0 if name == "-" else os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        return descriptor
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError | ValueError) -> typer.BadParameter:
    why = error.strerror if isinstance(error, OSError) else "its name holds a NUL character"
    shown = "standard input" if name == "-" else name
    return typer.BadParameter(f"{shown} cannot be read: {why}")
