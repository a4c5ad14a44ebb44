"""Traces and metrics of chains and hooks, through OpenTelemetry's API. The program sets up their destination.

Each chain is a span below the caller's span, and each hook that was asked is a span below the chain's. While hooks are asked,
the chain's span is the current one, and its `traceparent` is in their meta, so that their own spans join the trace. Traces and
metrics have no payloads.

Needs `pip install 'picohook[otel]'`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import PicohookError
from ..model.payloads import Payload, ToolCall
from ..wire import words
from ..wire.text import cut, escape
from ..wire.version import VERSION
from .listener import Account, Listener

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from ..hooks.base import Hook
    from ..model.decisions import Asked, Outcome
    from ..model.encoded import Encoded
    from ..model.stages import Stage

P = TypeVar("P", bound=Payload)

STAGE = "picohook.stage"
ACTION = "picohook.action"
APPROVED = "picohook.approved"
HOOK = "picohook.hook.name"
RETRIES = "picohook.hook.retries"
REASON = "picohook.reason"
TURN = "picohook.turn.id"
PARENT_TURN = "picohook.turn.parent_id"
SESSION = "gen_ai.conversation.id"
AGENT = "gen_ai.agent.id"
TOOL = "gen_ai.tool.name"
CALL = "gen_ai.tool.call.id"
ERROR = "error.type"

MOST = 128
"""The most bytes of an id or a name in an attribute. A model may have written it."""
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The upper bounds of the histograms' buckets, unless the program's views set others."""


class OpenTelemetry(Listener):
    """Records spans and metrics with the global providers, unless others are given.

    `texts` adds the reasons and errors of hooks to the spans; they may quote payloads. Raises `PicohookError` if OpenTelemetry
    is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        texts: bool = False,
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace  # noqa: PLC0415 - an extra
            from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415
        except ImportError:
            raise PicohookError("OpenTelemetry needs its API: pip install 'picohook[otel]'") from None
        self.texts = texts
        self.context = context
        self.trace = trace
        # Not the global propagator, which may have another format: the field has W3C's.
        self.propagator = tracecontext.TraceContextTextMapPropagator()
        self.tracer = trace.get_tracer("picohook", VERSION, tracer_provider)
        meter = metrics.get_meter("picohook", VERSION, meter_provider)
        self.chain_duration = meter.create_histogram(
            "picohook.chain.duration",
            "s",
            "How long all hooks of a stage took together.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self.hook_duration = meter.create_histogram(
            "picohook.hook.duration",
            "s",
            "How long a hook took, with its retries.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self.hook_failures = meter.create_counter(
            "picohook.hook.failures", "{failure}", "Failures of hooks, by their kind."
        )

    @property
    def is_set_up(self) -> bool:
        """Whether the program has set a global tracer provider."""
        return not isinstance(self.trace.get_tracer_provider(), self.trace.ProxyTracerProvider)

    def begin(self, stage: Stage[P], payload: P) -> Account[P]:
        return Traced(self, stage, payload)

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


class Traced(Account[P]):
    """One chain, as a span."""

    def __init__(self, telemetry: OpenTelemetry, stage: Stage[P], payload: P) -> None:
        super().__init__(stage, payload)
        self._telemetry = telemetry
        self._began = time.perf_counter()
        self._span = telemetry.tracer.start_span(
            f"hooks {stage.name}", telemetry.parent(payload.meta.traceparent), attributes=_about(stage, payload)
        )
        self._context = telemetry.trace.set_span_in_context(self._span)
        traceparent = telemetry.traceparent(self._context)
        if traceparent:
            meta = payload.meta.model_copy(update={"traceparent": traceparent})
            self.payload = payload.model_copy(update={"meta": meta})
        # Last, so that an earlier failure leaves nothing attached. It is detached in the same task: a chain is one call.
        self._token = telemetry.context.attach(self._context)

    def asked(self, hook: Hook, encoded: Encoded[P], asked: Asked[P]) -> None:
        del encoded
        telemetry, entry = self._telemetry, asked.entry
        attributes: dict[str, Any] = {HOOK: hook.name, STAGE: self.stage.name, ACTION: entry.action}
        if entry.failure:
            attributes[ERROR] = entry.failure
            telemetry.hook_failures.add(1, attributes, self._context)
        telemetry.hook_duration.record(entry.duration, attributes, self._context)
        if not self._span.is_recording():
            return
        ended = time.time_ns()
        span = telemetry.tracer.start_span(
            f"hook {hook.name}",
            self._context,
            attributes=attributes | ({RETRIES: entry.retries} if entry.retries else {}),
            start_time=ended - int(entry.duration * 1e9),
        )
        if telemetry.texts and entry.reason:
            span.set_attribute(REASON, _shown(entry.reason))
        if entry.failure:
            self._failed(span, entry.failure, entry.error or "")
        elif entry.error:
            span.add_event("picohook.edit_refused", {"message": entry.error} if telemetry.texts else None)
        span.end(ended)

    def concluded(self, outcome: Outcome[P]) -> None:
        span = self._span
        span.set_attribute(ACTION, outcome.action)
        if outcome.approved is not None:
            span.set_attribute(APPROVED, outcome.approved)
        if outcome.hook:
            span.set_attribute(HOOK, outcome.hook)
        if self._telemetry.texts and outcome.reason:
            span.set_attribute(REASON, _shown(outcome.reason))
        self._end({ACTION: outcome.action})

    def abandoned(self, error: BaseException) -> None:
        kind = type(error).__qualname__
        self._failed(self._span, kind, _shown(str(error)))
        self._span.set_attribute(ERROR, kind)
        self._end({ERROR: kind})

    def _failed(self, span: Span, kind: str, text: str) -> None:
        texts = self._telemetry.texts
        span.set_status(self._telemetry.trace.StatusCode.ERROR, text if texts else kind)
        span.add_event("exception", {"exception.type": kind, **({"exception.message": text} if texts else {})})

    def _end(self, attributes: dict[str, Any]) -> None:
        telemetry = self._telemetry
        telemetry.context.detach(self._token)
        took = time.perf_counter() - self._began
        telemetry.chain_duration.record(took, {STAGE: self.stage.name, **attributes}, self._context)
        self._span.end()


def _about(stage: Stage[Any], payload: Payload) -> dict[str, str]:
    meta = payload.meta
    given = {
        STAGE: stage.name,
        SESSION: meta.session_key,
        AGENT: meta.agent_id,
        TURN: meta.turn_id,
        PARENT_TURN: meta.parent_turn_id,
    }
    if isinstance(payload, ToolCall):
        given |= {TOOL: payload.tool, CALL: payload.tool_call_id or ""}
    return {name: _shown(value, MOST) for name, value in given.items() if value}


def _shown(text: str, most: int = words.MAX_REASON) -> str:
    """A text, escaped for every exporter and cut to a limit."""
    return escape(cut(text, most))
