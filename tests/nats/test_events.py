"""Events from a spool to a stream and from there to a consumer, with a real server."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
from collections import Counter

import anyio
import pytest
from fakes import Connected
from server import Server, program

from picohook import FunctionHook, Host, NatsSettings
from picohook.listeners.events import SpooledEvents
from picohook.listeners.ledger import Ledger, verify
from picohook.observe.log import Log
from picohook.record.reader import Record
from picohook.record.recorder import SpooledRecord
from picohook.record.sinks import AuditSink, LineSink, RecordSink
from picohook.transport.nats import consumer as module, publisher as publishing_module, streams, subjects
from picohook.transport.nats.consumer import Consumer
from picohook.transport.nats.publisher import EventPublisher
from picohook.transport.nats.spool import Spool

pytestmark = pytest.mark.anyio
PATIENCE = 60
CALL = {"tool": "bash", "arguments": {"command": "ls"}, "meta": {"SessionKey": "s 1"}}


@pytest.fixture
def make_stream():
    async def make(settings):
        async with Connected(settings) as connection:
            config = streams.stream_config(settings.tenant)
            await connection.run(lambda client: streams.define(client.jetstream(), config))

    return make


async def until(condition):
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.01)


@contextlib.contextmanager
def publishing(spool, settings):
    publisher = EventPublisher(settings, Log(None), host="a host")
    publisher.start(spool)
    try:
        yield publisher
    finally:
        spool.close()
        publisher.finish()
        spool.release()


def put(spool, *numbers):
    for number in numbers:
        head = {"type": "hook.event", "kind": "tool_exec_end", "session": "s 1", "time": "now", "more": {}}
        assert spool.put(head, b'{"method":"hook.event","n":%d}' % number)


def put_large(spool, size):
    head = {"type": "hook.event", "kind": "tool_exec_end", "session": "s 1", "time": "now", "more": {}}
    assert spool.put(head, b'{"method":"hook.event","text":"%b"}' % (b"x" * size))


async def consumed(settings, sink, **more):
    async with Connected(settings) as connection:
        consumer = Consumer(connection, sink, Log(None), name="audit", tenant=settings.tenant, **more)
        with anyio.fail_after(PATIENCE):
            await consumer.run(until_empty=True)
    sink.close()
    return consumer


def numbers(path):
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


async def test_events_of_a_host_are_in_one_log_and_its_record_can_be_read(tmp_path, keeping, make_stream, monkeypatch):
    monkeypatch.setattr(publishing_module, "FINISH", PATIENCE)
    await make_stream(keeping)
    publisher = EventPublisher(keeping, Log(None), host="a host")
    events = SpooledEvents(tmp_path / "spool", sender=publisher)
    hook = FunctionHook("look", {"before_tool": lambda _: None})
    async with Host([hook], listeners=[events, SpooledRecord(events)]) as host:
        await host.before_tool(CALL)
        await until(lambda: publisher.published)  # a host without a connection leaves its events to the next one
    await until(lambda: not os.listdir(tmp_path / "spool"))
    await consumed(keeping, AuditSink(tmp_path / "all.jsonl"))
    records = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [one["method"] for one in records] == ["host.start", "host.hook", "hook.before_tool", "host.stop"]
    assert {one["source"] for one in records} == {f"/picohook/{keeping.tenant}/hosts/a_x20host"}

    async with Connected(keeping) as connection:
        sink = RecordSink(tmp_path / "records", Log(None))
        consumer = Consumer(connection, sink, Log(None), name="records", tenant=keeping.tenant)
        await consumer.run(until_empty=True)
    sink.close()
    (file,) = (tmp_path / "records").iterdir()
    with file.open("rb") as stream:
        record = Record(stream, "record")
        assert len(list(record)) > 3
        assert record.closed


async def test_the_headers_are_those_of_cloudevents(tmp_path, keeping, make_stream):
    await make_stream(keeping)
    with publishing(Spool(tmp_path / "spool"), keeping) as publisher:
        put(publisher._spool, 1)
        await until(lambda: publisher.published == 1)
    async with Connected(keeping) as connection:
        name = streams.events_stream(keeping.tenant)
        message = await connection.run(lambda client: client.jetstream().get_msg(name, 1))
    headers = message.headers
    assert message.subject == f"picohook.v1.evt.{keeping.tenant}.s_x201.tool_exec_end.a_x20host"
    assert headers["ce-id"] == headers["Nats-Msg-Id"]
    shown = {name: headers[name] for name in ("ce-specversion", "ce-type", "ce-subject", "content-type")}
    assert shown == {
        "ce-specversion": "1.0",
        "ce-type": "picohook.hook.event",
        "ce-subject": "s_x201",
        "content-type": "application/json",
    }


@pytest.fixture
async def own_server(tmp_path, make_stream):
    """A server of the test's own, with a stream, and settings for it."""
    if program() is None:
        pytest.skip("needs nats-server: apt-get install nats-server, or name one in PICOHOOK_NATS_SERVER")
    server = Server("-js", "-sd", str(tmp_path / "js"))
    settings = NatsSettings(servers=(server.url,), tenant="t", host="host")
    try:
        await make_stream(settings)
        yield server, settings
    finally:
        server.kill()


