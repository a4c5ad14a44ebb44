"""Spans of turns, model calls and tool calls, as an exporter of OpenTelemetry's own SDK gets them."""

from __future__ import annotations

import anyio
import pytest
from loops import ON_BOTH
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from picohook import (
    AbortTurn,
    AbortTurnError,
    Continue,
    Deny,
    FunctionHook,
    Host,
    LLMRequest,
    Modify,
    OpenTelemetry,
    Pause,
    PausedError,
    PausedTurn,
    Retry,
    ToolCall,
)
from picohook.testing import hook_process

pytestmark = pytest.mark.anyio


class Backend:
    """An SDK of a test's own, and the spans that it was sent."""

    def __init__(self):
        self._exported = InMemorySpanExporter()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self._exported))
        self.tracer = self.traces.get_tracer("the agent")

    def listener(self, **settings):
        return OpenTelemetry(tracer_provider=self.traces, **settings)

    @property
    def spans(self):
        return self._exported.get_finished_spans()

    def named(self, name):
        (span,) = [span for span in self.spans if span.name == name]
        return span

    @property
    def tree(self):
        """The spans as nested lists: a name, then its children in the order of their starts."""
        known = {span.context.span_id for span in self.spans}

        def below(parent):
            children = [span for span in self.spans if (span.parent.span_id if is_inside(span) else None) == parent]
            return [
                [span.name, *below(span.context.span_id)] for span in sorted(children, key=lambda one: one.start_time)
            ]

        def is_inside(span):
            return span.parent is not None and span.parent.span_id in known

        return below(None)


@pytest.fixture
def backend():
    return Backend()


CALLS = {"tool_calls": [{"id": f"c{n}", "function": {"name": name, "arguments": "{}"}} for n, name in enumerate("ab")]}


def model(*answers):
    left = iter(answers)

    async def complete(_):
        return next(left)

    return complete


def hook(**answers):
    return FunctionHook("g", {stage: lambda _, answer=answer: answer for stage, answer in answers.items()})


def asking(stage):
    return [f"hooks {stage}", ["hook g"]]


async def test_a_turn_is_one_trace_and_each_question_is_below_the_call_that_it_is_about(backend):
    async def execute(call):
        with backend.tracer.start_as_current_span(f"work of {call.tool}"):
            return "done"

    guard = hook(before_prompt=None, before_llm=None, before_tool=None, after_tool=None, before_finish=None)
    async with Host([guard], listeners=[backend.listener()]) as host, host.session("s", agent_id="main") as session:
        with backend.tracer.start_as_current_span("request"):
            async with session.turn("hello") as turn:
                await turn.run(complete=model(CALLS, {"content": "hi"}), execute=execute, model="m")
    tool = {
        name: [f"execute_tool {name}", asking("before_tool"), [f"work of {name}"], asking("after_tool")]
        for name in "ab"
    }
    chat = ["chat m", asking("before_llm")]
    for one in tool.values():  # no approver stands there, and the chain is asked all the same
        one.insert(2, ["hooks approve_tool"])
    chat.append(["hooks after_llm"])
    ((root, agent),) = backend.tree
    assert root == "request"
    assert agent == [
        "invoke_agent main", asking("before_prompt"), chat, tool["a"], tool["b"], chat, asking("before_finish"),
    ]  # fmt: skip


async def test_its_spans_have_the_attributes_of_the_conventions(backend):
    answer = {"content": "hi", "finish_reason": "stop", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    options = {"temperature": 0.5, "max_tokens": 9, "stop": "x"}
    guard = hook(before_llm=Modify({"model": "n"}), before_tool=Continue())
    async with (
        Host([guard], listeners=[backend.listener(provider="openai")]) as host,
        host.session("s", agent_id="main") as session,
        session.turn("hello", turn_id="t") as turn,
    ):
        await turn.llm(LLMRequest(model="m", options=options), model(answer))
        await turn.tools([ToolCall(tool="bash", tool_call_id="c")], lambda _: "secret")
    here = {"gen_ai.conversation.id": "s", "gen_ai.agent.id": "main", "picohook.turn.id": "t"}
    agent, chat, tool = (backend.named(name) for name in ("invoke_agent main", "chat n", "execute_tool bash"))
    assert dict(agent.attributes) == here | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "main",
        "gen_ai.provider.name": "openai",
    }
    assert dict(chat.attributes) == here | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "n",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
        "picohook.action": "continue",
    }
    assert dict(tool.attributes) == here | {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "bash",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c",
    }
    assert [span.kind for span in (agent, chat, tool)] == [SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL]


