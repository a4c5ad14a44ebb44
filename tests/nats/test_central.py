"""Central configurations: what a bundle may say, what hosts take over, and what they keep."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import anyio
import pytest
from fakes import Connected, FakeWorker

from picohook import ConfigError, FunctionHook, Host
from picohook.config import bundles, files, layers, load
from picohook.engine.order import in_order
from picohook.hooks import make_hook
from picohook.transport.nats import headers, streams
from picohook.transport.nats.bundle import hash_of, new_key, read, sign

PATIENCE = 60
SEED, KEY = new_key()
POLICY = {"nats": "policy", "stages": ["before_tool"]}
CALL = {"tool": "bash", "arguments": {"command": "ls"}}


def signed(version=1, hooks=None, *, seed=SEED, tenant="acme", name="default"):
    config = {"hooks": {"policy": POLICY} if hooks is None else hooks}
    return sign(config, tenant=tenant, name=name, version=version, seed=seed)


@pytest.fixture
def config(tmp_path):
    """`config(...)` writes a configuration that takes bundles, and returns its path."""

    def write(*, servers="nats://127.0.0.1:9", tenant="acme", keys=(KEY,), more="", **table):
        table = {"keys": list(keys), "file": "kept.json", **table}
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
        path = tmp_path / "picohook.toml"
        nats = f'[nats]\nservers = ["{servers}"]\ntenant = "{tenant}"'
        path.write_text(f"{nats}\n[nats.bundle]\n{lines}\n{more}\n")
        return path

    return write


def kept_at(path):
    return bundles.KeptBundle(load(path))


def keep(path, data):
    kept = kept_at(path)
    kept.keep(kept.verify(data, "test"))


def problems(hooks, **more):
    data = sign({"hooks": hooks, **more}, tenant="acme", name="default", version=1, seed=SEED)
    with pytest.raises(ConfigError) as refused:
        bundles.check(read(data, "test"), Path("central.toml"))
    return [str(problem).removeprefix("central.toml: ") for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"command": ["sh"]}, "command: cannot be in a bundle, which never names a program to run on a host"),
        ({"run": "sh"}, "run: cannot be in a bundle, which never names a shell command to run on a host"),
        ({"python": "os:abort"}, "python: cannot be in a bundle, which never names a function to run on a host"),
        ({"prompt": "?"}, "prompt: cannot be in a bundle, which never names a prompt to run on a host"),
        ({**POLICY, "command": ["sh"]}, "command: cannot be in a bundle"),
        ({**POLICY, "command": []}, "command: cannot be in a bundle"),
        ({**POLICY, "env": {"LD_PRELOAD": "x"}}, "env: cannot be set in a bundle"),
        ({**POLICY, "provides": ["bash"]}, "provides: cannot be set in a bundle"),
        ({**POLICY, "respond": "own"}, "respond: cannot be set in a bundle"),
        ({**POLICY, "fallback": "local"}, "fallback: cannot be set in a bundle"),
        ({**POLICY, "connection": {}}, "connection: cannot be set in a bundle"),
        ({**POLICY, "layer": "builtin"}, "layer: cannot be set in a bundle"),
        ({**POLICY, "source": "x"}, "source: cannot be set in a bundle"),
        ({**POLICY, "after": ["local"]}, 'after: "local" is not a hook of the bundle'),
        ({**POLICY, "tiemout": 3}, 'tiemout: unknown key (did you mean "timeout"?)'),
        ({"stages": ["before_tool"]}, "has no nats: a bundle has remote hooks alone"),
        ({"nats": "policy"}, "is never asked and never told"),
        ("sh", "must be a table"),
    ],
)
def test_a_bundle_has_only_remote_hooks_and_their_settings(table, message):
    assert any(message in problem for problem in problems({"x": table}))


@pytest.mark.parametrize("key", ["defaults", "audit", "model", "nats", "foreign", "picoclaw"])
def test_a_bundle_sets_nothing_of_its_host(key):
    assert problems({}, **{key: {}}) == [f"{key}: cannot be in a bundle (a bundle has hooks, and sets nothing else)"]


def test_a_bundle_adds_hooks_before_those_of_the_user_and_changes_none(config):
    local = '[hooks.policy]\nrun = "true"\nstages = ["before_tool"]\npriority = 1\n[defaults]\ninterceptor_timeout = 7'
    path = config(more=local)
    alone = layers.named(path, with_bundle=False)
    keep(path, signed())
    both = layers.named(path)
    assert [hook.name for hook in in_order(map(make_hook, both.hooks))] == ["policy@central", "policy"]
    assert both.hooks[0] == alone.hooks[0]
    assert both.timeouts == alone.timeouts
    central = both.hooks[1]
    assert (central.layer, central.respond, central.on_failure) == ("central", "forbid", "deny")
    assert central.connection.tenant == "acme"


def test_only_its_user_can_read_the_kept_bundle(config, tmp_path):
    keep(config(), signed())
    assert stat.S_IMODE((tmp_path / "kept.json").stat().st_mode) == 0o600


def test_an_older_bundle_is_refused_also_after_a_restart(config):
    path = config()
    keep(path, signed(3))
    keep(path, signed(3))
    for data in (signed(2), signed(3, {})):
        with pytest.raises(ConfigError, match="version: is"):
            keep(path, data)
    keep(path, signed(4, {}))
    assert kept_at(path).read().version == 4


def test_of_two_hosts_that_keep_a_bundle_at_the_same_time_neither_replaces_a_newer_one(config):
    path, refused = config(), []

    def keep_older():
        with pytest.raises(ConfigError, match="version: is 2, and 3 was taken over before"):
            keep(path, signed(2))
        refused.append(2)

    other = threading.Thread(target=keep_older)
    with files.locked(kept_at(path).path):
        other.start()
        other.join(0.1)
        kept_at(path).path.write_bytes(signed(3))
    other.join(PATIENCE)
    assert refused == [2]
    assert kept_at(path).read().version == 3


def test_a_kept_bundle_that_was_changed_or_whose_key_is_no_longer_trusted_is_not_used(config, tmp_path):
    keep(config(), signed())
    path = config(keys=[new_key()[1]])
    with pytest.raises(ConfigError, match="is not trusted here"):
        layers.named(path)
    file = tmp_path / "kept.json"
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(ConfigError, match="signature: is wrong"):
        layers.named(config())


def test_a_project_cannot_say_who_configures_hooks(config):
    with pytest.raises(ConfigError, match=r"nats\.bundle: cannot be set by a project"):
        load(config(), found=True)


def test_a_seed_in_the_place_of_a_key_is_refused_and_not_shown(config):
    with pytest.raises(ConfigError) as refused:
        load(config(keys=[SEED]))
    assert "secret seed" in str(refused.value)
    assert SEED not in str(refused.value)


# With a server.


@pytest.fixture
def bucket(keeping):
    """`async with bucket as put: await put(data)`, in a bucket of the test's own."""

    class Bucket:
        name = f"B_{keeping.tenant}"

        async def __aenter__(self):
            self.other = Connected(keeping)
            connection = await self.other.__aenter__()
            await connection.run(self.make)

            async def put(data):
                await connection.run(lambda client: streams.write_bundle(client, self.name, "default", data))

            return put

        async def make(self, client):
            await streams.define_bucket(client.jetstream(), self.name)

        async def __aexit__(self, *error):
            await self.other.__aexit__(*error)

    return Bucket()


