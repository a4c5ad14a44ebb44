"""What tests of containment need: tiers as they can be had here, users, stray hooks, and hosts in processes of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from scripted import PATIENCE, SERVE

from picohook import HookSpec

HERE = Path(__file__).parent
CONTAIN = {"namespace": "required", "sweep": "sweep", "group": "group"}
"""The setting that gets a tier."""
SOMEBODY = 12345
"""A user without any rights, for a test that runs as root."""


@functools.cache
def lacking(tier, user=None):
    """Why this machine does not have a tier; empty when it has."""
    program = (
        "import sys, anyio; sys.path[:0] = [sys.argv[1]]\n"
        "from picohook.process.containment import Containment, ALLOWED\n"
        "from picohook.transport.reactor import current_reactor\n"
        "from picohook.log import Log\n"
        "async def main():\n"
        "    held = Containment(current_reactor(), Log())\n"
        "    try:\n"
        "        await held._spawner(ALLOWED[sys.argv[2]], anyio.current_time() + 30)\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
        "    await held.aclose()\n"
        "anyio.run(main)\n"
    )
    python = python_for(user)
    done = subprocess.run(
        [*python, "-c", program, str(HERE.parents[1]), CONTAIN[tier]],
        capture_output=True, text=True, check=True, env=environment(python), **as_user(user),
    )  # fmt: skip
    return done.stdout.strip()


@functools.cache
def python_for(user):
    """A Python of this version that the user may run; and the packages that are installed for this one."""
    if user is None:
        return (sys.executable,)
    for python in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"):
        with contextlib.suppress(OSError):
            done = subprocess.run(
                [python, "-c", "import anyio, pydantic, orjson, trio"],
                stderr=subprocess.DEVNULL, check=False, cwd="/", env=environment((python,)), **as_user(user),
            )  # fmt: skip
            if done.returncode == 0:
                return (python,)
    pytest.skip("no Python here that somebody else than root can run with these packages")


def environment(python):
    packages = {str(Path(module.__file__).parents[1]) for module in (anyio, pytest)}
    more = {} if python == (sys.executable,) else {"PYTHONPATH": os.pathsep.join(packages)}
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **more}


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
        pytest.param(Ground(tier, user), id=tier if user is None else f"{tier}-unprivileged")
        for tier in tiers
        for user in users
    ]


def stray(name, *steps, python=None, **settings):
    """A hook that does these steps, of `stray.py` too; without any it serves."""
    if not {"stages", "observe"} & settings.keys():
        settings["stages"] = ("before_tool",)
    command = (python or sys.executable, "-I", "-S", str(HERE / "stray.py"), json.dumps(steps or (SERVE,)))
    return HookSpec(name=name, command=command, **settings)


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
    """A host in a process of its own."""

    def __init__(self, ground, how, *hooks, backend="asyncio", pass_fds=()):
        (python,) = python_for(ground.user)
        given = [
            hook.model_dump(mode="json", exclude_unset=True)
            | {
                "contain": ground.contain,
                "command": [python if word == sys.executable else word for word in hook.command],
            }
            for hook in hooks
        ]
        self.process = subprocess.Popen(
            [python, str(HERE / "hosting.py"), backend, how, json.dumps(given)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment((python,)),
            pass_fds=pass_fds, **as_user(ground.user),
        )  # fmt: skip
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


def version():
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
