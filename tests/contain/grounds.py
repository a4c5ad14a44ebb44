"""What tests of containment need: tiers as they can be had here, users, stray hooks, and hosts in processes of their own."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import anyio
import preloaded
import pytest
from scripted import HANG, PATIENCE, SERVE

from picohook import HookSpec

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STRAY = f"{HERE}:{ROOT / 'tests/helpers'}"
BOOT = 'import sys; sys.path[:0] = sys.argv.pop(1).split(":"); import stray; stray.main(stray.Stray)'
"""Starts a stray hook, which is imported from STRAY, so that it is compiled once."""
CONTAIN = {"namespace": "required", "sweep": "sweep", "group": "group"}
"""The setting that gets a tier."""
ONE_LOOP = pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})], ids=["asyncio"])
"""For a test whose host is in a process of its own, with an event loop of its own."""
SOMEBODY = 12345
"""A user without any rights, for a test that runs as root."""
AS_SOMEBODY = pytest.mark.one_worker("somebody")
"""What that user runs a host with is found, or copied, once."""
STUBBORN = [["ignore", "SIGTERM"], ["ignore", "SIGHUP"], ["ignore", "SIGINT"]]


@functools.cache
def lacking(tier, user=None):
    """Why this machine does not have a tier; empty when it has."""
    program = (
        "import sys, anyio; sys.path[:0] = [sys.argv[1]]\n"
        "from picohook.contain.tiers import Containment, ALLOWED\n"
        "from picohook.transport.event_loop import current_reactor\n"
        "from picohook.observe.log import Log\n"
        "async def main():\n"
        "    held = Containment(current_reactor(), Log())\n"
        "    try:\n"
        "        await held._spawner(ALLOWED[sys.argv[2]], anyio.current_time() + 30)\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
        "    await held.aclose()\n"
        "anyio.run(main)\n"
    )
    means = means_for(user)
    python = preloaded.program("python") if user is None else means.python
    done = subprocess.run(
        [python, "-c", program, str(means.root), CONTAIN[tier]],
        capture_output=True, text=True, check=True, env=means.environment, cwd=means.root, **as_user(user),
    )  # fmt: skip
    return done.stdout.strip()


@dataclasses.dataclass(frozen=True)
class Means:
    """What somebody runs a host with: a Python of this version, and places to read where this project is and what it needs."""

    python: str
    root: Path
    packages: tuple[str, ...] = ()

    @property
    def environment(self):
        more = {"PYTHONPATH": os.pathsep.join(self.packages)} if self.packages else {}
        return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **more}

    def do_for(self, user):
        program = "import sys, anyio, pydantic, orjson, trio; sys.path[:0] = [sys.argv[1]]; import picohook; open(sys.argv[2])"
        stray_hook = str(self.root / HERE.relative_to(ROOT) / "stray.py")
        with contextlib.suppress(OSError):
            done = subprocess.run(
                [self.python, "-c", program, str(self.root), stray_hook],
                stderr=subprocess.DEVNULL, check=False, cwd="/", env=self.environment, **as_user(user),
            )  # fmt: skip
            return done.returncode == 0
        return False


@functools.cache
def means_for(user):
    """Where others may not enter the checkout, or the packages that are installed here, these are copies of both."""
    if user is None:
        return Means(sys.executable, ROOT)
    pythons = (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
    installed = tuple({str(Path(module.__file__).parents[1]) for module in (anyio, pytest)})
    for make in (lambda: (ROOT, installed), copies):
        root, packages = make()
        for python in pythons:
            means = Means(python, root, () if root == ROOT and python == sys.executable else packages)
            if means.do_for(user):
                return means
    pytest.skip("no Python here that somebody else than root can run with these packages")


@functools.cache
def copies():
    """This project and the packages that it needs, where everybody may read them."""
    place = Path(tempfile.mkdtemp(prefix="picohook-test-"))
    atexit.register(shutil.rmtree, place)
    place.chmod(0o755)
    for part in ("picohook", "tests/helpers", "tests/contain"):
        shutil.copytree(ROOT / part, place / part)
    for package in closure("picohook", "trio") - {"picohook"}:
        for file in metadata.files(package) or ():
            if file.parts[0] != ".." and file.locate().is_file():
                target = place / "packages" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), target)  # what is compiled stays so
    return place, (str(place / "packages"),)


def closure(*packages):
    """These packages and all that they need."""
    found = set()
    wanted = list(packages)
    for package in wanted:
        if package not in found:
            found.add(package)
            needs = [need for need in metadata.requires(package) or () if "extra ==" not in need]
            names = [re.match(r"[\w.-]+", need)[0] for need in needs]
            wanted += [name for name in names if is_there(name)]
    return found


def is_there(package):
    try:
        return metadata.distribution(package)
    except metadata.PackageNotFoundError:  # of another platform, or of another Python
        return None


def as_user(user):
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@dataclasses.dataclass(frozen=True)
class Ground:
    """A tier, and who runs the host."""

    tier: str
    user: int | None = None

    @property
    def contain(self):
        return CONTAIN[self.tier]


def grounds(*tiers):
    """Each tier as who runs the tests; and if that is root, as somebody without rights too."""
    users = [None, SOMEBODY] if os.geteuid() == 0 else [None]
    return [
        pytest.param(Ground(tier), id=tier)
        if user is None
        else pytest.param(Ground(tier, user), id=f"{tier}-unprivileged", marks=AS_SOMEBODY)
        for tier in tiers
        for user in users
    ]


def each_ground_and_loop():
    """The product of both; what a user without rights lacks, it lacks on every loop, so that user has one."""
    loops = {"asyncio": ("asyncio", {"use_uvloop": False}), "trio": ("trio", {})}
    return [
        pytest.param(options, *ground.values, id=f"{loop}-{ground.id}", marks=ground.marks)
        for ground in grounds("namespace", "sweep")
        for loop, options in loops.items()
        if ground.values[0].user is None or loop == "asyncio"
    ]


def stray(name, *steps, python=None, **settings):
    """A hook that does these steps, of `stray` too; without any it serves."""
    if not {"stages", "observe"} & settings.keys():
        settings["stages"] = ("before_tool",)
    command = (python or sys.executable, "-I", "-S", "-c", BOOT, STRAY, json.dumps(steps or (SERVE,)))
    return HookSpec(name=name, command=command, **settings)


class Strays:
    """Everything that a hook can leave behind, and the lines to it."""

    def __init__(self, board, name="h"):
        self._board = board
        self._name = name
        self._names = ["hook", "child", "session", "daemon", "bare"]

    def steps(self):
        call = {name: self._board.call(f"{self._name}.{name}") for name in self._names}
        return [
            call["hook"],
            ["fork", [*STUBBORN, call["child"], HANG]],
            ["fork", [*STUBBORN, ["setsid"], call["session"], HANG]],
            ["daemon", [*STUBBORN, call["daemon"], HANG]],
            ["daemon", [["bare", [*STUBBORN, call["bare"], HANG]]]],
        ]

    async def lines(self):
        return [await self._board.line(f"{self._name}.{name}") for name in self._names]


async def all_dead(lines):
    for line in lines:
        await line.dead()


class Held:
    """Three descriptors for processes, and the end of a pipe that ends with the last of those that hold them."""

    def __enter__(self):
        self._readable, self._writable = os.pipe()
        self._silence = os.open(os.devnull, os.O_RDONLY)
        self.streams = self._silence, self._writable, self._writable
        return self

    def __exit__(self, *_):
        os.close(self._writable)
        os.close(self._silence)

    async def said(self, count):
        """Until so many bytes were written."""
        said = b""
        while len(said) < count:
            with anyio.fail_after(PATIENCE):
                await anyio.wait_readable(self._readable)
            said += os.read(self._readable, 65536)
        return said

    async def ended(self):
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(self._readable)
            while os.read(self._readable, 65536):
                await anyio.wait_readable(self._readable)
        os.close(self._readable)


class Hosting:
    """A host in a process of its own: forked from one that has imported it, where the same user runs the tests."""

    def __init__(self, ground, how, *hooks, backend="asyncio", pass_fds=(), terminal=None):
        means = means_for(ground.user)
        forked = ground.user is None and not pass_fds and terminal is None
        moved = {sys.executable: means.python, STRAY: STRAY.replace(str(ROOT), str(means.root))}
        given = [
            hook.model_dump(mode="json", exclude_unset=True)
            | {
                "contain": ground.contain,
                "command": [moved.get(word, word) for word in hook.command],
            }
            for hook in hooks
        ]
        here = means.root / HERE.relative_to(ROOT)
        python = preloaded.program("python") if forked else means.python
        command = [python, str(here / "hosting.py"), backend, how, json.dumps(given)]
        if terminal is not None:
            command = [means.python, "-I", "-S", str(here / "leader.py"), *terminal.arguments, *command]
            pass_fds = (*pass_fds, *terminal.theirs)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=means.environment, cwd=means.root,
            pass_fds=pass_fds, start_new_session=terminal is not None, **as_user(ground.user),
        )  # fmt: skip
        if terminal is not None:
            terminal.is_in_use()
        self._buffered = b""

    async def said(self):
        while b"\n" not in self._buffered:
            with anyio.fail_after(PATIENCE):
                await anyio.wait_readable(self.process.stdout)
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "the host ended"
            self._buffered += data
        line, self._buffered = self._buffered.split(b"\n", 1)
        return json.loads(line)

    async def do(self, word):
        self.tell(word)
        return await self.said()

    def tell(self, word):
        """Something that it may not answer."""
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class Terminal:
    """A terminal for a host, in a session of its own that `leader.py` leads."""

    def __init__(self, where="foreground", *before):
        """`before` is a command that becomes the host."""
        self._ours, theirs = pty.openpty()
        self._leader, control = socket.socketpair()
        self.theirs = theirs, control.detach()
        self.arguments = *map(str, self.theirs), where, *before

    def is_in_use(self):
        for fd in self.theirs:
            os.close(fd)
        self._leader.setblocking(False)

    def press(self, key):
        os.write(self._ours, key)

    async def stopped(self):
        """Until the host is stopped."""
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(self._leader)
        assert self._leader.recv(1), "the host ended"

    def resume(self):
        """Let it go on, as `fg` does."""
        self._leader.send(b".")

    def hang_up(self):
        os.close(self._ours)
        self._ours = -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._leader.close()
        if self._ours >= 0:
            os.close(self._ours)


def version():
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
