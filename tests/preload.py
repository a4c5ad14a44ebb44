"""The process that `preloaded` forks: it has imported what programs import, and becomes one of them when asked.

It is asked at a socket, with three descriptors and an order (see `preloaded.order`). It answers with the pid of the program,
and with its wait status once it has ended. When the one who asked is gone first, the program is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib.util
import io
import os
import pkgutil
import platform
import runpy
import select
import signal
import socket
import sys
import threading
import types
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

HOOKS = ("argparse", "picohook.sdk", "textwrap", "tokenize")
EVERYTHING = (
    *HOOKS,
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "jsonrpcserver",
    "rich.live",
    "rich.progress",
    "rich.table",
)
MCP = (
    *EVERYTHING,
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.server.mcpserver",
    "mcp_server_time",
    "uvicorn",
)
FRAMEWORKS = (
    *EVERYTHING,
    "agents",
    "google.adk.agents.llm_agent",
    "google.adk.runners",
    "google.adk.sessions.sqlite_session_service",
    "langchain.agents",
    "pydantic_ai.models.function",
)
HOLDINGS = {"hooks": HOOKS, "everything": EVERYTHING, "mcp": MCP, "frameworks": FRAMEWORKS}
"""What programs import: hooks, and programs on picohook, MCP's SDK and agent frameworks. The less it is, the faster a fork."""
EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "hooks_examples", "picohook.toml")
WITH_A_VALUE = {"-W", "-X"}
"""Options of Python whose value is an argument of its own."""


class Order(NamedTuple):
    """A program that is to be started."""

    program: str
    cwd: str
    arguments: list[str]
    env: dict[str, str]

    @classmethod
    def read(cls, data: bytes) -> Order:
        program, cwd, count, *rest = os.fsdecode(data).split("\0")
        entries = (entry.partition("=") for entry in rest[int(count) :])
        return cls(program, cwd, rest[: int(count)], {name: value for name, _, value in entries})


def warm_up(holding: str) -> None:
    """Import what programs import, and build what the command line builds at its first use."""
    for name in HOLDINGS[holding]:
        with contextlib.suppress(ModuleNotFoundError):  # an extra, or a room that this checkout does not have
            importlib.import_module(name)
    if holding != "hooks" and importlib.util.find_spec("picohook.cli"):
        warm_up_commands()
    gc.collect()
    gc.freeze()


def warm_up_commands() -> None:
    cli, config = importlib.import_module("picohook.cli"), importlib.import_module("picohook.config")
    models = importlib.import_module("picohook.model.payloads")
    for found in pkgutil.walk_packages(cli.__path__, "picohook.cli."):
        importlib.import_module(found.name)
    for model in vars(models).values():
        if isinstance(model, type) and issubclass(model, models.PlainModel):
            model.model_rebuild()
    config.load(EXAMPLE)


class Server:
    """The programs that run, and the socket at which more of them are asked for."""

    def __init__(self, listener: socket.socket, lifeline: int) -> None:
        self._listener, self._lifeline = listener, lifeline
        self._askers: dict[int, socket.socket] = {}
        """By the pid of the program."""
        self._woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._poll = select.poll()
        for fd in (listener.fileno(), lifeline, self._woken):
            self._poll.register(fd, select.POLLIN)

    def serve(self) -> Order:
        """Start programs. Returns in each of them, as what it is to be; ends the process when the lifeline does."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._lifeline:
                    os._exit(0)
                elif fd == self._woken:
                    os.read(fd, 4096)
                    self._reap()
                elif fd == self._listener.fileno():
                    asker, _ = self._listener.accept()
                    asked = receive(asker)
                    if asked is None:
                        asker.close()
                        continue
                    order, streams = asked
                    if pid := os.fork():
                        self._has_started(pid, asker, streams)
                    else:
                        self._forget(asker)
                        become(order, streams)
                        return order
                else:
                    self._asker_is_gone(fd)

    def _has_started(self, pid: int, asker: socket.socket, streams: list[int]) -> None:
        for fd in streams:
            os.close(fd)
        self._askers[pid] = asker
        self._poll.register(asker, select.POLLIN)
        tell(asker, pid)

    def _reap(self) -> None:
        while self._askers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            asker = self._askers.pop(pid)
            with contextlib.suppress(KeyError):  # it was gone before
                self._poll.unregister(asker)
            tell(asker, status)
            asker.close()

    def _asker_is_gone(self, fd: int) -> None:
        for pid, asker in self._askers.items():
            if asker.fileno() == fd:
                self._poll.unregister(fd)
                kill(pid)
                return

    def _forget(self, asker: socket.socket) -> None:
        """In a program: its descriptors are its own, and no object of this process closes one of them."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for known in (self._listener, asker, *self._askers.values()):
            known.detach()


