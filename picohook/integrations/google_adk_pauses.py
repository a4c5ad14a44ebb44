"""Turns a hook's pause into a tool confirmation of Google ADK, in the session. So another process can continue the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import Continue, PausedError

if TYPE_CHECKING:
    from google.adk.tools.tool_context import ToolContext

    from .. import Decision, Outcome, ToolCall

WAITS = "This call waits for a person's confirmation."
"""The result of a call that waits, until a person has answered."""
REJECTED = "A person rejected this call."


class WaitsError(Exception):
    """The call has to wait for a person, since a hook has paused it."""

    def __init__(self, outcome: Outcome[ToolCall]) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Confirmation:
    """The confirmation of one call: a person's answer about a hook's pause, or the question."""

    def __init__(self, tool_context: ToolContext, *, can_wait: bool) -> None:
        """`can_wait` says whether a person can be asked. ADK asks once about a call."""
        self._context = tool_context
        confirmation = tool_context.tool_confirmation
        self._answered = None if confirmation is None else _asked_pause(tool_context)
        self._can_wait = can_wait and confirmation is None
        self.rejected = self._answered is not None and confirmation is not None and not confirmation.confirmed
        if self._answered is not None:
            tool_context.tool_confirmation = None  # a tool that asks for a confirmation itself has not got this one

    def on_pause(self, outcome: Outcome[ToolCall]) -> Decision:
        """Returns the person's decision. Raises `WaitsError` to ask the person, or `PausedError` if that is not possible."""
        pause = _shown(outcome) | {"reason": (self._answered or {}).get("reason")}
        if self._answered == pause:  # the same hook's pause about the same call, maybe with another reason
            self._answered = None  # a confirmation is for one hook
            return Continue()
        raise WaitsError(outcome) if self._can_wait else PausedError(outcome)

    def ask(self, outcome: Outcome[ToolCall]) -> dict[str, str]:
        """Ask the person. Returns the result of the call until then."""
        self._context.request_confirmation(
            hint=outcome.reason or f"{outcome.hook} asks", payload={PAUSE: _shown(outcome)}
        )
        self._context.actions.skip_summarization = True  # the model is asked when the call has its result
        return {"error": WAITS}


PAUSE = "picohook"
"""The key of a confirmation's payload whose value is the pause: the hook, its reason, and the call as hooks left it."""


def _shown(outcome: Outcome[ToolCall]) -> dict[str, Any]:
    call = outcome.payload
    return {"hook": outcome.hook, "reason": outcome.reason, "tool": call.tool, "arguments": call.arguments}


def _asked_pause(tool_context: ToolContext) -> dict[str, Any] | None:
    """Returns the pause that this call's confirmation was about; None if the tool itself asked for it."""
    for event in reversed(tool_context.session.events):
        question = event.actions.requested_tool_confirmations.get(tool_context.function_call_id or "")
        if question is not None:
            pause = question.payload.get(PAUSE) if isinstance(question.payload, dict) else None
            return pause if isinstance(pause, dict) else None
    return None
