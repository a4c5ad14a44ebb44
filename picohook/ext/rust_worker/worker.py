"""Hooks in the form of a Rust LLM worker: contexts that they change in place, and a typed result for each event.

::

    async def blocker(ctx: ToolCallContext) -> PreToolCallResult:
        return Skip() if ctx.call.name in blocked else Continue()

    host = Host(worker_hooks(pre_tool_call=[blocker], on_turn_end=[JsonValidator()]))

Later hooks see the changes that a hook makes to its context, and the model or the tool gets them in the end. If a hook fails,
its changes are discarded.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union, get_args

from ...errors import HookReplyError
from ...hooks.function import FunctionHook
from ...model import decisions
from ...model.conversation import assistant_message
from ...model.decisions import CONTINUE, AbortTurn, Decision, Deny, Modify, Retry
from ...model.spec import OnFailure
from ...protocol.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self

    from ...hooks.base import Hook
    from ...model.events import Event
    from ...model.payloads import Finish as FinishPayload, LLMRequest, Meta, Prompt, ToolCall, ToolReturn

# Contexts.


@dataclass(slots=True)
class Message:
    """One message of the conversation."""

    role: str
    content: Any = None
    """A text, or a list of parts."""
    more: dict[str, Any] = field(default_factory=dict)
    """The other fields of the message: tool_calls, tool_call_id, ..."""

    @classmethod
    def user(cls, text: str) -> Self:
        """A message of the user."""
        return cls("user", text)

    @classmethod
    def system(cls, text: str) -> Self:
        """A message of the system."""
        return cls("system", text)

    @classmethod
    def assistant(cls, text: str) -> Self:
        """A message of the assistant."""
        return cls("assistant", text)

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Self:
        """The message in a plain dict."""
        more = {key: copy.deepcopy(value) for key, value in message.items() if key != "role"}
        return cls(message.get("role", ""), more.get("content"), more)

    def wire(self) -> dict[str, Any]:
        """The plain dict, with all fields of the one that was read, in their order."""
        content = {} if self.content is None and "content" not in self.more else {"content": self.content}
        return {"role": self.role, **self.more, **content}


@dataclass(slots=True)
class Call:
    """A tool call. A hook can change its name and its input."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass(slots=True)
class CallResult:
    """A tool call's result, for the model."""

    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolMeta:
    """A tool, and the place in the run where it is called."""

    name: str
    kind: str | None
    affected_paths: tuple[str, ...]
    at: Meta


@dataclass(slots=True)
class ToolCallContext:
    """A tool is about to be called."""

    call: Call
    meta: ToolMeta
    tool: Any
    """The tool itself, from the `tools` of `worker_hooks`."""


@dataclass(slots=True)
class PostToolCallContext:
    """A tool was called. A hook can change the result."""

    call: Call
    result: CallResult
    meta: ToolMeta
    tool: Any


# Results.


@dataclass(frozen=True, slots=True)
class Continue:
    """Continue with the next hook."""


@dataclass(frozen=True)
class _WithReason:
    reason: str = ""


class Cancel(_WithReason):
    """End the run before it begins."""


@dataclass(frozen=True)
class Skip:
    """Do not call this tool. The model is told, and the turn continues."""

    reason: str = "skipped"


class Abort(_WithReason):
    """End the turn with an error."""


class Pause(_WithReason):
    """Stop the turn here. It can be resumed."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Let the turn end."""


@dataclass(frozen=True, slots=True)
class ContinueWithMessages:
    """Start another round with these messages added, within the host's retry limit."""

    messages: Iterable[Message | Mapping[str, Any]]


class Paused(_WithReason):
    """Stop the turn before its end. It can be resumed."""


OnPromptSubmitResult: TypeAlias = Union[Continue, Cancel]
PreLlmRequestResult: TypeAlias = Union[Continue, Cancel]
PreToolCallResult: TypeAlias = Union[Continue, Skip, Abort, Pause]
PostToolCallResult: TypeAlias = Union[Continue, Abort]
OnTurnEndResult: TypeAlias = Union[Finish, ContinueWithMessages, Paused]


# Hooks.


class Registered(NamedTuple):
    """A hook with its settings."""

    hook: Callable[[Any], Any]
    settings: dict[str, Any]


def configured(hook: Callable[[Any], Any], **settings: Any) -> Registered:
    """A hook with its own settings: priority, filter, on_failure, timeout, after, ..."""
    return Registered(hook, settings)


def worker_hooks(
    *,
    on_prompt_submit: Iterable[Callable[[Message], Any] | Registered] = (),
    pre_llm_request: Iterable[Callable[[list[Message]], Any] | Registered] = (),
    pre_tool_call: Iterable[Callable[[ToolCallContext], Any] | Registered] = (),
    post_tool_call: Iterable[Callable[[PostToolCallContext], Any] | Registered] = (),
    on_turn_end: Iterable[Callable[[list[Message]], Any] | Registered] = (),
    on_abort: Iterable[Callable[[str], Any] | Registered] = (),
    tools: Mapping[str, Any] | None = None,
    name: str = "worker",
    **settings: Any,
) -> list[Hook]:
    """The hooks to mount: for each event in the given order, unless their priorities differ.

    `settings` are for all hooks; `configured` adds settings for one hook. If a hook raises, the turn ends, unless its
    `on_failure` is "continue" or "deny".
    """
    by_event: dict[str, Iterable[Any]] = {
        "on_prompt_submit": on_prompt_submit,
        "pre_llm_request": pre_llm_request,
        "pre_tool_call": pre_tool_call,
        "post_tool_call": post_tool_call,
        "on_turn_end": on_turn_end,
        "on_abort": on_abort,
    }
    hooks: list[Hook] = []
    for event, listed in by_event.items():
        each = [one if isinstance(one, Registered) else Registered(one, {}) for one in listed]
        width = len(str(len(each)))  # so that sorting by name keeps the given order
        for number, (hook, own) in enumerate(each, 1):
            of_this = {"on_failure": OnFailure.ABORT, **settings, **own}
            hooks.append(_WorkerHook(event, hook, f"{name}.{event}-{number:0{width}}", tools or {}, of_this))
    return hooks


