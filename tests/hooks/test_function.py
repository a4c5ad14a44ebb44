"""Python callables as hooks: what they may return."""

from __future__ import annotations

import asyncio
import functools
import re
import time
import types

import anyio
import anyio.lowlevel
import needs
import pytest
from kinds_support import FAR
from loops import ON_BOTH
from rows import each

from picohook import (
    AbortTurn,
    Continue,
    Deny,
    FunctionHook,
    HookSpec,
    Host,
    Meta,
    Modify,
    Notes,
    Respond,
    Retry,
    Skip,
    ToolCall,
    ToolResult,
)
from picohook.model.encoded import Encoded
from picohook.model.payloads import Compaction, Finish, LLMRequest, LLMResponse, Prompt, ToolReturn
from picohook.model.stages import BEFORE_TOOL
from picohook.transport import reactor

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash")


async def asked(stage, payload, said, **settings):
    async with Host([FunctionHook("hook", {stage: lambda _: said}, **settings)], timeouts=FAR) as host:
        return await getattr(host, stage)(payload)


@each(
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


@each(
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
        (
            "after_tool",
            ToolReturn(tool="a", result=ToolResult(for_llm="secret", for_user="x")),
            in_place(lambda p: setattr(p.result, "for_llm", "[redacted]")),
            {"result": ToolResult(for_llm="[redacted]", for_user="x")},
        ),
        (
            "after_tool",
            ToolReturn(tool="a", result=ToolResult(for_llm="secret")),
            in_place(lambda p: setattr(p, "result", {"for_llm": "[redacted]", "async": True})),
            {"result": ToolResult(for_llm="[redacted]", async_=True)},
        ),
        ("before_prompt", Prompt(prompt="p"), in_place(lambda p: setattr(p, "prompt", "q")), {"prompt": "q"}),
        (
            "before_llm",
            LLMRequest(system_prompt="p"),
            in_place(lambda p: setattr(p, "system_prompt", "q")),
            {"system_prompt": "q"},
        ),
        (
            "after_llm",
            LLMResponse(response={"content": "hm", "tool_calls": []}),
            in_place(lambda p: setattr(p, "response", {"content": "ah"})),
            {"response": {"content": "ah"}},
        ),
        (
            "before_tool",
            ToolCall(tool="a"),
            in_place(lambda p: (setattr(p, "tool", "b"), setattr(p, "arguments", {"x": 1}))),
            {"tool": "b", "arguments": {"x": 1}},
        ),
        (
            "after_compact",
            Compaction(scope="auto", messages=[{"role": "user"}]),
            in_place(lambda p: setattr(p, "messages", [])),
            {"messages": []},
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
        ("after_tool", ToolReturn(tool="a", result=ToolResult()), lambda p: setattr(p, "tool", "b"), "tool"),
        ("before_tool", ToolCall(tool="a"), lambda p: setattr(p, "meta", Meta(turn_id="t")), "meta"),
    ],
)
async def test_a_forbidden_change_in_place_is_its_failure(stage, payload, change, names):
    async with Host([FunctionHook("hook", {stage: in_place(change)})], timeouts=FAR) as host:
        outcome = await getattr(host, stage)(payload)
    assert outcome.payload is payload
    assert outcome.trail[0].error == f"it changed {names} in place, which no hook can change at {stage}: change a copy"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda p: setattr(p.result, "for_llm", 5), "1 validation error for ToolResult"),
        (lambda p: setattr(p, "result", None), "1 validation error for ToolReturn"),
        (lambda p: setattr(p.result, "for_lm", ""), "1 validation error for ToolResult"),
        (lambda p: setattr(p.meta, "turn_id", ""), "1 validation error for Meta"),
    ],
)
async def test_a_wrong_value_in_place_is_its_failure(change, error):
    returned = ToolReturn(tool="a", result=ToolResult(for_llm="secret"))
    async with Host([FunctionHook("hook", {"after_tool": in_place(change)}, on_failure="deny")], timeouts=FAR) as host:
        outcome = await host.after_tool(returned)
    assert outcome.action == "abort_turn"
    assert error in outcome.trail[0].error


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


def says_cancelled_in_a_group(_):
    raise BaseExceptionGroup("CancelledError beside another", [asyncio.CancelledError(), ValueError()])


@each("stage", ["before_tool", "approve_tool"])
@each("function", [panics, panics_itself, says_cancelled, says_cancelled_in_a_group, awaits_what_was_cancelled])
async def test_whatever_a_function_raises_is_its_failure_and_not_the_agents(function, stage):
    hook = FunctionHook("hook", {stage: function}, on_failure="deny")
    async with Host([hook], timeouts=FAR) as host:
        outcome = await getattr(host, stage)(CALL)
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].failure == "error"
    assert ("CancelledError" if "cancelled" in function.__name__ else "Panic: at the disco") in outcome.trail[0].error


