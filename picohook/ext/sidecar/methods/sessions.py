"""The sidecar's methods for sessions, for their turns, and for the hooks that a client answers in them."""

import uuid
from typing import Any, Literal

import anyio
from pydantic import Field

from ....errors import HookTimeoutError
from ....hooks.base import Hook, Question
from ....model.decisions import Decision
from ....model.filters import Filter
from ....model.replies import read_decision
from ....model.spec import OF_SESSION, HookSpec, Seconds, StageName
from ....protocol.codec import encode
from ....rpc.dispatch import Method, Params
from ....rpc.jsonrpc import INVALID_PARAMS, REFUSED, TAKEN, RpcError
from ....rpc.outgoing import OutgoingRequests
from ....wire.text import escape, show
from ..remote_turn import RemoteSession, RemoteTurn
from .context import SidecarContext, require_room
from .stages import outcome_json

MAX_HOOKS = 64
"""The most hooks of the client's own that one session may have."""

MAX_NAMES = 256
"""The most names in one list."""


class ClientHook(Hook):
    """A hook that a client answers, in one of its sessions. It fails when the client is gone."""

    in_process = False

    def __init__(self, spec: HookSpec, session_id: str, requests: OutgoingRequests) -> None:
        super().__init__(spec)
        self._names = {"session": session_id, "hook": spec.name}
        """The client's own names for the session and the hook. The host's name for the hook is another."""
        self._requests = requests

    async def handle(self, question: Question[Any]) -> Decision:
        stage = question.stage
        names = encode({**self._names, "stage": stage.name})
        params = b'%b,"payload":%b}' % (names[:-1], question.encoded.params())
        answer = await self._requests.ask(params, question.deadline)
        if stage.approves and anyio.current_time() > question.deadline:
            raise HookTimeoutError(hook=self.name)
        return read_decision(stage, answer)


class SessionStartParams(Params):
    """A new session."""

    session: str | None = Field(default=None, min_length=1)
    agent_id: str = ""
    channel: str = ""
    chat_id: str = ""
    context: dict[str, Any] | None = None


class SessionParams(Params):
    """The params of a method about a session: its id."""

    session: str


class MountParams(Params):
    """A hook that the client answers itself, in one of its sessions."""

    session: str
    hook: str = Field(min_length=1)
    stages: list[StageName] = Field(min_length=1, max_length=MAX_NAMES, fail_fast=True)
    priority: int = 100
    after: list[str] = Field(default_factory=list, max_length=MAX_NAMES, fail_fast=True)
    filter: Filter | None = None
    guard: bool = False
    timeout: Seconds | None = None
    approval_timeout: Seconds | None = None
    on_failure: Literal["continue", "deny", "abort"] | None = None


async def _start(context: SidecarContext, params: SessionStartParams) -> dict[str, Any]:
    name = params.session or uuid.uuid4().hex
    if name in context.taken:
        raise RpcError(TAKEN, f"a session {name!r} is open already")
    require_room(context.sessions, "sessions")
    session = RemoteSession(context.host, name, **params.model_dump(exclude={"session"}))
    context.taken.add(name)
    context.sessions[name] = session
    await session.__aenter__()  # the client ends it
    return {"session": name}


async def _end(context: SidecarContext, params: SessionParams) -> bool:
    await context.end_session(context.session(params.session), "the session ended")
    return True


async def _mount(context: SidecarContext, params: MountParams) -> dict[str, Any]:
    session = context.session(params.session)
    if len(session.hooks) >= MAX_HOOKS:
        raise RpcError(REFUSED, f"session {params.session!r} has {MAX_HOOKS} hooks, which is the most")
    if escape(params.hook) != params.hook or not params.hook.strip() or params.hook.endswith(OF_SESSION):
        raise RpcError.because(INVALID_PARAMS, f'"{show(params.hook.encode(), 80)}" cannot be the name of a hook')
    name = params.hook + OF_SESSION
    if any(hook.name == name for hook in session.hooks):
        raise RpcError(TAKEN, f"session {params.session!r} has a hook {params.hook!r} already")
    settings = params.model_dump(exclude={"session", "hook"}, exclude_none=True)
    spec = HookSpec.model_validate({**settings, "name": params.hook})
    await session.mount(ClientHook(spec, session.id, context.outgoing))
    return {"hook": name}


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


async def _start_turn(context: SidecarContext, params: TurnStartParams) -> dict[str, Any]:
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
    context.turns[turn.meta.turn_id] = turn
    await turn.__aenter__()  # the client ends it
    return {"turn": turn.meta.turn_id, "meta": turn.meta.wire()}


async def _resume(context: SidecarContext, params: TurnResumeParams) -> bytes:
    return outcome_json(await context.turn(params.turn).resume(params.tool_call_id, params.decision))


async def _end_turn(context: SidecarContext, params: TurnEndParams) -> dict[str, Any]:
    turn = context.turn(params.turn)
    context.forget_turn(turn)
    await turn.end_with(params.status, params.reason, params.content)
    return {"iterations": turn.meta.iteration}


SESSION_METHODS = (
    Method("session.start", _start, SessionStartParams),
    Method("session.end", _end, SessionParams),
    Method("session.mount", _mount, MountParams),
    Method("turn.start", _start_turn, TurnStartParams),
    Method("turn.resume", _resume, TurnResumeParams),
    Method("turn.end", _end_turn, TurnEndParams),
)
