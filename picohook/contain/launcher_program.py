"""The launcher: a small process beside a host. It starts the host's hooks, is their parent, and kills them when it ends.

`launcher.py` starts it with the host's pid and a tier as arguments, and one end of a SEQPACKET socket as descriptor 3. The
hooks' pipes connect them directly to the host: calls do not pass through here.

Messages from the host: `spawn ID`, with descriptors for the request (marshal), stdin, stdout, stderr, and maybe the program;
and `signal ID NUMBER`, to the hook's process group. Messages to the host: `ready NOTE` or `unable WHY`, once; `started ID PID`
with a pidfd, or `failed ID ERRNO STEP`; and `ended ID CODE LEFT`, when a hook has no process left, or LEFT processes do not
die. One message can have several lines of the last two. When the host closes the socket, or ends in any way, every descendant
is killed.

With `namespace`, each hook runs in its own PID namespace (`namespace.py`). When the first process of the namespace ends, the
kernel kills all others, and it ends with the launcher. It can be reaped only after the hook was.

Hooks have a process group each. They are in the host's session, or in one of their own, and have no terminal: this process
gives up the one of the host's session.

With `sweep`, the processes of a hook have a mark (`sweep.py`). Orphans become children of the launcher
(PR_SET_CHILD_SUBREAPER), so that it also finds those that have no hook's mark. A process that takes the mark of another hook
ends with that hook. A hook can kill the launcher.

It uses the standard library only. Its threads work one at a time. While it serves it waits for nothing but the kernel's opening
of a hook's directory and program, which the host has looked at before. The host kills a launcher that does not come back from
there.
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

from .namespace import HANDLED, Namespaces, close
from .start_hook import StartError, start_hook
from .sweep import kill_marked
from .syscalls import RLIMIT_LOCKS, close_from, ignoring, leave_terminal, libc, remove_cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

CONTROL = 3
ROOM = _socket.CMSG_SPACE(5 * 4)
"""For the descriptors of a message."""
TOLD_AT_ONCE = 64
"""The number of hooks that may have ended or failed in one message. The host reads messages of up to 4096 bytes."""
KILL_WAIT, PAUSE, PAUSE_MOST = 2.0, 0.001, 0.05
"""The seconds in which remaining processes are found and killed, and the least and the most between two searches."""
PR_SET_CHILD_SUBREAPER = 36


class HookProcess:
    """One hook, from its request until it has no process left."""

    def __init__(self, number: int, request: dict[str, Any], descriptors: list[int]) -> None:
        self.number, self.request, self.descriptors = number, request, descriptors
        self.mark, self.cgroup = request["mark"], request["cgroup"]
        self.first = 0
        """The first process of its namespace; 0 before it starts and after it ends."""
        self.pid = 0
        """0 while it is not started."""
        self.report = -1
        """The pipe that reports a failed start; see `start_hook`."""
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
        self.directory: int | bytes = b"/"
        with ignoring(OSError):
            self.directory = os.open(".", os.O_PATH)  # a namespace changes the directory of this process
        self.host = os.pidfd_open(host)  # needed beside the socket, which a fork of the host may keep open
        if os.getppid() != host:
            raise OSError(errno.ESRCH, "the host is gone")
        self.hooks: dict[int, HookProcess] = {}
        self.by_child: dict[int, HookProcess] = {}
        """The hooks by their own pid, and by that of the first process of their namespace."""
        self.reports: dict[int, HookProcess] = {}
        self.ended: dict[int, HookProcess] = {}
        """The hooks that have ended, and may have processes left, the oldest end first."""
        # First, because with an inherited SIG_IGN no child could be waited for. The others may be meant for the host's whole
        # session: this process ends with the host.
        for number in HANDLED:
            _signal.signal(number, lambda *_: None)
        self.has_terminal = not leave_terminal()
        self.namespaces = Namespaces(self.proc) if tier == "namespace" else None
        libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.woken, waker = os.pipe()
        os.set_blocking(waker, False)
        _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.poll = select.poll()
        for fd in (CONTROL, self.host, self.woken):
            self.poll.register(fd, select.POLLIN)
        if self.namespaces is not None:
            self.poll.register(self.namespaces.ready, select.POLLIN)
        self.tell(f"ready {'' if self.namespaces is None else self.namespaces.note}")

    def tell(self, text: str, fd: int | None = None) -> None:
        """Send the host a message, and maybe a descriptor."""
        rights = [] if fd is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
        self.control.sendmsg([text.encode()], rights)

    def serve(self) -> None:
        """Serve until the host is gone."""
        while True:
            for fd, _ in self.poll.poll(self.pause()):
                if fd == self.host or (fd == CONTROL and not self.obey()):
                    return
                if fd == self.woken:
                    os.read(fd, 4096)
                elif fd in self.reports:
                    self.started(self.reports[fd])
                elif self.namespaces is not None and fd == self.namespaces.ready:
                    for number in self.namespaces.are_ready():
                        hook = self.hooks.get(number)
                        if hook is not None and hook.code is None:  # it may be stopped by now
                            self.start(hook)
            self.reap()
            if self.ended:
                self.finish()

    def pause(self) -> float | None:
        """The milliseconds to wait for something to do: forever, or until the next look at hooks that have ended."""
        if not self.ended:
            return None
        first = next(iter(self.ended.values()))
        if first.mark:
            searches = min(hook.searches for hook in self.ended.values())
            return 1000 * min(PAUSE_MOST, PAUSE * 2.0**searches)
        return 1000.0 * max(0.0, first.until - time.monotonic()) + 1

    def obey(self) -> bool:
        """Carry out the messages of the host. Returns False when the host has closed the socket."""
        while True:
            try:
                data, rights, _, _ = self.control.recvmsg(256, ROOM, _socket.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            received = b"".join(part for _, _, part in rights)
            fds = [int.from_bytes(received[at : at + 4], sys.byteorder) for at in range(0, len(received), 4)]
            verb, *numbers = data.decode().split() or [""]
            if verb == "spawn":
                self.spawn(int(numbers[0]), fds)
            elif verb == "signal":
                self.signal(*map(int, numbers))
            if not data:
                return False

    def spawn(self, number: int, fds: list[int]) -> None:
        """Start a hook, or make its namespace, and start it when that is ready."""
        try:
            if len(fds) < 4:  # noqa: PLR2004
                raise OSError(errno.EMFILE, "")  # the kernel drops descriptors beyond the limit
            request = marshal.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))  # noqa: S302 - from the host
            if request["by_descriptor"] and len(fds) < 5:  # noqa: PLR2004
                raise OSError(errno.EMFILE, "")  # it must not be started by its path instead
        except OSError as error:
            close(fds)
            self.tell(f"failed {number} {error.errno} spawn")
            return
        request["cwd"] = request["cwd"] or self.directory
        request["own_session"] |= self.has_terminal  # which a session of its own does not have
        os.close(fds.pop(0))
        hook = self.hooks[number] = HookProcess(number, request, fds)
        if self.namespaces is None:
            self.start(hook)
            return
        try:
            hook.first = self.namespaces.make(number)
            self.by_child[hook.first] = hook
        except OSError as error:
            self.cannot_start(hook, f"{error.errno} spawn")

    def start(self, hook: HookProcess) -> None:
        """Start a hook, in its namespace if it has one."""
        try:
            if self.namespaces is None:
                hook.pid, hook.report = start_hook(hook.request, hook.descriptors)
            else:
                hook.pid, hook.report = self.namespaces.inside(
                    hook.first, lambda: start_hook(hook.request, hook.descriptors)
                )
        except OSError as error:
            self.cannot_start(hook, f"{error.errno} {error.step if isinstance(error, StartError) else 'spawn'}")
            return
        self.release(hook)
        self.by_child[hook.pid] = hook
        if hook.report >= 0:
            self.reports[hook.report] = hook
            self.poll.register(hook.report, select.POLLIN)
        else:
            self.runs(hook)

    def release(self, hook: HookProcess) -> None:
        """Forget the request and the descriptors of a hook that is started, or is not going to be."""
        fds, hook.descriptors = hook.descriptors, []
        hook.request = {}
        close(fds)

    def cannot_start(self, hook: HookProcess, why: str) -> None:
        """Note why a hook without a process cannot be started. The host is told when its namespace has ended."""
        self.release(hook)
        hook.why_not = why
        self.has_ended(hook, 0)

    def started(self, hook: HookProcess) -> None:
        """Read whether a hook has started."""
        hook.why_not = os.read(hook.report, 256).decode()
        self.poll.unregister(hook.report)
        os.close(hook.report)
        del self.reports[hook.report]
        hook.report = -1
        if not hook.why_not:
            self.runs(hook)

    def runs(self, hook: HookProcess) -> None:
        """Tell the host that the program of a hook runs. The hook was not reaped yet."""
        try:
            pidfd = os.pidfd_open(hook.pid)
        except OSError as error:  # no descriptor is free
            hook.why_not = f"{error.errno} spawn"
            os.kill(hook.pid, _signal.SIGKILL)
            return
        self.tell(f"started {hook.number} {hook.pid}", pidfd)
        os.close(pidfd)

    def signal(self, number: int, signal: int) -> None:
        """Signal a hook's process group, unless its leader was reaped: the number may belong to another group by then."""
        hook = self.hooks.get(number)
        if hook is None or hook.code is not None:
            return
        if not hook.pid:
            if signal == _signal.SIGKILL:
                self.cannot_start(hook, f"{errno.ECANCELED} spawn")
            return
        with ignoring(PermissionError):  # it runs as another user now
            try:
                os.killpg(hook.pid, signal)
            except ProcessLookupError:  # it was just forked and leads no group yet
                os.kill(hook.pid, signal)
            if signal == _signal.SIGKILL:  # in a shared session it can leave its group
                os.kill(hook.pid, signal)

    def reap(self) -> None:
        """Reap all ended processes: hooks, first processes of namespaces, and orphans."""
        with ignoring(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                pid = ended.si_pid
                hook = self.by_child.pop(pid, None)
                if hook is not None and pid == hook.pid:
                    if hook.report >= 0:  # the host gets a pidfd of it before its number may belong to another process
                        self.started(hook)
                    with ignoring(OSError):  # none is left, or all run as another user now
                        os.killpg(pid, _signal.SIGKILL)  # before it is reaped, while the number is still its own
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if hook is None:
                    continue
                if pid == hook.pid:
                    self.has_ended(hook, code)
                else:
                    hook.first = 0
                    if not hook.pid and hook.code is None:
                        self.cannot_start(hook, f"{errno.EAGAIN} spawn")

    def has_ended(self, hook: HookProcess, code: int) -> None:
        """Note a hook's exit code. Its remaining processes are killed."""
        hook.code = code
        hook.until = time.monotonic() + KILL_WAIT
        self.ended[hook.number] = hook
        if hook.first:
            os.kill(hook.first, _signal.SIGKILL)

    def finish(self) -> None:
        """Kill the remaining processes of ended hooks, and tell the host of each hook that has none left."""
        # In a namespace the kernel kills them, before the first process can be reaped.
        marks = {hook.mark for hook in self.ended.values() if hook.mark}
        left = kill_marked(marks, self.proc)
        unmarked = self.kill_unmarked() if not marks <= left.keys() else 0
        now = time.monotonic()
        messages = []
        for hook in [hook for hook in self.ended.values() if not hook.first or now > hook.until]:
            count = (left.get(hook.mark) or unmarked) if hook.mark else int(hook.first > 0)
            hook.searches += 1
            if count and now <= hook.until:
                continue
            remove_cgroup(hook.cgroup)
            del self.ended[hook.number], self.hooks[hook.number]
            how = f"failed {hook.number} {hook.why_not}" if hook.why_not else f"ended {hook.number} {hook.code} {count}"
            messages.append(how)
        for at in range(0, len(messages), TOLD_AT_ONCE):
            self.tell("\n".join(messages[at : at + TOLD_AT_ONCE]))

    def kill_unmarked(self) -> int:
        """Kill the orphans that have no hook's mark. Returns their number."""
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
        if self.namespaces is not None:
            self.namespaces.end()
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
