"""j-cli's contract as it is written down: the fields of its contexts, row by row, and what each field of a result does."""

from __future__ import annotations

import json

import pytest
from rows import each

from picohook import AbortTurn, Continue, Deny, Modify, Notes, Retry, Skip
from picohook.ext.jcli import contract as jcli
from picohook.hooks.command import read_result
from picohook.model.apply_edit import apply_edit
from picohook.model.events import Event
from picohook.model.payloads import (
    Compaction,
    Finish,
    LLMRequest,
    LLMResponse,
    Meta,
    Prompt,
    ToolCall,
    ToolResult,
    ToolReturn,
)
from picohook.model.stages import STAGES

META = Meta(session_key="s1")
MESSAGES = [{"role": "user", "content": "hello"}]
ARGUMENTS = {"command": "ls", "depth": 12345678901234567890}
RETURNED = ToolReturn(meta=META, tool="Bash", arguments=ARGUMENTS, result=ToolResult(for_llm="a.txt"))
FAILED = RETURNED.model_copy(update={"result": ToolResult(for_llm="no such file", is_error=True), "error": "OSError"})
ABOUT = {"meta": META, "messages": MESSAGES, "system_prompt": "be kind", "model": "gpt-4o"}

PAYLOADS = {
    "pre_send_message": ("before_prompt", Prompt(meta=META, prompt="hello", messages=MESSAGES)),
    "pre_llm_request": ("before_llm", LLMRequest(**ABOUT)),
    "post_llm_response": (
        "after_llm",
        LLMResponse(meta=META, model="gpt-4o", response={"content": "hi", "tool_calls": []}, messages=MESSAGES),
    ),
    "pre_tool_execution": ("before_tool", ToolCall(meta=META, tool="Bash", arguments=ARGUMENTS)),
    "post_tool_execution": ("after_tool", RETURNED),
    "post_tool_execution_failure": ("after_tool", FAILED),
    "stop": ("before_finish", Finish(prompt="hello", response={"content": "hi"}, **ABOUT)),
    "pre_micro_compact": ("before_compact", Compaction(scope="micro", **ABOUT)),
    "post_micro_compact": ("after_compact", Compaction(scope="micro", **ABOUT)),
    "pre_auto_compact": ("before_compact", Compaction(scope="auto", **ABOUT)),
    "post_auto_compact": ("after_compact", Compaction(scope="auto", **ABOUT)),
}

READABLE = {
    "pre_send_message": {"user_input": "hello", "messages": MESSAGES},
    "pre_llm_request": {"messages": MESSAGES, "system_prompt": "be kind", "model": "gpt-4o"},
    "post_llm_response": {"assistant_output": "hi", "messages": MESSAGES, "model": "gpt-4o"},
    "pre_tool_execution": {"tool_name": "Bash", "tool_arguments": '{"command":"ls","depth":12345678901234567890}'},
    "post_tool_execution": {"tool_name": "Bash", "tool_result": "a.txt"},
    "post_tool_execution_failure": {"tool_name": "Bash", "tool_error": "no such file"},
    "stop": {
        "user_input": "hello",
        "assistant_output": "hi",
        "messages": MESSAGES,
        "system_prompt": "be kind",
        "model": "gpt-4o",
    },
    "pre_micro_compact": {"messages": MESSAGES, "model": "gpt-4o"},
    "post_micro_compact": {"messages": MESSAGES},
    "pre_auto_compact": {"messages": MESSAGES, "system_prompt": "be kind", "model": "gpt-4o"},
    "post_auto_compact": {"messages": MESSAGES},
}


def decide(event, result):
    stage, payload = PAYLOADS[event]
    return jcli.decide(STAGES[stage], payload, result)


def after(event, result):
    """The payload with what the result replaces."""
    stage, payload = PAYLOADS[event]
    decision = decide(event, result)
    assert isinstance(decision, Modify)
    return apply_edit(STAGES[stage], payload, decision.changes, decision.patch)


# Contexts.


@each("event", PAYLOADS)
def test_a_context_has_exactly_the_fields_of_its_row(event):
    stage, payload = PAYLOADS[event]
    assert jcli.question(STAGES[stage], payload, "/work")[1] == {
        "event": event,
        **READABLE[event],
        "session_id": "s1",
        "cwd": "/work",
    }


def test_fields_that_the_runtime_did_not_give_are_left_out():
    request = LLMRequest(messages=MESSAGES)
    assert jcli.question(STAGES["before_llm"], request, "/work")[1] == {
        "event": "pre_llm_request",
        "messages": MESSAGES,
        "cwd": "/work",
    }


def test_an_error_without_a_result_for_the_model_is_passed_on_as_it_was_raised():
    payload = FAILED.model_copy(update={"result": ToolResult(is_error=True)})
    assert jcli.question(STAGES["after_tool"], payload, "/work")[1]["tool_error"] == "OSError"


