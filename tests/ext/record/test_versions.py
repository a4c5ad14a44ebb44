"""A record of every version of the format is read and replayed. `versions/N.jsonl` was written when N was the version."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest

from picohook import Continue, Deny, FunctionHook, Host, Modify, Notes, Retry
from picohook.ext.record.format import VERSION
from picohook.ext.record.reader import Record
from picohook.ext.record.replay import compared
from picohook.model.decisions import Pause

pytestmark = pytest.mark.anyio

VERSIONS = Path(__file__).parent / "versions"


def record(version):
    return Record(io.BytesIO((VERSIONS / f"{version}.jsonl").read_bytes()), f"{version}.jsonl")


def edits(call):
    notes = Notes("shown", "added", ({"role": "user", "content": "x"},))
    return Modify({"arguments": {"n": call.arguments["n"] * 2**64}}, notes=notes)


def divides_by_zero(_):
    raise ZeroDivisionError


def hooks():
    """The functions with which the records were made."""
    return [
        FunctionHook("filtered", {"before_tool": lambda _: Deny("never")}, filter={"tool": "web"}, priority=1),
        FunctionHook("edits", {"before_tool": edits}, priority=2),
        FunctionHook("asks", {"before_tool": lambda call: Pause("who is it?") if call.tool == "ask" else None}, priority=3),
        FunctionHook(
            "denies", {"before_tool": lambda call: Deny("no rm here") if call.tool == "rm" else None}, priority=4
        ),
        FunctionHook("approves", {"approve_tool": lambda call: call.tool == "ls"}),
        FunctionHook("breaks", {"after_tool": divides_by_zero}),
        FunctionHook("feedback", {"before_llm": lambda _: Retry("once more"), "after_llm": lambda _: Continue()}),
        FunctionHook(
            "answers", {"before_compact": lambda _: None, "before_prompt": lambda asked: Modify({"prompt": asked.prompt + "!"})}
        ),
        FunctionHook("shell", {"after_compact": lambda _: None}),
    ]  # fmt: skip


def test_there_is_a_record_of_every_version():
    assert {path.name for path in VERSIONS.iterdir()} == {f"{version}.jsonl" for version in range(1, VERSION + 1)}


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_a_record_of_every_version_is_read_to_its_end(version):
    source = record(version)
    kinds = Counter(line["type"] for line, _ in source)
    assert kinds == {
        "begin": 13,
        "ask": 19,
        "answer": 18,
        "end": 12,
        "abandoned": 1,
        "event": 1,
        "hook": 8,
        "wire": 5,
        "close": 1,
    }
    assert (source.header["version"], source.closed) == (version, True)


@pytest.mark.parametrize("version", range(1, VERSION + 1))
async def test_a_record_of_every_version_is_replayed_and_the_same_hooks_decide_the_same(version):
    counts = Counter()
    async with Host(hooks()) as host:
        found = [one async for one in compared(record(version), host, counts)]
    assert [one.changed for one in found] == [{}] * 11
    assert [one.recorded["action"] for one in found] == [
        "modify",
        "retry",
        "continue",
        "modify",
        "approved",
        "deny_tool",
        "denied",
        "pause",
        "continue",
        "continue",
        "continue",
    ]
    assert found[3].recorded["payload"]["arguments"] == {"n": 2**64}
    assert counts["not compared"] == 2
