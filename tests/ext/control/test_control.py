"""The control socket: its methods, and that no client of it affects the host or other clients."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest
from scripted import SERVE, command, descriptors, scripted

from picohook import Deny, FunctionHook, Host, PicohookError, RestartPolicy, ToolCall
from picohook.ext.control.control import LIMITS, MAX_CLIENTS

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"secret": "payload"})


def configuration(tmp_path, *names):
    path = tmp_path / "picohook.toml"
    path.write_text(
        "".join(f"[hooks.{name}]\ncommand = {json.dumps(command(SERVE))}\nstages = ['before_tool']\n" for name in names)
    )
    return path


# What can be asked.


async def test_status_is_that_of_the_host(path, connect):
    async with Host([scripted("one"), FunctionHook("two", {"approve_tool": lambda _: True})], control=path) as host:
        await host.before_tool(CALL)
        assert await (await connect()).result("status") == json.loads(json.dumps(host.status().wire()))


async def test_list_has_the_hooks_of_each_stage_in_the_order_in_which_they_are_asked(path, connect):
    hooks = [
        scripted("late", priority=9, timeout=3),
        scripted("early", priority=1, stages=("before_tool", "approve_tool"), approval_timeout=7),
        FunctionHook("first", {"before_tool": lambda _: None}),
        scripted("watcher", stages=(), observe=("error", "turn_end")),
    ]
    async with Host(hooks, control=path):
        assert await (await connect()).result("list") == {
            "stages": {
                "before_tool": [
                    {"hook": "first", "layer": "builtin", "timeout": 5.0},
                    {"hook": "early", "layer": "user", "timeout": 5.0},
                    {"hook": "late", "layer": "user", "timeout": 3.0},
                ],
                "approve_tool": [{"hook": "early", "layer": "user", "timeout": 7.0}],
            },
            "events": [{"hook": "watcher", "layer": "user", "observe": ["error", "turn_end"]}],
        }


async def test_metrics_are_in_prometheus_format(path, connect):
    async with Host([scripted("one")], control=path) as host:
        await host.before_tool(CALL)
        text = await (await connect()).result("metrics")
        assert 'picohook_up{hook="one"} 1.0\n' in text
        assert 'picohook_executions_total{hook="one",stage="before_tool"} 1.0\n' in text


async def test_reload_applies_the_configuration_and_returns_the_changes(path, connect, tmp_path):
    async with Host.from_config(configuration(tmp_path, "one", "two"), control=path) as host:
        configuration(tmp_path, "two", "three")
        assert await (await connect()).result("reload") == {
            "added": ["three"],
            "removed": ["one"],
            "changed": [],
            "kept": ["two"],
            "failed": {},
        }
        assert [hook.name for hook in host.hooks] == ["two", "three"]


async def test_a_reload_that_is_refused_says_what_is_wrong_with_the_configuration(path, connect, tmp_path):
    config = configuration(tmp_path, "one")
    async with Host.from_config(config, control=path):
        config.write_text("[hooks.one]\ncomand = ['x']\nstages = ['before_tool']\n")
        error = (await (await connect()).ask("reload"))["error"]
        assert error["code"] == -32000
        (problem,) = error["data"]["problems"]
        assert problem["file"] == str(config)
        assert "comand" in problem["where"]
        assert 'did you mean "command"' in error["message"]


async def test_a_host_without_a_configuration_refuses_to_reload(path, connect):
    async with Host(control=path):
        error = (await (await connect()).ask("reload"))["error"]
        assert error == {
            "code": -32000,
            "message": "only a running host that was made by `Host.from_config` can be reloaded",
        }


async def test_a_failed_hook_is_reset_through_the_socket(path, connect, tmp_path, journal):
    late = tmp_path / "late"
    spec = scripted("late").model_copy(update={"command": (str(late),)})
    async with Host([spec], control=path, logger=journal) as host:
        client = await connect()
        assert [hook["state"] for hook in (await client.result("status"))["hooks"]] == ["failed"]
        late.write_text(f"#!/bin/sh\nexec {shlex.join(command(SERVE))}\n")
        late.chmod(0o755)
        assert await client.result("reset", {"hook": "late"}) is True
        await journal.seen("ready", hook="late")
        assert [hook["state"] for hook in (await client.result("status"))["hooks"]] == ["ready"]
        assert (await host.before_tool(CALL)).trail[0].error is None


async def test_a_hook_is_restarted_through_the_socket(path, connect, board):
    async with Host([scripted("one", board.call("one"), SERVE)], control=path) as host:
        old = await board.line("one")
        assert await (await connect()).result("restart", ["one"]) is True
        await old.dead()
        new = await board.line("one")
        await host.before_tool(CALL)
        assert [hook.pid for hook in host.status().hooks] == [new.pid]


@pytest.mark.parametrize("method", ["reset", "restart"])
async def test_an_unknown_hook_is_refused_with_the_nearest_name(path, connect, method):
    async with Host([scripted("guard"), FunctionHook("function")], control=path):
        client = await connect()
        error = (await client.ask(method, {"hook": "gaurd"}))["error"]
        assert error == {"code": -32000, "message": "no hook named 'gaurd' is mounted: did you mean 'guard'?"}
        assert "is not a process" in (await client.ask(method, {"hook": "function"}))["error"]["message"]


# Watching.


async def test_a_client_that_watches_gets_every_state_and_outcome(path, connect, board):
    async with Host(control=path) as host:
        client = await connect()
        assert await client.result("watch") is True
        await host.mount(scripted("one", board.call("one"), SERVE))
        line = await board.line("one")
        assert await client.told("state") == {"hook": "one", "state": "starting", "pid": None}
        assert await client.told("state") == {"hook": "one", "state": "ready", "pid": line.pid}
        os.kill(line.pid, signal.SIGKILL)
        assert (await client.told("state"))["state"] == "restarting"
        assert (await client.told("state"))["state"] == "starting"
        assert (await client.told("state"))["state"] == "ready"
        await host.before_tool(CALL)
        outcome = await client.told("outcome")
        assert outcome["trail"][0].pop("duration_ms") >= 0
        assert outcome == {
            "stage": "before_tool",
            "action": "continue",
            "hook": "",
            "reason": "",
            "trail": [{"hook": "one", "action": "continue", "error": None}],
        }
        await host.mount(FunctionHook("no", {"approve_tool": lambda _: Deny(reason="not today")}))
        await host.approve_tool(CALL)
        outcome = await client.told("outcome")
        assert (outcome["approved"], outcome["hook"], outcome["reason"]) == (False, "no", "not today")
        await host.unmount("one")
        assert [(await client.told("state"))["state"] for _ in range(2)] == ["stopping", "stopped"]


async def test_a_client_that_watches_gets_reloads_and_can_still_ask(path, connect, tmp_path):
    async with Host.from_config(configuration(tmp_path, "one"), control=path) as host:
        client = await connect()
        await client.result("watch")
        assert await client.result("watch") is True
        configuration(tmp_path, "one", "two")
        await host.reload()
        assert (await client.told("reloaded"))["added"] == ["two"]
        assert [hook["name"] for hook in (await client.result("status"))["hooks"]] == ["one", "two"]
        await host.before_tool(CALL)
        await client.told("outcome")
        await client.send('{"jsonrpc": "2.0", "id": 1, "method": "nothing"}')
        assert (await client.message())["error"]["code"] == -32601  # told once, though it asked to be twice


async def test_no_payload_goes_to_a_client_that_watches(path, connect):
    answer = {"action": "modify", "call": {"arguments": {"a": "secret"}}, "additional_context": "secret"}
    hook = FunctionHook("edits", {"before_tool": lambda _: answer})
    async with Host([hook], control=path) as host:
        client = await connect()
        await client.result("watch")
        await host.before_tool(CALL)
        assert "secret" not in json.dumps(await client.told("outcome"))


CONTROLS = "\x1b[31m \x00\x07\x08\r\n\x7f \x9b \u202e \u2028"


async def test_no_byte_of_a_hook_that_acts_on_a_terminal_comes_through(path, connect):
    hook = FunctionHook("evil", {"before_tool": lambda _: Deny(reason=CONTROLS)})
    named = FunctionHook(f"evil {CONTROLS}")
    async with Host([hook, named], control=path) as host:
        client = await connect()
        await client.result("watch")
        await host.before_tool(CALL)
        lines = [await client.line()]
        for method in ("status", "list", "metrics"):
            await client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}))
            lines.append(await client.line())
        for line in lines:
            assert all(32 <= byte < 127 for byte in line)


async def test_a_client_that_closes_its_connection_no_longer_watches(path, connect):
    async with Host(control=path) as host:
        client = await connect()
        await client.result("watch")
        assert len(host.on_change) == 1
        await client.stream.aclose()
        while host.on_change:
            await anyio.lowlevel.checkpoint()
        await host.before_tool(CALL)


async def test_a_client_that_does_not_read_is_dropped_and_others_are_not(path, connect, journal):
    async with Host(
        [FunctionHook("f", {"before_tool": lambda _: Deny(reason="x" * 1000)})], control=path, logger=journal
    ) as host:
        slow, quick = await connect(), await connect()
        await slow.result("watch")
        await quick.result("watch")
        count = 0
        while not journal.all("a client of the control socket was dropped: it reads too slowly"):
            await host.before_tool(CALL)
            await quick.told("outcome")
            count += 1
        assert count > 100
        while len(host.on_change) != 1:
            await anyio.lowlevel.checkpoint()
        told = 0
        while await slow.line() is not None:
            told += 1
        assert told < count
        await host.before_tool(CALL)
        await quick.told("outcome")


async def test_a_watching_function_that_raises_does_no_harm(journal):
    told = []

    def broken(_):
        raise ZeroDivisionError

    async with Host([scripted("one")], logger=journal) as host:
        host.on_change |= {broken, told.append}
        outcome = await host.before_tool(CALL)
        assert told == [outcome]
        assert journal.all("a function of on_change failed")


# Asking wrongly.

WRONG = {
    "no JSON": ("{", -32700),
    "no UTF-8": (b"\xff\n", -32700),
    "NaN": ('{"jsonrpc": "2.0", "id": NaN, "method": "status"}', -32700),
    "a key twice": ('{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "status"}', -32700),
    "too deep": ("[" * 5000 + "]" * 5000, -32700),
    "a number": ("1", -32600),
    "no request": ("{}", -32600),
    "an empty batch": ("[]", -32600),
    "no version": ('{"id": 1, "method": "status"}', -32600),
    "another version": ('{"jsonrpc": "1.0", "id": 1, "method": "status"}', -32600),
    "no method": ('{"jsonrpc": "2.0", "id": 1}', -32600),
    "a method of another type": ('{"jsonrpc": "2.0", "id": 1, "method": 1}', -32600),
    "params of another type": ('{"jsonrpc": "2.0", "id": 1, "method": "status", "params": "x"}', -32600),
    "an id of another type": ('{"jsonrpc": "2.0", "id": {}, "method": "status"}', -32600),
    "an unknown method": ('{"jsonrpc": "2.0", "id": 1, "method": "run"}', -32601),
    "a private method": ('{"jsonrpc": "2.0", "id": 1, "method": "__init__"}', -32601),
    "params too many": ('{"jsonrpc": "2.0", "id": 1, "method": "status", "params": [1]}', -32602),
    "params too few": ('{"jsonrpc": "2.0", "id": 1, "method": "reset"}', -32602),
    "params unknown": ('{"jsonrpc": "2.0", "id": 1, "method": "reset", "params": {"name": "x"}}', -32602),
    "a param that is the method's own": (
        '{"jsonrpc": "2.0", "id": 1, "method": "status", "params": {"self": 1}}',
        -32602,
    ),
    "params of a wrong type": ('{"jsonrpc": "2.0", "id": 1, "method": "reset", "params": {"hook": ["x"]}}', -32602),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_request_gets_its_error_and_the_connection_stays_open(path, connect, case):
    line, code = WRONG[case]
    async with Host(control=path):
        client = await connect()
        answer = await client.exchange(line)
        assert answer["error"].keys() - {"data"} == {"code", "message"}
        assert answer["error"]["code"] == code
        assert answer["id"] == (1 if code in {-32601, -32602} else None)
        assert (await client.result("status"))["hooks"] == []


async def test_notifications_are_handled_and_never_answered(path, connect, board):
    async with Host([scripted("one", board.call("one"), SERVE)], control=path):
        old = await board.line("one")
        client = await connect()
        await client.send('{"jsonrpc": "2.0", "method": "restart", "params": {"hook": "one"}}')
        await client.send('{"jsonrpc": "2.0", "method": "nothing"}')
        await client.send('[{"jsonrpc": "2.0", "method": "nothing"}]')
        await client.send("")
        await client.result("status")
        await old.dead()
        await board.line("one")


async def test_a_batch_is_answered_in_one_line_with_the_exact_ids(path, connect):
    async with Host(control=path):
        batch = [
            {"jsonrpc": "2.0", "id": "a", "method": "list"},
            {"jsonrpc": "2.0", "method": "list"},
            {"jsonrpc": "2.0", "id": None, "method": "nothing"},
            1,
        ]
        answers = await (await connect()).exchange(json.dumps(batch))
        assert [answer["id"] for answer in answers] == ["a", None, None]
        assert [answer.get("error", {}).get("code") for answer in answers] == [None, -32601, -32600]


async def test_a_failure_in_the_hosts_own_code_is_logged_and_the_client_gets_no_cause(path, connect, journal):
    class Broken(FunctionHook):
        def status(self):
            raise ZeroDivisionError("internals")

    async with Host([Broken("broken")], control=path, logger=journal):
        client = await connect()
        assert (await client.ask("status"))["error"] == {"code": -32603, "message": "Internal error"}
        assert "internals" in journal.all("the control socket failed", level="error")[0]["why"]


async def test_a_line_that_is_too_long_ends_only_its_own_connection(path, connect):
    request = '{"jsonrpc": "2.0", "id": 1, "method": "list"'
    async with Host(control=path):
        other = await connect()
        exact = await connect()
        assert "result" in await exact.exchange(request + " " * (LIMITS.line - len(request) - 1) + "}")
        long = await connect()
        await long.send(b"x" * (LIMITS.line + 1))
        answer = await long.message()
        assert (answer["error"]["code"], answer["id"]) == (-32600, None)
        assert await long.line() is None
        assert (await other.result("list")) == {"stages": {}, "events": []}


async def test_an_endless_line_ends_only_its_own_connection(path, connect):
    async with Host(control=path):
        long = await connect()
        with contextlib.suppress(anyio.BrokenResourceError):
            while True:
                await long.send(b"x" * 65536)
        assert (await (await connect()).result("status"))["hooks"] == []


async def test_a_client_that_vanishes_without_reading_does_not_affect_others(path, connect):
    async with Host(control=path):
        for _ in range(3 * MAX_CLIENTS):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "metrics"}\n' * 10 + b'{"half')
        # Those that are still being served may fill the house for a moment.
        while True:
            client = await connect()
            await client.send('{"jsonrpc": "2.0", "id": 1, "method": "status"}')
            if await client.line() is not None:
                break


async def test_clients_past_the_limit_are_turned_away_until_one_goes(path, connect):
    async with Host(control=path):
        clients = [await connect() for _ in range(MAX_CLIENTS)]
        for client in clients:
            await client.result("list")
        assert await (await connect()).line() is None
        assert await clients[0].result("list")


async def test_clients_leave_nothing_behind(path, connect):
    async with Host(control=path) as host:
        await (await connect()).result("status")
        before = descriptors()
        for _ in range(5):
            client = await connect()
            await client.result("watch")
            await client.stream.aclose()
        while host.on_change or descriptors() > before:
            await anyio.lowlevel.checkpoint()


# The socket itself.


async def test_only_its_owner_may_open_it_from_its_first_moment(path, tmp_path):
    modes = []
    old = os.umask(0)
    try:
        async with Host(control=path):
            modes.append(stat.S_IMODE(path.lstat().st_mode))
    finally:
        os.umask(old)
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


async def test_it_is_never_seen_with_another_mode(path, tmp_path):
    """The kernel tells of every file that comes to be in the directory."""
    script = """
