"""Hooks that a client answers itself, on its own connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from ....errors import HookTimeoutError
from ....hooks.base import Hook
from ....model.replies import read_decision
from ....protocol.codec import encode

if TYPE_CHECKING:
    from ....hooks.base import Question
    from ....model.decisions import Decision
    from ....model.events import Event
    from ....model.spec import HookSpec
    from ....rpc.outgoing import OutgoingRequests


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

    def notify(self, event: Event) -> None:
        about = {"kind": event.kind, "meta": event.meta.wire(), "payload": event.payload}
        self._requests.notify({**self._names, **about})
