"""The launcher: one small process beside a host that starts its hooks, is their parent, and takes them along when it ends.

`launcher.py` runs this file as `python -I -S launcher_program.py HOST_PID TIER`, with one end of a SEQPACKET socket as
descriptor 3. The hooks' pipes run directly between them and the host: nothing of a call passes through here.

From the host: `spawn ID`, with four descriptors: a file with the order (marshal), and the hook's stdin, stdout and stderr,
and maybe a fifth, the program itself, which then runs whatever its path means by now; and `signal ID NUMBER`, to the hook's
process group. To the host: `ready NOTE` or `unable WHY`, once; `started ID PID` with a pidfd, or `failed ID ERRNO STEP`;
and `ended ID CODE LEFT`, when nothing is left of a hook, or LEFT processes that do not die. When the host closes the socket,
or ends in any way, every descendant is killed.

Tiers. `namespace`: each hook lives in a PID namespace of its own, which no process can leave. A hook sees no process outside
of it, in /proc either. The namespace's first process starts the hook and reports its end; the kernel kills all the others
together with it, and kills it when this process ends.

`sweep`: who belongs to a hook is told by a mark, a random number in RLIMIT_LOCKS, which Linux has not looked at since 2.4.
Unlike a variable in the environment it stays when a daemon changes its session, its environment or its title, and no hook
sees it there. A process can change it. Orphans become children of this process (PR_SET_CHILD_SUBREAPER), so that those
whose mark belongs to no hook are found too. A process that takes another hook's mark ends with that hook; and a hook can
kill this process.

One thread, nothing that blocks while it serves, the standard library only.
"""

from __future__ import annotations

# Only what starts fast: the C halves of socket and signal, whose Python halves import enum; and neither typing nor contextlib.
# That is the half of what a start takes.
import _signal  # type: ignore[import-not-found]
import _socket
import ctypes
import errno
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

CONTROL = 3
RLIMIT_LOCKS = 10
PATIENCE, PAUSE, PAUSE_MOST = 2.0, 0.001, 0.05
"""Seconds for which those that are to be gone are looked for and killed, and the pauses between two looks."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_NOSUID_NODEV_NOEXEC, MS_REC_SLAVE = 2 | 4 | 8, 1 << 14 | 1 << 19
CLONE3 = 435  # the same on nearly every architecture


class ignoring:  # noqa: N801 - it is contextlib's suppress, but for the import
    """Errors that say that there is nothing to be done any more."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self.kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self.kinds)


def carriers(mark: int, proc: int | str = "/proc") -> Iterator[tuple[int, int]]:
    """The living processes with this mark: pid, and a pidfd that is good until the next one is asked for."""
    for pid in (int(name) for name in os.listdir(proc) if name.isdigit()):
        with ignoring(OSError):  # it ended, or is another user's
            if mark not in resource.prlimit(pid, RLIMIT_LOCKS):
                continue
            pidfd = os.pidfd_open(pid)
            try:
                # Again, with the pidfd open: if the number is another process by now, that one gets no signal.
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)  # readable: a zombie
                if mark in resource.prlimit(pid, RLIMIT_LOCKS) and not poll.poll(0):
                    yield pid, pidfd
            finally:
                os.close(pidfd)


def slay(mark: int, proc: int | str = "/proc") -> int:
    """Kill those with this mark, and say how many were found. The host calls this too, when its launcher was killed.

    All are stopped before the first is killed. What is stopped forks no more, and keeps the place that it has in a limit
    on processes: so a fork bomb comes to its end here.
    """
    seen: set[int] = set()
    before = -1
    while before < len(seen):
        before = len(seen)
        for pid, pidfd in carriers(mark, proc):
            if pid not in seen:
                seen.add(pid)
                with ignoring(OSError):
                    _signal.pidfd_send_signal(pidfd, _signal.SIGSTOP)
    if seen:
        for _, pidfd in carriers(mark, proc):
            with ignoring(OSError):
                _signal.pidfd_send_signal(pidfd, _signal.SIGKILL)
    return len(seen)


