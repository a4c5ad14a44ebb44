"""What an answer has to be like: a function for each `like` of a step. One that returns is content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..model.decisions import Modify, Respond
from ..model.edits import apply_edit
from ..model.replies import read_decision
from ..model.stages import STAGES
from ..wire import words
from .verdict import Failed, Skipped, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ..model.decisions import Decision
    from ..model.stages import Stage
    from .process import HookProcess, Line


@dataclass(frozen=True, slots=True)
class Terms:
    """What this hook is held to, and what was learnt of it."""

    modes: tuple[str, ...] = ()
    """Those of hook.hello."""
    claimed: frozenset[str] = frozenset()
    """The stages that the user says it has."""
    actions: frozenset[str] | None = None
    """Those that the system has which the hook is for; none: all of the protocol's."""
    refusal: tuple[Any, str] | None = None
    """Its error for a method that there is not, with a placeholder for the method."""

    def learn(self, lines: Iterable[Line]) -> Terms:
        """With its error for `hook.of_tomorrow`, if that is among these."""
        for message in (line.message for line in lines):
            if message is not None and message.get("id") == UNKNOWN_ID and isinstance(message.get("error"), dict):
                return replace(self, refusal=_refusal(message["error"], UNKNOWN))
        return self


UNKNOWN = "hook.of_tomorrow"
UNKNOWN_ID = 2
"""The method of CALL-2, which no hook has, and the id that it is asked under."""


def _refusal(error: Mapping[str, Any], method: str) -> tuple[Any, str]:
    return error.get("code"), str(error.get("message")).replace(method, "$METHOD")


class Answer:
    """An answer, with what it is an answer to."""

    def __init__(
        self,
        message: dict[str, Any],
        *,
        process: HookProcess,
        question: Mapping[str, Any],
        step: Mapping[str, Any],
        terms: Terms,
    ) -> None:
        self.message = message
        self.process = process
        self.method: str = question["method"]
        self.params: Mapping[str, Any] = question["params"]
        self.step = step
        self.stage = self.method.removeprefix("hook.")
        self.terms = terms
        self.claimed = self.stage in terms.claimed
        """Whether the user says that the hook is for this stage."""

    @property
    def error(self) -> Any:
        """None where there is none."""
        return self.message.get("error")

    @property
    def result(self) -> Any:
        """None where there is none."""
        return self.message.get("result")

    @property
    def unknown_method(self) -> bool:
        """Whether it says that there is no such method."""
        return self.has_code or (
            isinstance(self.error, dict) and _refusal(self.error, self.method) == self.terms.refusal
        )

    @property
    def has_code(self) -> bool:
        """Whether it says so with the code that is for it."""
        return isinstance(self.error, dict) and self.error.get("code") == words.METHOD_NOT_FOUND

    def fail(self, expected: str) -> Failed:
        """The verdict that this is not what was expected."""
        return Failed(f"{expected} as the answer to {self.method}", f"it answered {shown(self.message)}")


def reply(answer: Answer) -> None:
    """Any answer will do."""


def result(answer: Answer) -> None:
    """A result, and no error."""
    if answer.error is not None or "result" not in answer.message:
        raise answer.fail("a result")


def handled(answer: Answer) -> None:
    """A result, or that there is no such method here."""
    if not answer.unknown_method:
        result(answer)


def unknown_method(answer: Answer) -> None:
    """The error for a method that there is not."""
    if not answer.has_code:
        raise answer.fail(f"the error {words.METHOD_NOT_FOUND}")


# hook.hello


def welcome(answer: Answer) -> None:
    """No refusal."""
    handled(answer)
    said = _members(answer.result)
    version = said.get("version", words.VERSION)
    if said.get("ok") is False or type(version) is not int or version != words.VERSION:
        raise answer.fail(f"no `ok: false`, and no version but {words.VERSION},")


def first(answer: Answer) -> None:
    """Nothing was said before."""
    earliest = answer.process.lines[0]
    if earliest.message != answer.message:
        raise Failed(
            "the answer to hook.hello as its first line", f"it wrote {shown(earliest.data.decode('utf-8', 'replace'))}"
        )


def named(answer: Answer) -> None:
    """Who it is, and that all is well."""
    said = _members(answer.result)
    if said.get("ok") is not True or not isinstance(said.get("name"), str) or not said["name"]:
        raise answer.fail('{"ok": true, "name": "..."}')


def capabilities(answer: Answer) -> None:
    """What it offers is offered in a way that a host understands."""
    said = _members(answer.result)
    offered, in_flight = said.get("capabilities", {}), said.get("max_in_flight", 1)
    if not isinstance(offered, dict) or not all(isinstance(wanted, bool) for wanted in offered.values()):
        raise answer.fail("`capabilities` as an object of true and false")
    if type(in_flight) is not int or in_flight < 1:
        raise answer.fail("`max_in_flight` as a number from 1 up")
    if not said.keys() & {"capabilities", "max_in_flight"}:
        raise Skipped("it opts into none")


# Stages


def decision(answer: Answer) -> None:
    """What the host would take, edit included."""
    stage = STAGES[answer.stage]
    _require_claim(answer)
    result(answer)
    try:
        decided = read_decision(stage, answer.result)
        payload = stage.payload.model_validate(answer.params)
        apply_edit(stage, payload, getattr(decided, "changes", {}), getattr(decided, "patch", None))
        if isinstance(decided, Respond) and stage.result is not None:
            stage.result(payload, decided.result)
    except ValueError as error:
        raise answer.fail(f"a decision of {answer.stage} ({_first_line(error)})") from None
    if answer.terms.actions is not None:
        _require_older(answer, stage, decided, answer.terms.actions)


def _require_older(answer: Answer, stage: Stage[Any], decided: Decision, actions: Collection[str]) -> None:
    """A system that has only these actions sees all of the decision."""
    if decided.action not in actions:
        raise answer.fail(f"one of the actions {', '.join(sorted(actions))}")
    if isinstance(decided, Modify):
        if decided.patch is not None:
            raise answer.fail("a whole payload and no `patch`, which is not seen there,")
        if stage.part is not None and not isinstance(decided.changes.get(stage.part), dict):
            raise answer.fail(f"`{stage.part}` inside all of the params, the only place where it is seen there,")


def approval(answer: Answer) -> None:
    """A yes or a no that cannot be misread."""
    _require_claim(answer)
    said = _members(answer.result)
    if not any(key.lower() == "approved" for key in said) and not answer.claimed and answer.error is None:
        raise Skipped("it approves nothing")
    if not isinstance(said.get("approved"), bool):
        raise answer.fail("`approved` as true or false")


def exact(answer: Answer) -> None:
    """Numbers come back as they went out, if they come back."""
    for name, number in answer.step["of"].items():
        for found in _named(answer.result, name):
            if type(found) is not int or found != number:
                raise answer.fail(f"`{name}` as {number}, or not at all,")


def _require_claim(answer: Answer) -> None:
    if answer.unknown_method and not answer.claimed:
        raise Skipped(f"it has no {answer.stage}")


def _members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _named(value: Any, name: str) -> Iterator[Any]:
    """Every member of this name, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == name:
                yield inner
            yield from _named(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, name)


def _first_line(error: ValueError) -> str:
    """What pydantic and our own errors say, in short."""
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    problem = listed(include_url=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


SHAPES: dict[str, Callable[[Answer], None]] = {
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
        approval,
        exact,
    )
}
