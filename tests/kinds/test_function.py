"""Python callables as hooks: what they may return."""

from __future__ import annotations

import pytest
from kinds_support import FAR

from picohook import AbortTurn, Continue, Deny, FunctionHook, Host, Respond, Retry, Skip, ToolCall, ToolResult
from picohook.models import Compaction, Finish

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
async def test_a_decision_or_what_a_process_would_answer(stage, payload, said, action):
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


async def test_a_denial_can_say_what_the_model_is_told_in_its_place():
    denial = Deny(reason="limit", result={"for_llm": "that is enough", "for_user": "limit reached"})
    async with Host([FunctionHook("hook", {"before_tool": lambda _: denial})], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
        result = await host.run_tool(CALL, lambda _: pytest.fail("it ran"))
    assert (outcome.action, outcome.reason) == ("deny_tool", "limit")
    assert result == outcome.result == ToolResult(for_llm="that is enough", for_user="limit reached")


async def test_what_comes_over_a_wire_has_no_say_in_that():
    outcome = await asked("before_tool", CALL, {"action": "deny_tool", "result": {"for_llm": "all is well"}})
    assert (outcome.action, outcome.result) == ("deny_tool", None)


async def test_such_a_result_has_to_be_one():
    outcome = await asked("before_tool", CALL, Deny(result={"for_llm": 5}), on_failure="abort")
    assert outcome.action == "abort_turn"
