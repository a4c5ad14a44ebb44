"""What reaches a turn from outside, and what it brings there: the user's words meanwhile, interrupts, deliveries,
cancellation."""

from __future__ import annotations

import json

import anyio
import pytest
from loops import ON_BOTH
from scripted import SERVE, scripted
from turns import Model, Tools, calls, host_with, kinds, payloads, says, told, wants

from picohook import Deny, FunctionHook, Retry, ToolCall, ToolResult
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio


class Meanwhile:
    """Tools of which one brings something in from outside while it runs."""

    def __init__(self, bring):
        self.bring = bring
        self.ran = []
        self.turn = None

    async def execute(self, call):
        self.ran.append(call.tool)
        if call.tool == "now":
            self.taken = self.bring(self.turn)
        return f"did {call.tool}"


# The user says something.


@pytest.mark.parametrize("parallel", [True, False])
async def test_a_message_of_the_user_skips_the_tools_not_begun_and_goes_to_the_model(parallel):
    tools = Meanwhile(lambda turn: turn.steer("rather not"))
    model = Model(wants("a", "now", "b"), says("as you like"))
    after = FakeHook("h", {"after_tool": None})
    async with host_with(after) as host, host.session("s1") as session, session.turn("hello") as turn:
        tools.turn = turn
        result = await turn.run(complete=model.complete, execute=tools.execute, parallel=parallel)
    assert tools.taken
    skipped = "Tool execution skipped: queued user steering message"
    assert told(result.messages) == [
        (f"c{place}", f"did {tool}" if tool in tools.ran else skipped) for place, tool in enumerate(["a", "now", "b"])
    ]
    assert "now" in tools.ran
    assert parallel or tools.ran == ["a", "now"]
    assert [done.tool for done in after.asked_at("after_tool")] == [
        one for one in ("a", "now", "b") if one in tools.ran
    ]
    assert [one["Reason"] for one in payloads(host, "tool_exec_skipped")] == ["queued user steering message"] * (
        3 - len(tools.ran)
    )
    assert model.requests[1].messages[-1] == {"role": "user", "content": "rather not"}
    assert payloads(host, "interrupt_received") == [
        {"Kind": "steering", "Role": "user", "ContentLen": 10, "QueueDepth": 0, "HintLen": 0}
    ]
    assert payloads(host, "steering_injected") == [{"Count": 1, "TotalContentLen": 10}]
    assert result.content == "as you like"


async def test_calls_that_hooks_were_not_asked_about_yet_are_skipped_without_asking():
    hook = FakeHook("h", {"before_tool": lambda call: turn.steer("rather not") and None})
    tools = Tools()
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        results = await turn.tools(calls("a", "b", "c"), tools.execute)
        assert turn.collect() == [{"role": "user", "content": "rather not"}]
        again = await turn.tools([], tools.execute)
    assert [call.tool for call in hook.asked_at("before_tool")] == ["a"]
    assert tools.ran == again == []
    assert [result.is_error for result in results] == [True] * 3


async def test_a_message_of_the_user_while_the_model_answers_is_not_lost():
    def answer(request):
        assert turn.steer("one more thing")
        return says("so that was it")

    model = Model(answer, says("that too"))
    asked = FakeHook("h", {"before_finish": None})
    async with host_with(asked) as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=model.complete, execute=Tools().execute)
    assert result.content == "that too"
    assert [message["content"] for message in model.requests[1].messages][-1] == "one more thing"
    assert len(asked.asked) == 1


async def test_a_message_of_the_user_during_before_finish_is_not_lost():
    hook = FakeHook("h", {"before_finish": [lambda finish: turn.steer("wait") and None, None]})
    model = Model(says("one"), says("two"))
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=model.complete, execute=Tools().execute)
    assert result.content == "two"


async def test_a_turn_that_is_over_takes_no_more_messages_and_says_so():
    async with host_with() as host, host.session("s1") as session:
        turn = session.turn("hello")
        assert not turn.steer("too early")
        async with turn:
            await turn.run(complete=Model(says("done")).complete, execute=Tools().execute)
            assert not turn.steer("too late")
            assert not turn.interrupt("too late")
        assert not turn.steer("much too late")
    assert "interrupt_received" not in kinds(host)


