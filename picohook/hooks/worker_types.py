"""What typed hooks are given, which they change in place, and what they return, which each event knows some of."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from ..model.payloads import Meta

# What a hook is given.


@dataclass(slots=True)
class Message:
    """One message of the conversation."""

    role: str
    content: Any = None
    """A text, or a list of parts."""
    more: dict[str, Any] = field(default_factory=dict)
    """Its other fields: tool_calls, tool_call_id, ..."""

    @classmethod
    def user(cls, text: str) -> Self:
        """What the user says."""
        return cls("user", text)

    @classmethod
    def system(cls, text: str) -> Self:
        """What the system says."""
        return cls("system", text)

    @classmethod
    def assistant(cls, text: str) -> Self:
        """What the assistant says."""
        return cls("assistant", text)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """From its plain form."""
        more = {key: copy.deepcopy(value) for key, value in given.items() if key != "role"}
        return cls(given.get("role", ""), more.get("content"), more)

    def wire(self) -> dict[str, Any]:
        """Its plain form: fields that it came with stay, in their order."""
        content = {} if self.content is None and "content" not in self.more else {"content": self.content}
        return {"role": self.role, **self.more, **content}


@dataclass(slots=True)
class Call:
    """A tool call; its name and its input can be changed."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass(slots=True)
class CallResult:
    """What came of a tool call, for the model."""

    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolMeta:
    """What is known of a tool, and of where it is called."""

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
    """The tool itself, of those that `worker_hooks` was given."""


@dataclass(slots=True)
class PostToolCallContext:
    """A tool was called; the result can be changed."""

    call: Call
    result: CallResult
    meta: ToolMeta
    tool: Any


# What it returns.


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on, to the hooks after this one too."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The run ends before it began."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """This tool is not called; the model is told, and the turn goes on."""

    reason: str = "skipped"


@dataclass(frozen=True, slots=True)
class Abort:
    """The turn ends with an error."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """The turn stops here, and can be resumed."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """The turn may end."""


@dataclass(frozen=True, slots=True)
class ContinueWithMessages:
    """The turn goes on, with these messages added; within the host's retry limit."""

    messages: Iterable[Message | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Paused:
    """The turn stops before its end, and can be resumed."""

    reason: str = ""


OnPromptSubmitResult: TypeAlias = Union[Continue, Cancel]
PreLlmRequestResult: TypeAlias = Union[Continue, Cancel]
PreToolCallResult: TypeAlias = Union[Continue, Skip, Abort, Pause]
PostToolCallResult: TypeAlias = Union[Continue, Abort]
OnTurnEndResult: TypeAlias = Union[Finish, ContinueWithMessages, Paused]
