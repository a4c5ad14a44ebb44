"""`picohook mcp`, as a client types it, with real servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest
from program import PATIENCE, read_line, reading

SDK = Path(__file__).with_name("mcp_sdk.py")
SERVER = """
import json, os, signal, sys
print("started", file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "exit":
        os._exit(asked["params"]["code"])
    if method == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if method == "flood":
        while True:
            print(json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"x": "x" * 1000}}))
    text = json.dumps(asked["params"]["arguments"]) if method == "tools/call" else ""
    if "id" in asked:
        result = {"content": [{"type": "text", "text": text}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
GUARD = """
def before_tool(params):
    if params["tool"] == "mcp__files__remove":
        return {"action": "deny_tool", "reason": "not " + params["context"]["tool_name"]}
    return {}
"""


def line(method, identity=None, **params):
    asked = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(asked if identity is None else {**asked, "id": identity}) + "\n"


def call(identity, tool, **arguments):
    return line("tools/call", identity, name=tool, arguments=arguments)


@pytest.fixture
def command(project):
    """`picohook mcp` with a guard, before a server."""
    project.hook("guard", GUARD, on_failure="deny")
    (project.path / "files.py").write_text(SERVER)
    return ["mcp", "--config", str(project.config), "--", project.python, "files.py"]


def named(command, name="files"):
    return [*command[:3], "--name", name, *command[3:]]


def texts(done):
    return {answer["id"]: answer["result"]["content"][0]["text"] for answer in done.lines}


def test_calls_pass_or_are_denied_and_the_server_speaks_on_its_own_stderr(project, command):
    done = project(*named(command), stdin=call(1, "read", path="a") + call("b", "remove"))
    assert (done.code, done.err) == (0, "started\n")
    assert texts(done) == {1: '{"path": "a"}', "b": "Tool execution denied by hook: not remove"}


def test_without_a_name_the_servers_program_names_it(project, command):
    (project.path / "files").write_text(f"#!{sys.executable}\n{SERVER}")
    (project.path / "files").chmod(0o755)
    done = project(*command[:-2], "./files", stdin=call(1, "remove"))
    assert texts(done) == {1: "Tool execution denied by hook: not remove"}


def test_the_end_of_the_server_is_the_end_of_the_command_with_its_exit_code(project, command):
    with project.start(*command, stdin=-1) as process:
        process.stdin.write(line("exit", code=3))
        process.stdin.flush()
        assert process.wait(PATIENCE) == 3
    with project.start(*command, stdin=-1) as process:
        process.stdin.write(line("kill"))
        process.stdin.flush()
        assert process.wait(PATIENCE) == 128 + signal.SIGKILL


@pytest.mark.parametrize("how", ["terminated", "killed", "left"])
def test_the_server_does_not_outlive_the_command(project, command, how):
    fifo = project.fifo("alive")
    code = "import os, sys; os.open('alive', os.O_WRONLY); print('{}', flush=True); [0 for _ in sys.stdin]"
    with reading(fifo) as alive, project.start(*command[:-1], "-c", code, stdin=-1) as process:
        if how == "left":
            process.stdin.write(call(1, "read"))
            process.stdin.close()
            process.stdout.close()
        else:
            assert "refused a line of MCP" in read_line(process.stderr)  # the server has written
            process.send_signal(signal.SIGTERM if how == "terminated" else signal.SIGKILL)
        assert alive.read() == ""
        expected = {"terminated": 128 + signal.SIGTERM, "killed": -signal.SIGKILL, "left": 0}
        assert process.wait(PATIENCE) == expected[how]


def test_a_server_that_ignores_the_end_of_its_input_is_terminated(project, command):
    code = "import signal; print('{}', flush=True); signal.pause()"
    done = project(*command[:-1], "-c", code, stdin="")
    assert (done.code, done.out) == (0, "")


def test_a_server_that_floods_waits_for_its_client(project, command):
    with project.start(*command, stdin=-1) as process:
        process.stdin.write(line("flood"))
        process.stdin.flush()
        assert all(json.loads(process.stdout.readline())["method"] == "x" for _ in range(2000))
        memory = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
        assert int(memory) * 4096 < 300 << 20
        process.stdout.close()
        assert process.wait(PATIENCE) == 0


def test_a_tool_that_changed_since_an_earlier_run_is_hidden_until_it_is_unpinned(project, command):
    server = project.path / "files.py"
    server.write_text(SERVER.replace("result = {", 'result = {"tools": [{"name": "read", "description": "old"}], '))
    denying = [*command[:3], "--changed", "deny", *command[3:]]

    def tools():
        done = project(*denying, stdin=line("tools/list", 1))
        assert done.code == 0, done.err
        return [tool["description"] for tool in done.json["result"]["tools"]], done.err

    assert tools() == (["old"], "started\n")
    server.write_text(server.read_text().replace("old", "new"))
    shown, err = tools()
    assert shown == []
    assert "a tool of an MCP server has changed server='python' tool='read'" in err
    unpinned = project("mcp", "--unpin", *command[3:])
    assert (unpinned.code, unpinned.out) == (0, "the tools of this server are pinned anew when they are listed\n")
    assert tools() == (["new"], "started\n")
    (pins,) = (project.home / ".config/picohook/mcp-pins").iterdir()
    assert pins.stat().st_mode & 0o777 == 0o600
    pins.write_text("{}")
    assert "is damaged" in project(*denying, stdin="").err
    assert [project("mcp", "--unpin", *command[3:]).out.split()[0] for _ in range(2)] == ["the", "nothing"]


@pytest.mark.parametrize(("program", "why"), [("./nowhere", "does not exist"), ("nowhere", "is not on the PATH")])
def test_a_server_that_cannot_be_started_is_an_error(project, command, program, why):
    done = project(*command[:-2], program, stdin="")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: the MCP server nowhere cannot be started: ")
    assert why in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--name", "a b", "--", "true"],
        ["--approve", "/(/", "--", "true"],
        ["--refuse", "x", "--", "true"],
        ["--url", "https://example.org", "--", "true"],
        ["--url", "example.org"],
        ["--url", "https://example.org", "--header", "Authorization: Bearer hidden-7"],
        ["--header", "A: ${HOME}", "--", "true"],
        [],
    ],
)
def test_wrong_usage(project, command, arguments):
    done = project(*command[:3], *arguments, stdin="")
    assert (done.code, done.out) == (2, "")
    assert "hidden-7" not in done.err


