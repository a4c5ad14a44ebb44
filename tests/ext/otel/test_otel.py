"""Spans and metrics, as an exporter of OpenTelemetry's own SDK gets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode, TraceFlags, get_current_span

from picohook import (
    Canary,
    Continue,
    Deny,
    FunctionHook,
    HookSpec,
    Host,
    LLMRequest,
    Meta,
    Modify,
    OpenTelemetry,
    Respond,
    ToolCall,
)
from picohook.testing import hook_process

pytestmark = pytest.mark.anyio

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Backend:
    """An SDK of a test's own, and what it was sent."""

    def __init__(self, **settings):
        self.exported = InMemorySpanExporter()
        self.traces = TracerProvider(**settings)
        self.traces.add_span_processor(SimpleSpanProcessor(self.exported))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.tracer = self.traces.get_tracer("the agent")

    def listener(self, **settings):
        return OpenTelemetry(tracer_provider=self.traces, meter_provider=self.meters, **settings)

    def spans(self):
        return {span.name: span for span in self.exported.get_finished_spans()}

    def points(self, name):
        data = self.reader.get_metrics_data()
        metrics = [one for r in data.resource_metrics for scope in r.scope_metrics for one in scope.metrics]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def backend():
    return Backend()


def asking(name, answer, **settings):
    return FunctionHook(name, {"before_tool": answer}, **settings)


async def test_a_chain_is_a_span_below_the_callers_and_each_hook_one_below_that(backend):
    hooks = [asking("a", lambda _: Modify({"arguments": {"n": 1}})), asking("b", lambda _: Deny("no"))]
    meta = Meta(agent_id="main", session_key="s1", turn_id="t1", parent_turn_id="t0")
    async with Host(hooks, listeners=[backend.listener()]) as host:
        with backend.tracer.start_as_current_span("turn"):
            await host.before_tool(ToolCall(tool="bash", tool_call_id="c1", meta=meta))
    spans = backend.spans()
    assert [*spans] == ["hook a", "hook b", "hooks before_tool", "turn"]
    chain = spans["hooks before_tool"]
    assert chain.parent.span_id == spans["turn"].context.span_id
    assert dict(chain.attributes) == {
        "picohook.stage": "before_tool",
        "picohook.action": "deny_tool",
        "picohook.hook.name": "b",
        "picohook.turn.id": "t1",
        "picohook.turn.parent_id": "t0",
        "gen_ai.conversation.id": "s1",
        "gen_ai.agent.id": "main",
        "gen_ai.tool.name": "bash",
        "gen_ai.tool.call.id": "c1",
    }
    for name, action in (("a", "modify"), ("b", "deny_tool")):
        hook = spans[f"hook {name}"]
        assert hook.parent.span_id == chain.context.span_id
        assert chain.start_time <= hook.start_time <= hook.end_time <= chain.end_time
        assert dict(hook.attributes) == {
            "picohook.hook.name": name,
            "picohook.stage": "before_tool",
            "picohook.action": action,
        }
    assert {span.status.status_code for span in spans.values()} == {StatusCode.UNSET}


@pytest.mark.parametrize(("answer", "approved"), [(lambda _: True, True), (lambda _: False, False)])
async def test_an_approval_says_whether_it_was_one(backend, answer, approved):
    async with Host([FunctionHook("a", {"approve_tool": answer})], listeners=[backend.listener()]) as host:
        await host.approve_tool(ToolCall(tool="bash"))
    assert backend.spans()["hooks approve_tool"].attributes["picohook.approved"] is approved


SECRET = "hunter2"


def fail(call):
    raise ValueError(SECRET)


async def test_a_hook_that_fails_has_the_kind_of_its_failure_and_no_text(backend):
    async with Host([asking("a", fail)], listeners=[backend.listener()]) as host:
        await host.before_tool(ToolCall(tool="bash", arguments={"password": SECRET}))
    hook, chain = backend.exported.get_finished_spans()
    assert (hook.status.status_code, hook.attributes["error.type"]) == (StatusCode.ERROR, "error")
    assert [(event.name, dict(event.attributes)) for event in hook.events] == [
        ("exception", {"exception.type": "error"})
    ]
    assert chain.status.status_code is StatusCode.UNSET
    assert SECRET not in hook.to_json() + chain.to_json()


async def test_an_edit_that_was_refused_is_an_event(backend):
    hook = FunctionHook("a", {"before_llm": lambda _: Modify({"system_prompt": "x"})}, may_edit=("tools",))
    async with Host([hook], listeners=[backend.listener()]) as host:
        await host.before_llm(LLMRequest(model="m"))
    span = backend.spans()["hook a"]
    assert [event.name for event in span.events] == ["picohook.edit_refused"]
    assert span.status.status_code is StatusCode.UNSET


