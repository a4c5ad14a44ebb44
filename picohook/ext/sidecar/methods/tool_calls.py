"""The sidecar's methods for the two halves of a tool call, which the client runs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from ....calls.abort import AbortTurnError, PausedError
from ....model.decisions import CONTINUE
from ....model.payloads import ToolCall, ToolResult
from ....protocol.codec import encode
from ....rpc.dispatch import Method, Params
from ....wire import words
from .context import require_room
from .stages import PayloadMethod

if TYPE_CHECKING:
    from ....calls.tool_call import OnPause
    from ....model.decisions import Decision, Outcome
    from .context import SidecarContext


class ConcludeParams(Params):
    """A call that was decided, and how its tool ran."""

    decided: int
    result: ToolResult
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    duration: int | None = None
    error: str | None = None


class DecideOptions(Params):
    """The params of tool.decide beside the fields of the call."""

    approved: bool = Field(
        default=False,
        description="Whether a person has approved this call, as it is, because a hook had paused it.",
    )


async def _decide(context: SidecarContext, call: ToolCall, *, approved: bool = False) -> bytes:
    require_room(context.decided, "decided calls")
    turn = context.turns.get(call.meta.turn_id)
    if turn is None:
        context.require_hooks_of(call.meta)
    on_pause = _approval(call) if approved else None
    try:
        decided = await (
            context.host_of(call.meta).decide(call, on_pause=on_pause)
            if turn is None
            else turn.decide(call, on_pause=on_pause)
        )
    except (AbortTurnError, PausedError) as ended:
        return _shown(ended.outcome.action, [ended.outcome], call=ended.outcome.payload.wire())
    shown: dict[str, Any] = {"call": decided.call.wire()}
    if decided.result is None:
        shown["decided"] = context.keep_decided(decided, turn)
    else:
        shown["result"] = decided.result.wire()
    return _shown(decided.action, decided.outcomes, **shown)


def _approval(call: ToolCall) -> OnPause:
    """Answers the first pause, if the person has seen the call that the hook paused. A second pause stays one."""
    answered = False

    def on_pause(paused: Outcome[ToolCall]) -> Decision:
        nonlocal answered
        now = paused.payload
        if answered or (now.tool, now.arguments) != (call.tool, call.arguments):
            raise PausedError(paused)
        answered = True
        return CONTINUE

    return on_pause


async def _conclude(context: SidecarContext, params: ConcludeParams) -> bytes:
    decided = context.take_decided(params.decided)
    context.require_hooks_of(decided.call.meta)
    ran = params.model_dump(exclude={"decided", "result"})
    try:
        result = await decided.conclude(params.result, **ran)
    except (AbortTurnError, PausedError) as ended:
        return _shown(ended.outcome.action, [ended.outcome])
    return _shown(words.CONTINUE, decided.outcomes[-1:], result=result.wire())


def _shown(action: str, outcomes: list[Outcome[Any]], **more: Any) -> bytes:
    trails = [outcome.stage_trail.wire() for outcome in outcomes]
    return encode({"action": action, "reason": outcomes[-1].reason, "trails": trails, **more})


TOOL_METHODS = (
    PayloadMethod("tool.decide", _decide, ToolCall, DecideOptions),
    Method("tool.conclude", _conclude, ConcludeParams),
)
