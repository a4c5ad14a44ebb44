"""A whole tool call: who is asked, what runs, what is told, in order."""

from __future__ import annotations

import json
import threading

import anyio
import pytest
from loops import ON_BOTH
from scripted import SERVE, scripted

from picohook import (
    AbortTurn,
    AbortTurnError,
    Continue,
    Deny,
    EncodeError,
    FunctionHook,
    HardAbort,
    HardAbortError,
    Host,
    Meta,
    Modify,
    OnFailure,
    Pause,
    PausedError,
    Respond,
    RespondRule,
    RestartPolicy,
    Timeouts,
    ToolCall,
    ToolResult,
)

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
ALL = ("before_tool", "approve_tool", "after_tool")
CALL = ToolCall(tool="bash", arguments={"command": "ls"}, meta=Meta(agent_id="a1", turn_id="t1"))


class Story:
    """What happened, in order, in the words of an observer and of the tool."""

    def __init__(self):
        self.lines = []
        self.executed = []
        self.observer = FunctionHook("story", on_event=self.take, priority=-1)

    async def take(self, event):
        self.lines.append((event.kind, dict(event.payload)))

    async def execute(self, call):
        self.lines.append(("execute", call.tool))
        self.executed.append(call.arguments)
        return f"ran {call.arguments['command']}"

    def hook(self, name, **handlers):
        def handler(stage, decide):
            async def handle(payload):
                self.lines.append((stage, name))
                return decide(payload) if callable(decide) else decide

            return handle

        settings = {key: handlers.pop(key) for key in list(handlers) if key not in ALL}
        return FunctionHook(name, {stage: handler(stage, decide) for stage, decide in handlers.items()}, **settings)

    async def told(self, host):
        """The events, those that were on their way included."""
        await host.emit_and_wait("task_completed")
        self.events = [line for line in self.lines if isinstance(line[1], dict)][:-1]
        self.asked = [line for line in self.lines if not isinstance(line[1], dict)]
        return self.events

    @property
    def order(self):
        """What was asked and done, and then what was told of it."""
        return [line[0] for line in (*self.asked, *self.events)]


@pytest.fixture
def story():
    return Story()