async def test_a_span_of_an_abandoned_chain_says_so(backend):
    asked = anyio.Event()

    async def never(call):
        asked.set()
        await anyio.sleep_forever()

    async with (
        Host([asking("slow", never)], listeners=[backend.listener()]) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(host.before_tool, ToolCall(tool="bash"))
        await asked.wait()
        tasks.cancel_scope.cancel()
    (span,) = backend.exported.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] in {"CancelledError", "Cancelled"}
    assert "picohook.action" not in span.attributes


async def test_durations_and_failures_are_measured(backend):
    hooks = [asking("a", fail), asking("b", lambda _: Continue())]
    async with Host(hooks, listeners=[backend.listener()]) as host:
        for _ in range(3):
            await host.before_tool(ToolCall(tool="bash"))
    (failures,) = backend.points("picohook.hook.failures")
    assert failures.value == 3
    assert dict(failures.attributes) == {
        "picohook.hook.name": "a",
        "picohook.stage": "before_tool",
        "picohook.action": "continue",
        "error.type": "error",
    }
    durations = {point.attributes["picohook.hook.name"]: point for point in backend.points("picohook.hook.duration")}
    assert {name: point.count for name, point in durations.items()} == {"a": 3, "b": 3}
    assert durations["a"].attributes["error.type"] == "error"
    assert 0 < durations["b"].sum < 60
    assert durations["b"].explicit_bounds[0] < 0.001
    (chains,) = backend.points("picohook.chain.duration")
    assert (chains.count, dict(chains.attributes)) == (
        3,
        {"picohook.stage": "before_tool", "picohook.action": "continue"},
    )


async def test_proofs_of_life_are_counted_by_verdict_and_gate(backend):
    gate = asking("gate", lambda _: Continue(), canary=Canary(tool="bash"))
    async with Host([gate], listeners=[backend.listener()]) as host:
        await host.prove_life()
    (proofs,) = backend.points("picohook.proofs_of_life")
    assert (proofs.value, dict(proofs.attributes)) == (
        1,
        {"picohook.proof.verdict": "not_denied", "picohook.hook.name": "gate"},
    )
    assert backend.points("picohook.hook.duration") == []


ECHO = """
def before_tool(params):
    return {"action": "deny_tool", "reason": json.dumps(params["meta"])}
"""


def as_traceparent(span):
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


async def test_a_process_gets_the_span_of_its_chain_and_the_caller_gets_its_own_meta_back(backend):
    call = ToolCall(tool="bash", meta=Meta(turn_id="t1"))
    async with Host([hook_process(ECHO)], listeners=[backend.listener()]) as host:
        outcome = await host.before_tool(call)
    told = json.loads(outcome.reason)
    assert told["traceparent"] == as_traceparent(backend.spans()["hooks before_tool"])
    assert told["TurnID"] == "t1"
    assert outcome.payload is call


async def test_the_caller_gets_its_own_meta_even_after_a_change_or_answer_of_a_hook(backend):
    hooks = [
        FunctionHook("a", {"before_llm": lambda _: Modify({"model": "n"})}),
        FunctionHook("b", {"before_llm": lambda _: Respond({"content": "hi"})}),
    ]
    async with Host(hooks, listeners=[backend.listener()]) as host:
        outcome = await host.before_llm(LLMRequest(model="m", meta=Meta(turn_id="t1")))
    assert outcome.payload.model == "n"
    assert outcome.payload.meta == outcome.result.meta == Meta(turn_id="t1")


async def test_without_a_listener_the_wire_is_unchanged():
    async with Host([hook_process(ECHO)]) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"))
        assert "traceparent" not in json.loads(outcome.reason)
        outcome = await host.before_tool({"tool": "bash", "meta": {"traceparent": GIVEN}})
        assert json.loads(outcome.reason)["traceparent"] == GIVEN


async def test_a_trace_that_the_payload_names_is_joined_unless_the_caller_has_a_span(backend):
    call = ToolCall(tool="bash", meta=Meta(traceparent=GIVEN))
    async with Host([asking("a", lambda _: None)], listeners=[backend.listener()]) as host:
        await host.before_tool(call)
        with backend.tracer.start_as_current_span("turn") as turn:
            await host.before_tool(call)
    first, second = [span for span in backend.exported.get_finished_spans() if span.name == "hooks before_tool"]
    assert f"{first.parent.trace_id:032x}-{first.parent.span_id:016x}" == GIVEN[3:52]
    assert second.parent.span_id == turn.get_span_context().span_id


