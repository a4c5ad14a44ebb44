"""Makes whole tool calls and model calls, each with the questions to hooks before and after it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

from ..engine.asker import Asker
from ..engine.used_pauses import USERS_FILE, UsedPauses
from ..errors import PicohookError
from ..model.decisions import Outcome
from ..model.payloads import LLMRequest, LLMResponse, ToolCall, ToolResult
from . import model_call, tool_call
from .model_call import Complete, DecidedRequest, Show
from .rounds import Rounds
from .tool_call import DecidedCall, OnPause, ToolRun

C = TypeVar("C", bound="Caller")

PAUSE_LASTS = 3600.0
"""Seconds in which a paused turn can be resumed."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """The settings of a host about rounds and pauses."""

    retry_limit: int = 3
    """The number of further rounds that hooks may ask for in one turn."""
    used_pauses: UsedPauses | None = USERS_FILE
    """Remembers the paused turns that were resumed. With None, no turn can be resumed."""
    pause_lasts: float = PAUSE_LASTS
    """Seconds in which a paused turn can be resumed."""

    def __post_init__(self) -> None:
        if not 0 < self.pause_lasts < math.inf:
            raise PicohookError(f"`pause_lasts` is {self.pause_lasts}, and has to be a number of seconds")


class Caller(Asker):
    """Makes whole tool calls and model calls. `Host` does, and so does a session's view of it."""

    settings = CallSettings()

    def view(self, kind: type[C]) -> C:
        """Returns another caller with the same hooks and listeners, such as a session's."""
        made = kind(self._mounted)
        made.settings = self.settings
        return made

    async def decide(
        self,
        call: ToolCall | Mapping[str, Any],
        *,
        known: DecidedCall | None = None,
        on_pause: OnPause | None = None,
    ) -> DecidedCall:
        """Make the half of a tool call before the tool: before_tool and approve_tool, with their events. Returns the decision.

        The tool is to run with `call` of the decision, unless the decision has a `result` for the model already. `known` is an
        earlier decision. If it is about the same call it holds again, and no hook is asked. `on_pause` is called when a hook
        pauses, and returns the decision in its place, or raises an error. Raises `AbortTurnError`, `HardAbortError` or
        `PausedError` if a hook decides that.
        """
        return await tool_call.decide(self, call, self.note_hard_abort, known, on_pause)

    async def conclude(self, decided: DecidedCall, result: Any, **ran: Unpack[ToolRun]) -> ToolResult:
        """Make the half of a tool call after the tool: after_tool, with its event. Returns the result for the model.

        `result` is what the tool returned or the exception that it raised, and `ran` says how it ran. The hooks are those of
        the host, session or turn that decided. Raises `PicohookError` for a call that was not to run, is concluded
        already, or is not the one that ran. Raises `AbortTurnError`, `HardAbortError` or `PausedError` if a hook decides that.
        """
        return await decided.conclude(result, **ran)

    async def run_tool(self, call: ToolCall | Mapping[str, Any], execute: Callable[[ToolCall], Any]) -> ToolResult:
        """Make a whole tool call: `decide`, `execute(call)` and `conclude`.

        Returns the tool's result; for a denied call, a result that tells the model of the denial. Raises `AbortTurnError`,
        `HardAbortError` or `PausedError` if a hook decides that.
        """
        decided = await self.decide(call)
        if decided.result is not None:
            return decided.result
        with decided.operation.work():
            value = await tool_call.value_of(execute, decided.call)
        return await decided.conclude(value)

    async def decide_llm(self, request: LLMRequest | Mapping[str, Any]) -> DecidedRequest:
        """Make the half of a model call before the model: before_llm, with its event. Returns the decision.

        The model must be sent the `request` of the decision, unless the decision has a `response` already. Raises
        `AbortTurnError`, `HardAbortError` or `PausedError` if a hook decides that, and `RetryLimitError` after too many rounds.
        """
        rounds = Rounds(self, self.settings.retry_limit)
        return await model_call.DecidedRequest(self, request, self.note_hard_abort, rounds).ask()

    async def conclude_llm(
        self, decided: DecidedRequest, response: LLMResponse | Mapping[str, Any]
    ) -> LLMResponse | None:
        """Make the half of a model call after the model: after_llm, with its event. Returns the response as hooks leave it.

        Returns None if a hook asks for another round. Then the model must be sent the decision's new `request`, and this is
        concluded again. Raises as `decide_llm` does, and `PicohookError` for a request that was not to be sent or is concluded
        already.
        """
        return await decided.conclude(response)

    async def run_llm(
        self, request: LLMRequest | Mapping[str, Any], complete: Complete, *, stream: Show | None = None
    ) -> LLMResponse:
        """Make a whole model call: `decide_llm`, `complete(request)` and `conclude_llm`.

        Calls the model again if a hook asks for another round. Returns the last response. Raises as `decide_llm` does.

        `stream` shows the user a piece of text. With it, `complete` may be an async generator that yields pieces of text, and
        at the end its whole message if that has more than the text. The user sees each piece as soon as hooks allow it.
        """
        return await model_call.in_rounds(await self.decide_llm(request), complete, stream)

    def note_hard_abort(self, outcome: Outcome[Any]) -> None:
        """Note a hard abort that ends a session. A host has none to end."""
