"""Mounts callbacks of the Blade Agent SDK's form as hooks.

::

    hooks = blade_hooks({HookEvent.PreToolUse: [audit, guard]}, can_use_tool=ask_the_user)
    async with Host(hooks) as host: ...

A callback takes a dict with Blade's own keys (event, sessionId, toolName, ...) and returns one (action, modifiedInput, ...). It
runs in a thread, unless it is async.
"""

from __future__ import annotations

import copy
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ...errors import HookReplyError
from ...hooks.function import FunctionHook
from ...model.decisions import APPROVE, CONTINUE, AbortTurn, Decision, Deny, HardAbort, Modify
from ...model.filters import Filter
from ...model.replies import shown, text_in
from ...model.spec import OnFailure
from ...protocol.codec import encode, load
from ...wire.did_you_mean import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...hooks.base import Hook
    from ...model.events import Event
    from ...model.payloads import Payload, ToolCall

    Callback = Callable[[dict[str, Any]], Any]

LAST: Final = 2**31
"""The priority of `canUseTool`: after all other hooks, so that approvers see its `updatedInput`."""
PERMISSION_TIMEOUT: Final = 60.0
"""Default seconds for `canUseTool`, which may wait for a person."""


class HookEvent(StrEnum):
    """Blade's events."""

    SessionStart = "SessionStart"
    UserPromptSubmit = "UserPromptSubmit"
    PreToolUse = "PreToolUse"
    PostToolUse = "PostToolUse"
    PostToolUseFailure = "PostToolUseFailure"
    PermissionRequest = "PermissionRequest"
    TaskCompleted = "TaskCompleted"
    SessionEnd = "SessionEnd"


_STAGES: Final[dict[str, tuple[str, Filter | None]]] = {
    HookEvent.UserPromptSubmit: ("before_prompt", None),
    HookEvent.PreToolUse: ("before_tool", None),
    HookEvent.PostToolUse: ("after_tool", Filter(when={"is_error": False})),
    HookEvent.PostToolUseFailure: ("after_tool", Filter(when={"is_error": True})),
    HookEvent.PermissionRequest: ("approve_tool", None),
}
_TOLD: Final[dict[str, str]] = {
    HookEvent.SessionStart: "session_start",
    HookEvent.TaskCompleted: "task_completed",
    HookEvent.SessionEnd: "session_end",
}


def blade_hooks(
    callbacks: Mapping[str, Iterable[Callback]] | None = None,
    *,
    can_use_tool: Callable[[str, dict[str, Any], dict[str, Any]], Any] | None = None,
    ask: Callable[[ToolCall], Any] | None = None,
    timeout: float = PERMISSION_TIMEOUT,
    name: str = "blade",
) -> list[Hook]:
    """The hooks to mount for Blade's `hooks` and `canUseTool`: one for each callback, in the given order.

    `ask(call)` is called when `canUseTool` returns "ask". Only True is a yes; without `ask` the call is denied. `timeout`
    limits `canUseTool` and `ask` together. Raises `ValueError` for an event that Blade does not have.
    """
    hooks: list[Hook] = []
    for named, listed in (callbacks or {}).items():
        event = _known(named)
        each = list(listed)
        width = len(str(len(each)))  # so that sorting by name keeps the given order
        hooks += [_Callback(f"{name}.{event}-{n:0{width}}", event, callback) for n, callback in enumerate(each, 1)]
    if can_use_tool is not None:
        hooks.append(_CanUseTool(f"{name}.canUseTool", can_use_tool, ask, timeout))
    return hooks


def _known(event: str) -> HookEvent:
    try:
        return HookEvent(event)
    except ValueError:
        near = nearest(event, list(HookEvent))
        hint = f": did you mean {near!s}?" if near else ""
        raise ValueError(f"Blade has no event {event!r}{hint}") from None


class _Callback(FunctionHook):
    """One callback. Its failure is only logged, except at PermissionRequest, where it is a denial."""

    ends_sessions = True

    def __init__(self, name: str, event: HookEvent, callback: Callback) -> None:
        self._event = event
        self._callback = callback
        if event in _TOLD:
            super().__init__(name, on_event=self._tell, observe=(_TOLD[event],), layer="session")
        else:
            stage, payloads = _STAGES[event]
            super().__init__(name, {stage: self._decide}, layer="session", filter=payloads)

    async def _decide(self, payload: Payload) -> Decision:
        return _decision(self._event, await self._call(self._callback, _input(self._event, payload)))

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        return self.own_timeout, "timeout"

    async def _tell(self, event: Event) -> Any:
        told = {"event": str(self._event), "sessionId": event.meta.session_key}
        return await self._call_in_time(self._callback, told)


