"""The same scripted agent in each framework: real ones, offline, with models that say what a script says.

A script is a list of answers: a text, or a list of `(id, tool, arguments)`. Frameworks are imported when they are used, so
that only the process that runs these tests pays for them.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from .provider import chat_model, openai_chat, provider

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSTEM = "You are a test."


@dataclass
class Request:
    """What a model was asked."""

    system: str | None
    texts: list[str]
    tools: list[str]


@dataclass
class Agent:
    """A scripted agent, and what became of it."""

    host: Any
    script: list[Any]
    tools: list[Any]
    session: str = "s1"
    requests: list[Request] = field(default_factory=list)
    system: str = SYSTEM
    """The system prompt that the framework makes of it."""
    told: dict[str, str] = field(default_factory=dict)
    """What the model was told of each call, by its id."""
    streamed: list[str] = field(default_factory=list)
    url: str = ""
    """Of a provider that says what the script says. Without one, a fake model of the framework says it."""

    def next(self, request: Request) -> Any:
        self.requests.append(request)
        return self.script[len(self.requests) - 1]


def over_http(run: Any) -> Any:
    """The same agent, with the framework's own client of a provider."""

    async def run_over_http(agent: Agent, prompt: str = "hello", **options: Any) -> str:
        async with provider(agent.script) as model:
            agent.url = model.url
            try:
                return await run(agent, prompt, **options)
            finally:
                agent.requests += [_request_of(asked) for asked in model.requests]
                agent.told |= {name: _without_error(text) for name, text in model.told.items()}

    return run_over_http


def _request_of(asked: dict[str, Any]) -> Request:
    said = [(message["role"], message["content"]) for message in asked["messages"] if message.get("content")]
    system = "\n\n".join(text for role, text in said if role == "system")
    tools = [tool["function"]["name"] for tool in asked.get("tools", ())]
    return Request(system or None, [text for role, text in said if role != "system"], tools)


def _without_error(text: str) -> str:
    """Return a result without the form in which Pydantic AI tells a model of OpenAI's that a tool failed."""
    return json.loads(text)["error"] if text.startswith('{"error":') else text


async def run_pydantic_ai(agent: Agent, prompt: str = "hello", *, stream: bool = False) -> str:
    import pydantic_ai

    from picohook.integrations.pydantic_ai import Picohook

    model = openai_chat(agent.url) if agent.url else scripted_function(agent)
    made = pydantic_ai.Agent(model, instructions=SYSTEM, tools=agent.tools, capabilities=[Picohook(agent.host)])
    if not stream:
        return (await made.run(prompt, conversation_id=agent.session)).output
    async with made.run_stream(prompt, conversation_id=agent.session) as result:
        agent.streamed += [text async for text in result.stream_text(delta=True)]
        return await result.get_output()


def scripted_function(agent: Agent) -> Any:
    """A model of Pydantic AI that says what the script says, at once or in pieces."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    def answer(messages, info):
        parts = [part for message in messages for part in message.parts]
        agent.told.update({part.tool_call_id: str(part.content) for part in parts if part.part_kind == "tool-return"})
        texts = [part.content for part in parts if isinstance(getattr(part, "content", None), str)]
        said = agent.next(Request(info.instructions, texts, [tool.name for tool in info.function_tools]))
        if isinstance(said, str):
            return ModelResponse([TextPart(said)])
        return ModelResponse([ToolCallPart(tool, arguments, identity) for identity, tool, arguments in said])

    async def answer_in_pieces(messages, info):
        for place, part in enumerate(answer(messages, info).parts):
            if isinstance(part, TextPart):
                for word in part.content.split():
                    yield f"{word} "
            else:
                yield {place: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}

    return FunctionModel(answer, stream_function=answer_in_pieces)


async def run_langchain(
    agent: Agent, prompt: Any = "hello", *, stream: bool = False, middleware: Any = (), unguarded: Any = ()
) -> str:
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessageChunk
    from langchain_core.tools import StructuredTool

    from picohook.integrations.langchain import PicohookMiddleware

    def tool(function):
        how = {"coroutine" if asyncio.iscoroutinefunction(function) else "func": function}
        return StructuredTool.from_function(name=function.__name__, description="A tool.", **how)

    tools = [tool(function) for function in agent.tools]
    guards = [*middleware, PicohookMiddleware(agent.host, unguarded=unguarded)]
    model = chat_model(agent.url) if agent.url else scripted_chat(agent)
    made = create_agent(model, tools, system_prompt=SYSTEM, middleware=guards)
    given = {"messages": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt}
    config = {"configurable": {"thread_id": agent.session}}
    if not stream:
        return (await made.ainvoke(given, config))["messages"][-1].text
    async for message, _ in made.astream(given, config, stream_mode="messages"):
        if message.type in {"ai", AIMessageChunk.__name__} and message.text:
            agent.streamed.append(message.text)
    return "".join(agent.streamed)


def scripted_chat(agent: Agent) -> Any:
    """A chat model of LangChain's that can call tools, at once or in pieces."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

    class Scripted(BaseChatModel):
        offered: tuple = ()

        @property
        def _llm_type(self):
            return "scripted"

        def bind_tools(self, tools, **settings):
            del settings
            return self.model_copy(update={"offered": tuple(tools)})

        def _next(self, messages):
            system = next((message.text for message in messages if message.type == "system"), None)
            agent.told.update({message.tool_call_id: message.text for message in messages if message.type == "tool"})
            texts = [message.text for message in messages if message.type != "system"]
            names = [tool.name if hasattr(tool, "name") else tool["function"]["name"] for tool in self.offered]
            return agent.next(Request(system, texts, names))

        def _generate(self, messages, stop=None, run_manager=None, **settings):
            del stop, run_manager, settings
            said = self._next(messages)
            if isinstance(said, str):
                return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])
            calls = [{"name": tool, "args": arguments, "id": identity} for identity, tool, arguments in said]
            return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])

        def _stream(self, messages, stop=None, run_manager=None, **settings):
            del stop, settings
            said = self._next(messages)
            if isinstance(said, str):
                pieces = [AIMessageChunk(content=f"{word} ") for word in said.split()]
            else:
                pieces = [
                    AIMessageChunk(
                        content="",
                        tool_call_chunks=[
                            {"name": tool, "args": json.dumps(arguments), "id": identity, "index": place}
                            for place, (identity, tool, arguments) in enumerate(said)
                        ],
                    )
                ]
            for piece in pieces:
                chunk = ChatGenerationChunk(message=piece)
                if run_manager is not None:
                    run_manager.on_llm_new_token(piece.text, chunk=chunk)
                yield chunk

    return Scripted()


