"""The metrics endpoint: what Prometheus gets, and when it is refused."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import anyio
import anyio.to_thread
import pytest
from rows import each

from picohook import Deny, FunctionHook, Host, PicohookError
from picohook.ext.prometheus.endpoint import metrics_endpoint

pytestmark = pytest.mark.anyio


def hosted():
    return Host([FunctionHook("f", {"before_tool": lambda _: None})])


async def scraped(server):
    def scrape():
        address, port = server.server_address[:2]
        host = f"[{address}]" if ":" in address else address
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()

    return await anyio.to_thread.run_sync(scrape)


async def test_an_http_client_gets_the_metrics():
    async with hosted() as host, metrics_endpoint(host, "0") as server:
        await host.before_tool({"tool": "bash"})
        status, kind, text = await scraped(server)
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert 'picohook_up{hook="f"} 1.0\n' in text
    assert 'picohook_executions_total{hook="f",stage="before_tool"} 1.0\n' in text


async def test_denials_are_counted_by_their_severity():
    gates = [FunctionHook("gate", {"before_tool": lambda _: Deny("no", severity="high")})]
    async with Host(gates) as host, metrics_endpoint(host, "0") as server:
        await host.before_tool({"tool": "bash"})
        _, _, text = await scraped(server)
    assert 'picohook_severities_total{hook="gate",severity="high",stage="before_tool"} 1.0\n' in text


async def test_a_port_without_a_host_listens_on_this_machine_alone():
    async with Host() as host, metrics_endpoint(host, "0") as server:
        assert server.server_address[0] == "127.0.0.1"


async def test_an_ipv6_address_can_be_named():
    async with hosted() as host, metrics_endpoint(host, "[::1]:0") as server:
        assert "picohook_up" in (await scraped(server))[2]


@each(
    "where",
    [
        "",
        "here",
        "127.0.0.1:",
        "70000",
        ":-1",
        "1.2.3.4.5:80",
        "a..b:80",
        "no.such.host.invalid:80",
        "\u0664\u0662",
        "/a/b",
    ],
)
async def test_an_address_that_cannot_be_listened_at_is_refused_with_its_cause(where):
    async with Host() as host:
        with pytest.raises(PicohookError, match="the metrics endpoint"):
            async with metrics_endpoint(host, where):
                pass


async def test_a_port_that_is_taken_is_refused_with_its_cause():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with Host() as host:
            with pytest.raises(PicohookError, match="Address already in use"):
                async with metrics_endpoint(host, f"{taken.getsockname()[1]}"):
                    pass


async def test_a_client_that_sends_nothing_keeps_nobody_out_and_the_endpoint_ends_all_the_same():
    async with hosted() as host:
        async with metrics_endpoint(host, "0") as server:
            with socket.create_connection(server.server_address):
                assert (await scraped(server))[0] == 200
            address = server.server_address
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


async def test_a_failing_host_is_a_500_without_the_cause():
    class Broken(FunctionHook):
        def status(self):
            raise ZeroDivisionError("internals")

    async with Host([Broken("b")]) as host, metrics_endpoint(host, "0") as server:
        with pytest.raises(urllib.error.HTTPError) as error:
            await scraped(server)
    assert error.value.code == 500
    assert b"internals" not in error.value.read()
