"""The same tests for every framework, each with the real framework and a scripted model."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from picohook import (
    AbortTurn,
    AbortTurnError,
    Deny,
    FunctionHook,
    HardAbort,
    HardAbortError,
    Host,
    Modify,
    Notes,
    Pause,
    PausedError,
    Respond,
    Retry,
    Timeouts,
)
from picohook.integrations.agent_run import AgentRun
from picohook.model.decisions import Continue

from .drivers import Agent

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

ONE = [[("1", "read", {"path": "a"})], "done"]


def read(path: str) -> str:
    return f"text of {path}"


def host_of(stages=None, **settings):
    return Host([FunctionHook("h", stages or {}, **settings)], timeouts=Timeouts(interceptor=60, approval=60, chain=60))


async def test_hooks_see_the_requests_the_answers_the_calls_and_the_results(run):
    seen = []
    stages = ["before_llm", "after_llm", "before_tool", "approve_tool", "after_tool"]

    def note(payload):
        seen.append(payload)
        return True if type(payload).__name__ == "ToolCall" and len(seen) == 4 else None

    async with host_of(dict.fromkeys(stages, note)) as host:
        agent = Agent(host, ONE, [read])
        assert await run(agent) == "done"
    request, answer, call, approved, returned, again, last = seen
    assert request.system_prompt == agent.system
    assert request.messages == [{"role": "user", "content": "hello"}]
    assert [(tool["function"]["name"], [*tool["function"]["parameters"]["properties"]]) for tool in request.tools] == [
        ("read", ["path"])
    ]
    (asked,) = answer.response["tool_calls"]
    assert asked["function"]["name"] == "read"
    assert (call.tool, call.arguments, call.tool_call_id) == ("read", {"path": "a"}, "1")
    assert approved == call
    assert (returned.result.for_llm, returned.error) == ("text of a", None)
    assert [message["role"] for message in again.messages] == ["user", "assistant", "tool"]
    assert again.messages[-1]["content"] == "text of a"
    assert last.response["content"] == "done"
    metas = [payload.meta for payload in seen]
    assert {(meta.session_key, bool(meta.turn_id)) for meta in metas} == {("s1", True)}
    assert len({meta.turn_id for meta in metas}) == 1
    assert [meta.iteration for meta in metas] == [1, 1, 1, 1, 1, 2, 2]


async def test_a_request_that_hooks_do_not_change_reaches_the_model_unchanged(run):
    async with host_of({"before_llm": lambda _: None, "after_llm": lambda _: None}) as host:
        agent = Agent(host, ONE, [read])
        await run(agent)
    first, second = agent.requests
    assert (first.system, first.texts, first.tools) == (agent.system, ["hello"], ["read"])
    assert second.texts[-1] == agent.told["1"] == "text of a"


async def test_a_denied_call_does_not_run_and_the_other_calls_of_the_response_do(run):
    ran = []

    def read(path: str) -> str:
        ran.append(path)
        return f"text of {path}"

    def judge(call):
        return Deny("it is outside") if call.arguments["path"].startswith("..") else None

    async with host_of({"before_tool": judge}) as host:
        script = [[(str(place), "read", {"path": path}) for place, path in enumerate(["a", "../b", "c"])], "done"]
        agent = Agent(host, script, [read])
        assert await run(agent) == "done"
    assert sorted(ran) == ["a", "c"]
    denied = "Tool execution denied by hook: it is outside"
    assert agent.told == {"0": "text of a", "1": denied, "2": "text of c"}


async def test_a_call_that_is_not_approved_does_not_run(run):
    def read(path: str) -> str:
        pytest.fail(f"{path} was read")

    async with host_of({"approve_tool": lambda _: Deny("not now")}) as host:
        agent = Agent(host, ONE, [read])
        assert await run(agent) == "done"
    assert agent.told == {"1": "Tool execution denied by approval hook: not now"}


async def test_a_tool_runs_with_the_arguments_that_hooks_left(run):
    async with host_of(
        {"before_tool": lambda call: Modify({"arguments": {"path": call.arguments["path"] * 2}})}
    ) as host:
        agent = Agent(host, ONE, [read])
        await run(agent)
    assert agent.told == {"1": "text of aa"}


async def test_a_call_that_a_hook_moves_to_an_unknown_tool_does_not_run(run):
    ran = []

    def read(path: str) -> str:
        ran.append(path)
        return path

    async with host_of({"before_tool": lambda _: Modify({"tool": "shell"})}) as host:
        agent = Agent(host, ONE, [read])
        await run(agent)
    assert ran == []
    assert agent.told == {"1": "unknown tool shell"}


async def test_a_hook_answers_in_place_of_a_tool(run):
    def read(path: str) -> str:
        pytest.fail(f"{path} was read")

    async with host_of({"before_tool": lambda _: Respond({"for_llm": "from the hook"})}) as host:
        agent = Agent(host, ONE, [read])
        await run(agent)
    assert agent.told == {"1": "from the hook"}


async def test_the_model_gets_a_result_with_the_changes_of_hooks(run):
    async with host_of({"after_tool": lambda _: Modify({"for_llm": "text of [a]"})}) as host:
        agent = Agent(host, ONE, [read])
        await run(agent)
    assert agent.told == {"1": "text of [a]"}


@pytest.mark.parametrize(
    ("decision", "error"), [(AbortTurn("enough"), AbortTurnError), (HardAbort("enough"), HardAbortError)]
)
@pytest.mark.parametrize("stage", ["before_llm", "after_llm", "before_tool", "after_tool"])
async def test_the_error_with_which_a_hook_ends_the_run_is_raised(run, stage, decision, error):
    kinds = []
    async with host_of({stage: lambda _: decision}, on_event=lambda event: kinds.append(event.kind)) as host:
        agent = Agent(host, ONE, [read])
        with pytest.raises(AbortTurnError, match="enough") as raised:
            await run(agent)
    assert type(raised.value) is error
    assert len(agent.requests) == (0 if stage == "before_llm" else 1)
    assert kinds[-2:] == ["turn_abort", "turn_end"]


async def test_a_run_that_ends_at_two_calls_at_once_ends_once(run):
    kinds = []
    both = asyncio.Barrier(2)

    async def judge(call):
        async with asyncio.timeout(20):
            await both.wait()
        return AbortTurn(call.arguments["path"])

    async with host_of({"before_tool": judge}, on_event=lambda event: kinds.append(event.kind)) as host:
        script = [[("1", "read", {"path": "a"}), ("2", "read", {"path": "b"})]]
        with pytest.raises(AbortTurnError):
            await run(Agent(host, script, [read]))
    assert (kinds.count("turn_abort"), kinds.count("turn_end")) == (1, 1)


async def test_a_hook_that_pauses_hands_control_back(run):
    async with host_of({"before_tool": lambda _: Pause("may it?")}) as host:
        with pytest.raises(PausedError, match="may it"):
            await run(Agent(host, ONE, [read]))


async def test_after_a_hook_has_ended_the_run_no_hook_model_or_tool_is_called(run):
    asked = []
    ended = asyncio.Event()

    async def judge(call):
        asked.append(call.tool_call_id)
        if call.tool_call_id == "2":
            await ended.wait()
            return None
        ended.set()
        return AbortTurn("enough")

    async def read(path: str) -> str:
        pytest.fail(f"{path} was read")

    async with host_of({"before_tool": judge}) as host:
        script = [[("1", "read", {"path": "a"})], [("2", "read", {"path": "b"})]]
        with pytest.raises(AbortTurnError):
            await run(Agent(host, script, [read]))
    assert asked == ["1"]


async def test_the_model_gets_a_request_with_the_changes_of_hooks(run):
    def edit(request):
        messages = [{"role": "user", "content": "before"}, *request.messages, {"role": "user", "content": "after"}]
        return Modify({"messages": messages, "system_prompt": "You are edited.", "tools": request.tools[:1]})

    def write(path: str) -> str:
        return path

    async with host_of({"before_llm": edit}) as host:
        agent = Agent(host, ["done"], [read, write])
        assert await run(agent) == "done"
    (request,) = agent.requests
    assert (request.system, request.texts, request.tools) == ("You are edited.", ["before", "hello", "after"], ["read"])


async def test_a_conversation_can_be_rewritten_with_its_calls_and_results(run):
    def redact(request):
        text = repr(request.messages)
        messages = [
            {**message, "content": "text of [a]"} if message["role"] == "tool" else message
            for message in request.messages
        ]
        return Modify({"messages": messages}) if "text of a" in text else None

    async with host_of({"before_llm": redact}) as host:
        agent = Agent(host, ONE, [read])
        assert await run(agent) == "done"
    assert agent.told == {"1": "text of [a]"}
    assert "text of a" not in agent.requests[1].texts


async def test_a_hook_answers_in_place_of_the_model(run):
    async with host_of({"before_llm": lambda _: Respond({"response": {"content": "from the hook"}})}) as host:
        agent = Agent(host, [], [read])
        assert await run(agent) == "from the hook"
    assert agent.requests == []


async def test_a_hook_calls_a_tool_in_place_of_the_model(run):
    call = {"id": "7", "type": "function", "function": {"name": "read", "arguments": '{"path": "b"}'}}

    def answer(request):
        return Respond({"response": {"content": "", "tool_calls": [call]}}) if len(request.messages) == 1 else None

    async with host_of({"before_llm": answer}) as host:
        agent = Agent(host, ["done"], [read])
        assert await run(agent) == "done"
    assert agent.told == {"7": "text of b"}


async def test_the_answer_has_the_changes_of_hooks(run):
    def judge(answer):
        return Modify({"content": "edited"}) if answer.response["content"] else None

    async with host_of({"after_llm": judge}) as host:
        agent = Agent(host, ONE, [read])
        assert await run(agent) == "edited"
    assert agent.told == {"1": "text of a"}


async def test_hooks_can_remove_a_call_from_an_answer(run):
    def judge(answer):
        calls = answer.response.get("tool_calls") or []
        return Modify({"tool_calls": calls[1:]}) if len(calls) > 1 else None

    async with host_of({"after_llm": judge}) as host:
        script = [[("1", "read", {"path": "a"}), ("2", "read", {"path": "b"})], "done"]
        agent = Agent(host, script, [read])
        assert await run(agent) == "done"
    assert agent.told == {"2": "text of b"}


async def test_a_hook_can_ask_for_another_answer_of_the_model(run):
    def judge(answer):
        return Retry("say please") if answer.response["content"] == "no" else None

    async with host_of({"after_llm": judge}) as host:
        agent = Agent(host, ["no", "please"], [read])
        assert await run(agent) == "please"
    assert [request.texts for request in agent.requests] == [["hello"], ["hello", "say please"]]


@pytest.mark.parametrize("edited", [False, True])
async def test_a_stream_starts_after_hooks_have_seen_the_whole_response(run, edited):
    agent = None

    def judge(answer):
        assert agent.streamed == []
        return Modify({"content": "edited"}) if edited and answer.response["content"] else None

    async with host_of({"after_llm": judge}) as host:
        agent = Agent(host, [ONE[0], "a long secret"], [read])
        await run(agent, stream=True)
    assert "".join(agent.streamed).strip() == ("edited" if edited else "a long secret")
    assert agent.told == {"1": "text of a"}


async def test_tools_of_one_response_run_at_the_same_time(run):
    both = asyncio.Barrier(2)

    async def read(path: str) -> str:
        async with asyncio.timeout(20):
            await both.wait()
        return f"text of {path}"

    async with host_of({"before_tool": lambda _: None}) as host:
        agent = Agent(host, [[("1", "read", {"path": "a"}), ("2", "read", {"path": "b"})], "done"], [read])
        await run(agent)
    assert agent.told == {"1": "text of a", "2": "text of b"}


async def test_observers_are_told_of_the_turn_its_requests_and_its_tools(run):
    events = []
    async with host_of(on_event=events.append) as host:
        await run(Agent(host, ONE, [read]))
    assert [event.kind for event in events] == [
        "turn_start",
        "llm_request",
        "llm_response",
        "tool_exec_start",
        "tool_exec_end",
        "llm_request",
        "llm_response",
        "turn_end",
        "task_completed",
    ]
    start, end = events[0].payload, events[-2].payload
    assert start["UserMessage"] == "hello"
    assert (end["Status"], end["Iterations"], end["FinalContent"]) == ("completed", 2, "done")


async def test_an_exception_of_a_tool_is_raised_as_without_hooks(run):
    errors = []

    def read(path: str) -> str:
        raise LookupError(f"no {path}")

    async with host_of({"after_tool": lambda returned: errors.append(returned.error)}) as host:
        with pytest.raises(Exception, match="no a") as raised:
            await run(Agent(host, ONE, [read]))
    assert isinstance(raised.value, LookupError) or isinstance(raised.value.__cause__, LookupError)
    assert errors == ["LookupError: no a"]


async def test_the_model_gets_an_error_with_the_changes_of_hooks(run):
    def read(path: str) -> str:
        raise LookupError(f"no {path}, the password is 123")

    async with host_of({"after_tool": lambda _: Modify({"for_llm": "it is not there"})}) as host:
        agent = Agent(host, ONE, [read])
        assert await run(agent) == "done"
    assert agent.told == {"1": "it is not there"}


async def test_a_note_about_a_tool_is_in_the_next_request(run):
    notes = Notes(additional_context="Mind the gap.", inject_messages=({"role": "user", "content": "And hurry."},))
    async with host_of({"before_tool": lambda _: Continue(notes=notes)}) as host:
        agent = Agent(host, ONE, [read])
        await run(agent)
    first, second = agent.requests
    assert first.system == agent.system
    assert second.system == f"{agent.system}\n\nMind the gap."
    assert second.texts[-1] == "And hurry."


async def test_a_run_that_is_cancelled_ends_and_observers_are_told(run):
    reading = asyncio.Event()
    kinds = []

    async def read(path: str) -> str:
        reading.set()
        await asyncio.Event().wait()
        return path

    async with host_of(on_event=lambda event: kinds.append(event.kind)) as host:
        task = asyncio.create_task(run(Agent(host, ONE, [read])))
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert kinds[3] == "tool_exec_start"
    assert kinds[-2:] == ["turn_abort", "turn_end"]


NEW = {"type": "function", "function": {"name": "ask_owl", "description": "Asks.", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("answers", [True, False])
async def test_a_tool_that_a_hook_adds_is_called_and_answered_by_the_hook(run, answers):
    stages = {"before_llm": lambda request: Modify({"tools": [*request.tools, NEW]})}
    if answers:
        stages["before_tool"] = lambda call: Respond({"for_llm": f"hoo {call.arguments['about']}"})
    async with host_of(stages) as host:
        agent = Agent(host, [[("1", "ask_owl", {"about": "mice"})], "done"], [read])
        assert await run(agent) == "done"
    assert agent.requests[0].tools == ["read", "ask_owl"]
    assert agent.told["1"] == "hoo mice" if answers else "ask_owl" in agent.told["1"]


async def test_an_exception_of_a_tool_is_an_error_for_hooks_in_every_framework(run):
    results = []

    def read(path: str) -> str:
        raise LookupError(f"no {path}")

    async with host_of({"after_tool": lambda returned: results.append(returned.result.is_error)}) as host:
        with contextlib.suppress(Exception):
            await run(Agent(host, ONE, [read]))
    assert results == [True]


@pytest.mark.parametrize("what", ["the model", "a tool"])
async def test_a_run_that_fails_ends_its_turn(run, what):
    kinds = []

    def read(path: str) -> str:
        raise LookupError(f"no {path}")

    script = [] if what == "the model" else ONE
    async with host_of({"after_tool": lambda _: None}, on_event=lambda event: kinds.append(event.kind)) as host:
        with pytest.raises(Exception, match="no a" if script else "index out of range"):
            await run(Agent(host, script, [read]))
        await host.emit_and_wait("turn_start")
    assert kinds[-4:] == ["error", "turn_abort", "turn_end", "turn_start"]
    assert kinds.count("turn_end") == 1


async def test_a_call_that_is_changed_in_place_while_hooks_decide_runs_as_they_saw_it(run):
    arguments = {"paths": ["a"]}
    ran = []

    def read_all(paths: list[str]) -> str:
        ran.append(paths)
        return "done"

    async def meddle(_):
        arguments["paths"].append("evil")

    async with host_of({"before_tool": meddle}) as host:
        await run(Agent(host, [[("1", "read_all", arguments)], "done"], [read_all]))
    assert ran == [["a"]]


async def test_a_turn_that_is_ended_twice_at_once_ends_though_the_first_to_end_it_is_cancelled():
    kinds, cleaning, cleaned = [], asyncio.Event(), asyncio.Event()

    async def note(event):
        kinds.append(event.kind)
        if event.kind == "turn_abort":
            cleaning.set()
            await cleaned.wait()

    async with host_of(on_event=note, timeout=60) as host:
        guard = AgentRun(host, "s1", "hello")
        await guard.__aenter__()
        first = asyncio.create_task(guard.__aexit__(KeyError, KeyError("a"), None))
        await cleaning.wait()
        second = asyncio.create_task(guard.__aexit__(KeyError, KeyError("b"), None))
        first.cancel()
        cleaned.set()
        await second
        await asyncio.wait([first])
        await host.emit_and_wait("turn_start")
    assert kinds[1:] == ["error", "turn_abort", "turn_end", "turn_start"]