async def run_openai_agents(agent: Agent, prompt: str = "hello", *, stream: bool = False) -> str:
    import agents

    from picohook.integrations.openai_agents import PicohookRunner

    agents.set_tracing_disabled(True)  # it would call home
    tools = [agents.function_tool(function, failure_error_function=None) for function in agent.tools]
    made = agents.Agent(name="scripted", instructions=SYSTEM, model=scripted_model(agent), tools=tools)
    runner = PicohookRunner(agent.host)
    if not stream:
        return (await runner.run(made, prompt, session_id=agent.session)).final_output
    async with runner.stream(made, prompt, session_id=agent.session) as result:
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                agent.streamed.append(event.data.delta)
        return result.final_output


def scripted_model(agent: Agent) -> Any:
    """The SDK's own scripted model."""
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

    def answer(call):
        items = call.input if isinstance(call.input, list) else [{"role": "user", "content": call.input}]
        outputs = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
        agent.told.update(outputs)
        texts = [item.get("content", item.get("output", "")) for item in items]
        said = agent.next(Request(call.system_instructions, texts, [tool.name for tool in call.tools]))
        if isinstance(said, str):
            return [assistant_message(said)]
        return [function_call(tool, arguments, call_id=identity) for identity, tool, arguments in said]

    return ScriptedModel([ModelStep.respond(answer)] * 9)


async def run_google_adk(agent: Agent, prompt: str = "hello", *, stream: bool = False) -> str:
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.genai import types

    agent.system = f'{SYSTEM}\n\nYou are an agent. Your internal name is "scripted".'
    root = LlmAgent(name="scripted", model=scripted_llm(agent), instruction=SYSTEM, tools=[*agent.tools])
    said = types.Content(role="user", parts=[types.Part(text=prompt)])
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    last = ""
    async with await adk_runner(agent, root) as runner:
        async for event in runner.run_async(user_id="u", session_id=agent.session, new_message=said, run_config=config):
            text = "".join(part.text or "" for part in (event.content.parts if event.content else None) or [])
            if text and event.partial:
                agent.streamed.append(text)
            last = text or last
    return last


async def adk_runner(agent: Agent, root: Any, *, unguarded: Any = (), plugins: Any = (), **options: Any) -> Any:
    """A runner of Google ADK with a session of this agent's name. `options` are those of its `App`."""
    from google.adk.apps.app import App
    from google.adk.runners import InMemoryRunner

    from picohook.integrations.google_adk import PicohookPlugin

    guards = [*plugins, PicohookPlugin(agent.host, unguarded=unguarded)]
    runner = InMemoryRunner(app=App(name="test", root_agent=root, plugins=guards, **options))
    await runner.session_service.create_session(app_name="test", user_id="u", session_id=agent.session)
    return runner


def scripted_llm(agent: Agent) -> Any:
    """A model of Google ADK that says what the script says, at once or in pieces."""
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):  # noqa: FBT002
            texts = []
            for part in (part for content in llm_request.contents for part in content.parts):
                if part.function_response is not None:
                    answer = part.function_response.response
                    texts.append(str(answer.get("result", answer.get("error"))))
                    agent.told[part.function_response.id] = texts[-1]
                elif part.text is not None:
                    texts.append(part.text)
            tools = [
                declared.name for tool in llm_request.config.tools or [] for declared in tool.function_declarations
            ]
            said = agent.next(Request(llm_request.config.system_instruction, texts, tools))
            if isinstance(said, str):
                parts = [types.Part(text=said)]
                if stream:
                    for word in said.split():
                        yield LlmResponse(
                            content=types.Content(role="model", parts=[types.Part(text=f"{word} ")]), partial=True
                        )
            else:
                parts = [
                    types.Part(function_call=types.FunctionCall(id=identity, name=tool, args=arguments))
                    for identity, tool, arguments in said
                ]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    return Scripted(model="scripted")


