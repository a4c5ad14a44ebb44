"""`picohook` as a process of its own, forked from one that has imported it: a start costs milliseconds, and not half a second.

Tests of starting up, of terminals, of encodings, and of what is imported when start the real thing instead. As a program, this
file is `picohook` for a shell.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

AT_HOME = {"PYTHONPATH", "PATH", "HOME", "LANG", "PICOHOOK_TEST_RUN"}
"""All that the preloaded process sees of the environment: what is read at import must be the same for every command."""
PLACE = "PICOHOOK_PRELOADED"
"""The variable that tells a shell's `picohook` where the preloaded process listens."""

_place: list[str] = []


def place() -> str:
    """Where the preloaded process listens. It is started when it is asked for first, and ends with this process."""
    if not _place:
        import tempfile  # noqa: PLC0415 - not for a shell's picohook

        path = os.path.join(tempfile.mkdtemp(prefix="picohook-"), "preloaded")
        lifeline, _held_until_the_end = os.pipe()
        environment = {name: value for name, value in os.environ.items() if name in AT_HOME}
        program = os.path.join(os.path.dirname(__file__), "preload.py")
        command = [sys.executable, program, path, str(lifeline)]
        subprocess.run(command, pass_fds=[lifeline], env=environment, check=True)
        os.close(lifeline)
        _place.append(path)
    return _place[0]


def start(
    at: str, arguments: list[str], cwd: str, env: Mapping[str, str], streams: list[int]
) -> tuple[socket.socket, int]:
    """Start a program. Gives what its wait status comes from, and its pid."""
    keeper = socket.socket(socket.AF_UNIX)
    keeper.connect(at)
    order = json.dumps({"arguments": arguments, "cwd": cwd, "env": dict(env)}).encode() + b"\n"
    sent = socket.send_fds(keeper, [order], streams)
    keeper.sendall(order[sent:])
    pid = b""
    while not pid.endswith(b"\n"):
        pid += keeper.recv(1)
    return keeper, int(pid)


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
        env = os.environ if env is None else env
        self._keeper, self.pid = start(place(), args, os.fspath(cwd or os.getcwd()), env, streams)
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


def run(arguments: list[str], *, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess:
    """As `subprocess.run` with its output captured."""
    with Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def be_picohook() -> None:
    """Be `picohook` for a shell: pass on its signals, and end as it ends."""
    at = os.environ.pop(PLACE)
    keeper, pid = start(at, sys.argv[1:], os.getcwd(), os.environ, [0, 1, 2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    for fd in range(3):
        os.close(fd)  # the program's readers see its end, and not this one's
    code = os.waitstatus_to_exitcode(int(keeper.recv(64) or signal.SIGKILL))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    be_picohook()