async def test_no_event_is_lost_or_doubled_when_the_server_is_killed(tmp_path, own_server):
    server, settings = own_server
    with publishing(Spool(tmp_path / "spool"), settings) as publisher:
        put(publisher._spool, *range(1000))
        await until(lambda: publisher.published >= 300)
        server.kill()
        put(publisher._spool, *range(1000, 1500))
        server.start()
        await until(lambda: publisher.published == 1500)
    await consumed(settings, AuditSink(tmp_path / "all.jsonl"))
    assert Counter(numbers(tmp_path / "all.jsonl")) == Counter(range(1500))


async def test_events_are_sent_however_many_were_never_acknowledged(tmp_path, own_server, monkeypatch):
    server, settings = own_server
    monkeypatch.setattr(publishing_module, "ACK_TIMEOUT", 0.1)
    monkeypatch.setattr(publishing_module, "PAUSES", (0.0, 0.0))
    spool = Spool(tmp_path / "spool")
    attempts, rewind = [], spool.rewind
    monkeypatch.setattr(spool, "rewind", lambda: (attempts.append(1), rewind()))
    with publishing(spool, settings) as publisher:
        put(spool, 0)
        await until(lambda: publisher.published == 1)
        server.pause()
        put(spool, *range(1, 500))
        await until(lambda: len(attempts) >= 4)
        server.kill()
        server.start()
        monkeypatch.setattr(publishing_module, "ACK_TIMEOUT", PATIENCE)
        await until(lambda: publisher.published == 500)
    await consumed(settings, AuditSink(tmp_path / "all.jsonl"))
    assert sorted(numbers(tmp_path / "all.jsonl")) == list(range(500))


@pytest.mark.parametrize(
    ("limit", "size", "why"),
    [
        ("server", 1 << 20, "a message of N bytes is over the server's limit of N"),
        ("stream", 3000, "the stream PICOHOOK_EVENTS_{tenant}: message size exceeds maximum allowed"),
    ],
)
async def test_an_event_that_is_too_large_is_dropped_and_counted_and_the_others_are_sent(
    limit, size, why, *, tmp_path, keeping, make_stream
):
    await make_stream(keeping)
    if limit == "stream":
        async with Connected(keeping) as connection:
            small = streams.stream_config(keeping.tenant)
            small.max_msg_size = 2000
            await connection.run(lambda client: streams.define(client.jetstream(), small))
    with publishing(Spool(tmp_path / "spool"), keeping) as publisher:
        spool = publisher._spool
        put(spool, 1)
        put_large(spool, size)
        put(spool, 2)
        await until(lambda: publisher.published == 2)
        drops = spool.take_drops()
        assert drops.events == 1
        assert re.sub("[0-9]{7}", "N", drops.why) == why.format(tenant=keeping.tenant)
    await consumed(keeping, AuditSink(tmp_path / "all.jsonl"))
    assert numbers(tmp_path / "all.jsonl") == [1, 2]


async def test_events_wait_while_there_is_no_server_and_no_stream(tmp_path, keeping, make_stream, caplog):
    away = keeping.model_copy(update={"servers": ("nats://127.0.0.1:9",)})
    with publishing(Spool(tmp_path / "spool"), away) as publisher:
        put(publisher._spool, 1, 2)
    with publishing(Spool(tmp_path / "spool"), keeping) as publisher:
        put(publisher._spool, *range(3, 20))
        await until(lambda: "there is no stream" in publisher.last_error)
        await make_stream(keeping)
        await until(lambda: publisher.published == 19)
    await consumed(keeping, AuditSink(tmp_path / "all.jsonl"))
    assert numbers(tmp_path / "all.jsonl") == [*range(1, 20)]
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_only_the_stream_acknowledges_events(tmp_path, keeping, monkeypatch):
    monkeypatch.setattr(publishing_module, "ACK_TIMEOUT", 0.2)
    async with Connected(keeping) as connection:

        def answer(event):
            for data in (b"{}", b"[]", b'{"stream":"OTHER","seq":1}'):
                connection.publish(event.reply, data)

        await connection.listen(f"picohook.v1.evt.{keeping.tenant}.>", answer)
        await connection.flush()
        with publishing(Spool(tmp_path / "spool"), keeping) as publisher:
            put(publisher._spool, 1)
            await until(lambda: publisher.last_error)
            assert (publisher.last_error, publisher.published) == ("the server does not acknowledge them", 0)


def test_a_publisher_can_end_before_it_has_begun():
    EventPublisher(NatsSettings(servers=("nats://127.0.0.1:9",)), Log(None), host="a host").finish()