@pytest.fixture
def central(config, keeping, bucket):
    """The path of a configuration that takes bundles from that bucket."""
    return lambda **more: config(servers=keeping.servers[0], tenant=keeping.tenant, bucket=bucket.name, **more)


def names(host):
    return [hook.name for hook in host.asked_at("before_tool")]


def priority(host):
    return next(hook.spec.priority for hook in host.hooks if hook.name == "policy")


async def until(condition):
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_a_new_bundle_is_in_force_at_once_and_one_that_cannot_be_used_changes_nothing(central, keeping, bucket):
    tenant = keeping.tenant
    async with bucket as put:
        await put(signed(1, tenant=tenant))
        async with Host.from_config(central(wait=PATIENCE)) as host:
            assert names(host) == ["policy"]
            (connection,) = host._mounted.connections.all
            first = connection.config_digest
            await put(signed(2, {"policy": POLICY, "more": POLICY}, tenant=tenant))
            await until(lambda: names(host) == ["more", "policy"])
            await until(lambda: connection.config_digest != first)
            await host.mount(FunctionHook("taken", {"before_prompt": lambda _: None}))
            other_seed, _ = new_key()
            for wrong in (
                b"junk",
                signed(9, {}, tenant="other"),
                signed(3, {"taken": POLICY}, tenant=tenant),
                signed(9, {}, tenant=tenant, seed=other_seed),
                signed(9, {"x": {"run": "true", "stages": ["before_tool"]}}, tenant=tenant),
                signed(1, {}, tenant=tenant),
                signed(2, {}, tenant=tenant),
            ):
                await put(wrong)
            await put(signed(3, {"last": POLICY}, tenant=tenant))
            await until(lambda: names(host) == ["last"])
        kept = bundles.KeptBundle(load(central()))
        assert kept.read().version == 3


