"""Nothing that comes from outside keeps the event loop for long in one piece, measured in time of the processor."""

from __future__ import annotations

import contextlib
import json
import socket
import threading

import anyio
import anyio.to_thread
import pytest
from mcp_ends import Between
from pieces import pieces

from picohook import HookSpec, Host, LLMRequest, Timeouts, ToolCall
from picohook.ext.sidecar.sidecar import Sidecar
from picohook.sessions.session import Session
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio
FAR = Timeouts(interceptor=60, hello=60, chain=120)
CALL = ToolCall(tool="bash", arguments={"command": "ls"})
MIB = 1 << 20


@pytest.fixture
def anyio_backend():
    return "asyncio"


def names(count, value=b"1", name=b"argument"):
    return b",".join(b'"%b%d":%b' % (name, number, value) for number in range(count))


ANSWERS = {
    "900,000 names": b"{" + names(900_000, name=b"k") + b"}",
    "names near the limit": b"{" + names(49_000) + b"}",
    "names of nothing": b"{" + names(49_000, b"null") + b"}",
    "names in other case": b"{" + names(19_000, b'{"a":false}', b"ACTION") + b"}",
    "an action of 15 MB": b'{"action":"' + b"a" * 15 * MIB + b'"}',
    "a name of 15 MB": b'{"' + b"a" * 15 * MIB + b'":1}',
    "control characters": b'{"' + rb"\u0001" * 1_900_000 + b'":1}',
    "empty lists": b"[" + b"[]," * 5_000_000 + b"[]]",
    "a name again and again": b"{" + b'"a":1,' * 2_000_000 + b'"a":1}',
    "long integers": b'{"action":"modify","call":{"arguments":{"x":[' + b",".join([b"9" * 4300] * 3900) + b"]}}}",
    "fewer long integers": b'{"action":"modify","call":{"arguments":{"x":[' + b",".join([b"9" * 4300] * 560) + b"]}}}",
    "nested lists": b'{"action":"modify","call":{"arguments":{"x":['
    + b",".join([b"[" * 90 + b"]" * 90] * 500)
    + b"]}}}",
    "unknown fields of a call": b'{"action":"modify","call":{' + names(49_000) + b"}}",
    "unknown fields of a result": b'{"action":"respond","result":{' + names(49_000) + b"}}",
    "a reason of 10 MB": b'{"action":"deny_tool","reason":"' + rb"\u0001" * 1_700_000 + b'"}',
    "a text of 10 MB": b'{"action":"modify","call":{"arguments":{"x":"' + b"a, " * 3_500_000 + b'"}}}',
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_E2_no_answer_of_a_process_keeps_the_loop(name, tmp_path):
    (tmp_path / "answer").write_bytes(b'{"jsonrpc":"2.0","id":2,"result":%b}\n' % ANSWERS[name])
    hello = """read a; echo '{"jsonrpc":"2.0","id":1,"result":{"ok":true}}'; read b; cat answer; read c"""
    hook = HookSpec(name="h", command=("sh", "-c", hello), dir=str(tmp_path), stages=("before_tool",))
    async with Host([hook], timeouts=FAR) as host:
        with pieces() as measured:
            outcome = await host.before_tool(CALL)
    measured.require_short()
    assert outcome.trail[0].failure in {None, "reply"}


@pytest.mark.parametrize(
    "name", ["900,000 names", "names near the limit", "empty lists", "nested lists", "a text of 10 MB"]
)
async def test_E2_no_answer_of_a_command_keeps_the_loop(name, tmp_path):
    (tmp_path / "answer").write_bytes(ANSWERS[name])
    hook = HookSpec(name="h", run="cat answer", dir=str(tmp_path), stages=("before_tool",))
    async with Host([hook], timeouts=FAR) as host:
        with pieces() as measured:
            await host.before_tool(CALL)
    measured.require_short()


async def test_E2_wrong_values_of_a_list_are_not_all_explained(tmp_path):
    (tmp_path / "answer").write_bytes(b'{"action":"modify","request":{"messages":[' + b"1," * 90_000 + b"1]}}")
    hook = HookSpec(name="h", run="cat answer", dir=str(tmp_path), stages=("before_llm",))
    async with Host([hook], timeouts=FAR) as host:
        with pieces() as measured:
            outcome = await host.before_llm(LLMRequest())
    measured.require_short()
    assert outcome.trail[0].error == "`messages.0` must be an object, not a number"


def request(method, params, number=1):
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}\n' % (number, method, params)


