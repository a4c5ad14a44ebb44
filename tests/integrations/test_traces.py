"""Traces of a framework's run: with the framework's own spans, and without them."""

from __future__ import annotations

import pytest

from picohook import FunctionHook, Host, OpenTelemetry

from .drivers import Agent, run_google_adk

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

OPERATION = "gen_ai.operation.name"
BELOW = {
    "hooks before_llm": "chat",
    "hooks after_llm": "chat",
    "hooks before_tool": "execute_tool",
    "hooks approve_tool": "execute_tool",
    "hooks after_tool": "execute_tool",
}


def look() -> str:
    return "sunny"


@pytest.fixture
def exported():
    """What a program exports, and the provider that it exports with."""
    pytest.importorskip("opentelemetry.sdk")  # only the development environment has it beside the framework
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, traces = InMemorySpanExporter(), TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, traces


def host_of(traces):
    guard = FunctionHook("g", {"before_llm": lambda _: None, "before_tool": lambda _: None})
    return Host([guard], listeners=[OpenTelemetry(tracer_provider=traces)])


def made(spans):
    """The operations among these spans, and who made them."""
    return sorted(
        (span.attributes[OPERATION], span.instrumentation_scope.name) for span in spans if OPERATION in span.attributes
    )


def parents(spans):
    """What each kind of question is below."""
    by_id = {span.context.span_id: span for span in spans}
    assert len({span.context.trace_id for span in spans}) == 1
    return {span.name: by_id[span.parent.span_id].attributes.get(OPERATION) for span in spans if span.name in BELOW}


@pytest.mark.parametrize("instrumented", [True, False])
async def test_in_pydantic_ai_each_operation_is_one_span_and_hooks_are_below_it(exported, instrumented):
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.instrumented import InstrumentationSettings

    from picohook.integrations.pydantic_ai import Picohook

    exporter, traces = exported
    answers = [[ToolCallPart("look", {})], [TextPart("hi")]]

    async def answer(_messages, _info):
        return ModelResponse(answers.pop(0))

    own = [Instrumentation(settings=InstrumentationSettings(tracer_provider=traces))] if instrumented else []
    async with host_of(traces) as host:
        agent = Agent(FunctionModel(answer), capabilities=[*own, Picohook(host)], name="main")
        agent.tool_plain(lambda: "sunny", name="look")
        await agent.run("hello")

    maker = "pydantic-ai" if instrumented else "picohook"
    spans = exporter.get_finished_spans()
    assert made(spans) == [(name, maker) for name in ("chat", "chat", "execute_tool", "invoke_agent")]
    assert parents(spans) == BELOW


@pytest.mark.parametrize("instrumented", [True, False])
async def test_in_google_adk_each_operation_is_one_span_and_hooks_are_below_it(exported, instrumented, monkeypatch):
    from google.adk.telemetry import tracing

    exporter, traces = exported
    if instrumented:  # as if the program had set these traces for all libraries
        monkeypatch.setattr(tracing.tracer, "_real_tracer", traces.get_tracer("gcp.vertex.agent"))
    async with host_of(traces) as host:
        await run_google_adk(Agent(host, [[("1", "look", {})], "hi"], [look]))

    spans = exporter.get_finished_spans()
    if instrumented:
        names = ("execute_tool", "generate_content", "generate_content", "invoke_agent", "invoke_workflow")
        assert made(spans) == [(name, "gcp.vertex.agent") for name in names]
        below = {name: parent.replace("chat", "generate_content") for name, parent in BELOW.items()}
        assert parents(spans) == below
    else:
        assert made(spans) == [(name, "picohook") for name in ("chat", "chat", "execute_tool", "invoke_agent")]
        assert parents(spans) == BELOW
