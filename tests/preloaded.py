"""Python programs as processes of their own, forked from one that has imported what they import.

A start costs milliseconds, where one of `picohook` costs half a second and one of a small hook a twentieth. Tests of starting
up, of a terminal's keys, of encodings, of limits and containment, and of what is imported when start the real thing instead.

`Popen` and `run` are `python -m picohook` for a test. `program` is a `picohook` or a `python` for everything that starts
commands: a shell, a host, the conformance kit.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

AT_HOME = {"PYTHONPATH", "PATH", "HOME", "LANG", "PICOHOOK_TEST_RUN"}
"""All that the preloaded process sees of the environment: what is read at import must be the same for every program."""
HERE = Path(__file__).parent


@functools.cache
def directory() -> str:
    """Where the sockets and the programs of this process are, until its end."""
    path, owner = tempfile.mkdtemp(prefix="picohook-"), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(path, ignore_errors=True))
    return path


@functools.cache
def preloaded_socket(holding: str) -> str:
    """Where the process listens that holds this of `preload.HOLDINGS`. The first call starts it; it ends with this process."""
    path = os.path.join(directory(), f"{holding}.socket")
    lifeline, _held_until_the_end = os.pipe()
    environment = {name: value for name, value in os.environ.items() if name in AT_HOME}
    command = [sys.executable, str(HERE / "preload.py"), path, str(lifeline), holding]
    subprocess.run(command, pass_fds=[lifeline], env=environment, check=True)
    os.close(lifeline)
    return path


def path_of(name: str, holding: str = "everything") -> str:
    """Where the program is once it was built."""
    return os.path.join(directory(), holding, name)


@functools.cache
def program(name: str, holding: str = "everything") -> str:
    """Build `python` or `picohook`, forked from the process that holds this. Without a C compiler it is the real one."""
    path = path_of(name, holding)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if name == "python":
        os.symlink(name, path_of("python3", holding))
    if shutil.which("cc"):
        settings = {"AT": preloaded_socket(holding), "PROGRAM": name, "PYTHON": sys.executable}
        definitions = [f'-D{key}="{value}"' for key, value in settings.items()]
        subprocess.run(["cc", "-O1", *definitions, "-o", path, HERE / "preloaded.c"], check=True)
    else:
        words = "" if name == "python" else "-m picohook "
        Path(path).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        os.chmod(path, 0o755)
    return path


def programs() -> str:
    """A directory with `picohook`, `python` and `python3`."""
    program("python")
    return os.path.dirname(program("picohook"))


def order(program: str, cwd: str, arguments: list[str], env: Mapping[str, str]) -> bytes:
    """What the preloaded process is told: the size of the rest, and its parts with a null byte between each two."""
    parts = [program, cwd, str(len(arguments)), *arguments, *(f"{name}={value}" for name, value in env.items())]
    data = b"\0".join(map(os.fsencode, parts))
    return len(data).to_bytes(4, "big") + data


class Popen(subprocess.Popen):
    """`python -m picohook ARGUMENTS`, with the streams, the signals and the exit codes that it has as a `subprocess.Popen`."""

    def __init__(self, arguments: list[str], **options: Any) -> None:
        super().__init__(arguments, **options)

    # The places where the standard library starts a process and waits for it.

    def _execute_child(self, args, _executable, preexec_fn, _close_fds, pass_fds, cwd, env, *more: Any) -> None:
        _startupinfo, _flags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_ = more
        if preexec_fn or pass_fds or shell:
            raise ValueError("start the real thing for that")
        streams = [given if given != -1 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        data = order("picohook", os.fspath(cwd or os.getcwd()), args, os.environ if env is None else env)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(preloaded_socket("everything"))
        sent = socket.send_fds(self._server, [data], streams)
        if sent < len(data):  # otherwise the program may have ended already, and nobody reads
            self._server.sendall(data[sent:])
        pid = b""
        while not pid.endswith(b"\n"):
            pid += self._server.recv(1)
        self.pid = int(pid)
        self._child_created = True
        null = getattr(self, "_devnull", -1)
        for its_end, our_end in ((p2cread, p2cwrite), (c2pwrite, c2pread), (errwrite, errread)):
            if our_end != -1 and its_end != null:
                os.close(its_end)
        if null != -1:
            os.close(null)

    def _try_wait(self, flags: int) -> tuple[int, int]:
        self._server.setblocking(not flags & os.WNOHANG)
        try:
            status = self._server.recv(64)
        except BlockingIOError:
            return 0, 0
        self._server.close()
        return self.pid, int(status or signal.SIGKILL)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run(arguments: list[str], *, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess:
    """As `subprocess.run` with its output captured."""
    with Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)
