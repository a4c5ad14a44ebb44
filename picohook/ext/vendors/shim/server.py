"""The host of `picohook shim`: one for each user, project and configuration. It ends after a while without clients."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from anyio.abc import UNIXSocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ....errors import PicohookError
from ....protocol.codec import decode_value, encode
from ....wire.regular_files import read_regular
from ....wire.text import explain
from .. import dialogue
from ..alone.ask_host import GREETING, MOST_BYTES_OF_EVENT
from ..dialogue import Dialogue
from .deciding import Decider
from .telling import read_event, session_of, show

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ....host import Host
    from ....observe.log import Log
    from ....rpc.listening_socket import ListeningSocket
    from ..vendor import Vendor

FORGOTTEN = 30 * 86400.0
"""Seconds after which the directory of a session that asks nothing is forgotten."""
_SESSION, _LONGEST = ".session", 1 << 16
IDLE = 900.0
"""Seconds without a client after which the host ends."""
SHARED = 0.5
"""Seconds in which an event whose bytes come again gets the answer that it has got."""
REQUEST_WAIT = 30.0
"""Seconds in which a client has to send its whole request."""
FULL_PAUSE = 0.01
"""Seconds until the server accepts again after an error, such as no descriptor left."""


class ShimRequest(NamedTuple):
    """An event that a client sends."""

    event: str
    cwd: str
    environment: Mapping[str, str]
    stdin: bytes


class ShimReply(NamedTuple):
    """The answer to a client."""

    status: str
    """`done`; `refused`; `again`, which tells the client to start another host; or `elsewhere`: to ask that of `out`."""
    out: bytes = b""


class _Asked:
    """An event that hooks are asked about now, or were asked about a moment ago."""

    def __init__(self) -> None:
        self.asking = anyio.Lock()
        self.reply: ShimReply | None = None
        self.until = 0.0


class ShimHost:
    """Answers the events of one vendor's agent in one project."""

    def __init__(
        self, host: Host, vendor: Vendor, changed: Callable[[], bool], began: Callable[[str], str] | None = None
    ) -> None:
        """`changed` says whether the host's configuration has changed.

        `began` says to which other directory's host a session belongs; empty if to this one.
        """
        self._host = host
        self._changed = changed
        self._began = began
        self._vendor = vendor
        self._decider = Decider(host, vendor)
        self._asked: dict[tuple[str, str, bytes], _Asked] = {}
        self._reading = anyio.Lock()
        self._broken = ""
        """The reason why the configuration cannot be used since it changed; empty if it can."""
        self._note()

    def _note(self) -> None:
        """Note the variables that hooks inherit besides the usual ones, and whether a person or a hook can answer a pause."""
        hooks = self._host.hooks
        inherited = [member.inherit_env for hook in hooks for member in hook.spec.members]
        self._names = frozenset(name for names in inherited if isinstance(names, tuple) for name in names)
        self._asks = self._vendor.shim.asks or any(hook.answers_pauses for hook in hooks)

    async def answer(self, question: ShimRequest) -> ShimReply:
        """Decide about an event. Never raises an `Exception`: any error is a refusal."""
        try:
            if any(question.environment.get(name) != os.environ.get(name) for name in self._names):
                return ShimReply("again")
            event = self._event(question)
            session = session_of(self._vendor, question.event, event)
            if self._began is not None and isinstance(session, str) and (other := self._began(session)):
                return ShimReply("elsewhere", os.fsencode(other))
            await self._require_current()
            return await self._once(question, event)
        except PicohookError as error:
            return ShimReply("refused", str(error).encode("utf-8", "replace"))
        except Exception as error:  # a client must get a refusal, whatever went wrong
            return ShimReply("refused", explain(error).encode("utf-8", "replace"))

    async def _once(self, question: ShimRequest, event: Mapping[str, Any]) -> ShimReply:
        """The answer to an event. One whose bytes come again meanwhile, or a moment later, is the same event.

        The agent runs the entries of the user's and of the project's hook file. Both get one answer, and hooks are asked once.
        """
        now = anyio.current_time()
        self._asked = {key: one for key, one in self._asked.items() if one.until > now or one.asking.locked()}
        key = question.event, question.cwd, hashlib.blake2b(question.stdin).digest()
        asked = self._asked.setdefault(key, _Asked())
        async with asked.asking:
            if asked.reply is None:
                agent_event = read_event(self._vendor, question.event, event, question.cwd)
                cwd = event.get("cwd")
                stands = cwd if isinstance(cwd, str) and os.path.isabs(cwd) else question.cwd
                dialogue.CURRENT.set(Dialogue(self._vendor.agent, self._asks, stands))
                answer = await self._decider.answer(agent_event)
                output = show(self._vendor, question.event, answer, agent_event)
                asked.reply = ShimReply("done", encode(output) if output else b"")
                # A later call with neither an id nor a time may be another one that is equal.
                lasts = "timestamp" in event or getattr(agent_event.payload, "tool_call_id", "") is not None
                asked.until = anyio.current_time() + (SHARED if lasts else 0.0)
        return asked.reply

    def _event(self, question: ShimRequest) -> Mapping[str, Any]:
        try:
            event = decode_value(question.stdin)
        except ValueError as error:
            raise PicohookError(f"the event is not JSON: {error}") from None
        if not isinstance(event, dict):
            raise PicohookError("the event is not a JSON object")
        if question.event not in self._vendor.asked:
            raise PicohookError(f"{question.event} is not an event of the shim for {self._vendor.agent}")
        named = event.get("hook_event_name", question.event)
        if not isinstance(named, str) or named.lower() != question.event.lower():
            raise PicohookError(f"the event names itself {named}, and its entry is for {question.event}")
        return event

    async def _require_current(self) -> None:
        """Read the configuration again if it has changed. Raises `PicohookError` if it cannot be used."""
        async with self._reading:
            if self._changed():
                try:
                    with anyio.CancelScope(
                        shield=True
                    ):  # if this client goes, the next one needs the new configuration
                        await self._host.reload()
                    self._note()
                except PicohookError as error:
                    self._broken = str(error)
                else:
                    self._broken, self._asked = "", {}
            if self._broken:
                raise PicohookError(self._broken)


