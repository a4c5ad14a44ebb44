"""Hooks for the Claude Agent SDK: `ClaudeSDKClient(PicohookHooks(host).options(ClaudeAgentOptions(...)))`.

The agent is a process of its own, which asks these callbacks. A prompt begins a turn, and the agent's answer ends it. A
subagent has a sub-turn. If a callback fails, the agent does not do what it asked about.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import (
    LLMRequest,
    LLMResponse,
    PausedError,
    PicohookError,
    Session,
    ToolResult,
    ToolReturn,
    text_of,
)
from . import extra
from .agent_run import tool_call

with extra("claude-agent"):
    from claude_agent_sdk import HookMatcher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from claude_agent_sdk import ClaudeAgentOptions

    from .. import DecidedCall, Host, ToolCall, Turn

    Input = Mapping[str, Any]
    Output = dict[str, Any]

PATIENCE = 24 * 3600.0
"""Seconds for which the agent waits for a callback. Hooks have their own timeouts, and a person may take long."""

UNASKED = ("before_llm", "after_llm")
"""The stages that this agent has no callback for."""


class PicohookHooks:
    """Asks the host's hooks about every tool call of a Claude agent. Its host has to be running.

    `names` has the agent's tools that hooks know by other names: `{"Bash": "bash", "mcp__files__read": "read"}`.
    """

    def __init__(self, host: Host, *, agent_id: str = "", names: Mapping[str, str] | None = None) -> None:
        self._host = host
        self._agent_id = agent_id
        self._names = dict(names or {})
        self._turns: dict[tuple[str, str], Turn] = {}
        self._decided: dict[str, DecidedCall] = {}

    def options(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Return these options with callbacks that ask hooks."""
        callbacks: dict[str, Callable[[Input], Awaitable[Output]]] = {
            "UserPromptSubmit": self._prompt,
            "PreToolUse": self._before_tool,
            "PostToolUse": self._after_tool,
            "PostToolUseFailure": self._after_tool,
            "Stop": self._finish,
            "SubagentStop": self._finish,
        }
        hooks: dict[Any, Any] = dict(options.hooks or {})
        for event, answer in callbacks.items():
            own = HookMatcher(hooks=[partial(self._answer, answer)], timeout=PATIENCE, on_failure="block")
            hooks[event] = [*hooks.get(event, ()), own]
        return replace(options, hooks=hooks)

    async def close(self) -> None:
        """End the turns of agents that ended without an answer."""
        while self._turns:
            await self._turns.popitem()[1].end("aborted", "the agent ended without an answer")

    async def _answer(
        self, answer: Callable[[Input], Awaitable[Output]], given: Any, tool_use_id: str | None, context: Any
    ) -> Any:
        """Answer a callback. If a hook ends the turn, or its decision has no form here, the agent stops and says why."""
        del tool_use_id, context
        try:
            return await answer(given)
        except PicohookError as error:
            reason = str(error)
            if (turn := self._turns.pop(_key(given), None)) is not None:
                await turn.end("aborted", reason)
            stop: Output = {"continue_": False, "stopReason": reason}
            if given["hook_event_name"] == "PreToolUse":
                return stop | _permission(given, "deny", reason)
            return stop | {"decision": "block", "reason": reason}

    # Turns.

    async def _prompt(self, given: Input) -> Output:
        self._refuse_unasked()
        session_id = given["session_id"]
        for key in [key for key in self._turns if key[0] == session_id]:
            await self._turns.pop(key).end("aborted", "the user interrupted the agent")
        turn = await self._begin(session_id, "", given["prompt"], turn_id=given.get("prompt_id"))
        if await turn.prompt() != given["prompt"]:
            raise PicohookError("a hook changed the prompt, and this agent takes no other prompt: let the hook deny it")
        return _context(turn, given)

    def _refuse_unasked(self) -> None:
        for stage in UNASKED:
            for hook in self._host.asked_at(stage):
                raise PicohookError(
                    f"{hook.name}: this agent asks no hooks at {stage}: give this hook other `stages` in its configuration"
                )

    async def _begin(
        self, session_id: str, agent: str, prompt: str, *, parent: Turn | None = None, turn_id: str | None = None
    ) -> Turn:
        session = Session(self._host, session_id, agent_id=agent or self._agent_id, shared=True)
        turn = self._turns[session_id, agent] = session.turn(prompt, turn_id=turn_id, parent=parent)
        return await turn.__aenter__()

    async def _turn(self, given: Input) -> Turn:
        """Return the turn of this callback. A subagent's begins with the first callback from it."""
        session_id, agent = key = _key(given)
        if (turn := self._turns.get(key)) is not None:
            return turn
        self._refuse_unasked()
        parent = self._turns.get((session_id, "")) or await self._begin(session_id, "", "")
        return await self._begin(session_id, agent, "", parent=parent) if agent else parent

    async def _finish(self, given: Input) -> Output:
        turn = await self._turn(given)
        response = LLMResponse(response={"content": given.get("last_assistant_message") or ""})
        if not await turn.finish(response):
            return {"decision": "block", "reason": text_of(turn.messages[-1])}
        del self._turns[_key(given)]
        await turn.end("completed")
        return {}

    # Tools.

    async def _before_tool(self, given: Input) -> Output:
        turn = await self._turn(given)
        call = self._call(given)
        try:
            decided = await turn.decide(call)
        except PausedError as paused:
            return _permission(given, "ask", paused.outcome.reason)
        if decided.result is not None:
            return _permission(given, "deny", decided.result.for_llm)
        if decided.call.tool != call.tool:
            why = f"a hook replaced {call.tool} with {decided.call.tool}, and this agent takes no other tool"
            self._host.emit("tool_exec_skipped", {"Tool": call.tool, "Reason": why}, about=call)
            return _permission(given, "deny", why)
        self._decided[given["tool_use_id"]] = decided
        changed = decided.call.arguments != call.arguments
        return _context(turn, given, **({"updatedInput": decided.call.arguments} if changed else {}))

    def _call(self, given: Input) -> ToolCall:
        name: str = given["tool_name"]
        return tool_call(self._names.get(name, name), given["tool_input"], given["tool_use_id"])

    async def _after_tool(self, given: Input) -> Output:
        turn = await self._turn(given)
        response = given.get("tool_response")
        failed = "error" in given
        shown = ToolResult(for_llm=str(given["error"]) if failed else _shown(response), is_error=failed)
        decided = self._decided.pop(given["tool_use_id"], None)
        if decided is None:  # its pause was lifted by the agent's own user
            call = self._call(given).model_copy(update={"meta": turn.meta})
            outcome = await self._host.after_tool(ToolReturn(**call.__dict__, result=shown))
            left = outcome.payload.result
        else:
            left = await self._host.conclude(decided, shown, arguments=given["tool_input"])
        if left.for_llm == shown.for_llm:
            return _context(turn, given)
        if failed:
            raise PicohookError(
                f"{given['tool_name']}: a hook changed the error of this tool, and the agent takes no other error"
            )
        return _context(turn, given, updatedToolOutput=_edited(given["tool_name"], response, left.for_llm))