import os, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
before = set()
print("go", flush=True)
modes = set()
while True:
    for name in os.listdir(directory):
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            continue
        modes.add((name.startswith("."), oct(status.st_mode)))
        if name == "control":
            print(sorted(modes), flush=True)
            sys.exit()
"""
    old = os.umask(0)
    try:
        with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as spy:
            assert spy.stdout.readline() == "go\n"
            async with Host(control=path):
                seen = set(eval(await anyio.to_thread.run_sync(spy.stdout.readline)))
    finally:
        os.umask(old)
    assert seen <= {(True, "0o40700"), (False, "0o140600")}


async def test_the_socket_exists_from_the_start_of_the_hooks_to_the_end_of_the_host(path, connect, board):
    over = anyio.Event()
    host = Host([scripted("slow", board.call("slow"), ["read"], ["wait"], ["reply", {}], SERVE)], control=path)

    async def run():
        async with host:
            await over.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        line = await board.line("slow")
        client = await connect()
        assert [hook["state"] for hook in (await client.result("status"))["hooks"]] == ["starting"]
        line.go_on()
        while (await client.result("status"))["hooks"][0]["state"] != "ready":
            pass
        await host.aclose()
        assert not path.exists()
        assert await client.line() is None
        over.set()


async def test_the_socket_of_a_dead_host_is_replaced(path, connect, tmp_path):
    script = f"""