_STAGES = {
    "on_prompt_submit": ("before_prompt", "_prompt"),
    "pre_llm_request": ("before_llm", "_request"),
    "pre_tool_call": ("before_tool", "_before"),
    "post_tool_call": ("after_tool", "_after"),
    "on_turn_end": ("before_finish", "_end"),
}
"""The events that decide: the stage of each, and the method of a hook that asks there."""


class _WorkerHook(FunctionHook):
    """One hook: turns payloads into contexts, and results into decisions."""

    def __init__(
        self, event: str, hook: Callable[[Any], Any], name: str, tools: Mapping[str, Any], settings: dict[str, Any]
    ) -> None:
        self._hook = hook
        self._tools = tools
        if event in _STAGES:
            stage, decide = _STAGES[event]
            super().__init__(name, {stage: getattr(self, decide)}, **settings)
        else:
            super().__init__(name, on_event=self._abort, **{"observe": ("turn_abort",), **settings})

    async def _ask(self, argument: Any, results: Any) -> Any:
        answer = await self._call(self._hook, argument)
        allowed = get_args(results)
        if answer is not None and not isinstance(answer, allowed):
            names = ", ".join(kind.__name__ for kind in allowed)
            raise HookReplyError(f"it returned {type(answer).__name__}, and its event allows {names}")
        return answer

    @property
    def event_timeout(self) -> tuple[float | None, str]:
        return self.own_timeout, "timeout"

    async def _abort(self, event: Event) -> None:
        answer = await self._call_in_time(self._hook, str(event.payload.get("Reason") or ""))
        if answer is not None and not isinstance(answer, Continue):
            why = f"it returned {type(answer).__name__} after the turn had ended"
            self._host.log.warning("its decision has no effect", kind=event.kind, why=why)

    async def _prompt(self, payload: Prompt) -> Decision:
        message = Message.user(payload.prompt)
        answer = await self._ask(message, OnPromptSubmitResult)
        if isinstance(answer, Cancel):
            return AbortTurn(reason=answer.reason)
        if not isinstance(message.content, str):
            raise HookReplyError("it set the content of the user's message to something other than a text")
        return _edit({"prompt": message.content}, {"prompt": payload.prompt})

    async def _request(self, payload: LLMRequest) -> Decision:
        messages = _read(payload.messages)
        answer = await self._ask(messages, PreLlmRequestResult)
        if isinstance(answer, Cancel):
            return AbortTurn(reason=answer.reason)
        return _edit({"messages": _wire(messages)}, {"messages": _wire(_read(payload.messages))})

    async def _before(self, payload: ToolCall) -> Decision:
        context = ToolCallContext(_copy(payload), _meta(payload), self._tools.get(payload.tool))
        match await self._ask(context, PreToolCallResult):
            case Skip(reason):
                return Deny(reason=reason)
            case Abort(reason):
                return AbortTurn(reason=reason)
            case Pause(reason):
                return decisions.Pause(reason=reason)
        before = {"tool": payload.tool, "arguments": payload.arguments}
        return _edit({"tool": context.call.name, "arguments": context.call.input}, before)

    async def _after(self, payload: ToolReturn) -> Decision:
        result = CallResult(payload.result.for_llm, payload.result.is_error)
        context = PostToolCallContext(_copy(payload), result, _meta(payload), self._tools.get(payload.tool))
        answer = await self._ask(context, PostToolCallResult)
        if isinstance(answer, Abort):
            return AbortTurn(reason=answer.reason)
        before = {"for_llm": payload.result.for_llm, "is_error": payload.result.is_error}
        return _edit({"for_llm": context.result.content, "is_error": context.result.is_error}, before)

    async def _end(self, payload: FinishPayload) -> Decision:
        """The decision about the end of a turn. Hooks see the answer as the last message, even if it is not added yet."""
        messages = _read(payload.messages)
        answer = assistant_message(payload.response)
        lent = Message.read(answer) if payload.response and answer not in payload.messages[-1:] else None
        if lent is not None:
            messages.append(lent)
        match await self._ask(messages, OnTurnEndResult):
            case ContinueWithMessages(more):
                return Retry(changes={"messages": [*_wire(messages), *_wire(more)]})
            case Paused(reason):
                return decisions.Pause(reason=reason)
        if lent is not None and lent == Message.read(answer):
            messages = [message for message in messages if message is not lent]
        return _edit({"messages": _wire(messages)}, {"messages": _wire(_read(payload.messages))})


def _copy(payload: ToolCall) -> Call:
    return Call(payload.tool_call_id or "", payload.tool, copy.deepcopy(payload.arguments))


def _meta(payload: ToolCall) -> ToolMeta:
    return ToolMeta(payload.tool, payload.tool_kind, tuple(payload.affected_paths or ()), payload.meta)


def _edit(changes: dict[str, Any], before: dict[str, Any]) -> Decision:
    """The changes to a context as a `Modify`; a `Continue` if there are none."""
    return CONTINUE if encode(changes) == encode(before) else Modify(changes)


def _read(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    return [Message.read(message) for message in messages]


def _wire(messages: Iterable[Message | Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [message.wire() if isinstance(message, Message) else dict(message) for message in messages]
