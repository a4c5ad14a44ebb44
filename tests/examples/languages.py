"""The hook that hooks_examples/ has in every language: where it is, and how it is built and run."""

from __future__ import annotations

import fcntl
import functools
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import preloaded
import pytest
import toolchains

from .conftest import EXAMPLES, needed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Language:
    """A hook. In its commands, {source} is its file, {python} a Python, and {out} a directory of its own for what is built."""

    name: str
    source: str
    run: tuple[str, ...]
    build: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """The programs that it takes."""
    install: str = ""
    """How they are had where they are missing."""
    exact: Callable[[], bool] = field(default=lambda: True)
    """Whether integers past 2^53 keep their digits."""

    def command(self, shared: Path) -> list[str]:
        """The command that runs the hook, which is built once for all the workers that share this directory."""
        out = shared / self.name
        values = {"source": str(EXAMPLES / self.source), "out": str(out), "python": preloaded.program("python")}
        for program in self.needs:
            needed(program, self.install)
        if self.build:
            with open(shared / f"{self.name}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not out.exists():
                    self._compile([part.format(**values) for part in self.build], out)
        return [part.format(**values) for part in self.run]

    def _compile(self, command: list[str], out: Path) -> None:
        out.mkdir()
        built = subprocess.run(command, capture_output=True, check=False, text=True, timeout=toolchains.COMPILING)
        if built.returncode != 0:
            out.rmdir()
            pytest.fail(f"{' '.join(command)}\n{built.stdout}{built.stderr}")


@functools.cache
def version(*command: str) -> tuple[int, ...]:
    """What a program says its version is; empty where there is no such program."""
    if shutil.which(command[0]) is None:
        return ()
    said = subprocess.run(command, capture_output=True, check=False, text=True, timeout=30).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


TYPESCRIPT = EXAMPLES / "typescript"
TSC = str(TYPESCRIPT / "node_modules" / ".bin" / "tsc")

LANGUAGES = [
    Language("python-sdk", "python/sdk_hook.py", ("{python}", "{source}")),
    Language("python-stdlib", "python/stdlib_hook.py", ("{python}", "{source}")),
    Language(
        "python-jsonrpcserver",
        "python/jsonrpcserver_hook.py",
        ("{python}", "{source}"),
    ),
    Language(
        "bash",
        "bash/hook.sh",
        ("bash", "{source}"),
        needs=("bash", "jq"),
        install="apt-get install jq",
        exact=lambda: version("jq", "--version") >= (1, 7),
    ),
    Language(
        "node",
        "node/hook.mjs",
        ("node", "{source}"),
        needs=("node",),
        install="apt-get install nodejs",
        exact=lambda: version("node", "--version") >= (21,),
    ),
    Language(
        "typescript",
        "typescript/hook.mts",
        ("node", "{source}"),
        needs=("node",),
        install="apt-get install nodejs",
        exact=lambda: False,
    )
    if version("node", "--version") >= (22, 18)
    else Language(
        "typescript",
        "typescript/hook.mts",
        ("node", "{out}/hook.mjs"),
        (TSC, "--project", str(TYPESCRIPT), "--outDir", "{out}"),
        needs=("node", TSC),
        install="npm install --no-package-lock --prefix hooks_examples/typescript",
        exact=lambda: False,
    ),
    Language(
        "go",
        "go/hook.go",
        ("{out}/hook",),
        ("go", "build", "-o", "{out}/hook", "{source}"),
        needs=("go",),
        install="apt-get install golang-go",
    ),
    Language(
        "rust",
        "rust/hook.rs",
        ("{out}/hook",),
        ("rustc", "--edition", "2021", "-D", "warnings", "-o", "{out}/hook", "{source}"),
        needs=("rustc",),
        install="apt-get install rustc",
    ),
    Language(
        "java",
        "java/Hook.java",
        ("java", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "{out}", "Hook"),
        ("javac", "-Xlint:all", "-Werror", "-d", "{out}", "{source}"),
        needs=("javac", "java"),
        install="apt-get install default-jdk-headless",
    ),
    Language(
        "c",
        "c/hook.c",
        ("{out}/hook",),
        ("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", "{out}/hook", "{source}"),
        needs=("cc",),
        install="apt-get install gcc libc6-dev",
    ),
    Language("perl", "perl/hook.pl", ("perl", "{source}"), needs=("perl",), install="apt-get install perl"),
]
