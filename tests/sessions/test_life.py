"""A session and its turns: the ids that they carry, the events that they emit by themselves, sub-turns."""

from __future__ import annotations

import anyio
import pytest
from loops import ON_BOTH
from turns import Model, Tools, calls, host_with, kinds, payloads, says, told, wants

from picohook import (
    AbortTurn,
    AbortTurnError,
    FunctionHook,
    HardAbort,
    HardAbortError,
    LLMRequest,
    Modify,
    PicohookError,
    Respond,
)
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio

WATCHED = ("before_prompt", "before_llm", "after_llm", "before_tool", "approve_tool", "after_tool", "before_finish")
WHOLE_TURN = [
    "session_start",
    "turn_start",
    "prompt_sent",
    "llm_request",
    "llm_response",
    "tool_exec_start",
    "tool_exec_end",
    "llm_request",
    "llm_response",
    "turn_end",
    "task_completed",
    "session_end",
]


async def test_a_turn_asks_at_every_stage_and_emits_every_event_by_itself():
    watch = FakeHook("watch", dict.fromkeys(WATCHED) | {"approve_tool": True})
    model, tools = Model(wants("ls"), says("done")), Tools()
    async with host_with(watch) as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=model.complete, execute=tools.execute, model="m1")
    assert kinds(host) == WHOLE_TURN
    assert [asked.stage for asked in watch.asked] == [*WATCHED[:6], "before_llm", "after_llm", "before_finish"]
    assert (result.content, result.iterations, result.response) == ("done", 2, says("done"))
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert {request.model for request in model.requests} == {"m1"}
    assert payloads(host, "turn_start") == [{"UserMessage": "hello", "MediaCount": 0}]
    (end,) = payloads(host, "turn_end")
    assert end.pop("Duration") > 0
    assert end == {
        "Status": "completed",
        "Iterations": 2,
        "FinalContentLen": 4,
        "UserMessage": "hello",
        "FinalContent": "done",
        "Workspace": "",
        "ActiveSkills": [],
        "AttemptedSkills": [],
        "FinalSuccessfulPath": [],
        "SkillContextSnapshots": [],
        "ToolKinds": ["ls"],
        "ToolExecutions": [{"name": "ls", "success": True}],
    }
    assert payloads(host, "task_completed") == [{"Status": "completed", "FinalContent": "done"}]


@pytest.mark.parametrize(
    ("edit", "content"),
    [
        (lambda messages: [*messages[:-1], {**messages[-1], "content": "[redacted]"}], "[redacted]"),
        (lambda messages: [{"role": "system", "content": "s"}, *messages], "secret"),
        (lambda messages: [*messages, {"role": "user", "content": "thanks"}], "secret"),
        (lambda messages: messages[:-1], ""),
        (lambda _: [], ""),
        (lambda messages: [*messages, {"role": "assistant", "content": "more"}], "more"),
    ],
)
async def test_an_edit_of_the_answer_at_before_finish_reaches_the_result_of_the_turn(edit, content):
    hook = FakeHook("h", {"before_finish": [None, lambda finish: Modify({"messages": edit(list(finish.messages))})]})
    model = Model(says("before"), says("secret"))
    async with host_with(hook) as host, host.session("s1") as session:
        async with session.turn("one") as turn:
            await turn.run(complete=model.complete, execute=Tools().execute)
        async with session.turn("two") as turn:
            result = await turn.run(complete=model.complete, execute=Tools().execute)
    assert (result.content, result.response["content"], turn.content) == (content, content, content)
    assert payloads(host, "turn_end")[-1]["FinalContent"] == content
    assert (
        list(result.messages) == session.messages == edit([*session_of("one", "before"), *session_of("two", "secret")])
    )


def session_of(asked, answered):
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]


