"""An emitter of AGENT-HOOKS-0.1, the SDK's own, that asks hooks."""

from __future__ import annotations

import pytest

from picohook import AbortTurn, Deny, FunctionHook, HardAbort, Host, Modify, Notes, Pause, Respond, Retry
from picohook.engine.listener import Listener, Operation
from picohook.model.decisions import Continue

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]


@pytest.fixture
def contexts():
    """Builds the contexts of one session."""
    from agent_hooks import AgentContextBuilder

    return AgentContextBuilder(agent_id="main", framework="test", session_id="s1")


def emitter_of(host):
    from agent_hooks import InterceptionEmitter

    from picohook.integrations.agent_hooks import PicohookInterceptor

    emitter = InterceptionEmitter()
    emitter.register(PicohookInterceptor(host))
    return emitter


async def asked(stages, context):
    async with Host([FunctionHook("h", stages)]) as host:
        record = await emitter_of(host).emit_unchecked(context)
    return record.verdict, context["target"]


async def test_every_point_is_allowed_if_no_hook_objects(contexts):
    stages = ["before_prompt", "before_llm", "after_llm", "before_tool", "approve_tool", "after_tool", "before_finish"]
    seen = []
    kinds = []

    def note(payload, stage):
        seen.append((stage, payload.meta.session_key, payload.meta.agent_id))
        return True if stage == "approve_tool" else None

    hook = FunctionHook(
        "h",
        {stage: lambda payload, stage=stage: note(payload, stage) for stage in stages},
        on_event=lambda event: kinds.append(event.kind),
    )
    emissions = [
        contexts.agent_startup(tools_registered=["read"]),
        contexts.input(content="hello"),
        contexts.pre_model_call(model_id="m1", messages=[{"role": "user", "content": "hello"}]),
        contexts.post_model_call(model_id="m1", content="", tool_calls=[], finish_reason="stop"),
        contexts.pre_tool_call(call_id="1", name="read", args={"path": "a"}),
        contexts.post_tool_call(call_id="1", name="read", args={"path": "a"}, value="text of a", duration_ms=3),
        contexts.output(content="done"),
        contexts.agent_shutdown(reason="completed"),
    ]
    async with Host([hook]) as host:
        emitter = emitter_of(host)
        decided = [(await emitter.emit(context)).record.verdict.decision.value for context in emissions]
    assert seen == [(stage, "s1", "main") for stage in stages]
    assert kinds == ["session_start", "tool_exec_start", "tool_exec_end", "session_end"]
    assert decided == ["allow"] * 8


REPLACED = "unknown tool shell"


@pytest.mark.parametrize(
    ("stages", "reason", "message"),
    [
        ({"before_tool": lambda _: Deny("no")}, "picohook:deny_tool", "Tool execution denied by hook: no"),
        ({"approve_tool": lambda _: Deny("no")}, "picohook:deny_tool", "Tool execution denied by approval hook: no"),
        ({"before_tool": lambda _: Respond({"for_llm": "from the hook"})}, "picohook:respond", "from the hook"),
        ({"before_tool": lambda _: AbortTurn("enough")}, "picohook:abort_turn", "enough"),
        ({"before_tool": lambda _: HardAbort("enough")}, "picohook:hard_abort", "enough"),
        ({"before_tool": lambda _: Modify({"tool": "shell"})}, "picohook:deny_tool", REPLACED),
    ],
)
async def test_a_tool_call_that_hooks_stop_is_denied(contexts, stages, reason, message):
    verdict, target = await asked(stages, contexts.pre_tool_call(call_id="1", name="read", args={"path": "a"}))
    assert (verdict.decision.value, verdict.reason, verdict.message) == ("deny", reason, message)
    assert verdict.approval is None
    assert target == {"path": "a"}


