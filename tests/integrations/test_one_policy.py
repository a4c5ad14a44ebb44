"""One policy, one hook, the same decisions everywhere: the table in docs/how-to/frameworks.md."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import preloaded
import pytest

from picohook import Host, LLMRequest, ToolCall

from .drivers import AI_SDK, FRAMEWORKS, Agent, run_ai_sdk, run_claude

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "frameworks.md"

POLICY = """\
root = "workspace"
deny = [".env"]
commands = ["ls", "cat"]
"""

CALLS = [
    ("read", {"path": "notes.txt"}),
    ("read", {"path": "../secrets"}),
    ("read", {"path": ".env"}),
    ("bash", {"command": "ls"}),
    ("bash", {"command": "rm -rf ."}),
    ("bash", {"command": "cat .env"}),
]
SCRIPT = [[(str(place), tool, arguments) for place, (tool, arguments) in enumerate(CALLS)], "done"]
RUNS = "it ran"


def read(path: str) -> str:
    return f"{RUNS}: {path}"


def bash(command: str) -> str:
    return f"{RUNS}: {command}"


@pytest.fixture
def config(tmp_path):
    """A host's configuration: the example hook as it is, with the policy's file."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    command = [
        preloaded.program("python"),
        str(ROOT / "hooks_examples" / "path_guard.py"),
        str(tmp_path / "policy.toml"),
    ]
    file = tmp_path / "picohook.toml"
    file.write_text(
        f'[hooks.guard]\ncommand = {command}\nstages = ["before_tool", "approve_tool"]\non_failure = "deny"\n',
        encoding="utf-8",
    )
    return file


async def in_framework(name, config):
    async with Host.from_config(config) as host:
        agent = Agent(host, SCRIPT, [read, bash])
        await FRAMEWORKS[name](agent)
    return agent.told


async def in_a_turn(config):
    """The plain loop."""
    tools = {"read": read, "bash": bash}
    calls = [
        {"id": identity, "function": {"name": tool, "arguments": arguments}} for identity, tool, arguments in SCRIPT[0]
    ]

    async def complete(request: LLMRequest):
        answered = request.messages[-1]["role"] == "tool"
        return {"content": "done"} if answered else {"content": "", "tool_calls": calls}

    def execute(call: ToolCall) -> str:
        return tools[call.tool](**call.arguments)

    async with (
        Host.from_config(config) as host,
        host.session("s1") as session,
        session.turn("hello") as turn,
    ):
        result = await turn.run(complete=complete, execute=execute)
    return {message["tool_call_id"]: message["content"] for message in result.messages if message["role"] == "tool"}


async def in_agent_hooks(config):
    """A host of AGENT-HOOKS-0.1."""
    from agent_hooks import AgentContextBuilder, InterceptionBlocked, InterceptionEmitter

    from picohook.integrations.agent_hooks import PicohookInterceptor

    contexts = AgentContextBuilder(agent_id="main", framework="test", session_id="s1")
    told = {}
    async with Host.from_config(config) as host:
        emitter = InterceptionEmitter()
        emitter.register(PicohookInterceptor(host))
        for identity, tool, arguments in SCRIPT[0]:
            try:
                await emitter.emit(contexts.pre_tool_call(call_id=identity, name=tool, args=arguments))
                told[identity] = RUNS
            except InterceptionBlocked as blocked:
                told[identity] = blocked.result.verdict.message
    return told


async def in_claude(config):
    """The real agent of the Claude Agent SDK, with tools of this program."""
    async with Host.from_config(config) as host:
        return (await run_claude(host, SCRIPT, [read, bash], config.parent)).told


async def in_ai_sdk(config):
    return (await run_ai_sdk(config, SCRIPT))["told"]


async def in_node(config):
    """A program that is not in Python, through the sidecar."""
    program = os.path.join(os.path.dirname(__file__), "sidecar.mjs")
    done = await anyio.run_process(["node", program, preloaded.program("picohook"), str(config), json.dumps(SCRIPT[0])])
    return json.loads(done.stdout)


RUNTIMES = {
    "a plain loop": in_a_turn,
    "Pydantic AI": lambda config: in_framework("pydantic-ai", config),
    "LangChain": lambda config: in_framework("langchain", config),
    "OpenAI Agents": lambda config: in_framework("openai-agents", config),
    "Google ADK": lambda config: in_framework("google-adk", config),
    "Claude": in_claude,
    "AI SDK": in_ai_sdk,
    "AGENT-HOOKS": in_agent_hooks,
    "Node": in_node,
}


@pytest.mark.skipif(not AI_SDK.exists(), reason="npm install --prefix hooks_examples/clients/node")
async def test_every_framework_decides_as_the_page_says(config):
    told = {name: await ask(config) for name, ask in RUNTIMES.items()}
    rows = [["call", *RUNTIMES, "why"], ["---"] * (len(RUNTIMES) + 2)]
    for identity, tool, arguments in SCRIPT[0]:
        said = {name: one[identity] for name, one in told.items()}
        ran = {name: text.startswith(RUNS) for name, text in said.items()}
        why = {"" if ran[name] else text.split(" hook: ", 1)[1] for name, text in said.items()}
        assert len(why) == 1, f"{tool} {arguments}: {said}"
        cells = ["runs" if ran[name] else "denied" for name in RUNTIMES]
        rows.append([f"`{tool}` `{next(iter(arguments.values()))}`", *cells, *why])
    assert [row[1] for row in rows[2:]] == ["runs", "denied", "denied", "runs", "denied", "denied"]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    assert table in PAGE.read_text(encoding="utf-8"), f"the page has another table than this:\n{table}"
