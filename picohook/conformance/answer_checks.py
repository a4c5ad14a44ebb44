"""Checks of one answer: a function for each `like` of a step. It raises `Failed` or `Skipped`, or returns if all is well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..model.apply_edit import apply_edit
from ..model.conversation import text_of
from ..model.decisions import Modify, Respond
from ..model.replies import read_decision
from ..model.stages import AFTER_LLM, STAGES
from ..wire import words
from .line_checks import LONGEST_LINE
from .outcome import Failed, Skipped, difference, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ..model.decisions import Decision
    from ..model.stages import Stage
    from .process import HookProcess, OutputLine


@dataclass(frozen=True, slots=True)
class Expectations:
    """The answers that are expected of this hook."""

    modes: tuple[str, ...] = ()
    """The modes that `hook.hello` names."""
    claimed: frozenset[str] = frozenset()
    """The stages that its author says it serves."""
    longest_line: int = LONGEST_LINE
    """The most bytes of a line that the system reads for which the hook is written."""
    actions: frozenset[str] | None = None
    """The actions of the system that the hook is written for; None for all actions of the protocol."""
    refusal: tuple[Any, str] | None = None
    """The hook's error for an unknown method, with a placeholder for the method's name; None if it has not shown one."""

    def with_refusal(self, lines: Iterable[OutputLine], methods: Mapping[int, str]) -> Expectations:
        """Returns the same with its error for `hook.of_tomorrow`, if one of these lines is that answer."""
        for message in (line.message or {} for line in lines):
            request_id = message.get("id")
            asked = methods.get(request_id) if type(request_id) is int else None
            if asked == UNKNOWN and isinstance(message.get("error"), dict):
                return replace(self, refusal=_refusal(message["error"], UNKNOWN))
        return self


HELLO_ID = 1
"""The id of hook.hello."""
PING = "ping"
"""The capability of CALL-4."""
UNKNOWN = "hook.of_tomorrow"
"""The method of CALL-2, which no hook has."""


def _refusal(error: Mapping[str, Any], method: str) -> tuple[Any, str]:
    return error.get("code"), str(error.get("message")).replace(method, "$METHOD")


class ReceivedAnswer:
    """An answer with its request."""

    def __init__(
        self,
        message: dict[str, Any],
        *,
        process: HookProcess,
        question: Mapping[str, Any],
        step: Mapping[str, Any],
        expectations: Expectations,
    ) -> None:
        self.message = message
        self.process = process
        self.method: str = question["method"]
        self.params: Mapping[str, Any] = question["params"]
        self.step = step
        self.stage = self.method.removeprefix("hook.")
        self.expectations = expectations
        self.claimed = self.stage in expectations.claimed
        """Whether the hook's author lists this stage."""

    @property
    def error(self) -> Any:
        """The error of an answer; None for a result."""
        return self.message.get("error")

    @property
    def result(self) -> Any:
        """The result of an answer; None for an error."""
        return self.message.get("result")

    @property
    def unknown_method(self) -> bool:
        """Whether the hook refuses this method, with -32601 or with its own error for unknown methods."""
        return self.has_code or (
            isinstance(self.error, dict) and _refusal(self.error, self.method) == self.expectations.refusal
        )

    @property
    def has_code(self) -> bool:
        """Whether the hook refuses this method with -32601."""
        return isinstance(self.error, dict) and self.error.get("code") == words.METHOD_NOT_FOUND

    def offers(self, capability: str) -> bool:
        """Whether the hook offered this in its answer to hello."""
        hello = next((line.message for line in self.process.lines if (line.message or {}).get("id") == HELLO_ID), None)
        return _members(_members(_members(hello).get("result")).get("capabilities")).get(capability) is True

    def fail(self, expected: str) -> Failed:
        """Returns a failure that names the expected answer and this one."""
        return Failed(f"{expected} as the answer to {self.method}", f"it answered {shown(self.message)}")


def reply(answer: ReceivedAnswer) -> None:
    """Accept any answer."""


def result(answer: ReceivedAnswer) -> None:
    """Require a result, and no error."""
    if answer.error is not None or "result" not in answer.message:
        raise answer.fail("a result")


def handled(answer: ReceivedAnswer) -> None:
    """Require a result, or a refusal of the method."""
    if not answer.unknown_method:
        result(answer)


def unknown_method(answer: ReceivedAnswer) -> None:
    """Require the error -32601."""
    if not answer.has_code:
        raise answer.fail(f"the error {words.METHOD_NOT_FOUND}")


# hook.hello


def welcome(answer: ReceivedAnswer) -> None:
    """Require that the hook agrees to serve."""
    handled(answer)
    said = _members(answer.result)
    version = said.get("version", words.VERSION)
    if said.get("ok") is False or type(version) is not int or version != words.VERSION:
        raise answer.fail(f"no `ok: false`, and no version but {words.VERSION},")


def first(answer: ReceivedAnswer) -> None:
    """Require that this is the first line."""
    earliest = answer.process.lines[0]
    if earliest.message != answer.message:
        raise Failed("the answer to hook.hello as its first line", f"it wrote {shown(earliest.data)}")