# A graceful interrupt.


async def test_an_interrupt_skips_the_tools_not_begun_and_lets_the_model_answer_one_last_time():
    tools = Meanwhile(lambda turn: turn.interrupt("that is enough"))
    model = Model(wants("now", "b"), says("so far"))
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        tools.turn = turn
        result = await turn.run(
            complete=model.complete, execute=tools.execute, parallel=False, tools=[{"name": "now"}, {"name": "b"}]
        )
    assert tools.ran == ["now"]
    assert told(result.messages) == [
        ("c0", "did now"),
        ("c1", "Tool execution skipped: graceful interrupt requested"),
    ]
    assert [request.graceful_terminal for request in model.requests] == [False, True]
    assert [len(request.tools) for request in model.requests] == [2, 0]
    assert model.requests[1].messages[-1]["content"] == "that is enough"
    assert payloads(host, "interrupt_received")[0]["Kind"] == "graceful"
    assert result.content == "so far"
    assert payloads(host, "turn_end")[0]["Status"] == "completed"


async def test_after_an_interrupt_a_model_that_still_wants_tools_gets_none_and_the_turn_ends():
    tools = Meanwhile(lambda turn: turn.interrupt())
    model = Model(wants("now"), wants("now", content="just one more"))
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        tools.turn = turn
        result = await turn.run(complete=model.complete, execute=tools.execute)
    assert (tools.ran, result.content) == (["now"], "just one more")
    assert told(result.messages)[-1] == ("c0", "Tool execution skipped: graceful interrupt requested")
    assert "steering_injected" not in kinds(host)


async def test_an_interrupt_while_the_model_answers_needs_no_further_answer_but_its_message_does():
    for message, answers in (("", 1), ("stop it", 2)):

        def answer(request, message=message):
            turn.interrupt(message)
            return says("one")

        model = Model(answer, says("two"))
        async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
            await turn.run(complete=model.complete, execute=Tools().execute)
        assert len(model.requests) == answers


async def test_a_turn_during_its_last_answer_takes_no_more_messages():
    def answer(request):
        assert not turn.steer("one more thing")
        return says("bye")

    hook = FakeHook("h", {"before_finish": [Retry("politely"), None]})
    model = Model(says("bye"), answer)
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        assert turn.interrupt()
        await turn.run(complete=model.complete, execute=Tools().execute)
    assert [request.graceful_terminal for request in model.requests] == [True, True]


# Deliveries.


class Channel:
    def __init__(self, error=None):
        self.got = []
        self.error = error

    async def deliver(self, delivery):
        if self.error is not None:
            raise self.error
        self.got.append(delivery)


async def run_one(deliver, result, *hooks):
    async with (
        host_with(*hooks) as host,
        host.session("s1", channel="telegram", chat_id="42", deliver=deliver) as session,
        session.turn("hello") as turn,
    ):
        (left,) = await turn.tools([ToolCall(tool="draw", tool_call_id="c0")], Tools(draw=result).execute)
    return left, told(session.messages)


@pytest.mark.parametrize(
    ("result", "text", "media"),
    [
        (ToolResult(for_llm="x", for_user="look"), "look", ()),
        (ToolResult(for_llm="x", media=["a.png", {"ref": 1}], response_handled=True), "", ("a.png", {"ref": 1})),
        (ToolResult(for_user="look", media=["a.png"], response_handled=True), "look", ("a.png",)),
    ],
    ids=["text", "media", "both"],
)
async def test_the_users_part_of_a_result_is_delivered(result, text, media):
    channel = Channel()
    left, _ = await run_one(channel.deliver, result)
    (got,) = channel.got
    assert (got.text, got.media, got.tool, got.channel, got.chat_id) == (text, media, "draw", "telegram", "42")
    assert left == result


@pytest.mark.parametrize("result", [ToolResult(for_llm="x"), ToolResult(for_user="x", media=["a"], silent=True)])
async def test_a_silent_result_or_one_for_the_model_only_is_not_delivered(result):
    channel = Channel()
    await run_one(channel.deliver, result)
    assert channel.got == []


