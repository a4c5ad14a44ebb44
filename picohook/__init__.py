"""picohook: a host for the hooks of AI agents, and a supervisor for hook processes.

Each public name is imported when it is first used, so a program loads only the modules that it needs. Type checkers read
`__init__.pyi`, which `make stub` writes.
"""

from __future__ import annotations

from .wire.version import VERSION

__version__ = VERSION

_NAMES = {
    "blocking": "BlockingHost",
    "calls.abort": "AbortTurnError HardAbortError PausedError",
    "calls.caller": "Caller",
    "calls.model_call": "DecidedRequest",
    "calls.response_stream": "ResponseStream",
    "calls.rounds": "RetryLimitError",
    "calls.tool_call": "DecidedCall ToolRun",
    "config.document": "Config",
    "config.problems": "Problems",
    "config.table": "Consent Table",
    "engine.engine": "Engine EngineSettings",
    "engine.event_queue": "EventOf",
    "engine.listener": "Account Listener Operation RequiredListener",
    "engine.part": "Part",
    "engine.resumed": "Resumed",
    "engine.status": "HostStatus Reloaded",
    "engine.used_pauses": "UsedPauses UsedPausesFile",
    "errors": "ConfigError EncodeError HandshakeError HookCrashedError HookError HookRefusedError HookReplyError"
    " HookTimeoutError HookUnavailableError PicohookError Problem ProtocolError TrustError",
    "ext.audit.log": "AuditLog RequiredAuditLog",
    "ext.blade.hooks": "blade_hooks",
    "ext.jcli.dialect": "RegisteredHooks",
    "ext.nats.errors": "NatsError",
    "ext.nats.settings": "NatsSettings NatsSpec",
    "ext.otel.listener": "OpenTelemetry",
    "ext.prompt.hook": "PromptHook",
    "ext.prompt.model_prompt": "ModelPrompt",
    "ext.prompt.openai_chat": "openai_chat",
    "ext.prompt.spec": "PromptSpec",
    "ext.proof.prover": "ProofOfLife ProofStatus",
    "ext.record.recorder": "Recorder",
    "ext.rust_worker.worker": "worker_hooks",
    "ext.vendors.files.named_files": "foreign_hooks",
    "ext.vendors.tools": "ToolAlias",
    "extension": "Command Dialect Extension HookKey Keyword Lazy Option",
    "hooks.base": "Hook HookStatus HostServices Question StateChange",
    "hooks.command": "CommandHook decision_in",
    "hooks.function": "FunctionHook",
    "hooks.process": "ProcessHook",
    "hooks.python": "PythonHook",
    "host": "Host HostSettings",
    "model.conversation": "calls_of text_of",
    "model.decisions": "AbortTurn Approve Asked Continue Decision Deny HardAbort Modify Outcome Pause Respond Retry Skip",
    "model.encoded": "Encoded",
    "model.events": "Event",
    "model.payloads": "Compaction Finish LLMRequest LLMResponse Meta Payload Prompt ToolCall ToolResult ToolReturn",
    "model.proof": "Proof Verdict",
    "model.spec": "Canary HookSpec OnFailure Parts RespondRule RestartPolicy Timeouts",
    "model.stages": "Stage",
    "model.trail": "Notes OutcomeAction StageTrail TrailEntry",
    "observe.log": "Log Logger",
    "protocol.raw_line": "RawLine",
    "reload.watch": "watch",
    "sessions.base_session": "SessionView",
    "sessions.delivery": "Delivery",
    "sessions.paused": "PausedTurn",
    "sessions.session": "Session",
    "sessions.turn": "Turn TurnResult",
}
"""The public names, by the module that each is in."""

_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the table above has them


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # a hook on `picohook.sdk` never needs it

    value: object = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