class Sessions:
    """The directory in which each session of an agent began, in files that all hosts of the user share.

    A session keeps the configurations that it began with, wherever its agent goes.
    """

    def __init__(self, directory: str, vendor: str, here: str, projects: Callable[[], Iterable[Path]]) -> None:
        """`projects` are the directories of the host's project configurations. Forgets sessions of long ago."""
        self._directory, self._vendor, self._here, self._projects = directory, vendor, here, projects
        self._known: dict[str, str] = {}
        for path in Path(directory).glob(f"*{_SESSION}"):
            with contextlib.suppress(FileNotFoundError):  # another host forgets it, too
                if time.time() - path.lstat().st_mtime > FORGOTTEN:
                    path.unlink()

    def began(self, session: str) -> str:
        """The directory whose host answers for this session; empty if this one does, which it does further inside, too.

        Raises `PicohookError` if neither host has all hooks: here is another project than the one in which it began.
        """
        place = self._known.get(session) or self._known.setdefault(session, self._noted(session))
        real = Path(os.path.realpath(place))
        if Path(os.path.realpath(self._here)).is_relative_to(real):
            return ""
        other = next((one for one in self._projects() if not real.is_relative_to(one)), None)
        if other is not None:
            raise PicohookError(
                f"this session began in {place}, and {other} has hooks that are not asked in it: start a new session"
            )
        return place

    def _noted(self, session: str) -> str:
        """The directory in which a session began: this one, if it is new."""
        digest = hashlib.blake2b(f"{self._vendor}\0{session}".encode("utf-8", "replace"), digest_size=16).hexdigest()
        path = f"{self._directory}/{digest}{_SESSION}"
        try:
            with tempfile.NamedTemporaryFile(dir=self._directory) as new:
                new.write(os.fsencode(self._here))
                new.flush()
                os.link(new.name, path)  # whole from the start
        except FileExistsError:
            os.utime(path, follow_symlinks=False)
            return os.fsdecode(read_regular(path, _LONGEST))
        return self._here


