"""Words that mean one thing here and another there: skip, abort, stop."""

from __future__ import annotations

import pytest
from kinds_support import FAR

from picohook import AbortTurnError, HardAbortError, HookSpec, Host, ToolCall, ToolResult, blade_hooks, worker_hooks
from picohook.ext.jcli.dialect import JcliSpec
from picohook.ext.rust_worker.worker import Abort, Skip
from picohook.model.payloads import Compaction, Finish, Prompt

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="Bash", arguments={"command": "ls"})


def shell(result, *stages):
    return [JcliSpec(name="shell", run=f"echo '{result}'", stages=stages or ("before_tool",))]


async def told(hooks):
    """What the model is told of a call that hooks say skip to."""
    async with Host(hooks, timeouts=FAR) as host:
        return await host.run_tool(CALL, lambda _: pytest.fail("the tool ran"))


async def test_blades_skip_gives_the_model_a_success_with_the_reason():
    hooks = blade_hooks({"PreToolUse": [lambda _: {"action": "skip", "reason": "50 calls are enough"}]})
    assert await told(hooks) == ToolResult(for_llm="50 calls are enough")


async def test_j_clis_skip_tells_the_model_that_the_tool_was_skipped():
    result = await told(shell('{"action": "skip"}'))
    assert result == ToolResult(for_llm="Tool execution denied by hook: the tool was skipped", is_error=True)


async def test_the_workers_skip_tells_the_model_so_too():
    result = await told(worker_hooks(pre_tool_call=[lambda _: Skip()]))
    assert result == ToolResult(for_llm="Tool execution denied by hook: skipped", is_error=True)


async def test_our_own_skip_is_for_compactions_and_does_not_deny_tools():
    hook = HookSpec(name="shell", run="""echo '{"action": "skip"}'""", stages=("before_compact", "before_tool"))
    async with Host([hook], timeouts=FAR) as host:
        assert (await host.before_compact(Compaction(scope="micro"))).action == "skip"
        assert (await host.before_tool(CALL)).trail[0].error.startswith("the action 'skip' is not one of before_tool's")


async def test_blades_abort_ends_the_session():
    hooks = blade_hooks({"PreToolUse": [lambda _: {"action": "abort", "reason": "no"}]})
    with pytest.raises(HardAbortError, match="no"):
        await told(hooks)


async def test_j_clis_older_abort_ends_the_turn_and_not_the_session():
    with pytest.raises(AbortTurnError) as caught:
        await told(shell('{"abort": true}'))
    assert not isinstance(caught.value, HardAbortError)


async def test_j_clis_on_error_abort_stops_the_tool_and_not_the_turn():
    hook = JcliSpec(name="shell", run="exit 1", stages=("before_tool",), on_failure="deny")
    assert (await told([hook])).for_llm.startswith("Tool execution denied by hook: hook shell failed")


async def test_the_workers_abort_ends_the_turn_and_not_the_session():
    with pytest.raises(AbortTurnError, match="no") as caught:
        await told(worker_hooks(pre_tool_call=[lambda _: Abort("no")]))
    assert not isinstance(caught.value, HardAbortError)


async def test_j_clis_stop_can_be_an_event_and_an_action():
    """At the event `stop` the turn is about to end; the action `stop` ends it badly, unless it comes with feedback."""
    finish = Finish(prompt="hello", response={"content": "hi"})
    for result, action in [
        ("{}", "continue"),
        ('{"action": "stop"}', "abort_turn"),
        ('{"action": "stop", "retry_feedback": "say more"}', "retry"),
    ]:
        async with Host(shell(result, "before_finish"), timeouts=FAR) as host:
            assert (await host.before_finish(finish)).action == action


async def test_j_clis_stop_of_a_compaction_stops_only_that():
    async with Host(shell('{"action": "stop"}', "before_compact", "before_prompt"), timeouts=FAR) as host:
        assert (await host.before_compact(Compaction(scope="auto"))).action == "skip"
        assert (await host.before_prompt(Prompt(prompt="hello"))).action == "abort_turn"
