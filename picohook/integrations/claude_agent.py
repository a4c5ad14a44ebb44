"""Hooks for the Claude Agent SDK: `ClaudeSDKClient(PicohookHooks(host).options(ClaudeAgentOptions(...)))`.

The agent is a separate process, which asks these callbacks. A prompt begins a turn, and the agent's answer ends it. A
subagent has a sub-turn. If a callback fails, the agent does not do what it asked about.

A pause asks the agent's own user. With `defer=True` the agent stops instead, and another process can continue it.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import (
    Continue,
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
from .agent_run import settle
from .chat import tool_call

with extra("claude-agent"):
    from claude_agent_sdk import HookMatcher, PermissionResultDeny

    from .claude_gate import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from claude_agent_sdk import CanUseTool, ClaudeAgentOptions, PermissionResult, ToolPermissionContext

    from .. import DecidedCall, Decision, Host, Outcome, ToolCall, Turn

    Input = Mapping[str, Any]
    Output = dict[str, Any]

PATIENCE = 24 * 3600.0
"""Seconds for which the agent waits for a callback. Hooks have their own timeouts, and a person may take long."""

UNASKED = ("before_llm", "after_llm")
"""The stages that this agent has no callback for."""

REJECTED = "A person rejected this call."


class PicohookHooks:
    """Asks the host's hooks about every tool call of a Claude agent. The host has to be running.

    `names` has the agent's tools that hooks know by other names: `{"Bash": "bash", "mcp__files__read": "read"}`. With `defer`,
    a call that a hook pauses is deferred, which ends the run. `answers` has what a person has answered about deferred calls, by
    their ids: whether they may run. Give it to the hooks of the agent that continues the run.
    """

    def __init__(
        self,
        host: Host,
        *,
        agent_id: str = "",
        names: Mapping[str, str] | None = None,
        defer: bool = False,
        answers: Mapping[str, bool] | None = None,
    ) -> None:
        self._host = host
        self._agent_id = agent_id
        self._names = dict(names or {})
        self._defer = defer
        self._answers = dict(answers or {})
        self._turns: dict[tuple[str, str], Turn] = {}
        self._decided: dict[str, tuple[tuple[str, str], DecidedCall]] = {}
        """The calls that may run, by id, each with the key of its turn."""
        self._deferred: dict[tuple[str, str], str] = {}
        self._gate = Gate()
        self.pauses: dict[str, Outcome[ToolCall]] = {}
        """The outcomes of the calls that hooks paused, by call id: which hook, why, and the call as hooks left it."""

    def options(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Returns the options with callbacks that ask hooks. Raises `PicohookError` for an option that turns callbacks off."""
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
        ask_user = options.can_use_tool
        permit = None if ask_user is None else partial(_permit, ask_user)
        return self._gate.before(replace(options, hooks=hooks, can_use_tool=permit))

    async def close(self) -> None:
        """End the turns of agents that ended without an answer."""
        for key in [*self._turns]:
            await self._abort(key, "the agent ended without an answer")

    async def _abort(self, key: tuple[str, str], reason: str) -> None:
        """End a turn that has no answer. One whose call was deferred is complete."""
        if key in self._deferred:
            await self._end(key, "completed")
        else:
            await self._end(key, "aborted", reason)

    async def _end(self, key: tuple[str, str], status: str, reason: str = "") -> None:
        """End a turn. Its calls that have not run will not run."""
        self._deferred.pop(key, None)
        for identity in [identity for identity, (of, _) in self._decided.items() if of == key]:
            _, decided = self._decided.pop(identity)
            decided.operation.ended()
            skipped = {"Tool": decided.call.tool, "Reason": "the agent did not make the call"}
            self._host.emit("tool_exec_skipped", skipped, about=decided.call)
        await self._turns.pop(key).end(status, reason)

    async def _answer(self, answer: Callable[[Input], Awaitable[Output]], event: Any, *_: Any) -> Any:
        """Answer a callback. If a hook ends the turn, or its decision has no form here, the agent stops and says why."""
        if event["hook_event_name"] == "PreToolUse":
            self._gate.open(event["tool_use_id"])
        try:
            return await answer(event)
        except PicohookError as error:
            reason = str(error)
            if _key(event) in self._turns:
                await self._end(_key(event), "aborted", reason)
            stop: Output = {"continue_": False, "stopReason": reason}
            if event["hook_event_name"] == "PreToolUse":
                return stop | _permission(event, "deny", reason)
            return stop | {"decision": "block", "reason": reason}

    # Turns.

    async def _prompt(self, event: Input) -> Output:
        self._refuse_unasked()
        session_id = event["session_id"]
        for key in [key for key in self._turns if key[0] == session_id]:
            await self._abort(key, "the user interrupted the agent")
        turn = await self._begin(session_id, "", event["prompt"], turn_id=event.get("prompt_id"))
        if await turn.prompt() != event["prompt"]:
            raise PicohookError("a hook changed the prompt, and this agent takes no other prompt: let the hook deny it")
        return _context(turn, event)

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

    async def _turn(self, event: Input) -> Turn:
        """Returns the turn of this callback. A subagent's begins with the first callback from it."""
        session_id, agent = key = _key(event)
        if (turn := self._turns.get(key)) is not None:
            return turn
        self._refuse_unasked()
        parent = self._turns.get((session_id, "")) or await self._begin(session_id, "", "")
        return await self._begin(session_id, agent, "", parent=parent) if agent else parent

    async def _finish(self, event: Input) -> Output:
        turn = await self._turn(event)
        response = LLMResponse(response={"content": event.get("last_assistant_message") or ""})
        if not await turn.finish(response):
            return {"decision": "block", "reason": text_of(turn.messages[-1])}
        await self._end(_key(event), "completed")
        return {}

    # Tools.

    async def _before_tool(self, event: Input) -> Output:
        turn = await self._turn(event)
        call, identity = self._call(event), event["tool_use_id"]
        answer = self._answers.pop(identity, None)
        if answer is False:
            self._host.emit("tool_exec_skipped", {"Tool": call.tool, "Reason": REJECTED}, about=call)
            return _permission(event, "deny", REJECTED)

        def on_pause(outcome: Outcome[ToolCall]) -> Decision:
            nonlocal answer
            if not answer:
                raise PausedError(outcome)
            answer = None  # a person's answer is for one hook
            return Continue()

        answered = answer is not None
        try:
            decided = await turn.decide(call, on_pause=on_pause)
        except PausedError as paused:
            if answered:
                raise
            return self._pause(event, paused.outcome)
        if (settled := await settle(self._host, call, decided)) is not None:
            return _permission(event, "deny", settled.for_llm)
        self._decided[identity] = _key(event), decided
        changed = decided.call.arguments != call.arguments
        return _context(turn, event, **({"updatedInput": decided.call.arguments} if changed else {}))

    def _pause(self, event: Input, outcome: Outcome[ToolCall]) -> Output:
        """Ask the agent's user, or defer the call. A subagent runs in the background, where no call can be deferred."""
        key, identity = _key(event), event["tool_use_id"]
        reason = outcome.reason or f"{outcome.hook} asks"
        if not self._defer or key[1]:
            return _permission(event, "ask", reason)
        if self._deferred.setdefault(key, identity) != identity:
            return _permission(event, "deny", "Another call waits for a person. Make this call again later.")
        self.pauses[identity] = outcome
        return _permission(event, "defer", reason)

    def _call(self, event: Input) -> ToolCall:
        name: str = event["tool_name"]
        return tool_call(self._names.get(name, name), event["tool_input"], event["tool_use_id"])

    async def _after_tool(self, event: Input) -> Output:
        turn = await self._turn(event)
        text, edited = _text_of(event["tool_name"], event.get("tool_response"))
        failed = "error" in event
        shown = ToolResult(for_llm=str(event["error"]) if failed else text, is_error=failed)
        _, decided = self._decided.pop(event["tool_use_id"], (None, None))
        if decided is None:  # its pause was lifted by the agent's own user
            call = self._call(event).model_copy(update={"meta": turn.meta})
            outcome = await self._host.after_tool(ToolReturn(**call.__dict__, result=shown))
            left = outcome.payload.result
        else:
            ran = self._call(event)
            left = await self._host.conclude(decided, shown, tool=ran.tool, arguments=event["tool_input"])
        if left.for_llm == shown.for_llm:
            return _context(turn, event)
        if failed:
            raise PicohookError(
                f"{event['tool_name']}: a hook changed the error of this tool, and the agent takes no other error"
            )
        return _context(turn, event, updatedToolOutput=edited(left.for_llm))


