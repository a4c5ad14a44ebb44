"""Reads and checks the params that a user gives: `call --params`, and the lines of a script for `run`."""

import errno
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import typer
from pydantic import Field

from ..config import syntax
from ..config.checks import validate
from ..config.problems import Problems, meant, quoted
from ..errors import ConfigError, EncodeError
from ..model.failure_policy import JSON_WORDS
from ..model.payloads import NO_META, Meta, Payload
from ..model.spec import Settings
from ..model.stages import STAGES, Stage
from ..protocol.codec import encode
from ..wire import words
from ..wire.regular_files import read_rest
from . import output


class Ask(NamedTuple):
    """A question for the hooks of a stage."""

    stage: Stage[Any]
    payload: Payload


class Tell(Settings):
    """A line of a script that tells the hooks of an event."""

    event: str
    payload: dict[str, Any] = Field(default_factory=dict)
    meta: Meta = NO_META


class _AskLine(Settings):
    stage: str
    params: dict[str, Any] = Field(default_factory=dict)


def question(stage: str, params: str) -> Ask:
    """Returns the question with the `--params` of a command: JSON, @FILE, or - for standard input.

    Print all mistakes in them, and raise `typer.Exit`.
    """
    source, data = "--params", os.fsencode(params)
    if params == "-" or params.startswith("@"):
        source = params.removeprefix("@")
        data = read_source(source)
    try:
        row = _stage_named(stage, Problems("STAGE"))
        problems = Problems(shown_name(source))
        return Ask(row, _payload(row, _object(data, problems), problems))
    except ConfigError as error:
        output.problems(error)
        if stage in STAGES:
            output.note(f"See the schema: picohook schema {stage}")
        raise typer.Exit(2) from None


def script_line(data: bytes, number: int) -> Ask | Tell:
    """Returns the question or event of a script's line. Raises `ConfigError` with all mistakes in it."""
    problems = Problems(f"line {number}")
    try:
        document = _object(data, problems)
    except ConfigError as error:
        # The parser took this line for line 1.
        raise ConfigError(
            replace(problem, where=problem.where.removeprefix("line 1, ")) for problem in error.problems
        ) from None
    if ("stage" in document) is ("event" in document):
        problems.fail("", 'has to have one of "stage" and "event"')
    if "event" in document:
        return _tell(document, problems)
    line = validate(_AskLine, document, problems, words=JSON_WORDS)
    problems.check()
    assert line is not None
    stage = _stage_named(line.stage, problems, "stage")
    return Ask(stage, _payload(stage, line.params, problems, ("params",)))


def _tell(document: Mapping[str, Any], problems: Problems) -> Tell:
    line = validate(Tell, document, problems, words=JSON_WORDS)
    problems.check()
    assert line is not None
    if line.event not in words.EVENT_KINDS and line.event not in words.RUNTIME_KINDS:
        alike = words.RUNTIME_KINDS if "." in line.event else words.EVENT_KINDS
        problems.fail("event", f"{quoted(line.event)} is not an event", meant(line.event, alike))
    _check_encodes(line.payload, problems, ("payload",))
    return line


def _stage_named(name: str, problems: Problems, at: str = "") -> Stage[Any]:
    if name not in STAGES:
        problems.fail(at, f"{quoted(name)} is not a stage", meant(name, STAGES))
    return STAGES[name]


def _payload(stage: Stage[Any], params: Any, problems: Problems, at: tuple[str, ...] = ()) -> Payload:
    payload: Payload | None = validate(stage.payload, params, problems, at, words=JSON_WORDS)
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
    """Returns the JSON object. Duplicate keys become problems."""
    if not data.strip():
        problems.fail("", "is empty", "write {} for no params")
    try:
        # The size of a line is the only limit here. The limits of a configuration do not apply.
        document, repeated = syntax.parse(data, ".json", problems, values=sys.maxsize, depth=sys.maxsize)
    except ConfigError as error:
        table = "a table of keys and values"  # a configuration's word, since it may have other formats
        raise ConfigError(
            replace(problem, message=problem.message.replace(table, "an object")) for problem in error.problems
        ) from None
    for key in repeated:
        problems.add(key, "is given twice")
    return document


def complaint(error: ConfigError) -> str:
    """Returns all problems in one line, without the file name."""
    return "; ".join(str(problem).removeprefix(f"{problem.file}: ") for problem in error.problems)


def read_source(name: str) -> bytes:
    """Returns the content of a file, or of standard input for `-`. Raises `typer.BadParameter` if it is too long for a line."""
    try:
        return read_rest(open(open_source(name), "rb"), words.MAX_LINE)
    except OSError as error:
        raise _unreadable(name, error) from None


def open_source(name: str) -> int:
    """Open a file, or standard input for `-`. Opening a named pipe waits for its writer."""
    try:
        descriptor = os.dup(0) if name == "-" else os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        return descriptor
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def shown_name(name: str) -> str:
    """Returns a file name for messages."""
    return "standard input" if name == "-" else name


def _unreadable(name: str, error: OSError | ValueError) -> typer.BadParameter:
    why = error.strerror if isinstance(error, OSError) else "its name holds a NUL character"
    return typer.BadParameter(f"{shown_name(name)} cannot be read: {why}")
