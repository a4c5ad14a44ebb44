"""The keeper: the parent of one hook. It starts the hook, signals it, and ends with all that descends from it.

It is a copy of the launcher, from before any request, and has a socket to the host of its own. The host sends the request
(marshal, by its descriptor) with stdin, stdout, stderr, and maybe the program; then numbers of signals, for the hook's process
group. The keeper answers `started` with a pidfd of the hook, or `failed ERRNO STEP`; and `ended CODE LEFT` when the hook has
ended and LEFT of its processes do not die.

With `namespace` it is the first process of a PID namespace: when it ends, the kernel kills all others there. A hook with the
rights of root may read its memory and use what it has open, and finds nothing of other hooks. With `sweep` it adopts the hook's
orphans, and kills them at the end. A hook can kill it then.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal imports enum, which is slow
import _socket
import errno
import marshal
import os
import select
import sys

from .start_hook import StartError, start_hook
from .sweep import kill_descendants
from .syscalls import adopt_orphans, close_from, ignoring, woken_by_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

CONTROL, LAUNCHER = 3, 4
"""The socket to the host, and a pidfd of the launcher, which no process in a namespace has."""
ROOM = _socket.CMSG_SPACE(5 * 4)
"""For the descriptors of a message."""


def receive(control: _socket.socket) -> tuple[bytes, list[int]]:
    """The next message from the host, and the descriptors in it. An empty one is the last."""
    data, rights, _, _ = control.recvmsg(8192, ROOM, _socket.MSG_CMSG_CLOEXEC)
    received = b"".join(part for _, _, part in rights)
    return data, [int.from_bytes(received[at : at + 4], sys.byteorder) for at in range(0, len(received), 4)]


def keep(control: int, *, in_namespace: bool, has_terminal: bool) -> NoReturn:
    """Keep the hook that is asked for by this socket, until its end or that of the launcher."""
    keeper = None
    try:
        os.dup2(control, CONTROL, inheritable=False)
        if in_namespace and has_ended(LAUNCHER):
            os._exit(0)  # the launcher did so before it could take this process with it
        close_from(CONTROL + 1 if in_namespace else LAUNCHER + 1)
        keeper = Keeper(in_namespace=in_namespace)
        if keeper.start(has_terminal=has_terminal):
            keeper.serve()
    finally:
        if keeper is not None:
            keeper.end()
        os._exit(0)


def has_ended(pidfd: int) -> bool:
    """Whether the process of a pidfd has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


class Keeper:
    """Keeps one hook."""

    def __init__(self, *, in_namespace: bool) -> None:
        self.in_namespace = in_namespace
        if not in_namespace:  # where it does so as the first process
            adopt_orphans()
        self.control = _socket.socket(fileno=CONTROL)
        self.woken = woken_by_children()
        self.pid = 0
        """The hook's, until it is reaped."""
        self.code: int | None = None

    def tell(self, text: str, fd: int | None = None) -> None:
        """Send the host a message, and maybe a descriptor."""
        rights = [] if fd is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
        with ignoring(OSError):  # the host is gone
            self.control.sendmsg([text.encode()], rights)

    def start(self, *, has_terminal: bool) -> bool:
        """Start the hook. Returns whether it runs."""
        _, fds = receive(self.control)
        try:
            if len(fds) < 4:  # noqa: PLR2004
                raise StartError(errno.EMFILE, "spawn")  # the kernel drops descriptors beyond the limit
            request = marshal.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))  # noqa: S302 - from the host
            if request["by_descriptor"] and len(fds) < 5:  # noqa: PLR2004
                raise StartError(errno.EMFILE, "spawn")  # it must not be started by its path instead
            request["own_session"] |= has_terminal  # which a session of its own does not have
            self.pid = start_hook(request, fds[1:])
            fds.append(os.pidfd_open(self.pid))
        except OSError as error:
            self.tell(f"failed {error.errno} {error.step if isinstance(error, StartError) else 'spawn'}")
            return False
        self.tell("started", fds[-1])
        for fd in fds:
            os.close(fd)
        return True

    def serve(self) -> None:
        """Serve until the hook has ended, or the host or the launcher is gone."""
        poll = select.poll()
        launcher = () if self.in_namespace else (LAUNCHER,)
        for fd in (CONTROL, self.woken.fileno(), *launcher):
            poll.register(fd, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if any(fd in ready for fd in launcher) or (CONTROL in ready and not self.obey()):
                return
            if self.woken.fileno() in ready:
                self.woken.recv(4096)
                self.reap()
                if not self.pid:
                    return

    def obey(self) -> bool:
        """Signal the hook as the host says. Returns False when the host has closed the socket."""
        data, _ = receive(self.control)
        if data:
            number = int(data)
            with ignoring(OSError):  # it runs as another user now
                os.killpg(self.pid, number)
            if number == _signal.SIGKILL:  # in a shared session it can leave its group
                with ignoring(OSError):
                    os.kill(self.pid, number)
        return bool(data)

    def reap(self) -> None:
        """Reap all ended children: the hook, and orphans that were adopted."""
        with ignoring(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.pid:
                    self.pid, self.code = 0, os.waitstatus_to_exitcode(ended[1])

    def end(self) -> None:
        """Kill all that is left of the hook, and tell the host."""
        left = 0 if self.in_namespace else kill_descendants(self.reap)
        if self.code is not None:
            self.tell(f"ended {self.code} {left}")
