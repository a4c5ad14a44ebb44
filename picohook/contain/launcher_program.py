"""The launcher: a small process beside a host. It starts the host's hooks, is their parent, and kills them when it ends.

`launcher.py` starts it with the host's pid and a tier as arguments, and one end of a SEQPACKET socket as descriptor 3. The
hooks' pipes connect them directly to the host: calls do not pass through here.

Messages from the host: `spawn ID`, with descriptors for the request (marshal), stdin, stdout, stderr, and maybe the program;
and `signal ID NUMBER`, to the hook's process group. Messages to the host: `ready NOTE` or `unable WHY`, once; `started ID PID`
with a pidfd, or `failed ID ERRNO STEP`; and `ended ID CODE LEFT`, when a hook has no process left, or LEFT processes do not
die. When the host closes the socket, or ends in any way, every descendant is killed.

With `namespace`, each hook runs in its own PID namespace (`namespace.py`). The first process of the namespace starts the hook
and reports its end. When the first process ends, the kernel kills all others, and it ends with the launcher.

Hooks have a process group each. They are in the host's session, or in one of their own, and have no terminal: this process
gives up the one of the host's session.

With `sweep`, the processes of a hook have a mark (`sweep.py`). Orphans become children of the launcher
(PR_SET_CHILD_SUBREAPER), so that it also finds those that have no hook's mark. A process that takes the mark of another hook
ends with that hook. A hook can kill the launcher.

It has one thread, never blocks while it serves, and uses the standard library only.
"""

from __future__ import annotations

# Imports only what imports fast: the C modules below socket and signal, not typing or contextlib. This halves the start.
import _signal  # type: ignore[import-not-found]
import _socket
import errno
import marshal
import os
import resource
import select
import sys
import time

from .namespace import HANDLED, new_namespace, prepare_namespaces
from .start_hook import start_hook
from .sweep import kill_marked
from .syscalls import RLIMIT_LOCKS, close_from, ignoring, leave_terminal, libc, remove_cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

CONTROL = 3
KILL_WAIT, PAUSE, PAUSE_MOST = 2.0, 0.001, 0.05
"""Seconds: how long remaining processes are searched for and killed, and the pauses between two searches."""
PR_SET_CHILD_SUBREAPER = 36


class HookProcess:
    """One hook, from its request until it has no process left."""

    def __init__(self, number: int, child: int, from_inside: int, report: int, request: dict[str, Any]) -> None:
        self.number, self.child, self.from_inside, self.report = number, child, from_inside, report
        self.mark, self.cgroup = request["mark"], request["cgroup"]
        self.pid = 0 if from_inside >= 0 else child
        """The pid of the hook: a child of the launcher, or in a namespace a grandchild. 0 while it is not known."""
        self.received = b""
        self.code_inside: int | None = None
        """The exit code of the hook that its namespace has reported."""
        self.why_not = ""
        self.code: int | None = None
        self.searches = 0
        self.until = 0.0


