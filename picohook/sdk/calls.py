"""The calls of the stages, one class each: the payload as attributes, and the decisions of the stage as methods.

A decision counts from the moment it is made: `call.deny(...)` denies even if its `return` was forgotten, and no later decision
takes a denial back. Approval is the exception: an approver has to return it.
"""

from __future__ import annotations

from ..wire import words
from .base import Call, Decision, Interception, Marker, text
from .views import ToolResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from .types import OnStage


class BeforePrompt(Interception):
    """A prompt of the user, before the agent acts on it."""

    __slots__ = ()
    stage, mode, edits = "before_prompt", "prompt", ("prompt", "messages")

    prompt: str
    messages: list[dict[str, Any]]

    def modify(
        self, *, prompt: str | None = None, messages: list[dict[str, Any]] | None = None, reason: str = ""
    ) -> Decision:
        """Set these fields, and keep changes that were made in place."""
        return self._modify(reason, {"prompt": prompt, "messages": messages})

    def retry(self, feedback: str = "", *, reason: str = "") -> Decision:
        """Ask the model again, with the feedback as a user message and with all edits."""
        return self._decide(words.RETRY, reason, feedback=feedback)


class BeforeLLM(Interception):
    """A request to the model, before it is sent."""

    __slots__ = ()
    stage, mode, carries = "before_llm", "llm", "request"
    edits = ("model", "messages", "tools", "options", "system_prompt", "graceful_terminal", "channel", "chat_id")

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    options: dict[str, Any]
    system_prompt: str | None
    graceful_terminal: bool

    def modify(
        self,
        *,
        model: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        tools: list[dict[str, Any]] | None = None,
        options: dict[str, Any] | None = None,
        system_prompt: str | None = None,
        reason: str = "",
    ) -> Decision:
        """Set these fields, and keep changes that were made in place."""
        fields = {"model": model, "messages": messages, "tools": tools, "options": options}
        return self._modify(reason, {**fields, "system_prompt": system_prompt})

    def add_tool(self, name: str, description: str = "", parameters: dict[str, Any] | None = None) -> Decision:
        """Offer the model one more tool, unless it has a tool of that name."""
        offered = [tool.get("function") or tool for tool in self.tools]
        if all(tool.get("name") != name for tool in offered):
            schema = parameters or {"type": "object", "properties": {}}
            function = {"name": name, "description": description, "parameters": schema}
            return self._modify("", {"tools": [*self.tools, {"type": "function", "function": function}]})
        return Marker(action=words.CONTINUE)

    def respond(self, response: str | Mapping[str, Any], *, reason: str = "") -> Decision:
        """Answer in place of the model, which is not called. `response` is a message, or its text."""
        message = {"role": "assistant", "content": response} if isinstance(response, str) else dict(response)
        return self._decide(words.RESPOND, reason, result=message)

    def retry(self, feedback: str, *, reason: str = "") -> Decision:
        """Ask the model again, with the feedback as a user message."""
        return self._decide(words.RETRY, reason, feedback=feedback)


class AfterLLM(Interception):
    """The answer of the model."""

    __slots__ = ()
    stage, mode, carries, part = "after_llm", "llm", "response", "response"
    edits = None

    model: str
    response: dict[str, Any]
    messages: list[dict[str, Any]] | None
    partial: bool
    """Whether the model is still writing. Then the response is the text so far."""
    released: int
    """The number of characters of the text that the user has seen already. They cannot be changed."""

    def modify(self, *, response: dict[str, Any] | None = None, reason: str = "") -> Decision:
        """Replace the response. Without one, keep changes that were made in place."""
        if response is not None:
            self._params["response"] = response
        return self._modify(reason, {})

    def retry(self, feedback: str, *, reason: str = "") -> Decision:
        """Ask the model again, with the feedback as a user message."""
        return self._decide(words.RETRY, reason, feedback=feedback)


