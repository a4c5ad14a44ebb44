"""picohook: a host for the hooks of AI agents, and a supervisor for hook processes.

Each public name is imported when it is first used, so a program loads only the modules that it needs.
"""

from __future__ import annotations

from .wire.version import VERSION

TYPE_CHECKING = False  # type checkers know better; at run time it spares hooks the import of typing
if TYPE_CHECKING:
    from typing import Any


__version__ = VERSION

_HOME = {
    "AbortTurn": "model.decisions",
    "AbortTurnError": "calls.abort",
    "Account": "engine.listener",
    "Approve": "model.decisions",
    "Asked": "model.decisions",
    "AuditLog": "ext.audit.log",
    "BlockingHost": "blocking",
    "Canary": "model.spec",
    "Caller": "calls.caller",
    "Command": "extension",
    "CommandHook": "hooks.command.command",
    "Compaction": "model.payloads",
    "Config": "config.document",
    "ConfigError": "errors",
    "Consent": "config.table",
    "Continue": "model.decisions",
    "DecidedCall": "calls.tool_call",
    "DecidedRequest": "calls.model_call",
    "Decision": "model.decisions",
    "Delivery": "sessions.delivery",
    "Deny": "model.decisions",
    "Dialect": "extension",
    "EncodeError": "errors",
    "Encoded": "model.encoded",
    "Engine": "engine.engine",
    "EngineSettings": "engine.settings",
    "Event": "model.events",
    "EventOf": "engine.settings",
    "Extension": "extension",
    "Finish": "model.payloads",
    "FunctionHook": "hooks.function",
    "HandshakeError": "errors",
    "HardAbort": "model.decisions",
    "HardAbortError": "calls.abort",
    "Hook": "hooks.base",
    "HookCrashedError": "errors",
    "HookError": "errors",
    "HookKey": "extension",
    "HookRefusedError": "errors",
    "HookReplyError": "errors",
    "HookSpec": "model.spec",
    "HookStatus": "hooks.base",
    "HookTimeoutError": "errors",
    "HookUnavailableError": "errors",
    "Host": "host",
    "HostServices": "hooks.base",
    "HostSettings": "host",
    "HostStatus": "engine.status",
    "LLMRequest": "model.payloads",
    "LLMResponse": "model.payloads",
    "Keyword": "extension",
    "Lazy": "extension",
    "Listener": "engine.listener",
    "Log": "observe.log",
    "Logger": "observe.log",
    "Meta": "model.payloads",
    "ModelPrompt": "ext.prompt.model_prompt",
    "Modify": "model.decisions",
    "NatsError": "ext.nats.errors",
    "NatsSettings": "ext.nats.settings",
    "NatsSpec": "ext.nats.spec",
    "Notes": "model.trail",
    "OnFailure": "model.spec",
    "Operation": "engine.operation",
    "OpenTelemetry": "ext.otel.listener",
    "Option": "extension",
    "Outcome": "model.decisions",
    "OutcomeAction": "model.trail",
    "Part": "engine.part",
    "Parts": "model.spec",
    "Pause": "model.decisions",
    "PausedError": "calls.abort",
    "PausedTurn": "sessions.paused",
    "Payload": "model.payloads",
    "PicohookError": "errors",
    "Problem": "errors",
    "Problems": "config.problems",
    "ProcessHook": "hooks.process",
    "Prompt": "model.payloads",
    "PromptHook": "ext.prompt.hook",
    "PromptSpec": "ext.prompt.spec",
    "Proof": "model.proof",
    "ProofOfLife": "ext.proof.prover",
    "ProofStatus": "ext.proof.status",
    "ProtocolError": "errors",
    "PythonHook": "hooks.python",
    "Question": "hooks.base",
    "RawLine": "protocol.raw_line",
    "Recorder": "ext.record.recorder",
    "RegisteredHooks": "ext.jcli.dialect",
    "Reloaded": "engine.status",
    "RequiredAuditLog": "ext.audit.log",
    "RequiredListener": "engine.listener",
    "Respond": "model.decisions",
    "RespondRule": "model.spec",
    "RestartPolicy": "model.spec",
    "ResponseStream": "calls.response_stream",
    "Resumed": "engine.resumed",
    "Retry": "model.decisions",
    "RetryLimitError": "calls.rounds",
    "Session": "sessions.session",
    "SessionView": "sessions.view",
    "Skip": "model.decisions",
    "Stage": "model.stages",
    "StageTrail": "model.trail",
    "StateChange": "hooks.base",
    "Table": "config.table",
    "Timeouts": "model.spec",
    "ToolAlias": "ext.vendors.tools",
    "ToolCall": "model.payloads",
    "ToolResult": "model.payloads",
    "ToolReturn": "model.payloads",
    "ToolRun": "calls.tool_call",
    "TrailEntry": "model.trail",
    "TrustError": "errors",
    "Turn": "sessions.turn",
    "TurnResult": "sessions.turn",
    "UsedPauses": "engine.used_pauses",
    "UsedPausesFile": "engine.used_pauses",
    "Verdict": "model.proof",
    "blade_hooks": "ext.blade.hooks",
    "calls_of": "model.conversation",
    "decision_in": "hooks.result",
    "foreign_hooks": "ext.vendors.files.named_files",
    "openai_chat": "ext.prompt.openai_chat",
    "text_of": "model.conversation",
    "watch": "reload.watch",
    "worker_hooks": "ext.rust_worker.worker",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - one table says where each name lives; a test holds it to the imports below

if TYPE_CHECKING:
    from .blocking import BlockingHost as BlockingHost
    from .calls.abort import (
        AbortTurnError as AbortTurnError,
        HardAbortError as HardAbortError,
        PausedError as PausedError,
    )
    from .calls.caller import Caller as Caller
    from .calls.model_call import DecidedRequest as DecidedRequest
    from .calls.response_stream import ResponseStream as ResponseStream
    from .calls.rounds import RetryLimitError as RetryLimitError
    from .calls.tool_call import DecidedCall as DecidedCall, ToolRun as ToolRun
    from .config.document import Config as Config
    from .config.problems import Problems as Problems
    from .config.table import Consent as Consent, Table as Table
    from .engine.engine import Engine as Engine
    from .engine.listener import Account as Account, Listener as Listener, RequiredListener as RequiredListener
    from .engine.operation import Operation as Operation
    from .engine.part import Part as Part
    from .engine.resumed import Resumed as Resumed
    from .engine.settings import EngineSettings as EngineSettings, EventOf as EventOf
    from .engine.status import HostStatus as HostStatus, Reloaded as Reloaded
    from .engine.used_pauses import UsedPauses as UsedPauses, UsedPausesFile as UsedPausesFile
    from .errors import (
        ConfigError as ConfigError,
        EncodeError as EncodeError,
        HandshakeError as HandshakeError,
        HookCrashedError as HookCrashedError,
        HookError as HookError,
        HookRefusedError as HookRefusedError,
        HookReplyError as HookReplyError,
        HookTimeoutError as HookTimeoutError,
        HookUnavailableError as HookUnavailableError,
        PicohookError as PicohookError,
        Problem as Problem,
        ProtocolError as ProtocolError,
        TrustError as TrustError,
    )
    from .ext.audit.log import AuditLog as AuditLog, RequiredAuditLog as RequiredAuditLog
    from .ext.blade.hooks import blade_hooks as blade_hooks
    from .ext.jcli.dialect import RegisteredHooks as RegisteredHooks
    from .ext.nats.errors import NatsError as NatsError
    from .ext.nats.settings import NatsSettings as NatsSettings
    from .ext.nats.spec import NatsSpec as NatsSpec
    from .ext.otel.listener import OpenTelemetry as OpenTelemetry
    from .ext.prompt.hook import PromptHook as PromptHook
    from .ext.prompt.model_prompt import ModelPrompt as ModelPrompt
    from .ext.prompt.openai_chat import openai_chat as openai_chat
    from .ext.prompt.spec import PromptSpec as PromptSpec
    from .ext.proof.prover import ProofOfLife as ProofOfLife
    from .ext.proof.status import ProofStatus as ProofStatus
    from .ext.record.recorder import Recorder as Recorder
    from .ext.rust_worker.worker import worker_hooks as worker_hooks
    from .ext.vendors.files.named_files import foreign_hooks as foreign_hooks
    from .ext.vendors.tools import ToolAlias as ToolAlias
    from .extension import (
        Command as Command,
        Dialect as Dialect,
        Extension as Extension,
        HookKey as HookKey,
        Keyword as Keyword,
        Lazy as Lazy,
        Option as Option,
    )
    from .hooks.base import (
        Hook as Hook,
        HookStatus as HookStatus,
        HostServices as HostServices,
        Question as Question,
        StateChange as StateChange,
    )
    from .hooks.command.command import CommandHook as CommandHook
    from .hooks.function import FunctionHook as FunctionHook
    from .hooks.process import ProcessHook as ProcessHook
    from .hooks.python import PythonHook as PythonHook
    from .hooks.result import decision_in as decision_in
    from .host import Host as Host, HostSettings as HostSettings
    from .model.conversation import calls_of as calls_of, text_of as text_of
    from .model.decisions import (
        AbortTurn as AbortTurn,
        Approve as Approve,
        Asked as Asked,
        Continue as Continue,
        Decision as Decision,
        Deny as Deny,
        HardAbort as HardAbort,
        Modify as Modify,
        Outcome as Outcome,
        Pause as Pause,
        Respond as Respond,
        Retry as Retry,
        Skip as Skip,
    )
    from .model.encoded import Encoded as Encoded
    from .model.events import Event as Event
    from .model.payloads import (
        Compaction as Compaction,
        Finish as Finish,
        LLMRequest as LLMRequest,
        LLMResponse as LLMResponse,
        Meta as Meta,
        Payload as Payload,
        Prompt as Prompt,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        ToolReturn as ToolReturn,
    )
    from .model.proof import Proof as Proof, Verdict as Verdict
    from .model.spec import (
        Canary as Canary,
        HookSpec as HookSpec,
        OnFailure as OnFailure,
        Parts as Parts,
        RespondRule as RespondRule,
        RestartPolicy as RestartPolicy,
        Timeouts as Timeouts,
    )
    from .model.stages import Stage as Stage
    from .model.trail import (
        Notes as Notes,
        OutcomeAction as OutcomeAction,
        StageTrail as StageTrail,
        TrailEntry as TrailEntry,
    )
    from .observe.log import Log as Log, Logger as Logger
    from .protocol.raw_line import RawLine as RawLine
    from .reload.watch import watch as watch
    from .sessions.delivery import Delivery as Delivery
    from .sessions.paused import PausedTurn as PausedTurn
    from .sessions.session import Session as Session
    from .sessions.turn import Turn as Turn, TurnResult as TurnResult
    from .sessions.view import SessionView as SessionView


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # a hook on `picohook.sdk` never needs it

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
