"""The tools of one response: who is asked when, what runs, and that every call has a result whatever happens."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from loops import ON_BOTH
from turns import Model, Tools, calls, host_with, kinds, payloads, says, told, wants

from picohook import (
    AbortTurn,
    AbortTurnError,
    Account,
    Deny,
    EncodeError,
    FunctionHook,
    HardAbort,
    HardAbortError,
    Listener,
    Modify,
    PicohookError,
    Respond,
    ToolCall,
    ToolResult,
)
from picohook.model.conversation import UNREADABLE, calls_of, text_of
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio


def by_tool(**decisions):
    """An answer for each tool, and none for others."""
    return lambda call: decisions.get(call.tool)


async def run_batch(host, batch, execute, **settings):
    async with host.session("s1") as session, session.turn("hello") as turn:
        results = await turn.tools(batch, execute, **settings)
    return results, session


async def test_hooks_are_asked_one_by_one_before_the_tools_and_one_by_one_after_them():
    lines = []

    def hook(stage):
        async def handle(payload):
            lines.append(f"> {stage} {payload.tool}")
            await anyio.lowlevel.checkpoint()
            lines.append(f"< {stage} {payload.tool}")

        return handle

    async def execute(call):
        lines.append(call.tool)

    hooks = FunctionHook("h", {stage: hook(stage) for stage in ("before_tool", "after_tool")})
    async with host_with(hooks) as host:
        await run_batch(host, calls("a", "b"), execute)
    assert lines[:4] == ["> before_tool a", "< before_tool a", "> before_tool b", "< before_tool b"]
    assert sorted(lines[4:6]) == ["a", "b"]
    assert lines[6:] == ["> after_tool a", "< after_tool a", "> after_tool b", "< after_tool b"]


async def test_the_tools_of_a_batch_run_at_the_same_time():
    there = {"a": anyio.Event(), "b": anyio.Event()}

    async def execute(call):
        there[call.tool].set()
        for other in there.values():
            await other.wait()
        return call.tool

    async with host_with() as host:
        with anyio.fail_after(30):
            results, _ = await run_batch(host, calls("a", "b"), execute)
    assert [result.for_llm for result in results] == ["a", "b"]


async def test_results_come_in_the_order_of_the_calls_and_not_in_that_of_the_tools():
    done = anyio.Event()

    async def execute(call):
        if call.tool == "slow":
            await done.wait()
        done.set()
        return call.tool

    async with host_with() as host:
        results, session = await run_batch(host, calls("slow", "fast"), execute)
    assert [result.for_llm for result in results] == ["slow", "fast"]
    assert told(session.messages) == [("c0", "slow"), ("c1", "fast")]


async def test_tools_run_one_after_another_on_request():
    running = []

    async def execute(call):
        running.append(call.tool)
        await anyio.lowlevel.checkpoint()
        assert running == [call.tool]
        running.clear()

    async with host_with() as host:
        results, _ = await run_batch(host, calls("a", "b", "c"), execute, parallel=False)
    assert not any(result.is_error for result in results)


async def test_denied_skipped_and_answered_calls_leave_results_beside_those_that_ran():
    hook = FakeHook(
        "h",
        {"before_tool": by_tool(rm=Deny("too dangerous"), cached=Respond({"for_llm": "from the cache"}))},
        provides=["cached"],
    )
    gate = FakeHook("gate", {"approve_tool": lambda call: call.tool != "curl"})
    tools = Tools()
    async with host_with(hook, gate) as host:
        results, session = await run_batch(host, calls("ls", "rm", "cached", "curl"), tools.execute)
    assert tools.ran == ["ls"]
    assert told(session.messages) == [
        ("c0", "did ls"),
        ("c1", "Tool execution denied by hook: too dangerous"),
        ("c2", "from the cache"),
        ("c3", "Tool execution denied by approval hook"),
    ]
    assert [result.is_error for result in results] == [False, True, False, True]
    assert [skipped["Tool"] for skipped in payloads(host, "tool_exec_skipped")] == ["rm", "curl"]
    assert sorted(end["Tool"] for end in payloads(host, "tool_exec_end")) == ["cached", "ls"]


async def test_a_tool_that_fails_is_a_result_and_hurts_no_other():
    tools = Tools(bad=RuntimeError("broken"))
    async with host_with() as host:
        results, _ = await run_batch(host, calls("bad", "good"), tools.execute)
    assert [result.for_llm for result in results] == ["RuntimeError: broken", "did good"]
    assert results[0].is_error


async def test_calls_under_one_id_or_none_each_have_their_own_result():
    batch = [ToolCall(tool=tool, tool_call_id=one) for tool, one in (("a", "x"), ("b", "x"), ("c", None), ("a", "x"))]
    tools = Tools()
    async with host_with() as host:
        results, session = await run_batch(host, batch, tools.execute)
    assert [result.for_llm for result in results] == ["did a", "did b", "did c", "did a"]
    assert told(session.messages) == [("x", "did a"), ("x", "did b"), ("", "did c"), ("x", "did a")]


async def test_an_abort_before_the_tools_runs_none_and_leaves_each_call_a_result():
    hook = FakeHook("h", {"before_tool": by_tool(b=AbortTurn("no more"), a=Deny("not this"))})
    tools = Tools()
    async with host_with(hook) as host, host.session("s1") as session:
        with pytest.raises(AbortTurnError, match="no more") as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=Model(wants("a", "b", "c")).complete, execute=tools.execute)
    assert tools.ran == []
    assert told(session.messages) == [
        ("c0", "Tool execution denied by hook: not this"),
        ("c1", "Tool execution skipped: no more"),
        ("c2", "Tool execution skipped: no more"),
    ]
    assert [result.for_llm for result in raised.value.results] == [text for _, text in told(session.messages)]
    assert [call.tool for call in hook.asked_at("before_tool")] == ["a", "b"]


@pytest.mark.parametrize("decision", [AbortTurn("no more"), HardAbort("no more"), AbortTurn()])
async def test_an_abort_after_the_tools_keeps_their_results_with_the_edits_of_hooks(decision):
    secret = FakeHook("redact", {"after_tool": lambda done: Modify({"for_llm": f"redacted {done.tool}"})}, priority=1)
    hook = FakeHook("h", {"after_tool": by_tool(a=decision)}, priority=2)
    async with host_with(secret, hook) as host, host.session("s1") as session:
        with pytest.raises(AbortTurnError) as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=Model(wants("a", "b")).complete, execute=Tools().execute)
    assert told(session.messages) == [("c0", "redacted a"), ("c1", "redacted b")]
    assert [result.for_llm for result in raised.value.results] == ["redacted a", "redacted b"]
    assert [end["Tool"] for end in payloads(host, "tool_exec_end")] == ["a", "b"]
    assert isinstance(raised.value, HardAbortError) is isinstance(decision, HardAbort)


async def test_a_result_that_a_hook_failed_to_look_at_is_withheld_when_its_failure_ends_the_turn():
    """A redactor that crashes leaves what it would have taken out: that is not for the model."""

    def redact(done):
        raise ValueError("it broke")

    broken = FakeHook("redact", {"after_tool": redact}, on_failure="abort", filter={"tool": "a"})
    async with host_with(broken) as host, host.session("s1") as session:
        with pytest.raises(AbortTurnError) as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=Model(wants("a", "b")).complete, execute=Tools().execute)
    withheld = "The tool ran, and its result is withheld: hook redact failed"
    assert told(session.messages)[0] == ("c0", withheld)
    assert [result.for_llm for result in raised.value.results] == [withheld, "did b"]


async def test_of_two_aborts_a_hard_one_counts_or_else_the_first():
    hook = FakeHook("h", {"after_tool": by_tool(a=AbortTurn("one"), b=HardAbort("two"), c=AbortTurn("three"))})
    async with host_with(hook) as host, host.session("s1") as session, session.turn() as turn:
        with pytest.raises(HardAbortError, match="two"):
            await turn.tools(calls("a", "b", "c"), Tools().execute)
        with pytest.raises(AbortTurnError, match="three"):
            await turn.tools(calls("c", "a"), Tools().execute)


@pytest.mark.parametrize("parallel", [True, False])
@ON_BOTH
async def test_a_cancelled_batch_leaves_no_call_without_a_result(parallel):
    running = anyio.Event()

    async def execute(call):
        if call.tool == "hangs":
            running.set()
            await anyio.sleep_forever()
        return "done"

    model = Model(wants("quick", "hangs", "never"))
    async with (
        host_with() as host,
        host.session("s1") as session,
        anyio.create_task_group() as tasks,
    ):

        async def run():
            async with session.turn("hello") as turn:
                await turn.run(complete=model.complete, execute=execute, parallel=parallel)

        tasks.start_soon(run)
        await running.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    last = "done" if parallel else "Tool execution skipped: the turn ended"
    assert told(session.messages) == [("c0", "done"), ("c1", "Tool execution was interrupted"), ("c2", last)]
    assert len(payloads(host, "tool_exec_start")) == len(payloads(host, "tool_exec_end"))
    assert payloads(host, "turn_end")[0]["Status"] == "aborted"


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_a_cancellation_of_asyncios_own_does_so_too():
    running = asyncio.Event()

    async def execute(call):
        running.set()
        await asyncio.sleep(3600)

    async with host_with() as host, host.session("s1") as session, session.turn() as turn:
        task = asyncio.create_task(turn.tools(calls("a", "b"), execute))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told(turn.messages) == [(place, "Tool execution was interrupted") for place in ("c0", "c1")]


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
@pytest.mark.parametrize("parallel", [True, False])
async def test_a_tool_that_waits_for_a_cancelled_task_fails_alone(parallel):
    async def execute(call):
        if call.tool == "bad":
            waited = asyncio.get_running_loop().create_future()
            waited.cancel()
            await waited
        await anyio.lowlevel.checkpoint()
        return "done"

    async with host_with() as host:
        results, _ = await run_batch(host, calls("good", "bad", "good"), execute, parallel=parallel)
    assert [result.for_llm for result in results] == ["done", "Tool execution was interrupted", "done"]
    assert results[1].is_error


class Stop(BaseException):
    pass


@pytest.mark.parametrize("parallel", [True, False])
async def test_a_base_exception_of_a_tool_is_raised_alone_and_ends_the_others(parallel):
    async def execute(call):
        if call.tool == "stops":
            raise Stop
        await anyio.sleep_forever()

    async with host_with() as host, host.session("s1") as session, session.turn() as turn:
        with pytest.raises(Stop):
            await turn.tools(calls("stops", "b"), execute, parallel=parallel)
        assert [one for one, _ in told(turn.messages)] == ["c0", "c1"]


async def test_a_call_without_a_json_form_is_the_embedders_mistake_and_still_each_call_has_a_result():
    batch = [ToolCall(tool="a", tool_call_id="c0"), ToolCall(tool="b", tool_call_id="c1", arguments={"x": {1, 2}})]
    async with host_with() as host, host.session("s1") as session, session.turn() as turn:
        with pytest.raises(EncodeError):
            await turn.tools(batch, Tools().execute)
        assert [one for one, _ in told(turn.messages)] == ["c0", "c1"]


async def test_a_result_without_a_json_form_is_raised_when_a_hook_is_asked_and_the_result_is_kept():
    tools = Tools(a=ToolResult(for_llm="seen", media=[object()]))
    async with (
        host_with(FakeHook("h", {"after_tool": None})) as host,
        host.session("s1") as session,
        session.turn() as turn,
    ):
        with pytest.raises(EncodeError):
            await turn.tools(calls("a", "b"), tools.execute)
    assert told(session.messages) == [("c0", "seen"), ("c1", "did b")]


async def test_a_hook_cannot_change_a_call_behind_the_approvers_back():
    kept, ran = [], []

    async def before(call):
        kept.append(call)

    async def approve(call):
        if call.tool == "b":
            kept[0].arguments["path"] = "/etc/passwd"  # of the other call, which is approved by now
        return True

    async with host_with(FunctionHook("h", {"before_tool": before, "approve_tool": approve})) as host:
        await run_batch(host, calls("a", "b"), ran.append)
    assert sorted((call.tool, call.arguments) for call in ran) == [("a", {}), ("b", {})]


async def test_a_call_that_changed_behind_the_approvers_back_is_denied():
    class Meddles(Account):
        kept = []  # noqa: RUF012 - one for all chains

        def concluded(self, outcome):
            self.kept.append(outcome.payload)
            if outcome.stage == "approve_tool" and outcome.payload.tool == "b":
                self.kept[0].arguments["path"] = "/etc/passwd"

    class Watch(Listener):
        def begin(self, stage, payload):
            return Meddles(stage, payload)

    tools = Tools()
    async with host_with(FunctionHook("h", {"approve_tool": lambda _: True}), listeners=[Watch()]) as host:
        results, _ = await run_batch(host, calls("a", "b"), tools.execute)
    assert results[0].for_llm == ("Tool execution denied by approval hook: the call was changed after it was approved")
    assert tools.ran == ["b"]


async def test_when_the_user_got_the_answer_from_every_tool_the_turn_ends_there():
    handled = ToolResult(for_llm="shown", response_handled=True)
    model = Model(wants("a", "b", content="see above"))
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=model.complete, execute=Tools(a=handled, b=handled).execute)
    assert (result.content, result.iterations) == ("see above", 1)
    assert told(result.messages) == [("c0", "shown"), ("c1", "shown")]


async def test_but_not_when_it_got_it_from_some_only():
    handled = ToolResult(for_llm="shown", response_handled=True)
    model = Model(wants("a", "b"), says("done"))
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=model.complete, execute=Tools(a=handled).execute)
    assert result.content == "done"


async def test_a_hook_can_still_ask_for_another_round_at_the_end():
    handled = ToolResult(for_llm="shown", response_handled=True)
    hook = FakeHook("h", {"before_finish": [{"action": "retry", "feedback": "and in words"}, None]})
    model = Model(wants("a"), says("in words"))
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=model.complete, execute=Tools(a=handled).execute)
    assert result.content == "in words"


async def test_a_turn_that_never_paused_has_no_calls_to_resume():
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        with pytest.raises(PicohookError, match="only a resumed turn takes None"):
            await turn.tools(None, Tools().execute)
        assert await turn.tools([], Tools().execute) == []


# What a model wrote.


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ("{", {UNREADABLE: "{"}),
        ("[1]", {UNREADABLE: [1]}),
        ('{"a": NaN}', {UNREADABLE: '{"a": NaN}'}),
        ('{"a": 1e999}', {UNREADABLE: '{"a": 1e999}'}),
        ('{"a": "\\ud800"}', {UNREADABLE: '{"a": "\\ud800"}'}),
        ("[" * 100_000, {UNREADABLE: "[" * 100_000}),
        ("9" * 5000, {UNREADABLE: "9" * 5000}),
    ],
    ids=range(11),
)
async def test_any_arguments_of_a_model_become_a_call_that_hooks_can_be_asked_about(written, arguments):
    (call,) = calls_of({"tool_calls": [{"id": 7, "function": {"name": "a", "arguments": written}}]})
    assert (call.tool, call.arguments, call.tool_call_id) == ("a", arguments, "7")
    async with host_with(FakeHook("h", {"before_tool": None})) as host:
        assert (await host.before_tool(call)).trail[0].error is None


def test_a_call_may_be_flat_and_nameless():
    assert calls_of({"tool_calls": [{"name": "a", "arguments": {}}, {"name": None}]}) == [
        ToolCall(tool="a"),
        ToolCall(tool=""),
    ]
    assert calls_of({}) == calls_of({"tool_calls": None}) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [("a", "a"), (None, ""), ([{"type": "text", "text": "a"}, {"type": "image"}, "b", {"text": "c"}], "ac")],
)
def test_the_text_of_a_response(content, text):
    assert text_of({"content": content}) == text


async def test_a_denial_ends_no_loop():
    hook = FakeHook("h", {"before_tool": Deny("no")})
    model = Model(wants("a"), wants("a"), says("then not"))
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=model.complete, execute=Tools().execute)
    assert result.content == "then not"
    assert kinds(host).count("tool_exec_skipped") == 2
