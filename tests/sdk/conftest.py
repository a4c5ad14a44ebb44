"""A hook on the SDK as a real process, and the host's side of its pipes, line by line."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import picohook

SOURCE = Path(picohook.__file__).parents[1]
PATIENCE = 30


class Hook:
    """A hook's process. `-I -S`: it finds the standard library and picohook, and nothing that is installed."""

    def __init__(self, directory: Path, source: str) -> None:
        script = directory / "hook.py"
        head = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\nfrom picohook.sdk import HookApp\napp = HookApp('test')\n"
        script.write_text(head + textwrap.dedent(source) + "\napp.run()\n")
        self.stderr = (directory / "stderr").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, text=True, bufsize=1,
        )  # fmt: skip
        self._next = 0

    def send(self, method, params=None, **more):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}, **more}
        self.process.stdin.write(json.dumps(message) + "\n")

    def ask(self, method, params=None):
        self._next += 1
        self.send(method, params, id=self._next)
        return self._next

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def answer(self, method, params=None):
        """The result of a request, that nothing else comes before."""
        number = self.ask(method, params)
        reply = self.read()
        assert reply["id"] == number
        return reply["result"]

    def said(self):
        """What it wrote to stderr, once it has ended."""
        self.process.wait(PATIENCE)
        self.stderr.seek(0)
        return self.stderr.read()

    def close(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


@pytest.fixture
def start(tmp_path):
    started = []

    def start(source):
        started.append(Hook(tmp_path, source))
        return started[-1]

    yield start
    for hook in started:
        hook.process.kill()
        hook.process.wait()
        for stream in (hook.process.stdin, hook.process.stdout, hook.stderr):
            stream.close()
