"""Agents whose calls a hook pauses. As a program, it resumes the runs that `pause_all` has paused."""

from __future__ import annotations

import json
import pickle
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from picohook import FunctionHook, Host, Modify, Pause

from .drivers import Agent, scripted_chat, scripted_llm, scripted_model


class Deployment:
    """A tool that notes its runs, and hooks of which one pauses its calls."""

    def __init__(self, pausing=lambda _: Pause("may it?"), more=()):
        self.ran = []
        self.pausing = pausing
        self.more = more

    def edit(self, call):
        return Modify({"arguments": {"path": "b"}}) if call.tool == "remove" else None

    def host(self):
        edit = FunctionHook("a-edit", {"before_tool": self.edit})
        return Host([edit, FunctionHook("b-person", {"before_tool": self.pausing}), *self.more])

    def remove(self, path: str) -> str:
        """Remove a file."""
        self.ran.append(path)
        return f"removed {path}"


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


# LangChain.


def langchain_agent(place, host, saver, answered):
    from langchain.agents import create_agent

    from picohook.integrations.langchain import PicohookMiddleware

    script = [[("c1", "remove", {"path": "a"})], "done"][answered:]
    model = scripted_chat(Agent(host, script, [place.remove]))
    return create_agent(model, [place.remove], middleware=[PicohookMiddleware(host)], checkpointer=saver)


APPROVED = {"decisions": [{"type": "approve"}]}


async def interrupted(place, saver):
    """What LangChain asks a person, about a graph that its checkpoints keep."""
    async with place.host() as host:
        said = {"messages": [("user", "remove it")]}
        state = await langchain_agent(place, host, saver, 0).ainvoke(said, THREAD)
    return state["__interrupt__"][0].value


async def continued(place, saver, answer):
    """What the model is told after the answer, by another host and agent."""
    from langgraph.types import Command

    async with place.host() as host:
        done = await langchain_agent(place, host, saver, 1).ainvoke(Command(resume=answer), THREAD)
    return next(one.text for one in done["messages"] if one.type == "tool")


THREAD = {"configurable": {"thread_id": "t"}}


def saver_in(file):
    """LangChain's checkpointer, with what was saved in this file."""
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    if file.exists():
        storage, writes, blobs = pickle.loads(file.read_bytes())
        for thread, checkpoints in storage.items():
            saver.storage[thread].update(checkpoints)
        saver.writes.update(writes)
        saver.blobs.update(blobs)
    return saver


def save(saver, file):
    storage = {thread: dict(checkpoints) for thread, checkpoints in saver.storage.items()}
    file.write_bytes(pickle.dumps((storage, dict(saver.writes), dict(saver.blobs))))


# OpenAI Agents SDK.


def openai_agent(place, host, script, **options):
    import agents

    agents.set_tracing_disabled(True)
    tool = agents.function_tool(place.remove, **options)
    return agents.Agent(name="main", model=scripted_model(Agent(host, script, [])), tools=[tool])


CALL = [[("c1", "remove", {"path": "a"})], "done"]


async def interruption(place, *, script=CALL, **options):
    """The hooks' reasons of a paused run of the OpenAI Agents SDK, and the JSON of its state."""
    from picohook.integrations.openai_agents import PicohookRunner

    async with place.host() as host:
        runner = PicohookRunner(host, interruptions=True)
        result = await runner.run(openai_agent(place, host, script, **options), "remove it")
        assert [one.call_id for one in result.interruptions] == ["c1"]
        return runner.pauses(result), result.to_state().to_json()


async def run_again(place, state, answer, *, script=("done",), **options):
    """What the model is told, by another host and agent, after `answer` was given to the state."""
    import agents

    from picohook.integrations.openai_agents import PicohookRunner

    async with place.host() as host:
        runner = PicohookRunner(host, interruptions=True)
        agent = openai_agent(place, host, list(script), **options)
        restored = await agents.RunState.from_json(runner.guard(agent), state)
        for one in restored.get_interruptions():
            answer(restored, one)
        result = await runner.run(agent, restored)
        if result.interruptions:
            return runner.pauses(result)
        return next(item.output for item in result.new_items if item.type == "tool_call_output_item")


# Google ADK.


@asynccontextmanager
async def adk_runner(place, sessions, script, tools=(), **options):
    """A runner of Google ADK with these sessions, and its scripted agent."""
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App
    from google.adk.runners import Runner

    from picohook.integrations.google_adk import PicohookPlugin

    async with place.host() as host:
        agent = Agent(host, list(script), [])
        root = LlmAgent(name="main", model=scripted_llm(agent), tools=[*(tools or (place.remove,))])
        plugin = PicohookPlugin(host, confirmations=True)
        async with Runner(
            app=App(name="test", root_agent=root, plugins=[plugin], **options), session_service=sessions
        ) as runner:
            yield runner, agent


def user_message(text):
    from google.genai import types

    return types.Content(role="user", parts=[types.Part(text=text)])


async def confirmations(place, sessions, *, script=CALL, **options):
    """What Google ADK asks a person, about a run that its session keeps."""
    await sessions.create_session(app_name="test", user_id="u", session_id="s")
    async with adk_runner(place, sessions, script, **options) as (runner, _):
        said = user_message("remove it")
        events = [event async for event in runner.run_async(user_id="u", session_id="s", new_message=said)]
    calls = [call for event in events for call in event.get_function_calls()]
    return [call for call in calls if call.name == "adk_request_confirmation"]


async def confirmed(place, sessions, asked, answer, *, script=("done",), **options):
    """What the model is told of the call after the answer, by another host and agent."""
    from google.genai import types

    said = types.FunctionResponse(id=asked, name="adk_request_confirmation", response={"confirmed": answer})
    async with adk_runner(place, sessions, script, **options) as (runner, agent):
        message = types.Content(role="user", parts=[types.Part(function_response=said)])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
    return agent.told["c1"]


# In another process.


async def pause_all(folder):
    """Pause a run of each framework, and keep in this folder what resumes it."""
    place = Deployment()
    _, messages = await deferred(place)
    (folder / "messages.json").write_bytes(messages)
    saver = saver_in(folder / "checkpoints")
    await interrupted(place, saver)
    save(saver, folder / "checkpoints")
    _, state = await interruption(place)
    (folder / "state.json").write_text(json.dumps(state))
    (asked,) = await confirmations(place, sessions_in(folder))
    (folder / "confirmation").write_text(asked.id)
    assert place.ran == []


async def resume_all(folder):
    place = Deployment()
    state = json.loads((folder / "state.json").read_text())
    return [
        await resumed(place, (folder / "messages.json").read_bytes(), True),
        await continued(place, saver_in(folder / "checkpoints"), APPROVED),
        await run_again(place, state, lambda restored, one: restored.approve(one)),
        await confirmed(place, sessions_in(folder), (folder / "confirmation").read_text(), True),
    ]


def sessions_in(folder):
    """Google ADK's sessions in a file."""
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    return SqliteSessionService(str(folder / "sessions.db"))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(anyio.run(resume_all, Path(sys.argv[1]))))
