"""What a runtime in another language asks: the stages, events, and its sessions and turns."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Literal

import anyio
from pydantic import Field, field_validator, model_validator

from ..engine.order import OF_SESSION
from ..model.events import known_kind
from ..model.filters import Filter  # noqa: TC001 - pydantic reads it at run time
from ..model.payloads import NO_META, Meta, Payload
from ..model.spec import HookSpec, Seconds, StageName
from ..model.stages import STAGES
from ..protocol.codec import encode
from ..wire import words
from ..wire.text import escape, show
from .kept import KeptSession, KeptTurn
from .operating import OPERATING, Operator
from .questions import ClientHook
from .rpc import INVALID_PARAMS, NOT_OPEN, REFUSED, RETRY_LIMIT, TAKEN, RpcError
from .table import TRUE, Method, Params

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..engine.engine import Engine
    from ..model.decisions import Outcome
    from ..model.stages import Stage
    from .client import Tell
    from .questions import Questions

MOST_HOOKS = 64
"""Hooks that one session may have of its client."""
MOST_OPEN = 1024
"""Sessions, and turns, that one connection may have open."""


class Driver(Operator):
    """One runtime, and the sessions and turns that it has open. They end with its connection."""

    def __init__(
        self, host: Engine, tell: Tell, taken: set[str], end: Callable[[], None], questions: Questions
    ) -> None:
        super().__init__(host, tell)
        self.questions = questions
        """What the client is asked: the hooks of its sessions that it answers itself."""
        self.sessions: dict[str, KeptSession] = {}
        self.turns: dict[str, KeptTurn] = {}
        self._over: dict[tuple[str, str], None] = {}
        """Sessions that had hooks of the client's, and their turns, which have ended: the last of them."""
        self.taken = taken
        """The sessions of all connections: hooks own tools by session."""
        self.end = end
        """Shuts the server down."""

    def session(self, name: str) -> KeptSession:
        """One that is open."""
        if name not in self.sessions:
            raise RpcError(NOT_OPEN, f"this connection has no session {name!r} open")
        return self.sessions[name]

    def host_of(self, meta: Meta) -> Engine:
        """The host as the session of this meta asks it, if that is open on this connection."""
        session = self.sessions.get(meta.session_key)
        return self.host if session is None else session.host

    def require_hooks_of(self, meta: Meta) -> None:
        """Raise where hooks of the client's would not be asked, because what they were mounted for is over."""
        for kind, name in ("session", meta.session_key), ("turn", meta.turn_id):
            if (kind, name) in self._over and meta.session_key not in self.sessions:
                raise RpcError(
                    NOT_OPEN, f"the {kind} {name!r} is over, and hooks that were mounted for it are not asked"
                )

    def began(self, kind: str, name: str) -> None:
        """One of this name is open, perhaps again."""
        self._over.pop((kind, name), None)

    def ended(self, kind: str, name: str, session: KeptSession) -> None:
        """One of this name is over: what is still asked about it is refused, if the session has hooks of the client's."""
        if session.hooks:
            self._over[kind, name] = None
            if len(self._over) > MOST_OPEN:
                del self._over[next(iter(self._over))]

    def turn(self, name: str) -> KeptTurn:
        """One that is open."""
        if name not in self.turns:
            raise RpcError(NOT_OPEN, f"this connection has no turn {name!r} open")
        return self.turns[name]

    async def end_session(self, session: KeptSession, reason: str) -> None:
        """End it, and the turns that are open in it, the last one first."""
        del self.sessions[session.id]
        self.ended("session", session.id, session)
        for turn in [turn for turn in reversed(self.turns.values()) if turn.session is session]:
            del self.turns[turn.meta.turn_id]
            self.ended("turn", turn.meta.turn_id, session)
            await turn.end_with("aborted", reason, None)
        try:
            await session.__aexit__(None, None, None)
        finally:
            self.taken.discard(session.id)

    async def aclose(self) -> None:
        await super().aclose()
        async with anyio.create_task_group() as tasks:  # observers may be slow, and there may be many sessions
            for session in [*self.sessions.values()]:
                tasks.start_soon(self.end_session, session, "the client is gone")


# Stages and events.


def _stage(stage: Stage[Any]) -> Method:
    async def ask(on: Driver, payload: Payload) -> bytes:
        turn = on.turns.get(payload.meta.turn_id)
        if turn is not None:
            return _shown(await turn.ask(stage, payload))
        on.require_hooks_of(payload.meta)
        host = on.host_of(payload.meta)
        outcome: Outcome[Any] = await getattr(host, stage.name)(payload)
        host.take_note(outcome)
        return _shown(outcome)

    about = f"Ask the hooks at {stage.name}; the params are its payload."
    return Method(stage.name, about, ask, stage.payload, _outcome_of(stage.payload.__name__), (NOT_OPEN, RETRY_LIMIT))


