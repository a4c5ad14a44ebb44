"""Checks of all output of a hook in one run: one for each requirement with a `watch`."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model.stages import STAGES
from ..wire import words
from ..wire.answer_fields import misspelled, understand
from ..wire.text import cut, escape
from .outcome import has_half_pair, shown, strictly

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ..model.stages import Stage
    from .process import OutputLine

    LineCheck = Callable[["Output"], Iterator[str]]

LONGEST_LINE = 16 << 20
"""The most bytes that a line may have before its newline, unless a profile has fewer."""
NAME = 80
"""The most bytes of a name that a message shows."""


class Output(NamedTuple):
    """The output of a hook in one run."""

    lines: Sequence[OutputLine]
    sent: Collection[object]
    """The ids of all messages that were sent to it."""
    asked: Mapping[int, str] = MappingProxyType({})
    """The methods of the requests that were sent to it, by id."""
    longest_line: int = LONGEST_LINE
    """The most bytes that a line may have before its newline."""

    @property
    def messages(self) -> Iterator[dict[str, Any]]:
        """The objects on its lines."""
        return (line.message for line in self.lines if line.ended and line.message is not None)

    @property
    def answers(self) -> Iterator[dict[str, Any]]:
        """The messages that are answers."""
        return (message for message in self.messages if "method" not in message)

    @property
    def results(self) -> Iterator[tuple[Stage[Any], dict[str, Any], dict[str, Any]]]:
        """The results of stages: each with its stage and its whole message."""
        for message in self.answers:
            request_id, result = message.get("id"), message.get("result")
            method = self.asked.get(request_id, "") if type(request_id) is int else ""
            stage = STAGES.get(method.removeprefix("hook."))
            if stage is not None and isinstance(result, dict):
                yield stage, result, message


def _answered_again(output: Output) -> Iterator[str]:
    answered: set[object] = set()
    for message in output.answers:
        request_id = message.get("id")
        if type(request_id) is int and request_id in answered:
            yield f"it answered once more: {shown(message)}"
        answered.add(request_id if isinstance(request_id, int) else None)


def _answers_nothing(output: Output) -> Iterator[str]:
    known = {request_id for request_id in output.sent if type(request_id) is int}
    for message in output.answers:
        request_id = message.get("id")
        unreadable = request_id is None and message.get("error") is not None
        if not unreadable and not (type(request_id) is int and request_id in known):
            yield f"no request has the id of {shown(message)}"


def _has_bad_error(message: dict[str, Any]) -> bool:
    error = message.get("error")
    good = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    return error is not None and not good


def _not_offered(output: Output) -> Iterator[str]:
    offered: dict[str, Any] = {}
    for message in output.messages:
        if "method" in message:
            told = {words.LOG: "log", words.PROGRESS: "progress"}.get(message["method"], "")
            if "id" in message or offered.get(told) is not True:
                yield f"it sent {shown(message)}"
        elif type(message.get("id")) is int and message["id"] == 1 and isinstance(message.get("result"), dict):
            given = message["result"].get("capabilities")
            offered = given if isinstance(given, dict) else {}


def _decides_nothing(output: Output) -> Iterator[str]:
    for stage, result, message in output.results:
        if not stage.approves:
            try:
                understand(stage.form, result)
            except ValueError as error:
                yield f"it answered {shown(message)}: {error}"


def _misspelled(output: Output) -> Iterator[str]:
    for stage, result, message in output.results:
        with suppress(ValueError):  # STAGE-10 reports it
            for name in misspelled(stage.form, result):
                yield f"it wrote `{escape(cut(name, NAME))}` in {shown(message)}"


def _is_not_utf_8(line: OutputLine) -> str:
    try:
        text = line.data.decode()
    except UnicodeDecodeError as error:
        return f"it wrote {shown(line.data)}: {error.reason}"
    if text.startswith("\ufeff"):
        return f"it wrote a byte order mark: {shown(line.data)}"
    if line.message is not None and has_half_pair(line.message):
        return f"it wrote half a surrogate pair: {shown(line.data)}"
    return ""


def _oddity(said: str, line: OutputLine, kind: int) -> str:
    """Returns what is wrong with an object on the line: a key that it has twice, or a number that JSON does not have."""
    odd = () if line.message is None else strictly(line.data.decode("utf-8-sig", "replace"))[kind]
    return next((f"{said.format(found)}: {shown(line.data)}" for found in odd), "")


def _is_too_long(output: Output) -> Iterator[str]:
    for line in output.lines:
        if len(line.data) > output.longest_line:
            yield f"it wrote a line of {len(line.data)} bytes, past {output.longest_line}: {shown(line.data)}"


def _messages(bad: Callable[[dict[str, Any]], bool], *, answers: bool = False) -> LineCheck:
    """Returns a check of each message, or of each answer."""
    return lambda output: (
        f"it wrote {shown(message)}" for message in (output.answers if answers else output.messages) if bad(message)
    )


def _lines(complaint: Callable[[OutputLine], str]) -> LineCheck:
    """Returns a check of each line."""
    return lambda output: filter(None, map(complaint, output.lines))


LINE_CHECKS: dict[str, LineCheck] = {
    "ID-2": _answered_again,
    "ID-3": _answers_nothing,
    "REPLY-1": _messages(lambda message: message.get("jsonrpc") != "2.0"),
    "REPLY-2": _messages(lambda said: (said.get("error") is not None) is ("result" in said), answers=True),
    "REPLY-3": _messages(_has_bad_error, answers=True),
    "REPLY-4": _lines(lambda line: _oddity("the key `{}` is there twice", line, 1)),
    "REPLY-5": _not_offered,
    "STAGE-10": _decides_nothing,
    "STAGE-11": _misspelled,
    "STDOUT-1": _lines(lambda line: f"it wrote {shown(line.data)}" if line.ended and line.message is None else ""),
    "STDOUT-2": _lines(_is_not_utf_8),
    "STDOUT-3": _lines(lambda line: _oddity("it wrote {}", line, 2)),
    "STDOUT-4": _lines(lambda line: "" if line.ended else f"its last line has no newline: {shown(line.data)}"),
    "STDOUT-5": _is_too_long,
}
"""The check of each requirement with a `watch`: it yields what is wrong."""
