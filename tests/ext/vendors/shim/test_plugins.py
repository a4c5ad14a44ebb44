"""The plugins for agents that run hooks in their own process: OpenCode, Amp, and Claude Code's mods."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from picohook.ext.vendors.shim import client

CLIENTS = Path(__file__).parents[4] / "hooks_examples" / "clients"
GUARD = """
import os
from picohook import Deny, Modify

with open({pids!r}, "a") as file:
    file.write(f"{{os.getpid()}} ")


def decide(call):
    command = call.arguments["command"]
    if "rm" in command:
        return Deny("no")
    return Modify({{"arguments": {{"command": "pwd"}}}}) if command == "edit" else None


def redact(returned):
    return Modify({{"for_llm": returned.result.for_llm.replace("secret", "gap")}})
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_each_plugin_refuses_changes_and_redacts_and_refuses_when_nobody_answers(shim):
    pids = shim.runtime / "pids"
    (shim.project / "guard.py").write_text(GUARD.format(pids=str(pids)))
    (shim.project / "picohook.toml").write_text(
        '[hooks.a]\npython = "guard:decide"\nstages = ["before_tool"]\non_failure = "deny"\n'
        '[hooks.b]\npython = "guard:redact"\nstages = ["after_tool"]\n'
    )
    environment = {
        **shim.environment,
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])),
        "PICOHOOK_CONFIG": str(shim.project / "picohook.toml"),
    }
    # The mod's client gets the configuration as its last word.
    (shim.project / "client.py").write_text(
        f"import runpy, sys\nsys.argv.append({environment['PICOHOOK_CONFIG']!r})\n"
        f"runpy.run_path({client.__file__!r}, run_name='__main__')\n"
    )
    own = [sys.executable, "-I", "-S", str(shim.project / "client.py")]
    try:
        done = subprocess.run(
            [
                "node",
                Path(__file__).with_name("plugins.mjs"),
                CLIENTS / "node",
                CLIENTS / "claude-mod",
                json.dumps(own),
            ],
            cwd=shim.project,
            env=environment,
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )
    finally:
        for pid in pids.read_text().split() if pids.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    became = json.loads(done.stdout)
    for agent in ("opencode", "amp", "mod"):
        assert became[agent] == ["ran ls, a gap", "Tool execution denied by hook: no", "ran pwd, a gap"]
    assert became["opencodeWithoutSidecar"] == ["the sidecar has ended"]
    assert became["modWithoutClient"] == ["picohook: there is no decision about this call"]
