"""An event's lines on the wire."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from rows import each

from picohook.errors import EncodeError
from picohook.model.events import Event, known_kind
from picohook.model.payloads import Meta, ToolCall
from picohook.wire import words

META = Meta(agent_id="agent", turn_id="turn", parent_turn_id="parent", session_key="session", trace_path="path")


def test_the_legacy_line_has_the_form_of_the_protocol():
    line = Event("tool_exec_start", {"Tool": "bash"}, META).line("legacy")
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "method": "hook.event",
        "params": {
            "Kind": "tool_exec_start",
            "Meta": {
                "AgentID": "agent", "TurnID": "turn", "ParentTurnID": "parent", "SessionKey": "session", "Iteration": 0,
                "TracePath": "path", "Source": "",
            },
            "Payload": {"Tool": "bash"},
        },
    }  # fmt: skip


@each("kind", sorted(words.EVENT_KINDS))
def test_the_runtime_line_has_all_its_fields_for_every_kind(kind):
    line = Event(kind, {"Tool": "bash"}, META).line("runtime")
    message = json.loads(line)
    params = message["params"]
    assert (message["method"], "id" in message) == ("hook.runtime_event", False)
    assert set(params) == {
        "id", "kind", "time", "source", "scope", "correlation", "severity", "payload", "attrs",
    }  # fmt: skip
    assert params["kind"] == words.EVENT_KINDS[kind]
    assert params["payload"] == {"Tool": "bash"}
    assert params["severity"] in {"info", "warn", "error"}
    assert datetime.fromisoformat(params["time"]).utcoffset() is not None
    assert params["scope"] == {"agent_id": "agent", "session_key": "session", "turn_id": "turn"}


@pytest.mark.parametrize("dialect", ["legacy", "runtime"])
def test_a_line_is_made_once_for_all_observers(dialect):
    event = Event("error", {"Stage": "x"}, META)
    assert event.line(dialect) is event.line(dialect)


@pytest.mark.parametrize("dialect", ["legacy", "runtime"])
def test_a_payload_without_a_json_form_is_an_encode_error(dialect):
    with pytest.raises(EncodeError):
        Event("error", {"Stage": float("nan")}, META).line(dialect)


def test_a_kind_is_known_by_both_of_its_names():
    for kind, dotted in words.EVENT_KINDS.items():
        assert known_kind(kind) == known_kind(dotted) == kind


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("tool_exec_strat", "did you mean 'tool_exec_start'?"),
        ("agent.tool.exec_stop", "did you mean 'agent.tool.exec_"),
        ("xyzzy", "there is no event kind 'xyzzy'$"),
        ("*", r"there is no event kind '\*'$"),
    ],
)
def test_an_unknown_kind_is_a_value_error_that_names_the_nearest(kind, said):
    with pytest.raises(ValueError, match=said):
        known_kind(kind)


def test_a_copy_of_an_event_keeps_the_place_and_shares_no_objects_with_its_payload():
    call = ToolCall(tool="bash", channel="telegram", chat_id="7", context={"inbound": {"topic_id": "3"}}, meta=META)
    event = Event("tool_exec_start", {"Tool": "bash"}, META, call)
    copy = event.deep_copy()
    assert json.loads(copy.line("runtime"))["params"]["scope"] == json.loads(event.line("runtime"))["params"]["scope"]
    assert json.loads(copy.line("runtime"))["params"]["scope"]["topic_id"] == "3"
    copy.about.context["inbound"].clear()
    assert call.context == {"inbound": {"topic_id": "3"}}