@pytest.mark.anyio
async def test_an_older_bundle_is_refused_where_none_can_be_kept(central, keeping, bucket, tmp_path, caplog):
    (tmp_path / "a file").touch()
    tenant = keeping.tenant
    async with bucket as put:
        await put(signed(2, tenant=tenant))
        async with Host.from_config(central(wait=PATIENCE, file="a file/kept.json")) as host:
            await put(signed(1, {"old": POLICY}, tenant=tenant))
            await until(lambda: "a bundle is refused" in caplog.text or names(host) == ["old"])
            assert names(host) == ["policy"]


@pytest.mark.anyio
async def test_a_bundle_is_applied_when_a_mistake_in_a_local_file_is_corrected(
    central, keeping, bucket, caplog, monkeypatch
):
    monkeypatch.setattr("picohook.config.reload.central.LOOK_EVERY", 0.05)
    tenant = keeping.tenant
    async with bucket as put:
        await put(signed(1, tenant=tenant))
        async with Host.from_config(central(wait=PATIENCE)) as host:
            central(wait=PATIENCE, more="[hooks.x]")
            await put(signed(2, {"new": POLICY}, tenant=tenant))
            await until(lambda: "a bundle is refused" in caplog.text)
            central(wait=PATIENCE)
            await until(lambda: names(host) == ["new"])


@pytest.mark.anyio
async def test_a_host_that_is_offline_uses_the_last_good_bundle(config):
    path = config(wait=0.01)
    keep(path, signed(5))
    async with Host.from_config(path) as host:
        assert names(host) == ["policy"]
        outcome = await host.before_tool(CALL)
        assert outcome.action == "deny_tool"


@pytest.mark.anyio
async def test_a_host_that_never_had_a_bundle_does_not_start_unless_none_is_required(config):
    with pytest.raises(ConfigError, match="is required, and no bundle was ever taken over"):
        async with Host.from_config(config(wait=0.01)):
            pass
    async with Host.from_config(config(wait=0.01, required=False)) as host:
        assert names(host) == []


@pytest.mark.anyio
async def test_bundles_are_followed_that_a_reload_asks_for(central, keeping, bucket):
    def without():
        path = central()
        path.write_text(path.read_text().partition("[nats.bundle]")[0] + "[hooks]\n")
        return path

    async with bucket as put:
        await put(signed(1, tenant=keeping.tenant))
        async with Host.from_config(without()) as host:
            central()
            with pytest.raises(ConfigError, match="is required, and no bundle was ever taken over"):
                await host.reload()
            central(required=False)
            await host.reload()
            await until(lambda: names(host) == ["policy"])
            await put(signed(2, {"new": POLICY}, tenant=keeping.tenant))
            await until(lambda: names(host) == ["new"])
            without()
            await host.reload()
            assert names(host) == []
            await until(lambda: [one.config_digest for one in host._mounted.connections.all] == [""])


@pytest.mark.anyio
async def test_no_call_is_lost_while_bundles_change(central, keeping, bucket):
    tenant = keeping.tenant
    hooks = [{"policy": {**POLICY, "priority": number}} for number in range(10)]
    async with bucket as put:
        await put(signed(1, hooks[0], tenant=tenant))
        async with (
            Connected(keeping) as connection,
            FakeWorker(connection, keeping, lambda _: [{"action": "continue"}]) as worker,
            Host.from_config(central(wait=PATIENCE)) as host,
        ):
            await host.mount(FunctionHook("local", {"before_tool": lambda _: None}))
            outcomes, ending = [], anyio.Event()

            async def ask():
                while not ending.is_set():
                    outcomes.append(await host.before_tool(CALL))

            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    for _ in range(4):
                        tasks.start_soon(ask)
                    for version, settings in enumerate(hooks[1:], 2):
                        await put(signed(version, settings, tenant=tenant))
                        await until(lambda wanted=version - 1: priority(host) == wanted)
                    ending.set()
            await host.before_tool(CALL)
    assert worker.questions[-1].headers[headers.CONFIG] == hash_of({"hooks": hooks[-1]})
    assert len(outcomes) > len(hooks)
    assert {outcome.action for outcome in outcomes} == {"continue"}
    assert {tuple((entry.hook, entry.error) for entry in outcome.trail) for outcome in outcomes} == {
        (("policy", None), ("local", None))
    }