@pytest.mark.parametrize(
    ("answer", "work", "action", "error"),
    [
        (Deny("no"), lambda _: "", "deny_tool", None),
        (None, lambda _: 1 / 0, None, "tool_error"),
        (AbortTurn("stop"), lambda _: "", "abort_turn", "AbortTurnError"),
    ],
)
async def test_a_tool_that_is_denied_or_fails_says_so(backend, answer, work, action, error):
    async with Host([hook(before_tool=answer)], listeners=[backend.listener()]) as host:
        for run in (host.run_tool, in_a_batch(host)):
            if action == "abort_turn":
                with pytest.raises(AbortTurnError):
                    await run(ToolCall(tool="x"), work)
            else:
                await run(ToolCall(tool="x"), work)
    spans = [span for span in backend.spans if span.name == "execute_tool x"]
    assert len(spans) == 2
    for span in spans:
        assert (span.attributes.get("picohook.action"), span.attributes.get("error.type")) == (action, error)
        assert (span.status.status_code is StatusCode.ERROR) == bool(error)


def in_a_batch(host):
    async def run(call, work):
        async with host.session("s") as session, session.turn() as turn:
            await turn.tools([call], work)

    return run


async def test_another_round_is_another_model_call(backend):
    answers = [Retry(feedback="again"), None]
    guard = FunctionHook("g", {"after_llm": lambda _: answers.pop(0)})
    async with Host([guard], listeners=[backend.listener()]) as host:
        await host.run_llm(LLMRequest(model="m"), model({"content": "a"}, {"content": "b"}))
    chat = ["chat m", ["hooks before_llm"], asking("after_llm")]
    assert backend.tree == [chat, chat]


async def test_a_sub_turn_in_a_tool_is_below_its_call(backend):
    async with Host([], listeners=[backend.listener()]) as host, host.session("s") as session:

        async def execute(_):
            async with session.turn(parent=turn, agent_id="helper") as inner:
                await inner.prompt("help")
            return ""

        async with session.turn() as turn:
            await turn.tools([ToolCall(tool="ask")], execute)
    ((agent, call),) = backend.tree
    assert (agent, call[0]) == ("invoke_agent", "execute_tool ask")
    assert ["invoke_agent helper", ["hooks before_prompt"]] in call


async def test_a_resumed_turn_joins_the_trace_of_the_paused_one(backend):
    guard = hook(before_tool=Pause("wait"))
    async with Host([guard], listeners=[backend.listener()]) as host, host.session("s") as session:
        with pytest.raises(PausedError) as paused:
            async with session.turn() as turn:
                await turn.tools([ToolCall(tool="x")], lambda _: "")
    kept = PausedTurn.from_json(paused.value.paused.to_json())
    async with (
        Host([guard], listeners=[backend.listener()]) as host,
        host.session("s") as session,
        session.resume(kept, Continue()) as turn,
    ):
        await turn.tools(None, lambda _: "")
    assert len({span.context.trace_id for span in backend.spans}) == 1
    first, second = (span for span in backend.spans if span.name == "execute_tool x")
    assert (first.attributes["picohook.action"], first.status.status_code) == ("pause", StatusCode.UNSET)
    assert "picohook.action" not in second.attributes


async def test_events_of_a_turn_name_its_span(backend):
    told = []
    observer = FunctionHook("o", on_event=told.append)
    async with Host([observer], listeners=[backend.listener()]) as host, host.session("s") as session, session.turn():
        pass
    agent = backend.named("invoke_agent")
    of_turn = {event.kind: event.meta.traceparent for event in told if event.kind.startswith("turn_")}
    assert of_turn.keys() == {"turn_start", "turn_end"}
    assert {text[36:52] for text in of_turn.values()} == {f"{agent.context.span_id:016x}"}


# Where others make these spans.