def test_every_event_of_the_document_has_a_stage_or_is_observed():
    assert {*jcli.EVENTS, *jcli.TOLD} == {*READABLE, "session_start", "session_end", "post_send_message"}
    assert {event: stage for event, (stage, _) in jcli.EVENTS.items()} == {
        e: stage for e, (stage, _) in PAYLOADS.items()
    }


@pytest.mark.parametrize(
    ("kind", "event", "fields"),
    [
        ("session_start", "session_start", {"messages": MESSAGES}),
        ("session_end", "session_end", {"messages": MESSAGES}),
        ("prompt_sent", "post_send_message", {"user_input": "hello", "messages": MESSAGES}),
    ],
)
def test_what_is_only_told(kind, event, fields):
    told = Event(kind, {"UserMessage": "hello", "Messages": MESSAGES, "SessionKey": "s1"}, META)
    assert jcli.event(told, "legacy", "/work")[1] == {"event": event, **fields, "session_id": "s1", "cwd": "/work"}


def test_an_event_that_j_cli_does_not_have_comes_with_its_payload():
    told = Event("tool_exec_end", {"Tool": "Bash", "IsError": True}, Meta())
    assert jcli.event(told, "legacy", "/work")[1] == {
        "event": "tool_exec_end",
        "payload": {"Tool": "Bash", "IsError": True},
        "cwd": "/work",
    }


# What a result replaces.


def test_user_input_replaces_the_message():
    assert after("pre_send_message", {"user_input": "[12:00] hello"}).prompt == "[12:00] hello"


def test_assistant_output_replaces_the_answer_and_leaves_the_rest_of_it():
    edited = after("post_llm_response", {"assistant_output": "***"})
    assert edited.response == {"content": "***", "tool_calls": []}


def test_messages_and_system_prompt_replace_those_of_the_request():
    other = [{"role": "user", "content": "other"}]
    edited = after("pre_llm_request", {"messages": other, "system_prompt": "be brief"})
    assert (edited.messages, edited.system_prompt) == (other, "be brief")


@pytest.mark.parametrize("given", ['{"command": "pwd"}', {"command": "pwd"}], ids=["string", "object"])
def test_tool_arguments_replace_the_arguments(given):
    assert after("pre_tool_execution", {"tool_arguments": given}).arguments == {"command": "pwd"}


def test_a_large_number_in_tool_arguments_stays_exact():
    arguments = '{"id": 12345678901234567890123}'
    assert after("pre_tool_execution", {"tool_arguments": arguments}).arguments == {"id": 12345678901234567890123}


def test_tool_result_replaces_the_result_for_the_model():
    assert after("post_tool_execution", {"tool_result": "***"}).result == ToolResult(for_llm="***")


def test_tool_error_replaces_the_error_for_the_model_and_stays_an_error():
    edited = after("post_tool_execution_failure", {"tool_error": "try again"})
    assert edited.result == ToolResult(for_llm="try again", is_error=True)


@pytest.mark.parametrize("event", ["post_micro_compact", "post_auto_compact"])
def test_messages_replace_the_compacted_messages(event):
    assert after(event, {"messages": []}).messages == []


FIELDS = {
    "user_input": "x",
    "assistant_output": "x",
    "messages": [],
    "system_prompt": "x",
    "tool_arguments": "{}",
    "tool_result": "x",
    "tool_error": "x",
}


@each("event", PAYLOADS)
@each("field", FIELDS)
def test_a_field_is_used_only_at_the_events_in_the_table(event, field):
    decision = decide(event, {field: FIELDS[field]})
    if field in jcli.EDITS.get(event, ()):
        assert isinstance(decision, Modify)
        assert jcli.ignored(event, {field: FIELDS[field]})[0] == []
    else:
        assert decision == Continue()
        assert jcli.ignored(event, {field: FIELDS[field]})[0] == [field]


@each("event", PAYLOADS)
def test_an_empty_result_and_a_result_of_nulls_change_nothing(event):
    assert decide(event, {}) == Continue()
    assert decide(event, dict.fromkeys(jcli.RESULT)) == Continue()


# What a result adds.


@each("event", PAYLOADS)
def test_notes_go_with_every_decision_at_every_event(event):
    given = {
        "system_message": "look here",
        "additional_context": "be careful",
        "inject_messages": [{"role": "user", "content": "by the way"}],
    }
    notes = Notes("look here", "be careful", ({"role": "user", "content": "by the way"},))
    assert decide(event, given).notes == notes
    assert decide(event, {**given, "action": "stop"}).notes == notes


# What a result decides.

ROUNDS = {"pre_send_message", "pre_llm_request", "post_llm_response", "stop"}
COMPACTIONS = {"pre_micro_compact", "pre_auto_compact"}


@each("event", PAYLOADS)
@each("result", [{"action": "stop"}, {"abort": True}])
def test_stop_ends_the_turn_or_only_the_compaction(event, result):
    assert isinstance(decide(event, result), Skip if event in COMPACTIONS else AbortTurn)


