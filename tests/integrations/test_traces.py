"""Traces of a framework's run: with the framework's own spans, and without them."""

from __future__ import annotations

import pytest

from picohook import FunctionHook, Host, OpenTelemetry

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

OPERATION = "gen_ai.operation.name"
BELOW = {
    "hooks before_llm": "chat",
    "hooks after_llm": "chat",
    "hooks before_tool": "execute_tool",
    "hooks approve_tool": "execute_tool",
    "hooks after_tool": "execute_tool",
}


@pytest.mark.parametrize("instrumented", [True, False])
async def test_in_pydantic_ai_each_operation_is_one_span_and_hooks_are_below_it(instrumented):
    pytest.importorskip("opentelemetry.sdk")  # only the development environment has it beside the framework
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.instrumented import InstrumentationSettings

    from picohook.integrations.pydantic_ai import Picohook

    exported, traces = InMemorySpanExporter(), TracerProvider()
    traces.add_span_processor(SimpleSpanProcessor(exported))
    answers = [[ToolCallPart("look", {})], [TextPart("hi")]]

    async def answer(_messages, _info):
        return ModelResponse(answers.pop(0))

    own = [Instrumentation(settings=InstrumentationSettings(tracer_provider=traces))] if instrumented else []
    guard = FunctionHook("g", {"before_llm": lambda _: None, "before_tool": lambda _: None})
    async with Host([guard], listeners=[OpenTelemetry(tracer_provider=traces)]) as host:
        agent = Agent(FunctionModel(answer), capabilities=[*own, Picohook(host)], name="main")
        agent.tool_plain(lambda: "sunny", name="look")
        await agent.run("hello")

    spans = exported.get_finished_spans()
    makers = [
        (span.attributes[OPERATION], span.instrumentation_scope.name) for span in spans if OPERATION in span.attributes
    ]
    maker = "pydantic-ai" if instrumented else "picohook"
    assert sorted(makers) == [(name, maker) for name in ("chat", "chat", "execute_tool", "invoke_agent")]
    by_id = {span.context.span_id: span for span in spans}
    below = {span.name: by_id[span.parent.span_id].attributes.get(OPERATION) for span in spans if span.name in BELOW}
    assert below == BELOW
    assert len({span.context.trace_id for span in spans}) == 1
