"""Prometheus' endpoint: what is scraped, and that no HTTP hurts it."""

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
        door = await open_metrics_endpoint(host, str(where), Log(journal))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(door.run)
            yield door.listening
            tasks.cancel_scope.cancel()


async def exchange(place, data, *, eof=True):
    """All that is answered to these bytes."""
    stream = await (anyio.connect_unix(place.path) if place.path else anyio.connect_tcp("127.0.0.1", place.port))
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


async def test_metrics_are_scraped_as_any_client_does_it():
    async with exporting(Host(HOST)) as place:

        def scrape():
            with urllib.request.urlopen(f"http://127.0.0.1:{place.port}/metrics") as response:
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
    async with exporting(Host(HOST)) as place:
        head, _, body = (await exchange(place, data)).partition(b"\r\n\r\n")
        assert head.split()[1] == b"%d" % status
        assert b"Connection: close" in head
        length = int(head.split(b"Content-Length: ")[1].split()[0])
        assert length == len(body) or name == "head"
        assert (b"picohook_up" in body) == (status == 200 and name != "head")
        assert b"200 OK" in await exchange(place, REQUESTS["get"][0])


async def test_it_answers_before_the_client_has_ended_its_side():
    async with exporting(Host(HOST)) as place:
        assert b"200 OK" in await exchange(place, REQUESTS["get"][0], eof=False)


async def test_it_can_be_a_socket_of_its_owner_alone(tmp_path):
    async with exporting(Host(HOST), tmp_path / "metrics") as place:
        assert stat.S_IMODE((tmp_path / "metrics").lstat().st_mode) == 0o600
        assert b"200 OK" in await exchange(place, REQUESTS["get"][0])
    assert not (tmp_path / "metrics").exists()


async def test_a_port_without_a_host_is_of_this_machine_alone():
    async with Host() as host:
        door = await open_metrics_endpoint(host, "0", Log())
        assert door.listening.socket.getsockname()[0] == "127.0.0.1"
        door.close()


async def test_an_address_of_version_6_can_be_named():
    async with Host() as host:
        door = await open_metrics_endpoint(host, "[::1]:0", Log())
        assert door.listening.socket.getsockname()[0] == "::1"
        door.close()


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
async def test_a_place_that_is_none_says_so(where):
    async with Host() as host:
        with pytest.raises(PicohookError, match="the metrics' endpoint"):
            await open_metrics_endpoint(host, where, Log())


async def test_a_port_that_is_taken_says_so():
    async with exporting(Host()) as place, Host() as host:
        with pytest.raises(PicohookError, match="Address already in use"):
            await open_metrics_endpoint(host, f"127.0.0.1:{place.port}", Log())


async def test_clients_that_hang_on_hold_up_nobody_for_good_and_leave_nothing():
    async with exporting(Host(HOST)) as place:
        await exchange(place, REQUESTS["get"][0])
        before = descriptors()
        stuck = [socket.create_connection(("127.0.0.1", place.port)) for _ in range(MAX_CLIENTS - 1)]
        assert b"200 OK" in await exchange(place, REQUESTS["get"][0])
        for connection in stuck:
            connection.close()
        with anyio.fail_after(30):
            while descriptors() > before:
                await anyio.lowlevel.checkpoint()


async def test_a_host_that_breaks_tells_nothing_of_it(journal):
    class Broken(FunctionHook):
        def status(self):
            raise ZeroDivisionError("internals")

    async with exporting(Host([Broken("b")]), journal=journal) as place:
        answer = await exchange(place, REQUESTS["get"][0])
        assert b"500 Internal Server Error" in answer
        assert b"internals" not in answer
        assert journal.all("the metrics' endpoint failed", level="error")
