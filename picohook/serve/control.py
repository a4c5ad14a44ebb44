"""The control socket: a running host is looked at and acted on through it, by who may open it, its owner.

JSON-RPC 2.0 over a Unix socket, one message a line. The methods are `status`, `list`, `metrics`, `reload`, `reset`
`{hook}`, `restart` `{hook}`, and `watch`, after which the host tells of every change as a notification (`state`, `outcome`,
`reloaded`) until the client hangs up. Payloads are never told.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import socket
import stat
import tempfile
import warnings
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import UNIXSocketStream

from ..decisions import Outcome
from ..errors import ConfigError, PicohookError
from ..hooks.base import StateChange
from ..observe.metrics import prometheus
from ..protocol.lines import LineBuffer
from ..protocol.messages import decode_value
from ..roster import in_order, layer
from ..stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

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
CLAIM_TRIES = 100
CLAIM_PAUSE = 0.01

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
        self._inode = _inode(path)
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
            with await _lock(os.path.dirname(path)):
                _require_free(path)
                return cls(host, path, log, _listen(path))
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
            if _inode(self._path) == self._inode:
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
        dispatch = await anyio.to_thread.run_sync(_dispatcher)
        identity = request.get("id")
        reply: dict[str, Any] = dispatch(self, {**request, "id": identity})
        if "error" in reply:
            reply["error"].pop("data", None)  # which tells of this program's insides
        else:
            reply = await self._do(reply["result"], identity)
        return reply if "id" in request else None

    async def _do(self, work: Callable[[], Awaitable[Any]], identity: Any) -> dict[str, Any]:
        try:
            return {"jsonrpc": "2.0", "result": await work(), "id": identity}
        except _NotAHookError:
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

    def _notice(self, what: StateChange | Outcome[Any] | Reloaded) -> None:
        method, params = _as_notification(what)
        try:
            self._news.send_nowait(_line({"jsonrpc": "2.0", "method": method, "params": params}))
        except anyio.WouldBlock:
            self._drop()

    async def _tell(self) -> None:
        async for line in self._to_tell:
            await self._send(line)

    # The methods.

    async def status(self) -> dict[str, Any]:
        return self._host.status().wire()

    async def list(self) -> dict[str, Any]:
        asked = {
            name: [
                {
                    "hook": hook.name,
                    "layer": layer(hook),
                    "timeout": hook.spec.timeout_at(name, self._host.timeouts, approves=stage.approves),
                }
                for hook in self._host.asked_at(name)
            ]
            for name, stage in STAGES.items()
        }
        observers = [
            {"hook": hook.name, "layer": layer(hook), "observe": [*hook.spec.observe]}
            for hook in in_order(self._host.hooks)
            if hook.spec.observe
        ]
        return {"stages": {name: hooks for name, hooks in asked.items() if hooks}, "events": observers}

    async def metrics(self) -> str:
        return prometheus(self._host.status().wire()["hooks"])

    async def reload(self) -> dict[str, Any]:
        return (await self._host.reload()).wire()

    async def reset(self, hook: str) -> bool:
        self._host.reset(_hook_name(hook))
        return True

    async def restart(self, hook: str) -> bool:
        self._host.restart(_hook_name(hook))
        return True

    async def watch(self) -> bool:
        self._watches = True
        self._host.watchers.add(self._notice)
        return True


_METHODS = {
    method.__name__: method
    for method in (
        _Client.status,
        _Client.list,
        _Client.metrics,
        _Client.reload,
        _Client.reset,
        _Client.restart,
        _Client.watch,
    )
}


@functools.cache
def _dispatcher() -> Callable[[_Client, Any], dict[str, Any]]:
    """What finds a request's method and holds its params against it.

    Doing it is left to who asked: the library's own way of awaiting is asyncio's. Its import takes so long that it is done
    in a thread, when the first client asks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
        from jsonrpcserver import Success, dispatch_to_serializable  # noqa: PLC0415

    def later(method: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        @functools.wraps(method)
        def bound(*arguments: Any, **named: Any) -> Any:
            return Success(functools.partial(method, *arguments, **named))

        return bound

    methods = {name: later(method) for name, method in _METHODS.items()}

    def dispatch(client: _Client, request: Any) -> dict[str, Any]:
        reply: Any = dispatch_to_serializable(
            request, methods, context=client, deserializer=lambda asked: asked, validator=lambda _: None
        )
        return dict(reply)

    return dispatch


class _NotAHookError(Exception):
    """What should name a hook is no name."""


def _hook_name(given: object) -> str:
    if not isinstance(given, str):
        raise _NotAHookError
    return given


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


# The socket's place in the file system.


async def _lock(directory: str) -> Any:
    """Hold the directory against other hosts that make a socket in it, for the few moments that this takes."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(CLAIM_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await anyio.sleep(CLAIM_PAUSE)
            else:
                return _held(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    raise PicohookError(f"a control socket cannot be made in {directory}: another program holds it locked")


@contextmanager
def _held(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _require_free(path: str) -> None:
    """Raise unless there is nothing, or a socket at which nobody listens any more."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PicohookError(f"{path} is no socket: the control socket needs a path of its own")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # so many wait for an answer that it has to be somebody's
    raise PicohookError(f"another host has its control socket at {path}")


def _listen(path: str) -> socket.socket:
    """A listening socket there, closed to all others from its first moment: it is made where nobody else gets, and moved."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(path)) as private:
            new = os.path.join(private, "s")
            listener.bind(new)
            os.chmod(new, 0o600)
            listener.listen()
            listener.setblocking(False)
            os.rename(new, path)
    except BaseException:
        listener.close()
        raise
    return listener


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
