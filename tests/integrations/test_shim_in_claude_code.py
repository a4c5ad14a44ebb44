"""`picohook shim claude` in the real Claude Code, whose model says what a script says."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from picohook.config import load
from picohook.ext.vendors.dialects import vendor_named
from picohook.ext.vendors.shim.files import HookFile
from picohook.projects.trust import trust

from .messages_api import serving

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

GUARD = """
import os
from pathlib import Path
from picohook import Deny, Modify

with Path({pids!r}).open("a") as file:
    file.write(f"{{os.getpid()}}\\n")


def decide(call):
    command = call.arguments["command"]
    with Path({asked!r}).open("a") as file:
        file.write(f"{{command}}\\n")
    if "secret" in command:
        return Deny("it is a secret")
    if command == "die":
        os.kill(os.getpid(), 9)
    return Modify({{"arguments": {{**call.arguments, "command": "echo changed by a hook"}}}}) if "change" in command else None


def redact(returned):
    if returned.tool == "Bash" and "hush" in returned.result.for_llm:
        return Modify({{"for_llm": "[gone]"}})
"""


@pytest.fixture
def project(monkeypatch):
    """A project with a shim, its hooks, and a short path for the socket. Its hosts are killed at the end."""
    place = Path(tempfile.mkdtemp(prefix="p"))
    pids = place / "pids"
    (place / "guard.py").write_text(GUARD.format(pids=str(pids), asked=str(place / "asked")))
    (place / "picohook.toml").write_text(
        '[hooks.guard]\npython = "guard:decide"\nstages = ["before_tool"]\n'
        '[hooks.redact]\npython = "guard:redact"\nstages = ["after_tool"]\n'
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "home"))
    trust(load(place / "picohook.toml", found=True))
    # The user's own entries and the project's ask, with other time limits.
    vendor = vendor_named("claude")
    HookFile(place / "home/.claude/settings.json", vendor).put_in("claude", 60.0, None)
    HookFile(place / ".claude/settings.json", vendor, place).put_in("claude", 30.0, None)
    (place / "bin").mkdir()
    (place / "bin/picohook").write_text(f'#!/bin/sh\nexec {sys.executable} -m picohook "$@"\n')
    (place / "bin/picohook").chmod(0o755)
    yield place
    for pid in set(pids.read_text().split()) if pids.exists() else ():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    shutil.rmtree(place)


async def test_it_denies_edits_and_redacts_and_a_call_whose_host_is_killed_is_denied(project, anyio_backend_name):
    if anyio_backend_name != "asyncio":
        pytest.skip("the agent is a process of its own")
    sdk = pytest.importorskip("claude_agent_sdk")
    commands = {"a": "echo a secret", "b": "echo change", "c": "echo hush", "d": "die", "e": "echo still guarded"}
    script = [*([(identity, "Bash", {"command": command})] for identity, command in commands.items()), "done"]
    with serving(script) as server:
        options = sdk.ClaudeAgentOptions(
            cwd=project,
            setting_sources=["user", "project"],
            model="claude-test",
            allowed_tools=["Bash"],
            env={
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "HOME": str(project / "home"),
                "PATH": f"{project / 'bin'}:{os.environ['PATH']}",
                "XDG_CONFIG_HOME": str(project / "home"),
                "XDG_RUNTIME_DIR": str(project),
            },
        )
        async for _ in sdk.query(prompt="hello", options=options):
            pass
        told = server.results
    assert "it is a secret" in told["a"]
    assert told["b"] == "changed by a hook"
    assert told["c"] == "[gone]"
    assert "the host ended before it answered" in told["d"]
    assert told["e"] == "still guarded"
    asked = (project / "asked").read_text().splitlines()
    assert [one for one in asked if one != "die"] == [one for one in commands.values() if one != "die"]
