"""A hook's pause in the form of its framework, and the run that resumes it, from what another process would have."""

from __future__ import annotations

import pytest

from picohook import AbortTurn, AbortTurnError, Deny, FunctionHook, Host, Modify, Pause, PausedError, PicohookError

from .drivers import Agent, scripted_chat

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]


class Deployment:
    """A tool that notes its runs, and hooks of which one pauses its calls."""

    def __init__(self, pausing=lambda _: Pause("may it?")):
        self.ran = []
        self.pausing = pausing

    def host(self):
        edit = FunctionHook("a-edit", {"before_tool": lambda _: Modify({"arguments": {"path": "b"}})})
        return Host([edit, FunctionHook("b-person", {"before_tool": self.pausing})])

    def remove(self, path: str) -> str:
        """Remove a file."""
        self.ran.append(path)
        return f"removed {path}"


def once(answer):
    """Pauses first, and then answers so."""
    answers = [Pause("may it?"), answer]
    return lambda _: answers.pop(0)


# Pydantic AI.


def pydantic_agent(place, host, *, output=None):
    from pydantic_ai import Agent as OfPydantic, DeferredToolRequests
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    def answer(messages, info):
        told = [part.content for message in messages for part in message.parts if part.part_kind == "tool-return"]
        return ModelResponse([TextPart(told[0])] if told else [ToolCallPart("remove", {"path": "a"}, "c1")])

    agent = OfPydantic(
        FunctionModel(answer), capabilities=[Picohook(host)], output_type=output or [str, DeferredToolRequests]
    )
    agent.tool_plain(place.remove)
    return agent


async def deferred(place):
    """What a first process keeps of a paused run of Pydantic AI: the request to a person, and the messages."""
    async with place.host() as host:
        result = await pydantic_agent(place, host).run("remove it")
    return result.output, result.all_messages_json()


async def resumed(place, messages, approved):
    from pydantic_ai import DeferredToolResults, ModelMessagesTypeAdapter

    async with place.host() as host:
        result = await pydantic_agent(place, host).run(
            message_history=ModelMessagesTypeAdapter.validate_json(messages),
            deferred_tool_results=DeferredToolResults(approvals={"c1": approved}),
        )
    return result.output


async def test_pydantic_ai_defers_a_paused_call_which_another_process_runs_once_it_is_approved():
    place = Deployment()
    output, messages = await deferred(place)
    assert [call.tool_call_id for call in output.approvals] == ["c1"]
    assert output.metadata["c1"] == {
        "hook": "b-person", "reason": "may it?", "tool": "remove", "arguments": {"path": "b"},
    }  # fmt: skip
    assert place.ran == []
    assert await resumed(place, messages, True) == "removed b"
    assert place.ran == ["b"]


async def test_pydantic_ai_does_not_run_a_call_that_the_person_denies():
    place = Deployment()
    _, messages = await deferred(place)
    assert "denied" in await resumed(place, messages, False)
    assert place.ran == []


async def test_in_pydantic_ai_a_hook_that_denies_after_the_pause_is_heard():
    place = Deployment(once(Deny("no longer")))
    _, messages = await deferred(place)
    assert "no longer" in await resumed(place, messages, True)
    assert place.ran == []


async def test_in_pydantic_ai_a_hook_that_aborts_after_the_pause_ends_the_run():
    place = Deployment(once(AbortTurn("no longer")))
    _, messages = await deferred(place)
    with pytest.raises(AbortTurnError, match="no longer"):
        await resumed(place, messages, True)
    assert place.ran == []


async def test_pydantic_ai_without_deferred_output_raises_the_pause():
    place = Deployment()
    async with place.host() as host:
        with pytest.raises(PausedError, match="may it"):
            await pydantic_agent(place, host, output=str).run("remove it")
    assert place.ran == []


# LangChain.


def langchain_agent(place, host, saver, answered):
    from langchain.agents import create_agent

    from picohook.integrations.langchain import PicohookMiddleware

    script = [[("c1", "remove", {"path": "a"})], "done"][answered:]
    model = scripted_chat(Agent(host, script, [place.remove]))
    return create_agent(model, [place.remove], middleware=[PicohookMiddleware(host)], checkpointer=saver)


async def interrupted_and_resumed(place, answer):
    """The interrupt, and what the model is told after the answer, which another host and agent take from the checkpoints."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    saver, thread = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    async with place.host() as host:
        state = await langchain_agent(place, host, saver, 0).ainvoke({"messages": [("user", "remove it")]}, thread)
    assert place.ran == []
    async with place.host() as host:
        done = await langchain_agent(place, host, saver, 1).ainvoke(Command(resume=answer), thread)
    return state["__interrupt__"][0].value, next(one.text for one in done["messages"] if one.type == "tool")


async def test_langchain_interrupts_for_a_pause_and_continues_in_another_process():
    place = Deployment()
    asked, told = await interrupted_and_resumed(place, {"decisions": [{"type": "approve"}]})
    assert asked == {
        "action_requests": [{"name": "remove", "args": {"path": "b"}, "description": "may it?"}],
        "review_configs": [{"action_name": "remove", "allowed_decisions": ["approve", "reject"]}],
    }
    assert (told, place.ran) == ("removed b", ["b"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"decisions": [{"type": "reject", "message": "keep it"}]}, "keep it"),
        ({"decisions": [{"type": "reject"}]}, "a person rejected the call"),
        ({"decisions": [{"type": "approve"}, {"type": "approve"}]}, "was neither"),
        ({"decisions": []}, "was neither"),
        ({"decisions": ["approve"]}, "was neither"),
        (True, "was neither"),
        ("approve", "was neither"),
    ],
)
async def test_in_langchain_any_other_answer_is_a_denial(answer, said):
    place = Deployment()
    _, told = await interrupted_and_resumed(place, answer)
    assert said in told
    assert place.ran == []


async def test_in_langchain_a_hook_that_denies_after_the_pause_is_heard():
    place = Deployment(once(Deny("no longer")))
    _, told = await interrupted_and_resumed(place, {"decisions": [{"type": "approve"}]})
    assert "no longer" in told
    assert place.ran == []


# Without await.


async def test_a_synchronous_run_is_refused_with_the_line_to_write():
    import agents

    from picohook.integrations.openai_agents import PicohookRunner

    place = Deployment()
    async with place.host() as host:
        with pytest.raises(PicohookError, match=r"write `await agent.run"):
            pydantic_agent(place, host).run_sync("remove it")
        with pytest.raises(PicohookError, match=r"write `await agent.ainvoke"):
            langchain_agent(place, host, None, 0).invoke({"messages": [("user", "remove it")]})
        with pytest.raises(PicohookError, match=r"write `await runner.run"):
            PicohookRunner(host).run_sync(agents.Agent(name="main"), "remove it")
    assert place.ran == []
