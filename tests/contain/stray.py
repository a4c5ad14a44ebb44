"""A hook that goes astray: the steps of `badhook`, and those that try to leave what contains it.

Started by BOOT of `grounds` with the directories to import from and STEPS. Like `badhook`, it imports little.
"""

import _signal as signal
import errno
import os
import sys

from badhook import Hook, decode, encode, main  # noqa: F401 - main is what BOOT calls

TOKENS = 200
"""More than any test lets there be processes."""


class Stray(Hook):
    def do_daemon(self, steps):
        """A daemon as in the books: forked twice, in a session of its own, with none of the descriptors."""
        if os.fork():
            os.wait()
            return
        os.setsid()
        if os.fork():
            os._exit(0)
        for fd in range(3):
            os.close(fd)
            os.open(os.devnull, os.O_RDWR)
        self.forget_line()
        try:
            self.run(steps)
        finally:
            os._exit(0)

    def do_bare(self, steps):
        """The same program anew, with an empty environment."""
        os.execve(sys.executable, [*sys.orig_argv[:-1], encode(steps)], {})

    def do_join(self, group):
        """Become a member of another process group."""
        os.setpgid(0, group)

    def do_leave_group(self):
        """Join the process group of a child, and leave another child in its own."""
        for _ in range(2):
            child = os.fork()
            while not child:
                signal.pause()
        os.setpgid(child, child)
        os.setpgid(0, child)

    def do_write_to_first(self):
        """Write to what the first process of the namespace has open, where the system allows it."""
        for fd in range(3):
            try:
                os.write(os.open(f"/proc/1/fd/{fd}", os.O_RDWR | os.O_NONBLOCK), b"x" * 100)
            except OSError:
                pass

    def do_kill_parent(self):
        os.kill(os.getppid(), signal.SIGKILL)

    def do_kill_launcher(self):
        """Kill its keeper and the launcher, so that neither sees the other's end."""
        keeper = os.getppid()
        with open(f"/proc/{keeper}/stat") as file:
            launcher = int(file.read().rsplit(") ", 1)[1].split()[1])
        for pid, number in ((launcher, signal.SIGSTOP), (keeper, signal.SIGKILL), (launcher, signal.SIGKILL)):
            os.kill(pid, number)

    def do_slaughter(self, outside):
        """Kill every process that is in sight; but only within a namespace, since the test may run as root."""
        if os.readlink("/proc/self/ns/pid") == outside:
            self.do_tell("refused")
            return
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
            for pid in range(1, 200):
                if pid != os.getpid():
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.do_tell("done")

    def do_bomb(self):
        """Fork, and have all of them fork, until that is refused; all of them hold the line open.

        It is no danger to the machine where nothing refuses it: each fork takes one of the tokens that they share.
        """
        tokens, put = os.pipe()
        os.write(put, b"x" * TOKENS)
        os.close(put)
        refused = "not refused"
        while os.read(tokens, 1):
            try:
                os.fork()
            except OSError:
                refused = "refused"
                break
        self.do_tell(refused)
        while True:
            signal.pause()

    def do_chain(self, links):
        """Fork and end, again and again, so that each process is there for a moment."""
        for link in range(links):
            if os.fork():
                os._exit(0)
            if link == 1:
                self.do_tell("away")

    def do_end_main_thread(self):
        """Live on without the thread that the process began with: it looks like a zombie."""
        import _thread
        import ctypes

        def live_on():
            with open("/proc/self/stat") as file:
                while ") Z" not in file.read():
                    file.seek(0)
            self.do_tell("away")
            signal.pause()

        _thread.start_new_thread(live_on, ())
        system_exit = {"x86_64": 60}.get(os.uname().machine, 93)
        ctypes.CDLL(None).syscall(system_exit, 0)

    def do_count_forks(self, most):
        """How many children it can have at once."""
        children = []
        try:
            while len(children) < most:
                pid = os.fork()
                if not pid:
                    signal.pause()
                children.append(pid)
        except BlockingIOError:
            pass
        self.do_tell(str(len(children)))
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def do_allocate(self, size):
        try:
            bytearray(size)
            self.do_tell("had it")
        except MemoryError:
            self.do_tell("MemoryError")

    def do_open(self, count):
        fds = []
        try:
            while len(fds) < count:
                fds.append(os.open(os.devnull, os.O_RDONLY))
            self.do_tell("had them")
        except OSError as error:
            for fd in fds:
                os.close(fd)
            self.do_tell(errno.errorcode[error.errno])

    def do_fill(self, path, size):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        try:
            while size > 0:
                size -= os.write(fd, bytes(65536))
            self.do_tell("wrote it")
        except OSError as error:
            self.do_tell(errno.errorcode[error.errno])

    def do_burn(self):
        while True:
            pass

    def do_try(self, *deeds):
        """What comes of each of some deeds with files and sockets: `ok`, or the error."""
        self.do_tell(encode(self.tried(deeds)))

    def do_record_deeds(self, deeds, path):
        """The same from file to file, where there is no line."""
        with open(deeds) as file, open(path, "w") as results:
            results.write(encode(self.tried(decode(file.read()))))

    def tried(self, deeds):
        came = []
        for what, where in deeds:
            try:
                came.append(getattr(self, f"try_{what}")(where) or "ok")
            except OSError as error:
                came.append(errno.errorcode.get(error.errno, repr(error)))
        return came

    def try_status(self, name):
        with open("/proc/self/status") as file:
            return next(line.split()[1].strip("0") or "none" for line in file if line.startswith(name))

    def try_read(self, path):
        with open(path, "rb") as file:
            file.read(1)

    def try_list(self, path):
        os.listdir(path)

    def try_write(self, path):
        with open(path, "r+b") as file:
            file.write(b"x")

    def try_truncate(self, path):
        os.truncate(path, 0)

    def try_create(self, path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        os.unlink(path)

    def try_chmod(self, path):
        os.chmod(path, 0o600)

    def try_connect(self, port):
        import socket

        with socket.socket() as tcp:
            tcp.connect(("127.0.0.1", port))

    def try_send(self, port):
        import socket

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(b"x", ("127.0.0.1", port))

    def try_loopback(self, _):
        """Its own one: whom it has a network with is another question."""
        import socket

        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname()).close()

    def forget_line(self):
        if self.line is not None:
            self.line.close()
            self.line = None
