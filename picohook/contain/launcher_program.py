"""The launcher: a small process beside a host. It makes a keeper for each of the host's hooks (`keeper.py`), and ends with it.

`launcher.py` starts it with the host's pid and a tier as arguments, and one end of a SEQPACKET socket as descriptor 3. The
hooks' pipes connect them directly to the host: calls do not pass through here.

Messages from the host: `spawn ID GROUP`, with the socket for the hook's keeper, and the directory of a control group, if it has
one; and `kill ID`, for a keeper that does not react. Messages to the host: `ready NOTE` or `unable WHY`, once; and `over ID
ERRNO`, when no process of a hook is left, or when its keeper could not be made. When the host closes the socket, or ends in any
way, every descendant is killed.

With `namespace`, each keeper is the first process of its own PID namespace (`namespace.py`), and ends with this process. With
`sweep`, this process adopts the orphans of keepers that were killed.

Hooks have a process group each. They are in the host's session, or in one of their own, and have no terminal: this process
gives up the one of the host's session.

It uses the standard library only, and one thread, so that its copies never wait for a thread that a copy does not have. A
request for a hook never reaches it, so that its copies have none in their memory.
"""

# Imports only what imports fast: the C modules below socket and signal, not typing or contextlib. This halves the start.
import _signal  # type: ignore[import-not-found]
import _socket
import errno
import gc
import os
import select
import sys

from .keeper import CONTROL, LAUNCHER, keep, receive
from .namespace import clone, enter_namespaces
from .sweep import kill_descendants
from .syscalls import adopt_orphans, close_from, ignoring, leave_terminal, woken_by_children


class LauncherProgram:
    """Serves one host."""

    def __init__(self, host: int, tier: str) -> None:
        self.control = _socket.socket(fileno=CONTROL)
        self.host = os.pidfd_open(host)  # needed beside the socket, which a fork of the host may keep open
        if os.getppid() != host:
            raise OSError(errno.ESRCH, "the host is gone")
        self.in_namespace = tier == "namespace"
        self.keepers: dict[int, tuple[str, str]] = {}
        """The number and the control group of each hook, by the pid of its keeper."""
        self.over: list[str] = []
        """The numbers of hooks whose keepers have ended, and of which the host is not told yet."""
        self.has_orphans = False
        # First, because with an inherited SIG_IGN no child could be waited for.
        self.woken = woken_by_children()
        for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM):
            _signal.signal(number, _signal.SIG_IGN)  # they may be meant for the host's whole session
        self.has_terminal = not leave_terminal()
        adopt_orphans()
        note = enter_namespaces() if self.in_namespace else ""
        gc.freeze()  # a copy shares what the collector does not touch
        self.tell(f"ready {note}")

    def tell(self, text: str) -> None:
        """Send the host a message."""
        self.control.sendmsg([text.encode()])

    def serve(self) -> None:
        """Serve until the host is gone."""
        poll = select.poll()
        for fd in (CONTROL, self.host, self.woken.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self.host in ready or (CONTROL in ready and not self.obey()):
                return
            if self.woken.fileno() in ready:
                self.woken.recv(4096)
                self.reap()
                if self.has_orphans:
                    self.has_orphans = False
                    kill_descendants(self.reap, self.keepers)
                over, self.over = self.over, []
                for number in over:
                    self.tell(f"over {number} 0")

    def obey(self) -> bool:
        """Carry out a message of the host. Returns False when the host has closed the socket."""
        data, fds = receive(self.control)
        if data:
            verb, number, group = data.decode().split(" ", 2)
            if verb == "spawn":
                self.make_keeper(number, group, fds)
            for pid, (kept, _) in self.keepers.items():
                if verb == "kill" and kept == number:
                    os.kill(pid, _signal.SIGKILL)
        return bool(data)

    def make_keeper(self, number: str, group: str, fds: list[int]) -> None:
        """Make the keeper of a hook."""
        try:
            if not fds:
                raise OSError(errno.EMFILE, "")  # the kernel drops descriptors beyond the limit
            pid = clone() if self.in_namespace else os.fork()
            if not pid:
                keep(fds[0], in_namespace=self.in_namespace, has_terminal=self.has_terminal)
            self.keepers[pid] = number, group
        except OSError as error:
            self.tell(f"over {number} {error.errno}")
        for fd in fds:
            os.close(fd)

    def reap(self) -> None:
        """Reap all ended children: keepers, and orphans of keepers that were killed."""
        with ignoring(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                number, group = self.keepers.pop(ended[0], ("", ""))
                if number:
                    remove_group(group)
                    self.over.append(number)
                    self.has_orphans |= ended[1] != 0 and not self.in_namespace

    def end(self) -> None:
        """Kill and reap every descendant."""
        groups = [group for _, group in self.keepers.values()]
        kill_descendants(self.reap)
        for group in groups:
            remove_group(group)


def remove_group(group: str) -> None:
    """Remove the control group that the host made for a hook, if it made one."""
    if group:
        with ignoring(OSError):
            os.rmdir(group)


def main() -> None:
    """Serve a host until it ends. Then end at once: the end of a Python takes milliseconds, and the host waits for it."""
    try:
        os.set_inheritable(CONTROL, False)
        close_from(LAUNCHER)
        os.pidfd_open(os.getpid())  # gets LAUNCHER, the lowest number that is free
        try:
            launcher = LauncherProgram(int(sys.argv[1]), sys.argv[2])
        except OSError as error:
            os.write(CONTROL, f"unable {error.strerror or error}".encode())
            return
        try:
            launcher.serve()
        except BrokenPipeError:  # the host is gone
            pass
        finally:
            launcher.end()
    finally:
        os._exit(0)