AI_SDK = Path(__file__).parents[2] / "hooks_examples" / "clients" / "node" / "node_modules" / "ai"


async def run_ai_sdk(
    config: Path, script: list[Any], *, stream: bool = False, approved: Sequence[str] = (), how: Sequence[str] = ()
) -> dict[str, Any]:
    """Runs the AI SDK for TypeScript on its mock model, through the sidecar. Returns what the program printed.

    `how` has words of the program. With the ids of `approved` calls, a pause is an approval request, and a second run
    continues the first.
    """
    import preloaded

    program = Path(__file__).with_name("ai_sdk.mjs")
    command = ["node", str(program), str(config), json.dumps(script), *(["stream"] if stream else []), *how, *approved]
    path = os.pathsep.join((preloaded.programs(), os.environ["PATH"]))
    done = await anyio.run_process(command, env={**os.environ, "PATH": path}, stderr=None)
    return json.loads(done.stdout)


@dataclass
class Done:
    """What became of a Claude agent."""

    said: str | None = None
    """Its answer; None if it was stopped."""
    reasons: str = ""
    """What it said about being stopped."""
    session: str = ""
    deferred: str | None = None
    """The id of the call that waits for a person."""
    pauses: dict[str, str] = field(default_factory=dict)
    """The reasons of hooks for it, by call id."""
    requests: list[str] = field(default_factory=list)
    """The last message of each request to the model, as JSON."""
    told: dict[str, str] = field(default_factory=dict)


async def run_claude(
    host: Any,
    script: list[Any],
    tools: list[Any],
    place: Any,
    *,
    allowed: Any = (),
    resume: str = "",
    home: Any = None,
    results: int = 1,
    helps: Sequence[Any] = (),
    env: Any = (),
    guard: Any = None,
    **options: Any,
) -> Done:
    """Runs the real Claude agent on a scripted model. Hooks know its tools by their own names.

    `helps` is the script of a subagent. `resume` continues the run of this session, which is kept in `home`. After
    so many `results` the agent is stopped. `options` are those of `PicohookHooks`, and other options are the agent's.
    `guard` is asked for the guarded options in place of `PicohookHooks`. Without tools the agent has no MCP server.
    """
    import claude_agent_sdk as sdk

    from picohook.integrations.claude_agent import PicohookHooks

    from .messages_api import serving

    names = {f"mcp__t__{function.__name__}": function.__name__ for function in tools}
    own = {name: agents_name for agents_name, name in names.items()}
    script, helps = (
        [
            said if isinstance(said, str) else [(i, own.get(tool, tool), given) for i, tool, given in said]
            for said in answers
        ]
        for answers in (script, helps)
    )
    settings = {name: options.pop(name) for name in ("defer", "answers") if name in options}
    hooks = PicohookHooks(host, names=names, **settings)
    with serving(script, helps) as server:
        options = sdk.ClaudeAgentOptions(
            cwd=place,
            setting_sources=[],
            model="claude-test",
            allowed_tools=[*([] if "can_use_tool" in options else names), *allowed],
            resume=resume or None,
            **options,
            mcp_servers={"t": sdk.create_sdk_mcp_server("t", tools=[*map(_sdk_tool, tools)])} if tools else {},
            env={
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "HOME": str(home or place),
                **dict(env),
            },
        )
        done = Done(requests=server.requests, told=server.results)
        async with sdk.ClaudeSDKClient((guard or hooks.options)(options)) as client:
            if not resume:
                await client.query("hello")
            async for message in client.receive_messages():
                if not isinstance(message, sdk.ResultMessage):
                    done.reasons += str(message) if isinstance(message, sdk.UserMessage | sdk.SystemMessage) else ""
                    continue
                done.session = message.session_id
                done.deferred = message.deferred_tool_use and message.deferred_tool_use.id
                done.reasons += message.result or ""
                if message.stop_reason == "end_turn":
                    done.said = message.result
                results -= 1
                if not results:
                    break
        done.pauses = {identity: pause.reason for identity, pause in hooks.pauses.items()}
        await hooks.close()
    return done


def _sdk_tool(function: Any) -> Any:
    import claude_agent_sdk as sdk

    async def call(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": function(**given)}]}

    return sdk.tool(function.__name__, "A tool.", dict.fromkeys(function.__annotations__.keys() - {"return"}, str))(
        call
    )


FRAMEWORKS = {
    "google-adk": run_google_adk,
    "langchain": run_langchain,
    "openai-agents": run_openai_agents,
    "langchain over HTTP": over_http(run_langchain),
    "pydantic-ai": run_pydantic_ai,
    "pydantic-ai over HTTP": over_http(run_pydantic_ai),
}
