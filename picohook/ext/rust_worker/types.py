"""The types of worker hooks: contexts that a hook can change in place, and the results that each event allows."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from ...model.payloads import Meta

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


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the run before it begins."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not call this tool. The model is told, and the turn continues."""

    reason: str = "skipped"


@dataclass(frozen=True, slots=True)
class Abort:
    """End the turn with an error."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop the turn here. It can be resumed."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """Let the turn end."""


@dataclass(frozen=True, slots=True)
class ContinueWithMessages:
    """Start another round with these messages added, within the host's retry limit."""

    messages: Iterable[Message | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Paused:
    """Stop the turn before its end. It can be resumed."""

    reason: str = ""


OnPromptSubmitResult: TypeAlias = Union[Continue, Cancel]
PreLlmRequestResult: TypeAlias = Union[Continue, Cancel]
PreToolCallResult: TypeAlias = Union[Continue, Skip, Abort, Pause]
PostToolCallResult: TypeAlias = Union[Continue, Abort]
OnTurnEndResult: TypeAlias = Union[Finish, ContinueWithMessages, Paused]
