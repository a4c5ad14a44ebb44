"""Traces and metrics of turns, calls, chains and hooks, through OpenTelemetry's API. The program sets up their destination.

A turn, a model call and a tool call are spans by the conventions for generative AI, unless the program's framework makes these.
Each chain is a span below the caller's span, and each hook that was asked is a span below the chain's. While hooks are asked,
the chain's span is the current one, and its `traceparent` is in their meta, so that their own spans join the trace. Traces and
metrics have no payloads.

Needs the extra `otel`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...engine.listener import Account, Listener, Operation
from ...engine.part import Part
from ...errors import PicohookError
from ...model.payloads import LLMRequest, LLMResponse, Payload, ToolCall, ToolReturn
from ...wire import words
from ...wire.extras import needs
from ...wire.text import cut, escape
from ...wire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from ...engine.listener import OperationKind
    from ...hooks.base import Hook
    from ...host import Host
    from ...model.decisions import Asked, Outcome
    from ...model.encoded import Encoded
    from ...model.proof import Proof
    from ...model.stages import Stage

P = TypeVar("P", bound=Payload)

STAGE, ACTION, HOOK = "picohook.stage", "picohook.action", "picohook.hook.name"
OPERATION, ERROR = "gen_ai.operation.name", "error.type"
SESSION, TOOL, MODEL, AGENT_NAME = (
    "gen_ai.conversation.id",
    "gen_ai.tool.name",
    "gen_ai.request.model",
    "gen_ai.agent.name",
)

OPERATIONS = {"turn": "invoke_agent", "model_call": "chat", "tool_call": "execute_tool"}
"""The operations of the conventions."""
_COVERED = {
    "invoke_agent": {"invoke_workflow", "invoke_agent"},
    "chat": {"invoke_workflow", "invoke_agent", "chat", "generate_content", "text_completion"},
    "execute_tool": {"invoke_workflow", "invoke_agent", "execute_tool"},
}
"""The operations of another library's span inside which that library makes the span of an operation itself."""
_NAMED = frozenset.union(*map(frozenset, _COVERED.values()))
"""The operations that are known by a span's name, too. Some libraries set the attribute at the end of the span."""
_OPTIONS = ("max_tokens", "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed")
"""The options of a request that have an attribute, `gen_ai.request.NAME`."""
_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
}
_HERE = "picohook.operations"
"""The key of a context's operations, from the outermost to the current one."""

LONGEST_ATTRIBUTE = 128
"""The most bytes of an id or a name in an attribute. A model may have written it."""
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The upper bounds of the histograms' buckets, unless the program's views set others."""


class OpenTelemetry(Listener):
    """Records spans and metrics with the global providers, unless others are given.

    With `operations`, turns, model calls and tool calls are spans, too. `provider` is the `gen_ai.provider.name` of agents and
    models. With `guardrails`, the span of a hook is a `run_guardrail` span of the conventions' draft. Raises `PicohookError` if
    OpenTelemetry is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        operations: bool = True,
        provider: str = "",
        guardrails: bool = False,
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace  # an extra
            from opentelemetry.trace.propagation import tracecontext
        except ImportError:
            raise PicohookError(needs("OpenTelemetry", "its API", "otel")) from None
        self.operations = operations
        self.provider = provider
        self.guardrails = guardrails
        self.context = context
        self.trace = trace
        # Not the global propagator, which may have another format: the field has W3C's.
        self.propagator = tracecontext.TraceContextTextMapPropagator()
        self.tracer = trace.get_tracer("picohook", VERSION, tracer_provider)
        meter = metrics.get_meter("picohook", VERSION, meter_provider)
        histogram = partial(meter.create_histogram, unit="s", explicit_bucket_boundaries_advisory=SECONDS)
        about = "How long all hooks of a stage took together."
        self.chain_duration = histogram("picohook.chain.duration", description=about)
        about = "How long a hook took, with its retries."
        self.hook_duration = histogram("picohook.hook.duration", description=about)
        about = "Failures of hooks, by their kind."
        self.hook_failures = meter.create_counter("picohook.hook.failures", "{failure}", about)
        about = "Harmful calls of proofs of life, by what became of them."
        self.proofs = meter.create_counter("picohook.proofs_of_life", "{call}", about)

    @property
    def is_set_up(self) -> bool:
        """Whether the program has set a global tracer provider."""
        return not isinstance(self.trace.get_tracer_provider(), self.trace.ProxyTracerProvider)

    def begin(self, stage: Stage[P], payload: P) -> Account[P]:
        return Traced(self, stage, payload)

    def proved(self, proof: Proof) -> None:
        self.proofs.add(1, {"picohook.proof.verdict": proof.verdict, **({HOOK: proof.gate} if proof.gate else {})})

    def operation(self, kind: OperationKind, payload: Payload) -> Operation | None:
        name = OPERATIONS[kind]
        if not self.operations or self.operation_elsewhere(self.trace.get_current_span()) in _COVERED[name]:
            return None
        return TracedOperation(self, name, payload)

    def operation_elsewhere(self, span: Any) -> str:
        """The operation of a span, if another library made it; otherwise empty."""
        attributes = getattr(span, "attributes", None) or {}  # only a recording span of the SDK has them
        scope = getattr(span, "instrumentation_scope", None)
        if scope is None or scope.name == "picohook":
            return ""
        named = str(getattr(span, "name", "")).partition(" ")[0]
        return str(attributes.get(OPERATION) or (named if named in _NAMED else ""))

    def parent(self, traceparent: str) -> Context | None:
        """The parent context of a chain's span: the one in the payload's traceparent, or None for the caller's current span."""
        if not traceparent or self.trace.get_current_span().get_span_context().is_valid:
            return None
        return self.propagator.extract({"traceparent": traceparent})

    def traceparent(self, context: Context) -> str:
        """The traceparent of the span in a context; empty without a valid span."""
        carrier: dict[str, str] = {}
        self.propagator.inject(carrier, context)
        return carrier.get("traceparent", "")