def named(answer: ReceivedAnswer) -> None:
    """Require `ok: true` and a name."""
    said = _members(answer.result)
    if said.get("ok") is not True or not isinstance(said.get("name"), str) or not said["name"]:
        raise answer.fail('{"ok": true, "name": "..."}')


def capabilities(answer: ReceivedAnswer) -> None:
    """Require capabilities that a host can read. Skipped for a hook that has none."""
    said = _members(answer.result)
    offered, in_flight = said.get("capabilities", {}), said.get("max_in_flight", 1)
    if not isinstance(offered, dict) or not all(isinstance(wanted, bool) for wanted in offered.values()):
        raise answer.fail("`capabilities` as an object of true and false")
    if type(in_flight) is not int or in_flight < 1:
        raise answer.fail("`max_in_flight` as a number from 1 up")
    if not said.keys() & {"capabilities", "max_in_flight"}:
        raise Skipped("it names no capability")


# Stages


def decision(answer: ReceivedAnswer) -> None:
    """Require a decision of the stage whose edit and result a host can apply."""
    stage = STAGES[answer.stage]
    _require_claim(answer)
    result(answer)
    try:
        decided, payload, _ = _edited(stage, answer)
        if isinstance(decided, Respond) and stage.result is not None:
            stage.result(payload, decided.result)
    except ValueError as error:
        raise answer.fail(f"a decision of {answer.stage} ({_first_line(error)})") from None
    if answer.expectations.actions is not None:
        _require_readable(answer, stage, decided, answer.expectations.actions)


def _require_readable(answer: ReceivedAnswer, stage: Stage[Any], decided: Decision, actions: Collection[str]) -> None:
    """Require a decision that a system with only these actions reads completely."""
    if decided.action not in actions:
        raise answer.fail(f"one of the actions {', '.join(sorted(actions))}")
    if isinstance(decided, Modify):
        if decided.patch is not None:
            raise answer.fail("a whole payload and no `patch`, which that system ignores,")
        if stage.part is not None and not isinstance(decided.changes.get(stage.part), dict):
            raise answer.fail(f"`{stage.part}` inside all of the params, the only place where that system reads it,")


def part(answer: ReceivedAnswer) -> None:
    """Require a decision about a part of a response. Skipped for a hook that does not ask for parts."""
    if not answer.offers(words.STREAM):
        raise Skipped("its hello does not offer `stream`")
    decision(answer)
    _, payload, edited = _edited(AFTER_LLM, answer)
    seen = payload.released or 0
    if text_of(edited.response)[:seen] != text_of(payload.response)[:seen]:
        raise answer.fail(f"a decision that keeps the first {seen} characters")


def approval(answer: ReceivedAnswer) -> None:
    """Require `approved` as true or false."""
    _require_claim(answer)
    said = _members(answer.result)
    if not any(key.lower() == "approved" for key in said) and not answer.claimed and answer.error is None:
        raise Skipped("it approves nothing")
    if not isinstance(said.get("approved"), bool):
        raise answer.fail("`approved` as true or false")
    grant = said.get("grant")
    if grant is not None and _members(grant).get("for") not in words.GRANTED_FOR:
        raise answer.fail(f"a `grant` whose `for` is one of {', '.join(words.GRANTED_FOR)},")


def exact(answer: ReceivedAnswer) -> None:
    """Require that the numbers in the answer are those that were sent."""
    for name, number in answer.step["of"].items():
        for found in _named(answer.result, name):
            if said := difference(number, found, name):
                raise Failed(f"`{name}` as it was sent, or not at all", f"{said}, in {shown(answer.message)}")


def pong(answer: ReceivedAnswer) -> None:
    """Require a result. Skipped for a hook that did not offer `ping`."""
    if not answer.offers(PING):
        raise Skipped("its hello does not offer `ping`")
    result(answer)


def _require_claim(answer: ReceivedAnswer) -> None:
    if answer.unknown_method and not answer.claimed:
        raise Skipped(f"it does not serve {answer.stage}")


def _edited(stage: Stage[Any], answer: ReceivedAnswer) -> tuple[Decision, Any, Any]:
    """Returns the decision, the payload, and the payload as the decision leaves it. Raises `ValueError`."""
    decided = read_decision(stage, answer.result)
    payload = stage.payload.model_validate(answer.params)
    return (
        decided,
        payload,
        apply_edit(stage, payload, getattr(decided, "changes", {}), getattr(decided, "patch", None)),
    )


def _members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _named(value: Any, name: str) -> Iterator[Any]:
    """Yields every member of this name, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == name:
                yield inner
            yield from _named(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, name)


def _first_line(error: ValueError) -> str:
    """Returns the error in one line."""
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    problem = listed(include_url=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


ANSWER_CHECKS: dict[str, Callable[[ReceivedAnswer], None]] = {
    check.__name__: check
    for check in (
        reply,
        result,
        handled,
        unknown_method,
        welcome,
        first,
        named,
        capabilities,
        decision,
        part,
        approval,
        exact,
        pong,
    )
}
