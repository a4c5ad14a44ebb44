"""`picohook serve` and `picohook schema protocol`, as they are typed."""

from __future__ import annotations

import gc
import json
import re
import signal
import socket
import urllib.request

import pytest
from program import PATIENCE, read_line, reading

from picohook.cli.host import OBJECTS_BEFORE_COLLECTION, garbage_collected_rarely

ECHO = """
def before_tool(params):
    return {"action": "deny_tool", "reason": "no " + params["tool"]}
"""
NAMED = ("--config", "picohook.toml")


def request(identity, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}) + "\n"


def test_it_serves_on_standard_streams_until_they_end(project):
    project.hook("guard", ECHO)
    asked = request(1, "before_tool", tool="bash") + "nonsense\n" + request(2, "before_tol")
    done = project("serve", "--config", str(project.config), stdin=asked)
    answers = {answer["id"]: answer for answer in done.lines}
    assert (done.code, done.err) == (0, "")
    assert answers[1]["result"]["reason"] == "no bash"
    assert answers[2]["error"]["message"] == "Method not found: did you mean 'before_tool'?"
    assert answers[None]["error"]["code"] == -32700


def test_garbage_is_collected_rarely_in_the_block_and_as_before_after_it():
    before = gc.get_threshold()
    with garbage_collected_rarely():
        assert gc.get_threshold() == (OBJECTS_BEFORE_COLLECTION, *before[1:])
        assert gc.get_freeze_count()
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()


def test_its_answers_are_those_of_call(project):
    project.hook("guard", ECHO)
    payload = {"tool": "bash", "arguments": {"n": 2**70, "text": "\u2028"}}
    called = project(
        "call", "before_tool", "--json", "--config", str(project.config), "--params", json.dumps(payload)
    ).json
    asked = request(1, "before_tool", **payload, return_payload=True)
    served = project("serve", "--config", str(project.config), stdin=asked).json["result"]
    for outcome in (called, served):
        del outcome["trail"][0]["duration_ms"]
    assert served == called


def test_standard_output_carries_only_answers(project):
    project.table("noisy", python="noisy:hook", stages=["before_tool"])
    (project.path / "noisy.py").write_text(
        "import os\n"
        "def hook(call):\n"
        "    print('printed')\n"
        "    os.write(1, b'written\\n')\n"
        "    os.system('echo by a program; cat')\n"
    )
    done = project("serve", "--config", str(project.config), stdin=request(1, "before_tool", tool="x"))
    assert done.json["result"]["trail"][0]["error"] is None
    assert {"printed", "written", "by a program"} <= {*done.err.splitlines()}


def test_without_a_named_configuration_it_serves_those_that_are_found(project):
    project.hook("guard", ECHO)
    refused = project("serve", stdin="")
    assert (refused.code, refused.out) == (1, "")
    assert "is not trusted yet" in refused.err
    project("trust")
    assert project("serve", stdin=request(1, "before_tool", tool="x")).json["result"]["reason"] == "no x"


def test_a_setting_without_effect_is_one_warning(project):
    project.hook("guard", ECHO, timeout=1000)
    done = project("serve", "--config", str(project.config), stdin="")
    assert (done.code, done.out) == (0, "")
    assert done.err.count("raise defaults.chain_budget") == 1


@pytest.mark.parametrize("arguments", [["--config", "nowhere.toml"], ["--socket"], ["extra"]])
def test_wrong_usage(project, arguments):
    done = project("serve", *arguments, stdin="")
    assert (done.code, done.out) == (2, "")


def test_a_reload_applies_a_changed_configuration(project):
    project.hook("guard", ECHO)
    with project.start("serve", "--config", str(project.config), stdin=-1) as process:

        def ask(line):
            process.stdin.write(line)
            process.stdin.flush()
            return json.loads(read_line(process.stdout))

        assert ask(request(1, "before_tool", tool="x"))["result"]["action"] == "deny_tool"
        project.config.write_text("")
        error = ask(request(2, "reload"))["error"]
        assert (error["code"], error["data"]["problems"][0]["message"]) == (-32000, "is empty")
        project.hook("other", "def before_tool(params): return {}")
        assert ask(request(3, "reload"))["result"]["removed"] == ["guard"]
        assert ask(request(4, "before_tool", tool="x"))["result"]["action"] == "continue"
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_sighup_reloads_and_a_mistake_does_not_end_it(project):
    project.hook("guard", ECHO)
    with project.start("serve", "--config", str(project.config), stdin=-1) as process:

        def action():
            process.stdin.write(request(1, "before_tool", tool="x"))
            process.stdin.flush()
            return json.loads(read_line(process.stdout))["result"]["action"]

        assert action() == "deny_tool"
        project.config.write_text("")
        process.send_signal(signal.SIGHUP)
        assert "is empty" in read_line(process.stderr)
        project.config.write_text("[hooks]\n")
        process.send_signal(signal.SIGHUP)
        while action() == "deny_tool":
            assert process.poll() is None
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


# At a socket.


def connect(project):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(str(project.path / "s"))
    return connection, connection.makefile("rw")


def ask(lines, asked):
    lines.write(asked)
    lines.flush()
    return json.loads(lines.readline())