class OfTool(Call):
    """The base of the calls about a tool."""

    __slots__ = ()

    tool: str
    arguments: dict[str, Any]
    tool_call_id: str | None
    tool_kind: Literal["readonly", "write", "execute"] | None
    affected_paths: list[str] | None


class BeforeTool(OfTool, Interception):
    """A tool call, before the tool runs."""

    __slots__ = ()
    stage, mode, carries = "before_tool", "tool", "call"
    edits = ("tool", "arguments", "tool_kind", "affected_paths", "channel", "chat_id")

    def modify(self, *, tool: str | None = None, arguments: dict[str, Any] | None = None, reason: str = "") -> Decision:
        """Set these fields, and keep changes that were made in place."""
        return self._modify(reason, {"tool": tool, "arguments": arguments})

    def deny(self, reason: str = "") -> Decision:
        """Deny the call: the tool does not run, and the model gets the reason."""
        return self._decide(words.DENY, reason)

    def respond(
        self,
        for_llm: str,
        *,
        for_user: str = "",
        is_error: bool = False,
        silent: bool = False,
        media: list[Any] | None = None,
        reason: str = "",
    ) -> Decision:
        """Answer in place of the tool, which does not run."""
        more = {"for_user": for_user, "is_error": is_error, "silent": silent, "media": media}
        result = {"for_llm": for_llm, **{name: value for name, value in more.items() if value}}
        return self._decide(words.RESPOND, reason, result=result)

    def pause(self, reason: str = "") -> Decision:
        """End the turn here, and hand control back to the program that runs the agent."""
        return self._decide(words.PAUSE, reason)


class AfterTool(OfTool, Interception):
    """The result of a tool."""

    __slots__ = ()
    stage, mode, carries, part = "after_tool", "tool", "result", "result"
    edits = tuple(ToolResult._names.get(name, name) for name in ToolResult.__annotations__)  # noqa: SLF001

    duration: int
    """The time that the tool ran, in nanoseconds."""
    error: str | None

    @property
    def result(self) -> ToolResult:
        """The result that the tool returned."""
        return ToolResult(self.params.setdefault("result", {}))

    def modify(
        self,
        *,
        for_llm: str | None = None,
        for_user: str | None = None,
        silent: bool | None = None,
        is_error: bool | None = None,
        media: list[Any] | None = None,
        artifact_tags: list[str] | None = None,
        reason: str = "",
    ) -> Decision:
        """Set these fields of the result, and keep changes that were made in place."""
        fields = {"for_llm": for_llm, "for_user": for_user, "silent": silent, "is_error": is_error}
        return self._modify(reason, {**fields, "media": media, "artifact_tags": artifact_tags})