async def test_a_call_inside_the_span_of_another_library_has_none_of_its_own(backend):
    async with Host([hook(before_tool=None)], listeners=[backend.listener()]) as host:
        about = {"gen_ai.operation.name": "execute_tool"}
        with backend.tracer.start_as_current_span("execute_tool x", attributes=about):
            await host.run_tool(ToolCall(tool="x"), lambda _: "")
            async with host.session("s") as session, session.turn() as turn:
                await turn.prompt("hello")
    ((call, *below),) = backend.tree
    assert call == "execute_tool x"
    assert below[0] == asking("before_tool")
    assert below[-1] == ["invoke_agent", ["hooks before_prompt"]]  # an agent in its tool


async def test_these_spans_can_be_switched_off(backend):
    async with Host([hook(before_tool=None)], listeners=[backend.listener(operations=False)]) as host:
        await host.run_tool(ToolCall(tool="x"), lambda _: "")
    assert backend.tree == [asking("before_tool"), ["hooks approve_tool"], ["hooks after_tool"]]


@ON_BOTH
async def test_a_call_that_is_cancelled_ends_its_span(backend):
    async with Host([], listeners=[backend.listener()]) as host, anyio.create_task_group() as tasks:

        async def never(_):
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()

        tasks.start_soon(host.run_tool, ToolCall(tool="x"), never)
    assert backend.named("execute_tool x").attributes["error.type"] in {"CancelledError", "Cancelled"}


# Guardrails.


def fail(_):
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("answer", "settings", "verdict", "action"),
    [
        (lambda _: None, {}, "allow", "allow"),
        (lambda _: Deny("no"), {}, "deny", "block"),
        (lambda _: Modify({"arguments": {}}), {}, "modify", "modify"),
        (lambda _: Pause(), {}, "escalate", "escalate"),
        (fail, {}, None, "allow"),
        (fail, {"on_failure": "deny"}, None, "block"),
    ],
)
async def test_a_guardrails_verdict_and_what_is_enforced_are_apart(backend, answer, settings, verdict, action):
    guard = FunctionHook("g", {"before_tool": answer}, **settings)
    async with Host([guard], listeners=[backend.listener(guardrails=True)]) as host:
        await host.before_tool(ToolCall(tool="x", tool_call_id="c", arguments={"a": 1}))
    span = backend.named("run_guardrail g")
    about = {name: value for name, value in span.attributes.items() if name.startswith("gen_ai")}
    assert about.pop("gen_ai.guardrail.verdict.type", None) == verdict
    assert about == {
        "gen_ai.operation.name": "run_guardrail",
        "gen_ai.guardrail.component.name": "g",
        "gen_ai.guardrail.target.type": "input",
        "gen_ai.guardrail.target.subtype": "tool_call",
        "gen_ai.guardrail.target.id": "c",
        "gen_ai.guardrail.action.type": action,
    }
    assert span.kind is SpanKind.INTERNAL
    assert span.parent.span_id == backend.named("hooks before_tool").context.span_id


async def test_an_edit_that_a_guardrail_may_not_make_is_a_verdict_that_is_not_enforced(backend):
    guard = FunctionHook("g", {"before_llm": lambda _: Modify({"system_prompt": "x"})}, may_edit=("tools",))
    async with Host([guard], listeners=[backend.listener(guardrails=True)]) as host:
        await host.before_llm(LLMRequest(model="m"))
    span = backend.named("run_guardrail g")
    assert span.attributes["gen_ai.guardrail.verdict.type"] == "modify"
    assert span.attributes["gen_ai.guardrail.action.type"] == "allow"


async def test_a_guardrail_in_another_process_is_a_client_and_its_reason_stays_out(backend):
    spec = hook_process('def after_tool(params):\n    return {"action": "abort_turn", "reason": "a secret"}\n')
    async with Host([spec], listeners=[backend.listener(guardrails=True)]) as host:
        with pytest.raises(AbortTurnError):
            await host.run_tool(ToolCall(tool="x"), lambda _: "")
    (span,) = [span for span in backend.spans if span.name.startswith("run_guardrail")]
    assert (span.kind, span.attributes["gen_ai.guardrail.target.type"]) == (SpanKind.CLIENT, "output")
    assert "a secret" not in span.to_json()
