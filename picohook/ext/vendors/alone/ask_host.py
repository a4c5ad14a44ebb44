"""Asks the shim's host about one event of a vendor's agent, and writes the answer.

It sends its standard input, working directory and environment to the host of this user, project and configuration. It starts
that host if it does not run. On any error it refuses.

It imports only built-in modules. `socket`, `signal` and `json` each take as long to import as Python takes to start, and `os` a
tenth of that. `-I` and `-S` keep modules of the project, of `PYTHONPATH` and of site-packages out.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

GREETING = "picohook-shim 1"
MOST_BYTES_OF_EVENT = 64 << 20
"""The most bytes of standard input, and of an answer."""
CHUNK = 1 << 16
"""The most bytes that are read at once. A larger buffer would need memory of its own from the system."""
LONGEST_PATH = 103
"""The most bytes that every system takes for the path of a socket."""
COUNTED = ("PATH HOME USER LOGNAME LANG LANGUAGE TMPDIR SHELL TZ XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME").split()  # noqa: SIM905 - two lines otherwise
"""The variables that every hook gets, or that decide which configuration is found. Each combination of their values, and of the
variables that begin with `LC_` or `PICOHOOK_`, has its own host."""

NAME_THEIR_PROJECT = ("claude", "gemini", "cursor")
"""The vendors whose agents name the project in a variable, VENDOR_PROJECT_DIR."""

DENY, TELL, STOP = "deny", "tell", "stop"
_KIND, _OTHERS, _DIRECTORY, _SOCKET, _FILE = 0o170000, 0o077, 0o040000, 0o140000, 0o100000
"""The bits of a file's mode for its kind and for other users, and the kinds of a directory, a socket and a regular file."""
_MACOS_PEER_PID = 2
_on_failure = DENY


class Refusal(Exception):  # noqa: N818 - the agent gets it as a refusal
    """The reason why there is no answer."""


def main() -> "NoReturn":
    """Ask the host, write the answer, and end the process."""
    global _on_failure
    try:
        try:
            vendor, event, _on_failure, seconds, *config = sys.argv[1:]
        except ValueError:
            raise Refusal("an agent runs this by its hook file: `picohook shim VENDOR` writes the entries") from None
        _signal.signal(_signal.SIGALRM, _late)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGALRM})
        _signal.setitimer(_signal.ITIMER_REAL, float(seconds))
        answer = ask(vendor, event, config[0] if config else "")
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        _write(1, answer)
    except BaseException as error:  # on any error, the call is refused
        why = str(error) if isinstance(error, Refusal) else f"{type(error).__name__}: {error}"
        _refuse(why)
    posix._exit(0)  # noqa: SLF001 - the public name is `os._exit`


def _late(*_: object) -> None:
    _refuse("no answer in time")


def _refuse(why: str) -> "NoReturn":
    """Refuse as this event's entry says: deny (exit code 2), stop the agent, or only report the failure. Ends the process.

    `TELL` is for an agent whose model is told no stderr: it denies, with the reason on stdout, too.
    """
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    text = "picohook: " + "".join(char if char.isprintable() else " " for char in why)[:2000]
    code = 2 if _on_failure != "pass" else 1
    try:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        if _on_failure == TELL:
            said = f'{{"permissionDecision":"deny","permissionDecisionReason":"{quoted}"}}'
            _write(1, said.encode("utf-8", "replace"))
        if _on_failure == STOP:
            said = f'{{"continue":false,"stopReason":"{quoted}","decision":"block","reason":"{quoted}"}}'
            _write(1, said.encode("utf-8", "replace"))
            code = 0
    except OSError:
        pass
    try:
        _write(2, text.encode("utf-8", "replace") + b"\n")
    except OSError:
        pass
    posix._exit(code)  # noqa: SLF001 - the public name is `os._exit`


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[posix.write(descriptor, data) :]


def ask(vendor: str, event: str, config: str) -> bytes:
    """Ask the host. Returns its answer. Raises `Refusal`."""
    stdin = _stdin()
    project = _project(vendor)
    directory = _directory()
    variables = [name + b"=" + value for name, value in posix.environ.items()]
    about = b"\0".join([posix.getcwdb(), *variables])
    request = f"{event} {len(about)} {len(stdin)}\n".encode() + about + stdin
    for _ in range(4):
        key = _key(vendor, project, config, posix.environ)
        greeting = f"{GREETING} {key}\n".encode()
        path = f"{directory}/{key}"
        if len(_encoded(path)) > LONGEST_PATH:
            raise Refusal(f"{path}: this path is too long for a socket: set XDG_RUNTIME_DIR to a shorter one")
        connection = _connect(path) or _started(path, key, vendor, project, config)
        status, answer = _exchange(connection, greeting + request, greeting)
        if status == b"done":
            return answer
        if status == b"elsewhere":  # the session began in another directory, and keeps its configuration
            project = answer.decode(sys.getfilesystemencoding(), "surrogateescape")
        elif status != b"again":
            raise Refusal(answer.decode("utf-8", "replace"))
    raise Refusal("the environment variables that hooks inherit keep changing: start the agent again")