def test_it_is_put_before_the_servers_of_a_client_and_removed_again(project, command):
    file = project.path / "client.json"
    servers = {
        "my files": {"command": project.python, "args": ["files.py"], "env": {"A": "b"}},
        "odd": {"command": ["x"]},
    }
    before = json.dumps({"mcpServers": servers, "other": {"ü": 1}}, indent="\t", ensure_ascii=False)
    file.write_text(before)
    done = project("mcp", "--config", "picohook.toml", "--refuse", "roots", "--init", "client.json")
    unguarded = "odd is not guarded: picohook does not see its command\n"
    assert (done.code, done.out) == (0, f"my files is guarded now\n{unguarded}")
    entry = json.loads(file.read_text())["mcpServers"]["my files"]
    assert entry["args"][-9:] == [
        "--config", str(project.config), "--refuse", "roots", "--name", "my-files", "--", project.python, "files.py",
    ]  # fmt: skip
    assert Path(entry["command"]).is_absolute()
    done = project(*entry["args"][entry["args"].index("mcp") :], stdin=call(1, "read"))
    assert (done.code, done.json["id"]) == (0, 1)
    assert project("mcp", "--undo", "client.json").out == "my files is as it was\n"
    assert file.read_text() == before


def test_without_a_named_configuration_it_asks_those_that_are_found_and_trusted(project, command):
    refused = project("mcp", *command[3:], stdin="")
    assert (refused.code, refused.out) == (1, "")
    assert "is not trusted yet" in refused.err
    project("trust")
    done = project("mcp", "--name", "files", *command[3:], stdin=call(1, "remove"))
    assert texts(done) == {1: "Tool execution denied by hook: not remove"}


@pytest.mark.timeout(300)
@pytest.mark.one_worker("mcp_sdk")
def test_the_official_client_and_server_get_the_same_results_with_and_without_it(project):
    """In both eras of the protocol, with the server as a command and over HTTP.

    With picohook between them the user is asked about `add`, and the last call is denied.
    """
    project.hook("guard", GUARD.replace("mcp__files__", "mcp__sdk__"), on_failure="deny")
    sdk = [preloaded.program("python", "mcp"), str(SDK)]
    server = [*sdk, "server"]
    options = ["--config", str(project.config), "--name", "sdk", "--approve", "mcp__sdk__add"]
    between = [preloaded.program("picohook", "mcp"), "mcp", *options]
    with subprocess.Popen([*sdk, "http"], stdout=subprocess.PIPE, env=project.env) as remote:
        try:
            url = f"http://127.0.0.1:{int(remote.stdout.readline())}/mcp"
            through = [
                [*between, "--", *server],
                [*between, "--url", url, "--header", "Authorization: Bearer ${TOKEN}"],
            ]
            done = subprocess.run(
                [*sdk, "client", json.dumps([server, *through])],
                cwd=project.path,
                env={**project.env, "TOKEN": "hidden-7"},
                capture_output=True,
                check=True,
                timeout=280,
            )
        finally:
            remote.kill()
    direct, local, over_http = json.loads(done.stdout)
    assert {one["version"] for one in direct} == {"2025-11-25", "2026-07-28"}
    assert direct[0]["model"]["content"][0]["text"] == "Be brief. why?"
    assert b"hidden-7" not in done.stderr
    for plain, guarded in zip([*direct, *direct], [*local, *over_http], strict=True):
        assert guarded["denied"]["content"][0]["text"] == "Tool execution denied by hook: not remove"
        assert "Tool execution denied by approval hook" in guarded["not approved"]["content"][0]["text"]
        questions = [["Allow mcp__sdk__add?", arguments] for arguments in (f'{{"a": 1, "b": {2**70}}}', '{"a": "x2"}')]
        assert guarded["asked"][:2] == questions
        assert (plain["denied"]["isError"], plain["asked"]) == (False, [])
        differ = ("denied", "not approved", "asked")
        assert {name: one for name, one in plain.items() if name not in differ} == {
            name: one for name, one in guarded.items() if name not in differ
        }