def _permission(given: Input, decision: str, reason: str) -> Output:
    said = {
        "hookEventName": given["hook_event_name"],
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
    return {"hookSpecificOutput": said}


def _key(given: Input) -> tuple[str, str]:
    """Return the session and the subagent of a callback."""
    return given["session_id"], given.get("agent_id") or ""


def _context(turn: Turn, given: Input, **changes: Any) -> Output:
    """Return these changes, with what hooks have added to the turn since the last callback, as context for the model."""
    added = turn.with_added(LLMRequest())
    texts = [added.system_prompt or "", *(text_of(message) for message in added.messages)]
    if any(texts):
        changes["additionalContext"] = "\n\n".join(filter(None, texts))
    return {"hookSpecificOutput": {"hookEventName": given["hook_event_name"], **changes}} if changes else {}


# What tools return. A tool of the agent's own has a form, and the agent ignores a result of another form.


def _shown(response: Any) -> str:
    """Return what a tool returned as text: that of its blocks, its output or its file; or JSON."""
    match response:
        case str():
            return response
        case [*blocks] if _are_texts(blocks):
            return "".join(block["text"] for block in blocks)
        case {"stdout": str(out), "stderr": str(err)}:
            return f"{out}\n{err}" if out and err else out or err
        case {"file": {"content": str(text)}}:
            return text
    return json.dumps(response, default=str)


def _edited(tool: str, response: Any, text: str) -> Any:
    """Return the result of a tool with another text. Raises `PicohookError` if the text is no result of this tool."""
    match response:
        case str():
            return text
        case [*blocks] if _are_texts(blocks):
            return [{"type": "text", "text": text}]
        case {"stdout": str(), "stderr": str()}:
            return {**response, "stdout": text, "stderr": ""}
        case {"file": {"content": str()}}:
            return {**response, "file": {**response["file"], "content": text}}
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if type(value) is not type(response) or (isinstance(value, dict) and value.keys() != response.keys()):
        raise PicohookError(f"{tool}: a hook changed the result of this tool to a form that the tool does not return")
    return value


def _are_texts(blocks: list[Any]) -> bool:
    return bool(blocks) and all(isinstance(block, dict) and block.get("type") == "text" for block in blocks)