class TracedOperation(Operation):
    """A turn, a model call or a tool call, as a span."""

    def __init__(self, telemetry: OpenTelemetry, name: str, payload: Payload) -> None:
        self._telemetry = telemetry
        self._name = name
        self._below = telemetry.trace.get_current_span()
        self._subject = ""
        about = _of_operation(name, payload)
        if telemetry.provider and name != "execute_tool":
            about["gen_ai.provider.name"] = telemetry.provider
        self._span = telemetry.tracer.start_span(
            name,
            telemetry.parent(payload.meta.traceparent),
            # A model call goes to another program, as far as is known here.
            kind=telemetry.trace.SpanKind.CLIENT if name == "chat" else telemetry.trace.SpanKind.INTERNAL,
            attributes=about,
        )
        self._name_after(about)
        if name == "invoke_agent":
            self.traceparent = telemetry.traceparent(telemetry.trace.set_span_in_context(self._span))

    @contextmanager
    def current(self) -> Iterator[None]:
        telemetry = self._telemetry
        here = telemetry.trace.get_current_span()
        around: tuple[Operation, ...] = telemetry.context.get_value(_HERE) or ()
        if self in around or (here is not self._below and telemetry.operation_elsewhere(here)):
            yield  # this block is below the span already, or below one of another library, which is inside of it
            return
        context = telemetry.context.set_value(_HERE, (*around, self), telemetry.trace.set_span_in_context(self._span))
        token = telemetry.context.attach(context)
        try:
            yield
        finally:
            telemetry.context.detach(token)

    def ended(self, action: str = "", error: str = "", payload: Payload | None = None) -> None:
        span = self._span
        if isinstance(payload, ToolReturn) and payload.result.is_error:
            error = error or "tool_error"
        if payload is not None:
            known = _of_operation(self._name, payload)
            span.set_attributes(known)
            self._name_after(known)
        if action:
            span.set_attribute(ACTION, action)
        if error:
            span.set_attribute(ERROR, error)
            span.set_status(self._telemetry.trace.StatusCode.ERROR, error)
        span.end()

    def _name_after(self, attributes: dict[str, Any]) -> None:
        """Name the span after its agent, model or tool, which hooks may have changed."""
        subject = next((attributes[key] for key in (TOOL, MODEL, AGENT_NAME) if key in attributes), "")
        if subject and subject != self._subject:
            self._subject = subject
            self._span.update_name(f"{self._name} {subject}")


class Traced(Account[P]):
    """One chain, as a span."""

    def __init__(self, telemetry: OpenTelemetry, stage: Stage[P], payload: P) -> None:
        super().__init__(stage, payload)
        self._telemetry = telemetry
        self._began = time.perf_counter()
        self._span = telemetry.tracer.start_span(
            f"hooks {stage.name}",
            telemetry.parent(payload.meta.traceparent),
            attributes={STAGE: stage.name, **_about(payload)},
        )
        self._context = telemetry.trace.set_span_in_context(self._span)
        traceparent = telemetry.traceparent(self._context)
        if traceparent:
            meta = payload.meta.model_copy(update={"traceparent": traceparent})
            self.payload = payload.model_copy(update={"meta": meta})
        # Last, so that an earlier failure leaves nothing attached. It is detached in the same task: a chain is one call.
        self._token = telemetry.context.attach(self._context)

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        telemetry, entry = self._telemetry, asked.entry
        attributes: dict[str, Any] = {HOOK: hook.name, STAGE: self.stage.name, ACTION: entry.action}
        if entry.failure:
            attributes[ERROR] = entry.failure
            telemetry.hook_failures.add(1, attributes, self._context)
        telemetry.hook_duration.record(entry.duration, attributes, self._context)
        if not self._span.is_recording():
            return
        name, kind = f"hook {hook.name}", telemetry.trace.SpanKind.INTERNAL
        if telemetry.guardrails:
            name = f"run_guardrail {hook.name}"
            kind = kind if hook.in_process else telemetry.trace.SpanKind.CLIENT
            attributes |= _of_guardrail(self.stage, encoded, asked)
        ended = time.time_ns()
        span = telemetry.tracer.start_span(
            name,
            self._context,
            kind=kind,
            attributes=attributes | ({"picohook.hook.retries": entry.retries} if entry.retries else {}),
            start_time=ended - int(entry.duration * 1e9),
        )
        if entry.failure:
            self._failed(span, entry.failure)
        elif entry.error:
            span.add_event("picohook.edit_refused")
        span.end(ended)

    def concluded(self, outcome: Outcome[P]) -> None:
        about = {"picohook.approved": outcome.approved, HOOK: outcome.hook}
        known = {name: value for name, value in about.items() if value not in (None, "")}
        self._span.set_attributes({ACTION: outcome.action, **known})
        self._end({ACTION: outcome.action})

    def abandoned(self, error: BaseException) -> None:
        kind = type(error).__qualname__
        self._failed(self._span, kind)
        self._span.set_attribute(ERROR, kind)
        self._end({ERROR: kind})

    def _failed(self, span: Span, kind: str) -> None:
        span.set_status(self._telemetry.trace.StatusCode.ERROR, kind)
        span.add_event("exception", {"exception.type": kind})

    def _end(self, attributes: dict[str, Any]) -> None:
        telemetry = self._telemetry
        telemetry.context.detach(self._token)
        took = time.perf_counter() - self._began
        telemetry.chain_duration.record(took, {STAGE: self.stage.name, **attributes}, self._context)
        self._span.end()


