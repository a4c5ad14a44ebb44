"""Tests each framework integration in an environment that has only this framework: `make frameworks`.

    python tests/integrations/alone.py [EXTRA...]

Makes a virtual environment for each extra, in a scratch directory, with picohook, this extra and what the tests need; and runs
the tests of this integration there. Uses uv if it is on the PATH, and pip otherwise. Ends with 1 if any tests fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("agent-hooks", "claude-agent", "google-adk", "langchain", "openai-agents", "pydantic-ai")
TOOLS = {"hypothesis", "pytest", "pytest-timeout", "trio"}
"""The packages of the extra `test` that these tests need."""
CLIENTS = {"langchain": ["openai"], "pydantic-ai": ["openai"]}
"""What the tests over HTTP need besides: the client of the provider, which these frameworks do not bring."""


def needed(extra: str) -> list[str]:
    """Return what to install: picohook with the extra, the tests' tools and clients, and the limits that `dev` sets."""
    extras = PROJECT["optional-dependencies"]
    tools = [one for one in extras["test"] if one.partition(">=")[0] in TOOLS]
    limits = [one for one in extras["dev"] if "<" in one and one.startswith(extra)]
    return ["--editable", f"{ROOT}[cli,{extra}]", *tools, *CLIENTS.get(extra, []), *limits]


def install(extra: str, place: Path) -> Path:
    """Make an environment for this extra in this directory. Returns its Python."""
    python = place / "bin" / "python"
    if uv := shutil.which("uv"):
        run(uv, "venv", "--quiet", "--python", sys.executable, str(place))
        run(uv, "pip", "install", "--quiet", "--python", str(python), *needed(extra))
    else:
        run(sys.executable, "-m", "venv", str(place))
        run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed(extra))
    return python


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a command. Raises `CalledProcessError` if it fails."""
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    subprocess.run(command, cwd=cwd, env=env, check=True)


def check(extra: str, scratch: Path) -> bool:
    """Test one integration in its own environment, and say how long that took. Returns whether the tests passed."""
    started = time.monotonic()
    try:
        python = install(extra, scratch / extra)
        installed = time.monotonic()
        module = extra.replace("-", "_")
        tests = ["-q", "-p", "no:cacheprovider", "tests/integrations", "-k", f"{module} or {extra}"]
        run(str(python), "-m", "pytest", *tests)
    except subprocess.CalledProcessError as error:
        print(f"{extra}: failed: {error}", flush=True)
        return False
    done = time.monotonic()
    print(f"{extra}: passed; installed in {installed - started:.0f} s, tested in {done - installed:.0f} s", flush=True)
    return True


def main(extras: list[str]) -> int:
    """Test these integrations, or all of them. Returns the exit code."""
    if unknown := [extra for extra in extras if extra not in EXTRAS]:
        print(f"unknown extra {unknown[0]!r}: use {', '.join(EXTRAS)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="picohook-alone-") as scratch:
        passed = [check(extra, Path(scratch)) for extra in extras or EXTRAS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
