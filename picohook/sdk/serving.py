"""The conversation with the host: lines in, handlers called, lines out.

As long as every handler is a plain function this is a loop that reads and answers, and nothing else is imported or started.
The first awaitable that a handler returns moves it onto an event loop, in the same thread, for good.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from collections import deque
from json import JSONDecoder, JSONEncoder

from ..wire import words
from .views import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    from .app import HookApp
    from .base import Call
    from .loop import Loop
    from .types import Handler

CHUNK = 64 * 1024
HANDLER_FAILED = -32000
INVALID_REQUEST = -32600

_CONTINUE = '{"action":"continue"}'

load = JSONDecoder().decode
dump = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Server:
    """One conversation of an app with one host."""

    def __init__(self, app: HookApp, stdin: int, stdout: int) -> None:
        self.name = app.name
        self.stdin = stdin
        self.over = False
        self._app = app
        self._stages = app.stages
        self._stdout = stdout
        self._writing = allocate_lock()
        self._greeted = False
        self._missed = ""
        """Why a handler failed at an event last."""
        self._tail: list[bytes] = []
        self._lines: deque[bytes] = deque()
        self._inline: Call | None = None
        self._loop: Loop | None = None
        self._waiting: list[Callable[[Loop], None]] = []
        """What to start on the event loop once there is one."""

    def serve(self) -> None:
        """Read and answer until the host closes its end; then call what is to be called at the end."""
        try:
            while not (self.over or self._waiting):
                self.receive()
            if self._waiting:
                self._event_loop().run(self._waiting)
        finally:
            self.over = True
            for handler in self._app.closers:
                self._close(handler)
            if self._loop is not None:
                self._loop.close()

    def _event_loop(self) -> Loop:
        if self._loop is None:
            from .loop import Loop  # noqa: PLC0415 - asyncio takes longer to import than all that is here takes to start

            self._loop = Loop(self)
        return self._loop

    def _close(self, handler: Callable[[], Any]) -> None:
        try:
            awaitable = handler()
            if hasattr(awaitable, "__await__"):
                self._event_loop().complete(awaitable)
        except Exception as error:  # noqa: BLE001 - the others have their turn
            report(error)

    # What comes in.

    def receive(self) -> None:
        """Read what there is, waiting for it if need be, and take it."""
        self._lines.extend(self._read())
        while self._lines:
            self._take(self._lines.popleft())

    def _read(self) -> list[bytes]:
        try:
            chunk = os.read(self.stdin, CHUNK)
        except OSError:
            chunk = b""
        if not chunk:
            self.over = True
        *lines, rest = chunk.split(b"\n")
        if lines and self._tail:
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail = []
        if rest:
            self._tail.append(rest)
        return lines

    def decode(self, line: bytes) -> Any:
        """The JSON on a line."""
        return load(line.decode())

    def _take(self, line: bytes) -> None:
        try:
            message = load(line.decode())
        except (ValueError, RecursionError) as error:
            if line.strip():
                self.complain(f"skipped a line that is not JSON: {error}")
            return
        method = message.get("method") if type(message) is dict else None
        if type(method) is not str:
            self.complain("skipped a line that is no request")
            return
        params = message.get("params")
        if type(params) is not dict:
            params = {}
        request_id = message.get("id", 0)
        if type(request_id) is int and not request_id:  # as a host in Go sends none
            self._told(method, params)
            return
        stage = self._stages.get(method)
        if type(request_id) not in {int, str, float}:
            self._refuse(None, INVALID_REQUEST, "the id is neither a number nor a string")
        elif stage is None:
            self._asked(method, params, request_id)
        else:
            self._ask(stage.call(params, request_id, line, self), stage.handlers_for(params.get("tool")))

    def _asked(self, method: str, params: dict[str, Any], request_id: object) -> None:
        """A request that no handler is for."""
        if method == words.HELLO:
            self._greeted = True
            self._answer(request_id, dump(self._app.hello(params)))
        elif method == words.PING:
            self._answer(request_id, "{}")
        else:
            self._refuse(request_id, words.METHOD_NOT_FOUND, "this hook has no such method")

    def _told(self, method: str, params: dict[str, Any]) -> None:
        """A notification: never answered."""
        if method in {words.EVENT, words.RUNTIME_EVENT}:
            event = Event(params)
            for handler in self._app.observers_of(event.kind):
                self._observe(handler, event)
        elif method == words.CANCEL and self._loop is not None:
            self._loop.cancel(params.get("id"))

    # Calling handlers.

    def _observe(self, handler: Handler, event: Event) -> None:
        try:
            awaitable = handler(event)
            if hasattr(awaitable, "__await__"):
                self._later(lambda loop: loop.observe(awaitable))
        except Exception as error:  # noqa: BLE001 - nobody waits for an answer, and the others are told too
            self.missed(error)

    def _ask(self, call: Call, handlers: Iterator[Handler]) -> None:
        self._inline = call
        try:
            awaitable = self.ask(call, handlers)
            if awaitable is None:
                self.conclude(call)
            else:
                self._later(lambda loop: loop.start(call, awaitable, handlers))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises, its request is answered
            self.fail(call, error)
        finally:
            self._inline = None

    def ask(self, call: Call, handlers: Iterator[Handler]) -> Awaitable[Any] | None:
        """Ask the handlers that are left, up to the one that decides, or up to one whose answer has to be awaited."""
        for handler in handlers:
            answer = handler(call)
            if hasattr(answer, "__await__"):
                return answer  # type: ignore[no-any-return]
            call.take(answer)
            if call.decision is not None:
                break
        return None

    def _later(self, start: Callable[[Loop], None]) -> None:
        if self._loop is None:
            self._waiting.append(start)
        else:
            start(self._loop)

    def look_for_cancel(self, call: Call) -> None:
        """A handler that keeps this loop from reading wants to know whether its call was cancelled: read on for it."""
        if self._inline is not call:
            return
        import select  # noqa: PLC0415 - few need it

        poll = select.poll()
        poll.register(self.stdin, select.POLLIN)
        while not self.over and poll.poll(0):
            for line in self._read():
                if words.CANCEL.encode() in line and self._cancels(line, call):
                    call.given_up = True
                else:
                    self._lines.append(line)
        call.given_up = call.given_up or self.over

    def _cancels(self, line: bytes, call: Call) -> bool:
        try:
            message = self.decode(line)
            return bool(message["method"] == words.CANCEL and message["params"]["id"] == call.id)
        except (ValueError, LookupError, TypeError, RecursionError):
            return False

    # What goes out.

    def conclude(self, call: Call) -> None:
        """Send what was decided."""
        reply = call.reply()
        body = _CONTINUE if reply is None else dump(reply)
        if not call.given_up:
            self._answer(call.id, body)

    def fail(self, call: Call, error: BaseException) -> None:
        """Answer with an error that says what was raised and where; the whole traceback goes to stderr.

        A denial that was made before stands.
        """
        from ..wire.text import explain  # noqa: PLC0415 - for mistakes only

        report(error)
        if call.denied:
            self.conclude(call)
        elif not call.given_up:
            self._refuse(call.id, HANDLER_FAILED, explain(error))

    def missed(self, error: BaseException) -> None:
        """A handler failed at an event, which has no answer: the host's log is told, once of the same again and again."""
        from ..wire.text import explain  # noqa: PLC0415 - for mistakes only

        report(error)
        why = explain(error)
        if self._greeted and why != self._missed:
            self._missed = why
            self.log("warning", f"an event was not taken: {why}", {})

    def progress(self, request_id: object, message: str) -> None:
        """Tell the host that a request is being worked on."""
        params = {"id": request_id, "message": message} if message else {"id": request_id}
        self._send(dump({"jsonrpc": "2.0", "method": words.PROGRESS, "params": params}))

    def log(self, level: str, message: str, fields: dict[str, Any]) -> None:
        """A line for the host's log."""
        params = {"level": level, "message": message, **({"fields": fields} if fields else {})}
        if self._greeted and not self.over:
            self._send(dump({"jsonrpc": "2.0", "method": words.LOG, "params": params}))
        else:
            self.complain(f"{level}: {message} {fields or ''}".rstrip())

    def complain(self, what: str) -> None:
        """A line for people, on stderr."""
        sys.stderr.write(f"{self.name}: {what}\n")
        sys.stderr.flush()

    def _answer(self, request_id: object, body: str) -> None:
        shown = str(request_id) if type(request_id) is int else dump(request_id)
        self._send(f'{{"jsonrpc":"2.0","id":{shown},"result":{body}}}')

    def _refuse(self, request_id: object, code: int, message: str) -> None:
        self._send(dump({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}))

    def _send(self, line: str) -> None:
        data = line.encode() + b"\n"
        with self._writing:
            try:
                sent = os.write(self._stdout, data)
                while sent < len(data):
                    sent += os.write(self._stdout, memoryview(data)[sent:])
            except OSError:
                self.over = True  # nobody reads any more


def report(error: BaseException) -> None:
    """The whole story, on stderr."""
    sys.excepthook(type(error), error, error.__traceback__)
