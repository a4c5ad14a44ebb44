"""The sidecar's life: where it listens, one client on two pipes, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat

import anyio
import anyio.lowlevel
import pytest
from loops import both
from scripted import PATIENCE, held, settled

from picohook import FunctionHook, Host, Modify, PicohookError
from picohook.ext.sidecar.sidecar import MAX_CLIENTS, Sidecar
from picohook.rpc.connection import ConnectionLimits

pytestmark = pytest.mark.anyio
anyio_backend = both


def request(identity, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}).encode() + b"\n"


class Gate(FunctionHook):
    """Lets calls go on once it is open."""

    def __init__(self):
        super().__init__("gate", {"before_tool": self.wait})
        self.asked = 0
        self.opened = anyio.Event()

    async def wait(self, _):
        self.asked += 1
        await self.opened.wait()

    async def has(self, count):
        with anyio.fail_after(PATIENCE):
            while self.asked < count:
                await anyio.lowlevel.checkpoint()


# The socket.


async def test_only_its_owner_may_open_the_socket_and_it_is_removed_with_the_server(serving, path, connect):
    async with serving(Host()):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        await (await connect()).result("status")
    assert not path.exists()


async def test_the_socket_of_a_dead_server_is_replaced_and_that_of_a_running_one_is_not(serving, path, connect):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(Host()), Host() as other:
        with pytest.raises(PicohookError, match=r"another program listens at .*sidecar"):
            await Sidecar(other).at_socket(path)
        assert (await (await connect()).result("status"))["hooks"] == []


async def test_a_file_that_is_not_a_socket_is_left_alone(path):
    path.write_text("precious")
    async with Host() as host:
        with pytest.raises(PicohookError, match="is not a socket"):
            await Sidecar(host).at_socket(path)
    assert path.read_text() == "precious"


async def test_clients_past_the_limit_are_turned_away_until_one_goes(serving, connect, monkeypatch):
    monkeypatch.setattr("picohook.ext.sidecar.sidecar.MAX_CLIENTS", 3)
    assert MAX_CLIENTS > 100
    async with serving(Host()):
        clients = [await connect() for _ in range(3)]
        for client in clients:
            await client.result("status")
        assert await (await connect()).line() is None
        await clients[0].stream.aclose()
        while True:
            client = await connect()
            with contextlib.suppress(anyio.BrokenResourceError):
                await client.send(request(1, "status"))
                if await client.line():
                    break


async def test_clients_leave_nothing_behind(serving, connect):
    async with serving(Host([FunctionHook("f", {"before_tool": lambda _: None})])) as sidecar:
        await (await connect()).result("before_tool", {"tool": "x"})
        while len(sidecar.server.connections) > 1:
            await anyio.lowlevel.checkpoint()
        before = held()
        for _ in range(5):
            client = await connect()
            await client.result("before_tool", {"tool": "x"})
            await client.result("session.start")
            await client.result("watch")
            await client.stream.aclose()
        with anyio.fail_after(PATIENCE):
            while sidecar._host.on_change:
                await anyio.lowlevel.checkpoint()
        await settled(before)
        assert sidecar._taken == set()


# The end.


async def test_open_requests_are_answered_before_the_end(path, connect):
    gate = Gate()
    async with Host([gate]) as host, anyio.create_task_group() as tasks:
        sidecar = Sidecar(host)
        tasks.start_soon(sidecar.serve, await sidecar.at_socket(path))
        asks, ends, idle = await connect(), await connect(), await connect()
        for number in range(10):
            await asks.send(request(number, "before_tool", tool="x"))
        await gate.has(10)
        await idle.result("status")
        await ends.send(request("end", "shutdown"))
        assert (await ends.message())["result"] is True
        assert await ends.line() is None
        assert await idle.line() is None
        with pytest.raises(OSError, match=r".*"):
            await anyio.connect_unix(path)
        gate.opened.set()
        assert {(await asks.message())["id"] for _ in range(10)} == {*range(10)}
        assert await asks.line() is None
    assert not path.exists()


@pytest.mark.parametrize("how", ["the grace is over", "told twice"])
async def test_calls_that_outlast_the_grace_are_answered_with_an_error(path, connect, how):
    gate = Gate()
    async with Host([gate]) as host, anyio.create_task_group() as tasks:
        sidecar = Sidecar(host, grace=0.0 if how == "the grace is over" else 1000.0)
        tasks.start_soon(sidecar.serve, await sidecar.at_socket(path))
        client = await connect()
        await client.send(request(1, "before_tool", tool="x"))
        batch = [request(2, "before_tool", tool="x"), request(3, "list")]
        await client.send(b"[%b]\n" % b",".join(map(bytes.strip, batch)))
        await gate.has(2)
        sidecar.end()
        sidecar.end()
        answers = [await client.message(), await client.message()]
        alone = next(answer for answer in answers if isinstance(answer, dict))
        batch = next(answer for answer in answers if isinstance(answer, list))
        assert (alone["id"], alone["error"]["code"]) == (1, -32004)
        assert [answer.get("error", {}).get("code") for answer in batch] == [-32004, None]
        assert await client.line() is None


async def test_queued_calls_are_answered_with_an_error_at_the_end_too(path, connect):
    gate = Gate()
    async with Host([gate]) as host, anyio.create_task_group() as tasks:
        sidecar = Sidecar(host, grace=0.0, limits=ConnectionLimits(line=1000, in_flight=2))
        tasks.start_soon(sidecar.serve, await sidecar.at_socket(path))
        client = await connect()
        await client.send(b"".join(request(number, "before_tool", tool="x") for number in range(5)))
        await gate.has(2)
        sidecar.end()
        assert {((answer := await client.message())["id"], answer["error"]["code"]) for _ in range(5)} == {
            (number, -32004) for number in range(5)
        }


async def test_calls_that_wait_for_a_slow_reader_are_answered_before_the_end(path):
    hook = FunctionHook("f", {"before_tool": lambda _: Modify({"arguments": {"text": "x" * 500_000}})})
    limits = ConnectionLimits(line=10_000, in_flight=1, unread=100_000, drain=PATIENCE)
    async with Host([hook]) as host, anyio.create_task_group() as tasks:
        sidecar = Sidecar(host, grace=PATIENCE, limits=limits)
        server = await sidecar.at_socket(path)
        tasks.start_soon(sidecar.serve, server)
        stream = await anyio.connect_unix(path)
        await stream.send(b"".join(request(number, "before_tool", tool="x") for number in range(5)))
        while not any(connection.held for connection in server.connections):
            await anyio.lowlevel.checkpoint()
        sidecar.end()
        received = b""
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                received += await stream.receive()
        answers = [json.loads(line) for line in received.splitlines()]
        assert [answer["id"] for answer in answers] == [*range(5)]
        assert {answer["result"]["payload"]["arguments"]["text"] for answer in answers} == {"x" * 500_000}
        await stream.aclose()


async def test_a_client_that_does_not_read_does_not_delay_the_end(path, connect):
    async with Host() as host, anyio.create_task_group() as tasks:
        sidecar = Sidecar(host, grace=0.0, limits=ConnectionLimits(line=1 << 20, drain=0.01))
        tasks.start_soon(sidecar.serve, await sidecar.at_socket(path))
        client = await connect()
        for number in range(100):
            await client.send(request(number, "before_tool", tool="x" * 10_000))
        sidecar.end()


async def test_a_host_that_is_cancelled_ends_its_sidecar(path, connect, serving):
    with anyio.CancelScope() as scope:
        async with serving(Host([Gate()])):
            client = await connect()
            await client.send(request(1, "before_tool", tool="x"))
            await client.result("session.start")
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert not path.exists()


# Standard streams.


class Streams:
    """The other ends of a sidecar's streams."""

    def __init__(self):
        self._theirs_in, self.input = os.pipe()
        self.output, self._theirs_out = os.pipe()

    @contextlib.asynccontextmanager
    async def serving(self, host, **settings):
        async with host, anyio.create_task_group() as tasks:
            sidecar = Sidecar(host, **settings)
            tasks.start_soon(sidecar.serve, await sidecar.at_streams(self._theirs_in, self._theirs_out))
            yield sidecar

    def write(self, data):
        os.write(self.input, data)

    async def line(self):
        """The next line; empty at the end."""
        data = b""
        with anyio.fail_after(PATIENCE):
            while not data.endswith(b"\n"):
                await anyio.wait_readable(self.output)
                if not (more := os.read(self.output, 1)):
                    break
                data += more
        return data

    async def message(self):
        return json.loads(await self.line())

    def close(self):
        for fd in (self.input, self.output):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def streams():
    streams = Streams()
    yield streams
    streams.close()


