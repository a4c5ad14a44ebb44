"""`picohook` as a process of its own, forked from one that has imported it: a start costs milliseconds, and not half a second.

Tests of starting up, of terminals, of encodings, and of what is imported when start the real thing instead.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

AT_HOME = {"PYTHONPATH", "PATH", "HOME", "LANG", "PICOHOOK_TEST_RUN"}
"""All that the preloaded process sees of the environment: what is read at import must be the same for every command."""


class Popen(subprocess.Popen):
    """`python -m picohook ARGUMENTS`, with the streams, the signals and the exit codes that it has as a `subprocess.Popen`."""

    _preloaded: socket.socket | None = None

    def __init__(self, arguments: list[str], **options: Any) -> None:
        super().__init__(arguments, **options)

    # The places where the standard library starts a process and waits for it.

    def _execute_child(self, args, _executable, preexec_fn, _close_fds, pass_fds, cwd, env, *more: Any) -> None:
        _startupinfo, _flags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_ = more
        if preexec_fn or pass_fds or shell:
            raise ValueError("start the real thing for that")
        env = dict(os.environ if env is None else env)
        order = {"arguments": args, "cwd": os.fspath(cwd or os.getcwd()), "env": env}
        streams = [given if given != -1 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        self._keeper, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._server(), [b"."], [theirs.fileno(), *streams])
        self._keeper.sendall(json.dumps(order).encode() + b"\n")
        self._told = self._keeper.makefile("r")
        self.pid = int(self._told.readline())
        self._child_created = True
        null = getattr(self, "_devnull", -1)
        for its_end, our_end in ((p2cread, p2cwrite), (c2pwrite, c2pread), (errwrite, errread)):
            if our_end != -1 and its_end != null:
                os.close(its_end)
        if null != -1:
            os.close(null)

    def _try_wait(self, flags: int) -> tuple[int, int]:
        self._keeper.setblocking(not flags & os.WNOHANG)
        try:
            status = self._keeper.recv(64)
        except BlockingIOError:
            return 0, 0
        self._told.close()
        self._keeper.close()
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

    @classmethod
    def _server(cls) -> socket.socket:
        if cls._preloaded is None:
            cls._preloaded, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
            environment = {name: value for name, value in os.environ.items() if name in AT_HOME}
            command = [sys.executable, str(Path(__file__).with_name("preload.py")), str(theirs.fileno())]
            with theirs:
                subprocess.run(command, pass_fds=[theirs.fileno()], env=environment, check=True)
        return cls._preloaded


def run(arguments: list[str], *, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess:
    """As `subprocess.run` with its output captured."""
    with Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)