def test_at_a_socket_it_serves_many_clients_and_shuts_down_on_request(project):
    project.hook("guard", ECHO)
    with project.start("serve", "--config", str(project.config), "--socket", "s") as process:
        assert read_line(process.stderr) == "Serving at s\n"
        clients = [connect(project) for _ in range(3)]
        for place, (_, lines) in enumerate(clients):
            assert ask(lines, request(place, "before_tool", tool="x"))["id"] == place
        assert json.loads(project("control", "list", "--control", "s", "--json").out)["stages"].keys() == {
            "before_tool"
        }
        assert ask(clients[0][1], request(9, "shutdown"))["result"] is True
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == ""
        assert not (project.path / "s").exists()
        for connection, lines in clients:
            assert lines.readline() == ""
            lines.close()
            connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_when_open_requests_are_answered(project, number):
    alive, said = project.fifo("alive"), project.fifo("said")
    project.hook(
        "slow",
        """
        alive = open("alive", "w")
        def before_tool(params):
            print("asked", file=alive, flush=True)
            open("said").read()
            return {"action": "deny_tool", "reason": "at last"}
        """,
    )
    with (
        reading(alive) as hook,
        project.start("serve", "--config", str(project.config), "--socket", "s") as process,
    ):
        assert read_line(process.stderr) == "Serving at s\n"
        connection, lines = connect(project)
        idle, nothing = connect(project)
        lines.write(request(1, "before_tool", tool="x"))
        lines.flush()
        assert read_line(hook) == "asked\n"
        process.send_signal(number)
        assert nothing.readline() == ""  # who waits for nothing is let go at once
        assert not (project.path / "s").exists()
        with open(said, "w"):
            pass
        assert json.loads(lines.readline())["result"]["reason"] == "at last"
        assert process.wait(PATIENCE) == 0
        assert hook.read() == ""  # the hook is gone
        for one in (lines, connection, nothing, idle):
            one.close()


def test_a_second_signal_ends_it_at_once(project):
    project.hook("hangs", "def before_tool(params):\n    print('asked', file=sys.stderr, flush=True); return None")
    with project.start("serve", "--config", str(project.config), "--socket", "s", "-v") as process:
        connection, lines = connect_when_ready(project, process)
        idle, nothing = connect(project)
        lines.write(request(1, "before_tool", tool="x"))
        lines.flush()
        while "asked" not in read_line(process.stderr):
            pass
        process.send_signal(signal.SIGTERM)
        assert nothing.readline() == ""
        process.send_signal(signal.SIGTERM)
        assert json.loads(lines.readline())["error"]["code"] == -32004
        assert process.wait(PATIENCE) == 0
        for one in (lines, connection, nothing, idle):
            one.close()


def connect_when_ready(project, process):
    while not read_line(process.stderr).startswith("Serving"):
        pass
    return connect(project)


def test_the_socket_of_a_running_server_is_refused(project):
    project.hook("guard", ECHO)
    with project.start("serve", "--config", str(project.config), "--socket", "s") as process:
        read_line(process.stderr)
        done = project("serve", "--config", str(project.config), "--socket", "s")
        assert (done.code, done.out) == (1, "")
        assert "another program listens at" in done.err
        assert (project.path / "s").is_socket()


def test_metrics_are_served_beside_it_and_end_with_it(project):
    project.hook("guard", ECHO)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with project.start("serve", "--config", str(project.config), "--prometheus", str(port), stdin=-1) as process:
        process.stdin.write(request(1, "before_tool", tool="x"))
        process.stdin.flush()
        read_line(process.stdout)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
            assert 'picohook_executions_total{hook="guard",stage="before_tool"} 1' in response.read().decode()
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_a_wrong_address_for_metrics_is_an_error_and_leaves_nothing(project):
    project.hook("guard", ECHO)
    done = project("serve", "--config", str(project.config), "--socket", "s", "--prometheus", "here")
    assert (done.code, done.out) == (1, "")
    assert "[HOST:]PORT" in done.err
    assert not (project.path / "s").exists()


def test_closed_streams_are_an_error(project):
    project.hook("guard", ECHO)
    for closed in ("<&-", ">&-"):
        done = project.shell(f"picohook serve --config {project.config} {closed}", starts=True)
        assert done.code == 1
        assert re.search("Error: standard input, output or error is closed", done.err)


def test_answers_that_cannot_be_written_are_an_error(project):
    project.hook("guard", ECHO)
    with open("/dev/full", "w") as full, project.start("serve", *NAMED, starts=True, stdin=-1, stdout=full) as process:
        _, err = process.communicate(request(1, "before_tool", tool="x"), timeout=PATIENCE)
    assert (process.returncode, err) == (1, "Error: standard output cannot be written: No space left on device\n")


def test_a_client_that_goes_away_is_not_an_error(project):
    project.hook("guard", ECHO)
    with project.start("serve", *NAMED, stdin=-1) as process:
        process.stdin.write(request(1, "before_tool", tool="x"))
        process.stdin.flush()
        read_line(process.stdout)
        process.stdout.close()
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


# The schema.


def test_the_protocol_is_printed(project):
    document = project("schema", "protocol").json
    assert document["openrpc"].startswith("1.")
    assert "before_tool" in {method["name"] for method in document["methods"]}
    assert project("schema", "protocol", "--json").lines == [document]
