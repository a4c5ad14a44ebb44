"""What an edit makes of a payload: what can be changed, what stays, and in which shapes it comes."""

from __future__ import annotations

import copy
import json
from typing import get_args

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError
from rows import each

from picohook.model.apply_edit import apply_edit, restrict
from picohook.model.payloads import LLMRequest, ToolCall, ToolResult
from picohook.model.stages import (
    AFTER_LLM,
    AFTER_TOOL,
    APPROVE_TOOL,
    BEFORE_COMPACT,
    BEFORE_FINISH,
    BEFORE_LLM,
    BEFORE_PROMPT,
    BEFORE_TOOL,
    STAGES,
)
from picohook.model.trail import OutcomeAction
from picohook.wire.merge import merge_patch

INTERCEPTS = sorted(set(STAGES) - {"approve_tool"})


def test_a_stage_is_known_by_its_name_and_has_its_method():
    for name, stage in STAGES.items():
        assert stage.name == name
        assert stage.method == f"hook.{name}"
        assert stage.approves is (stage is APPROVE_TOOL)


class TestEdit:
    def test_a_field_that_is_given_replaces_and_the_others_stay(self, payloads):
        call = payloads["before_tool"]
        edited = apply_edit(BEFORE_TOOL, call, {"arguments": {"command": "pwd"}})
        assert edited.arguments == {"command": "pwd"}
        assert edited == call.model_copy(update={"arguments": {"command": "pwd"}})

    @each("name", sorted(STAGES))
    def test_null_and_nothing_stay(self, payloads, name):
        stage, payload = STAGES[name], payloads[name]
        assert apply_edit(stage, payload, {}) is payload
        assert apply_edit(stage, payload, dict.fromkeys(type(payload).model_fields)) is payload
        assert apply_edit(stage, payload, {}, {}) is payload

    @each("name", sorted(STAGES))
    def test_an_unchanged_payload_is_not_a_change(self, payloads, name):
        stage, payload = STAGES[name], payloads[name]
        echo = json.loads(json.dumps(payload.wire()))
        assert apply_edit(stage, payload, echo) is payload
        assert apply_edit(stage, payload, {**echo, "unknown": 1}) is payload
        assert apply_edit(stage, payload, {}, echo) is payload

    @each("name", sorted(STAGES))
    def test_where_it_comes_from_and_which_call_it_is_cannot_be_changed(self, payloads, name):
        stage, payload = STAGES[name], payloads[name]
        other = {
            "meta": {"AgentID": "x", "SessionKey": "other"},
            "context": {"trusted": False},
            "tool_call_id": "call-2",
        }
        for edited in (
            apply_edit(stage, payload, {**payload.wire(), **other}),
            apply_edit(stage, payload, {}, {**payload.wire(), **other}),
            apply_edit(stage, payload, {}, {**payload.wire(), **dict.fromkeys(other)}),
        ):
            assert edited.meta == payload.meta
            assert edited.context == payload.context
            assert getattr(edited, "tool_call_id", None) == getattr(payload, "tool_call_id", None)
        if stage.part != "response":  # a response is any object, and may have fields of these names
            with pytest.raises(ValueError, match=f"{name} cannot change `meta`, `context`, `tool_call_id`"):
                apply_edit(stage, payload, other)

    def test_a_missing_context_or_id_cannot_be_added(self):
        call = ToolCall(tool="bash")
        added = {"context": {"trusted": True}, "tool_call_id": "call-2"}
        assert apply_edit(BEFORE_TOOL, call, {"tool": "bash", **added}) is call
        for edit in ((added,), ({}, added)):
            with pytest.raises(ValueError, match="before_tool cannot change `context`, `tool_call_id`"):
                apply_edit(BEFORE_TOOL, call, *edit)

    @each("name", sorted(STAGES))
    def test_the_payload_itself_is_never_touched(self, payloads, name):
        stage, payload = STAGES[name], payloads[name]
        before = copy.deepcopy(payload)
        changes = {"messages": [], "arguments": {}, "for_llm": "new", "content": "new", "prompt": "new"}
        apply_edit(stage, payload, changes)
        apply_edit(
            stage, payload, {}, {"arguments": {"deep": None}, "messages": None, "for_user": None, "content": None}
        )
        assert payload == before

    @pytest.mark.parametrize("name", ["before_prompt", "before_finish", "before_compact", "after_compact"])
    def test_only_the_fields_of_a_stage_can_be_edited(self, payloads, name):
        stage, payload = STAGES[name], payloads[name]
        fields = {"before_prompt": {"prompt", "messages"}}.get(name, {"messages"})
        changed = {
            "prompt": "new", "messages": [{"role": "user", "content": "new"}], "response": {}, "scope": "auto",
            "system_prompt": "new", "model": "new", "channel": "new", "chat_id": "new",
        }  # fmt: skip
        edited = apply_edit(stage, payload, changed)
        different = {key for key in type(payload).model_fields if getattr(edited, key) != getattr(payload, key)}
        assert different == fields

    def test_everything_else_of_a_call_can_be(self, payloads):
        changes = {
            "tool": "sh", "arguments": {}, "tool_kind": "write", "affected_paths": [], "channel": "web", "chat_id": "c2",
        }  # fmt: skip
        edited = apply_edit(BEFORE_TOOL, payloads["before_tool"], changes)
        assert {key: getattr(edited, key) for key in changes} == changes

    def test_everything_else_of_a_request_can_be(self, payloads):
        changes = {
            "model": "n", "messages": [], "tools": [], "options": {}, "system_prompt": "new", "graceful_terminal": True,
            "channel": "web", "chat_id": "c2",
        }  # fmt: skip
        edited = apply_edit(BEFORE_LLM, payloads["before_llm"], changes)
        assert {key: getattr(edited, key) for key in changes} == changes

    @each(
        ("name", "changes"),
        [
            ("before_tool", {"tool": 5}),
            ("before_tool", {"arguments": "rm"}),
            ("before_tool", {"arguments": [1]}),
            ("before_tool", {"tool_kind": "harmless"}),
            ("before_tool", {"affected_paths": "all"}),
            ("before_llm", {"messages": {}}),
            ("before_llm", {"messages": ["hello"]}),
            ("before_llm", {"tools": "none"}),
            ("before_llm", {"model": ["a"]}),
            ("before_prompt", {"prompt": {"text": "x"}}),
            ("before_finish", {"messages": "none"}),
            ("before_compact", {"messages": [1]}),
            ("after_tool", {"for_llm": 5}),
            ("after_tool", {"media": "a.png"}),
            ("after_tool", {"result": {"for_user": ["x"]}}),
        ],
    )
    def test_an_edit_that_does_not_leave_a_payload_is_a_value_error(self, payloads, name, changes):
        with pytest.raises(ValidationError):
            apply_edit(STAGES[name], payloads[name], changes)

    @each(("before", "after"), [(1, True), (0, False), (True, 1), (False, 0), (1.0, True)])
    @each("around", [lambda value: value, lambda value: [{"b": value}]])
    def test_true_is_not_1(self, before, after, around):
        call = ToolCall(tool="x", arguments={"flag": around(before), "same": 1})
        edited = apply_edit(BEFORE_TOOL, call, {"arguments": {"flag": around(after), "same": 1}})
        assert repr(edited.arguments["flag"]) == repr(around(after))

    def test_equal_numbers_are_not_a_change(self):
        call = ToolCall(tool="x", arguments={"n": 1.0})
        assert apply_edit(BEFORE_TOOL, call, {"arguments": {"n": 1}}) is call

    def test_a_tuple_from_the_embedder_is_compared_too(self):
        call = ToolCall(tool="x", arguments={"n": (1, 2)})
        assert apply_edit(BEFORE_TOOL, call, {"arguments": {"n": (1, 2)}}) is call
        assert apply_edit(BEFORE_TOOL, call, {"arguments": {"n": (True, 2)}}).arguments["n"][0] is True


