"""`picohook mcp` before servers of other authors, unmodified: it changes nothing where hooks say continue."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path

import preloaded
import pytest

pytestmark = pytest.mark.one_worker("mcp_sdk")  # one worker imports the SDK

HERE = Path(__file__).parent
SDK = HERE / "mcp_sdk.py"
EVERYTHING = HERE / "mcp_servers/node_modules/.bin/mcp-server-everything"
NODE_CALLS = [
    ("echo", {"message": "ä\u2028\U0001f600"}),
    ("echo", {"message": 7}),
    ("no-such-tool", {}),
    ("get-sum", {"a": 0.1, "b": 2**53}),
    ("get-tiny-image", {}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-resource-links", {"count": 2}),
    ("trigger-long-running-operation", {"duration": 0.02, "steps": 2}),
    ("trigger-sampling-request", {"prompt": "why?", "maxTokens": 5}),
    ("trigger-elicitation-request", {}),
]
PYTHON_CALLS = [
    ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    ("convert_time", {"source_timezone": "nowhere", "time": "12:00", "target_timezone": "UTC"}),
    ("convert_time", {"time": 7}),
    ("no_such_tool", {}),
]


def compared(project, server, calls, *modes):
    """What the server says directly and through picohook, in each mode of the client. A hook is asked about all of it."""
    project.hook("seen", "", stages=["before_tool", "after_tool", "before_llm", "after_llm"], on_failure="deny")
    return said(project, [server, guarded(project.config, server)], calls, *modes)


def guarded(config, server):
    """The command that starts the server behind picohook."""
    return [preloaded.program("picohook", "mcp"), "mcp", "--config", str(config), "--name", "s", "--", *server]


def said(project, commands, calls, *modes):
    """What the servers of these commands say, in each mode of the client."""
    given = commands, modes, calls
    done = subprocess.run(
        [preloaded.program("python", "mcp"), str(SDK), "calls", *map(json.dumps, given)],
        cwd=project.path,
        env=project.env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_server_in_node_says_the_same_with_and_without_it(project):
    if not EVERYTHING.exists():
        pytest.skip("server-everything is not there: npm install --prefix tests/ext/mcp/mcp_servers")
    direct, through = compared(project, [str(EVERYTHING)], NODE_CALLS, "legacy")
    assert direct == through
    (older,) = direct
    texts = [one["content"][0].get("text", "") for one in older["calls"]]
    assert texts[0].endswith("\U0001f600")
    assert "why?" in texts[-2]
    assert older["progress"]


def test_a_server_in_python_says_the_same_with_and_without_it(project):
    if find_spec("mcp_server_time") is None:
        pytest.skip("mcp-server-time is not there: pip install mcp-server-time")
    server = [preloaded.program("python", "mcp"), "-m", "mcp_server_time", "--local-timezone", "UTC"]
    direct, through = compared(project, server, PYTHON_CALLS, "legacy", "auto")
    assert direct == through
    assert [one["version"] for one in direct] == ["2025-11-25", "2026-07-28"]
    assert json.loads(direct[0]["calls"][0]["content"][0]["text"])["time_difference"] == "+9.0h"


@pytest.mark.skipif(find_spec("tree_sitter_bash") is None, reason="the extra guards is not installed")
def test_guards_believe_the_annotations_of_a_server_only_if_it_is_trusted(project):
    server = [preloaded.program("python", "mcp"), str(SDK), "server"]
    commands = []
    for name, trusted in (("others", '["others"]'), ("trusted", '["s"]')):
        config = project.path / f"{name}.toml"
        config.write_text(f"[guards]\ntrusted = {trusted}\n")
        commands.append(guarded(config, server))
    calls = [("create_summary", {"path": "/etc/hosts"}), ("remove", {"path": "/etc/hosts"})]
    for of_others, of_trusted in zip(*said(project, commands, calls, "legacy", "auto"), strict=True):
        assert [one["isError"] for one in of_others["calls"]] == [True, True]
        assert [one["isError"] for one in of_trusted["calls"]] == [False, True]
        assert of_trusted["calls"][0]["content"][0]["text"] == "read /etc/hosts"
