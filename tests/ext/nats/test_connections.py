"""The connections of a host: when they begin and end, and what a reload makes of them."""

from __future__ import annotations

import gc

import anyio
import pytest
from loops import both
from server import Server

from picohook import HookSpec, Host, NatsSettings, ToolCall
from picohook.ext.nats.connection import Connections

pytestmark = pytest.mark.anyio
anyio_backend = both

CALL = ToolCall(tool="bash", tool_call_id="c1")
PATIENCE = 20


@pytest.fixture
def config(tmp_path, settings):
    """`config(tenant, ...)` writes a configuration with remote hooks of these names, or without [nats] for no tenant."""

    def write(tenant, *names):
        hooks = "".join(f'[hooks.{name}]\nnats = "policy"\nstages = ["before_tool"]\n' for name in names)
        nats = f'[nats]\nservers = ["{settings.servers[0]}"]\ntenant = "{tenant}"\nhost = "h"\n' if tenant else ""
        (tmp_path / "picohook.toml").write_text(f"[hooks]\n{nats}{hooks}")
        return tmp_path / "picohook.toml"

    return write


def opened(host):
    return list(host._mounted._site.shared(Connections)._open.values())


def tenants(host):
    return sorted(connection.settings.tenant for connection in opened(host))


async def until(condition):
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.01)


async def test_a_reload_closes_the_connections_that_it_replaces_and_keeps_the_others(config):
    async with Host.from_config(config("a", "p", "q")) as host:
        (first,) = opened(host)
        config("a", "p")
        await host.reload()
        assert opened(host) == [first]
        config("b", "p")
        await host.reload()
        await until(lambda: tenants(host) == ["b"])
        await until(lambda: (first.state, first.is_connected) == ("closed", False))
        config("")
        await host.reload()
        await until(lambda: tenants(host) == [])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nats-py cannot drop such a connection
async def test_a_host_ends_in_time_while_the_server_takes_nothing(monkeypatch):
    monkeypatch.setattr("picohook.ext.nats.connection.CLOSE", 0.05)
    server = Server()
    try:
        there = NatsSettings(servers=(server.url,), host="h")
        spec = HookSpec(name="p", nats="policy", connection=there, stages=("before_tool",), timeout=PATIENCE)
        large = ToolCall(tool="bash", arguments={"command": "x" * 1_000_000})
        with anyio.fail_after(PATIENCE):
            async with Host([spec]) as host, anyio.create_task_group() as tasks:
                await host.before_tool(CALL)
                server.pause()
                (hook,) = host.hooks
                for _ in range(12):  # more than the buffers between both take
                    tasks.start_soon(host.before_tool, large)
                await until(lambda: hook._calls.in_flight() == 12)
                tasks.cancel_scope.cancel()
    finally:
        server.kill()
        gc.collect()


async def test_hooks_without_a_server_are_waited_for_together():
    nowhere = [NatsSettings(servers=("nats://127.0.0.1:1",), tenant=f"t{number % 3}") for number in range(100)]
    specs = [
        HookSpec(name=f"p{number}", nats="policy", connection=there, stages=("before_tool",), hello_timeout=1)
        for number, there in enumerate(nowhere)
    ]
    with anyio.fail_after(PATIENCE):  # one after another, it would be five times as long
        async with Host(specs) as host:
            assert {hook.state for hook in host.status().hooks} == {"connecting"}


async def test_after_a_flush_the_server_knows_each_subscription(settings, other):
    heard = []
    async with other() as listening, other() as asking:
        for number in range(200):
            await listening.listen(f"{settings.tenant}.{number}", heard.append)
            await listening.flush()
            await asking.publish(f"{settings.tenant}.{number}", b"")
            await asking.flush()
        await listening.flush()
    assert len(heard) == 200
