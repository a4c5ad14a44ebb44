"""picohook without extras, in an empty environment: `make bare`.

    python tests/bare.py [DISTRIBUTION]

A host runs hooks in Python and C, named by TOML and JSON; what needs an extra says how to install it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_PACKAGES = 20
OWN = {"pip", "setuptools", "wheel"}
"""Packages that an empty environment has."""

HOST = """
import anyio
from picohook import Host

async def main():
    async with Host.from_config("hooks.toml") as host:
        print([(await host.run_tool({"tool": tool}, lambda _: "ran")).for_llm for tool in ("bash", "rm", "read")])
    async with Host.from_config("hooks.json") as host:
        print((await host.before_tool({"tool": "rm"})).hook, (await host.before_tool({"tool": "bash"})).action)
    async with Host.discover("project") as host:
        print(*sorted(hook.name for hook in host.status().hooks))

anyio.run(main)
"""
RULES = """
from picohook import Deny

def gate(call):
    return Deny("not rm") if call.tool == "rm" else None
"""
TOML = """
[hooks.gate]
python = "rules:gate"
stages = ["before_tool"]
filter = { tool = "/^(bash|rm)$/" }

[hooks.compiled]
command = ["./hook"]
stages = ["before_tool"]
filter = { tool = "bash" }
"""


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Returns what a command prints. Ends with a message if it exits with another code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_"))}
    environment["HOME"] = str(cwd)
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{shlex.join(words)} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        sys.exit(f"expected {wanted!r}, not {found!r}")


def try_bare(distribution: Path) -> None:
    """Install it, and run a host, a program that reads YAML, and the command line before and after its extra is installed."""
    with tempfile.TemporaryDirectory(prefix="picohook-bare-") as name:
        scratch = Path(name)
        python = scratch / "venv" / "bin" / "python"
        run(sys.executable, "-m", "venv", scratch / "venv", cwd=scratch)
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        run(*pip, "install", "--quiet", distribution, cwd=scratch)
        packages = {one["name"] for one in json.loads(run(*pip, "list", "--format", "json", cwd=scratch))} - OWN
        if len(packages) > MOST_PACKAGES:
            sys.exit(f"it brings {len(packages)} packages: {', '.join(sorted(packages))}")
        check_host(python, scratch)
        said = run(python, "-c", 'from picohook import Host; Host.from_config("hooks.yaml")', cwd=scratch, code=1)
        install_as_told(said, "a file in YAML needs PyYAML: ", scratch)
        run(python, "-c", 'from picohook import Host; Host.from_config("hooks.yaml")', cwd=scratch)
        said = run(python, "-m", "picohook", "check", "hooks.toml", cwd=scratch, code=1)
        install_as_told(said, "Error: the command line needs typer: ", scratch)
        run(python, "-m", "picohook", "check", "hooks.toml", cwd=scratch)
    print(f"{distribution.name}: {len(packages)} packages, and what needs an extra says how to install it")


def check_host(python: Path, place: Path) -> None:
    """Run a host of hooks in Python and in C."""
    run("cc", "-O1", "-o", place / "hook", ROOT / "hooks_examples" / "c" / "hook.c", cwd=place)
    (place / "rules.py").write_text(RULES)
    (place / "hooks.toml").write_text(TOML)
    gate = {"python": "rules:gate", "stages": ["before_tool"]}
    (place / "hooks.json").write_text(json.dumps({"hooks": {"gate": gate, "b": {**gate, "filter": {"tool": "x"}}}}))
    (place / "hooks.yaml").write_text('hooks: {gate: {python: "rules:gate", stages: [before_tool]}}\n')
    user = place / ".config" / "picohook"
    user.mkdir(parents=True)
    (place / "project").mkdir()
    shutil.copy(place / "rules.py", user)
    shutil.copy(place / "hooks.json", user / "picohook.json")
    first, second, third = run(python, "-c", HOST, cwd=place).splitlines()
    expect(first, "['ran', 'Tool execution denied by hook: not rm', 'ran']")
    expect(second, "gate continue")
    expect(third, "b gate")


def install_as_told(said: str, why: str, place: Path) -> None:
    """Run the command that a message ends with."""
    _, _, command = said.strip().splitlines()[-1].partition(why)
    if not command:
        sys.exit(f"expected {why!r}, not {said!r}")
    run(*shlex.split(command), "--quiet", "--disable-pip-version-check", cwd=place)


if __name__ == "__main__":
    try_bare(Path(sys.argv[1] if sys.argv[1:] else ROOT))