class ApproveTool(OfTool):
    """A tool call that needs approval. Anything else denies it: None, an exception, no answer in time."""

    __slots__ = ("_yes",)
    stage, mode = "approve_tool", "approve"

    def approve(
        self,
        *,
        for_session: bool = False,
        for_agent: bool = False,
        for_project: bool = False,
        like: Mapping[str, Any] | None = None,
        times: int | None = None,
        seconds: float | None = None,
    ) -> Decision:
        """Approve the call. This counts only if the handler returns it.

        With one of `for_session`, `for_agent` and `for_project`, the yes is also for later calls of this tool there: those with
        the same arguments, at most so many `times`, or those that are `like` this one, for so many `seconds`. `like` has an
        entry for each argument that may differ: `{"under": DIRECTORY}`, `{"starts": [WORD, ...]}` or `"anything"`. Raises
        `ValueError` for a grant to none or several of them.
        """
        limits = {"like": like, "times": times, "seconds": seconds}
        grant = {name: value for name, value in limits.items() if value is not None}
        scopes = {"session": for_session, "agent": for_agent, "project": for_project}
        chosen = [scope for scope, wanted in scopes.items() if wanted]
        if not chosen and not grant:
            return Decision(approved=True)
        if len(chosen) != 1:
            raise ValueError(f"{self.stage}: a grant is for_session, for_agent or for_project, and one of them alone")
        return Decision(approved=True, grant={"for": chosen[0], **grant})

    def deny(self, reason: str = "") -> Decision:
        """Deny the call, and say why."""
        decision = Decision(approved=False, reason=text(reason)) if reason else Decision(approved=False)
        self.decision = decision
        return decision

    def take(self, answer: object) -> None:
        if self.decision is not None:
            return
        if isinstance(answer, bool):
            answer = Decision(approved=answer)
        elif answer is None:
            answer = Decision(approved=False)
        elif not isinstance(answer, dict):
            raise TypeError(
                f"{self.stage}: a handler returns a decision, True, False or None, and not {type(answer).__name__}"
            )
        if not isinstance(answer.get("approved"), bool):
            raise ValueError(f"{self.stage}: an answer has `approved`, in lower case, with True or False")
        if answer.get("approved") is not True:
            self.decision = answer
        else:  # of several handlers, all have to give the same grant
            self._yes = answer if answer == getattr(self, "_yes", answer) else {"approved": True}

    def reply(self) -> dict[str, Any]:
        if self.decision is not None:
            return self.decision
        self._changed(self._before())  # raises if anything was changed: an approval is about the call that was sent
        return self._yes


class BeforeFinish(Interception):
    """The response that the turn is about to end with."""

    __slots__ = ()
    stage, mode, edits = "before_finish", "turn", ("messages",)

    prompt: str
    messages: list[dict[str, Any]]
    response: dict[str, Any]
    system_prompt: str | None
    model: str | None

    def modify(self, *, messages: list[dict[str, Any]] | None = None, reason: str = "") -> Decision:
        """Replace the messages, or keep changes that were made in place."""
        return self._modify(reason, {"messages": messages})

    def retry(self, feedback: str = "", *, reason: str = "") -> Decision:
        """Ask the model again, with the feedback as a user message and with all edits."""
        return self._decide(words.RETRY, reason, feedback=feedback)

    def pause(self, reason: str = "") -> Decision:
        """End the turn here, and hand control back to the program that runs the agent."""
        return self._decide(words.PAUSE, reason)


class AfterCompact(Interception):
    """The messages of the conversation, after they were compacted."""

    __slots__ = ()
    stage, mode, edits = "after_compact", "compact", ("messages",)

    scope: Literal["micro", "auto"]
    messages: list[dict[str, Any]]
    system_prompt: str | None
    model: str | None

    def modify(self, *, messages: list[dict[str, Any]] | None = None, reason: str = "") -> Decision:
        """Replace the messages, or keep changes that were made in place."""
        return self._modify(reason, {"messages": messages})


class BeforeCompact(AfterCompact):
    """The messages of the conversation, before they are compacted."""

    __slots__ = ()
    stage = "before_compact"

    def skip(self, reason: str = "") -> Decision:
        """Do not compact."""
        return self._decide(words.SKIP, reason)


class Decorators:
    """The decorators of an app: one for each stage."""

    before_prompt: OnStage[BeforePrompt]
    before_llm: OnStage[BeforeLLM]
    after_llm: OnStage[AfterLLM]
    before_tool: OnStage[BeforeTool]
    approve_tool: OnStage[ApproveTool]
    after_tool: OnStage[AfterTool]
    before_finish: OnStage[BeforeFinish]
    before_compact: OnStage[BeforeCompact]
    after_compact: OnStage[AfterCompact]


__all__ = ["AfterLLM", "AfterTool", "ApproveTool", "BeforeLLM", "BeforePrompt", "BeforeTool"]
__all__ += ["AfterCompact", "BeforeCompact", "BeforeFinish"]
STAGES: dict[str, type[Call]] = {call.stage: call for call in map(globals().__getitem__, __all__)}
"""The calls, by their stages, in the order of a turn."""