async def test_every_question_and_event_has_its_ids_and_its_iteration():
    watch = FakeHook("watch", dict.fromkeys(WATCHED) | {"approve_tool": True})
    model = Model(wants("ls"), says("done"))
    async with host_with(watch) as host:
        async with (
            host.session("s1", agent_id="a1", channel="telegram", chat_id="42") as session,
            session.turn("hello", turn_id="t1") as turn,
        ):
            await turn.run(complete=model.complete, execute=Tools().execute)
        async with host.session("s2") as session, session.turn() as one, session.turn() as other:
            assert "" != one.meta.turn_id != other.meta.turn_id
    for asked in watch.asked:
        meta = asked.payload.meta
        assert (meta.agent_id, meta.turn_id, meta.parent_turn_id, meta.session_key) == ("a1", "t1", "", "s1")
        assert (asked.payload.channel, asked.payload.chat_id) == ("telegram", "42")
        assert (meta.trace_path, meta.source.split(".")[0]) == ("runTurn", "turn")
    iterations = [(asked.stage, asked.payload.meta.iteration) for asked in watch.asked]
    assert iterations == [("before_prompt", 0), *((stage, 1) for stage in WATCHED[1:6])] + [
        (stage, 2) for stage in ("before_llm", "after_llm", "before_finish")
    ]
    of_turn = [event for event in host.events if event.meta.turn_id == "t1"]
    assert [event.kind for event in of_turn] == WHOLE_TURN[1:-1]
    assert [event.meta.iteration for event in of_turn] == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert {event.meta.session_key for event in of_turn} == {"s1"}
    assert {event.meta.trace_path for event in of_turn} == {"runTurn"}
    start, end = host.events[0], next(event for event in host.events if event.kind == "session_end")
    assert (start.meta.session_key, start.meta.turn_id, start.meta.agent_id) == ("s1", "", "a1")
    assert (end.payload["SessionKey"], len(end.payload["Messages"])) == ("s1", 4)


async def test_meta_reaches_a_hook_process_as_the_protocol_spells_it(board):
    from scripted import SERVE, scripted

    spec = scripted("h", board.call("h"), SERVE, stages=("before_prompt",), observe=("turn_start",))
    async with host_with(spec) as host:
        line = await board.line("h")
        async with host.session("s1", agent_id="a1") as session, session.turn("hi", turn_id="t1") as turn:
            await turn.prompt()
            said = await line.said()
    for word in ('"AgentID":"a1"', '"TurnID":"t1"', '"ParentTurnID":""', '"SessionKey":"s1"', '"Iteration":0'):
        assert word in said.replace(" ", "")


async def test_a_conversation_continues_from_turn_to_turn():
    model = Model(says("one"), says("two"))
    async with host_with() as host, host.session("s1") as session:
        for said in ("first", "second"):
            async with session.turn(said) as turn:
                await turn.run(complete=model.complete, execute=Tools().execute)
    assert [message["content"] for message in model.requests[1].messages] == ["first", "one", "second"]
    assert [message["content"] for message in session.messages] == ["first", "one", "second", "two"]


async def test_a_turn_can_be_taken_step_by_step():
    model, tools = Model(wants("ls"), says("done")), Tools()
    async with host_with() as host, host.session("s1") as session, session.turn() as turn:
        assert await turn.prompt("hello") == "hello"
        response = await turn.llm(LLMRequest(messages=turn.messages), model.complete)
        assert response.response["tool_calls"]
        (result,) = await turn.tools(calls("ls"), tools.execute)
        assert result.for_llm == "did ls"
        final = await turn.llm(LLMRequest(messages=turn.messages), model.complete)
        assert await turn.finish(final)
    assert [message["role"] for message in session.messages] == ["user", "assistant", "tool", "assistant"]
    assert payloads(host, "turn_end")[0]["FinalContent"] == "done"


async def test_requests_and_calls_may_be_mappings():
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        asked = await turn.decide_llm({"messages": [{"role": "user", "content": "hello"}]})
        decided = await turn.decide({"tool": "ls"})
        (result,) = await turn.tools([{"tool": "ls"}], Tools().execute)
    assert (asked.request.meta.session_key, decided.call.meta.session_key) == ("s1", "s1")
    assert result.for_llm == "did ls"


