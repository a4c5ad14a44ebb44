"""The words and limits of the protocol. Standard library only: the host and the SDK share it."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know better; at run time it spares hooks the import of typing
if TYPE_CHECKING:
    from typing import Final

VERSION: Final = 1

# Methods.
HELLO: Final = "hook.hello"
EVENT: Final = "hook.event"
RUNTIME_EVENT: Final = "hook.runtime_event"
CANCEL: Final = "hook.cancel"
PING: Final = "hook.ping"
LOG: Final = "host.log"
PROGRESS: Final = "host.progress"

# The mode of `hook.hello` that has no stages.
OBSERVE: Final = "observe"

STREAM: Final = "stream"
CAPABILITIES: Final = frozenset({"cancel", "progress", "log", STREAM})

# JSON-RPC error codes that the host sends or looks at.
METHOD_NOT_FOUND: Final = -32601

# Actions.
CONTINUE: Final = "continue"
MODIFY: Final = "modify"
RESPOND: Final = "respond"
DENY: Final = "deny_tool"
SKIP: Final = "skip"
RETRY: Final = "retry"
PAUSE: Final = "pause"
ABORT_TURN: Final = "abort_turn"
HARD_ABORT: Final = "hard_abort"

# The `Source` in the meta of a question that no agent asked: the host proves that harmful calls are denied.
PROOF_OF_LIFE: Final = "picohook.proof_of_life"

GRANTED_FOR: Final = ("session", "agent", "project")  # where the grant of an approver can hold

CONTINUE_RESULT: Final = {"action": CONTINUE}  # the result that hooks give most

# Limits.
MAX_LINE: Final = 16 * 1024 * 1024
MAX_VALUES: Final = 100_000  # values and names in a message
MAX_OUTBOUND: Final = 32 * 1024 * 1024
MAX_REASON: Final = 1024  # bytes of a reason, or of another short text from a hook for people
MAX_NOTE: Final = 64 * 1024  # bytes of a text from a hook for the model

# Event kinds: the name in `hook.event`, and the dotted name in `hook.runtime_event`.
EVENT_KINDS: Final[dict[str, str]] = {
    "turn_start": "agent.turn.start",
    "turn_end": "agent.turn.end",
    "llm_request": "agent.llm.request",
    "llm_delta": "agent.llm.delta",
    "llm_response": "agent.llm.response",
    "llm_retry": "agent.llm.retry",
    "context_compress": "agent.context.compress",
    "session_summarize": "agent.session.summarize",
    "tool_exec_start": "agent.tool.exec_start",
    "tool_exec_end": "agent.tool.exec_end",
    "tool_exec_skipped": "agent.tool.exec_skipped",
    "steering_injected": "agent.steering.injected",
    "follow_up_queued": "agent.follow_up.queued",
    "interrupt_received": "agent.interrupt.received",
    "subturn_spawn": "agent.subturn.spawn",
    "subturn_end": "agent.subturn.end",
    "subturn_result_delivered": "agent.subturn.result_delivered",
    "subturn_orphan": "agent.subturn.orphan",
    "error": "agent.error",
    "session_start": "agent.session.start",
    "session_end": "agent.session.end",
    "prompt_sent": "agent.prompt.sent",
    "turn_abort": "agent.turn.abort",
    "task_completed": "agent.task.completed",
}
# Events of a gateway around the agent. They came with `hook.runtime_event`, and have one name.
EVENT_KINDS.update(
    {
        kind: kind
        for kind in """
    channel.lifecycle.initialized channel.lifecycle.started channel.lifecycle.start_failed channel.lifecycle.stopped
    channel.webhook.registered channel.webhook.unregistered channel.message.outbound_queued channel.message.outbound_sent
    channel.message.outbound_failed channel.rate_limited bus.publish.failed bus.close.started bus.close.drained
    bus.close.completed gateway.start gateway.ready gateway.shutdown gateway.reload.started gateway.reload.completed
    gateway.reload.failed mcp.server.connecting mcp.server.connected mcp.server.failed mcp.tool.discovered
    mcp.tool.call.start mcp.tool.call.end
    """.split()  # noqa: SIM905 - twenty-six lines otherwise
    }
)
RUNTIME_KINDS: Final[dict[str, str]] = {dotted: kind for kind, dotted in EVENT_KINDS.items()}
EVERY_KIND: Final = frozenset({"*", "all", ""})
