from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import preloaded
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PATIENCE = 90
"""Seconds after which a test fails instead of waiting on."""
OF_PYTHON = re.compile("PYTHON|LANG|LC_").match
"""Settings that Python reads when it starts."""

LOOP = """
for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"].removeprefix("hook."), request["params"]
    handle = globals().get(method)
    if "id" not in request:
        event(params)
        continue
    result = handle(params) if handle else {"ok": True} if method == "hello" else {}
    if result is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Project:
    """A directory with a configuration and its hooks, and `picohook` run in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.python = preloaded.program("python")
        """What runs its hooks. Tests that look at the command itself, or at how it starts, set it to the real one."""
        self.config = path / "picohook.toml"
        self.home = path.parent / "home"
        self.home.mkdir()
        # TYPER and PYTEST settings of whoever runs the tests are not the program's.
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "PYTEST"))
            and name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "PYTHONUNBUFFERED"}
        } | {"HOME": str(self.home), "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}

    def hook(self, name: str, source: str, *, stages: str | list[str] = "before_tool", **settings: Any) -> Path:
        """Write a hook, and add it to the configuration. Functions in its source answer the stages they are named for."""
        script = self.path / f"{name}.py"
        script.write_text("import json, os, sys\n" + textwrap.dedent(source) + LOOP)
        script.chmod(0o644)
        stages = [stages] if isinstance(stages, str) else stages
        self.table(name, command=[self.python, f"{name}.py"], stages=stages, **settings)
        return script

    def table(self, name: str, **settings: Any) -> None:
        """Add a hook to the configuration."""
        # JSON's strings, numbers, booleans and lists are TOML's.
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        with self.config.open("a") as file:
            file.write(f"[hooks.{name}]\n{lines}\n")
        self.config.chmod(0o644)

    @contextmanager
    def start(
        self, *arguments: str, env: dict[str, str] | None = None, starts: bool = False, **options: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """The program while it runs. A test that fails leaves none behind, and waits for none.

        It is one that really `starts` if that matters, and for settings that Python reads at its start.
        """
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = {**pipes, **options, "cwd": self.path, "env": self.env | (env or {}), "text": True}
        if starts or "preexec_fn" in options or any(map(OF_PYTHON, env or ())):
            program: Any = subprocess.Popen([sys.executable, "-m", "picohook", *arguments], **options)
        else:
            program = preloaded.Popen([*arguments], **options)
        with program as process:
            try:
                yield process
            finally:
                process.kill()

    def __call__(self, *arguments: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Result:
        with self.start(*arguments, env=env, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE) as process:
            out, err = process.communicate(stdin, timeout=PATIENCE)
        assert "Traceback" not in err, err
        return Result(process.returncode, out, err)

    def shell(self, script: str, *, starts: bool = False) -> Result:
        """Run a bash script in which `picohook` is the program. It is one that really `starts` if that matters."""
        command = f'"{sys.executable}" -m picohook' if starts else f'"{preloaded.program("picohook")}"'
        function = f'picohook() {{ {command} "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-c", function + script],
            cwd=self.path,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def fifo(self, name: str) -> Path:
        """A named pipe: who reads it to its end knows that whoever wrote to it is gone."""
        path = self.path / name
        os.mkfifo(path)
        return path


@contextmanager
def reading(fifo: Path) -> Iterator[TextIO]:
    """A named pipe, opened without waiting for whoever is to write to it."""
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    with open(descriptor) as file:
        yield file


@pytest.fixture
def project(tmp_path: Path) -> Project:
    path = tmp_path / "project"
    path.mkdir()
    return Project(path)


def read_line(file: Any) -> str:
    """The next line, or a failed test instead of waiting for ever. Reads no further, so that `select` sees the next one."""
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([file], [], [], PATIENCE)[0], "nothing came"
        byte = os.read(file.fileno(), 1)
        if not byte:
            break
        line += byte
    return line.decode()


def in_terminal(project, *arguments, **env):
    """What the program writes to a terminal."""
    ours, theirs = pty.openpty()
    with project.start(*arguments, env=env, stdout=theirs) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody holds the other side any more
                break
            if not data:
                break
            written += data
        os.close(ours)
        assert process.wait(timeout=30) == 0
    return written.decode()
