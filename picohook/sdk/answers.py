"""`Answer`: a hook's answer in a test, and its meaning for a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..wire import words
from ..wire.answer_fields import understand
from ..wire.answer_form import fold_case
from ..wire.merge import merge_patch
from .calls import STAGES, ApproveTool

if TYPE_CHECKING:
    from collections.abc import Mapping

FIXED = frozenset({"meta", "context", "tool_call_id"})
"""The fields of a payload that no hook can change."""


class AnswerError(Exception):
    """The hook answered with an error. For a host, it failed at this call."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message


class BrokenHookError(Exception):
    """The hook ended, timed out, refused to serve, or wrote something that is not a message or not a decision."""


class Answer(dict[str, Any]):
    """The hook's answer, unchanged, with its meaning for a host. Raises `BrokenHookError` if it is not a decision."""

    def __init__(self, stage: str, params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        super().__init__(result)
        self.stage = stage
        self._params = params
        self._read: dict[str, Any] = self
        """The answer with names spelled as in the protocol, since a host ignores their case."""
        try:
            if stage == ApproveTool.stage:
                self._read = fold_case(self, {"action", "reason"})
            elif stage in STAGES:
                self._read = understand(STAGES[stage].form(), self)
        except ValueError as error:
            raise BrokenHookError(f"for a host, the hook failed: {error}") from None

    @property
    def action(self) -> str:
        """The action, or `continue` if the answer has none. An approval has no action."""
        return str(self._read.get("action") or words.CONTINUE)

    @property
    def approved(self) -> bool:
        """Whether the answer to approve_tool is yes: `approved` is true."""
        return self.get("approved") is True

    @property
    def denied(self) -> bool:
        """Whether the answer denies the call."""
        return not self.approved if self.stage == ApproveTool.stage else self.action == words.DENY

    @property
    def reason(self) -> str:
        """The reason; empty if the answer has none."""
        return str(self._read.get("reason") or "")

    @property
    def payload(self) -> dict[str, Any]:
        """The payload with the hook's edits, as the host uses it from then on."""
        form = STAGES[self.stage].form()
        part = form.part
        carried = form.carried(self._read) or {}

        def editable(value: Mapping[str, Any]) -> dict[str, Any]:
            inner = value.get(part) if part else value
            return {name: value for name, value in (inner or value).items() if part or name not in FIXED}

        edits = {name: value for name, value in editable(carried).items() if value is not None}
        target = (self._params.get(part) or {}) if part else self._params
        if form.editable is None:
            edits = fold_case(edits, target.keys())
        edited = merge_patch({**target, **edits}, editable(form.patch(self._read) or {}))
        return {**self._params, part: edited} if part else edited