def _stdin() -> bytes:
    parts, size = [], 0
    while data := posix.read(0, CHUNK):
        parts.append(data)
        size += len(data)
        if size > MOST_BYTES_OF_EVENT:
            raise Refusal(f"the event has more than {MOST_BYTES_OF_EVENT >> 20} MiB")
    return b"".join(parts)


def _project(vendor: str) -> str:
    """The directory from which the host looks upward: the one that the vendor names, or the working directory."""
    name = f"{vendor.upper()}_PROJECT_DIR"
    named = _variable(name) if vendor in NAME_THEIR_PROJECT else ""
    if not named:
        return posix.getcwd()
    if not named.startswith("/") or not _is_directory(named):
        raise Refusal(f"{name} is {named}, which is not a directory")
    return named


def _is_directory(path: str) -> bool:
    try:
        return posix.stat(path).st_mode & _KIND == _DIRECTORY
    except OSError:
        return False


def _variable(name: str) -> str:
    """The value of an environment variable; empty if it is not set."""
    return posix.environ.get(name.encode(), b"").decode(sys.getfilesystemencoding(), "surrogateescape")


def _encoded(path: str) -> bytes:
    """The bytes of a path, or of another text of the system."""
    return path.encode(sys.getfilesystemencoding(), "surrogateescape")


def _directory() -> str:
    """The directory of the sockets, which only this user can open. Makes it if it is missing. Raises `Refusal`."""
    user = posix.geteuid()
    runtime = _variable("XDG_RUNTIME_DIR")
    directory = f"/tmp/picohook-{user}"  # noqa: S108 - it is checked
    if runtime.startswith("/") and _is_private(runtime):
        directory = f"{runtime}/picohook"
    try:
        posix.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise Refusal(f"{directory} cannot be made: {error.strerror}") from None
    if not _is_private(directory):
        raise Refusal(f"{directory} is not a directory that only this user can open: remove it, or set XDG_RUNTIME_DIR")
    return directory


def _is_private(directory: str) -> bool:
    try:
        return _is_own(posix.lstat(directory), _DIRECTORY)
    except OSError:
        return False


def _is_own(status: "posix.stat_result", kind: int) -> bool:
    """Whether a file is of this kind, and only this user can open it."""
    return status.st_mode & (_KIND | _OTHERS) == kind and status.st_uid == posix.geteuid()


def _key(vendor: str, project: str, config: str, environment: "dict[bytes, bytes]") -> str:
    """A digest of all that a host and its clients share: program, version, user, project, configuration and environment."""
    try:
        from _blake2 import blake2b  # hashlib takes longer
    except ImportError:
        from hashlib import blake2b

    package = __file__.removesuffix("ext/vendors/alone/ask_host.py")
    version = f"{package}wire/version.py"
    with open(version, "rb", buffering=0) as file:
        known = [file.read(1000), str(posix.stat(version).st_mtime_ns).encode()]
    known += [_encoded(one) for one in (sys.executable, package, str(posix.geteuid()), vendor, project, config)]
    known += [
        name + b"=" + value
        for name, value in sorted(environment.items())
        if name.startswith((b"LC_", b"PICOHOOK_")) or name.decode("latin-1") in COUNTED
    ]
    digest: str = blake2b(b"\0".join(known), digest_size=16).hexdigest()
    return digest


def record_path(key: str) -> str:
    """The file in which the host with this key notes its process, beside the file that keeps trust.

    Unlike the directory of the sockets, agents' sandboxes do not let commands write there.
    """
    config = _variable("XDG_CONFIG_HOME")
    if not config.startswith("/"):
        home = _variable("HOME")
        if not home.startswith("/"):
            raise Refusal("HOME is not set: the host notes its process there")
        config = f"{home}/.config"
    return f"{config}/picohook/hosts/{key}"