def many(count, method, params=b"{}"):
    return b"".join(request(method + b"%d" % number, params, number) for number in range(count))


REQUESTS = {
    "a method of 15 MB": request(b"before_too" + b"l" * 15 * MIB, b"{}"),
    "500,000 unknown params": request(b"before_tool", b"{" + names(500_000) + b"}"),
    "49,000 unknown params": request(b"session.start", b"{" + names(49_000) + b"}"),
    "misspelt methods": many(2000, b"before_toool"),
    "a batch of misspelt methods": b"[" + b",".join(many(1000, b"before_toool").splitlines()) + b"]\n",
    "long integers": request(
        b"before_tool", b'{"tool":"x","arguments":{"x":[' + b",".join([b"9" * 4300] * 560) + b"]}}"
    ),
    "wrong paths": request(b"before_tool", b'{"tool":"x","arguments":{},"affected_paths":[' + b"1," * 90_000 + b"1]}"),
    "many names to come after": request(
        b"session.mount", b'{"session":"s","hook":"h","stages":["before_tool"],"after":[' + b'"x",' * 90_000 + b'"y"]}'
    ),
    "unknown params in each of many requests": b"".join(
        request(b"session.mount", b"{" + names(60, name=b"stagesession") + b"}", number) for number in range(200)
    ),
    "lines without JSON": b"x\n" * 100_000,
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_E2_no_client_keeps_the_loop(name, tmp_path):
    answers = []

    def ask():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            sender = threading.Thread(target=send, args=(client,))
            sender.start()
            with contextlib.suppress(ConnectionResetError):  # it was dropped
                while data := client.recv(MIB):
                    answers.append(data)
            sender.join()

    def send(client):
        with contextlib.suppress(OSError):
            client.sendall(REQUESTS[name])
            client.shutdown(1)

    async with Host([]) as host:
        sidecar = Sidecar(host)
        server = await sidecar.at_socket(tmp_path / "s")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sidecar.serve, server)
            with pieces() as measured:
                await anyio.to_thread.run_sync(ask)
            tasks.cancel_scope.cancel()
    measured.require_short()
    assert json.loads(b"".join(answers).splitlines()[0])


LINES = {
    "49,000 names in an envelope": b'{"jsonrpc":"2.0","id":1,"method":"ping",' + names(49_000) + b"}\n",
    "a carriage return and many values": b'{"jsonrpc":"2.0",\r"id":1,"method":"x","params":['
    + b"[]," * 3_000_000
    + b"1]}\n",
    "a method of 10 MB": request(b"tools/call" + b" " * 10_000_000, b"{}"),
    "a tool of 10 MB": request(b"tools/call", b'{"name":"' + b"a" * 10_000_000 + b'"}'),
    "halves of surrogate pairs": request(
        b"tools/call", b'{"name":"x","arguments":{"x":"' + rb"\ud800" * 170_000 + b'"}}'
    )
    * 5,
    "a line of 40 MB": b"[" + b"1" * 40_000_000 + b"\n",
    "lines without JSON": b"{\n" * 50_000,
}


@pytest.mark.parametrize("name", LINES)
async def test_E3_no_line_of_an_mcp_client_keeps_the_loop(name):
    hook = FakeHook("g", script={"before_tool": {"action": "deny_tool"}})
    async with Host([hook]) as host, Session(host, "s") as session, anyio.create_task_group() as tasks:
        ends = Between(session)
        tasks.start_soon(ends.run)

        async def drain():
            while await ends.client.line():
                pass

        tasks.start_soon(drain)
        with pieces() as measured:
            await ends.client.send(LINES[name], request(b"ping", b"{}", 77))
            assert b"77" in await ends.server.line()
        tasks.cancel_scope.cancel()
    measured.require_short()