def libc(name: str, *arguments: Any) -> None:
    """Call a function of the C library, and raise the error that it gives."""
    if getattr(LIBC, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


LIBC = ctypes.PyDLL(None, use_errno=True)  # it keeps the interpreter's lock, as the child of a `clone` needs it


def enter_user_namespace(more: int = 0) -> None:
    """A user namespace in which everybody is who they are; all rights in it end with the next exec, but for root's."""
    user, group = os.geteuid(), os.getegid()
    libc("unshare", CLONE_NEWUSER | more)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def prepare_namespaces() -> str:
    """Have PID namespaces made in a mount namespace of this process's own. Gives a note; raises where there can be none."""
    try:
        libc("unshare", CLONE_NEWNS)
    except PermissionError:
        enter_user_namespace(CLONE_NEWNS)
    libc("mount", None, b"/", None, MS_REC_SLAVE, None)
    first, told = new_namespace(None)
    note = os.read(told, 4096).decode()
    os.close(told)
    os.waitpid(first, 0)
    if not note:
        raise OSError(errno.ECHILD, "the first process of a namespace ended")
    return note


def new_namespace(start: Callable[[int], NoReturn] | None) -> tuple[int, int]:
    """Start a hook in a new PID namespace; see `be_first`. Gives its first process's pid, and what that one writes to."""
    told, teller = os.pipe()
    try:
        # struct clone_args, as of Linux 5.3: flags, three places for numbers, the signal of its end, and no stack
        numbers = CLONE_NEWPID | CLONE_NEWNS, 0, 0, 0, _signal.SIGCHLD, 0, 0, 0
        arguments = b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)
        first: int = LIBC.syscall(CLONE3, arguments, ctypes.c_size_t(len(arguments)))
        if first < 0:
            number = ctypes.get_errno()
            # ENOSPC: too many namespaces, which is a matter of the moment, as too many processes are
            number = errno.EAGAIN if number == errno.ENOSPC else number
            raise OSError(number, f"clone3: {os.strerror(number)}")  # noqa: TRY301
        if not first:
            os.close(told)  # a write shows then whether there is still somebody to read
            be_first(teller, start)
    except OSError:
        os.close(told)
        raise
    finally:
        os.close(teller)
    return first, told


def be_first(teller: int, start: Callable[[int], NoReturn] | None) -> NoReturn:
    """PID 1. Its child is the hook, which writes its pid; this writes the hook's exit code, and waits to be killed.

    Until then the hook is not reaped, so that no signal can reach a stranger with the same pid. Without a hook to start it
    writes a note.
    """
    try:
        _signal.set_wakeup_fd(-1)
        for number in (_signal.SIGCHLD, _signal.SIGINT):  # a PID 1 gets none from inside but those that it handles
            _signal.signal(number, _signal.SIG_DFL)
        os.setsid()
        # Late: a change of credentials would clear it. Too late even: then nobody is there to read what is written.
        libc("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        note = " "
        try:
            libc("mount", b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None)
        except OSError as error:  # some containers forbid it, and only /proc/$$ is then not right
            note = f"hooks see the /proc of the processes outside ({error.strerror})"
        if start is None:
            os.write(teller, note.encode())
            os._exit(0)
        hook = os.fork()
        if not hook:
            start(teller)
        close_from(0, but=teller)  # or the host would take this process for the launcher
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)).si_pid != hook:  # type: ignore[union-attr]
            os.waitpid(ended.si_pid, 0)  # type: ignore[union-attr] # an orphan
        os.write(teller, b"%d " % (ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))  # type: ignore[union-attr]
        while True:
            _signal.pause()
    finally:
        os._exit(1)


