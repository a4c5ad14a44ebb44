"""The files of the page for those who operate a fleet, attacked with each key; and `picohook doctor`, which tries them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import signal
import socket
import ssl
import subprocess
import sys

import anyio
import pytest
from production import SERVERS, Fleet, free_ports, programs
from server import Server

from picohook import FunctionHook, HookSpec, Host, NatsSettings, ToolCall
from picohook.ext.nats import doctor
from picohook.ext.nats.connection import LOGGED, NatsConnection
from picohook.ext.nats.settings import NatsTls
from picohook.ext.nats.worker import NatsWorker
from picohook.observe.log import Log
from picohook.projects import layers
from picohook.transport.event_loop import current_reactor

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("fleet")]


@pytest.fixture(scope="module")
def anyio_backend():
    """One of them: what is tried is the servers."""
    return "asyncio"


QUESTION = b'{"jsonrpc":"2.0","id":1,"method":"hook.before_tool","params":{"tool":"bash","arguments":{}}}'
RPC = "picohook.v1.rpc.acme"
KEYS = ("agents-17", "agents-18", "worker-1")
SUBJECTS = (
    *(f"{RPC}.policy.before_tool.{host}.any" for host in ("agents-17", "agents-18")),
    *(f"picohook.v1.cancel.acme.policy.{host}" for host in ("agents-17", "agents-18")),
    "_INBOX.agents-17.x",
    "_INBOX.agents-18.x",
    "picohook.v1.rpc.other.policy.before_tool.agents-17.any",
    "$JS.API.STREAM.PURGE.X",
    "$KV.bucket.key",
    "$SRV.PING",
    "$SYS.REQ.SERVER.PING",
    "anything",
)
MAY_PUBLISH = {
    "agents-17": {f"{RPC}.policy.before_tool.agents-17.any", "picohook.v1.cancel.acme.policy.agents-17"},
    "agents-18": {f"{RPC}.policy.before_tool.agents-18.any", "picohook.v1.cancel.acme.policy.agents-18"},
    "worker-1": {"_INBOX.agents-17.x", "_INBOX.agents-18.x"},
}
LISTENED = (
    ">",
    "_INBOX.>",
    "_INBOX.agents-17.>",
    "_INBOX.agents-18.>",
    "$SRV.>",
    "$SYS.>",
    f"{RPC}.policy.*.*.*",
    f"{RPC}.*.*.*.*",
    f"{RPC}.other.*.*.*",
    f"{RPC}.policy.*.*.* policy",
    f"{RPC}.policy.*.*.* other",
    "picohook.v1.cancel.acme.policy.*",
    "picohook.v1.cancel.acme.>",
)
MAY_LISTEN = {
    "agents-17": {"_INBOX.agents-17.>"},
    "agents-18": {"_INBOX.agents-18.>"},
    "worker-1": {f"{RPC}.policy.*.*.* policy", "picohook.v1.cancel.acme.policy.*"},
}


@pytest.fixture(scope="module", params=programs() or [None])
def fleet(request, tmp_path_factory):
    if request.param is None:
        pytest.skip("needs nats-server: apt-get install nats-server, or name one in PICOHOOK_NATS_SERVER")
    made = Fleet(tmp_path_factory.mktemp("fleet"), request.param)
    yield made
    made.stop()


@contextlib.asynccontextmanager
async def client(fleet, key=None, url=None, refused=None):
    """A client of nats-py with this key, and without picohook."""
    import nats  # an extra

    async def failed(error):
        if refused is not None:
            refused.append(str(error).lower())

    context = ssl.create_default_context(cafile=fleet.directory / "ca.pem")
    seed = {} if key is None else {"nkeys_seed": str(fleet.directory / f"{key}.nk")}
    made = await nats.connect(url or fleet.urls[0], tls=context, allow_reconnect=False, error_cb=failed, **seed)
    try:
        yield made
    finally:
        await made.close()


def connection(fleet, key):
    ca = NatsTls(ca=str(fleet.directory / "ca.pem"))
    seed = str(fleet.directory / f"{key}.nk")
    return NatsSettings(servers=fleet.urls, tenant="acme", host=key, nkey=seed, tls=ca)


def asking(fleet, key="agents-17", **more):
    return HookSpec(
        name="p", nats="policy", connection=connection(fleet, key), stages=("before_tool",), timeout=20, **more
    )


@contextlib.asynccontextmanager
async def worker(settings):
    """A worker whose policy allows everything."""
    link = NatsConnection(settings, current_reactor(), Log(None))
    async with (
        Host([FunctionHook("policy", {"before_tool": lambda _: None})]) as host,
        anyio.create_task_group() as tasks,
    ):
        made, ready = NatsWorker(host, link), anyio.Event()
        tasks.start_soon(lambda: made.serve(ready=ready.set))
        with anyio.fail_after(20):
            await ready.wait()
        try:
            yield made
        finally:
            made.end()
    await link.aclose()


async def refusals(refused, count):
    with anyio.fail_after(20):
        while len(refused) < count:
            await anyio.sleep(0.01)


@pytest.mark.parametrize("key", KEYS)
async def test_N2_each_key_may_publish_and_listen_where_it_has_to_and_nowhere_else(fleet, key):
    refused = []
    async with client(fleet, key, refused=refused) as made:
        for subject in SUBJECTS:
            await made.publish(subject, b"")
        for wanted in LISTENED:
            subject, _, queue = wanted.partition(" ")
            await made.subscribe(subject, queue=queue)
            await made.flush()
        await refusals(refused, len(SUBJECTS) + len(LISTENED) - len(MAY_PUBLISH[key]) - len(MAY_LISTEN[key]))
        await made.flush()

    def is_refused(subject):
        what, _, queue = subject.partition(" ")
        said = f'to "{what.lower()}"' + (f' using queue "{queue}"' if queue else "")
        return any(why.strip("'").endswith(said) for why in refused)

    assert {subject for subject in SUBJECTS if not is_refused(subject)} == MAY_PUBLISH[key]
    assert {subject for subject in LISTENED if not is_refused(subject)} == MAY_LISTEN[key]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the transport of nats-py that failed
async def test_N2_nobody_connects_without_a_key_with_another_one_or_without_trust_in_the_authority(fleet, tmp_path):
    import nkeys  # an extra
    from nats.aio.client import Client

    (tmp_path / "new.nk").write_bytes(nkeys.encode_seed(b"x" * 32, nkeys.PREFIX_BYTE_USER))
    context = ssl.create_default_context(cafile=fleet.directory / "ca.pem")
    for options in ({"tls": context}, {"tls": context, "nkeys_seed": str(tmp_path / "new.nk")}, {}):
        refused = Client()
        with pytest.raises(Exception, match=r"(?i)authorization|certificate"):
            await refused.connect(fleet.urls[0], allow_reconnect=False, **options)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):  # nats-py waits for a transport that has failed
                await refused.close()
    assert "authentication error" in fleet.log("nats-1")


ELSEWHERE = (
    "$JS.API.STREAM.PURGE.X",
    "$KV.bucket.key",
    "$SRV.PING.policy",
    f"{RPC}.policy.before_tool.agents-18.any",
    "_INBOX.agents-18.x",
    "_INBOX.agents-17",
    "_INBOX.agents-17x.y",
    "_INBOX.>",
    f"_INBOX.agents-17.{'x' * 2000}",
)


async def test_N1_a_worker_answers_to_the_inbox_of_the_host_that_asked_and_nowhere_else(fleet):
    heard, answers, digest = [], [], hashlib.sha256(QUESTION).hexdigest()
    async with (
        worker(connection(fleet, "worker-1")) as made,
        client(fleet, "agents-17") as thief,
        client(fleet, "agents-18", fleet.urls[1]) as victim,
    ):

        async def hear(message):
            heard.append(message.subject)

        async def answered(message):
            answers.append(message.subject)

        await victim.subscribe("_INBOX.agents-18.>", cb=hear)
        await thief.subscribe("_INBOX.agents-17.>", cb=answered)
        await victim.flush()
        for reply in (*ELSEWHERE, "_INBOX.agents-17.mine"):
            await thief.publish(f"{RPC}.policy.before_tool.agents-17.any", QUESTION, reply)
            await thief.publish("picohook.v1.cancel.acme.policy.agents-17", b'{"reply": "_INBOX.agents-18.x"}', reply)
        with anyio.fail_after(20):
            while not answers:
                await anyio.sleep(0.01)
        await victim.flush()
    assert (heard, answers, made.strange) == (
        [],
        [f"_INBOX.agents-17.mine.{digest}.{made.name}"],
        len(ELSEWHERE),
    )


async def test_N1_a_thief_fills_neither_the_log_of_a_worker_nor_its_memory(fleet, caplog):
    count = 3 * LOGGED
    async with worker(connection(fleet, "worker-1")) as made, client(fleet, "agents-17") as thief:
        link = made._connection
        for number in range(count):
            for reply in (f"$JS.API.{number}", f"_INBOX.agents-17..{number}"):
                await thief.publish(f"{RPC}.policy.before_tool.agents-17.any", QUESTION, reply)
        with anyio.fail_after(20):
            while made.strange < count or not link.last_error:
                await anyio.sleep(0.01)
        await link.flush()
    said = [record.getMessage() for record in caplog.records]
    for what in ("ignored a question", "NATS refused a subject"):
        assert 0 < sum(what in line for line in said) <= LOGGED
    assert link.refused == frozenset()


async def test_N1_not_even_where_the_server_would_allow_it(tmp_path):
    """A server without any permissions, with a stream, as the first page about NATS has it for a trial."""
    if not programs():
        pytest.skip("needs nats-server")
    import nats  # an extra

    server = Server("-js", "-sd", str(tmp_path))
    try:
        there = NatsSettings(servers=(server.url,), tenant="acme", host="worker")
        made = await nats.connect(server.url)
        async with worker(there) as serving:
            stream = made.jetstream()
            await stream.add_stream(name="X", subjects=["x"])
            await stream.publish("x", b"kept")
            for verb in ("$SRV.PING", "$SRV.INFO", "$SRV.STATS.policy"):
                await made.publish(verb, b"", "$JS.API.STREAM.PURGE.X")
            await made.publish(f"{RPC}.policy.before_tool.a.any", QUESTION, "$JS.API.STREAM.PURGE.X")
            with anyio.fail_after(20):
                while not serving.strange:
                    await anyio.sleep(0.01)
            assert (await stream.stream_info("X")).state.messages == 1
            with pytest.raises(nats.errors.NoRespondersError):
                await made.request("$SRV.PING", timeout=5)
        await made.close()
    finally:
        server.kill()


OPEN = "cluster {{ name: fleet, listen: 'localhost:{own}', routes: ['nats://localhost:{route}'] }}"
ENCRYPTED = (
    "cluster {{ name: fleet, listen: 'localhost:{own}', routes: ['nats://localhost:{route}'], "
    "tls {{ cert_file: 'own.pem', key_file: 'own.key', ca_file: '{ca}', insecure: true }} }}"
)
PASSWORD = OPEN.replace("nats://", "nats://server:wrong@")


@pytest.mark.parametrize(
    "cluster", [OPEN, ENCRYPTED, PASSWORD], ids=["nothing", "a certificate of its own", "a wrong password"]
)
async def test_N3_a_server_that_is_not_of_the_fleet_does_not_join_and_hears_nothing(fleet, tmp_path, cluster):
    import nats  # an extra

    new = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout own.key -out own.pem"
    )
    subprocess.run(new.split(), cwd=tmp_path, check=True, capture_output=True)
    port, own = free_ports(2)
    text = cluster.format(own=own, route=fleet.routes[0], ca=fleet.directory / "ca.pem")
    (tmp_path / "rogue.conf").write_text(
        f"listen: 'localhost:{port}'\n{text}\naccounts {{ acme {{ users: [{{ user: a, password: b }}] }} }}\n"
    )
    log = tmp_path / "log"
    with log.open("wb") as file:
        rogue = subprocess.Popen([fleet.program, "-c", "rogue.conf"], cwd=tmp_path, stdout=file, stderr=file)
    try:
        fleet.wait("the rogue is refused", lambda: "closed" in log.read_text() or "TLS" in log.read_text())
        made = await nats.connect(f"nats://a:b@localhost:{port}")
        heard = []

        async def hear(message):
            heard.append(message)

        await made.subscribe(">", cb=hear)
        await made.flush()
        async with worker(connection(fleet, "worker-1")), Host([asking(fleet)]) as host:
            for _ in range(20):
                assert (await host.before_tool(ToolCall(tool="bash"))).trail[0].failure is None
        await made.flush()
        assert [message.subject for message in heard if message.subject.startswith("picohook")] == []
        await made.close()
    finally:
        rogue.kill()
        rogue.wait()


async def test_questions_reach_workers_at_another_server_and_survive_one_that_is_killed(fleet):
    async with worker(connection(fleet, "worker-1")), Host([asking(fleet)]) as host:
        assert (await host.before_tool(ToolCall(tool="bash"))).trail[0].failure is None
        for name in SERVERS:
            fleet.processes[name].kill()
            fleet.processes[name].wait()
            with anyio.fail_after(60):
                while (await host.before_tool(ToolCall(tool="bash"))).trail[0].failure is not None:
                    await anyio.sleep(0.05)
            (fleet.directory / f"{name}.log").unlink()
            await anyio.to_thread.run_sync(fleet.start, name)


async def test_servers_take_new_certificates_at_a_reload_at_which_a_call_at_most_is_denied(fleet):
    def shown():
        """The certificate of each server, as a new client sees it."""
        trust = ssl.create_default_context(cafile=fleet.directory / "ca.pem")
        found = []
        for port in fleet.ports:
            with socket.create_connection(("localhost", port)) as plain:
                plain.recv(65536)  # the server's INFO
                with trust.wrap_socket(plain, server_hostname="localhost") as client:
                    found.append(client.getpeercert(binary_form=True))
        return found

    before = await anyio.to_thread.run_sync(shown)
    spec = asking(fleet).model_copy(update={"timeout": 2.0})
    async with worker(connection(fleet, "worker-1")), Host([spec]) as host:
        await anyio.to_thread.run_sync(fleet.run, "sh", "make_servers.sh")
        for name in SERVERS:
            lost = 0  # a server may drop a message in the moment in which it reads its configuration again
            reloads = fleet.log(name).count("Reloaded server configuration")
            fleet.processes[name].send_signal(signal.SIGHUP)
            with anyio.fail_after(60):
                while fleet.log(name).count("Reloaded server configuration") == reloads:
                    outcome = await host.before_tool(ToolCall(tool="bash"))
                    lost += outcome.trail[0].failure is not None
                    assert (outcome.action == "continue") is (outcome.trail[0].failure is None)
            assert lost <= 1
            assert (await host.before_tool(ToolCall(tool="bash"))).trail[0].failure is None
    after = await anyio.to_thread.run_sync(shown)
    assert not set(before) & set(after)


async def test_a_worker_that_hangs_soon_gets_nearly_no_questions(fleet):
    command = [sys.executable, "-m", "picohook", "worker", "--config", "worker-1.toml"]
    (fleet.directory / "policy.py").write_text("async def check(call):\n    return None\n")
    workers = [subprocess.Popen(command, cwd=fleet.directory, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    found = []
    try:
        for one in workers:
            assert one.stderr.readline() == "Serving over NATS: policy\n"
        spec = asking(fleet).model_copy(update={"timeout": 1.0})
        async with Host([spec]) as host, anyio.create_task_group() as tasks:

            async def ask():
                found.append((await host.before_tool(ToolCall(tool="bash"))).trail[0].failure)

            workers[0].send_signal(signal.SIGSTOP)
            with anyio.fail_after(60):
                while len(found) < 500 or sum(one is not None for one in found[-200:]) > 2:
                    for _ in range(10):
                        tasks.start_soon(ask)
                    await anyio.sleep(0.05)
    finally:
        for one in workers:
            one.kill()
            one.communicate()
    assert set(found) == {None, "timeout"}, "never `breaker`"


def levels(findings):
    return {finding.check: finding.level.value for finding in findings}


async def test_the_doctor_finds_the_pages_servers_closed(fleet, monkeypatch):
    monkeypatch.setattr(doctor, "_HANGS", 3.5)
    monkeypatch.setattr(doctor, "_WAIT", 1.0)
    found = layers.named(fleet.directory / "worker-1.toml")
    findings = [one async for one in doctor.examine(found)]
    findings += [one async for one in doctor.examine_answers(fleet.directory / "agents-17.toml", found)]
    findings += [one async for one in doctor.examine_routes([f"localhost:{fleet.routes[0]}"], found)]
    assert set(levels(findings).values()) == {"ok"}, findings


async def test_the_doctor_finds_each_hole(fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_HANGS", 0.2)
    port, route = free_ports(2)
    config = tmp_path / "picohook.toml"
    config.write_text(
        f'[nats]\nservers = ["nats://127.0.0.1:{port}"]\n[hooks.policy]\nnats = "policy"\nstages = ["before_tool"]\n'
    )
    server = Server("-cluster", f"nats://127.0.0.1:{route}", port=port)
    try:
        found = layers.named(config)
        findings = [one async for one in doctor.examine(found)]
        findings += [one async for one in doctor.examine_routes([f"127.0.0.1:{route}"], found)]
    finally:
        server.kill()
    assert levels(findings) == {
        "encryption": "error",
        "anonymous": "error",
        "permissions": "error",
        "hanging": "warning",
        "cluster": "error",
    }
    (cluster,) = [finding.message for finding in findings if finding.check == "cluster"]
    assert cluster == "a server without a certificate can join the cluster, and needs no password"


async def test_the_doctor_finds_a_worker_that_may_answer_anywhere(fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_HANGS", 0.2)
    worker_key, host_key = (
        line.split('"')[1] for line in (fleet.directory / "keys.conf").read_text().splitlines()[::-2]
    )
    users = [
        {"nkey": worker_key, "permissions": {"subscribe": ["picohook.v1.>"], "allow_responses": True}},
        {"nkey": host_key, "permissions": {"publish": ["picohook.v1.>"], "subscribe": ["_INBOX.agents-17.>"]}},
    ]
    (tmp_path / "server.conf").write_text(f"accounts {{ acme {{ users: {json.dumps(users)} }} }}\n")
    server = Server("-c", str(tmp_path / "server.conf"))
    try:
        for name, hook in (("worker-1", 'python = "policy:check"'), ("agents-17", 'nats = "policy"')):
            nats = f'[nats]\nservers = ["{server.url}"]\ntenant = "acme"\nhost = "{name}"\n'
            nats += f'nkey = "{fleet.directory}/{name}.nk"\n'
            (tmp_path / f"{name}.toml").write_text(f'{nats}[hooks.policy]\n{hook}\nstages = ["before_tool"]\n')
        found = layers.named(tmp_path / "worker-1.toml")
        (finding,) = [one async for one in doctor.examine_answers(tmp_path / "agents-17.toml", found)]
        assert (finding.check, finding.level) == ("answers", "error")
    finally:
        server.kill()


async def test_a_worker_whose_key_is_for_other_hooks_does_not_say_that_it_serves(fleet):
    link = NatsConnection(connection(fleet, "worker-1"), current_reactor(), Log(None))
    try:
        async with (
            Host([FunctionHook("other", {"before_tool": lambda _: None})]) as host,
            anyio.create_task_group() as tasks,
        ):
            made, ready = NatsWorker(host, link), anyio.Event()
            tasks.start_soon(lambda: made.serve(ready=ready.set))
            with anyio.fail_after(20):
                while not link.refused:
                    await asyncio.sleep(0.01)
            assert not ready.is_set()
            made.end()
    finally:
        await link.aclose()