class LauncherProgram:
    """Serves one host."""

    def __init__(self, host: int, tier: str) -> None:
        self.control = _socket.socket(fileno=CONTROL)
        self.proc = os.open(
            "/proc", os.O_RDONLY | os.O_DIRECTORY
        )  # opened before a namespace mounts another one over it
        self.host = os.pidfd_open(host)  # needed beside the socket, which a fork of the host may keep open
        if os.getppid() != host:
            raise OSError(errno.ESRCH, "the host is gone")
        self.hooks: dict[int, HookProcess] = {}
        self.by_child: dict[int, HookProcess] = {}
        self.ended: list[HookProcess] = []
        """The hooks that have ended, and may have processes left."""
        self.reports: dict[int, HookProcess] = {}
        self.insiders: dict[int, HookProcess] = {}
        # First, because with an inherited SIG_IGN no child could be waited for. The others may be meant for the host's whole
        # session: this process ends with the host.
        for number in HANDLED:
            _signal.signal(number, lambda *_: None)
        self.has_terminal = not leave_terminal()
        self.namespaces = tier == "namespace"
        note = prepare_namespaces() if self.namespaces else ""
        libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.woken, waker = os.pipe()
        os.set_blocking(waker, False)
        _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.poll = select.poll()
        for fd in (CONTROL, self.host, self.woken):
            self.poll.register(fd, select.POLLIN)
        self.tell(f"ready {note}")

    def tell(self, text: str, fd: int | None = None) -> None:
        """Send the host a message, and maybe a descriptor."""
        rights = [] if fd is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
        self.control.sendmsg([text.encode()], rights)

    def serve(self) -> None:
        """Serve until the host is gone."""
        while True:
            pause = min((PAUSE * 2**hook.searches for hook in self.ended), default=None)
            for fd, _ in self.poll.poll(None if pause is None else min(pause, PAUSE_MOST) * 1000):
                if fd == self.host or (fd == CONTROL and not self.obey()):
                    return
                if fd == self.woken:
                    os.read(fd, 4096)
                elif fd in self.reports:
                    hook = self.reports[fd]
                    self.started(hook)
                    self.read_inside(hook)
                elif fd in self.insiders:
                    self.read_inside(self.insiders[fd])
            self.reap()
            if self.ended:
                self.finish()

    def obey(self) -> bool:
        """Carry out the next message of the host. Returns False when the host has closed the socket."""
        data, rights, _, _ = self.control.recvmsg(256, _socket.CMSG_SPACE(5 * 4), _socket.MSG_CMSG_CLOEXEC)
        received = b"".join(part for _, _, part in rights)
        fds = [int.from_bytes(received[at : at + 4], sys.byteorder) for at in range(0, len(received), 4)]
        verb, *numbers = data.decode().split() or [""]
        try:
            if verb == "signal":
                self.signal(*map(int, numbers))
            elif verb == "spawn":
                self.spawn(int(numbers[0]), fds)
        finally:
            for fd in fds:
                os.close(fd)
        return bool(data)

    def spawn(self, number: int, fds: list[int]) -> None:
        """Start a hook."""
        try:
            if len(fds) < 4:  # noqa: PLR2004
                raise OSError(errno.EMFILE, "")  # noqa: TRY301 - the kernel drops descriptors beyond the limit
            with open(fds[0], "rb", closefd=False) as file:
                request = marshal.load(file)  # noqa: S302 - from the host
            if request["by_descriptor"] and len(fds) < 5:  # noqa: PLR2004
                raise OSError(errno.EMFILE, "")  # noqa: TRY301 - it must not be started by its path instead
            request["own_session"] |= self.has_terminal  # which a session of its own does not have
            readable, writable = os.pipe()  # a successful exec closes the write end
            from_inside = -1
            try:
                if self.namespaces:
                    child, from_inside = new_namespace(lambda: start_hook(request, fds[1:], writable), self.proc)
                else:
                    child = start_hook(request, fds[1:], writable)
            except OSError:
                os.close(readable)
                raise
            finally:
                os.close(writable)
        except OSError as error:
            self.tell(f"failed {number} {error.errno} spawn")
            return
        hook = HookProcess(number, child, from_inside, readable, request)
        self.hooks[number] = self.by_child[child] = self.reports[readable] = hook
        self.poll.register(readable, select.POLLIN)
        if from_inside >= 0:
            os.set_blocking(from_inside, False)
            self.insiders[from_inside] = hook
            self.poll.register(from_inside, select.POLLIN)

    def read_inside(self, hook: HookProcess) -> None:
        """Read the report of a namespace. When the hook has ended, kill the namespace."""
        self.receive(hook)
        if hook.code_inside is None or hook.code is not None:
            return
        if self.reports.get(hook.report) is hook:  # the host gets a pidfd of the hook before its pid is free
            self.started(hook)
        if hook.child:
            os.kill(hook.child, _signal.SIGKILL)
        self.has_ended(hook, hook.code_inside)

    def has_ended(self, hook: HookProcess, code: int) -> None:
        """Note a hook's exit code. Its remaining processes are killed next."""
        hook.code = code
        hook.until = time.monotonic() + KILL_WAIT
        self.ended.append(hook)

    def receive(self, hook: HookProcess) -> None:
        """Receive what the namespace of a hook wrote: the pid of the hook, and at the hook's end its exit code."""
        if hook.from_inside < 0:
            return
        try:
            data = os.read(hook.from_inside, 256)
        except BlockingIOError:
            return
        hook.received += data
        numbers = [int(number) for number in hook.received.split()]
        if numbers:
            hook.pid = numbers[0]
        if len(numbers) > 1:
            hook.code_inside = numbers[1]
        if len(numbers) > 1 or not data:
            self.poll.unregister(hook.from_inside)
            os.close(hook.from_inside)
            del self.insiders[hook.from_inside]
            hook.from_inside = -1

    def started(self, hook: HookProcess, *, gone: bool = False) -> None:
        """Read whether a hook has started. `gone`: its namespace has ended, so its pid may belong to another process."""
        hook.why_not = os.read(hook.report, 256).decode()
        self.poll.unregister(hook.report)
        os.close(hook.report)
        del self.reports[hook.report]
        self.receive(hook)
        if not hook.why_not and (gone or not hook.pid):
            hook.why_not = f"{errno.EAGAIN} spawn"
        if hook.why_not:
            return
        try:
            pidfd = os.pidfd_open(hook.pid)
        except OSError as error:  # no descriptor is free
            hook.why_not = f"{error.errno} spawn"
            os.kill(hook.child, _signal.SIGKILL)
            return
        self.tell(f"started {hook.number} {hook.pid}", pidfd)
        os.close(pidfd)

    def signal(self, number: int, signal: int) -> None:
        """Signal a hook's process group, unless its leader was reaped: the number may belong to another group by then."""
        hook = self.hooks.get(number)
        if hook is not None and hook.code is None:
            pid = hook.pid or hook.child
            with ignoring(PermissionError):  # it runs as another user now
                try:
                    os.killpg(pid, signal)
                except ProcessLookupError:  # it was just forked and leads no group yet
                    os.kill(pid, signal)
                if signal == _signal.SIGKILL:  # in a shared session it can leave its group
                    os.kill(pid, signal)

    def reap(self) -> None:
        """Reap all ended processes: hooks, first processes of namespaces, and orphans."""
        with ignoring(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                hook = self.by_child.pop(ended.si_pid, None)
                if hook is not None:
                    if self.reports.get(hook.report) is hook:  # the number may belong to another process by now
                        self.started(hook, gone=not hook.mark)
                    self.read_inside(hook)
                    if hook.pid == hook.child:
                        with ignoring(OSError):  # none is left, or all run as another user now
                            # Before it is reaped, while the number is still its own.
                            os.killpg(hook.pid, _signal.SIGKILL)
                code = os.waitstatus_to_exitcode(os.waitpid(ended.si_pid, 0)[1])
                if hook is not None:
                    if hook.code is None:
                        self.has_ended(hook, code)
                    hook.child = 0

    def finish(self) -> None:
        """Kill the remaining processes of ended hooks, and tell the host of each hook that has none left."""
        ended, self.ended = self.ended, []
        # In a namespace the kernel kills them, before the first process can be reaped.
        marks = {hook.mark for hook in ended if hook.mark}
        left = kill_marked(marks, self.proc)
        unmarked = self.kill_unmarked() if not marks <= left.keys() else 0
        for hook in ended:
            count = (left.get(hook.mark) or unmarked) if hook.mark else int(hook.child > 0)
            hook.searches += 1
            if count and time.monotonic() <= hook.until:
                self.ended.append(hook)
                continue
            remove_cgroup(hook.cgroup)
            del self.hooks[hook.number]
            how = f"failed {hook.number} {hook.why_not}" if hook.why_not else f"ended {hook.number} {hook.code} {count}"
            self.tell(how)

    def kill_unmarked(self) -> int:
        """Kill the orphans that have no hook's mark. Returns how many there were."""
        marks = {hook.mark for hook in self.hooks.values()}
        found = 0
        for pid in self.children():
            with ignoring(OSError):  # it runs as another user now
                if pid not in self.by_child and marks.isdisjoint(resource.prlimit(pid, RLIMIT_LOCKS)):
                    os.kill(pid, _signal.SIGKILL)
                    found += 1
        return found

    def end(self) -> None:
        """Kill and reap every descendant, with or without a mark."""
        kill_marked({hook.mark for hook in self.hooks.values() if hook.mark}, self.proc)
        until = time.monotonic() + KILL_WAIT
        # It reaps before it searches, because usually nothing is left. It never waits for one certain process: the first
        # process of a namespace ends only when all others in it are reaped, and this process may have to reap some of them.
        while self.reap_any() and time.monotonic() < until:
            for pid in self.children():
                with ignoring(OSError):
                    os.kill(pid, _signal.SIGKILL)
            if not self.reap_any():
                break
            time.sleep(PAUSE)
        for hook in self.hooks.values():
            remove_cgroup(hook.cgroup)

    def reap_any(self) -> bool:
        """Reap all ended children. Returns whether any child is left. A subreaper without children has no descendants."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True

    def children(self) -> Iterator[int]:
        """The pids of the children of this process. They stay valid, because only this process reaps its children."""
        me = os.getpid()
        for name in os.listdir(self.proc):
            with ignoring(OSError, ValueError):
                fd = os.open(f"{int(name)}/stat", os.O_RDONLY, dir_fd=self.proc)
                with open(fd, "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                if parent == me:
                    yield int(name)


def main() -> None:
    """Serve a host until it ends. Then end at once: the end of a Python takes milliseconds, and the host waits for it."""
    try:
        os.set_inheritable(CONTROL, False)
        close_from(CONTROL + 1)
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
