"""The metrics endpoint: what Prometheus gets, and that no HTTP request harms it."""

from __future__ import annotations

import contextlib
import socket
import stat
import urllib.error
import urllib.request

import anyio
import anyio.to_thread
import pytest
from scripted import descriptors

from picohook import FunctionHook, Host, PicohookError
from picohook.observe.log import Log
from picohook.serve.metrics_endpoint import MAX_CLIENTS, MAX_HEAD, open_metrics_endpoint

pytestmark = pytest.mark.anyio

HOST = [FunctionHook("f", {"before_tool": lambda _: None})]


@contextlib.asynccontextmanager
async def exporting(host, where="127.0.0.1:0", journal=None):
    async with host:
        server = await open_metrics_endpoint(host, str(where), Log(journal))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            yield server.listening
            tasks.cancel_scope.cancel()


def port_of(listening):
    return listening.socket.getsockname()[1]


async def exchange(listening, data, *, eof=True):
    """All that is answered to these bytes."""
    stream = await (
        anyio.connect_unix(listening.path) if listening.path else anyio.connect_tcp("127.0.0.1", port_of(listening))
    )
    async with stream:
        with contextlib.suppress(anyio.BrokenResourceError):
            await stream.send(data)
            if eof:
                await stream.send_eof()
        answer = b""
        with anyio.fail_after(30), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                answer += await stream.receive()
        return answer


async def test_an_http_client_gets_the_metrics():
    async with exporting(Host(HOST)) as listening:

        def scrape():
            with urllib.request.urlopen(f"http://127.0.0.1:{port_of(listening)}/metrics") as response:
                return response.status, response.headers, response.read().decode()

        status, headers, text = await anyio.to_thread.run_sync(scrape)
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert 'picohook_up{hook="f"} 1\n' in text


REQUESTS = {
    "get": (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    "an old one": (b"GET /metrics HTTP/1.0\n\n", 200),
    "with a query": (b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    "head": (b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    "another path": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    "post": (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405),
    "nothing": (b"", 400),
    "no HTTP": (b'{"jsonrpc": "2.0"}\n\n', 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
    "half of one": (b"GET /metrics HTTP/1.1\r\nHost: x\r\n", 400),
    "another version": (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
    "controls": (b"GET /metrics\x00\x1b HTTP/1.1\r\n\r\n", 400),
    "much": (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MAX_HEAD + b"\r\n\r\n", 431),
    "endless": (b"x" * (MAX_HEAD * 3), 431),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_every_request_gets_its_status(name):
    data, status = REQUESTS[name]
    async with exporting(Host(HOST)) as listening:
        head, _, body = (await exchange(listening, data)).partition(b"\r\n\r\n")
        assert head.split()[1] == b"%d" % status
        assert b"Connection: close" in head
        length = int(head.split(b"Content-Length: ")[1].split()[0])
        assert length == len(body) or name == "head"
        assert (b"picohook_up" in body) == (status == 200 and name != "head")
        assert b"200 OK" in await exchange(listening, REQUESTS["get"][0])


async def test_it_answers_while_the_client_keeps_its_side_open():
    async with exporting(Host(HOST)) as listening:
        assert b"200 OK" in await exchange(listening, REQUESTS["get"][0], eof=False)


async def test_it_can_be_a_unix_socket_that_only_its_owner_may_open(tmp_path):
    async with exporting(Host(HOST), tmp_path / "metrics") as listening:
        assert stat.S_IMODE((tmp_path / "metrics").lstat().st_mode) == 0o600
        assert b"200 OK" in await exchange(listening, REQUESTS["get"][0])
    assert not (tmp_path / "metrics").exists()


async def test_a_port_without_a_host_listens_on_this_machine_alone():
    async with Host() as host:
        server = await open_metrics_endpoint(host, "0", Log())
        assert server.listening.socket.getsockname()[0] == "127.0.0.1"
        server.listening.close()


async def test_an_ipv6_address_can_be_named():
    async with Host() as host:
        server = await open_metrics_endpoint(host, "[::1]:0", Log())
        assert server.listening.socket.getsockname()[0] == "::1"
        server.listening.close()


@pytest.mark.parametrize(
    "where",
    [
        "",
        "here",
        "127.0.0.1:",
        "127.0.0.1:port",
        "70000",
        ":-1",
        "1.2.3.4.5:80",
        "a..b:80",
        "no.such.host.invalid:80",
        "\u0664\u0662",
    ],
)
async def test_an_address_that_cannot_be_listened_at_is_refused_with_its_cause(where):
    async with Host() as host:
        with pytest.raises(PicohookError, match="the metrics endpoint"):
            await open_metrics_endpoint(host, where, Log())


async def test_a_port_that_is_taken_is_refused_with_its_cause():
    async with exporting(Host()) as listening, Host() as host:
        with pytest.raises(PicohookError, match="Address already in use"):
            await open_metrics_endpoint(host, f"127.0.0.1:{port_of(listening)}", Log())


async def test_clients_that_send_nothing_do_not_keep_others_out_and_leave_no_descriptor():
    async with exporting(Host(HOST)) as listening:
        await exchange(listening, REQUESTS["get"][0])
        before = descriptors()
        stuck = [socket.create_connection(("127.0.0.1", port_of(listening))) for _ in range(MAX_CLIENTS - 1)]
        assert b"200 OK" in await exchange(listening, REQUESTS["get"][0])
        for connection in stuck:
            connection.close()
        with anyio.fail_after(30):
            while descriptors() > before:
                await anyio.lowlevel.checkpoint()


async def test_a_failing_host_is_a_500_without_the_cause(journal):
    class Broken(FunctionHook):
        def status(self):
            raise ZeroDivisionError("internals")

    async with exporting(Host([Broken("b")]), journal=journal) as listening:
        answer = await exchange(listening, REQUESTS["get"][0])
        assert b"500 Internal Server Error" in answer
        assert b"internals" not in answer
        assert journal.all("the metrics endpoint failed", level="error")
