"""A server on this machine that speaks the APIs of model providers: chat completions, responses and Gemini's, in pieces.

Its answers are scripted: a text, or a list of texts and of `(id, tool, arguments)`. The real clients of frameworks ask it.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

PATIENCE = 600
"""Seconds after which a client that hangs fails its test. The import of a framework takes long on a busy machine."""


async def at_once(place: int) -> None:
    """Send each piece at once."""


@dataclass
class Provider:
    """A scripted provider, and what it was asked."""

    script: list[Any]
    before: Callable[[int], Awaitable[None]] = at_once
    """Is awaited before each piece of a text."""
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Is set when a client has gone before the end of an answer."""

    @property
    def told(self) -> dict[str, str]:
        """What the model was told of each call, by its id."""
        last = self.requests[-1] if self.requests else {}
        if "contents" in last:
            parts = [part for content in last["contents"] for part in content["parts"]]
            answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
            return {answer["id"]: "".join(map(str, answer["response"].values())) for answer in answers}
        items = last.get("messages") or last.get("input") or []
        named = ((item.get("tool_call_id") or item.get("call_id"), item) for item in items)
        return {
            name: item.get("content") or item.get("output")
            for name, item in named
            if item.get("role") == "tool" or item.get("type") == "function_call_output"
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
            )
            asked = json.loads(await reader.readexactly(length))
            self.requests.append(asked)
            path = head.split(" ", 2)[1]
            if len(self.requests) > len(self.script):
                self._write_head(writer, "500 No answer", "application/json")
                writer.write(b'{"error": {"message": "list index out of range"}}')
                await writer.drain()
                return
            said = self.script[len(self.requests) - 1]
            if ":generateContent" in path or (path == "/v1/chat/completions" and not asked.get("stream")):
                answer = _gemini_answer(said) if ":generateContent" in path else _chat_answer(said)
                self._write_head(writer, "200 OK", "application/json")
                writer.write(json.dumps(answer).encode())
                await writer.drain()
                return
            self._write_head(writer, "200 OK", "text/event-stream")
            api = _gemini if ":streamGenerateContent" in path else _responses if path == "/v1/responses" else _chat
            events = api(said)
            gone = asyncio.create_task(reader.read())
            place = 0
            for name, event, piece in events:
                if piece:
                    waiting = asyncio.ensure_future(self.before(place))
                    await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if gone.done():
                        waiting.cancel()
                        self.left.set()
                        return
                    place += 1
                line = f"event: {name}\n" if name else ""
                writer.write(f"{line}data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())
                await writer.drain()
            gone.cancel()
        finally:
            writer.close()

    def _write_head(self, writer: asyncio.StreamWriter, status: str, kind: str) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode())


