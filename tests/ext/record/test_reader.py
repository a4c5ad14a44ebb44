"""Records are read as they were written. A damaged one is refused with the line."""

from __future__ import annotations

import io
import json

import pytest
from rows import each

from picohook.ext.record.reader import Record, RecordError

HEADER = {"type": "record", "version": 1, "time": "now", "picohook": "0.1.0"}
BEGIN = {"type": "begin", "at": 0.0, "chain": 1, "stage": "before_tool", "params": {"tool": "t"}}
ASK = {"type": "ask", "at": 0.0, "chain": 1, "hook": "h"}
END = {"type": "end", "at": 0.0, "chain": 1, "action": "continue"}
CLOSE = {"type": "close", "at": 0.0}


def record(*lines, end=b"\n"):
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return Record(io.BytesIO(data + end), "r.jsonl")


DAMAGED = {
    "no JSON": (b"{", "EOF while parsing"),
    "no UTF-8": (b'{"\xff": 1}', "invalid unicode"),
    "a blank line": (b"", "EOF while parsing"),
    "a key twice": (b'{"type": "close", "at": 0.0, "at": 1.0}', "Detected duplicate key"),
    "an unknown type of line": ({"type": "bigin", "at": 0.0}, "type: is not a line of a record"),
    "no type": ({"at": 0.0}, "type: is not a line of a record"),
    "no object": ([], "type: is not a line of a record"),
    "a key too many": (CLOSE | {"x": 1}, "close.x: is no key of a record"),
    "a key too few": ({"type": "close"}, "close.at: is missing"),
    "a value of another type": (ASK | {"hook": 1}, "ask.hook: is no key of a record, or has a value of another type"),
    "an unknown stage": (BEGIN | {"chain": 9, "stage": "before"}, "there is no stage 'before'"),
    "params of another payload": (BEGIN | {"chain": 9, "params": {}}, "`tool`: Field required"),
    "params of an ask that are no payload": (ASK | {"params": {"tol": "t"}}, "`tool`: Field required"),
    "a chain that did not begin": (END | {"chain": 9}, "chain 9 is not under way"),
    "an unknown event": ({"type": "event", "at": 0.0, "event": "tea", "payload": {}}, "there is no event kind"),
    "unknown meta": (
        {"type": "event", "at": 0.0, "event": "turn_end", "payload": {}, "meta": {"Turn": 1}},
        "`Turn`: Extra inputs",
    ),
}


@each("case", DAMAGED)
def test_the_error_of_a_damaged_line_names_the_line_and_the_cause(case):
    line, why = DAMAGED[case]
    with pytest.raises(RecordError) as error:
        list(record(HEADER, BEGIN, line, CLOSE))
    assert str(error.value).startswith("r.jsonl: line 3 is damaged: ")
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "r.jsonl: is not a record"),
        (b"[hooks]\n", "r.jsonl: is not a record"),
        (b"[]\n", "r.jsonl: is not a record"),
        (b'{"type": "record", "version": 1}\n', "r.jsonl: is not a record"),
        (json.dumps(BEGIN).encode() + b"\n", "r.jsonl: is not a record"),
        (b"\x00" * 100_000, "r.jsonl: is not a record"),
        (
            json.dumps(HEADER | {"version": 2, "picohook": "9.0", "new": 1}).encode() + b"\n",
            "r.jsonl: is a record of version 2, made by picohook 9.0; this one reads version 1",
        ),
    ],
)
def test_a_file_that_is_not_a_record_of_this_version_is_refused_with_the_cause(data, why):
    with pytest.raises(RecordError) as error:
        Record(io.BytesIO(data), "r.jsonl")
    assert str(error.value).startswith(why)


def test_an_incomplete_last_line_is_skipped():
    cut = record(HEADER, BEGIN, json.dumps(END).encode()[:-5], end=b"")
    assert [line["type"] for line, _ in cut] == ["begin"]
    assert not cut.closed
    assert [*cut.open] == [1]


def test_a_complete_last_line_without_a_newline_is_read():
    whole = record(HEADER, BEGIN, END, CLOSE, end=b"")
    assert len(list(whole)) == 3
    assert (whole.closed, whole.open) == (True, {})


def test_a_record_is_read_as_it_is_iterated_over_and_ended_chains_are_dropped():
    def lines():
        yield json.dumps(HEADER)
        yield json.dumps(BEGIN | {"chain": 0})
        for number in range(1, 500):
            yield json.dumps(BEGIN | {"chain": number})
            yield json.dumps(END | {"chain": number})

    file = io.BytesIO("".join(f"{line}\n" for line in lines()).encode())
    source = Record(file, "r.jsonl")
    most = place = 0
    for _ in source:
        assert file.tell() > place
        place = file.tell()
        most = max(most, len(source.open))
    assert most == 2


def test_an_event_has_its_meta_and_its_hooks():
    meta = {"SessionKey": "s1", "Iteration": 2}
    event = {"type": "event", "at": 0.0, "event": "turn_end", "payload": {"n": 2**70}, "meta": meta, "hooks": ["a"]}
    ((told, chain),) = list(record(HEADER, event))
    assert (told, chain) == (event, None)
