"""Checks of one answer: a method for each `like` of a step. It raises `Failed` or `Skipped`, or returns if all is well."""

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
    from collections.abc import Collection, Iterable, Iterator, Mapping

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


@dataclass(frozen=True, slots=True)
class ReceivedAnswer:
    """An answer with its request."""

    message: dict[str, Any]
    process: HookProcess
    question: Mapping[str, Any]
    """The request."""
    step: Mapping[str, Any]
    expectations: Expectations

    @property
    def stage(self) -> str:
        """The stage that the request is about."""
        method: str = self.question["method"]
        return method.removeprefix("hook.")

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
            isinstance(self.error, dict) and _refusal(self.error, self.question["method"]) == self.expectations.refusal
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
        return Failed(f"{expected} as the answer to {self.question['method']}", f"it answered {shown(self.message)}")

    # What a step's `like` requires.

    def like_reply(self) -> None:
        """Accept any answer."""

    def like_result(self) -> None:
        """Require a result, and no error."""
        if self.error is not None or "result" not in self.message:
            raise self.fail("a result")

    def like_handled(self) -> None:
        """Require a result, or a refusal of the method."""
        if not self.unknown_method:
            self.like_result()

    def like_unknown_method(self) -> None:
        """Require the error -32601."""
        if not self.has_code:
            raise self.fail(f"the error {words.METHOD_NOT_FOUND}")

    # hook.hello

    def like_welcome(self) -> None:
        """Require that the hook agrees to serve."""
        self.like_handled()
        said = _members(self.result)
        version = said.get("version", words.VERSION)
        if said.get("ok") is False or type(version) is not int or version != words.VERSION:
            raise self.fail(f"no `ok: false`, and no version but {words.VERSION},")

    def like_first(self) -> None:
        """Require that this is the first line."""
        earliest = self.process.lines[0]
        if earliest.message != self.message:
            raise Failed("the answer to hook.hello as its first line", f"it wrote {shown(earliest.data)}")

    def like_named(self) -> None:
        """Require `ok: true` and a name."""
        said = _members(self.result)
        if said.get("ok") is not True or not isinstance(said.get("name"), str) or not said["name"]:
            raise self.fail('{"ok": true, "name": "..."}')

    def like_capabilities(self) -> None:
        """Require capabilities that a host can read. Skipped for a hook that has none."""
        said = _members(self.result)
        offered, in_flight = said.get("capabilities", {}), said.get("max_in_flight", 1)
        if not isinstance(offered, dict) or not all(isinstance(wanted, bool) for wanted in offered.values()):
            raise self.fail("`capabilities` as an object of true and false")
        if type(in_flight) is not int or in_flight < 1:
            raise self.fail("`max_in_flight` as a number from 1 up")
        if not said.keys() & {"capabilities", "max_in_flight"}:
            raise Skipped("it names no capability")

    # Stages

    def like_decision(self) -> None:
        """Require a decision of the stage whose edit and result a host can apply."""
        stage = STAGES[self.stage]
        self._require_claim()
        self.like_result()
        try:
            decided, payload, _ = self._edited(stage)
            if isinstance(decided, Respond) and stage.result is not None:
                stage.result(payload, decided.result)
        except ValueError as error:
            raise self.fail(f"a decision of {self.stage} ({_first_line(error)})") from None
        if self.expectations.actions is not None:
            self._require_readable(stage, decided, self.expectations.actions)

    def _require_readable(self, stage: Stage[Any], decided: Decision, actions: Collection[str]) -> None:
        """Require a decision that a system with only these actions reads completely."""
        if decided.action not in actions:
            raise self.fail(f"one of the actions {', '.join(sorted(actions))}")
        if isinstance(decided, Modify):
            if decided.patch is not None:
                raise self.fail("a whole payload and no `patch`, which that system ignores,")
            if stage.part is not None and not isinstance(decided.changes.get(stage.part), dict):
                raise self.fail(f"`{stage.part}` inside all of the params, the only place where that system reads it,")

    def like_part(self) -> None:
        """Require a decision about a part of a response. Skipped for a hook that does not ask for parts."""
        if not self.offers(words.STREAM):
            raise Skipped("its hello does not offer `stream`")
        self.like_decision()
        _, payload, edited = self._edited(AFTER_LLM)
        seen = payload.released or 0
        if text_of(edited.response)[:seen] != text_of(payload.response)[:seen]:
            raise self.fail(f"a decision that keeps the first {seen} characters")

    def like_approval(self) -> None:
        """Require `approved` as true or false."""
        self._require_claim()
        said = _members(self.result)
        if (
            not any(key.lower() == "approved" for key in said)
            and self.stage not in self.expectations.claimed
            and self.error is None
        ):
            raise Skipped("it approves nothing")
        if not isinstance(said.get("approved"), bool):
            raise self.fail("`approved` as true or false")
        grant = said.get("grant")
        if grant is not None and _members(grant).get("for") not in words.GRANTED_FOR:
            raise self.fail(f"a `grant` whose `for` is one of {', '.join(words.GRANTED_FOR)},")

    def like_exact(self) -> None:
        """Require that the numbers in the answer are those that were sent."""
        for name, number in self.step["of"].items():
            for found in _named(self.result, name):
                if said := difference(number, found, name):
                    raise Failed(f"`{name}` as it was sent, or not at all", f"{said}, in {shown(self.message)}")

    def like_pong(self) -> None:
        """Require a result. Skipped for a hook that did not offer `ping`."""
        if not self.offers(PING):
            raise Skipped("its hello does not offer `ping`")
        self.like_result()

    def _require_claim(self) -> None:
        if self.unknown_method and self.stage not in self.expectations.claimed:
            raise Skipped(f"it does not serve {self.stage}")

    def _edited(self, stage: Stage[Any]) -> tuple[Decision, Any, Any]:
        """Returns the decision, the payload, and the payload as the decision leaves it. Raises `ValueError`."""
        decided = read_decision(stage, self.result)
        payload = stage.payload.model_validate(self.question["params"])
        edited = apply_edit(stage, payload, getattr(decided, "changes", {}), getattr(decided, "patch", None))
        return decided, payload, edited


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