import os, signal, anyio, picohook
async def main():
    async with picohook.Host(control={str(path)!r}):
        os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main)
"""
    assert (await anyio.run_process([sys.executable, "-c", script], check=False)).returncode == -signal.SIGKILL
    assert path.is_socket()
    async with Host(control=path):
        assert (await (await connect()).result("status"))["hooks"] == []
    assert not path.exists()


async def test_the_socket_of_a_living_host_is_not_replaced(path, connect):
    async with Host(control=path):
        with pytest.raises(PicohookError, match="another program listens at"):
            async with Host([scripted("never")], control=path):
                pytest.fail("it was entered")
        assert (await (await connect()).result("status"))["hooks"] == []


async def test_only_one_of_several_hosts_that_start_at_once_gets_the_path(path, connect):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    over = anyio.Event()
    inside, refused = [], []

    async def run():
        try:
            async with Host(control=path):
                inside.append(1)
                await over.wait()
        except PicohookError as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(run)
        while len(inside) + len(refused) < 5:
            await anyio.lowlevel.checkpoint()
        assert (await (await connect()).result("status"))["hooks"] == []
        over.set()
    assert len(inside) == 1


async def test_one_host_at_a_time_checks_whether_the_path_is_free(path, monkeypatch):
    directory = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    monkeypatch.setattr("picohook.wire.written_files.LOCK_WAIT", 0.0)
    with pytest.raises(PicohookError, match="cannot be made: another program keeps its directory locked"):
        async with Host(control=path):
            pytest.fail("it was entered")
    assert not path.exists()
    os.close(directory)
    async with Host(control=path):
        assert path.exists()


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
async def test_a_file_that_is_not_a_socket_is_left_alone(path, kind):
    {
        "file": lambda: path.write_text("precious"),
        "directory": path.mkdir,
        "link": lambda: path.symlink_to("nowhere"),
    }[kind]()
    with pytest.raises(PicohookError, match="is not a socket"):
        async with Host(control=path):
            pytest.fail("it was entered")
    assert os.path.lexists(path)


async def test_a_socket_that_cannot_be_made_is_refused_with_the_cause(tmp_path):
    for path, why in (
        (tmp_path / "nowhere" / "control", "No such file or directory"),
        (tmp_path / ("x" * 200), "more than 103 bytes"),
    ):
        with pytest.raises(PicohookError, match=why):
            async with Host([scripted("never")], control=path):
                pytest.fail("it was entered")


async def test_a_socket_that_another_program_put_at_the_path_is_not_removed(path):
    async with Host(control=path):
        path.unlink()
        path.write_text("somebody else's")
    assert path.read_text() == "somebody else's"


async def test_closing_does_not_wait_for_clients(path, connect):
    async with Host([scripted("one", restart=RestartPolicy(max_starts=1))], control=path):
        watching, idle = await connect(), await connect()
        await watching.result("watch")
        await idle.result("list")
    assert await idle.line() is None
    while await watching.line() is not None:
        pass


async def test_a_host_without_control_makes_no_socket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with Host([scripted("one")]):
        assert list(tmp_path.iterdir()) == []