async def test_the_end_of_its_input_ends_the_server_when_everything_is_answered(streams):
    gate = Gate()
    async with streams.serving(Host([gate])):
        streams.write(request(1, "before_tool", tool="x") + request(2, "list") + b'{"half')
        assert (await streams.message())["id"] == 2
        os.close(streams.input)
        gate.opened.set()
        assert (await streams.message())["id"] == 1
        assert await streams.line() == b""


async def test_calls_of_a_program_that_has_ended_are_cancelled(streams):
    """It closes both its ends, as the system does for one that is killed; in whichever order."""
    gate = Gate()
    async with streams.serving(Host([gate])):
        streams.write(request(1, "before_tool", tool="x") * 3)
        await gate.has(3)
        os.close(streams.input)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        os.close(streams.output)


@pytest.mark.parametrize("kind", ["pair of sockets", "socket"])
async def test_standard_streams_can_be_sockets(kind):
    """Some runtimes make them in place of pipes."""
    gate = Gate()
    ours, theirs = socket.socketpair()
    ours_out, theirs_out = socket.socketpair() if kind == "pair of sockets" else (ours.dup(), theirs.dup())
    with ours, ours_out:
        async with Host([gate]) as host, anyio.create_task_group() as tasks:
            sidecar = Sidecar(host)
            tasks.start_soon(sidecar.serve, await sidecar.at_streams(theirs.detach(), theirs_out.detach()))
            ours.sendall(request(1, "before_tool", tool="x"))
            await gate.has(1)
            ours.shutdown(socket.SHUT_WR)
            if kind == "pair of sockets":
                ours.close()
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            gate.opened.set()
            ours_out.setblocking(False)
            await anyio.wait_readable(ours_out)
            assert json.loads(ours_out.recv(65536))["id"] == 1


