"""Hooks for any host of AGENT-HOOKS-0.1: `emitter.register(PicohookInterceptor(host))`.

`agent-hooks-sdk` calls interceptors in the host's own process. This one asks hooks, which are processes in any language, with
picohook's deadlines, restarts and failure policies.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .. import (
    AbortTurnError,
    Finish,
    LLMRequest,
    LLMResponse,
    Meta,
    PausedError,
    Prompt,
    ToolCall,
    ToolResult,
    ToolReturn,
    text_of,
)
from . import extra
from .agent_run import settle

with extra("agent-hooks"):
    from agent_hooks import Decision, Transform, Verdict, Warning as Concern

if TYPE_CHECKING:
    from agent_hooks import AgentContext

    from .. import Host, Outcome


class PicohookInterceptor:
    """Answers each interception point with the decision of the host's hooks. Its host has to be running.

    The emitter waits for an interceptor for five seconds unless its `timeout` says otherwise. Give it None where hooks may ask
    a person.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    async def intercept(self, context: AgentContext, /) -> Verdict:
        """Returns the verdict on one emission."""
        meta = Meta(agent_id=context["agent"]["id"], session_key=context["session"]["id"], source="agent_hooks")
        return await getattr(self, f"_{context['interception_point']}")(context, meta)  # type: ignore[no-any-return]

    async def _agent_startup(self, _: AgentContext, meta: Meta) -> Verdict:
        self._host.emit("session_start", {"SessionKey": meta.session_key, "Messages": []}, meta=meta)
        return Verdict.allow()

    async def _agent_shutdown(self, _: AgentContext, meta: Meta) -> Verdict:
        await self._host.emit_and_wait("session_end", {"SessionKey": meta.session_key, "Messages": []}, meta=meta)
        self._host.forget(meta.session_key)
        return Verdict.allow()

    async def _input(self, context: AgentContext, meta: Meta) -> Verdict:
        text = text_of(context["target"])
        outcome = await self._host.before_prompt(Prompt(prompt=text, meta=meta))
        return _verdict(outcome, "$target.content", text, outcome.payload.prompt)

    async def _pre_model_call(self, context: AgentContext, meta: Meta) -> Verdict:
        request = LLMRequest(
            model=context["model"]["id"],
            messages=context["target"],
            tools=context.get("tools") or [],
            options=context["model"].get("params") or {},
            meta=meta,
        )
        outcome = await self._host.before_llm(request)
        if outcome.action == "respond":
            return Verdict.deny(reason="picohook:respond", message=text_of(outcome.result.response))
        noted = outcome.payload.with_notes(outcome.notes)
        told = [{"role": "system", "content": noted.system_prompt}] if noted.system_prompt else []
        return _verdict(outcome, "$target", request.messages, [*told, *noted.messages])

    async def _post_model_call(self, context: AgentContext, meta: Meta) -> Verdict:
        answered = LLMResponse(model=context["model"]["id"], response=context["target"], meta=meta)
        outcome = await self._host.after_llm(answered)
        return _verdict(outcome, "$target", answered.response, outcome.payload.response)

    async def _pre_tool_call(self, context: AgentContext, meta: Meta) -> Verdict:
        call = _call(context, meta, context["target"])
        try:
            decided = await self._host.decide(call)
            settled = await settle(self._host, call, decided)
        except (AbortTurnError, PausedError) as ended:
            return _verdict(ended.outcome, "", None, None)
        if settled is not None:
            reason = "deny_tool" if decided.result is None else decided.action
            return Verdict.deny(reason=f"picohook:{reason}", message=settled.for_llm)
        decided.operation.ended()  # the runtime may never say what became of the call
        return _verdict(decided.outcomes[0], "$target", context["target"], decided.call.arguments)

    async def _post_tool_call(self, context: AgentContext, meta: Meta) -> Verdict:
        # Asked as a stage: a call whose pause the host's approver lifted was never decided here.
        value, told = context["target"], context["tool_result"]
        text = value if isinstance(value, str) else json.dumps(value)
        call = _call(context, meta, context["tool_call"]["args"])
        duration = round((told.get("duration_ms") or 0) * 1_000_000)
        result = ToolResult(for_llm=text, is_error=told["is_error"])
        outcome = await self._host.after_tool(ToolReturn(**call.__dict__, result=result, duration=duration))
        left = outcome.payload.result
        ended = {
            "Tool": call.tool,
            "Duration": duration,
            "ForLLMLen": len(left.for_llm),
            "ForUserLen": len(left.for_user),
            "IsError": left.is_error,
            "Async": left.async_,
        }
        self._host.emit("tool_exec_end", ended, about=call)
        return _verdict(outcome, "$target", value, left.for_llm if isinstance(value, str) else _read(left.for_llm))

    async def _output(self, context: AgentContext, meta: Meta) -> Verdict:
        outcome = await self._host.before_finish(
            Finish(response={"content": context["target"].get("content")}, meta=meta)
        )
        return _verdict(outcome, "", None, None)


def _call(context: AgentContext, meta: Meta, arguments: dict[str, Any]) -> ToolCall:
    call = context["tool_call"]
    return ToolCall(tool=call["name"], arguments=arguments, tool_call_id=call["id"], meta=meta).deep_copy()


def _verdict(outcome: Outcome[Any], path: str, before: Any, after: Any) -> Verdict:
    """Returns the verdict of an outcome: allow, transform if hooks changed the target, or what ends the turn."""
    if outcome.action == "pause":
        return Verdict.escalate(reason="picohook:pause", message=outcome.reason)
    if outcome.action in {"abort_turn", "hard_abort"}:
        return Verdict.deny(reason=f"picohook:{outcome.action}", message=outcome.reason_for_llm)
    if outcome.action == "retry":
        return Verdict.deny(reason="picohook:retry", message=outcome.feedback)
    concerns = tuple(Concern(message=note.system_message) for note in outcome.notes if note.system_message)
    if before == after:
        return Verdict(decision=Decision.ALLOW, warnings=concerns)
    return Verdict(decision=Decision.TRANSFORM, transform=Transform(path=path, value=after), warnings=concerns)


def _read(text: str) -> Any:
    """Returns the JSON value that the text stands for, or the text itself if a hook replaced it with other text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