class ShimServer:
    """Answers clients at a socket, and ends when none has come for a while."""

    def __init__(
        self, listening: ListeningSocket, answer: Callable[[ShimRequest], Awaitable[ShimReply]], key: str, log: Log
    ) -> None:
        self._listening = listening
        self._answer = answer
        self._greeting = f"{GREETING} {key}\n".encode()
        self._log = log
        self._open = 0
        self._accepting: anyio.CancelScope | None = None
        self._ending = False

    async def run(self, idle: float = IDLE) -> None:
        """Serve until it is idle or `end` is called. Answers all clients that have connected by then."""
        try:
            async with anyio.create_task_group() as tasks:
                while not self._ending:
                    with anyio.move_on_after(idle) as self._accepting:
                        await anyio.wait_readable(self._listening.socket)
                    if not self._accepting.cancelled_caught:
                        await self._accept(tasks)
                    elif not self._open:
                        break
                self._listening.unlink()  # no more clients find it
                while await self._accept(tasks):
                    pass
        finally:
            self._listening.close()

    def end(self) -> None:
        """Accept no more clients."""
        self._ending = True
        if self._accepting is not None:
            self._accepting.cancel()

    async def _accept(self, tasks: anyio.abc.TaskGroup) -> bool:
        """Serve the next client. Returns whether there may be one."""
        try:
            connection, _ = self._listening.socket.accept()
        except BlockingIOError:
            return False
        except OSError:
            await anyio.sleep(FULL_PAUSE)
            return True
        self._open += 1
        tasks.start_soon(self._serve, connection)
        return True

    async def _serve(self, connection: socket.socket) -> None:
        try:
            async with await UNIXSocketStream.from_socket(connection) as stream:
                with anyio.fail_after(REQUEST_WAIT):
                    question = await self._read(stream)
                reply = None
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._cancel_when_gone, stream, tasks.cancel_scope)
                    reply = await self._answer(question)
                    tasks.cancel_scope.cancel()
                if reply is None:
                    return
                if reply.status == "again":
                    self.end()
                    self._listening.unlink()
                await stream.send(self._greeting + f"{reply.status} {len(reply.out)}\n".encode() + reply.out)
        except Exception as error:  # the other clients continue
            self._log.warning("a client was dropped", why=explain(error))
        finally:
            self._open -= 1

    async def _read(self, stream: UNIXSocketStream) -> ShimRequest:
        """The request of a client. Raises an `Exception` for anything else."""
        received = BufferedByteReceiveStream(stream)
        if await received.receive_exactly(len(self._greeting)) != self._greeting:
            raise ValueError("it is of another version")
        event, about, stdin = (await received.receive_until(b"\n", 1000)).decode().split(" ")
        if int(about) + int(stdin) > 2 * MOST_BYTES_OF_EVENT:
            raise ValueError("its request is too long")
        cwd, *variables = (await received.receive_exactly(int(about))).split(b"\0")
        pairs = (os.fsdecode(one).partition("=") for one in variables)
        environment = {name: value for name, _, value in pairs}
        return ShimRequest(event, os.fsdecode(cwd), environment, await received.receive_exactly(int(stdin)))

    @staticmethod
    async def _cancel_when_gone(stream: UNIXSocketStream, scope: anyio.CancelScope) -> None:
        """Cancel the request when its client has gone."""
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await stream.receive()  # a client sends nothing more, so this is its end
        scope.cancel()
