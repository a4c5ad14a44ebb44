"""What a client is asked in its turn: requests to it, on its own connection. And the hooks that it answers itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from ..errors import HookCrashedError, HookError, HookRefusedError, HookTimeoutError
from ..hooks.base import Hook
from ..model.replies import read_decision
from ..protocol.codec import encode
from ..wire.text import show
from .rpc import notification

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..hooks.base import Question
    from ..model.decisions import Decision
    from ..model.events import Event
    from ..model.spec import HookSpec

ASK, EVENT, CANCEL = "ask", "event", "cancel"
"""What a client is sent: a request for a hook that it answers, and notifications."""
MOST_ASKED = 1024
"""Questions that one client may have open."""
SHOWN = 200
"""Bytes of a client's complaint that an error shows."""


class Questions:
    """The questions of one connection. Each ends once: by its answer, by its deadline, or with the connection."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._last = 0
        self._closed = False
        self._send: Callable[[bytes], bool] = _nowhere
        self._tell: Callable[[bytes], bool] = _nowhere

    def begin(self, send: Callable[[bytes], bool], tell: Callable[[bytes], bool]) -> None:
        """The connection is there. Both take a line and return whether it goes out; what is told may be left out."""
        self._send, self._tell = send, tell

    def __len__(self) -> int:
        return len(self._open)

    async def ask(self, params: bytes, deadline: float) -> Any:
        """The result that the client answers with. Raises `HookError`."""
        if len(self._open) >= MOST_ASKED:
            raise HookError(f"the client has {MOST_ASKED} questions to answer already")
        self._last += 1
        number = self._last
        asked = self._open[number] = _Open()
        try:
            line = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}\n' % (number, ASK.encode(), params)
            if self._closed or not self._send(line):
                raise HookCrashedError("the client is gone")
            with anyio.CancelScope(deadline=deadline):
                await asked.ended.wait()
            if not asked.ended.is_set():
                raise HookTimeoutError("no answer in time")
            return asked.result()
        finally:
            del self._open[number]
            if not asked.ended.is_set() and not self._closed:
                self._tell(notification(CANCEL, {"id": number}) + b"\n")

    def tell(self, params: dict[str, Any]) -> bool:
        """Tell the client of an event; whether that goes out."""
        return not self._closed and self._tell(
            b'{"jsonrpc":"2.0","method":"%b","params":%b}\n' % (EVENT.encode(), encode(params))
        )

    def answered(self, message: dict[str, Any]) -> None:
        """Take an answer. One to no open question is dropped: it came too late, or twice."""
        number = message.get("id")
        asked = self._open.get(number) if type(number) is int else None
        if asked is not None and not asked.ended.is_set():
            asked.message = message
            asked.ended.set()

    def close(self) -> None:
        """There will be no more answers: what is open fails now, and what comes later at once."""
        self._closed = True
        for asked in self._open.values():
            asked.ended.set()


class _Open:
    """A question that waits."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.message: dict[str, Any] | None = None

    def result(self) -> Any:
        if self.message is None:
            raise HookCrashedError("the client is gone")
        error = self.message.get("error")
        if error is None:
            return self.message.get("result")
        said = error.get("message") if isinstance(error, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        shown = show(str(said).encode("utf-8", "replace"), SHOWN)
        raise HookRefusedError(f"the client answered with an error: {shown}", code=code if type(code) is int else 0)


def is_answer(value: Any) -> bool:
    """Whether a message is the answer to a request of ours."""
    return type(value) is dict and "method" not in value and "id" in value and ("result" in value or "error" in value)


class ClientHook(Hook):
    """A hook that a client answers itself, for one of its sessions. It fails when the client is gone."""

    in_process = False

    def __init__(self, spec: HookSpec, session_id: str, questions: Questions) -> None:
        super().__init__(spec)
        self._of = {"session": session_id, "hook": spec.name}
        """As the client knows them: the host calls the hook by another name."""
        self._questions = questions

    async def handle(self, question: Question[Any]) -> Decision:
        stage = question.stage
        place = encode({**self._of, "stage": stage.name})
        params = b'%b,"payload":%b}' % (place[:-1], question.encoded.params())
        answer = await self._questions.ask(params, question.deadline)
        if stage.approves and anyio.current_time() > question.deadline:
            raise HookTimeoutError("no answer in time", hook=self.name)
        return read_decision(stage, answer)

    def notify(self, event: Event) -> None:
        told = {"kind": event.kind, "meta": event.meta.wire(), "payload": event.payload}
        self._questions.tell({**self._of, **told})


def _nowhere(_: bytes) -> bool:
    return False
