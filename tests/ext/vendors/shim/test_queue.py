"""`ask = "queue"`: what hooks pause in a vendor's agent waits in the queue of the user, and not in the agent's dialogue."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import pytest

from picohook.ext.approvals.queue import Answer, Queue
from picohook.ext.vendors.contract import Facts
from picohook.ext.vendors.dialects import NAMES, vendor_named
from picohook.model.payloads import Meta, ToolCall

CONFIG = """\
[hooks.careful]
python = "careful:decide"
stages = ["before_tool"]

[hooks.person]
ask = "queue"
"""
CAREFUL = """\
import os

from picohook import Pause

with open({pids!r}, "a") as file:
    file.write(f"{{os.getpid()}} ")


def decide(call):
    return Pause("may it?")
"""


@pytest.fixture
def config(shim):
    """A configuration whose hook pauses each call. Ends the hosts that have read it."""
    pids = shim.runtime / "pids"
    (shim.project / "careful.py").write_text(CAREFUL.format(pids=str(pids)))
    path = shim.project / "picohook.toml"
    path.write_text(CONFIG)
    yield str(path)
    for pid in pids.read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def event_of(vendor, cwd, command):
    """The name of the event before a tool, and the event as the agent writes it."""
    agent = vendor_named(vendor)
    name = next(name for name, entry in agent.asked.items() if entry.at == "before_tool")
    call = ToolCall(
        tool="Bash", arguments={"command": command}, tool_call_id=command, meta=Meta(session_key="s", turn_id="u")
    )
    told = agent.encode(name, call, Facts(project=cwd))
    return name, json.dumps(told.stdin).encode()


@pytest.mark.parametrize("vendor", NAMES)
def test_the_answer_in_the_queue_decides_and_the_agent_asks_nobody(shim, config, vendor):
    queue = Queue(str(shim.project.parent / ".local/state/picohook/approvals"))
    said = {}
    for yes in (True, False):
        name, event = event_of(vendor, str(shim.project), f"echo {yes}")
        client = shim.start(vendor, name, config=config)
        client.stdin.write(event)
        client.stdin.close()
        client.stdin = None
        while not (waiting := queue.waiting()):
            assert client.poll() is None, client.communicate()
            time.sleep(0.01)
        assert json.loads(waiting[0].call)["arguments"]["command"] == f"echo {yes}"
        assert waiting[0].about["paused"] == ["may it?"]
        queue.answer(waiting[0].id, Answer(yes, "" if yes else "use git mv", "the page"))
        out, err = client.communicate(timeout=120)
        said[yes] = (client.returncode, out.decode(), err.decode())
    queue.close()
    assert said[True] == (0, "", "")
    assert "the user said: use git mv" in said[False][1]
    assert '"ask"' not in said[False][1]
