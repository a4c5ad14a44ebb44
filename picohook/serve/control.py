"""The control socket: a running host is looked at and acted on through it, by who may open it, its owner.

JSON-RPC 2.0 over a Unix socket, one message a line. The methods are `status`, `list`, `metrics`, `reload`, `reset`
`{hook}`, `restart` `{hook}`, and `watch`, after which the host tells of every change as a notification (`state`, `outcome`,
`reloaded`) until the client hangs up. Payloads are never told.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import UNIXSocketStream

from ..decisions import Outcome
from ..errors import ConfigError, PicohookError
from ..hooks.base import StateChange
from ..protocol.lines import LineBuffer
from ..protocol.messages import decode_value
from .methods import Methods, NotAHookError, dispatcher
from .place import CLAIM_PAUSE, inode, listen, lock, require_free

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import TaskGroup

    from ..host import Host
    from ..log import Log
    from ..reload import Reloaded

MAX_LINE = 64 * 1024
"""Bytes of a request."""
MAX_CLIENTS = 32
BEHIND = 1024
"""Notifications that a client may be behind before it is dropped."""
PATIENCE = 10.0
"""Seconds that a client may take to read an answer."""
LONGEST_PATH = 103
"""Bytes: what every system takes for the path of a socket."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REFUSED = -32000
"""The host cannot do it; the message says why, and `data.problems` what is wrong with a configuration."""


class Control:
    """A host's control socket."""

    def __init__(self, host: Host, path: str, log: Log, listener: socket.socket) -> None:
        self._host = host
        self._path = path
        self._log = log
        self._listener = listener
        self._inode = inode(path)
        self._clients = 0

    @classmethod
    async def open(cls, host: Host, path: str | os.PathLike[str], log: Log) -> Control:
        """Listen there. What a dead host left there is replaced; that another host lives there is a `PicohookError`."""
        path = os.path.abspath(path)  # noqa: ASYNC240 - here and below: looks at a directory, and does not wait
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise PicohookError(
                f"the control socket {path} cannot be made: its path has more than {LONGEST_PATH} bytes"
            )
        try:
            with await lock(os.path.dirname(path)):
                require_free(path)
                return cls(host, path, log, listen(path))
        except OSError as error:
            raise PicohookError(f"the control socket {path} cannot be made: {error.strerror or error}") from None

    async def serve(self) -> None:
        """Serve until cancelled."""
        try:
            async with anyio.create_task_group() as clients:
                while True:
                    await anyio.wait_readable(self._listener)
                    try:
                        connection, _ = self._listener.accept()
                    except OSError as error:
                        if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                            await anyio.sleep(CLAIM_PAUSE)  # it waits until there is room again
                        continue
                    if self._clients < MAX_CLIENTS:
                        self._clients += 1
                        clients.start_soon(self._attend, connection)
                    else:
                        connection.close()
        finally:
            if inode(self._path) == self._inode:
                os.unlink(self._path)
            self._listener.close()

    async def _attend(self, connection: socket.socket) -> None:
        try:
            async with await UNIXSocketStream.from_socket(connection) as stream:
                await _Client(self._host, stream, self._log).run()
        except Exception as error:  # noqa: BLE001 - a client hurts nobody
            self._log.warning("a client of the control socket was dropped", why=repr(error))
        finally:
            connection.close()
            self._clients -= 1