def close_from(least: int, but: int = -1) -> None:
    """Close all descriptors from this one on."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd >= least and fd != but:
            with ignoring(OSError):  # it was the listing's own
                os.close(fd)


class Hook:
    """One of them, from its order until nothing is left of it."""

    def __init__(self, number: int, child: int, told: int, report: int, order: dict[str, Any]) -> None:
        self.number, self.child, self.told, self.report = number, child, told, report
        self.mark, self.cgroup = order["mark"], order["cgroup"]
        self.pid = 0 if told >= 0 else child
        """The hook itself: this process's child, or in a namespace that child's child. 0: it is not known yet."""
        self.said = b""
        self.why_not = ""
        self.code: int | None = None
        self.rounds = 0
        self.until = 0.0

    def has_ended(self, code: int) -> None:
        """It has an exit code; what it leaves behind is to be gone soon."""
        self.code = code
        self.until = time.monotonic() + PATIENCE


class Launcher:
    """The hooks, and the socket to the host."""

    def __init__(self, host: int, tier: str) -> None:
        self.control = _socket.socket(fileno=CONTROL)
        self.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # before one is mounted over it, and good after
        self.host = os.pidfd_open(host)  # as well as the socket, which a child that the host forked may keep open
        if os.getppid() != host:
            raise OSError(errno.ESRCH, "the host is gone")
        self.hooks: dict[int, Hook] = {}
        self.reports: dict[int, Hook] = {}
        self.tellers: dict[int, Hook] = {}
        # First: the host may have ignored it, and then nothing that this starts could be waited for.
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
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
        """A message to the host, with a descriptor or none."""
        rights = [] if fd is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
        self.control.sendmsg([text.encode()], rights)

    def serve(self) -> None:
        """Until the host is gone."""
        while True:
            rounds = [hook.rounds for hook in self.hooks.values() if hook.code is not None]
            for fd, _ in self.poll.poll(min(PAUSE * 2 ** min(rounds), PAUSE_MOST) * 1000 if rounds else None):
                if fd == self.host or (fd == CONTROL and not self.obey()):
                    return
                if fd == self.woken:
                    os.read(fd, 4096)
                elif fd in self.reports:
                    self.started(self.reports[fd])
                elif fd in self.tellers:
                    self.hear(self.tellers[fd])
            self.reap()
            for hook in [hook for hook in self.hooks.values() if hook.code is not None]:
                self.finish(hook)

    def obey(self) -> bool:
        """Do what the next message says; false when there will be no more."""
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
                raise OSError(errno.EMFILE, "")  # noqa: TRY301 - the kernel gives as many as there is room for
            with open(fds[0], "rb", closefd=False) as file:
                order = marshal.load(file)  # noqa: S302 - from the host
            if order["itself"] and len(fds) < 5:  # noqa: PLR2004
                raise OSError(errno.EMFILE, "")  # noqa: TRY301 - never by its path instead
            readable, writable = os.pipe()  # exec closes it, which is the news that there was one
            told = -1
            try:
                if self.namespaces:
                    child, told = new_namespace(lambda teller: self.be_second(teller, order, fds[1:], writable))
                else:
                    child = os.fork()
                    if not child:
                        become(order, fds[1:], writable)
            except OSError:
                os.close(readable)
                raise
            finally:
                os.close(writable)
        except OSError as error:
            self.tell(f"failed {number} {error.errno} spawn")
            return
        hook = self.hooks[number] = self.reports[readable] = Hook(number, child, told, readable, order)
        self.poll.register(readable, select.POLLIN)
        if told >= 0:
            os.set_blocking(told, False)
            self.tellers[told] = hook
            self.poll.register(told, select.POLLIN)

    def be_second(self, teller: int, order: dict[str, Any], descriptors: list[int], report: int) -> NoReturn:
        """In a namespace's second process: tell the pid that it has outside, then be the hook."""
        os.write(teller, os.fsencode(os.readlink("self", dir_fd=self.proc)) + b" ")
        become(order, descriptors, report)

    def hear(self, hook: Hook) -> None:
        """What was told from inside a namespace: the hook's pid, and at its end its exit code."""
        if hook.told < 0:
            return
        try:
            said = os.read(hook.told, 256)
        except BlockingIOError:
            return
        hook.said += said
        numbers = [int(number) for number in hook.said.split()]
        hook.pid = numbers[0] if numbers else 0
        if len(numbers) > 1 or not said:
            self.poll.unregister(hook.told)
            os.close(hook.told)
            del self.tellers[hook.told]
            hook.told = -1
        if len(numbers) > 1:
            if self.reports.get(hook.report) is hook:
                self.started(hook)
            if hook.child:
                os.kill(hook.child, _signal.SIGKILL)
            hook.has_ended(numbers[1])

    def started(self, hook: Hook, *, gone: bool = False) -> None:
        """A hook is, or has told why it is not. Its pid is its own unless it is gone, with its namespace."""
        hook.why_not = os.read(hook.report, 256).decode()
        self.poll.unregister(hook.report)
        os.close(hook.report)
        del self.reports[hook.report]
        self.hear(hook)
        if not hook.why_not and (gone or not hook.pid):
            hook.why_not = f"{errno.EAGAIN} spawn"
        if not hook.why_not:
            pidfd = os.pidfd_open(hook.pid)
            self.tell(f"started {hook.number} {hook.pid}", pidfd)
            os.close(pidfd)

    def signal(self, number: int, signal: int) -> None:
        """Signal a hook's process group, as long as its number is its own: until its leader was reaped."""
        hook = self.hooks.get(number)
        if hook is not None and hook.code is None:
            try:
                os.killpg(hook.pid or hook.child, signal)
            except ProcessLookupError:  # it was forked, and leads no group yet
                os.kill(hook.pid or hook.child, signal)

    def reap(self) -> None:
        """Take note of what ended: hooks, the first processes of their namespaces, and orphans."""
        with ignoring(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                hook = next((hook for hook in self.hooks.values() if hook.child == ended.si_pid), None)
                if hook is not None:
                    if self.reports.get(hook.report) is hook:  # the number may be another one's by now
                        self.started(hook, gone=not hook.mark)
                    self.hear(hook)
                    if hook.pid == hook.child:
                        with ignoring(ProcessLookupError):
                            os.killpg(hook.pid, _signal.SIGKILL)  # before it is reaped, while the number is its own
                code = os.waitstatus_to_exitcode(os.waitpid(ended.si_pid, 0)[1])
                if hook is not None:
                    if hook.code is None:
                        hook.has_ended(code)
                    hook.child = 0

    def finish(self, hook: Hook) -> None:
        """Kill what an ended hook has left behind; tell the host when that is done."""
        # In a namespace the kernel does it, and has done it once its first process can be reaped.
        left = (slay(hook.mark, self.proc) or self.slay_unmarked()) if hook.mark else int(hook.child > 0)
        hook.rounds += 1
        if not left or time.monotonic() > hook.until:
            remove(hook.cgroup)
            del self.hooks[hook.number]
            ended = (
                f"failed {hook.number} {hook.why_not}" if hook.why_not else f"ended {hook.number} {hook.code} {left}"
            )
            self.tell(ended)

    def slay_unmarked(self) -> int:
        """Kill the orphans that have no hook's mark any more, and say how many there were."""
        hooks = {hook.child for hook in self.hooks.values()}
        marks = {hook.mark for hook in self.hooks.values()}
        found = 0
        for pid in self.children():
            with ignoring(OSError):  # it runs as another user by now
                if pid not in hooks and marks.isdisjoint(resource.prlimit(pid, RLIMIT_LOCKS)):
                    os.kill(pid, _signal.SIGKILL)
                    found += 1
        return found

    def end(self) -> None:
        """Kill and reap every descendant, those that lost their mark too."""
        for hook in self.hooks.values():
            if hook.mark:
                slay(hook.mark, self.proc)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for pid in self.children():
                with ignoring(OSError):
                    os.kill(pid, _signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:  # a subreaper without children is one without descendants
                break
            time.sleep(PAUSE)
        for hook in self.hooks.values():
            remove(hook.cgroup)

    def children(self) -> Iterator[int]:
        """This process's children. Nobody else reaps them, so their numbers are theirs."""
        for name in os.listdir(self.proc):
            with ignoring(OSError, ValueError):
                fd = os.open(f"{int(name)}/stat", os.O_RDONLY, dir_fd=self.proc)
                with open(fd, "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                if parent == os.getpid():
                    yield int(name)


def become(order: dict[str, Any], descriptors: list[int], report: int) -> NoReturn:
    """In the child: be the hook, or report why not."""
    step = "exec"
    try:
        os.setsid()
        for number, fd in enumerate(descriptors[:3]):
            os.dup2(fd, number)
        default_signals()
        if order["mark"]:
            _, most = resource.getrlimit(RLIMIT_LOCKS)
            # Within a hook that is a host itself, the hard limit stays that hook's mark: the process belongs to both.
            resource.setrlimit(RLIMIT_LOCKS, (order["mark"], order["mark"] if most == resource.RLIM_INFINITY else most))
        step = "processes"
        if order["cgroup"]:
            with open(f"{order['cgroup']}/cgroup.procs", "w") as file:
                file.write("0")
        if order["own_users"]:
            enter_user_namespace()
        step = "dir"
        if order["cwd"]:
            os.chdir(order["cwd"])
        for step, number, soft, hard in order["limits"]:  # noqa: B007 - the report names it
            _, most = resource.getrlimit(number)
            # What was inherited may be less; it then stays so.
            both = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
            resource.setrlimit(number, both)
        step = "exec"
        # A descriptor is closed by the exec that it is for.
        program = descriptors[3] if order["itself"] else order["argv"][0]
        os.execve(program, order["argv"], order["env"])  # noqa: S606 - no shell is wanted
    except Exception as error:  # noqa: BLE001 - whatever it is, the host shall know
        number = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None) or errno.EINVAL
        os.write(report, f"{number} {step}".encode())
    finally:
        os._exit(127)


def default_signals() -> None:
    """Ignore and block no signal: neither what Python ignores, nor what a shell has its background jobs ignore."""
    for number in _signal.valid_signals():
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def remove(cgroup: str) -> None:
    """The control group that the host made for a hook."""
    if cgroup:
        with ignoring(OSError):
            os.rmdir(cgroup)


def main() -> None:
    """Serve a host to its end."""
    os.set_inheritable(CONTROL, False)
    close_from(CONTROL + 1)
    try:
        launcher = Launcher(int(sys.argv[1]), sys.argv[2])
    except OSError as error:
        os.write(CONTROL, f"unable {error.strerror or error}".encode())
        return
    try:
        launcher.serve()
    except BrokenPipeError:  # the host is gone
        pass
    finally:
        launcher.end()


if __name__ == "__main__":
    main()