async def test_asked_approved_run_and_asked_again(story):
    hook = story.hook("h", before_tool=None, approve_tool=True, after_tool=None)
    async with Host([story.observer, hook], timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
        lines = await story.told(host)
    assert result == ToolResult(for_llm="ran ls")
    assert story.order == ["before_tool", "approve_tool", "execute", "after_tool", "tool_exec_start", "tool_exec_end"]
    told = dict(lines)
    assert told["tool_exec_start"] == {"Tool": "bash", "Arguments": {"command": "ls"}}
    assert told["tool_exec_end"].items() >= {"Tool": "bash", "ForLLMLen": 6, "ForUserLen": 0, "IsError": False}.items()
    assert told["tool_exec_end"]["Duration"] > 0


async def test_the_same_through_a_process(tmp_path):
    record = tmp_path / "record"
    spec = scripted("h", ["record", str(record)], SERVE, stages=ALL, observe=("*",))
    async with Host([spec], timeouts=FAR) as host:
        await host.run_tool(CALL, lambda call: {"for_llm": "x", "for_user": "yy", "silent": True})
    lines = [json.loads(line)["line"] for line in record.read_text().splitlines()]
    methods = [line["method"] for line in lines if "method" in line][1:]
    requests = [method for method in methods if method != "hook.event"]
    events = [line["params"]["Kind"] for line in lines if line.get("method") == "hook.event"]
    assert requests == ["hook.before_tool", "hook.approve_tool", "hook.after_tool"]
    assert events == ["tool_exec_start", "tool_exec_end"]
    after = next(line["params"] for line in lines if line.get("method") == "hook.after_tool")
    assert after["result"].items() >= {"for_llm": "x", "for_user": "yy", "silent": True, "is_error": False}.items()
    assert after["meta"]["AgentID"] == "a1"


async def test_the_modified_call_is_approved_run_and_reported(story):
    seen = []
    hooks = [
        story.observer,
        story.hook("edits", before_tool=Modify({"arguments": {"command": "ls -l"}}), priority=0),
        story.hook("approves", approve_tool=lambda call: seen.append(call.arguments) or True),
        story.hook("edits_result", after_tool=lambda done: Modify({"for_llm": done.result.for_llm.upper()})),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
        lines = dict(await story.told(host))
    assert seen == story.executed == [{"command": "ls -l"}]
    assert result.for_llm == "RAN LS -L"
    assert lines["tool_exec_start"]["Arguments"] == {"command": "ls -l"}
    assert lines["tool_exec_end"]["ForLLMLen"] == len("RAN LS -L")


async def test_denied_by_a_hook(story):
    hooks = [story.observer, story.hook("h", before_tool=Deny(reason="no ls"), approve_tool=True, after_tool=None)]
    async with Host(hooks, timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
        await story.told(host)
    assert result == ToolResult(for_llm="Tool execution denied by hook: no ls", is_error=True)
    assert story.order == ["before_tool", "tool_exec_skipped"]
    assert story.events == [("tool_exec_skipped", {"Tool": "bash", "Reason": "Tool execution denied by hook: no ls"})]


async def test_denied_by_an_approver(story):
    hooks = [story.observer, story.hook("h", before_tool=None, approve_tool=Deny(reason="rm"), after_tool=None)]
    async with Host(hooks, timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
        await story.told(host)
    assert result == ToolResult(for_llm="Tool execution denied by approval hook: rm", is_error=True)
    assert story.order == ["before_tool", "approve_tool", "tool_exec_skipped"]


@pytest.mark.parametrize(
    ("decision", "error"), [(AbortTurn, AbortTurnError), (HardAbort, HardAbortError), (Pause, PausedError)]
)
async def test_an_abort_before_the_tool_is_raised_and_the_tool_does_not_run(decision, error, story):
    async with Host([story.observer, story.hook("h", before_tool=decision(reason="stop"))], timeouts=FAR) as host:
        with pytest.raises(error, match="stop") as caught:
            await host.run_tool(CALL, story.execute)
        await story.told(host)
    assert type(caught.value) is error
    assert caught.value.outcome.trail[0].hook == "h"
    assert story.order == ["before_tool"]


async def test_an_abort_after_the_tool_is_raised_after_the_event_of_its_end(story):
    async with Host([story.observer, story.hook("h", after_tool=AbortTurn(reason="leak"))], timeouts=FAR) as host:
        with pytest.raises(AbortTurnError, match="leak"):
            await host.run_tool(CALL, story.execute)
        await story.told(host)
    assert story.order == ["execute", "after_tool", "tool_exec_start", "tool_exec_end"]


RESPONSE = Respond({"for_llm": "cached"})


async def test_respond_for_an_own_tool_stands_and_no_approver_is_asked(story):
    hooks = [
        story.observer,
        story.hook("h", before_tool=RESPONSE, provides=("bash",)),
        story.hook("approves", approve_tool=False, after_tool=None),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
        await story.told(host)
    assert result.for_llm == "cached"
    assert story.order == ["before_tool", "tool_exec_start", "tool_exec_end"]


async def test_respond_for_a_tool_that_it_injected_is_its_own(story):
    tool = {"type": "function", "function": {"name": "weather"}}

    async def inject(request):
        return Modify({"tools": [*request.tools, tool]})

    hook = story.hook("h", before_tool=RESPONSE)
    hook._handlers["before_llm"] = inject
    hook.spec = hook.spec.model_copy(update={"stages": ("before_llm", "before_tool")})
    deny = story.hook("no", approve_tool=Deny(reason="not asked"))
    async with Host([story.observer, hook, deny], timeouts=FAR) as host:
        meta = Meta(session_key="s1")
        before = await host.run_tool(ToolCall(tool="weather", meta=meta), story.execute)
        await host.before_llm({"meta": meta, "model": "m"})
        after = await host.run_tool(ToolCall(tool="weather", meta=meta), story.execute)
        elsewhere = await host.run_tool(ToolCall(tool="weather", meta=Meta(session_key="s2")), story.execute)
    assert before.for_llm == elsewhere.for_llm == "Tool execution denied by approval hook: not asked"
    assert after.for_llm == "cached"


@pytest.mark.parametrize(("says", "text"), [(True, "cached"), (False, "Tool execution denied by approval hook")])
async def test_A4_respond_for_any_other_tool_goes_through_approval(says, text, story):
    hooks = [story.observer, story.hook("h", before_tool=RESPONSE), story.hook("approves", approve_tool=says)]
    async with Host(hooks, timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
        await story.told(host)
    assert result.for_llm == text
    end = ["tool_exec_start", "tool_exec_end"] if says else ["tool_exec_skipped"]
    assert story.order == ["before_tool", "approve_tool", *end]


async def test_respond_is_a_failure_for_a_hook_that_may_not(story):
    hook = story.hook(
        "h", before_tool=RESPONSE, provides=("bash",), respond=RespondRule.FORBID, on_failure=OnFailure.DENY
    )
    async with Host([hook], timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
    assert "Tool execution denied by hook: hook h failed: its answer could not be used" in result.for_llm
    assert story.executed == []


async def test_A5_arguments_that_an_approver_changes_in_place_are_denied(story):
    call = ToolCall(tool="bash", arguments={"command": "ls", "deep": {"list": [1]}})

    def mutate(payload):
        payload.arguments["deep"]["list"].append(2)
        return True

    async with Host([story.observer, story.hook("h", approve_tool=mutate)], timeouts=FAR) as host:
        result = await host.run_tool(call, story.execute)
    assert result.for_llm == ("Tool execution denied by approval hook: hook h failed: its answer could not be used")
    assert "it changed the call in place" in result.trails[-1].trail[0].error
    assert story.executed == []


@ON_BOTH
async def test_A5_a_hook_that_outlives_its_deadline_cannot_change_the_call(story):
    """A plain function goes on in its thread when nobody waits for it any more; it has the arguments still."""
    begun, release, done = threading.Event(), threading.Event(), threading.Event()

    def slow(payload):
        begun.set()
        release.wait()
        payload.arguments["command"] = "rm -rf /"
        done.set()

    async def execute(call):
        release.set()
        if begun.is_set():  # on a busy machine, its time may be over before it begins
            await anyio.to_thread.run_sync(done.wait)
        return call.arguments["command"]

    hook = FunctionHook("slow", {"before_tool": slow}, timeout=0.05)
    async with Host([hook, story.hook("yes", approve_tool=True)], timeouts=FAR) as host:
        result = await host.run_tool(CALL.model_copy(deep=True), execute)
    assert result.for_llm == "ls"


async def test_A5_a_tool_that_changes_its_arguments_does_not_change_the_call_at_after_tool(story):
    seen = []
    hook = story.hook("h", approve_tool=True, after_tool=lambda done: seen.append(done.arguments))
    async with Host([hook], timeouts=FAR) as host:
        await host.run_tool(CALL, lambda call: call.arguments.pop("command"))
    assert seen == [{"command": "ls"}]


async def test_a_tool_that_raises_is_a_result_that_hooks_and_the_model_see(story):
    def fail(call):
        raise FileNotFoundError("no such thing")

    seen = []
    hook = story.hook("h", after_tool=lambda done: seen.append((done.error, done.result.is_error)))
    async with Host([story.observer, hook], timeouts=FAR) as host:
        result = await host.run_tool(CALL, fail)
        lines = dict(await story.told(host))
    assert result == ToolResult(for_llm="FileNotFoundError: no such thing", is_error=True)
    assert seen == [("FileNotFoundError: no such thing", True)]
    assert lines["tool_exec_end"]["IsError"] is True


RETURNS = {
    "text": ("hello", ToolResult(for_llm="hello")),
    "nothing": (None, ToolResult()),
    "result": (ToolResult(for_user="u"), ToolResult(for_user="u")),
    "mapping": ({"for_llm": "x", "is_error": True}, ToolResult(for_llm="x", is_error=True)),
    "other_mapping": ({"a": 1}, ToolResult(for_llm='{"a": 1}')),
    "list": ([1, "ü"], ToolResult(for_llm='[1, "ü"]')),
}


@pytest.mark.parametrize("case", RETURNS)
async def test_what_a_tool_may_return(case):
    returned, expected = RETURNS[case]
    async with Host([scripted("h", stages=ALL)], timeouts=FAR) as host:
        assert await host.run_tool(CALL, lambda call: returned) == expected


async def test_a_call_without_a_json_form_is_the_embedders_mistake(story):
    async with Host([scripted("h", stages=ALL)], timeouts=FAR) as host:
        with pytest.raises(EncodeError):
            await host.run_tool(ToolCall(tool="x", arguments={"bad": float("inf")}), story.execute)
        assert (await host.run_tool(CALL, story.execute)).for_llm == "ran ls"
    assert len(story.executed) == 1


FAILURES = [
    (OnFailure.CONTINUE, "ran ls"),
    (OnFailure.DENY, "Tool execution denied by hook: hook h failed: it crashed, or did not start"),
    (OnFailure.ABORT, AbortTurnError),
]


@pytest.mark.parametrize(("rule", "expected"), FAILURES)
@ON_BOTH
async def test_A8_a_hook_that_dies_counts_as_its_settings_say(rule, expected, story):
    spec = scripted("h", ["hello"], ["read"], ["exit", 1], on_failure=rule, restart=RestartPolicy(max_starts=1))
    async with Host([spec], timeouts=FAR) as host:
        if isinstance(expected, str):
            assert (await host.run_tool(CALL, story.execute)).for_llm == expected
        else:
            with pytest.raises(expected, match="hook h failed: it exited with code 1"):
                await host.run_tool(CALL, story.execute)
    assert len(story.executed) == (rule is OnFailure.CONTINUE)


@ON_BOTH
async def test_A1_A3_an_approver_that_dies_denies_and_the_other_is_not_waited_for(board, story):
    dies = scripted(
        "dies", ["hello"], ["read"], ["exit", 1], stages=("approve_tool",), restart=RestartPolicy(max_starts=1)
    )
    waits = scripted("waits", board.call("waits"), ["hello"], ["end_of_stdin"], stages=("approve_tool",))
    async with Host([dies, waits], timeouts=FAR) as host:
        result = await host.run_tool(CALL, story.execute)
        approval = await host.approve_tool(CALL)
        assert "denied by approval hook: hook dies failed: it crashed, or did not start" in result.for_llm
        assert [entry.hook for entry in approval.trail] == ["dies", "waits"]
        assert (await board.line("waits")).alive
    assert story.executed == []


async def test_A6_approvers_see_the_name_that_a_hook_gave_the_tool(story):
    seen = []
    hooks = [
        story.hook("renames", before_tool=Modify({"tool": "safe_bash"})),
        story.hook("approves", approve_tool=lambda call: seen.append(call.tool) or True),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        await host.run_tool(CALL, story.execute)
    assert seen == ["safe_bash"]
    assert ("execute", "safe_bash") in story.lines


async def test_continue_with_a_reason_changes_nothing(story):
    async with Host([story.hook("h", before_tool=Continue(reason="fine"))], timeouts=FAR) as host:
        assert (await host.run_tool(CALL, story.execute)).for_llm == "ran ls"