def record_of(pid: int) -> bytes:
    """Returns the identity of a process: its id, and the time of its start where the system tells it."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            began = file.read(4096).rpartition(b")")[2].split()[19]
    except OSError:
        began = b""
    return b"%d %s" % (pid, began)


def _is_noted(pid: int, key: str) -> bool:
    """Whether this process is the host that has noted itself. A command of the agent cannot note another one."""
    try:
        note = posix.open(record_path(key), posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _is_own(posix.fstat(note), _FILE) and posix.read(note, 100) == record_of(pid)
    finally:
        posix.close(note)


def _connect(path: str) -> "_socket.socket | None":
    """Connect to the host; None if no host runs. Raises `Refusal` if another program answers in its place."""
    for _ in range(3):
        connection = _connected(path)
        if connection is None or _is_noted(pid := _peer(connection, path), path.rpartition("/")[2]):
            return connection
        connection.close()  # unless a new host has just taken the place of this one, it is no host
    raise Refusal(f"process {pid} listens at {path}, and it is not the host that picohook started: end it")


def _connected(path: str) -> "_socket.socket | None":
    try:
        status = posix.lstat(path)
    except FileNotFoundError:
        return None
    if not _is_own(status, _SOCKET):
        raise Refusal(f"{path} is not a socket that only this user can open: remove it")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def _peer(connection: "_socket.socket", path: str) -> int:
    """The id of the process that listens. Raises `Refusal` if it is another user's."""
    # struct ucred of Linux and struct xucred of macOS both have the user's id as their second number.
    if hasattr(_socket, "SO_PEERCRED"):
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        pid = peer[:4]
    else:
        peer = connection.getsockopt(0, _socket.LOCAL_PEERCRED, 76)  # type: ignore[attr-defined]
        pid = connection.getsockopt(0, _MACOS_PEER_PID, 4)
    if int.from_bytes(peer[4:8], sys.byteorder) != posix.geteuid():
        raise Refusal(f"{path} belongs to the program of another user")
    return int.from_bytes(pid, sys.byteorder)


def _exchange(connection: "_socket.socket", request: bytes, greeting: bytes) -> tuple[bytes, bytes]:
    """Send the request. Returns the answer: its status and its text. Raises `Refusal` for anything else."""
    parts, size = [], 0
    try:
        connection.sendall(request)
        while data := connection.recv(CHUNK):
            parts.append(data)
            size += len(data)
            if size > MOST_BYTES_OF_EVENT:
                raise Refusal("the host answered with too much")
    except OSError:  # the host has gone, and its answer is incomplete
        parts = []
    connection.close()
    answer = b"".join(parts)
    if not answer:
        raise Refusal("the host ended before it answered")
    if not answer.startswith(greeting):
        raise Refusal("the host did not answer as this version of picohook does")
    head, _, text = answer[len(greeting) :].partition(b"\n")
    status, _, length = head.partition(b" ")
    if length != b"%d" % len(text):
        raise Refusal("the host ended in the middle of its answer")
    return status, text


def _started(path: str, key: str, vendor: str, project: str, config: str) -> "_socket.socket":
    """Start a host, unless another client has just started one. Returns a connection to it. Raises `Refusal`."""
    import fcntl  # only if there is no host

    lock = posix.open(path + ".lock", posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # the host inherits it, and holds it until it listens
    connection = _connect(path)
    if connection is not None:
        posix.close(lock)
        return connection
    ready = _spawn(path, lock, key, [vendor, project, config])
    posix.close(lock)
    message = b""
    while data := posix.read(ready, 65536):
        message += data
    if message != b"ready":
        why = message.decode("utf-8", "replace") or _last_line(path + ".log")
        raise Refusal(f"the host could not be started: {why}")
    connection = _connect(path)
    if connection is None:
        raise Refusal("the host ended as soon as it was started")
    return connection


def _spawn(path: str, lock: int, key: str, about: list[str]) -> int:
    """Start a host that inherits the lock. Returns the descriptor on which it writes that it is ready, or why it is not."""
    for name in posix.listdir("/dev/fd"):  # the host must not get what the agent left open
        if int(name) > 2:  # noqa: PLR2004 - standard error
            try:
                posix.set_inheritable(int(name), False)
            except OSError:
                pass
    ready, ready_writer = posix.pipe()
    posix.set_inheritable(ready_writer, True)
    posix.set_inheritable(lock, True)
    module = [sys.executable, "-E", "-P", "-m", "picohook.ext.vendors.shim.host"]
    log = (
        posix.POSIX_SPAWN_OPEN,
        2,
        path + ".log",
        posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW,
        0o600,
    )
    posix.posix_spawn(
        sys.executable,
        [*module, key, path, str(ready_writer), str(lock), *about],
        posix.environ,
        file_actions=[
            (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
            (posix.POSIX_SPAWN_OPEN, 1, "/dev/null", posix.O_WRONLY, 0),
            log,
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=[one for one in _signal.valid_signals() if one not in {_signal.SIGKILL, _signal.SIGSTOP}],
    )
    posix.close(ready_writer)
    return ready


def _last_line(path: str) -> str:
    with open(path, "rb") as file:
        lines = file.read(1 << 20).splitlines() or [b"it wrote nothing to its log"]
    return lines[-1].decode("utf-8", "replace")