def _outcome_of(payload: str) -> dict[str, Any]:
    of_stage = {"properties": {"payload": {"$ref": f"#/components/schemas/{payload}"}}}
    return {"allOf": [{"$ref": "#/components/schemas/Outcome"}, of_stage]}


def _shown(outcome: Outcome[Any]) -> bytes:
    """`Outcome.wire` as JSON; what may be large in it is encoded on its own, for whatever has a null is looked at twice."""
    shown = outcome.wire()
    payload = encode(shown.pop("payload"))
    result = b',"result":' + encode(shown.pop("result")) if "result" in shown else b""
    return b'%b,"payload":%b%b}' % (encode(shown)[:-1], payload, result)


class Told(Params):
    """An event."""

    kind: str
    payload: dict[str, Any] = Field(default_factory=dict)
    meta: Meta = NO_META
    context: dict[str, Any] | None = None
    channel: str = ""
    chat_id: str = ""

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        return known_kind(kind)


async def _emit(on: Driver, told: Told) -> bool:
    turn = on.turns.get(told.meta.turn_id)
    said = {name: value for name, value in told.meta.__dict__.items() if value}
    meta = told.meta if turn is None else turn.meta.model_copy(update=said)
    session = None if turn is None else turn.session
    about = Payload(
        meta=meta,
        context=told.context or (session.context if session else None),
        channel=told.channel or (session.channel if session else ""),
        chat_id=told.chat_id or (session.chat_id if session else ""),
    )
    on.host_of(meta).emit(told.kind, told.payload, about=about)
    return True


# Sessions and turns.


class NewSession(Params):
    """A session with a user."""

    session: str | None = Field(default=None, min_length=1)
    agent_id: str = ""
    channel: str = ""
    chat_id: str = ""
    context: dict[str, Any] | None = None


class SessionName(Params):
    """Which session."""

    session: str


class NewHook(Params):
    """A hook that the client answers itself, in one of its sessions."""

    session: str
    hook: str = Field(min_length=1)
    stages: list[StageName] = Field(default_factory=list)
    observe: list[str] = Field(default_factory=list)
    priority: int = 100
    after: list[str] = Field(default_factory=list)
    filter: Filter | None = None
    guard: bool = False
    timeout: Seconds | None = None
    approval_timeout: Seconds | None = None
    on_failure: Literal["continue", "deny", "abort"] | None = None

    @field_validator("observe")
    @classmethod
    def _known(cls, kinds: list[str]) -> list[str]:
        return [kind if kind in words.EVERY_KIND else known_kind(kind) for kind in kinds]

    @model_validator(mode="after")
    def _is_asked(self) -> NewHook:
        if not self.stages and not self.observe:
            raise ValueError("has neither stages nor observe: the hook is never asked and never told")
        return self


class HookOfSession(Params):
    """Which hook of which session."""

    session: str
    hook: str


class NewTurn(Params):
    """A turn; with `parent`, inside another one."""

    session: str
    user_message: str = ""
    turn: str | None = Field(default=None, min_length=1)
    parent: str | None = None
    agent_id: str | None = None
    label: str = ""
    media_count: int = 0


class EndedTurn(Params):
    """How a turn ended."""

    turn: str
    status: Literal["completed", "error", "aborted"] = "completed"
    reason: str = ""
    content: str | None = None


class Answer(Params):
    """An answer for a hook that paused."""

    turn: str
    decision: dict[str, Any]
    tool_call_id: str = ""


async def _session_start(on: Driver, new: NewSession) -> dict[str, Any]:
    name = new.session or uuid.uuid4().hex
    if name in on.taken:
        raise RpcError(TAKEN, f"a session {name!r} is open already")
    _require_room(on.sessions, "sessions")
    about = new.model_dump(exclude={"session"})
    session = KeptSession(on.host, name, **about)
    on.taken.add(name)
    on.sessions[name] = session
    on.began("session", name)
    await session.__aenter__()  # its block is the client's
    return {"session": name}


async def _session_end(on: Driver, which: SessionName) -> bool:
    await on.end_session(on.session(which.session), "the session ended")
    return True