async def test_results_are_delivered_with_the_edits_of_hooks_and_so_are_the_results_of_hooks():
    channel = Channel()
    answers = FakeHook("h", {"before_tool": {"action": "respond", "result": {"for_user": "ready"}}}, provides=["draw"])
    await run_one(channel.deliver, "never", answers)
    edits = FakeHook("h", {"after_tool": {"action": "modify", "result": {"for_user": "edited"}}})
    await run_one(channel.deliver, ToolResult(for_user="raw"), edits)
    await run_one(channel.deliver, ToolResult(for_user="raw"), FakeHook("h", {"before_tool": Deny("no")}))
    assert [got.text for got in channel.got] == ["ready", "edited"]


async def test_a_plain_function_can_deliver_and_without_one_nothing_is_delivered():
    got = []
    await run_one(got.append, ToolResult(for_user="look"))
    assert [one.text for one in got] == ["look"]
    left, _ = await run_one(None, ToolResult(for_user="look", response_handled=True))
    assert left.response_handled


async def test_a_failed_delivery_is_reported_to_the_model_and_the_turn_continues():
    drawn = ToolResult(for_llm="drawn", for_user="look", response_handled=True)
    left, messages = await run_one(Channel(OSError("no such chat")).deliver, drawn)
    assert (left.is_error, left.response_handled) == (True, False)
    assert messages == [("c0", "drawn\nDelivery to the user failed: no such chat")]
    model = Model(wants("draw"), says("I could not show it"))
    broken = Channel(OSError("no such chat")).deliver
    async with host_with() as host, host.session("s1", deliver=broken) as session, session.turn("draw") as turn:
        result = await turn.run(complete=model.complete, execute=Tools(draw=drawn).execute)
    assert result.content == "I could not show it"


@ON_BOTH
async def test_a_delivery_that_is_cancelled_leaves_no_call_without_a_result():
    delivering = anyio.Event()

    async def deliver(delivery):
        delivering.set()
        await anyio.sleep_forever()

    async with (
        host_with() as host,
        host.session("s1", deliver=deliver) as session,
        session.turn("hello") as turn,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(turn.tools, calls("a", "b"), Tools(a=ToolResult(for_llm="x", for_user="y")).execute)
        await delivering.wait()
        tasks.cancel_scope.cancel()
    assert told(session.messages) == [("c0", "x"), ("c1", "did b")]


# Cancelling.

CANCELS = {"capabilities": {"cancel": True}}


@pytest.mark.parametrize("understands", [True, False])
@pytest.mark.parametrize("stage", ["before_tool", "approve_tool"])
@ON_BOTH
async def test_cancelling_the_caller_cancels_the_call_and_a_hook_with_the_capability_gets_cancel(
    stage, understands, board
):
    spec = scripted("h", ["hello", CANCELS if understands else {}], board.call("h"), SERVE, stages=(stage,))
    asked = ToolCall(tool="x", tool_call_id="c0", arguments={"do": [["tell", "asked"], ["silent"]]})
    tools = Tools()
    async with host_with(spec) as host, host.session("s1") as session:
        line = await board.line("h")
        async with session.turn("hello") as turn, anyio.create_task_group() as tasks:
            tasks.start_soon(turn.tools, [asked], tools.execute)
            assert await line.said() == "asked"
            tasks.cancel_scope.cancel()
        assert told(turn.messages) == [("c0", "Tool execution skipped: the turn ended")]
        if understands:
            cancelled = json.loads(await line.said())
            assert (cancelled["method"], cancelled["params"]["id"]) == ("hook.cancel", 2)
        async with session.turn("hello") as turn:
            await turn.tools([ToolCall(tool="x", arguments={"do": [["tell", "next"]]})], tools.execute)
        assert await line.said() == "next"  # and nothing in between
        assert host.status().hooks[0].starts == 1
    assert tools.ran == ["x"]


@ON_BOTH
async def test_a_hook_that_is_a_function_is_cancelled_with_its_caller():
    asked, cancelled = anyio.Event(), []

    async def think(call):
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(call.tool)

    async with (
        host_with(FunctionHook("h", {"before_tool": think})) as host,
        host.session("s1") as session,
        session.turn("hello") as turn,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(turn.tools, calls("a"), Tools().execute)
        await asked.wait()
        tasks.cancel_scope.cancel()
    assert cancelled == ["a"]