async def test_a_pause_is_a_denial_that_the_hosts_approver_can_lift(contexts):
    context = contexts.pre_tool_call(call_id="1", name="read", args={"path": "a"})
    verdict, _ = await asked({"before_tool": lambda _: Pause("may it?")}, context)
    assert verdict.is_liftable
    assert (verdict.reason, verdict.message) == ("picohook:pause", "may it?")


async def test_the_host_continues_with_the_changes_of_hooks(contexts):
    changed = {"path": "b"}
    stages = {
        "before_prompt": lambda _: Modify({"prompt": "hi"}),
        "before_llm": lambda _: Modify({"messages": []}),
        "after_llm": lambda _: Modify({"content": "edited"}),
        "before_tool": lambda _: Modify({"arguments": changed}),
        "after_tool": lambda returned: Modify({"for_llm": returned.result.for_llm.replace("secret", "***")}),
    }
    emissions = {
        "input": contexts.input(content="hello"),
        "pre_model": contexts.pre_model_call(model_id="m1", messages=[{"role": "user", "content": "hello"}]),
        "post_model": contexts.post_model_call(model_id="m1", content="said", tool_calls=[], finish_reason="stop"),
        "pre_tool": contexts.pre_tool_call(call_id="1", name="read", args={"path": "a"}),
        "text": contexts.post_tool_call(call_id="1", name="read", args=changed, value="a secret"),
        "object": contexts.post_tool_call(call_id="1", name="read", args=changed, value={"is": "secret"}),
    }
    async with Host([FunctionHook("h", stages)]) as host:
        emitter = emitter_of(host)
        left = {name: (await emitter.emit(context)).target for name, context in emissions.items()}
    assert left == {
        "input": {"content": "hi", "role": "user"},
        "pre_model": [],
        "post_model": {"content": "edited", "tool_calls": [], "finish_reason": "stop"},
        "pre_tool": changed,
        "text": "a ***",
        "object": {"is": "***"},
    }


async def test_notes_go_into_the_request_and_messages_to_the_user_are_warnings(contexts):
    notes = Notes(additional_context="Mind.", inject_messages=({"role": "user", "content": "x"},), system_message="hm")
    verdict, target = await asked(
        {"before_llm": lambda _: Continue(notes=notes)}, contexts.pre_model_call(model_id="m1", messages=[])
    )
    assert target == [{"role": "system", "content": "Mind."}, {"role": "user", "content": "x"}]
    assert [concern.message for concern in verdict.warnings] == ["hm"]


@pytest.mark.parametrize("stage", ["after_llm", "before_finish"])
async def test_the_host_has_to_make_a_retry(contexts, stage):
    contexts_of = {
        "after_llm": contexts.post_model_call(model_id="m1", content="no", tool_calls=[], finish_reason="stop"),
        "before_finish": contexts.output(content="no"),
    }
    verdict, _ = await asked({stage: lambda _: Retry("say please")}, contexts_of[stage])
    assert (verdict.decision.value, verdict.reason, verdict.message) == ("deny", "picohook:retry", "say please")


async def test_the_policy_of_a_failed_hook_decides(contexts):
    def broken(call):
        raise RuntimeError(call)

    async with Host([FunctionHook("h", {"before_tool": broken}, on_failure="deny")]) as host:
        context = contexts.pre_tool_call(call_id="1", name="read", args={})
        record = await emitter_of(host).emit_unchecked(context)
    assert not record.proceeds
    assert record.verdict.reason == "picohook:deny_tool"


async def test_a_call_that_is_allowed_has_ended_for_listeners_too(contexts):
    seen = []

    class Call(Operation):
        def ended(self, action="", error="", payload=None):
            seen.append("ended")

    class Calls(Listener):
        def operation(self, kind, payload):
            seen.append(kind)
            return Call()

    async with Host([FunctionHook("h", {"before_tool": lambda _: None})], listeners=[Calls()]) as host:
        await emitter_of(host).emit(contexts.pre_tool_call(call_id="1", name="read", args={}))
    assert seen == ["tool_call", "ended"]
