"""Every way in which a framework runs a tool, code or a model, in the installed version, is one that was decided about.

A new version of a framework may have more ways. Then a test fails here until somebody has looked at each: are hooks asked about
it, or is it refused unless `unguarded` names it?
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import get_args, get_origin

import pytest

from .drivers import AI_SDK

pytestmark = pytest.mark.one_worker("frameworks")

CLASS = re.compile(r"^ *class (\w+)(?:\[[^\]]*\])?\(([^)]*)\)", re.MULTILINE)

DOCSTRING = re.compile(r'r?"""(?:.|\n)*?"""')

ASKED, REFUSED, NEITHER = "hooks are asked", "refused by name", "runs nothing by itself"
OWN = "runs outside of a guarded run"
UNTRIED = "needs a server of its own, and was not tried"

SUBCLASSES = {
    ("google.adk", "BaseAgent", "BaseNode"): {
        ASKED: "LlmAgent LoopAgent ParallelAgent SequentialAgent FunctionNode JoinNode Node _ParallelWorker"
        " _ToolNode Workflow",
        REFUSED: "RemoteA2aAgent ManagedAgent LangGraphAgent AntigravityAgent ClassifierNode",
    },
    ("google.adk", "BaseCodeExecutor"): {
        REFUSED: "AgentEngineSandboxCodeExecutor BuiltInCodeExecutor CloudRunSandboxCodeExecutor ContainerCodeExecutor"
        " GkeCodeExecutor UnsafeLocalCodeExecutor VertexAiCodeExecutor",
    },
    ("google.adk", "BasePlugin"): {
        REFUSED: "ReplayPlugin EnvironmentSimulationPlugin",
        NEITHER: "RecordingsPlugin EnsureRetryOptionsPlugin _RequestIntercepterPlugin ModelArmorPlugin"
        " ReflectAndRetryModelPlugin ToolCallIntegrityPlugin AutoTracingPlugin BigQueryAgentAnalyticsPlugin"
        " ContextFilterPlugin DebugLoggingPlugin GlobalInstructionPlugin LoggingPlugin"
        " MultimodalToolResultsPlugin ReflectAndRetryToolPlugin SaveFilesAsArtifactsPlugin"
        " ForceEscalationPlugin ModelConsultObservabilityPlugin",
    },
    ("langchain", "AgentMiddleware"): {
        ASKED: "FilesystemFileSearchMiddleware ModelFallbackMiddleware ModelRetryMiddleware ShellToolMiddleware"
        " TodoListMiddleware ToolRetryMiddleware",
        REFUSED: "SummarizationMiddleware LLMToolEmulator LLMToolSelectorMiddleware ProviderToolSearchMiddleware",
        NEITHER: "ContextEditingMiddleware HumanInTheLoopMiddleware ModelCallLimitMiddleware ModelRefusalMiddleware"
        " PIIMiddleware ToolCallLimitMiddleware ToolErrorMiddleware",
    },
    ("pydantic_ai", "AbstractCapability"): {
        ASKED: "Capability DynamicCapability FileUnderstanding ImageGeneration LocalWorkspace MCP"
        " ModelFallback ResolveModelId SelectModel Toolset WebFetch WebSearch XSearch",
        UNTRIED: "BaseDurabilityCapability DBOSDurability PrefectDurability TemporalDurability",
        REFUSED: "BatchModelRequests NativeTool NativeOrLocalTool OpenAICompaction",
        NEITHER: "AnthropicCompaction Caching Citations CombinedCapability DeferredCapabilityLoader"
        " HandleDeferredToolCalls Hooks IncludeToolReturnSchemas Instrumentation"
        " PendingMessageDrainCapability PrefixTools PrepareOutputTools PrepareTools ProcessEventStream"
        " ProcessHistory RaiseContentFilterError ReinjectSystemPrompt RejectWorkspaceInContainer RequestInput"
        " ResolvedDynamicCapability SetToolMetadata Thinking ToolSearch UseThreadExecutor WorkspaceEnsurer"
        " WrapperCapability _GroupMember _TerminalEventPublisher",
    },
    ("pydantic_ai", "AbstractNativeTool"): {
        REFUSED: "WebSearchTool XSearchTool CodeExecutionTool WebFetchTool ImageGenerationTool MemoryTool"
        " MCPServerTool FileSearchTool AdvisorTool ToolSearchTool",
    },
}
"""What is made of these classes of a package."""

NEWER = {"ModelRefusalMiddleware"}
"""Classes that are decided about, and not in the versions of constraints.txt yet."""

CALLS = {
    ("agents", "get_response", "stream_response", "compact"): {
        ASKED: "run_internal/model_retry.py run_internal/run_loop.py",
        REFUSED: "memory/openai_responses_compaction_session.py",
    },
    ("agents", "on_invoke_tool", "invoke_function_tool"): {
        ASKED: "run_internal/tool_actions.py tool.py",
        OWN: "realtime/session.py",
    },
    ("google.adk", "generate_content_async", "execute_code"): {
        ASKED: "flows/llm_flows/core/_model_call.py models/_fallback_model.py models/apigee_llm.py models/gemma_llm.py",
        REFUSED: "apps/llm_event_summarizer.py code_executors/agent_engine_sandbox_code_executor.py"
        " labs/classifiers/_llm_classifier.py live/_cascade_live.py live/_cascade_live_connection.py"
        " tools/environment_simulation/strategies/tool_spec_mock_strategy.py"
        " tools/environment_simulation/tool_connection_analyzer.py tools/model_consult/_advisor.py",
        OWN: "cli/agent_test_runner.py evaluation/hallucinations_v1.py evaluation/llm_as_judge.py"
        " evaluation/simulation/_llm_audio_user_simulator.py"
        " evaluation/simulation/llm_backed_user_simulator.py"
        " evaluation/simulation/per_turn_user_simulator_quality_v1.py optimization/_gepa_utils.py"
        " optimization/simple_prompt_optimizer.py",
    },
    ("langchain", "invoke", "ainvoke", "get_num_tokens_from_messages"): {
        ASKED: "agents/factory.py",
        REFUSED: "agents/middleware/summarization.py agents/middleware/tool_emulator.py"
        " agents/middleware/tool_selection.py",
        NEITHER: "agents/middleware/context_editing.py chat_models/base.py",
    },
    ("pydantic_ai", "count_tokens", "compact_messages"): {
        REFUSED: "_agent_graph.py models/openai/_compaction.py",
        NEITHER: "durable_exec/_base.py models/concurrency.py models/wrapper.py models/anthropic/__init__.py"
        " models/google.py embeddings/__init__.py embeddings/google.py embeddings/wrapper.py",
    },
}
"""The modules of a package that call these methods."""


def listed(decided):
    return {name for names in decided.values() for name in names.split()}


@cache
def sources(package):
    """The modules of an installed package, by their paths in it."""
    spec = importlib.util.find_spec(package.split(".")[0])
    if spec is None or importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    root = Path(importlib.util.find_spec(package).submodule_search_locations[0])
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}


@cache
def classes(package):
    texts = [DOCSTRING.sub("", text) for text in sources(package).values()]
    found = [match for text in texts for match in CLASS.findall(text)]
    return [(name, set(re.findall(r"\w+", bases))) for name, bases in found]


@pytest.mark.parametrize("what", SUBCLASSES, ids="-".join)
def test_A17_every_class_of_a_framework_that_can_run_something_was_decided_about(what):
    package, *bases = what
    known, before = set(bases), set()
    while before != known:
        before = set(known)
        known |= {name for name, own in classes(package) if own & before}
    assert known - {*bases} - NEWER == listed(SUBCLASSES[what]) - NEWER


@pytest.mark.parametrize("what", CALLS, ids="-".join)
def test_A17_every_call_of_a_model_or_a_tool_in_a_framework_was_decided_about(what):
    package, *methods = what
    found = set()
    for path, text in sources(package).items():
        if any(f".{method}(" in text for method in methods) or any(f"{method}(" in text for method in methods):
            called = {getattr(node.func, "attr", getattr(node.func, "id", "")) for node in calls(text)}
            found |= {path} if called & {*methods} else set()
    assert found == listed(CALLS[what])


def calls(text):
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]


def test_A17_the_integrations_know_what_was_decided_about_google_adk_and_pydantic_ai():
    parts = pytest.importorskip("picohook.integrations.google_adk_parts")
    agents, plugins = SUBCLASSES["google.adk", "BaseAgent", "BaseNode"], SUBCLASSES["google.adk", "BasePlugin"]
    assert {*agents[ASKED].split(), "BaseAgent", "BaseNode"} == parts.NODES
    assert {*plugins[REFUSED].split()} == parts.PLUGINS
    pydantic_ai = pytest.importorskip("picohook.integrations.pydantic_ai")
    refused = SUBCLASSES["pydantic_ai", "AbstractCapability"][REFUSED].split()
    assert {*refused} - {"BatchModelRequests", "NativeTool", "NativeOrLocalTool"} == pydantic_ai.BY_THEMSELVES


def test_A17_every_method_of_a_model_that_asks_a_provider_was_decided_about():
    models = pytest.importorskip("pydantic_ai.models")
    own = {
        name for name in vars(models.Model) if inspect.iscoroutinefunction(inspect.unwrap(getattr(models.Model, name)))
    }
    asked = {"request"}  # and request_stream, which is a block
    refused = {"count_tokens", "compact_messages", "batch_encode"}
    later = {"batch_create", "batch_status", "batch_results", "batch_cancel", "cancel_suspended_response"}
    assert {name for name in own if not name.startswith("__")} == asked | refused | later
    sdk = pytest.importorskip("agents")
    asked = {"get_response", "stream_response"}
    assert {name for name in vars(sdk.Model) if name[0] != "_"} == asked | {"close", "get_retry_advice"}


def test_A17_every_kind_of_tool_of_the_openai_agents_sdk_asks_hooks_or_is_refused():
    agents = pytest.importorskip("agents")
    from picohook import Host, PicohookError
    from picohook.integrations.openai_agents import PicohookRunner

    for kind in [get_origin(one) or one for one in get_args(agents.Tool)]:
        if kind not in {agents.FunctionTool, agents.CustomTool}:
            with pytest.raises(PicohookError, match=f"{kind.__name__}: hooks cannot be asked about this tool"):
                PicohookRunner(Host()).guard(agents.Agent(name="a", tools=[object.__new__(kind)]))


def test_A17_every_event_of_the_claude_agent_sdk_was_decided_about():
    types = pytest.importorskip("claude_agent_sdk.types")
    events = {name for one in get_args(types.HookEvent) for name in get_args(one)}
    asked = {"PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SubagentStop"}
    assert events == asked | {"PreCompact", "Notification", "SubagentStart", "PermissionRequest"}


def test_A17_every_interception_point_of_agent_hooks_asks_hooks():
    points = pytest.importorskip("agent_hooks").InterceptionPoint
    from picohook.integrations.agent_hooks import PicohookInterceptor

    assert [point for point in points if not hasattr(PicohookInterceptor, f"_{point.value}")] == []


@pytest.mark.skipif(not AI_SDK.exists(), reason="npm install --prefix hooks_examples/clients/node")
def test_A17_every_function_of_the_ai_sdk_that_runs_a_model_was_decided_about():
    """Tools run in the first line. The others take no tools."""
    names = "(sdk) => console.log(JSON.stringify(Object.keys(sdk)))"
    show = f"import({json.dumps((AI_SDK / 'dist/index.mjs').as_uri())}).then({names})"
    names = json.loads(subprocess.run(["node", "-e", show], check=True, capture_output=True, text=True).stdout)
    runs = {
        name
        for name in names
        if re.match(r"(experimental_)?(generate|stream|embed|transcribe|rerank)|.*Agent$|call", name, re.IGNORECASE)
    }
    assert runs - {"generateId"} == {
        *("generateText", "streamText", "ToolLoopAgent", "Experimental_Agent"),
        *(
            "generateObject",
            "streamObject",
            "embed",
            "embedMany",
            "rerank",
            "callCompletionApi",
            "experimental_transcribe",
        ),
        *("generateImage", "experimental_generateImage", "experimental_generateSpeech", "experimental_generateVideo"),
    }
