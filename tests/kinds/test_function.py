"""Python callables as hooks: what they may return."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from kinds_support import FAR

from picohook import (
    AbortTurn,
    Continue,
    Deny,
    FunctionHook,
    Host,
    Modify,
    Notes,
    Respond,
    Retry,
    Skip,
    ToolCall,
    ToolResult,
)
from picohook.model.payloads import Compaction, Finish, LLMRequest, LLMResponse, Prompt, ToolReturn

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash")


async def asked(stage, payload, said, **settings):
    async with Host([FunctionHook("hook", {stage: lambda _: said}, **settings)], timeouts=FAR) as host:
        return await getattr(host, stage)(payload)


@pytest.mark.parametrize(
    ("stage", "payload", "said", "action"),
    [
        ("before_tool", CALL, None, "continue"),
        ("before_tool", CALL, Continue(), "continue"),
        ("before_tool", CALL, {}, "continue"),
        ("before_tool", CALL, {"action": "deny_tool"}, "deny_tool"),
        ("before_tool", CALL, Respond({"for_llm": "x"}), "respond"),
        ("before_compact", Compaction(scope="auto"), Skip(reason="not now"), "skip"),
        ("before_finish", Finish(), Retry("again"), "retry"),
        ("before_finish", Finish(), AbortTurn(), "abort_turn"),
    ],
)
async def test_a_function_returns_a_decision_or_the_answer_of_a_process(stage, payload, said, action):
    outcome = await asked(stage, payload, said, provides=["bash"])
    assert (outcome.action, outcome.trail[0].error) == (action, None)


@pytest.mark.parametrize("said", ["yes", 1, [], Skip(), object(), True])
async def test_anything_else_is_a_failure(said):
    outcome = await asked("before_tool", CALL, said, on_failure="deny")
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].error


@pytest.mark.parametrize(
    ("said", "approved"), [(True, True), (False, False), (None, False), (1, False), ({"approved": True}, True)]
)
async def test_an_approver_may_say_true(said, approved):
    assert (await asked("approve_tool", CALL, said)).approved is approved


async def test_a_denial_can_give_the_model_another_text():
    denial = Deny(reason="limit", result={"for_llm": "that is enough", "for_user": "limit reached"})
    async with Host([FunctionHook("hook", {"before_tool": lambda _: denial})], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        result = await host.run_tool(CALL, lambda _: pytest.fail("it ran"))
    assert (outcome.action, outcome.reason) == ("deny_tool", "limit")
    assert result == outcome.result == ToolResult(for_llm="that is enough", for_user="limit reached")


async def test_an_answer_over_the_wire_cannot_give_the_model_another_text():
    outcome = await asked("before_tool", CALL, {"action": "deny_tool", "result": {"for_llm": "all is well"}})
    assert (outcome.action, outcome.result) == ("deny_tool", None)


async def test_such_a_result_has_to_be_one():
    outcome = await asked("before_tool", CALL, Deny(result={"for_llm": 5}), on_failure="abort")
    assert outcome.action == "abort_turn"


# What it changes in place.

SAID = {"content": "hm", "tool_calls": [{"id": "1"}], "refusal": None}


def in_place(change, decision=None):
    def function(payload):
        change(payload)
        return decision

    return function


def append(where, value):
    return in_place(lambda payload: where(payload).append(value))


@pytest.mark.parametrize(
    ("stage", "payload", "function", "left"),
    [
        (
            "before_prompt",
            Prompt(prompt="p"),
            append(lambda p: p.messages, {"role": "user"}),
            {"messages": [{"role": "user"}]},
        ),
        ("before_llm", LLMRequest(), append(lambda p: p.tools, {"name": "x"}), {"tools": [{"name": "x"}]}),
        (
            "after_llm",
            LLMResponse(response=SAID),
            in_place(lambda p: p.response.pop("tool_calls")),
            {"response": {"content": "hm", "refusal": None}},
        ),
        (
            "after_llm",
            LLMResponse(response=SAID),
            in_place(lambda p: p.response.update(content="ah")),
            {"response": {**SAID, "content": "ah"}},
        ),
        (
            "before_tool",
            ToolCall(tool="a", arguments={"x": {"y": 1, "z": 2}}),
            in_place(lambda p: p.arguments["x"].pop("y")),
            {"arguments": {"x": {"z": 2}}},
        ),
        (
            "before_tool",
            ToolCall(tool="a", arguments={"x": 1}),
            in_place(lambda p: p.arguments.update(x=None)),
            {"arguments": {"x": None}},
        ),
        (
            "after_tool",
            ToolReturn(tool="a", result=ToolResult(media=["a"])),
            append(lambda p: p.result.media, "b"),
            {"result": ToolResult(media=["a", "b"])},
        ),
        ("before_finish", Finish(), append(lambda p: p.messages, {"role": "user"}), {"messages": [{"role": "user"}]}),
    ],
)
async def test_a_change_in_place_is_a_modify(stage, payload, function, left):
    async with Host([FunctionHook("hook", {stage: function})], timeouts=FAR) as host:
        outcome = await getattr(host, stage)(payload.model_copy(deep=True))
    assert (outcome.action, outcome.trail[0].action, outcome.trail[0].error) == ("modify", "modify", None)
    assert {name: getattr(outcome.payload, name) for name in left} == left


@pytest.mark.parametrize(
    ("stage", "payload", "change", "names"),
    [
        ("before_tool", ToolCall(tool="a", context={"a": 1}), lambda p: p.context.update(a=2), "context"),
        ("after_tool", ToolReturn(tool="a", result=ToolResult()), lambda p: p.arguments.update(a=2), "arguments"),
        ("before_finish", Finish(), lambda p: p.response.update(a=2), "response"),
    ],
)
async def test_a_forbidden_change_in_place_is_its_failure(stage, payload, change, names):
    async with Host([FunctionHook("hook", {stage: in_place(change)})], timeouts=FAR) as host:
        outcome = await getattr(host, stage)(payload)
    assert outcome.payload is payload
    assert outcome.trail[0].error == f"it changed {names} in place, which no hook can change at {stage}: change a copy"


async def test_a_change_in_place_that_it_may_not_make_is_left_out():
    function = in_place(lambda request: request.messages.append({"role": "user"}))
    async with Host([FunctionHook("hook", {"before_llm": function}, may_edit=())], timeouts=FAR) as host:
        outcome = await host.before_llm({})
    assert (outcome.action, outcome.payload.messages) == ("continue", [])
    assert outcome.trail[0].error == "it may not edit messages: left as it was"


@pytest.mark.parametrize(
    ("decision", "tool", "arguments"),
    [
        (Continue(reason="fine"), "bash", {"in": "place"}),
        (Modify({"tool": "sh"}), "sh", {"in": "place"}),
        (Modify({"arguments": {"said": True}}), "bash", {"said": True}),
        (Modify(patch={"arguments": {"said": True}}), "bash", {"in": "place", "said": True}),
        (Respond({"for_llm": "x"}), "bash", {"in": "place"}),
        (Deny("no"), "bash", {}),
        ({"action": "continue"}, "bash", {"in": "place"}),
    ],
)
async def test_beside_a_decision_it_counts_unless_the_decision_ends_the_chain(decision, tool, arguments):
    function = in_place(lambda call: call.arguments.update({"in": "place"}), decision)
    async with Host([FunctionHook("hook", {"before_tool": function}, provides=["bash"])], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.payload.tool, outcome.payload.arguments, outcome.trail[0].error) == (tool, arguments, None)
    assert CALL.arguments == {}


@pytest.mark.parametrize(
    "decision", [Modify({"response": {"said": 1}}), Modify({"said": 1}), Modify(patch={"said": 1})]
)
async def test_beside_a_decision_about_a_part_it_counts_too(decision):
    function = in_place(lambda answer: (answer.response.pop("gone"), answer.response.update(here=1)), decision)
    async with Host([FunctionHook("hook", {"after_llm": function})], timeouts=FAR) as host:
        outcome = await host.after_llm({"response": {"gone": 1, "kept": 1}})
    assert outcome.payload.response == {"kept": 1, "here": 1, "said": 1}


async def test_an_edit_without_a_json_form_is_its_failure():
    function = in_place(lambda call: call.arguments.update(x=float("nan")))
    async with Host([FunctionHook("hook", {"before_tool": function})], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
    assert outcome.payload is CALL
    assert "cannot be sent as JSON" in outcome.trail[0].error


@pytest.mark.parametrize(("said", "why"), [(True, "hook hook failed: it changed the call in place"), (False, "")])
async def test_an_approver_that_changes_the_call_in_place_does_not_say_yes(said, why):
    function = in_place(lambda call: call.arguments.update(x=1), said)
    async with Host([FunctionHook("hook", {"approve_tool": function})], timeouts=FAR) as host:
        outcome = await host.approve_tool(CALL)
    assert outcome.approved is False
    assert outcome.reason.startswith(why)
    assert bool(outcome.reason) is bool(why)


async def test_a_note_that_a_guard_repeats_is_kept_once():
    note = Notes(additional_context="mind")
    guard = FunctionHook("guard", {"before_tool": lambda _: Continue(notes=note)}, guard=True)
    late = FunctionHook("late", {"before_tool": lambda _: Modify({"arguments": {"late": 1}})}, after=["guard"])
    async with Host([guard, late], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
    assert ([entry.hook for entry in outcome.trail], outcome.notes) == (["guard", "late", "guard"], (note,))


async def test_a_guard_that_is_asked_again_may_not_change_it_in_place():
    guard = FunctionHook(
        "guard", {"before_tool": in_place(lambda call: call.arguments.update(n=len(call.arguments)))}, guard=True
    )
    late = FunctionHook("late", {"before_tool": lambda _: Modify({"arguments": {"late": 1}})}, after=["guard"])
    async with Host([guard, late], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
    assert outcome.reason == "hook guard failed: a guard that is asked again may no longer change the call"


class Panic(BaseException):
    """What a library in another language raises."""


def panics(_):
    raise Panic("at the disco")


async def panics_itself(_):
    raise Panic("at the disco")


def says_cancelled(_):
    raise asyncio.CancelledError


async def awaits_what_was_cancelled(_):
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        raise asyncio.CancelledError  # trio has no such tasks
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


@pytest.mark.parametrize("stage", ["before_tool", "approve_tool"])
@pytest.mark.parametrize("function", [panics, panics_itself, says_cancelled, awaits_what_was_cancelled])
async def test_whatever_a_function_raises_is_its_failure_and_not_the_agents(function, stage):
    hook = FunctionHook("hook", {stage: function}, on_failure="deny")
    async with Host([hook], timeouts=FAR) as host:
        outcome = await getattr(host, stage)(CALL)
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].failure == "error"
    assert ("CancelledError" if "cancelled" in function.__name__ else "Panic: at the disco") in outcome.trail[0].error


async def test_a_function_that_cleans_up_after_a_cancellation_does_not_hide_it():
    async def waits(_):
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append(1)

    cleaned = []
    async with Host([FunctionHook("hook", {"before_tool": waits})], timeouts=FAR) as host:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.before_tool, CALL)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
    assert scope.cancelled_caught
    assert cleaned == [1]
