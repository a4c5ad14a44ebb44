"""Payloads: their wire form, and that they stay what they were."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError
from rows import each

from picohook.model.decisions import Outcome
from picohook.model.payloads import LLMResponse, Meta, ToolCall, ToolResult, ToolReturn
from picohook.model.stages import STAGES
from picohook.model.trail import Notes, TrailEntry


@each("stage", sorted(STAGES))
def test_a_payload_reads_back_from_its_wire_form(payloads, stage):
    payload = payloads[stage]
    assert type(payload).model_validate(payload.wire()) == payload


def test_the_wire_form_has_the_protocols_names():
    wire = ToolReturn(
        meta=Meta(
            agent_id="a", turn_id="t", parent_turn_id="p", session_key="s", iteration=1, trace_path="r", source="x"
        ),
        tool="bash",
        result=ToolResult(async_=True),
    ).wire()
    assert wire == {
        "meta": {
            "AgentID": "a", "TurnID": "t", "ParentTurnID": "p", "SessionKey": "s", "Iteration": 1, "TracePath": "r",
            "Source": "x",
        },
        "channel": "",
        "chat_id": "",
        "tool": "bash",
        "arguments": {},
        "result": {
            "for_llm": "", "for_user": "", "silent": False, "is_error": False, "async": True, "media": [],
            "artifact_tags": [], "response_handled": False,
        },
        "duration": 0,
    }  # fmt: skip


def test_fields_that_were_not_given_are_not_sent():
    assert ToolCall(tool="bash").wire().keys() == {"meta", "channel", "chat_id", "tool", "arguments"}
    assert "messages" not in LLMResponse(response={}).wire()


def test_null_inside_a_payload_is_sent():
    assert ToolCall(tool="bash", arguments={"a": None}).wire()["arguments"] == {"a": None}


def test_both_names_of_a_field_are_taken():
    assert Meta.model_validate({"AgentID": "a", "iteration": 2}) == Meta(agent_id="a", iteration=2)


def test_a_misspelt_field_is_an_error():
    with pytest.raises(ValidationError, match="argumnets"):
        ToolCall(tool="bash", argumnets={})


def test_a_model_that_was_not_used_yet_has_its_signature():
    look = "import inspect, picohook; print(*inspect.signature(picohook.LLMResponse).parameters)"
    done = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    fields = ["meta", "context", "channel", "chat_id", "model", "response", "messages", "partial", "released"]
    assert done.stdout.split() == fields


@pytest.mark.parametrize(("field", "value"), [("tool", 1), ("arguments", []), ("tol", "bash")])
def test_a_wrong_value_that_is_assigned_to_a_payload_is_an_error(field, value):
    with pytest.raises(ValidationError, match=field):
        setattr(ToolCall(tool="bash"), field, value)


def test_a_meta_is_frozen_because_copies_of_payloads_share_it():
    with pytest.raises(ValidationError, match="frozen"):
        ToolCall(tool="bash").meta.turn_id = "t"


class TestTheWireFormOfAnOutcome:
    def test_it_has_what_there_is(self):
        notes = Notes("for the user", inject_messages=({"role": "user"},))
        trail = (
            TrailEntry("a", "modify", 0.0123456, None, notes, retries=2),
            TrailEntry("b", "", skipped=True),
            TrailEntry("c", "deny_tool", 1.0, "it broke"),
            TrailEntry("d", "deny_tool", 0.0, reason="too dangerous"),
        )
        call = ToolCall(tool="bash")
        outcome = Outcome(
            "approve_tool",
            "deny_tool",
            call,
            reason="no",
            trail=trail,
            approved=False,
            result=ToolResult(),
            feedback="again",
        )
        assert outcome.wire() == {
            "stage": "approve_tool",
            "action": "deny_tool",
            "payload": call.wire(),
            "approved": False,
            "result": ToolResult().wire(),
            "feedback": "again",
            "reason": "no",
            "trail": [
                {
                    "hook": "a", "action": "modify", "duration_ms": 12.346, "error": None, "retries": 2,
                    "notes": {"system_message": "for the user", "inject_messages": [{"role": "user"}]},
                },
                {"hook": "b", "action": "", "duration_ms": 0.0, "error": None, "skipped": True},
                {"hook": "c", "action": "deny_tool", "duration_ms": 1000.0, "error": "it broke"},
                {"hook": "d", "action": "deny_tool", "duration_ms": 0.0, "error": None, "reason": "too dangerous"},
            ],
        }  # fmt: skip
        assert outcome.notes == (notes,)

    def test_and_nothing_that_is_not_there(self):
        shown = Outcome("before_tool", "continue", ToolCall(tool="bash")).wire()
        assert shown.keys() == {"stage", "action", "payload", "reason", "trail"}
        assert shown["trail"] == []