def receive(asker: socket.socket) -> tuple[Order, list[int]] | None:
    """The order and the streams; None when the asker was killed before it had told all of it."""
    streams: list[int] = []
    try:
        size, streams, _, _ = socket.recv_fds(asker, 4, 3)
        data, left = b"", int.from_bytes(size, "big") if len(streams) == 3 else 0
        while more := asker.recv(left - len(data)):
            data += more
            if len(data) == left:
                return Order.read(data), streams
    except ConnectionError:
        pass
    for fd in streams:
        os.close(fd)
    return None


def tell(asker: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # it is gone
        asker.sendall(b"%d\n" % number)


def kill(pid: int) -> None:
    """Kill a program with its process group, or alone while it has none yet."""
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)


def become(order: Order, streams: list[int]) -> None:
    """Have the streams, the directory, the environment and a session as a program that was just started."""
    os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    sys.path[:0] = [entry for entry in order.env.get("PYTHONPATH", "").split(":") if entry not in {*sys.path, ""}]
    unbuffered = bool(order.env.get("PYTHONUNBUFFERED"))
    buffering = 0 if unbuffered else -1
    # What cannot be decoded is an error or not, as the locale has it.
    sys.stdin = open(0, errors=sys.stdin.errors, closefd=False)
    out = open(1, "wb", buffering, closefd=False)
    sys.stdout = io.TextIOWrapper(out, errors=sys.stdout.errors, write_through=unbuffered)
    sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), errors="backslashreplace", line_buffering=True)


def run_picohook(arguments: list[str]) -> None:
    sys.argv = ["picohook", *arguments]
    sys.path[0] = os.getcwd()
    importlib.import_module("picohook.__main__").main()


def run_python(arguments: list[str]) -> None:
    """Be `python ARGUMENTS`: with -c, -m, or the file of a script. Of its options only -W matters here."""
    rest = iter(arguments)
    for argument in rest:
        if argument in WITH_A_VALUE:
            value = next(rest)
            if argument == "-W":
                warnings.simplefilter(value)
        elif argument in {"-V", "--version"}:
            print("Python", platform.python_version())  # noqa: T201 - as Python does
            return
        elif argument == "-m":
            module, sys.argv = next(rest), ["-m", *rest]
            sys.path[0] = os.getcwd()
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        elif argument == "-c":
            run_code(next(rest), "<string>", ["-c", *rest], os.getcwd())
        elif not argument.startswith("-"):
            with open(argument, "rb") as file:
                source = file.read()
            run_code(source, argument, [argument, *rest], os.path.dirname(os.path.abspath(argument)))


def run_code(source: str | bytes, name: str, argv: list[str], directory: str) -> None:
    sys.argv, sys.path[0] = argv, directory
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__["__file__"] = name
    atexit.register(main.__dict__.clear)  # as at a usual end: open files are flushed
    try:
        exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)
    except Exception as error:  # as Python tells of it
        trace = error.__traceback__
        sys.excepthook(type(error), error.with_traceback(trace and trace.tb_next), None)
        raise SystemExit(1) from None


def to_its_end(program: Callable[[list[str]], None], arguments: list[str]) -> int:
    """Run a program. Returns its exit code, as Python reads it."""
    try:
        program(arguments)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)  # noqa: T201 - as Python does
        return 1
    return 0


def end(code: int) -> None:
    """End as Python does, but for freeing all that was preloaded."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = 120
    os._exit(code)


if __name__ == "__main__":
    at = socket.socket(socket.AF_UNIX)
    at.bind(sys.argv[1])
    at.listen(128)
    if os.fork():
        os._exit(0)
    os.setsid()
    warm_up(sys.argv[3])
    wanted = Server(at, int(sys.argv[2])).serve()
    end(to_its_end(run_picohook if wanted.program == "picohook" else run_python, wanted.arguments))