class _Client:
    """One connection. Its requests are answered one after another, while it may be told of changes."""

    def __init__(self, host: Host, stream: UNIXSocketStream, log: Log) -> None:
        self._host = host
        self._stream = stream
        self._log = log
        self._writing = anyio.Lock()
        self._tasks: TaskGroup
        self._news, self._to_tell = anyio.create_memory_object_stream[bytes](BEHIND)
        self._watches = False
        self._methods = Methods(host, self._watch)

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._answer_all()
                self._tasks.cancel_scope.cancel()
        finally:
            self._host.watchers.discard(self._notice)
            self._news.close()
            self._to_tell.close()

    async def _answer_all(self) -> None:
        lines = LineBuffer(MAX_LINE)
        while not lines.overflowed:
            try:
                data = await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            for line in lines.feed(data):
                if line.strip():
                    await self._answer(line)
        await self._send(_line(_error(None, INVALID_REQUEST, f"Invalid Request: longer than {MAX_LINE} bytes")))

    async def _answer(self, line: bytes) -> None:
        watched = self._watches
        reply: Any
        try:
            asked = decode_value(line)
        except ValueError:
            reply = _error(None, PARSE_ERROR, "Parse error")
        else:
            if isinstance(asked, list) and asked:
                reply = [one for each in asked if (one := await self._call(each)) is not None]
            else:
                reply = await self._call(asked)
        if reply:
            await self._send(_line(reply))
        if self._watches and not watched:
            self._tasks.start_soon(self._tell)

    async def _call(self, request: Any) -> dict[str, Any] | None:
        if not _is_request(request):
            return _error(None, INVALID_REQUEST, "Invalid Request")
        dispatch = await anyio.to_thread.run_sync(dispatcher)
        identity = request.get("id")
        reply: dict[str, Any] = dispatch(self._methods, {**request, "id": identity})
        if "error" in reply:
            reply["error"].pop("data", None)  # which tells of this program's insides
        else:
            reply = await self._do(reply["result"], identity)
        return reply if "id" in request else None

    async def _do(self, work: Callable[[], Awaitable[Any]], identity: Any) -> dict[str, Any]:
        try:
            return {"jsonrpc": "2.0", "result": await work(), "id": identity}
        except NotAHookError:
            return _error(identity, INVALID_PARAMS, "Invalid params")
        except ConfigError as error:
            return _error(identity, REFUSED, str(error), {"problems": [asdict(problem) for problem in error.problems]})
        except PicohookError as error:
            return _error(identity, REFUSED, str(error))
        except Exception as error:  # noqa: BLE001 - of which the client learns nothing but that it happened
            self._log.error("the control socket failed", why=repr(error))
            return _error(identity, INTERNAL_ERROR, "Internal error")

    async def _send(self, line: bytes) -> None:
        with anyio.move_on_after(PATIENCE) as scope:
            async with self._writing:
                try:
                    await self._stream.send(line)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self._tasks.cancel_scope.cancel()
        if scope.cancelled_caught:  # half a line is out: nothing can follow it
            self._drop()

    def _drop(self) -> None:
        self._host.watchers.discard(self._notice)
        self._log.warning("a client of the control socket was dropped: it reads too slowly")
        self._tasks.cancel_scope.cancel()

    # Telling.

    def _watch(self) -> None:
        self._watches = True
        self._host.watchers.add(self._notice)

    def _notice(self, what: StateChange | Outcome[Any] | Reloaded) -> None:
        method, params = _as_notification(what)
        try:
            self._news.send_nowait(_line({"jsonrpc": "2.0", "method": method, "params": params}))
        except anyio.WouldBlock:
            self._drop()

    async def _tell(self) -> None:
        async for line in self._to_tell:
            await self._send(line)


def _is_request(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("jsonrpc") == "2.0"
        and isinstance(value.get("method"), str)
        and isinstance(value.get("params", []), list | dict)
        and (value.get("id") is None or type(value["id"]) in {str, int, float})
    )


def _error(identity: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "error": error, "id": identity}


def _line(message: Any) -> bytes:
    """A message as it goes out, in ASCII: no byte in it can act on a terminal."""
    return json.dumps(message).encode() + b"\n"


def _as_notification(what: StateChange | Outcome[Any] | Reloaded) -> tuple[str, Mapping[str, Any]]:
    if isinstance(what, StateChange):
        return "state", {"hook": what.hook, "state": what.state, "pid": what.pid}
    if not isinstance(what, Outcome):
        return "reloaded", what.wire()
    trail = [{key: value for key, value in entry.wire().items() if key != "notes"} for entry in what.trail]
    told = {"stage": what.stage, "action": what.action, "hook": what.hook, "reason": what.reason, "trail": trail}
    return "outcome", told | ({} if what.approved is None else {"approved": what.approved})