async def test_a_hook_in_this_process_finds_the_chains_span_current_and_the_caller_its_own(backend):
    seen = []

    async def look(call):
        seen.append(get_current_span().get_span_context().span_id)

    def look_in_a_thread(call):
        seen.append(get_current_span().get_span_context().span_id)

    async with Host([asking("a", look), asking("b", look_in_a_thread)], listeners=[backend.listener()]) as host:
        with backend.tracer.start_as_current_span("turn") as turn:
            await host.before_tool(ToolCall(tool="bash"))
            assert get_current_span() is turn
    chain = backend.spans()["hooks before_tool"].context.span_id
    assert seen == [chain, chain]


async def test_chains_at_the_same_time_keep_apart(backend):
    reached = [anyio.Event(), anyio.Event()]

    async def meet(call):
        reached[call.arguments["n"]].set()
        await reached[1 - call.arguments["n"]].wait()
        seen[call.arguments["n"]] = call.meta.traceparent

    seen = {}
    async with Host([asking("a", meet)], listeners=[backend.listener()]) as host, anyio.create_task_group() as tasks:
        for n in range(2):
            tasks.start_soon(host.before_tool, ToolCall(tool=f"tool-{n}", arguments={"n": n}))
    chains = [span for span in backend.exported.get_finished_spans() if span.name == "hooks before_tool"]
    assert {int(span.attributes["gen_ai.tool.name"][-1]): as_traceparent(span) for span in chains} == seen


async def test_hooks_see_that_a_span_is_not_sampled_and_metrics_still_count_it():
    backend = Backend(sampler=ALWAYS_OFF)
    async with Host([hook_process(ECHO)], listeners=[backend.listener()]) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"))
    assert not int(json.loads(outcome.reason)["traceparent"][-2:], 16) & TraceFlags.SAMPLED
    assert backend.spans() == {}
    assert backend.points("picohook.hook.duration")[0].count == 1


def test_the_blocking_host_is_below_the_span_of_its_caller(backend):
    host = Host.blocking([asking("a", lambda _: None)], listeners=[backend.listener()])
    with host, backend.tracer.start_as_current_span("turn"):
        host.before_tool(ToolCall(tool="bash"))
    spans = backend.spans()
    assert spans["hooks before_tool"].parent.span_id == spans["turn"].context.span_id


async def test_without_an_sdk_no_trace_is_passed_on():
    async with Host([hook_process(ECHO)], listeners=[OpenTelemetry()]) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"))
    assert "traceparent" not in json.loads(outcome.reason)


SDK_HOOK = """
from picohook.sdk import HookApp
app = HookApp("look")

@app.before_tool
def look(call):
    return call.deny(call.meta.traceparent or "none")

@app.on_event("turn_start")
def told(event):
    import sys
    print(event.meta.traceparent, file=sys.stderr)

app.run()
"""


@pytest.mark.parametrize("dialect", ["legacy", "runtime"])
async def test_the_sdk_and_events_of_both_dialects_carry_it(backend, tmp_path, output, dialect):
    (tmp_path / "look.py").write_text(SDK_HOOK)
    spec = HookSpec(
        name="look",
        command=(sys.executable, str(tmp_path / "look.py")),
        stages=("before_tool",),
        observe=("turn_start",),
        events=dialect,
    )
    async with Host([spec], listeners=[backend.listener()], logger=output) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"))
        host.emit("turn_start", meta=Meta(traceparent=GIVEN))
    assert outcome.reason == as_traceparent(backend.spans()["hooks before_tool"])
    assert output.stderr == [GIVEN]


def test_a_missing_api_is_an_error_that_says_how_to_install_it():
    code = "import sys; sys.modules['opentelemetry'] = None; import picohook; picohook.OpenTelemetry()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=60)
    assert f"OpenTelemetry needs its API: {sys.executable} -m pip install 'opentelemetry-api>=" in done.stderr


SET_UP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
import sys
exporter = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.name + "\\n")
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""


ASK = ("call", "before_tool", "--params", '{"tool": "a"}', "--config", "picohook.toml", "--otel")


@pytest.mark.parametrize(
    ("set_up", "said"),
    [
        (SET_UP, "hook a\nhooks before_tool\n"),
        (
            "",
            "WARNING: OpenTelemetry is not set up, so nothing is sent hint='opentelemetry-instrument sets it up'\n",
        ),
    ],
)
def test_the_command_line_traces_to_the_providers_around_it(tmp_path, set_up, said):
    (tmp_path / "sitecustomize.py").write_text(set_up)
    (tmp_path / "picohook.toml").write_text("[hooks.a]\npython = 'a:b'\nstages = ['before_tool']\n")
    (tmp_path / "a.py").write_text("def b(call):\n    return None\n")
    done = subprocess.run(
        [sys.executable, "-m", "picohook", *ASK],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
    )
    assert done.stderr == said
