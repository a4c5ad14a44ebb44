"""A hook that does what it is told, and mostly that is wrong.

Its one argument is a JSON list of steps, done in order; each is a name and its arguments, and a method below.

It is started thousands of times. So it imports little: the C halves of json, signal and socket, whose Python halves take
longer than the interpreter itself. It is imported, and not run as a script, so that it is compiled once.
"""

import _json
import _signal as signal
import _socket as socket
import os
import sys

CHUNK = 65536


class _AsUsual:
    """The settings of `json.loads`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def encode(value):
    """The JSON of a value, without spaces, and in the characters that it has."""
    encoder = _json.make_encoder(None, None, _json.encode_basestring, None, ":", ",", False, False, True)
    return "".join(encoder(value, 0))


def decode(text):
    """The value that a text of JSON stands for; the text begins with it."""
    return _json.make_scanner(_AsUsual)(text, 0)[0]


class Hook:
    def __init__(self):
        self.name = ""
        self.buffered = b""
        self.request = {}
        self.replied = False
        self.line = None  # to the test
        self.born = -1  # to the parent, in a forked child
        self.record_fd = -1

    def run(self, steps):
        for name, *arguments in steps:
            getattr(self, f"do_{name}")(*arguments)

    # To the test, over a loopback socket that ends with this process.

    def do_call(self, where, name):
        if sys.platform == "linux":
            self.line = socket.socket(socket.AF_UNIX)
            self.line.connect(where)
        else:
            self.line = socket.socket()
            self.line.connect(("127.0.0.1", where))
        self.line.sendall(f"{name} {os.getpid()}\n".encode())
        if self.born >= 0:
            os.close(self.born)

    def do_tell(self, text):
        self.line.sendall(f"{text}\n".encode())

    def do_wait(self):
        """Until the test says go on."""
        while self.line.recv(1) not in {b"\n", b""}:
            pass

    def do_tell_descriptors(self):
        used = {fd for fd in map(int, os.listdir("/proc/self/fd")) if fd != self.line.fileno()}
        self.do_tell(encode(sorted(fd for fd in used if _is_open(fd))))

    def do_tell_environment(self):
        self.do_tell(encode(dict(os.environ)))

    def do_tell_session(self):
        self.do_tell(encode([os.getpid(), os.getsid(0), os.getpgid(0), os.getcwd()]))

    def do_tell_signals(self, *names):
        numbers = [getattr(signal, name) for name in names]
        ignored = [signal.getsignal(number) == signal.SIG_IGN for number in numbers]
        self.do_tell(encode([ignored, [number in signal.pthread_sigmask(signal.SIG_BLOCK, ()) for number in numbers]]))

    # Speaking the protocol.

    def do_hello(self, result=None):
        self.do_read()
        self.name = self.request["params"]["name"]
        self.do_reply({"ok": True, **(result or {})})

    def do_read(self):
        while b"\n" not in self.buffered:
            data = os.read(0, CHUNK)
            if not data:
                os._exit(0)
            self.buffered += data
        line, self.buffered = self.buffered.split(b"\n", 1)
        self.record("in", line)
        self.request = decode(line.decode())
        self.replied = False

    def do_end_of_stdin(self):
        """Read on until there is no more."""
        while os.read(0, CHUNK):
            pass

    def do_reply(self, result):
        self.send({"jsonrpc": "2.0", "id": self.request["id"], "result": result})

    def do_reply_of(self, size):
        """An answer of so many bytes, in one write: the pipe is made large enough first."""
        import fcntl

        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 2 * size)
        self.do_reply({"action": "modify", "call": {"arguments": {"x": "x" * size}}})

    def do_error(self, code, message):
        self.send({"jsonrpc": "2.0", "id": self.request["id"], "error": {"code": code, "message": message}})

    def do_notify(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})
        self.replied = False

    def do_ask(self, method, request_id):
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {}})
        self.replied = False

    def do_serve(self, answers=None):
        """Answer everything, until the end of stdin: with a result of `answers`, by method, or with what is usual.

        A request whose arguments have a list `do` does those steps first; where they say `who`, only that one does.
        """
        while True:
            self.do_read()
            method, params = self.request["method"], self.request.get("params", {})
            if "id" not in self.request:
                if self.line is not None:
                    self.do_tell(encode(self.request))
                continue
            request, arguments = self.request, params.get("arguments") or {}
            if arguments.get("who", self.name) == self.name:
                self.run(arguments.get("do", ()))
            if not self.replied:
                self.request = request
                self.do_reply((answers or {}).get(method) or self.usual(method, params))

    def usual(self, method, params):
        """Yes to everything; at before_tool with an echo of the nonce, and of all whom it went by."""
        if method == "hook.hello":
            self.name = params["name"]
            return {"ok": True, "name": self.name}
        if method == "hook.approve_tool":
            return {"approved": True}
        arguments = params.get("arguments") or {}
        if method == "hook.before_tool" and "nonce" in arguments:
            echo = {"echo": arguments["nonce"]}
            if "by" in arguments:
                echo = {**arguments, **echo, "by": [*arguments["by"], self.name]}
            return {"action": "modify", "call": {"arguments": echo}}
        return {"action": "continue"}

    def do_relay(self):
        """What comes in goes to the test, byte for byte, and what the test says goes out."""
        import select

        self.line.sendall(self.buffered)
        while True:
            readable, _, _ = select.select([0, self.line], [], [])
            for source in readable:
                data = os.read(0 if source == 0 else source.fileno(), CHUNK)
                if not data:
                    os._exit(0)
                write(self.line.fileno() if source == 0 else 1, data)

    def do_silent(self):
        """Leave this request without an answer."""
        self.replied = True

    def do_record(self, path):
        """Write every line that comes in and goes out to a file, from now on."""
        self.record_fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def send(self, message):
        line = encode(message).encode()
        self.record("out", line)
        write(1, line + b"\n")
        self.replied = True

    def record(self, way, line):
        if self.record_fd >= 0:
            write(self.record_fd, b'{"way":"%s","line":%s}\n' % (way.encode(), line))

    # Not speaking it.

    def do_write(self, text):
        """Raw text to stdout; {id} is the request's."""
        write(1, text.replace("{id}", str(self.request.get("id"))).encode())

    def do_write_hex(self, data, fd=1):
        write(fd, bytes.fromhex(data))

    def do_dribble(self, text, pause):
        """A byte at a time, for ever."""
        import time

        while True:
            for character in text:
                write(1, character.encode())
                time.sleep(pause)

    def do_flood(self, fd, text, count=None):
        """The same text again and again; without a count for ever."""
        data = text.encode()
        data *= max(1, CHUNK // len(data)) if count is None else count
        write(fd, data)
        while count is None:
            write(fd, data)

    def do_say(self, text):
        write(2, f"{text}\n".encode())

    def do_close(self, fd):
        os.close(fd)

    def do_ignore(self, name):
        signal.signal(getattr(signal, name), signal.SIG_IGN)

    def do_raise(self, name):
        os.kill(os.getpid(), getattr(signal, name))

    def do_exit(self, code):
        os._exit(code)

    def do_exec(self, *argv):
        os.execv(argv[0], argv)

    def do_hang(self):
        while True:
            signal.pause()

    def do_setsid(self):
        os.setsid()

    def do_fork(self, steps):
        """A child that does these steps and ends. It keeps stdin, stdout and stderr, and not the line to the test.

        The parent goes on when the child has called in, or ended.
        """
        parent, self.born = os.pipe()
        if os.fork():
            os.close(self.born)
            self.born = -1
            os.read(parent, 1)
            os.close(parent)
            return
        if self.line is not None:
            self.line.close()
        try:
            self.run(steps)
        finally:
            os._exit(0)


def write(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def _is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def main(hook=Hook):
    try:
        hook().run(decode(sys.argv[1]))
    except (BrokenPipeError, ConnectionError):
        os._exit(13)