def _of_operation(name: str, payload: Payload) -> dict[str, Any]:
    """The attributes of an operation that are known from this payload."""
    about: dict[str, Any] = {OPERATION: name, **_about(payload)}
    if name == "invoke_agent":
        about[AGENT_NAME] = _short(payload.meta.agent_id)
    elif isinstance(payload, ToolCall):
        about["gen_ai.tool.type"] = "function"
    elif isinstance(payload, LLMRequest):
        about[MODEL] = _short(payload.model)
        about |= {f"gen_ai.request.{option}": _number(payload.options.get(option)) for option in _OPTIONS}
    elif isinstance(payload, LLMResponse):
        usage, reason = payload.response.get("usage"), payload.response.get("finish_reason")
        about[MODEL] = _short(payload.model)
        about["gen_ai.response.finish_reasons"] = [_short(reason)] if isinstance(reason, str) else None
        if isinstance(usage, dict):
            about |= {attribute: _number(usage[key]) for key, attribute in _USAGE.items() if key in usage}
    return {key: value for key, value in about.items() if value not in (None, "")}


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


_VERDICTS = {
    words.CONTINUE: ("allow", "allow"),
    words.MODIFY: ("modify", "modify"),
    words.PAUSE: ("escalate", "escalate"),
}
"""The verdict and the enforced action of the draft for an action. All other actions deny, and block the call or the turn."""
_OUTPUTS = frozenset({"after_llm", "after_tool", "before_finish", "after_compact"})
"""The stages about the output of the model or of a tool."""


def _of_guardrail(stage: Stage[Any], encoded: Encoded[Any], asked: Asked[Any]) -> dict[str, str]:
    """The attributes of a `run_guardrail` span. A hook that failed has no verdict, and its `on_failure` is enforced."""
    entry, call = asked.entry, encoded.payload if isinstance(encoded.payload, ToolCall) else None
    verdict, action = _VERDICTS.get(entry.action, ("deny", "block"))
    if entry.failure:
        verdict = ""
    elif entry.error is not None and asked.encoded is encoded:
        verdict, action = "modify", "allow"  # the edit was refused
    about = {
        "component.name": entry.hook,
        "target.type": "output" if stage.name in _OUTPUTS else "input",
        "target.subtype": "llm" if call is None else "tool_call",
        "target.id": _short(call.tool_call_id or "") if call else "",
        "verdict.type": verdict,
        "action.type": action,
    }
    named = {f"gen_ai.guardrail.{name}": value for name, value in about.items() if value}
    session = _short(encoded.payload.meta.session_key)
    return {OPERATION: "run_guardrail", **named, **({SESSION: session} if session else {})}


def _about(payload: Payload) -> dict[str, str]:
    """The place of a payload in the agent's run, and its tool."""
    meta = payload.meta
    attributes = {
        SESSION: meta.session_key,
        "gen_ai.agent.id": meta.agent_id,
        "picohook.turn.id": meta.turn_id,
        "picohook.turn.parent_id": meta.parent_turn_id,
    }
    if isinstance(payload, ToolCall):
        attributes |= {TOOL: payload.tool, "gen_ai.tool.call.id": payload.tool_call_id or ""}
    return {name: _short(value) for name, value in attributes.items() if value}


def _short(text: str) -> str:
    """A text, escaped for every exporter and cut to a limit."""
    return escape(cut(text, LONGEST_ATTRIBUTE))


class OtelPart(Part):
    """Traces and measures a host. Warns if nothing would be sent."""

    def __init__(self, _: object) -> None:
        self._listener = OpenTelemetry()
        self.listeners = [self._listener]

    async def open(self, host: Host) -> None:
        if not self._listener.is_set_up:
            host.log.warning(
                "OpenTelemetry is not set up, so nothing is sent", hint="opentelemetry-instrument sets it up"
            )
