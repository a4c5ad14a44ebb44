"""Results say what hooks did at each stage on the way to them."""

from __future__ import annotations

import json

import needs
import pytest

from picohook import (
    AbortTurnError,
    Deny,
    FunctionHook,
    Host,
    LLMResponse,
    Modify,
    Pause,
    PausedError,
    Respond,
    Retry,
    Timeouts,
    ToolCall,
    ToolResult,
)
from picohook.model.decisions import Continue
from picohook.model.encoded import Encoded
from picohook.model.stages import BEFORE_TOOL

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)


def host_of(name="h", **stages):
    return Host([FunctionHook(name, stages)], timeouts=FAR)


def said(result):
    return [(one.stage, one.action, [(entry.hook, entry.action) for entry in one.trail]) for one in result.trails]


async def test_a_tools_result_has_the_trail_of_each_stage():
    host = host_of(before_tool=lambda _: Modify({"tool": "sh"}), approve_tool=lambda _: True, after_tool=lambda _: None)
    async with host:
        result = await host.run_tool({"tool": "bash"}, lambda _: "done")
    assert said(result) == [
        ("before_tool", "modify", [("h", "modify")]),
        ("approve_tool", "continue", [("h", "continue")]),
        ("after_tool", "continue", [("h", "continue")]),
    ]


async def test_a_failing_hook_is_seen_in_the_result():
    def fail(_):
        raise OSError("the disk is full")

    async with host_of(after_tool=fail) as host:
        result = await host.run_tool({"tool": "bash"}, lambda _: "done")
    ((_, error),) = [(entry.hook, entry.error) for one in result.trails for entry in one.trail]
    assert error.startswith("OSError: the disk is full (")


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ({"before_tool": lambda _: Deny("no")}, [("before_tool", "deny_tool", "no", "h")]),
        ({"before_tool": lambda _: Respond({"for_llm": "x"})}, [("before_tool", "respond", "", "h")]),
        (
            {"approve_tool": lambda _: Deny("no")},
            [("before_tool", "continue", "", ""), ("approve_tool", "deny_tool", "no", "h")],
        ),
    ],
)
async def test_the_result_of_a_call_whose_tool_did_not_run_has_a_trail_too(stages, expected):
    async with host_of(**stages) as host:
        result = await host.run_tool({"tool": "bash"}, lambda _: pytest.fail("it ran"))
    assert [(one.stage, one.action, one.reason, one.hook) for one in result.trails] == expected


async def test_a_models_response_has_the_trails_of_every_round():
    rounds = [Retry("again"), None]
    async with host_of(before_llm=lambda _: None, after_llm=lambda _: rounds.pop(0)) as host:
        response = await host.run_llm({"model": "m"}, _answer)
    assert [(one.stage, one.action) for one in response.trails] == [
        ("before_llm", "continue"),
        ("after_llm", "retry"),
        ("before_llm", "continue"),
        ("after_llm", "continue"),
    ]


async def test_a_response_that_a_hook_gave_has_a_trail_too():
    async with host_of(before_llm=lambda _: Respond({"content": "mine"})) as host:
        response = await host.run_llm({"model": "m"}, _answer)
    assert said(response) == [("before_llm", "respond", [("h", "respond")])]


@needs.other_rooms
async def test_a_turn_has_all_trails_in_order_and_each_result_has_its_own():
    answers = [{"content": "", "tool_calls": [_call("c0", "a"), _call("c1", "b")]}, {"content": "done"}]

    async def complete(_):
        return answers.pop(0)

    stages = ["before_prompt", "before_llm", "after_llm", "before_tool", "after_tool", "before_finish"]
    async with (
        host_of(approve_tool=lambda _: True, **dict.fromkeys(stages, lambda _: None)) as host,
        host.session("s") as session,
        session.turn("hello") as turn,
    ):
        result = await turn.run(complete=complete, execute=lambda _: "ran")
    around = ["before_tool", "approve_tool"]
    assert [one.stage for one in result.trails] == [
        "before_prompt", "before_llm", "after_llm", *around, *around, "after_tool", "after_tool",
        "before_llm", "after_llm", "before_finish",
    ]  # fmt: skip
    assert tuple(turn.trails) == result.trails