async def test_an_aborted_turn_says_so_and_its_error_carries_the_reason():
    hook = FakeHook("h", {"before_llm": AbortTurn("enough")})
    async with host_with(hook) as host, host.session("s1") as session:
        with pytest.raises(AbortTurnError, match="enough") as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=Model().complete, execute=Tools().execute)
    assert type(raised.value) is AbortTurnError
    assert payloads(host, "turn_abort") == [{"Reason": "enough"}]
    assert payloads(host, "turn_end")[0]["Status"] == "aborted"
    assert not {"error", "task_completed"} & set(kinds(host))


async def test_a_failed_turn_says_so_and_the_error_is_raised_unchanged():
    async def complete(request):
        raise ConnectionError("no\x1b[31m model")

    async with host_with() as host, host.session("s1") as session:
        with pytest.raises(ConnectionError):
            async with session.turn("hello") as turn:
                await turn.run(complete=complete, execute=Tools().execute)
    assert payloads(host, "error") == [{"Stage": "turn", "Message": "no\\x1b[31m model"}]
    assert payloads(host, "turn_end")[0]["Status"] == "error"
    assert kinds(host)[-4:] == ["error", "turn_abort", "turn_end", "session_end"]


@pytest.mark.parametrize("kind", ["turn_abort", "session_end"])
@ON_BOTH
async def test_cleanups_are_waited_for_even_when_the_turn_is_cancelled(kind):
    cleaned = []

    async def clean_up(event):
        await anyio.lowlevel.checkpoint()
        cleaned.append(event.kind)

    async with host_with(FunctionHook("cleaner", on_event=clean_up, observe=(kind,))) as host:
        with anyio.CancelScope() as scope:
            async with host.session("s1") as session, session.turn("hello"):
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert cleaned == [kind]
    assert payloads(host, "turn_end")[0]["Status"] == "aborted"
    assert payloads(host, "turn_abort") == [{"Reason": "the turn was cancelled"}]  # on every loop


async def test_ownership_of_tools_ends_with_the_session():
    tool = {"type": "function", "function": {"name": "lookup"}}
    owner = FakeHook(
        "owner",
        {
            "before_llm": lambda request: {"action": "modify", "request": {"tools": [*request.tools, tool]}},
            "before_tool": Respond({"for_llm": "found"}),
        },
    )
    gate = FakeHook("gate", {"approve_tool": False})
    async with host_with(owner, gate) as host:
        async with host.session("s1") as session, session.turn("hello") as turn:
            await turn.llm(LLMRequest(), Model(wants("lookup")).complete)
            (mine,) = await turn.tools(calls("lookup"), Tools().execute)
        async with host.session("s1") as session, session.turn("hello") as turn:
            (no_more,) = await turn.tools(calls("lookup"), Tools().execute)
    assert mine.for_llm == "found"
    assert no_more.for_llm.startswith("Tool execution denied by approval hook")
    assert len(gate.asked) == 1


# Sub-turns.


async def run_sub_turn(session, parent, model, label="scout"):
    async with session.turn("look", parent=parent, agent_id="a2", label=label) as sub:
        return await sub.run(complete=model.complete, execute=Tools().execute)


async def test_a_sub_turn_names_its_parent_begins_afresh_and_its_result_goes_to_the_parent():
    inner = Model(says("found it"))

    async def execute(call):
        await run_sub_turn(session, turn, inner)
        return "it was looked for"

    outer = Model(wants("scout"), says("done"))
    async with host_with() as host, host.session("s1", agent_id="a1") as session:
        async with session.turn("before") as turn:
            await turn.prompt()
        async with session.turn("hello") as turn:
            await turn.run(complete=outer.complete, execute=execute)
    assert [message["content"] for message in inner.requests[0].messages] == ["look"]
    spawn = next(event for event in host.events if event.kind == "subturn_spawn")
    assert spawn.meta.parent_turn_id == turn.meta.turn_id != spawn.meta.turn_id
    assert spawn.payload == {"AgentID": "a2", "Label": "scout", "ParentTurnID": turn.meta.turn_id}
    assert payloads(host, "subturn_end") == [{"AgentID": "a2", "Status": "completed"}]
    assert payloads(host, "subturn_result_delivered")[0]["ContentLen"] == len("found it")
    assert told(outer.requests[1].messages) == [("c0", "it was looked for")]
    assert outer.requests[1].messages[-1] == {"role": "user", "content": "found it"}
    assert [message["content"] for message in session.messages][:2] == ["before", "hello"]
    assert "subturn_orphan" not in kinds(host)