async def test_the_method_shutdown_ends_the_server(streams):
    async with streams.serving(Host()):
        streams.write(request(1, "shutdown") + request(2, "list"))
        answers = {(await streams.message())["id"]}
        while line := await streams.line():
            answers.add(json.loads(line)["id"])
        assert answers in ({1}, {1, 2})


async def test_output_whose_reader_has_gone_ends_the_server(streams):
    async with streams.serving(Host()):
        os.close(streams.output)
        streams.write(request(1, "list"))


async def test_a_file_as_input_is_read_to_its_end(tmp_path, streams):
    count = 1000
    (tmp_path / "in").write_bytes(b"".join(request(number, "list") for number in range(count)))
    answers = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    async with Host() as host:
        sidecar = Sidecar(host)
        await sidecar.serve(await sidecar.at_streams(os.open(tmp_path / "in", os.O_RDONLY), answers))
    lines = (tmp_path / "out").read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [*range(count)]


async def test_descriptors_are_blocking_again_after_the_end():
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    kept = [os.dup(theirs_in), os.dup(theirs_out)]
    os.close(ours_in)
    async with Host() as host:
        sidecar = Sidecar(host)
        client = await sidecar.at_streams(theirs_in, theirs_out)
        assert [os.get_blocking(fd) for fd in kept] == [False, False]
        await sidecar.serve(client)
    assert [os.get_blocking(fd) for fd in kept] == [True, True]
    for fd in (*kept, ours_out):
        os.close(fd)