@ON_BOTH
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


async def test_a_fallback_is_asked_about_the_payload_as_it_was_before_the_function_changed_it_and_failed():
    """Also where no other program has the payload, so that functions are given no copies of it."""
    seen = []

    def first(call):
        call.arguments["path"] = "/"
        call.tool = "other"
        raise ValueError("broken")

    hooks = [
        FunctionHook("first", {"before_tool": first}, fallback="second"),
        FunctionHook("second", {"before_tool": lambda call: seen.append((call.tool, dict(call.arguments)))}),
    ]
    call = Encoded.read(ToolCall, Encoded(ToolCall(tool="rm", arguments={"path": "a"})).params())
    async with Host(hooks, timeouts=FAR) as host:
        outcome = await host.ask_hook("first", BEFORE_TOOL, call)
    assert seen == [("rm", {"path": "a"})]
    assert (outcome.action, outcome.payload.tool, outcome.trail[0].degraded) == ("continue", "rm", "second: error")


# Awaitables.


async def denies(_):
    await anyio.lowlevel.checkpoint()
    return Deny("no")


class Denies:
    """Callable in an async way."""

    async def __call__(self, call):
        return await denies(call)


class Later:
    """An awaitable that is no coroutine. As a function, the class is called with the call."""

    def __init__(self, call):
        self.call = call

    def __await__(self):
        return denies(self.call).__await__()


def plainly(function):
    """A plain function that returns a coroutine."""

    def plain(argument):
        return function(argument)

    return plain


async def returns_one(call):
    return denies(call)


@types.coroutine
def old_style(call):
    return (yield from denies(call).__await__())


AWAITABLES = {
    "a coroutine function": denies,
    "an object": Denies(),
    "its method": Denies().__call__,
    "a partial": functools.partial(lambda _, call: denies(call), 1),
    "a partial of an async function": functools.partial(denies),
    "a partial of an object": functools.partial(Denies()),
    "a plain function": plainly(denies),
    "a plain function that returns an awaitable": Later,
    "a plain function of a partial": functools.partial(Later),
    "an async function that returns a coroutine": returns_one,
    "a plain function that returns one that returns one": plainly(returns_one),
    "one of another Python": old_style,
}


@each("function", AWAITABLES)
async def test_what_a_function_returns_is_awaited(function):
    hook = FunctionHook("hook", {"before_tool": AWAITABLES[function], "approve_tool": AWAITABLES[function]})
    async with Host([hook], timeouts=FAR) as host:
        outcomes = await host.before_tool(CALL), await host.approve_tool(CALL)
    assert [(one.action, one.reason, one.trail[0].error) for one in outcomes] == [("deny_tool", "no", None)] * 2


async def returns_itself(call):
    return returns_itself(call)


async def test_a_function_whose_result_never_ends_fails():
    hook = FunctionHook("hook", {"before_tool": returns_itself, "approve_tool": returns_itself}, on_failure="deny")
    async with Host([hook], timeouts=FAR) as host:
        outcomes = await host.before_tool(CALL), await host.approve_tool(CALL)
    assert {one.action for one in outcomes} == {"deny_tool"}
    assert outcomes[0].trail[0].error == "what it returned is awaited, and so is the result of that, without end"