async def _permit(
    ask_user: CanUseTool, tool: str, arguments: dict[str, Any], context: ToolPermissionContext
) -> PermissionResult:
    """Ask the agent's user. An answer that changes the call denies it: hooks were asked about the call as it is."""
    answer = await ask_user(tool, deepcopy(arguments), context)
    changed = getattr(answer, "updated_input", None)
    if changed is None or changed == arguments:
        return answer
    return PermissionResultDeny(message="`can_use_tool` changed this call after hooks were asked: let a hook change it")


def _output(event: Input, **fields: Any) -> Output:
    return {"hookSpecificOutput": {"hookEventName": event["hook_event_name"], **fields}}


def _permission(event: Input, decision: str, reason: str) -> Output:
    return _output(event, permissionDecision=decision, permissionDecisionReason=reason)


def _key(event: Input) -> tuple[str, str]:
    """Returns the session and the subagent of a callback."""
    return event["session_id"], event.get("agent_id") or ""


def _context(turn: Turn, event: Input, **changes: Any) -> Output:
    """Returns these changes, with what hooks have added to the turn since the last callback, as context for the model."""
    added = turn.with_added(LLMRequest())
    texts = [added.system_prompt or "", *(text_of(message) for message in added.messages)]
    if any(texts):
        changes["additionalContext"] = "\n\n".join(filter(None, texts))
    return _output(event, **changes) if changes else {}


# What tools return. A tool of the agent's own has a form, and the agent ignores a result of another form.


def _text_of(tool: str, response: Any) -> tuple[str, Callable[[str], Any]]:
    """Returns a tool's result as text, and what makes a result of another text.

    The text is that of its blocks, output or file; JSON for any other result.
    """
    match response:
        case str():
            return response, lambda text: text
        case [_, *_] as blocks if all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
            return "".join(block["text"] for block in blocks), lambda text: [{"type": "text", "text": text}]
        case {"stdout": str(out), "stderr": str(err)}:
            output = f"{out}\n{err}" if out and err else out or err
            return output, lambda text: {**response, "stdout": text, "stderr": ""}
        case {"file": {"content": str(content)} as file}:
            return content, lambda text: {**response, "file": {**file, "content": text}}
    return json.dumps(response, default=str), partial(_read, tool, response)


def _read(tool: str, response: Any, text: str) -> Any:
    """Returns the result of a tool that is JSON. Raises `PicohookError` if the text is no result of this tool."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if type(value) is not type(response) or (isinstance(value, dict) and value.keys() != response.keys()):
        raise PicohookError(f"{tool}: a hook changed the result to a form that this tool does not return")
    return value
