"""A dialect's four functions, without processes."""

from __future__ import annotations

import json
from typing import Any

from picohook import Compaction, Finish, LLMRequest, LLMResponse, Meta, Prompt, ToolCall, ToolResult, ToolReturn
from picohook.errors import HookError
from picohook.ext.vendors.contract import Facts, HandlerResult, Rule
from picohook.ext.vendors.dialects import vendor_named

FACTS = Facts(project="/project", session="s0")
META = Meta(session_key="s1", turn_id="t1")
BASH = ToolCall(tool="bash", arguments={"command": "ls"}, tool_call_id="c1", meta=META)
PAYLOADS = {
    "before_tool": BASH,
    "approve_tool": BASH,
    "after_tool": ToolReturn(**BASH.__dict__, result=ToolResult(for_llm="a.txt"), duration=3_000_000),
    "before_prompt": Prompt(prompt="hello", meta=META),
    "before_llm": LLMRequest(
        messages=[
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
        ],
        meta=META,
    ),
    "after_llm": LLMResponse(
        model="m", response={"content": "done"}, messages=[{"role": "user", "content": "hello"}], meta=META
    ),
    "before_compact": Compaction(scope="auto", meta=META),
    "before_finish": Finish(response={"content": "done"}, meta=META),
}


class Said:
    """What came of one handler."""

    def __init__(
        self, stdout: Any = "", code: int = 0, stderr: str = "", failure: HookError | None = None, **rule: Any
    ):
        text = stdout if isinstance(stdout, str) else json.dumps(stdout)
        self.ran = HandlerResult(code, text, stderr, failure)
        self.rule = Rule(at="h", **rule)


def inner(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def permission(verdict: str, **fields: Any) -> dict[str, Any]:
    return inner("PreToolUse", permissionDecision=verdict, **fields)


def verdict_of(event: str, *said: Said, dialect: str = "claude", failures: Any = "strict", payload: Any = None) -> Any:
    """The verdict of these handlers. Raises the failure that decides."""
    contract = vendor_named(dialect)
    payload = payload or PAYLOADS[contract.events[event].stage]
    told = contract.encode(event, payload, FACTS)
    assert told is not None
    answers = []
    for one in said:
        answers.append(contract.decode(event, one.rule, one.ran, failures))
        if one.rule.in_order:
            told = contract.chain(event, told, answers[-1])
    return contract.merge(event, answers, told, payload, failures)


def decided(event: str, *said: Said, **settings: Any) -> Any:
    """Their decision, or the failure that decides."""
    try:
        return verdict_of(event, *said, **settings).decision
    except HookError as error:
        return error
