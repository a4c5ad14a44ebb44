"""Parts: what extensions add to one host while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from ..hooks.base import Hook
    from ..host import Host
    from ..model.decisions import Approve, Deny
    from ..model.payloads import ToolCall
    from ..model.trail import TrailEntry
    from .engine import Engine
    from .listener import Listener, Listeners

Q = TypeVar("Q")

LAST_RESORT = 5.0
"""Seconds in which a part has to close."""


class Part:
    """An extension's addition to one host while it runs. A subclass overrides the methods that it needs."""

    name = ""
    """Its name in trails; empty for that of its class."""
    listeners: Sequence[Listener] = ()
    """They see the host's questions and events from before `open` until after the hooks have ended."""

    async def open(self, host: Host) -> None:
        """The host runs, and none of its hooks has started. If this raises, the host's start raises the same error."""

    async def started(self) -> None:
        """Each hook can serve, or has failed to start."""

    def answer(
        self, call: ToolCall, approvers: Sequence[Hook]
    ) -> Awaitable[Approve | Deny | None] | Approve | Deny | None:
        """Answers in place of these approvers, for example by earlier grants. Returns None to have them asked. May be async.

        `call` is a copy of the call that will run. `approvers` may be those of a session. Approvers with `guard` are asked in
        any case, also about an approved call. An error, or no answer within five seconds, counts as None and is in the trail.
        """

    async def granted(self, call: ToolCall, grants: Sequence[tuple[Hook, TrailEntry]]) -> None:
        """All approvers said yes to this call, and these hooks gave a grant with it. It is in their entries of the trail.

        An error, or no end within five seconds, is in the trail. The call is approved in any case.
        """

    def follow(self, tables: Sequence[Any]) -> None:
        """A reload has read these tables: those of all files, in the order of their layers."""

    def status(self) -> Mapping[str, Any]:
        """Returns what the part adds to the host's status, by the names of its fields."""
        return {}

    async def aclose(self) -> None:
        """The hooks and the listeners have ended. This is called for each part whose `open` returned."""


class Parts:
    """The parts of one host."""

    def __init__(self, parts: Iterable[Part], listeners: Listeners) -> None:
        self.all = [*parts]
        """In the order in which they are opened."""
        self._opened: list[Part] = []
        self._listeners = listeners

    async def open(self, host: Engine) -> None:
        """Open all parts, one after another. Raises the error of the first that fails."""
        for part in self.all:
            await part.open(cast("Host", host))
            self._opened.append(part)

    async def started(self) -> None:
        for part in self.all:
            await part.started()

    async def add(self, host: Engine, part: Part) -> None:
        """Open a part of a host that runs already. Raises the error of its listeners, and its own."""
        self._listeners.add(part.listeners)
        try:
            await part.open(cast("Host", host))
        except BaseException:
            self._listeners.remove(part.listeners)
            raise
        self.all.append(part)
        self._opened.append(part)

    async def remove(self, host: Engine, part: Part) -> None:
        self.all.remove(part)
        self._listeners.remove(part.listeners)
        await self._close(host, part)

    async def aclose(self, host: Engine) -> None:
        """Close the parts that were opened, the last one first."""
        while self._opened:
            await self._close(host, self._opened[-1])

    async def _close(self, host: Engine, part: Part) -> None:
        self._opened.remove(part)
        with anyio.move_on_after(LAST_RESORT, shield=True):
            try:
                await part.aclose()
            except Exception as error:
                host.log.error("a part failed to close", part=type(part).__name__, why=repr(error))

    @property
    def answering(self) -> list[Part]:
        """The parts that may answer in place of approvers."""
        return [part for part in self.all if type(part).answer is not Part.answer]

    def find(self, kind: type[Q]) -> Q | None:
        return next((part for part in self.all if isinstance(part, kind)), None)

    def status(self) -> dict[str, Any]:
        return {name: value for part in self.all for name, value in part.status().items()}