async def test_an_error_in_what_a_function_returns_is_its_failure():
    async def fails(_):
        raise ValueError("broken")

    hook = FunctionHook("hook", {"before_tool": plainly(fails)}, on_failure="deny")
    async with Host([hook], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
    assert outcome.action == "deny_tool"
    assert outcome.trail[0].error.startswith("ValueError: broken (test_function.py:")


async def test_an_event_is_awaited_too():
    told = []

    async def tell(event):
        await anyio.lowlevel.checkpoint()
        told.append(event.kind)

    async with Host([FunctionHook("hook", on_event=plainly(tell), observe=["turn_start"])]) as host:
        await host.emit_and_wait("turn_start")
    assert told == ["turn_start"]


# A function that holds the event loop.

LIMIT, HOLDS = 0.02, 0.03


@pytest.fixture
def a_loop_that_is_held_soon(monkeypatch):
    monkeypatch.setattr(reactor, "HELD", LIMIT)


EACH = {
    "before_prompt": Prompt(prompt="p"),
    "before_llm": LLMRequest(),
    "after_llm": LLMResponse(response={}),
    "before_tool": CALL,
    "approve_tool": CALL,
    "after_tool": ToolReturn(tool="a", result=ToolResult()),
    "before_finish": Finish(),
    "before_compact": Compaction(scope="auto"),
    "after_compact": Compaction(scope="auto"),
}


def holding(answer=None, *, waits=False):
    """A function that holds the event loop, and maybe waits before and after that."""

    async def function(_):
        if waits:
            with anyio.CancelScope(shield=True):  # the deadline may pass here already
                await anyio.lowlevel.checkpoint()
        time.sleep(HOLDS)
        if waits:
            await anyio.lowlevel.checkpoint()
        return answer

    return function


@pytest.mark.parametrize("stage", EACH)
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.usefixtures("a_loop_that_is_held_soon")
@ON_BOTH
async def test_A12_a_function_that_blocks_past_its_deadline_is_late_and_named(stage, waits, journal):
    function = holding(True if stage == "approve_tool" else None, waits=waits)
    hook = FunctionHook("slow", {stage: function}, timeout=LIMIT, approval_timeout=LIMIT, on_failure="abort")
    async with Host([hook], timeouts=FAR, logger=journal) as host:
        outcome = await getattr(host, stage)(EACH[stage])
    assert outcome.action in {"abort_turn", "deny_tool"}
    assert not outcome.approved
    assert (outcome.trail[0].error, outcome.trail[0].failure) == ("no answer in time", "timeout")
    (line,) = journal.all("held the event loop")
    assert line["hook"] == "slow"
    assert re.fullmatch(r"a function of it did not wait for \d+\.\d s: call what blocks in a thread", line["why"])


@pytest.mark.usefixtures("a_loop_that_is_held_soon")
@ON_BOTH
async def test_A12_a_function_that_blocks_again_and_again_is_named_once_in_a_while(journal):
    hook = FunctionHook("slow", {"before_tool": holding()}, on_event=holding(), observe=["turn_start"])
    async with Host([hook], timeouts=FAR, logger=journal) as host:
        await host.before_tool(CALL)
        await host.emit_and_wait("turn_start")
    assert len(journal.all("held the event loop", hook="slow")) == 1


@pytest.mark.usefixtures("a_loop_that_is_held_soon")
@ON_BOTH
async def test_A12_a_hook_that_waits_is_late_when_another_one_held_the_loop(journal):
    """Two calls at once: the hook of one holds the loop past the deadline of the other, which has its answer by then."""
    began, go_on = anyio.Event(), anyio.Event()

    async def waits(_):
        began.set()
        await go_on.wait()
        return True

    async def blocks(_):
        await began.wait()
        go_on.set()
        time.sleep(HOLDS)
        return True

    hooks = [
        FunctionHook("waits", {"approve_tool": waits}, approval_timeout=LIMIT),
        FunctionHook("blocks", {"approve_tool": blocks}),
    ]
    async with Host(hooks, timeouts=FAR, logger=journal) as host:
        outcome = await host.approve_tool(CALL)
    assert outcome.approved is False
    assert outcome.reason == "hook waits failed: no answer in time"
    assert [line["hook"] for line in journal.all("held the event loop")] == ["blocks"]


@ON_BOTH
async def test_A12_a_hook_is_late_when_the_program_held_the_loop(journal):
    began, go_on = anyio.Event(), anyio.Event()

    async def waits(_):
        began.set()
        await go_on.wait()

    hook = FunctionHook("waits", {"before_tool": waits}, timeout=LIMIT, on_failure="deny")
    outcomes = []

    async def ask():
        outcomes.append(await host.before_tool(CALL))

    async with Host([hook], timeouts=FAR, logger=journal) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await began.wait()
        go_on.set()
        time.sleep(HOLDS)
    assert (outcomes[0].action, outcomes[0].trail[0].error) == ("deny_tool", "no answer in time")
    assert not journal.all("held the event loop")


@pytest.mark.usefixtures("a_loop_that_is_held_soon")
@needs.other_rooms
async def test_A12_a_model_that_blocks_the_loop_is_named_by_its_hook(journal):
    async def complete(prompt, model):
        time.sleep(HOLDS)
        return ""

    async with Host(
        [HookSpec(name="judge", prompt="x", stages=("before_tool",))], complete=complete, logger=journal
    ) as host:
        await host.before_tool(CALL)
    assert [line["hook"] for line in journal.all("held the event loop")] == ["judge"]


async def test_a_function_that_only_waits_is_not_named(journal):
    async def waits(_):
        await anyio.sleep(reactor.HELD + 0.01)

    async with Host([FunctionHook("waits", {"before_tool": waits})], timeouts=FAR, logger=journal) as host:
        await host.before_tool(CALL)
    assert not journal.all("held the event loop")
