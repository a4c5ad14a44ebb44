"""`picohook nats init`: a server that runs, and users who may do what they need and no more."""

from __future__ import annotations

import json
import os
import stat

import anyio
import pytest
from fakes import Connected, FakeWorker
from server import Server, program
from typer.testing import CliRunner

from picohook import HookSpec, Host, NatsSettings, PicohookError, ToolCall
from picohook.cli.app import app
from picohook.config import load
from picohook.transport.nats import subjects
from picohook.transport.nats.trial import Trial

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": "rm -rf /"})
DENY = {"action": "deny_tool", "reason": "no"}


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A running server, and the settings of each of its users."""
    if program() is None:
        pytest.skip("needs nats-server: apt-get install nats-server, or name one in PICOHOOK_NATS_SERVER")
    directory = tmp_path_factory.mktemp("trial") / "nats"
    made = Trial(directory, tenant="acme", hosts=["h1", "h2"], workers=["w1"], port=4222, tls=True)
    made.write()
    server = Server("-c", str(directory / "server.conf"))

    def settings(user):
        config = load(directory / f"{user}.toml")
        return config.nats.model_copy(update={"servers": (f"tls://localhost:{server.port}",)})

    settings.directory = directory
    yield settings
    server.kill()


def hook(settings, **more):
    return HookSpec(name="p", nats="policy", connection=settings, stages=("before_tool",), timeout=20, **more)


async def test_a_host_asks_a_worker_over_tls(trial, caplog):
    worker = trial("w1")
    async with (
        Connected(worker) as connection,
        FakeWorker(connection, worker, lambda _: [DENY]),
        Host([hook(trial("h1"))]) as it,
    ):
        outcome = await it.before_tool(CALL)
    assert (outcome.action, outcome.reason) == ("deny_tool", "no")
    assert caplog.get_records("call") == []  # asyncio warns at the end of a stream that does not know it was encrypted


async def test_a_user_who_may_not_ask_fails_at_once_as_forbidden(trial):
    async with Host([hook(trial("w1"))]) as it:
        first, second = await it.before_tool(CALL), await it.before_tool(CALL)
        assert it.status().hooks[0].state == "forbidden"
    assert [outcome.trail[0].failure for outcome in (first, second)] == ["forbidden", "forbidden"]
    assert {first.action, second.action} == {"deny_tool"}


async def test_a_host_with_the_name_of_another_gets_no_answers(trial):
    named = trial("h1").model_copy(update={"host": "h2"})
    async with Host([hook(named)]) as it:
        assert (await it.before_tool(CALL)).trail[0].failure == "forbidden"


PUBLISH = [
    ("h1", subjects.rpc("other", "policy", "before_tool")),
    ("h1", "_INBOX.h2.x"),
    ("h1", "picohook.v1.host.acme.h2"),
    ("h1", "$KV.PICOHOOK_BUNDLES.default"),
    ("h1", "$JS.API.STREAM.CREATE.X"),
    ("w1", subjects.rpc("acme", "policy", "before_tool")),
    ("h1", subjects.events("acme", "s", "turn_end", "h2")),
    ("w1", subjects.events("acme", "s", "turn_end", "w1")),
    ("w1", "_INBOX.h1.x"),
]
LISTEN = [
    ("h1", subjects.rpc("acme", "policy", "*")),
    ("h1", "_INBOX.h2.>"),
    ("h1", ">"),
    ("w1", "_INBOX.h1.>"),
    ("w1", subjects.events_of("acme", "h1")),
]


async def refused(connection):
    with anyio.fail_after(20):
        while not connection.refused:
            await anyio.sleep(0.005)
    return connection.refused


@pytest.mark.parametrize(("user", "subject"), PUBLISH)
async def test_a_user_cannot_publish(trial, user, subject):
    async with Connected(trial(user)) as connection:
        connection.publish(subject, b"{}")
        assert await refused(connection) == {subject.lower()}


@pytest.mark.parametrize(("user", "subject"), LISTEN)
async def test_a_user_cannot_listen(trial, user, subject):
    async with Connected(trial(user)) as connection:
        await connection.listen(subject, lambda _: None)
        assert await refused(connection) == {subject.lower()}


async def test_a_stranger_is_not_let_in(trial, caplog):
    stranger = NatsSettings(servers=trial("h1").servers, tls=trial("h1").tls)
    async with Host([hook(stranger, hello_timeout=0.5)]) as it:
        outcome = await it.before_tool(CALL)
    assert outcome.trail[0].failure == "unreachable"
    assert [record for record in caplog.get_records("call") if record.name == "asyncio"] == []  # as above


def test_only_the_owner_can_read_the_secrets(trial):
    secrets = [path for path in trial.directory.iterdir() if path.suffix in {".nk", ".key"}]
    assert len(secrets) == 6
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in secrets} == {0o600}


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(PicohookError, match="is not empty: name a new directory"):
        Trial(tmp_path, tenant="t", hosts=["h"], workers=["w"], port=4222, tls=False).write()
    assert os.listdir(tmp_path) == ["mine"]


def test_the_command_prints_what_to_run(tmp_path, capfd):
    ran = CliRunner().invoke(app, ["nats", "init", str(tmp_path / "new"), "--no-tls", "--host", "a", "--host", "b"])
    assert ran.exit_code == 0
    printed = capfd.readouterr().out
    assert f"nats-server -c {tmp_path / 'new' / 'server.conf'}" in printed
    assert "nsc edit account default --js-mem-storage -1 --js-disk-storage -1" in printed
    assert "nsc add user --account default b --expiry 365d --allow-pub" in printed
    assert "nsc push -A -u nats://127.0.0.1:4222" in printed
    assert {"a.toml", "b.toml", "worker.toml", "admin.toml"} <= set(os.listdir(tmp_path / "new"))
    text = (tmp_path / "new" / "server.conf").read_text()
    assert json.loads(text[text.index("accounts ") + 9 :])["default"]["jetstream"] == "enabled"
