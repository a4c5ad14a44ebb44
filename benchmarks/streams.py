"""A chat that types: the time to the first piece of text in each framework, with hooks and without."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from picohook import FunctionHook, Host

from .given import FAR, Given, on
from .measure import Row, Times, alternate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from google.adk.plugins.base_plugin import BasePlugin

PIECES = [f"word {number} of the answer, " for number in range(3)]
GAP = 0.001
"""Seconds between two pieces of the model."""
TIMES = 3
"""A round has so many runs of each: one takes milliseconds, and anything else on the machine shows."""

HOSTS: dict[str, Callable[[], Host | None]] = {
    "plain": lambda: None,
    "guarded": lambda: Host([FunctionHook("guard", {"before_tool": lambda _: None})], timeouts=FAR),
}
"""A framework without hooks, and with one at before_tool."""


async def _typed() -> AsyncIterator[str]:
    for piece in PIECES:
        yield piece
        await asyncio.sleep(GAP)


async def _pydantic_ai(host: Host | None) -> AsyncIterator[str]:
    from pydantic_ai import Agent
    from pydantic_ai.models.function import FunctionModel

    from picohook.integrations.pydantic_ai import Picohook

    async def answer(_messages: Any, _info: Any) -> AsyncIterator[str]:
        async for piece in _typed():
            yield piece

    guards = [] if host is None else [Picohook[Any](host)]
    async with Agent(FunctionModel(stream_function=answer), capabilities=guards).run_stream("hello") as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            yield text


async def _langchain(host: Host | None) -> AsyncIterator[str]:
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk
    from langchain_core.outputs import ChatGenerationChunk

    from picohook.integrations.langchain import PicohookMiddleware

    class Typing(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "typing"

        def _generate(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
            async for piece in _typed():
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))

    agent: Any = create_agent(Typing(), [], middleware=[] if host is None else [PicohookMiddleware(host)])
    given = {"messages": [{"role": "user", "content": "hello"}]}
    async for message, _ in agent.astream(given, stream_mode="messages"):
        if message.text and message.type != "human":
            yield message.text


async def _openai_agents(host: Host | None) -> AsyncIterator[str]:
    import agents
    from agents.testing import ModelStep, ScriptedModel, assistant_message
    from openai.types.responses import Response, ResponseCompletedEvent, ResponseTextDeltaEvent

    from picohook.integrations.openai_agents import PicohookRunner

    agents.set_tracing_disabled(True)

    async def events(_call: Any) -> AsyncIterator[Any]:
        place = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
        number = 0
        async for piece in _typed():
            number += 1
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                delta=piece,
                sequence_number=number,
                **place,  # type: ignore[arg-type]
            )
        whole = Response(
            id="r",
            created_at=0,
            model="m",
            object="response",
            output=[assistant_message("".join(PIECES))],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=whole, sequence_number=number + 1)

    agent = agents.Agent(name="a", model=ScriptedModel([ModelStep(stream_events=events)]))

    async def pieces(result: Any) -> AsyncIterator[str]:
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta

    if host is None:
        async for text in pieces(agents.Runner.run_streamed(agent, "hello")):
            yield text
        return
    async with PicohookRunner(host).stream(agent, "hello") as result:
        async for text in pieces(result):
            yield text


async def _google_adk(host: Host | None) -> AsyncIterator[str]:
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.apps.app import App
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from picohook.integrations.google_adk import PicohookPlugin

    def said(text: str, *, partial: bool) -> LlmResponse:
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial)

    class Typing(BaseLlm):
        async def generate_content_async(self, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse]:
            async for piece in _typed():
                yield said(piece, partial=True)
            yield said("".join(PIECES), partial=False)

    root = LlmAgent(name="a", model=Typing(model="m"))
    plugins: list[BasePlugin] = [] if host is None else [PicohookPlugin(host)]
    async with InMemoryRunner(app=App(name="bench", root_agent=root, plugins=plugins)) as runner:
        await runner.session_service.create_session(app_name="bench", user_id="u", session_id="s")
        message = types.Content(role="user", parts=[types.Part(text="hello")])
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        async for event in runner.run_async(user_id="u", session_id="s", new_message=message, run_config=config):
            if event.partial and event.content is not None and event.content.parts:
                yield event.content.parts[0].text or ""


FRAMEWORKS = {
    "Pydantic AI": _pydantic_ai,
    "LangChain": _langchain,
    "OpenAI Agents": _openai_agents,
    "Google ADK": _google_adk,
}


async def _first(stream: Callable[[Host | None], AsyncIterator[str]], make: Callable[[], Host | None]) -> float:
    """Seconds to the first piece of text."""
    host = make()
    if host is not None:
        await host.__aenter__()
    try:
        begun, first = time.perf_counter(), 0.0
        async for _ in stream(host):
            first = first or time.perf_counter() - begun
    finally:
        if host is not None:
            await host.aclose()
    return first


async def _measured(given: Given, stream: Callable[[Host | None], AsyncIterator[str]]) -> Times:
    timed = {name: partial(_first, stream, make) for name, make in HOSTS.items()}
    for once in timed.values():
        await once()  # imports and first uses
    return await alternate(given.rounds * TIMES, **timed)


def streams(given: Given) -> list[Row]:
    """How much later the first piece of text comes than in the plain framework."""
    rows = []
    for name, stream in FRAMEWORKS.items():
        at = on("asyncio", partial(_measured, given, stream))
        later = at.each_round(lambda times: 1e3 * (times["guarded"] - times["plain"]))
        detail = {f"{kind}_ms": round(time * 1e3, 1) for kind, time in at.items()}
        rows.append(
            Row(f"the first text in {name} with a guard, later than without", later, "ms", must=5, detail=detail)
        )
    return rows