def _chat_answer(said: Any) -> dict[str, Any]:
    said = [said] if isinstance(said, str) else said
    calls = [
        {"id": identity, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        for identity, tool, arguments in (piece for piece in said if not isinstance(piece, str))
    ]
    text = "".join(piece for piece in said if isinstance(piece, str))
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m1", "choices": [choice]}


def _chat(said: Any) -> Iterator[tuple[str, Any, bool]]:
    def chunk(delta: dict[str, Any], why: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": why}
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1", "choices": [choice]}

    said = [said] if isinstance(said, str) else said
    yield "", chunk({"role": "assistant", "content": ""}), False
    for place, piece in enumerate(said):
        if isinstance(piece, str):
            yield "", chunk({"content": piece}), True
        else:
            identity, tool, arguments = piece
            function = {"name": tool, "arguments": json.dumps(arguments)}
            call = {"index": place, "id": identity, "type": "function", "function": function}
            yield "", chunk({"tool_calls": [call]}), False
    yield "", chunk({}, "stop" if isinstance(said[-1], str) else "tool_calls"), False
    yield "", "[DONE]", False


def _responses(said: Any) -> Iterator[tuple[str, Any, bool]]:
    number = iter(range(1000))
    whole: dict[str, Any] = {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "m1",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "in_progress",
    }

    def event(name: str, /, **more: Any) -> tuple[str, Any, bool]:
        kind = f"response.{name}"
        return kind, {"type": kind, "sequence_number": next(number), **more}, name == "output_text.delta"

    yield event("created", response=whole)
    output: list[dict[str, Any]] = []
    texts = [piece for piece in said if isinstance(piece, str)]
    if texts:
        where = {"item_id": "m1", "output_index": 0, "content_index": 0}
        message = {"id": "m1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        text = {"type": "output_text", "text": "".join(texts), "annotations": [], "logprobs": []}
        yield event("output_item.added", output_index=0, item=message)
        yield event("content_part.added", **where, part={**text, "text": ""})
        for piece in texts:
            yield event("output_text.delta", **where, delta=piece, logprobs=[])
        yield event("output_text.done", **where, text=text["text"], logprobs=[])
        yield event("content_part.done", **where, part=text)
        output.append({**message, "status": "completed", "content": [text]})
        yield event("output_item.done", output_index=0, item=output[0])
    for identity, tool, arguments in (piece for piece in said if not isinstance(piece, str)):
        call = {"id": f"f{identity}", "type": "function_call", "call_id": identity, "name": tool, "arguments": ""}
        written = json.dumps(arguments)
        where = {"item_id": call["id"], "output_index": len(output)}
        yield event("output_item.added", output_index=len(output), item={**call, "status": "in_progress"})
        yield event("function_call_arguments.delta", **where, delta=written)
        yield event("function_call_arguments.done", **where, arguments=written, name=tool)
        output.append({**call, "arguments": written, "status": "completed"})
        yield event("output_item.done", output_index=len(output) - 1, item=output[-1])
    yield event("completed", response={**whole, "output": output, "status": "completed"})


def _gemini_answer(said: Any, why: str | None = "STOP") -> dict[str, Any]:
    """Return a response, or a piece of one."""
    said = [said] if isinstance(said, str) else said
    parts = [
        {"text": piece}
        if isinstance(piece, str)
        else {"functionCall": {"id": piece[0], "name": piece[1], "args": piece[2]}}
        for piece in said
    ]
    candidate = {"content": {"role": "model", "parts": parts}, **({"finishReason": why} if why else {}), "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m1", "responseId": "r1"}


def _gemini(said: Any) -> Iterator[tuple[str, Any, bool]]:
    for place, piece in enumerate(said, start=1):
        why = "STOP" if place == len(said) else None
        yield "", _gemini_answer([piece], why), isinstance(piece, str)


@asynccontextmanager
async def provider(script: list[Any], before: Callable[[int], Awaitable[None]] = at_once) -> AsyncIterator[Provider]:
    """A provider that is served in the block."""
    made = Provider(script, before)
    async with asyncio.timeout(PATIENCE):
        server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            made.url = f"http://{host}:{port}/v1"
            yield made


# Agents whose models are the real clients.


def openai_client(url: str) -> Any:
    """The client of OpenAI. It reads no certificates, which takes longer than an answer."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    at_once = DefaultAsyncHttpxClient(verify=False)
    return AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=at_once)


def openai_chat(url: str) -> Any:
    """A model of Pydantic AI that asks with the client of OpenAI."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel("m1", provider=OpenAIProvider(openai_client=openai_client(url)))


async def _pydantic_ai(provider: Provider, host: Any, tools: list[Any], *, api: str) -> AsyncIterator[str]:
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from picohook.integrations.pydantic_ai import Picohook

    model = openai_chat(provider.url)
    if api == "responses":
        model = OpenAIResponsesModel("m1", provider=OpenAIProvider(openai_client=openai_client(provider.url)))
    guards = [] if host is None else [Picohook(host)]
    agent = pydantic_ai.Agent(model, tools=tools, capabilities=guards)
    if api == "responses":  # which ends at the first text
        async with agent.run_stream("hello") as result:
            async for text in result.stream_text(delta=True, debounce_by=None):
                yield text
        return
    async with agent.iter("hello") as run:
        async for node in run:
            if agent.is_model_request_node(node):
                async with node.stream(run.ctx) as events:
                    async for event in events:
                        if event.event_kind == "part_start" and event.part.part_kind == "text":
                            yield event.part.content
                        elif event.event_kind == "part_delta" and event.delta.part_delta_kind == "text":
                            yield event.delta.content_delta


async def _openai_agents(provider: Provider, host: Any, tools: list[Any], *, api: str) -> AsyncIterator[str]:
    import agents

    from picohook.integrations.openai_agents import PicohookRunner

    agents.set_tracing_disabled(True)  # it would call home
    async with openai_client(provider.url) as client:
        kind = agents.OpenAIResponsesModel if api == "responses" else agents.OpenAIChatCompletionsModel
        agent = agents.Agent(
            name="a",
            model=kind(model="m1", openai_client=client),
            tools=[agents.function_tool(tool, failure_error_function=None) for tool in tools],
        )
        async with _run_of(agents, PicohookRunner, host, agent) as result:
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    yield event.data.delta


@asynccontextmanager
async def _run_of(agents: Any, runner: Any, host: Any, agent: Any) -> AsyncIterator[Any]:
    if host is None:
        yield agents.Runner.run_streamed(agent, "hello")
        return
    async with runner(host).stream(agent, "hello") as result:
        yield result


def chat_model(url: str) -> Any:
    """A chat model of LangChain's that asks with the client of OpenAI."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.language_models.chat_models import agenerate_from_stream
    from langchain_core.messages import AIMessageChunk, convert_to_openai_messages
    from langchain_core.outputs import ChatGenerationChunk
    from langchain_core.utils.function_calling import convert_to_openai_tool

    class Chat(BaseChatModel):
        offered: tuple = ()

        @property
        def _llm_type(self) -> str:
            return "chat"

        def bind_tools(self, tools: Any, **settings: Any) -> Any:
            del settings
            return self.model_copy(update={"offered": tuple(tools)})

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any) -> Any:
            raise NotImplementedError

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any) -> Any:
            return await agenerate_from_stream(self._astream(messages, stop, run_manager, **settings))

        async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any) -> Any:
            del stop, settings
            more = {"tools": [convert_to_openai_tool(tool) for tool in self.offered]} if self.offered else {}
            shown = convert_to_openai_messages(messages)
            async with openai_client(url) as client:
                async for event in await client.chat.completions.create(
                    model="m1", messages=shown, stream=True, **more
                ):
                    delta = event.choices[0].delta
                    calls = [
                        {
                            "name": call.function.name,
                            "args": call.function.arguments,
                            "id": call.id,
                            "index": call.index,
                        }
                        for call in delta.tool_calls or ()
                    ]
                    message = AIMessageChunk(content=delta.content or "", tool_call_chunks=calls)
                    chunk = ChatGenerationChunk(message=message)
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(message.text, chunk=chunk)
                    yield chunk

    return Chat()


async def _langchain(provider: Provider, host: Any, tools: list[Any], *, api: str) -> AsyncIterator[str]:
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool

    from picohook.integrations.langchain import PicohookMiddleware

    del api
    made = [StructuredTool.from_function(tool, description="A tool.") for tool in tools]
    guards = [] if host is None else [PicohookMiddleware(host)]
    agent = create_agent(chat_model(provider.url), made, middleware=guards)
    given = {"messages": [{"role": "user", "content": "hello"}]}
    async with aclosing(agent.astream(given, stream_mode="messages")) as messages:
        async for message, _ in messages:
            if message.type in {"ai", "AIMessageChunk"} and message.text:
                yield message.text


def gemini(url: str) -> Any:
    """A model of Google ADK that asks with the client of Gemini."""
    from google.adk.models import Gemini

    at = {"api_key": "none", "http_options": {"base_url": url.removesuffix("/v1")}}
    return Gemini(model="gemini-m1", client_kwargs=at)


async def _google_adk(provider: Provider, host: Any, tools: list[Any], *, api: str) -> AsyncIterator[str]:
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.apps.app import App
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from picohook.integrations.google_adk import PicohookPlugin

    del api
    root = LlmAgent(name="a", model=gemini(provider.url), tools=tools)
    guards = [] if host is None else [PicohookPlugin(host)]
    async with InMemoryRunner(app=App(name="test", root_agent=root, plugins=guards)) as runner:
        await runner.session_service.create_session(app_name="test", user_id="u", session_id="s1")
        said = types.Content(role="user", parts=[types.Part(text="hello")])
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        events = runner.run_async(user_id="u", session_id="s1", new_message=said, run_config=config)
        async with aclosing(events):
            async for event in events:
                text = "".join(part.text or "" for part in (event.content.parts if event.content else None) or [])
                if text and event.partial:
                    yield text


def stream_of(name: str, provider: Provider, host: Any, tools: Any = ()) -> AsyncIterator[str]:
    """Run an agent of a framework with the provider's model. Returns the pieces of text as they come."""
    framework, _, api = name.partition("/")
    run = {
        "google-adk": _google_adk,
        "langchain": _langchain,
        "openai-agents": _openai_agents,
        "pydantic-ai": _pydantic_ai,
    }[framework]
    return run(provider, host, [*tools], api=api)


STREAMS = [
    "google-adk/gemini",
    "pydantic-ai/chat",
    "pydantic-ai/responses",
    "langchain/chat",
    "openai-agents/chat",
    "openai-agents/responses",
]
