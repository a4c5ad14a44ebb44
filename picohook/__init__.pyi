# The public names, for type checkers, from the table in `__init__.py`. `make stub` writes this file.
from .blocking import BlockingHost as BlockingHost
from .calls.abort import AbortTurnError as AbortTurnError, HardAbortError as HardAbortError, PausedError as PausedError
from .calls.caller import Caller as Caller
from .calls.model_call import DecidedRequest as DecidedRequest
from .calls.response_stream import ResponseStream as ResponseStream
from .calls.rounds import RetryLimitError as RetryLimitError
from .calls.tool_call import DecidedCall as DecidedCall, ToolRun as ToolRun
from .config.document import Config as Config
from .config.problems import Problems as Problems
from .config.table import Consent as Consent, Table as Table
from .engine.engine import Engine as Engine, EngineSettings as EngineSettings
from .engine.event_queue import EventOf as EventOf
from .engine.listener import (
    Account as Account,
    Listener as Listener,
    Operation as Operation,
    RequiredListener as RequiredListener,
)
from .engine.part import Part as Part
from .engine.resumed import Resumed as Resumed
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
from .ext.nats.settings import NatsSettings as NatsSettings, NatsSpec as NatsSpec
from .ext.otel.listener import OpenTelemetry as OpenTelemetry
from .ext.prompt.hook import PromptHook as PromptHook
from .ext.prompt.model_prompt import ModelPrompt as ModelPrompt
from .ext.prompt.openai_chat import openai_chat as openai_chat
from .ext.prompt.spec import PromptSpec as PromptSpec
from .ext.proof.prover import ProofOfLife as ProofOfLife, ProofStatus as ProofStatus
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
from .hooks.command import CommandHook as CommandHook, decision_in as decision_in
from .hooks.function import FunctionHook as FunctionHook
from .hooks.process import ProcessHook as ProcessHook
from .hooks.python import PythonHook as PythonHook
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
from .sessions.base_session import SessionView as SessionView
from .sessions.delivery import Delivery as Delivery
from .sessions.paused import PausedTurn as PausedTurn
from .sessions.session import Session as Session
from .sessions.turn import Turn as Turn, TurnResult as TurnResult

__version__: str
__all__ = [
    "AbortTurn",
    "AbortTurnError",
    "Account",
    "Approve",
    "Asked",
    "AuditLog",
    "BlockingHost",
    "Caller",
    "Canary",
    "Command",
    "CommandHook",
    "Compaction",
    "Config",
    "ConfigError",
    "Consent",
    "Continue",
    "DecidedCall",
    "DecidedRequest",
    "Decision",
    "Delivery",
    "Deny",
    "Dialect",
    "EncodeError",
    "Encoded",
    "Engine",
    "EngineSettings",
    "Event",
    "EventOf",
    "Extension",
    "Finish",
    "FunctionHook",
    "HandshakeError",
    "HardAbort",
    "HardAbortError",
    "Hook",
    "HookCrashedError",
    "HookError",
    "HookKey",
    "HookRefusedError",
    "HookReplyError",
    "HookSpec",
    "HookStatus",
    "HookTimeoutError",
    "HookUnavailableError",
    "Host",
    "HostServices",
    "HostSettings",
    "HostStatus",
    "Keyword",
    "LLMRequest",
    "LLMResponse",
    "Lazy",
    "Listener",
    "Log",
    "Logger",
    "Meta",
    "ModelPrompt",
    "Modify",
    "NatsError",
    "NatsSettings",
    "NatsSpec",
    "Notes",
    "OnFailure",
    "OpenTelemetry",
    "Operation",
    "Option",
    "Outcome",
    "OutcomeAction",
    "Part",
    "Parts",
    "Pause",
    "PausedError",
    "PausedTurn",
    "Payload",
    "PicohookError",
    "Problem",
    "Problems",
    "ProcessHook",
    "Prompt",
    "PromptHook",
    "PromptSpec",
    "Proof",
    "ProofOfLife",
    "ProofStatus",
    "ProtocolError",
    "PythonHook",
    "Question",
    "RawLine",
    "Recorder",
    "RegisteredHooks",
    "Reloaded",
    "RequiredAuditLog",
    "RequiredListener",
    "Respond",
    "RespondRule",
    "ResponseStream",
    "RestartPolicy",
    "Resumed",
    "Retry",
    "RetryLimitError",
    "Session",
    "SessionView",
    "Skip",
    "Stage",
    "StageTrail",
    "StateChange",
    "Table",
    "Timeouts",
    "ToolAlias",
    "ToolCall",
    "ToolResult",
    "ToolReturn",
    "ToolRun",
    "TrailEntry",
    "TrustError",
    "Turn",
    "TurnResult",
    "UsedPauses",
    "UsedPausesFile",
    "Verdict",
    "blade_hooks",
    "calls_of",
    "decision_in",
    "foreign_hooks",
    "openai_chat",
    "text_of",
    "watch",
    "worker_hooks",
]
