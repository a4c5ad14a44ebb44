"""The context of the sidecar's methods: one connection, with the sessions and turns that it has open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ....rpc.jsonrpc import NOT_OPEN, REFUSED, RpcError
from ...control.control import ControlContext

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from ....calls.caller import Caller
    from ....calls.tool_call import DecidedCall
    from ....host import Host
    from ....model.payloads import Meta
    from ....rpc.connection import Connection
    from ....sessions.base_session import BaseSession
    from ..remote_turn import RemoteSession, RemoteTurn

MAX_OPEN = 1024
"""The most sessions, and the most turns, that one connection may have open."""


class SidecarContext(ControlContext):
    """One connection. Its sessions and turns end with it."""

    host: Host

    def __init__(self, host: Host, connection: Connection, taken: set[str], end: Callable[[], None]) -> None:
        super().__init__(host, connection)
        self.outgoing = connection.outgoing
        """The requests to the client, which answers its own hooks."""
        self.sessions: dict[str, RemoteSession] = {}
        self.turns: dict[str, RemoteTurn] = {}
        self.decided: dict[int, tuple[DecidedCall, RemoteTurn | None]] = {}
        """The calls that were decided and are not concluded, and their turns."""
        self._last_decided = 0
        self.taken = taken
        """The names of the sessions of all connections. They are unique, since hooks own tools by session."""
        self.end = end
        """Shuts the server down."""
        self._ended: dict[tuple[str, str], None] = {}
        """The last ended sessions with hooks of the client's own, and the last ended turns of such sessions."""

    def session(self, name: str) -> RemoteSession:
        """An open session. Raises `RpcError`."""
        if name not in self.sessions:
            raise RpcError(NOT_OPEN, f"this connection has no session {name!r} open")
        return self.sessions[name]

    def turn(self, name: str) -> RemoteTurn:
        """An open turn. Raises `RpcError`."""
        if name not in self.turns:
            raise RpcError(NOT_OPEN, f"this connection has no turn {name!r} open")
        return self.turns[name]

    def host_of(self, meta: Meta) -> Caller:
        """The host of the session that the meta names, or the sidecar's host if that session is not open here."""
        session = self.sessions.get(meta.session_key)
        return self.host if session is None else session.host

    def require_hooks_of(self, meta: Meta) -> None:
        """Raise `RpcError` if the client's own hooks would not be asked because their session or turn has ended."""
        if not self._ended:
            return
        for kind, name in ("session", meta.session_key), ("turn", meta.turn_id):
            if (kind, name) in self._ended and meta.session_key not in self.sessions:
                raise RpcError(
                    NOT_OPEN, f"the {kind} {name!r} is over, and hooks that were mounted for it are not asked"
                )

    def keep_decided(self, decided: DecidedCall, turn: RemoteTurn | None) -> int:
        """Keep a call that the client runs, until it is concluded or its turn ends. Returns its number."""
        self._last_decided += 1
        self.decided[self._last_decided] = decided, turn
        return self._last_decided

    def take_decided(self, number: int) -> DecidedCall:
        """A decided call, which is concluded now. Raises `RpcError`."""
        if number not in self.decided:
            raise RpcError(
                NOT_OPEN, f"this connection has no decided call {number}: each is concluded once, in its turn"
            )
        return self.decided.pop(number)[0]

    def forget_turn(self, turn: RemoteTurn) -> None:
        """Drop a turn that ends."""
        del self.turns[turn.meta.turn_id]
        self.decided = {name: kept for name, kept in self.decided.items() if kept[1] is not turn}
        self._remember_end("turn", turn.meta.turn_id, turn.session)

    async def end_session(self, session: RemoteSession, reason: str) -> None:
        """End a session. First ends its open turns, the newest one first."""
        del self.sessions[session.id]
        self._remember_end("session", session.id, session)
        for turn in [turn for turn in reversed(self.turns.values()) if turn.session is session]:
            self.forget_turn(turn)
            await turn.end_with("aborted", reason, None)
        try:
            await session.__aexit__(None, None, None)
        finally:
            self.taken.discard(session.id)

    def _remember_end(self, kind: str, name: str, session: BaseSession) -> None:
        if session.hooks:
            self._ended[kind, name] = None
            if len(self._ended) > MAX_OPEN:
                del self._ended[next(iter(self._ended))]

    async def aclose(self) -> None:
        await super().aclose()
        async with (
            anyio.create_task_group() as tasks
        ):  # at the same time: there may be many sessions, and slow observers
            for session in [*self.sessions.values()]:
                tasks.start_soon(self.end_session, session, "the client is gone")


def require_room(open_ones: Sized, noun: str) -> None:
    """Raise `RpcError` if the connection may open no more."""
    if len(open_ones) >= MAX_OPEN:
        raise RpcError(REFUSED, f"this connection has {MAX_OPEN} {noun} open: end some first")
