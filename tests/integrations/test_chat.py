"""The changes of hooks to an answer and to tools, as the integrations apply them to a framework's own objects."""

from __future__ import annotations

import pytest

from picohook import LLMRequest, PicohookError
from picohook.integrations import chat

CALL = chat.function_call("read", "{}", "1")
OTHER = chat.function_call("write", "{}", "2")
PARTS = [("thought", "hm"), ("text", "hello"), ("call", "1"), ("end", "")]
READ = chat.function_tool("read", "Reads.", {})


def edited(**answer):
    """The parts of an answer that hooks left with these keys."""
    return chat.edited_parts(
        PARTS,
        chat.model_message("hello", [CALL]),
        answer,
        {"content": (lambda part: part[0] == "text", lambda text: ("text", text))},
        (lambda part: part[0] == "call", lambda call: ("call", call["id"])),
    )


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ({"content": "hello", "tool_calls": [CALL]}, PARTS),
        ({"content": "bye", "tool_calls": [CALL]}, [PARTS[0], ("text", "bye"), *PARTS[2:]]),
        ({"content": "hello", "tool_calls": [OTHER, CALL]}, [*PARTS[:2], ("call", "2"), *PARTS[2:]]),
        ({"content": ""}, [PARTS[0], PARTS[3]]),
    ],
    ids=["unchanged", "another text", "another call", "nothing left"],
)
def test_what_hooks_change_in_an_answer_stays_where_it_was(answer, left):
    assert edited(**answer) == left


def tools_after(*tools):
    """The framework's tools, after hooks changed the offered ones to these."""
    shown = LLMRequest(tools=[READ])
    return chat.edited_tools(
        shown,
        LLMRequest(tools=[*tools]),
        ["own read"],
        lambda function: f"new {function['name']}",
        lambda own, function: f"{own}: {function['description']}",
    )


def test_an_unchanged_tool_is_the_frameworks_own_and_others_are_made_or_described_anew():
    changed = chat.function_tool("read", "Reads a file.", {})
    assert tools_after(chat.function_tool("write", None, {}), READ) == ["new write", "own read"]
    assert tools_after(changed) == ["own read: Reads a file."]
    assert tools_after() == []


def test_a_hook_adds_functions_only():
    with pytest.raises(PicohookError, match="only functions can be added"):
        tools_after(READ, {"type": "web_search", "name": "search"})