async def test_a_result_that_comes_during_the_models_last_answer_still_reaches_it():
    async def complete(request):
        if not model.requests:
            await run_sub_turn(session, turn, Model(says("late news")))
        return await model.complete(request)

    model = Model(says("early"), says("with the news"))
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=complete, execute=Tools().execute)
    assert result.content == "with the news"
    assert model.requests[1].messages[-1]["content"] == "late news"


async def test_the_result_of_a_sub_turn_whose_parent_has_ended_is_an_orphan():
    async with host_with() as host, host.session("s1") as session:
        async with session.turn("hello") as parent:
            pass
        await run_sub_turn(session, parent, Model(says("too late")))
    (orphan,) = payloads(host, "subturn_orphan")
    assert orphan["ParentTurnID"] == parent.meta.turn_id
    assert orphan["ChildTurnID"] not in {"", parent.meta.turn_id}


async def test_so_is_a_result_that_its_parent_took_and_never_passed_on():
    async with host_with() as host, host.session("s1") as session, session.turn("hello") as parent:
        await run_sub_turn(session, parent, Model(says("unheard")))
    (orphan,) = payloads(host, "subturn_orphan")
    assert orphan["ParentTurnID"] == parent.meta.turn_id != orphan["ChildTurnID"]


async def test_an_aborted_sub_turn_ends_only_itself_and_its_tool():
    hook = FakeHook("h", {"before_prompt": lambda prompt: AbortTurn("not there") if prompt.prompt == "look" else None})

    async def execute(call):
        await run_sub_turn(session, turn, Model())

    outer = Model(wants("scout"), says("done"))
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=outer.complete, execute=execute)
    assert result.content == "done"
    assert told(result.messages) == [("c0", "AbortTurnError: not there")]
    assert payloads(host, "subturn_end") == [{"AgentID": "a2", "Status": "aborted"}]
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "assistant"]


async def in_groups(depth, function, *arguments):
    """Run it within so many task groups, which wrap what it raises."""
    if depth == 0:
        await function(*arguments)
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(in_groups, depth - 1, function, *arguments)


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_a_hard_abort_in_a_sub_turn_ends_the_parent_too_and_comes_alone(depth):
    hook = FakeHook("h", {"before_prompt": lambda prompt: HardAbort("stop") if prompt.prompt == "look" else None})
    listed = anyio.Event()

    async def execute(call):
        if call.tool == "scout":
            await listed.wait()
            await in_groups(depth, run_sub_turn, session, turn, Model())
        listed.set()
        return "done"

    async with host_with(hook) as host, host.session("s1") as session:
        with pytest.raises(HardAbortError, match="stop") as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=Model(wants("ls", "scout")).complete, execute=execute)
    assert [result.for_llm for result in raised.value.results] == ["done", "Tool execution was interrupted"]
    assert [status["Status"] for status in payloads(host, "turn_end")] == ["aborted", "aborted"]


async def test_other_errors_in_error_groups_belong_to_the_tool():
    async def execute(call):
        await in_groups(2, Tools(a=RuntimeError("broken")).execute, call)

    async with host_with() as host, host.session("s1") as session, session.turn("hello") as turn:
        (result,) = await turn.tools(calls("a"), execute)
    assert result.for_llm.startswith("ExceptionGroup: ")


async def test_a_host_that_was_closed_raises():
    async with host_with() as host:
        session = host.session("s1")
        await host.aclose()
        with pytest.raises(PicohookError, match="the host is closed"):
            await session.__aenter__()
