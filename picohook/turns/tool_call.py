"""A tool call: before_tool, approve_tool, the tool, after_tool. `run_tool` does all steps; a batch does them one by one."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..model.conversation import content_of
from ..model.encoded import CHANGED
from ..model.payloads import ToolCall, ToolResult, ToolReturn, deep_copy, traced
from ..model.stages import BEFORE_TOOL
from ..wire import words
from .abort import AbortTurnError, hard_abort_in, raise_if_ended
from .digest import approved_digest, call_digest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ..engine.engine import Engine
    from ..model.decisions import Outcome
    from ..model.trail import StageTrail

    Took = Callable[[Outcome[Any]], None]
    Deliver = Callable[[ToolCall, ToolResult, int], Awaitable[ToolResult]]

DENIED_BY_HOOK = "Tool execution denied by hook: {}"
DENIED_BY_APPROVAL = "Tool execution denied by approval hook: {}"


def ignore(outcome: Outcome[Any]) -> None:
    """Accept an outcome, and do nothing."""


class Trails:
    """Collects the trails of outcomes, and passes each outcome on."""

    def __init__(self, took: Took = ignore) -> None:
        self.all: list[StageTrail] = []
        self._took = took

    def take(self, outcome: Outcome[Any]) -> None:
        """Add the trail of an outcome."""
        self.all.append(outcome.stage_trail)
        self._took(outcome)


@dataclass(slots=True)
class Decided:
    """A call that hooks have decided on. It runs as it is, or has its result already."""

    call: ToolCall
    result: ToolResult | None = None
    digest: bytes = b""
    """The digest of the call that approvers saw."""


async def run_tool(host: Engine, call: ToolCall | Mapping[str, Any], execute: Callable[[ToolCall], Any]) -> ToolResult:
    """before_tool, approve_tool, the tool, after_tool. The tool runs only the call that guards and approvers saw."""
    trails = Trails(host.note_hard_abort)
    before = await host.before_tool(
        deep_copy(BEFORE_TOOL.given(call))
    )  # a copy: the caller's later changes do not count
    trails.take(before)
    decided = await approve(host, before, trails.take)
    result = decided.result
    if result is None:
        returned = await execute_tool(host, decided, execute)
        result = returned if isinstance(returned, ToolResult) else await conclude(host, returned, trails.take)
    return traced(result, trails.all)


async def approve(
    host: Engine, before: Outcome[ToolCall], took: Took = ignore, deliver: Deliver | None = None
) -> Decided:
    """Act on the outcome of before_tool, and ask approvers if the tool is to run. Returns the call, with any result.

    `deliver` gets a hook's answer, and emits the event that the call is done. Raises `PausedError` and `AbortTurnError`.
    """
    call = before.payload
    if before.action == words.RESPOND:
        started(host, call)
        if deliver is not None:
            return Decided(call, await deliver(call, before.result, 0))
        ended(host, call, before.result, 0)
        return Decided(call, before.result)
    if before.action == words.DENY:
        return Decided(call, denied(host, before))
    raise_if_ended(before)
    digest = approved_digest(before)
    if digest is None:
        text = DENIED_BY_HOOK.format(CHANGED)
        return Decided(call, not_run(host, call, text, text))
    approval = await host.approve_tool(call)
    took(approval)
    if not approval.approved:
        return Decided(call, denied(host, approval))
    return Decided(call, digest=digest)


async def execute_tool(host: Engine, decided: Decided, execute: Callable[[ToolCall], Any]) -> ToolReturn | ToolResult:
    """Run the tool on exactly the call that was approved. A changed call is denied."""
    call = decided.call
    own = call.deep_copy()  # so that the tool cannot change what hooks see
    if call_digest(own) != decided.digest:
        text = DENIED_BY_APPROVAL.format("the call was changed after it was approved")
        return not_run(host, call, text, text)
    started(host, call)
    begun = time.monotonic_ns()
    error: str | None = None
    try:
        result = as_tool_result(await _called(execute, own))
    except Exception as failure:  # noqa: BLE001 - a tool that fails is a result that the model is told
        if (ended_all := hard_abort_in(failure)) is not None:
            raise ended_all from None  # the hard abort of a turn inside the tool
        # A hook may have ended a turn inside the tool.
        why = failure.outcome.reason_for_llm if isinstance(failure, AbortTurnError) else failure
        error = f"{type(failure).__name__}: {why}".removesuffix(": ")
        result = ToolResult(for_llm=error, is_error=True)
    return ToolReturn(**call.__dict__, result=result, duration=time.monotonic_ns() - begun, error=error)


async def conclude(host: Engine, returned: ToolReturn, took: Took = ignore) -> ToolResult:
    """after_tool, and the event that the call is done. Returns the result. Raises `PausedError` and `AbortTurnError`."""
    after = await host.after_tool(returned)
    took(after)
    ended(host, returned, after.payload.result, returned.duration)
    raise_if_ended(after)
    return after.payload.result


def denied(host: Engine, outcome: Outcome[ToolCall]) -> ToolResult:
    """The result of a call that hooks denied. The model gets the hook's own reason, and observers get the whole cause."""
    text = DENIED_BY_APPROVAL if outcome.approved is False else DENIED_BY_HOOK
    for_llm, whole = (
        text.format(reason) if reason.strip() else text.removesuffix(": {}")
        for reason in (outcome.reason_for_llm, outcome.reason)
    )
    return not_run(host, outcome.payload, for_llm, whole, outcome.result)


def not_run(host: Engine, call: ToolCall, text: str, reason: str, told: ToolResult | None = None) -> ToolResult:
    """Returns the result of a call whose tool is not run, and emits its event. Observers get `reason`, the model `text`."""
    host.emit("tool_exec_skipped", {"Tool": call.tool, "Reason": reason}, about=call)
    return told or ToolResult(for_llm=text, is_error=True)


def as_tool_result(returned: Any) -> ToolResult:
    """Returns a tool's return value as a result for the model, copied because the tool may change its own later."""
    if isinstance(returned, ToolResult):
        return deep_copy(returned)  # type: ignore[no-any-return] # as it came
    if returned is None:
        return ToolResult()
    if isinstance(returned, str):
        return ToolResult(for_llm=returned)
    if isinstance(returned, dict) and "for_llm" in returned:
        return ToolResult.model_validate(deep_copy(returned))
    return ToolResult(for_llm=json.dumps(returned, ensure_ascii=False, default=str))


async def _called(execute: Callable[[ToolCall], Any], call: ToolCall) -> Any:
    returned = execute(call)
    return await returned if hasattr(returned, "__await__") else returned


def started(host: Engine, call: ToolCall) -> None:
    """Emit the event that a tool is about to run."""
    host.emit("tool_exec_start", {"Tool": call.tool, "Arguments": call.arguments}, about=call)


def ended(host: Engine, call: ToolCall, result: ToolResult, duration: int) -> None:
    """Emit the event that a call is done."""
    payload = {
        "Tool": call.tool,
        "Duration": duration,
        "ForLLMLen": len(content_of(result)),
        "ForUserLen": len(result.for_user),
        "IsError": result.is_error,
        "Async": result.async_,
    }
    host.emit("tool_exec_end", payload, about=call)
