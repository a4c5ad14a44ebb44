"""What a hook's test gets back: the hook's answer, with what a host makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..wire import words
from ..wire.answer_fields import understand
from ..wire.answer_form import fold_case
from ..wire.merge import merge_patch
from .calls import (
    AfterCompact,
    AfterLLM,
    AfterTool,
    ApproveTool,
    BeforeCompact,
    BeforeFinish,
    BeforeLLM,
    BeforePrompt,
    BeforeTool,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .base import Call

FIXED = frozenset({"meta", "context", "tool_call_id"})
"""What of a payload no hook can change."""

STAGES: dict[str, type[Call]] = {
    call.stage: call
    for call in (
        BeforePrompt,
        BeforeLLM,
        AfterLLM,
        BeforeTool,
        ApproveTool,
        AfterTool,
        BeforeFinish,
        BeforeCompact,
        AfterCompact,
    )
}


class AnswerError(Exception):
    """The hook answered with an error: to a host, it failed at this call."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


class BrokenHookError(Exception):
    """The hook ended, said nothing in time, refused to serve, or wrote what is no message or no decision."""


class Answer(dict[str, Any]):
    """What the hook answered, as it came, and what a host makes of it. Raises `BrokenHookError` for what is no decision."""

    def __init__(self, stage: str, params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        super().__init__(result)
        self.stage = stage
        self._params = params
        try:
            self._said = self._understood()
        except ValueError as error:
            raise BrokenHookError(f"to a host it failed: {error}") from None

    def _understood(self) -> dict[str, Any]:
        """The answer with the protocol's own names: a host takes them in any case."""
        if self.stage == ApproveTool.stage:
            return fold_case(self, {"action", "reason"})
        return understand(STAGES[self.stage].form(), self) if self.stage in STAGES else self

    @property
    def action(self) -> str:
        """`continue` where it names none. An approval has none."""
        return str(self._said.get("action") or words.CONTINUE)

    @property
    def approved(self) -> bool:
        """Whether it is a yes to approve_tool. Nothing but true is."""
        return self.get("approved") is True

    @property
    def denied(self) -> bool:
        """Whether the tool is not to run."""
        return not self.approved if self.stage == ApproveTool.stage else self.action == words.DENY

    @property
    def reason(self) -> str:
        """Why; empty where it does not say."""
        return str(self._said.get("reason") or "")

    @property
    def payload(self) -> dict[str, Any]:
        """What was asked about, with the hook's edits: what the host goes on with."""
        form = STAGES[self.stage].form()
        part = form.part
        given = form.carried(self._said) or {}

        def editable(value: Mapping[str, Any]) -> dict[str, Any]:
            inner = value.get(part) if part else value
            return {name: value for name, value in (inner or value).items() if part or name not in FIXED}

        edits = {name: value for name, value in editable(given).items() if value is not None}
        target = (self._params.get(part) or {}) if part else self._params
        if form.editable is None:
            edits = fold_case(edits, target.keys())
        edited = merge_patch({**target, **edits}, editable(form.patch(self._said) or {}))
        return {**self._params, part: edited} if part else edited