@needs.other_rooms
async def test_the_results_of_a_batch_have_their_own_trails_even_if_the_turn_is_aborted():
    def decide(call):
        return Deny("not b") if call.tool == "b" else None

    stages = {"before_tool": decide, "after_tool": lambda _: {"action": "abort_turn"}}
    calls = [{"tool": "a"}, {"tool": "b"}]
    async with host_of(**stages) as host, host.session("s") as session:
        with pytest.raises(AbortTurnError) as raised:
            async with session.turn("hello") as turn:
                await turn.tools([ToolCall(**call) for call in calls], lambda _: "ran")
    one, other = raised.value.results
    assert [stage for stage, *_ in said(one)] == ["before_tool", "approve_tool", "after_tool"]
    assert said(other) == [("before_tool", "deny_tool", [("h", "deny_tool")])]


@needs.other_rooms
async def test_a_resumed_turn_has_the_trails_since_it_was_resumed():
    async with host_of(before_tool=lambda _: Pause("may it?")) as host, host.session("s") as session:
        with pytest.raises(PausedError) as raised:
            async with session.turn("hello") as turn:
                await turn.tools([ToolCall(tool="a")], lambda _: "ran")
        assert [one.action for one in turn.trails] == ["pause"]
        async with session.resume(raised.value.paused, Continue()) as resumed:
            (result,) = await resumed.tools(None, lambda _: "ran")
    assert [one.action for one in result.trails] == ["continue", "continue", "continue"]


async def test_results_are_equal_and_have_the_same_form_with_and_without_trails():
    same = ToolResult(for_llm="done", media=["a"])
    async with host_of(after_tool=lambda _: None, after_llm=lambda _: None) as host:
        result = await host.run_tool({"tool": "bash"}, lambda _: same)
        response = await host.run_llm({"model": "m"}, _answer)
    assert result.trails
    assert response.trails
    plain = LLMResponse(model="m", response={"content": "hi"}, messages=[])
    for one, other in ((result, same), (response, plain)):
        assert (one == other, hash(repr(one)) == hash(repr(other)), one.wire()) == (True, True, other.wire())
        assert one.model_dump() == other.model_dump()
        assert type(one).model_validate(one.model_dump()).trails == other.trails == ()
    assert "trails" not in json.dumps(ToolResult.model_json_schema())


async def test_a_result_that_a_tool_returns_repeatedly_is_not_modified():
    constant, response = ToolResult(for_llm="done"), LLMResponse(response={"content": "hi"})

    async def answer(_):
        return response

    async with host_of(before_tool=lambda _: None) as host:
        results = [await host.run_tool({"tool": tool}, lambda _: constant) for tool in "ab"]
        answered = await host.run_llm({"model": "m"}, answer)
    assert constant.trails == response.trails == ()
    assert [len(result.trails) for result in (*results, answered)] == [3, 3, 2]


async def test_a_trail_has_a_json_form():
    async with host_of(before_tool=lambda _: Deny("no")) as host:
        result = await host.run_tool({"tool": "bash"}, lambda _: "done")
    (shown,) = [one.wire() for one in result.trails]
    assert json.loads(json.dumps(shown))["trail"][0]["hook"] == "h"
    assert (shown["stage"], shown["action"], shown["reason"], shown["hook"]) == ("before_tool", "deny_tool", "no", "h")


async def _answer(_):
    return {"content": "hi"}


def _call(identity, tool):
    return {"id": identity, "type": "function", "function": {"name": tool, "arguments": "{}"}}


async def test_a_hook_that_is_asked_alone_has_the_only_entry_and_another_name_has_none():
    hooks = [FunctionHook(name, {"before_tool": lambda _, name=name: Deny(name)}) for name in "ab"]
    async with Host(hooks, timeouts=FAR) as host:
        outcome = await host.ask_hook("b", BEFORE_TOOL, Encoded(ToolCall(tool="bash")))
        assert (outcome.reason, [entry.hook for entry in outcome.trail]) == ("b", ["b"])
        outcome = await host.ask_hook("c", BEFORE_TOOL, Encoded(ToolCall(tool="bash")))
        assert (outcome.action, outcome.trail) == ("continue", ())
