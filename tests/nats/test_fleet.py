"""`picohook fleet` with a real server: hosts and workers are seen from their start to their end."""

from __future__ import annotations

import functools
import json

import anyio
import pytest

from picohook import FunctionHook, Host
from picohook.cli.commands.fleet import _looks
from picohook.serve.nats_worker import NatsWorker

pytestmark = pytest.mark.anyio

CONFIG = """
[nats]
servers = {servers}
tenant = "{tenant}"
host = "agent-1"

[hooks.gate]
python = "gates:allow"
stages = ["before_tool"]
"""


async def seen(looks, state, kind="hosts"):
    """The only host or worker, once it is seen in this state."""
    with anyio.fail_after(30):
        while True:
            members = (await anext(looks))[kind]
            if [one["state"] for one in members] == [state]:
                return members[0]


async def test_a_host_tells_how_it_is_until_it_ends_and_is_the_same_after_it_moved(settings, tmp_path):
    (tmp_path / "gates.py").write_text("def allow(call):\n    return None\n")
    config = tmp_path / "picohook.toml"
    config.write_text(CONFIG.format(servers=json.dumps(settings.servers), tenant=settings.tenant))
    async with _looks(settings, 0.1) as looks:
        await anext(looks)  # it listens
        async with Host.from_config(config) as host:
            told = await seen(looks, "ok")
            assert (told["host"], told["config"], told["not_ready"]) == ("agent-1", host.config_digest, {})
            elsewhere = json.dumps([url.replace("127.0.0.1", "localhost") for url in settings.servers])
            config.write_text(CONFIG.format(servers=elsewhere, tenant=settings.tenant))
            await host.reload()
            moved = told
            while moved["config"] != host.config_digest:
                moved = await seen(looks, "ok")  # the only one: it has not ended, and is not another one
            assert (moved["id"], moved["up_s"] > told["up_s"]) == (told["id"], True)
        await seen(looks, "ended")
        async with Host.from_config(config, announce=False):
            assert len((await anext(looks))["hosts"]) == 1


async def test_a_worker_answers_with_its_status_until_it_ends(settings, other):
    policy = FunctionHook("policy", {"before_tool": lambda call: None})
    async with Host([policy]) as host, other() as connection, _looks(settings, 0.1) as looks:
        worker, ready = NatsWorker(host, connection), anyio.Event()
        worker.config_digest = lambda: "digest"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(functools.partial(worker.serve, ready=ready))
            await ready.wait()
            told = await seen(looks, "ok", "workers")
            assert (told["hook"], told["config"], told["in_flight"]) == ("policy", "digest", 0)
            worker.end()
        await seen(looks, "gone", "workers")