class TestBothShapes:
    """A part comes as itself, or inside all the params under its own name."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"for_llm": "new", "silent": True},
            {"result": {"for_llm": "new", "silent": True}},
            {
                "tool": "bash",
                "arguments": {"command": "rm"},
                "duration": 9,
                "result": {"for_llm": "new", "silent": True},
            },
            {"for_llm": "new", "silent": True, "for_user": None, "unknown": 1},
        ],
        ids=["flat", "nested", "all params", "with null and more"],
    )
    def test_of_after_tool(self, payloads, changes):
        returned = payloads["after_tool"]
        edited = apply_edit(AFTER_TOOL, returned, changes)
        assert edited.result == ToolResult(for_llm="new", for_user="shown", silent=True, media=["a.png"])
        assert edited == returned.model_copy(update={"result": edited.result})

    @pytest.mark.parametrize(
        "changes",
        [
            {"content": "new"},
            {"response": {"content": "new"}},
            {"model": "x", "messages": [], "response": {"content": "new"}},
        ],
        ids=["flat", "nested", "all params"],
    )
    def test_of_after_llm(self, payloads, changes):
        answer = payloads["after_llm"]
        edited = apply_edit(AFTER_LLM, answer, changes)
        assert edited.response == {"content": "new", "tool_calls": []}
        assert edited == answer.model_copy(update={"response": edited.response})

    def test_the_wire_name_async_is_the_field(self, payloads):
        assert apply_edit(AFTER_TOOL, payloads["after_tool"], {"async": True}).result.async_ is True

    @pytest.mark.parametrize("nest", [lambda patch: patch, lambda patch: {"result": patch}], ids=["flat", "nested"])
    def test_of_a_patch(self, payloads, nest):
        edited = apply_edit(AFTER_TOOL, payloads["after_tool"], {}, nest({"for_user": None, "is_error": True}))
        assert edited.result == ToolResult(for_llm="out", is_error=True, media=["a.png"])


class TestPatch:
    def test_it_merges_deep_and_null_removes(self, payloads):
        patch = {"arguments": {"command": "pwd", "deep": {"a": None, "b": 1}}, "affected_paths": None}
        edited = apply_edit(BEFORE_TOOL, payloads["before_tool"], {}, patch)
        assert edited.arguments == {"command": "pwd", "big": 2**63 + 1, "deep": {"b": 1}}
        assert edited.affected_paths is None

    def test_fields_that_it_does_not_mention_stay_exact(self, payloads):
        edited = apply_edit(BEFORE_TOOL, payloads["before_tool"], {}, {"arguments": {"command": "pwd"}})
        assert edited.arguments["big"] == 2**63 + 1

    def test_it_comes_on_top_of_the_changes(self, payloads):
        edited = apply_edit(
            BEFORE_TOOL, payloads["before_tool"], {"arguments": {"a": 1, "b": 2}}, {"arguments": {"b": None}}
        )
        assert edited.arguments == {"a": 1}

    def test_removing_a_required_field_is_a_value_error(self, payloads):
        with pytest.raises(ValidationError):
            apply_edit(BEFORE_TOOL, payloads["before_tool"], {}, {"tool": None})

    def test_removing_a_field_with_a_default_gives_the_default(self, payloads):
        assert apply_edit(BEFORE_LLM, payloads["before_llm"], {}, {"tools": None}).tools == []
        assert apply_edit(BEFORE_PROMPT, payloads["before_prompt"], {}, {"messages": None}).messages == []
        assert apply_edit(BEFORE_FINISH, payloads["before_finish"], {}, {"messages": None}).messages == []
        assert apply_edit(BEFORE_COMPACT, payloads["before_compact"], {}, {"messages": None}).messages == []


RFC_7396_APPENDIX_A = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]


@each(("original", "patch", "result"), RFC_7396_APPENDIX_A)
def test_a_merge_patch_works_as_in_the_rfc(original, patch, result):
    target = json.loads(original)
    assert merge_patch(target, json.loads(patch)) == json.loads(result)
    assert target == json.loads(original)


def test_the_rfcs_example_document():
    target = {
        "title": "Goodbye!",
        "author": {"givenName": "John", "familyName": "Doe"},
        "tags": ["example", "sample"],
        "content": "This will be unchanged",
    }
    patch = {"title": "Hello!", "phoneNumber": "+01-123-456-7890", "author": {"familyName": None}, "tags": ["example"]}
    assert merge_patch(target, patch) == {
        "title": "Hello!",
        "author": {"givenName": "John"},
        "tags": ["example"],
        "content": "This will be unchanged",
        "phoneNumber": "+01-123-456-7890",
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


def without_null(value):
    if isinstance(value, dict):
        return {key: without_null(one) for key, one in value.items() if one is not None}
    return value


@given(values, values)
def test_a_merge_patch_is_idempotent_and_leaves_the_target_alone(target, patch):
    before = copy.deepcopy(target)
    merged = merge_patch(target, patch)
    assert target == before
    assert merge_patch(merged, patch) == merged
    assert merge_patch({}, patch) == without_null(patch)


REQUEST = LLMRequest(
    messages=[
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello"},
    ],
    tools=[{"name": "bash"}],
    system_prompt="be brief",
)
CHANGES = {
    "tools": ({"tools": []}, ["tools"]),
    "system prompt": ({"system_prompt": "be rude"}, ["system_prompt"]),
    "system message": (
        {"messages": [{"role": "system", "content": "be rude"}, {"role": "user", "content": "hello"}]},
        ["system messages"],
    ),
    "message": (
        {"messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "bye"}]},
        ["messages"],
    ),
    "both kinds of messages": ({"messages": []}, ["system messages", "messages"]),
}


class TestRestrict:
    @each("may_edit", [(), ("tools",), ("system",), ("messages",), ("tools", "messages"), ("system", "messages")])
    @each("name", CHANGES)
    def test_forbidden_edits_are_reverted_and_named(self, name, may_edit):
        changes, refused = CHANGES[name]
        names = {"tools": "tools", "system_prompt": "system", "system messages": "system", "messages": "messages"}
        expected = [one for one in refused if names[one] not in may_edit]
        left, said = restrict(REQUEST, apply_edit(BEFORE_LLM, REQUEST, changes), may_edit)
        assert said == expected
        assert (left is REQUEST) is bool(expected)

    def test_allowed_edits_stay_when_others_are_reverted(self):
        changed = apply_edit(BEFORE_LLM, REQUEST, {"model": "n", "tools": [], "system_prompt": "be rude"})
        left, said = restrict(REQUEST, changed, ("tools",))
        assert said == ["system_prompt"]
        assert left == REQUEST.model_copy(update={"model": "n", "tools": []})

    def test_a_hook_that_may_edit_tools_may_add_a_tool(self):
        tools = [*REQUEST.tools, {"name": "weather"}]
        left, said = restrict(REQUEST, apply_edit(BEFORE_LLM, REQUEST, {"tools": tools}), ("tools",))
        assert (left.tools, said) == (tools, [])

    def test_with_no_change_nothing_is_refused(self):
        assert restrict(REQUEST, REQUEST, ()) == (REQUEST, [])

    def test_it_applies_to_no_other_stage(self, payloads):
        call = payloads["before_tool"]
        edited = apply_edit(BEFORE_TOOL, call, {"arguments": {}})
        assert restrict(call, edited, ()) == (edited, [])


def test_the_type_of_actions_has_every_action_of_every_stage():
    assert set(get_args(OutcomeAction)) == set().union(*(stage.actions for stage in STAGES.values()))
