"""Checks of all output of a hook in one run: a function for each requirement with a `watch`.

Each returns what is wrong, or None.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from math import isinf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model.stages import STAGES
from ..wire import words
from ..wire.answer_fields import misspelled, understand
from ..wire.text import cut, escape
from .outcome import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ..model.stages import Stage
    from .process import OutputLine

LONGEST_LINE = 16 << 20
"""The most bytes that a line may have before its newline, unless a profile has fewer."""
NAME = 80
"""The most bytes of a name that a message shows."""
_HALF_PAIR = re.compile("[\ud800-\udfff]")


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


def id_2(output: Output) -> str | None:
    """No id is answered twice."""
    answered: set[object] = set()
    for message in output.answers:
        request_id = message.get("id")
        if type(request_id) is int and request_id in answered:
            return f"it answered once more: {shown(message)}"
        answered.add(request_id if isinstance(request_id, int) else None)
    return None


def id_3(output: Output) -> str | None:
    """Every answer has the id of a message that was sent."""
    known = {request_id for request_id in output.sent if type(request_id) is int}
    for message in output.answers:
        request_id = message.get("id")
        unreadable = request_id is None and message.get("error") is not None
        if not unreadable and not (type(request_id) is int and request_id in known):
            return f"no request has the id of {shown(message)}"
    return None


def reply_1(output: Output) -> str | None:
    """Every message has "jsonrpc": "2.0"."""
    return _first_bad(output.messages, lambda message: message.get("jsonrpc") == "2.0")


def reply_2(output: Output) -> str | None:
    """An answer has a result or an error, and not both."""
    return _first_bad(output.answers, lambda said: (said.get("error") is not None) is not ("result" in said))


def reply_3(output: Output) -> str | None:
    """An error has a code and a message."""

    def good(message: dict[str, Any]) -> bool:
        error = message.get("error")
        return error is None or (
            isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
        )

    return _first_bad(output.answers, good)


def reply_4(output: Output) -> str | None:
    """No object has a key twice."""
    doubled = ((key, line) for line in output.lines for key in _oddities(line)[0])
    return next((f"the key `{key}` is there twice: {shown(line.data)}" for key, line in doubled), None)


def reply_5(output: Output) -> str | None:
    """The hook sends no requests, and only notifications that its capabilities name."""
    offered: dict[str, Any] = {}
    for message in output.messages:
        if "method" in message:
            told = {words.LOG: "log", words.PROGRESS: "progress"}.get(message["method"], "")
            if "id" in message or offered.get(told) is not True:
                return f"it sent {shown(message)}"
        elif type(message.get("id")) is int and message["id"] == 1 and isinstance(message.get("result"), dict):
            given = message["result"].get("capabilities")
            offered = given if isinstance(given, dict) else {}
    return None


def stage_10(output: Output) -> str | None:
    """An answer that has content decides something."""
    for stage, result, message in output.results:
        if not stage.approves:
            try:
                understand(stage.form, result)
            except ValueError as error:
                return f"it answered {shown(message)}: {error}"
    return None


def stage_11(output: Output) -> str | None:
    """Names are written as the protocol writes them."""
    for stage, result, message in output.results:
        try:
            names = misspelled(stage.form, result)
        except ValueError:
            continue  # stage_10 reports it
        if names:
            return f"it wrote `{escape(cut(names[0], NAME))}` in {shown(message)}"
    return None


def stdout_1(output: Output) -> str | None:
    """Every line is a JSON object."""
    return next((f"it wrote {shown(line.data)}" for line in output.lines if line.ended and line.message is None), None)


def stdout_2(output: Output) -> str | None:
    """Every line is UTF-8."""
    for line in output.lines:
        try:
            text = line.data.decode()
        except UnicodeDecodeError as error:
            return f"it wrote {shown(line.data)}: {error.reason}"
        if text.startswith("\ufeff"):
            return f"it wrote a byte order mark: {shown(line.data)}"
        if line.message is not None and _HALF_PAIR.search(json.dumps(line.message, ensure_ascii=False)):
            return f"it wrote half a surrogate pair: {shown(line.data)}"
    return None


def stdout_3(output: Output) -> str | None:
    """Every number is one of JSON's."""
    odd = ((number, line) for line in output.lines for number in _oddities(line)[1])
    return next((f"it wrote {number}: {shown(line.data)}" for number, line in odd), None)


def stdout_4(output: Output) -> str | None:
    """The last line ends with a newline."""
    return next((f"its last line has no newline: {shown(line.data)}" for line in output.lines if not line.ended), None)


def stdout_5(output: Output) -> str | None:
    """No line is longer than what its host reads."""
    most = output.longest_line
    long = (line for line in output.lines if len(line.data) > most)
    return next((f"it wrote a line of {len(line.data)} bytes, past {most}: {shown(line.data)}" for line in long), None)


def _first_bad(messages: Iterable[dict[str, Any]], good: Callable[[dict[str, Any]], bool]) -> str | None:
    return next((f"it wrote {shown(message)}" for message in messages if not good(message)), None)


def _oddities(line: OutputLine) -> tuple[list[str], list[str]]:
    """Returns the keys that an object on the line has twice, and the numbers that JSON does not have."""
    doubled: list[str] = []
    odd: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        doubled.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return dict(pairs)

    def number(text: str) -> float:
        odd.extend([text] if isinf(float(text)) else [])
        return 0.0

    if line.message is not None:
        text = line.data.decode("utf-8-sig", "replace")
        json.loads(text, object_pairs_hook=build, parse_float=number, parse_constant=odd.append)
    return doubled, odd


LINE_CHECKS: dict[str, Callable[[Output], str | None]] = {
    check.__name__.upper().replace("_", "-"): check
    for check in (
        id_2,
        id_3,
        reply_1,
        reply_2,
        reply_3,
        reply_4,
        reply_5,
        stage_10,
        stage_11,
        stdout_1,
        stdout_2,
        stdout_3,
        stdout_4,
        stdout_5,
    )
}