def _input(event: HookEvent, payload: Payload) -> dict[str, Any]:
    """The dict for a callback, which may change it: it is a copy."""
    fields = payload.__dict__
    made: dict[str, Any] = {"event": str(event), "sessionId": payload.meta.session_key}
    if event is HookEvent.UserPromptSubmit:
        return made | {"message": fields["prompt"]}
    made |= {"toolName": fields["tool"], "toolInput": copy.deepcopy(fields["arguments"])}
    if event is HookEvent.PostToolUse:
        made["toolOutput"] = _output(fields["result"].for_llm)
    elif event is HookEvent.PostToolUseFailure:
        made["error"] = {"message": fields["result"].for_llm or fields["error"] or ""}
    return made


def _output(text: str) -> Any:
    """A tool's output: the decoded value if it is a JSON object or list, else the text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return load(text)
        except (ValueError, RecursionError):
            pass
    return text


def _decision(event: HookEvent, output: Any) -> Decision:
    """The decision in a callback's output. None continues; at PermissionRequest it gives no permission.

    Raises `HookReplyError` for an output that the event does not allow.
    """
    fields = _object({} if output is None else output, "the output")
    action, reason = fields.get("action"), _text(fields, "reason")
    if event is HookEvent.PermissionRequest:
        if action not in ("continue", "skip", "abort"):
            raise HookReplyError('only the action "continue" gives permission')
        if action == "continue" and fields.get("modifiedInput") is not None:
            raise HookReplyError("`modifiedInput` changes nothing at PermissionRequest: change the input at PreToolUse")
        return APPROVE if action == "continue" else Deny(reason=reason)
    match action:
        case None | "continue":
            changes = _changes(event, fields)
            return Modify(changes, reason=reason) if changes else CONTINUE
        case "abort":
            return HardAbort(reason=reason)
        case "skip" if event is HookEvent.PreToolUse:
            return Deny(reason=reason, result={"for_llm": reason or "The tool call was skipped."})
        case "skip":
            raise HookReplyError(f'"skip" is for PreToolUse, and this is {event}')
    raise HookReplyError(f"the action {shown(action)} is not one of continue, skip, abort")


def _changes(event: HookEvent, fields: Mapping[str, Any]) -> dict[str, Any]:
    new_input, new_output = fields.get("modifiedInput"), fields.get("modifiedOutput")
    if event is HookEvent.PreToolUse and new_input is not None:
        return {"arguments": _object(new_input, "modifiedInput")}
    if event is HookEvent.UserPromptSubmit and new_input is not None:
        if not isinstance(new_input, str):
            raise HookReplyError("`modifiedInput` is not a string, as a user's message must be")
        return {"prompt": new_input}
    if event in (HookEvent.PostToolUse, HookEvent.PostToolUseFailure) and new_output is not None:
        return {"for_llm": new_output if isinstance(new_output, str) else encode(new_output).decode()}
    return {}


class _CanUseTool(FunctionHook):
    """`canUseTool`, which is asked last at before_tool. Its failure is a denial."""

    waits_for_person = True

    def __init__(
        self,
        name: str,
        can_use_tool: Callable[[str, dict[str, Any], dict[str, Any]], Any],
        ask: Callable[[ToolCall], Any] | None,
        timeout: float,
    ) -> None:
        self._can_use_tool = can_use_tool
        self._ask = ask
        super().__init__(
            name,
            {"before_tool": self._decide},
            layer="session",
            priority=LAST,
            timeout=timeout,
            on_failure=OnFailure.DENY,
        )

    async def _decide(self, payload: ToolCall) -> Decision:
        signal = AbortSignal()
        options = {
            "signal": signal,
            "toolKind": payload.tool_kind or "execute",
            "affectedPaths": list(payload.affected_paths or ()),
        }
        try:
            answer = await self._call(self._can_use_tool, payload.tool, copy.deepcopy(payload.arguments), options)
        except BaseException:
            signal.aborted = True
            raise
        fields = _object(answer, "the result")
        match fields.get("behavior"):
            case "allow":
                updated = fields.get("updatedInput")
                return CONTINUE if updated is None else Modify({"arguments": _object(updated, "updatedInput")})
            case "deny":
                message = _text(fields, "message")
                return AbortTurn(reason=message) if fields.get("interrupt") is True else Deny(reason=message)
            case "ask":
                return await self._asked(payload)
        raise HookReplyError(f"the behavior {shown(fields.get('behavior'))} is not one of allow, deny, ask")

    async def _asked(self, payload: ToolCall) -> Decision:
        if self._ask is None:
            return Deny(reason="permission is needed, and no `ask` was given")
        allowed = await self._call(self._ask, payload) is True
        return CONTINUE if allowed else Deny(reason="permission was asked for and refused")


class AbortSignal:
    """Tells a callback that is still running in its thread that its result is no longer needed."""

    def __init__(self) -> None:
        self.aborted = False


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise HookReplyError(f"`{name}` is {type(value).__name__}, not a dict")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    try:
        return text_in(fields, name)
    except ValueError as error:
        raise HookReplyError(str(error)) from None
