"""What a host puts into its spool, and how it says what it dropped."""

from __future__ import annotations

import json

import pytest

from picohook import AuditLog, Continue, FunctionHook, Host, PicohookError
from picohook.listeners.events import SpooledEvents
from picohook.listeners.ledger import verify
from picohook.transport.nats.spool import Spool

pytestmark = pytest.mark.anyio
CALL = {"tool": "bash", "arguments": {"command": "ls"}, "meta": {"SessionKey": "s1"}}


def hook():
    return FunctionHook("look", {"before_tool": lambda _: Continue()})


def left(directory):
    spool = Spool(directory)
    try:
        return spool.read(100_000)
    finally:
        spool.close()
        spool.release()


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_events_are_the_records_of_an_audit_log(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl", key="k")
    async with Host([hook()], listeners=[log, SpooledEvents(tmp_path / "spool", key=b"k")]) as host:
        await host.before_tool(CALL)
        host.emit("tool_exec_end", {"Tool": "bash", "IsError": False})
    chained = {"number", "time", "previous", "hash", "duration_ms", "hooks"}
    logged = [{key: one[key] for key in one.keys() - chained} for one in records(tmp_path / "audit.jsonl")]
    events = left(tmp_path / "spool")
    bodies = [json.loads(event.body) for event in events]
    assert [{key: one[key] for key in one.keys() - chained} for one in bodies] == logged
    assert [event.head["kind"] for event in events] == [
        "host.start",
        "host.hook",
        "before_tool",
        "tool_exec_end",
        "host.stop",
    ]
    assert events[2].head["session"] == "s1"


async def test_dropped_events_are_counted_in_the_audit_log(tmp_path, monkeypatch):
    monkeypatch.setattr("picohook.listeners.events.AT_LEAST", 1e9)
    log = AuditLog(tmp_path / "audit.jsonl")
    events = SpooledEvents(tmp_path / "spool", most=3000, audit_logs=[log])
    async with Host([hook()], listeners=[log, events]) as host:
        for _ in range(50):
            outcome = await host.before_tool(CALL)
            assert outcome.action == "continue"
    with open(log.path, "rb") as file:
        assert verify(file).ok
    gaps = [one for one in records(tmp_path / "audit.jsonl") if one["method"] == "events.dropped"]
    everything = log.records - len(gaps)
    assert {one["why"] for one in gaps} == {"the spool is full"}
    assert gaps[0]["events"] == 1
    assert sum(one["events"] for one in gaps) + len(left(tmp_path / "spool")) == everything


async def test_events_after_a_gap_say_how_large_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("picohook.listeners.events.AT_LEAST", -1.0)
    events = SpooledEvents(tmp_path / "spool", most=3000)
    async with Host([hook()], listeners=[events]) as host:
        for _ in range(50):
            await host.before_tool(CALL)
        spool = events.spool
        assert spool.wait_kept(spool.put_count, 30)
        dropped = spool.dropped
        spool.acknowledge(spool.read(1000)[-1])
        await host.before_tool(CALL)
    bodies = [json.loads(event.body) for event in left(tmp_path / "spool")]
    gap = next(one for one in bodies if one["method"] == "events.dropped")
    assert gap == {"method": "events.dropped", "events": dropped - 1, "why": "the spool is full"}


async def test_a_host_whose_spool_cannot_be_used_does_not_start(tmp_path):
    (tmp_path / "spool").write_text("")
    with pytest.raises(PicohookError, match=r"the spool .* cannot be used"):
        async with Host([hook()], listeners=[SpooledEvents(tmp_path / "spool")]):
            pass


async def test_a_listener_of_one_host_is_refused_by_another(tmp_path):
    events = SpooledEvents(tmp_path / "spool")
    async with Host([hook()], listeners=[events]):
        pass
    with pytest.raises(PicohookError, match="another host"):
        async with Host([hook()], listeners=[events]):
            pass