async def test_an_event_that_is_in_the_stream_twice_is_written_once_also_by_the_next_consumer(
    tmp_path, keeping, make_stream
):
    await make_stream(keeping)
    subject = f"picohook.v1.evt.{keeping.tenant}.-.x.h"

    async def publish(client):
        for number in range(2):
            unknown = {"Nats-Msg-Id": f"{os.urandom(8)}{number}"}
            headers = {"ce-id": "same", "ce-source": subjects.source(keeping.tenant, "h"), "ce-time": "now", **unknown}
            await client.jetstream().publish(subject, b'{"method":"x","n":1}', headers=headers)

    for _ in range(2):
        async with Connected(keeping) as connection:
            await connection.run(publish)
        await consumed(keeping, AuditSink(tmp_path / "all.jsonl"))
    assert numbers(tmp_path / "all.jsonl") == [1]
    with open(tmp_path / "all.jsonl", "rb") as file:
        assert verify(file).ok


@pytest.mark.parametrize(
    "dead",
    [
        ({"ce-id": "1"}, b"junk", "cannot be read"),
        ({"ce-id": "1"}, b"[]", "not a JSON object"),
        ({"x": "1"}, b"{}", "no header ce-id"),
        (
            {"ce-id": "1", "ce-source": "/picohook/t/hosts/other"},
            b"{}",
            "not from the host that it names as its source",
        ),
    ],
)
async def test_an_event_that_cannot_be_read_is_a_dead_letter_with_its_reason(tmp_path, keeping, make_stream, dead):
    headers, body, why = dead
    await make_stream(keeping)
    source = {"ce-source": subjects.source(keeping.tenant, "h")}
    js_subject = f"picohook.v1.evt.{keeping.tenant}.-.x.h"

    async def publish(client):
        await client.jetstream().publish(js_subject, body, headers=source | headers)
        await client.jetstream().publish(js_subject, b'{"method":"x","n":1}', headers=source | {"ce-id": "2"})

    async with Connected(keeping) as connection:
        await connection.run(publish)
    done = await consumed(keeping, AuditSink(tmp_path / "all.jsonl"))
    assert (done.taken, done.dead) == (1, 1)
    assert numbers(tmp_path / "all.jsonl") == [1]
    async with Connected(keeping) as connection:
        name, subject = streams.events_stream(keeping.tenant), f"picohook.v1.dead.{keeping.tenant}.audit"
        letter = await connection.run(lambda client: client.jetstream().get_last_msg(name, subject))
    assert letter.data == body
    assert why in letter.headers["picohook-why"]


async def test_the_largest_event_that_cannot_be_read_does_not_end_the_consumer(tmp_path, keeping, make_stream):
    await make_stream(keeping)
    subject = f"picohook.v1.evt.{keeping.tenant}.-.x.h"

    source = {"ce-source": subjects.source(keeping.tenant, "h")}

    async def publish(client):
        js = client.jetstream()
        await js.publish(subject, b"x" * (client.max_payload - 100), headers=source | {"ce-id": "1"})
        await js.publish(subject, b"x", headers=source | {"ce-id": "x" * 65_000})
        await js.publish(subject, b'{"method":"x","n":3}', headers=source | {"ce-id": "3"})

    async with Connected(keeping) as connection:
        await connection.run(publish)
    done = await consumed(keeping, AuditSink(tmp_path / "all.jsonl"))
    assert (done.taken, done.dead) == (1, 2)
    assert numbers(tmp_path / "all.jsonl") == [3]


async def test_a_consumer_waits_while_its_disk_is_full(tmp_path, keeping, make_stream, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.01)
    await make_stream(keeping)
    with publishing(Spool(tmp_path / "spool"), keeping) as publisher:
        put(publisher._spool, *range(50))
        await until(lambda: publisher.published == 50)
    add, failures = Ledger.add, iter([False, False, True, True, True] + [False] * 1000)

    def fail_at_times(ledger, method, about):
        if next(failures):
            raise OSError(28, "No space left on device")
        add(ledger, method, about)

    monkeypatch.setattr(Ledger, "add", fail_at_times)
    await consumed(keeping, AuditSink(tmp_path / "all.jsonl"))
    assert numbers(tmp_path / "all.jsonl") == list(range(50))


async def test_lines_are_cloudevents_in_structured_mode(tmp_path, keeping, make_stream):
    await make_stream(keeping)
    with publishing(Spool(tmp_path / "spool"), keeping) as publisher:
        put(publisher._spool, 7)
        await until(lambda: publisher.published == 1)
    await consumed(keeping, LineSink(os.open(tmp_path / "lines", os.O_WRONLY | os.O_CREAT)))
    (line,) = (tmp_path / "lines").read_text().splitlines()
    shown = json.loads(line)
    assert (shown["type"], shown["specversion"], shown["subject"]) == ("picohook.hook.event", "1.0", "s_x201")
    assert shown["data"] == {"method": "hook.event", "n": 7}
