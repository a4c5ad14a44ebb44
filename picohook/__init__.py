"""picohook: a host for agent hooks, and a supervisor for the processes they are.

The public names are imported when they are first used, so that a program pays for what it takes.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know better; at run time it spares hooks the import of typing
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AbortTurn": "decisions",
    "AbortTurnError": "errors",
    "Account": "observe.witness",
    "Approve": "decisions",
    "AuditLog": "observe.audit",
    "BlockingHost": "blocking",
    "CommandHook": "hooks.command",
    "Compaction": "models",
    "ConfigError": "errors",
    "Continue": "decisions",
    "Decision": "decisions",
    "Delivery": "delivery",
    "Deny": "decisions",
    "EncodeError": "errors",
    "Event": "events",
    "Finish": "models",
    "FunctionHook": "hooks.function",
    "HandshakeError": "errors",
    "HardAbort": "decisions",
    "HardAbortError": "errors",
    "Hook": "hooks.base",
    "HookCrashedError": "errors",
    "HookError": "errors",
    "HookRefusedError": "errors",
    "HookReplyError": "errors",
    "HookSpec": "spec",
    "HookStatus": "hooks.base",
    "HookTimeoutError": "errors",
    "Host": "host",
    "HostStatus": "host",
    "LLMRequest": "models",
    "LLMResponse": "models",
    "LocalProtocolError": "errors",
    "Meta": "models",
    "Modify": "decisions",
    "Notes": "decisions",
    "OnFailure": "spec",
    "OpenTelemetry": "observe.otel",
    "Outcome": "decisions",
    "OutcomeAction": "decisions",
    "Pause": "decisions",
    "PausedError": "errors",
    "PausedTurn": "paused",
    "PicohookError": "errors",
    "Problem": "errors",
    "ProcessHook": "hooks.process",
    "Prompt": "models",
    "PromptHook": "hooks.prompt",
    "ProtocolError": "errors",
    "PythonHook": "hooks.python",
    "Question": "hooks.base",
    "Recorder": "record.recorder",
    "Reloaded": "reload",
    "RemoteProtocolError": "errors",
    "Respond": "decisions",
    "RespondRule": "spec",
    "RestartPolicy": "spec",
    "Retry": "decisions",
    "RetryLimitError": "errors",
    "Session": "session",
    "Skip": "decisions",
    "Stage": "stages",
    "StageTrail": "decisions",
    "StateChange": "hooks.base",
    "Timeouts": "spec",
    "ToolCall": "models",
    "ToolResult": "models",
    "ToolReturn": "models",
    "TrailEntry": "decisions",
    "TrustError": "errors",
    "Turn": "turn",
    "TurnResult": "turn",
    "Witness": "observe.witness",
    "blade_hooks": "hooks.blade",
    "openai_chat": "complete",
    "worker_hooks": "hooks.worker",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - one table says where each name lives; a test holds it to the imports below

if TYPE_CHECKING:
    from .blocking import BlockingHost as BlockingHost
    from .complete import openai_chat as openai_chat
    from .decisions import (
        AbortTurn as AbortTurn,
        Approve as Approve,
        Continue as Continue,
        Decision as Decision,
        Deny as Deny,
        HardAbort as HardAbort,
        Modify as Modify,
        Notes as Notes,
        Outcome as Outcome,
        OutcomeAction as OutcomeAction,
        Pause as Pause,
        Respond as Respond,
        Retry as Retry,
        Skip as Skip,
        StageTrail as StageTrail,
        TrailEntry as TrailEntry,
    )
    from .delivery import Delivery as Delivery
    from .errors import (
        AbortTurnError as AbortTurnError,
        ConfigError as ConfigError,
        EncodeError as EncodeError,
        HandshakeError as HandshakeError,
        HardAbortError as HardAbortError,
        HookCrashedError as HookCrashedError,
        HookError as HookError,
        HookRefusedError as HookRefusedError,
        HookReplyError as HookReplyError,
        HookTimeoutError as HookTimeoutError,
        LocalProtocolError as LocalProtocolError,
        PausedError as PausedError,
        PicohookError as PicohookError,
        Problem as Problem,
        ProtocolError as ProtocolError,
        RemoteProtocolError as RemoteProtocolError,
        RetryLimitError as RetryLimitError,
        TrustError as TrustError,
    )
    from .events import Event as Event
    from .hooks.base import (
        Hook as Hook,
        HookStatus as HookStatus,
        Question as Question,
        StateChange as StateChange,
    )
    from .hooks.blade import blade_hooks as blade_hooks
    from .hooks.command import CommandHook as CommandHook
    from .hooks.function import FunctionHook as FunctionHook
    from .hooks.process import ProcessHook as ProcessHook
    from .hooks.prompt import PromptHook as PromptHook
    from .hooks.python import PythonHook as PythonHook
    from .hooks.worker import worker_hooks as worker_hooks
    from .host import Host as Host, HostStatus as HostStatus
    from .models import (
        Compaction as Compaction,
        Finish as Finish,
        LLMRequest as LLMRequest,
        LLMResponse as LLMResponse,
        Meta as Meta,
        Prompt as Prompt,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        ToolReturn as ToolReturn,
    )
    from .observe.audit import AuditLog as AuditLog
    from .observe.otel import OpenTelemetry as OpenTelemetry
    from .observe.witness import Account as Account, Witness as Witness
    from .paused import PausedTurn as PausedTurn
    from .record.recorder import Recorder as Recorder
    from .reload import Reloaded as Reloaded
    from .session import Session as Session
    from .spec import (
        HookSpec as HookSpec,
        OnFailure as OnFailure,
        RespondRule as RespondRule,
        RestartPolicy as RestartPolicy,
        Timeouts as Timeouts,
    )
    from .stages import Stage as Stage
    from .turn import Turn as Turn, TurnResult as TurnResult


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a hook on `picohook.sdk` never needs it

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
