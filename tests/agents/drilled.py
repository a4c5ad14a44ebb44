"""Drives an agent's program by `picohook drill`, with the entries of `picohook shim`, and compares the verdicts with a page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs import BIN
from trying import ground

from picohook.ext.drill.settings import codex_hooks, written

if TYPE_CHECKING:
    from programs import Program

ROOT = Path(__file__).parents[2]
DRILLS = Path(__file__).parent / "drills.json"
GUARD = '[hooks.guard]\npython = "guard:decide"\nstages = ["before_tool"]\n'


def drilled(program: Program) -> dict[str, Any]:
    """Drive a program along each way. Returns what came of it, as drills.json has it."""
    with ground() as here:
        home = here.home
        (home / "guard.py").write_text("def decide(call):\n    return None\n", encoding="utf-8")
        (home / "picohook.toml").write_text(GUARD, encoding="utf-8")
        environment = {"HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}", "SHELL": "/bin/sh"}
        picohook = [sys.executable, "-m", "picohook"]
        shim = [*picohook, "shim", program.name, "--config", str(home / "picohook.toml")]
        subprocess.run(shim, env=environment, check=True, stdout=subprocess.DEVNULL)
        if program.name == "codex":
            _trust(home / ".codex", here.project)
        done = subprocess.run(
            [*picohook, "drill", program.name, "--json"],
            cwd=here.project,
            env=environment,
            stdout=subprocess.PIPE,
            check=False,
        )
    made = json.loads(done.stdout)
    names = ("title", "verdict", "seen", "known")
    return {
        "title": made["title"],
        "version": made["version"],
        "offline": made["offline"],
        "ways": {way["name"]: {name: way[name] for name in names} for way in made["ways"]},
    }


def _trust(home: Path, project: Path) -> None:
    """Let Codex trust the hooks that it finds, as a user does who was asked about them."""
    found = codex_hooks(str(BIN / "codex"), {**os.environ, "CODEX_HOME": str(home)}, project)
    state = {key: {"trusted_hash": hook["currentHash"]} for key, hook in found.items()}
    config = home / "config.toml"
    config.write_text(written({"hooks": {"state": state}}, config), encoding="utf-8")
