"""Which payloads and events a hook wants to hear of."""

from __future__ import annotations

import pytest
from rows import each

from picohook.model.events import Event
from picohook.model.filters import Filter, exact
from picohook.model.payloads import LLMRequest, Meta, ToolCall, ToolResult, ToolReturn

CALL = ToolCall(
    tool="write_file",
    arguments={"path": "a"},
    tool_kind="write",
    channel="cli",
    meta=Meta(agent_id="main", iteration=1),
)


@each(
    ("pattern", "tools", "others"),
    [
        ("bash", ["bash"], ["Bash", "bash2", "a bash", ""]),
        ("bash|sh", ["bash", "sh"], ["bash|sh", "s"]),
        ("bash | sh", ["bash", "sh"], ["bash "]),
        ("mcp_*", ["mcp_", "mcp_files"], ["amcp_x", "mcp"]),
        ("read_?|[wx]_file", ["read_a", "w_file", "x_file"], ["read_", "read_ab", "wx_file"]),
        ("*", ["anything", ""], []),
        ("/(read|write)_.*/", ["read_a", "write_file"], ["xread_a", "read"]),
        ("/a|b/", ["a", "b"], ["ab", "/a"]),
        ("a.c", ["a.c"], ["abc"]),
        ("/", ["/"], [""]),
    ],
)
def test_a_tools_name_is_matched_whole(pattern, tools, others):
    matching = Filter(tool=pattern)
    assert all(matching.matches(ToolCall(tool=tool)) for tool in tools)
    assert not any(matching.matches(ToolCall(tool=tool)) for tool in others)


def test_a_newline_does_not_smuggle_a_name_past_the_end():
    assert not Filter(tool="bash").matches(ToolCall(tool="bash\n"))
    assert not Filter(tool="/bash/").matches(ToolCall(tool="bash\n"))


@pytest.mark.parametrize("names", ["a", "a|b", "a.b|*", "/x/|[c]"])
def test_an_exact_pattern_matches_these_names_and_nothing_else(names):
    matching = Filter(tool=exact(names))
    assert all(matching.matches(ToolCall(tool=name)) for name in names.split("|"))
    assert not matching.matches(ToolCall(tool="axb"))


def test_a_pattern_that_cannot_be_read_matches_every_tool_and_says_why():
    matching = Filter(tool="/(/")
    assert matching.unreadable == "unclosed group"
    assert matching.matches(CALL)
    assert not Filter(tool="/(/", channel="web").matches(CALL)


@each(
    ("settings", "matches"),
    [
        ({}, True),
        ({"channel": "cli"}, True), ({"channel": "web"}, False), ({"channel": ""}, False),
        ({"agent": "main"}, True), ({"agent": "other"}, False),
        ({"model": "gpt"}, False),
        ({"tool": "write_*", "channel": "cli", "agent": "main"}, True),
        ({"tool": "write_*", "channel": "cli", "agent": "other"}, False),
        ({"when": {"tool_kind": "write"}}, True), ({"when": {"tool_kind": "execute"}}, False),
        ({"when": {"nothing": None}}, True), ({"when": {"nothing": 1}}, False),
        ({"when": {"tool_kind": "write", "channel": "web"}}, False),
    ],
)  # fmt: skip
def test_all_parts_that_are_set_must_match(settings, matches):
    assert Filter(**settings).matches(CALL) is matches


def test_a_models_name_is_matched_by_its_beginning():
    assert Filter(model="gpt-5").matches(LLMRequest(model="gpt-5-mini"))
    assert not Filter(model="gpt-5").matches(LLMRequest(model="my-gpt-5"))


def test_fields_of_a_result_can_be_matched():
    failed = ToolReturn(tool="bash", result=ToolResult(is_error=True))
    assert Filter(when={"is_error": True}).matches(failed)
    assert not Filter(when={"is_error": False}).matches(failed)
    assert not Filter(when={"is_error": 1}).matches(failed)


@each(
    ("settings", "matches"),
    [
        ({}, True),
        ({"tool": "bash"}, True), ({"tool": "sh"}, False),
        ({"model": "gpt"}, False), ({"channel": "cli"}, False),
        ({"agent": "main"}, True),
        ({"when": {"IsError": True}}, True), ({"when": {"is_error": True}}, True), ({"when": {"is_error": False}}, False),
    ],
)  # fmt: skip
def test_an_event_is_matched_by_its_fields(settings, matches):
    event = Event("tool_exec_end", {"Tool": "bash", "IsError": True}, Meta(agent_id="main"))
    assert Filter(**settings).matches_event(event) is matches


def test_it_can_say_what_will_never_match():
    fields = {"tool": 1, "tool_kind": 1}
    wanted = Filter(tool="a", model="b", when={"tool_kind": 1, "is_error": 1, "nothing": 1})
    assert wanted.never_has(fields, {"is_error": 1}) == ["model", "when.nothing"]
    assert Filter(channel="a", agent="b").never_has({}, {}) == []
