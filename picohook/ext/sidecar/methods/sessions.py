"""The sidecar's methods for sessions, and for the hooks that a client answers in them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from ....model.events import known_kind
from ....model.filters import Filter  # noqa: TC001 - pydantic reads it at run time
from ....model.spec import OF_SESSION, HookSpec, Seconds, StageName
from ....rpc.dispatch import Method, Params
from ....rpc.jsonrpc import INVALID_PARAMS, NOT_OPEN, REFUSED, TAKEN, RpcError
from ....wire import words
from ....wire.text import escape, show
from ..remote_turn import RemoteSession
from .client_hook import ClientHook
from .context import require_room

if TYPE_CHECKING:
    from .context import SidecarContext

MAX_HOOKS = 64
"""The most hooks of the client's own that one session may have."""

MAX_NAMES = 256
"""The most names in one list."""


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
    stages: list[StageName] = Field(default_factory=list, max_length=MAX_NAMES, fail_fast=True)
    observe: list[str] = Field(default_factory=list, max_length=MAX_NAMES, fail_fast=True)
    priority: int = 100
    after: list[str] = Field(default_factory=list, max_length=MAX_NAMES, fail_fast=True)
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
    def _has_a_use(self) -> MountParams:
        if not self.stages and not self.observe:
            raise ValueError("has neither stages nor observe: the hook is never asked and never told")
        return self


class UnmountParams(Params):
    """A hook, and its session."""

    session: str
    hook: str


async def _start(context: SidecarContext, params: SessionStartParams) -> dict[str, Any]:
    name = params.session or uuid.uuid4().hex
    if name in context.taken:
        raise RpcError(TAKEN, f"a session {name!r} is open already")
    require_room(context.sessions, "sessions")
    session = RemoteSession(context.host, name, **params.model_dump(exclude={"session"}))
    context.begin_session(session)
    await session.__aenter__()  # the client ends it
    return {"session": name}


async def _end(context: SidecarContext, params: SessionParams) -> bool:
    await context.end_session(context.session(params.session), "the session ended")
    return True


async def _mount(context: SidecarContext, params: MountParams) -> dict[str, Any]:
    session = context.session(params.session)
    if len(session.hooks) >= MAX_HOOKS:
        raise RpcError(REFUSED, f"session {params.session!r} has {MAX_HOOKS} hooks: unmount some first")
    if escape(params.hook) != params.hook or not params.hook.strip() or params.hook.endswith(OF_SESSION):
        raise RpcError.because(INVALID_PARAMS, f'"{show(params.hook.encode(), 80)}" cannot be the name of a hook')
    name = params.hook + OF_SESSION
    if any(hook.name == name for hook in session.hooks):
        raise RpcError(TAKEN, f"session {params.session!r} has a hook {params.hook!r} already")
    settings = params.model_dump(exclude={"session", "hook"}, exclude_none=True)
    spec = HookSpec.model_validate({**settings, "name": params.hook})
    await session.mount(ClientHook(spec, session.id, context.outgoing))
    return {"hook": name}


async def _unmount(context: SidecarContext, params: UnmountParams) -> bool:
    session = context.session(params.session)
    if not any(hook.name == params.hook + OF_SESSION for hook in session.hooks):
        raise RpcError(NOT_OPEN, f"session {params.session!r} has no hook {params.hook!r}")
    await session.unmount(params.hook)
    return True


SESSION_METHODS = (
    Method("session.start", _start, SessionStartParams),
    Method("session.end", _end, SessionParams),
    Method("session.mount", _mount, MountParams),
    Method("session.unmount", _unmount, UnmountParams),
)