@each("event", PAYLOADS)
@each("stop", [{"action": "stop"}, {"abort": True}])
def test_stop_with_feedback_is_another_round_where_there_are_rounds(event, stop):
    decision = decide(event, {**stop, "retry_feedback": "no passwords"})
    if event in ROUNDS:
        assert decision == Retry("no passwords")
    else:
        assert isinstance(decision, Skip if event in COMPACTIONS else AbortTurn)
        assert decision.reason == "no passwords"


@each("event", PAYLOADS)
def test_feedback_alone_asks_for_another_round_too(event):
    decision = decide(event, {"retry_feedback": "no passwords"})
    assert decision == (Retry("no passwords") if event in ROUNDS else Continue())


@each("event", PAYLOADS)
def test_skip_works_for_tools_and_compactions_only(event):
    if event == "pre_tool_execution":
        assert decide(event, {"action": "skip"}) == Deny(reason="the tool was skipped")
        assert decide(event, {"action": "skip", "retry_feedback": "use rm -i"}) == Deny(reason="use rm -i")
    elif event in COMPACTIONS:
        assert isinstance(decide(event, {"action": "skip"}), Skip)
    else:
        with pytest.raises(ValueError, match=f'"skip" skips a tool or a compaction, and this is {event}'):
            decide(event, {"action": "skip"})


def test_abort_false_and_an_empty_action_continue():
    assert decide("pre_tool_execution", {"abort": False, "action": ""}) == Continue()


def test_a_result_that_ends_something_changes_nothing_else():
    assert decide("pre_send_message", {"user_input": "x", "action": "stop", "retry_feedback": "y"}) == Retry("y")
    assert isinstance(decide("pre_tool_execution", {"tool_arguments": "{}", "action": "skip"}), Deny)


# What is no result.


@each(
    ("event", "result", "complaint"),
    [
        ("pre_send_message", {"user_input": 5}, "`user_input` is a number, not a string"),
        ("pre_llm_request", {"messages": "hello"}, "`messages` is not a list of objects"),
        ("pre_llm_request", {"messages": ["hello"]}, "`messages` is not a list of objects"),
        ("pre_llm_request", {"inject_messages": {}}, "`inject_messages` is not a list of objects"),
        ("pre_tool_execution", {"tool_arguments": "ls -l"}, "`tool_arguments` is not JSON"),
        ("pre_tool_execution", {"tool_arguments": '["ls"]'}, "`tool_arguments` is not a JSON object"),
        ("pre_tool_execution", {"tool_arguments": '{"a": 1, "a": 2}'}, "Detected duplicate key"),
        ("pre_tool_execution", {"action": "continue"}, 'neither "stop" nor "skip"'),
        ("pre_tool_execution", {"action": ["stop"]}, 'neither "stop" nor "skip"'),
        ("pre_tool_execution", {"action": True}, 'neither "stop" nor "skip"'),
        ("pre_tool_execution", {"abort": "yes"}, "`abort` is neither true nor false"),
        ("stop", {"retry_feedback": ["x"]}, "`retry_feedback` is a list, not a string"),
        ("post_tool_execution", {"system_message": 1}, "`system_message` is a number, not a string"),
    ],
)
def test_a_meaningless_result_is_a_failure(event, result, complaint):
    with pytest.raises(ValueError, match=complaint):
        decide(event, result)


@pytest.mark.parametrize("text", [b"", b"  \n", b"{}", b" {} \n"])
def test_no_output_is_an_empty_result(text):
    assert read_result(text) == {}


@each(
    "text",
    [b"ok", b"null", b"[]", b'"stop"', b"{}{}", b"{} done", b'{"a": NaN}', b'{"a": 1e999}', b'{"a":1,"a":1}', b"\xff",
     b'{"action":"stop","action":"skip"}', b'{"a": "\\ud800"}', b"\xef\xbb\xbf{}"],
)  # fmt: skip
def test_other_output_is_not_a_result(text):
    with pytest.raises(ValueError, match="its output is"):
        read_result(text)


# Approvals, which j-cli does not have.


def test_an_approval_is_asked_for_in_the_same_form_and_answered_with_yes():
    payload = PAYLOADS["pre_tool_execution"][1]
    stage = STAGES["approve_tool"]
    context = jcli.question(stage, payload, "/work")[1]
    assert context["event"] == "approve_tool"
    assert json.loads(context["tool_arguments"]) == ARGUMENTS
    assert type(jcli.decide(stage, payload, {"approved": True})).__name__ == "Approve"
    assert jcli.decide(stage, payload, {"approved": False, "reason": "no"}) == Deny(reason="no")


@pytest.mark.parametrize("result", [{}, {"approved": "yes"}, {"approved": 1}, {"Approved": True}, {"approved": None},
                                    {"approved": True, "action": "stop"}])  # fmt: skip
def test_anything_else_does_not_approve(result):
    with pytest.raises(ValueError, match=r"approv"):
        jcli.decide(STAGES["approve_tool"], PAYLOADS["pre_tool_execution"][1], result)