async def _session_mount(on: Driver, new: NewHook) -> dict[str, Any]:
    session = on.session(new.session)
    if len(session.hooks) >= MOST_HOOKS:
        raise RpcError(REFUSED, f"session {new.session!r} has {MOST_HOOKS} hooks: unmount some first")
    if escape(new.hook) != new.hook or not new.hook.strip() or new.hook.endswith(OF_SESSION):
        raise RpcError(INVALID_PARAMS, f'Invalid params: "{show(new.hook.encode(), 80)}" cannot be the name of a hook')
    if any(hook.name == new.hook + OF_SESSION for hook in session.hooks):
        raise RpcError(TAKEN, f"session {new.session!r} has a hook {new.hook!r} already")
    settings = new.model_dump(exclude={"session", "hook"}, exclude_none=True)
    spec = HookSpec.model_validate({**settings, "name": new.hook})
    await session.mount(ClientHook(spec, session.id, on.questions))
    return {"hook": new.hook + OF_SESSION}


async def _session_unmount(on: Driver, which: HookOfSession) -> bool:
    session = on.session(which.session)
    if not any(hook.name == which.hook + OF_SESSION for hook in session.hooks):
        raise RpcError(NOT_OPEN, f"session {which.session!r} has no hook {which.hook!r}")
    await session.unmount(which.hook)
    return True


async def _turn_start(on: Driver, new: NewTurn) -> dict[str, Any]:
    session = on.session(new.session)
    parent = None if new.parent is None else on.turn(new.parent)
    if new.turn in on.turns:
        raise RpcError(TAKEN, f"a turn {new.turn!r} is open already")
    _require_room(on.turns, "turns")
    turn = session.turn(
        new.user_message,
        parent=parent,
        agent_id=new.agent_id,
        label=new.label,
        media_count=new.media_count,
        turn_id=new.turn,
    )
    assert isinstance(turn, KeptTurn)
    on.turns[turn.meta.turn_id] = turn
    on.began("turn", turn.meta.turn_id)
    await turn.__aenter__()
    return {"turn": turn.meta.turn_id, "meta": turn.meta.wire()}


async def _turn_end(on: Driver, done: EndedTurn) -> dict[str, Any]:
    turn = on.turn(done.turn)
    del on.turns[done.turn]
    assert isinstance(turn.session, KeptSession)
    on.ended("turn", done.turn, turn.session)
    await turn.end_with(done.status, done.reason, done.content)
    return {"iterations": turn.meta.iteration}


async def _turn_resume(on: Driver, answer: Answer) -> bytes:
    return _shown(await on.turn(answer.turn).resume(answer.tool_call_id, answer.decision))


def _require_room(there: dict[str, Any], what: str) -> None:
    if len(there) >= MOST_OPEN:
        raise RpcError(REFUSED, f"this connection has {MOST_OPEN} {what} open: end some first")


async def _shutdown(on: Driver, _: Params) -> bool:
    on.end()
    return True


_SESSION = {"type": "object", "properties": {"session": {"type": "string"}}, "required": ["session"]}
_TURN = {
    "type": "object",
    "properties": {"turn": {"type": "string"}, "meta": {"$ref": "#/components/schemas/Meta"}},
    "required": ["turn", "meta"],
}
_DONE = {"type": "object", "properties": {"iterations": {"type": "integer"}}, "required": ["iterations"]}

DRIVING = (
    *map(_stage, STAGES.values()),
    Method("emit", "Tell the observers of an event. Nobody waits for them.", _emit, Told, TRUE),
    Method(
        "session.start",
        "Begin a session: hooks own tools in it, and turns belong to it.",
        _session_start,
        NewSession,
        _SESSION,
        (TAKEN, REFUSED),
    ),
    Method(
        "session.end", "End a session, and the turns that are open in it.", _session_end, SessionName, TRUE, (NOT_OPEN,)
    ),
    Method(
        "session.mount",
        "Mount a hook of the client's own in one of its sessions: the client answers it, when it is sent the request `ask`.",
        _session_mount,
        NewHook,
        {"type": "object", "properties": {"hook": {"type": "string"}}, "required": ["hook"]},
        (NOT_OPEN, TAKEN, REFUSED),
    ),
    Method(
        "session.unmount",
        "Take a hook of the client's own out of a session.",
        _session_unmount,
        HookOfSession,
        TRUE,
        (NOT_OPEN, REFUSED),
    ),
    Method(
        "turn.start",
        "Begin a turn: what is asked with its id as the meta's `TurnID` belongs to it.",
        _turn_start,
        NewTurn,
        _TURN,
        (NOT_OPEN, TAKEN, REFUSED),
    ),
    Method(
        "turn.resume",
        "Go on where a hook paused: the decision is its answer, and the hooks behind it are asked.",
        _turn_resume,
        Answer,
        {"$ref": "#/components/schemas/Outcome"},
        (NOT_OPEN, REFUSED, RETRY_LIMIT),
    ),
    Method("turn.end", "End a turn.", _turn_end, EndedTurn, _DONE, (NOT_OPEN,)),
    *OPERATING,
    Method("shutdown", "End the server, when all that was asked is answered.", _shutdown),
)
"""Every method of the sidecar."""
