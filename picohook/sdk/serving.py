"""Serves a host: reads requests, calls handlers, writes answers.

While every handler is a plain function, this is a simple loop that reads and answers, and imports no other modules. The first
awaitable that a handler returns moves the rest of the conversation to an event loop in the same thread.
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

    from .base import Call
    from .handlers import Registry
    from .loop import Loop
    from .types import Handler

CHUNK = 64 * 1024
HANDLER_FAILED = -32000
INVALID_REQUEST = -32600

_CONTINUE = '{"action":"continue"}'

load = JSONDecoder().decode
dump = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Server:
    """One conversation of a hook with one host."""

    def __init__(self, registry: Registry, stdin: int, stdout: int) -> None:
        self.stdin = stdin
        self.over = False
        """Whether the host closed stdin."""
        self._registry = registry
        self._stages = registry.stages
        self._stdout = stdout
        self._writing = allocate_lock()
        self._greeted = False
        self._strange = False
        """Whether a line came that is not a request."""
        self._last_failure = ""
        """The error of the handler of an event that failed last."""
        self._tail: list[bytes] = []
        self._lines: deque[bytes] = deque()
        self._inline: Call | None = None
        self._loop: Loop | None = None
        self._waiting: list[Callable[[Loop], None]] = []
        """The functions to start on the event loop once it runs."""

    def serve(self) -> None:
        """Read and answer until the host closes stdin. Then call the shutdown handlers."""
        try:
            while not (self.over or self._waiting):
                self.receive()
            if self._waiting:
                self._event_loop().run(self._waiting)
        finally:
            self.over = True
            for handler in self._registry.closers:
                self._close(handler)
            if self._loop is not None:
                self._loop.close()

    @property
    def is_misread(self) -> bool:
        """Whether input came and no greeting: this was started by a program with another protocol."""
        return not self._greeted and (self._strange or bool(self._tail))

    def _event_loop(self) -> Loop:
        if self._loop is None:
            from .loop import Loop  # asyncio takes longer to import than the whole SDK

            self._loop = Loop(self)
        return self._loop

    def _close(self, handler: Callable[[], Any]) -> None:
        try:
            awaitable = handler()
            if hasattr(awaitable, "__await__"):
                self._event_loop().complete(awaitable)
        except Exception as error:  # the remaining ones are still called
            print_traceback(error)

    # Reading.

    def receive(self) -> None:
        """Read the host's lines, and handle each whole line. Blocks until there is input."""
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

    def _take(self, line: bytes) -> None:
        try:
            message = load(line.decode())
        except (ValueError, RecursionError) as error:
            if line.strip():
                self._strange = True
                self.warn(f"skipped a line that is not JSON: {error}")
            return
        method = message.get("method") if type(message) is dict else None
        if type(method) is not str:
            self._strange = True
            self.warn("skipped a line that is not a request")
            return
        params = message.get("params")
        if type(params) is not dict:
            params = {}
        request_id = message.get("id", 0)
        if type(request_id) is int and not request_id:  # a host in Go writes 0 for an id that is not set
            self._notified(method, params)
            return
        stage = self._stages.get(method)
        if type(request_id) not in {int, str, float}:
            self._refuse(None, INVALID_REQUEST, "the id is neither a number nor a string")
        elif stage is None:
            self._reply_to(method, params, request_id)
        else:
            self._call_handlers(stage.call(params, request_id, line, self), stage.handlers_for(params.get("tool")))

    def _reply_to(self, method: str, params: dict[str, Any], request_id: object) -> None:
        """Answer a request that has no handlers."""
        if method == words.HELLO:
            self._greeted = True
            self._answer(request_id, dump(self._hello(params)))
        elif method == words.PING:
            self._answer(request_id, "{}")
        else:
            self._refuse(request_id, words.METHOD_NOT_FOUND, "this hook has no such method")

    def _hello(self, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to the host's greeting."""
        version, modes = params.get("version", words.VERSION), params.get("modes")
        if version != words.VERSION:
            return {"ok": False, "reason": f"this hook speaks version {words.VERSION}, and not {version!r}"}
        calls = [handlers.call for handlers in self._stages.values()]
        if isinstance(modes, list) and (unasked := [call.stage for call in calls if call.mode not in modes]):
            self.warn(f"this host does not ask {', '.join(unasked)}: its `stages` do not name them")
        offered = ["cancel", "progress", "log", "ping"] if calls else ["log", "ping"]
        if self._registry.streams:
            offered.append(words.STREAM)
        hello = {"ok": True, "name": self._registry.name, "capabilities": dict.fromkeys(offered, True)}
        if self._registry.max_in_flight is not None:
            hello["max_in_flight"] = self._registry.max_in_flight
        elif calls and not self._registry.awaits:
            hello["max_in_flight"] = 1
        return hello

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        """Handle a notification, which is never answered."""
        if method in {words.EVENT, words.RUNTIME_EVENT}:
            event = Event(params)
            for kinds, handler in self._registry.observers:
                if kinds is None or event.kind in kinds:
                    self._observe(handler, event)
        elif method == words.CANCEL and self._loop is not None:
            self._loop.cancel(params.get("id"))

    # Calling handlers.

    def _observe(self, handler: Handler, event: Event) -> None:
        try:
            awaitable = handler(event)
            if hasattr(awaitable, "__await__"):
                self._later(lambda loop: loop.observe(awaitable))
        except Exception as error:  # the next handlers are still called
            self.event_failed(error)

    def _call_handlers(self, call: Call, handlers: Iterator[Handler]) -> None:
        self._inline = call
        try:
            awaitable = self.ask(call, handlers)
            if awaitable is None:
                self.conclude(call)
            else:
                self._later(lambda loop: loop.start(call, awaitable, handlers))
        except Exception as error:  # every request is answered
            self.fail(call, error)
        except SystemExit:
            self.warn(f"its handler of {call.stage} called exit() and answered nothing: return a decision instead")
            raise
        finally:
            self._inline = None

    def ask(self, call: Call, handlers: Iterator[Handler]) -> Awaitable[Any] | None:
        """Call the remaining handlers until one decides. Returns the result that has to be awaited first, or None."""
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
        """Read ahead, and mark the call as given up if the host cancelled it. While its handler runs, the loop cannot read."""
        if self._inline is not call:
            return
        import select  # few hooks need it

        poll = select.poll()
        poll.register(self.stdin, select.POLLIN)
        while not self.over and poll.poll(0):
            self._lines.extend(self._read())
        call.given_up = self.over or any(self._cancels(line, call) for line in self._lines)

    def _cancels(self, line: bytes, call: Call) -> bool:
        try:
            message = load(line.decode()) if words.CANCEL.encode() in line else {}
            return bool(message["method"] == words.CANCEL and message["params"]["id"] == call.id)
        except (ValueError, LookupError, TypeError, RecursionError):
            return False

    # Writing.

    def conclude(self, call: Call) -> None:
        """Send the decision."""
        reply = call.reply()
        body = _CONTINUE if reply is None else dump(reply)
        if not call.given_up:
            self._answer(call.id, body)

    def fail(self, call: Call, error: BaseException) -> None:
        """Answer with an error that names the exception and its place. The traceback goes to stderr.

        A denial that was made before the error stands.
        """
        from ..wire.text import explain  # for mistakes only

        print_traceback(error)
        if call.denied:
            self.conclude(call)
        elif not call.given_up:
            self._refuse(call.id, HANDLER_FAILED, explain(error))

    def event_failed(self, error: BaseException) -> None:
        """Write to the host's log that the handler of an event failed. A repeated failure is logged once."""
        from ..wire.text import explain  # for mistakes only

        print_traceback(error)
        why = explain(error)
        if self._greeted and why != self._last_failure:
            self._last_failure = why
            self.log("warning", f"the handler of an event failed: {why}", {})

    def progress(self, request_id: object, message: str) -> None:
        """Tell the host that the hook is still working on this request."""
        params = {"id": request_id, "message": message} if message else {"id": request_id}
        self._send(dump({"jsonrpc": "2.0", "method": words.PROGRESS, "params": params}))

    def log(self, level: str, message: str, fields: dict[str, Any]) -> None:
        """Write to the host's log, or to stderr before the greeting and after the end."""
        params = {"level": level, "message": message, **({"fields": fields} if fields else {})}
        if self._greeted and not self.over:
            self._send(dump({"jsonrpc": "2.0", "method": words.LOG, "params": params}))
        else:
            self.warn(f"{level}: {message} {fields or ''}".rstrip())

    def warn(self, text: str) -> None:
        """Write a line to stderr."""
        sys.stderr.write(f"{self._registry.name}: {text}\n")
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
                self.over = True  # the host no longer reads


def print_traceback(error: BaseException) -> None:
    """Write the traceback to stderr."""
    sys.excepthook(type(error), error, error.__traceback__)
