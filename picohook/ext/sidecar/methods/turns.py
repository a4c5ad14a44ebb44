"""The sidecar's methods for turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ....rpc.dispatch import Method, Params
from ....rpc.jsonrpc import TAKEN, RpcError
from ..remote_turn import RemoteTurn
from .context import require_room
from .stages import outcome_json

if TYPE_CHECKING:
    from .context import SidecarContext


class TurnStartParams(Params):
    """A new turn. With `parent`, it is a sub-turn of that turn."""

    session: str
    user_message: str = ""
    turn: str | None = Field(default=None, min_length=1)
    parent: str | None = None
    agent_id: str | None = None
    label: str = ""
    media_count: int = 0


class TurnResumeParams(Params):
    """The answer for a hook that paused."""

    turn: str
    decision: dict[str, Any]
    tool_call_id: str = ""


class TurnEndParams(Params):
    """The end of a turn."""

    turn: str
    status: Literal["completed", "error", "aborted"] = "completed"
    reason: str = ""
    content: str | None = None


async def _start(context: SidecarContext, params: TurnStartParams) -> dict[str, Any]:
    session = context.session(params.session)
    parent = None if params.parent is None else context.turn(params.parent)
    if params.turn in context.turns:
        raise RpcError(TAKEN, f"a turn {params.turn!r} is open already")
    require_room(context.turns, "turns")
    turn = session.turn(
        params.user_message,
        parent=parent,
        agent_id=params.agent_id,
        label=params.label,
        media_count=params.media_count,
        turn_id=params.turn,
    )
    assert isinstance(turn, RemoteTurn)
    context.begin_turn(turn)
    await turn.__aenter__()  # the client ends it
    return {"turn": turn.meta.turn_id, "meta": turn.meta.wire()}


async def _resume(context: SidecarContext, params: TurnResumeParams) -> bytes:
    return outcome_json(await context.turn(params.turn).resume(params.tool_call_id, params.decision))


async def _end(context: SidecarContext, params: TurnEndParams) -> dict[str, Any]:
    turn = context.turn(params.turn)
    context.forget_turn(turn)
    await turn.end_with(params.status, params.reason, params.content)
    return {"iterations": turn.meta.iteration}


TURN_METHODS = (
    Method("turn.start", _start, TurnStartParams),
    Method("turn.resume", _resume, TurnResumeParams),
    Method("turn.end", _end, TurnEndParams),
)
