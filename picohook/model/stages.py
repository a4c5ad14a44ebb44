"""The stages, one row each. A new stage is a row here, a payload class in `payloads`, and a method of `Asker` that asks it.

The configuration, the protocol, `picohook new` and `call`, the conformance kit, servers and the metrics read the rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..wire import words
from ..wire.answer_form import AnswerForm
from .payloads import (
    Compaction,
    Finish,
    LLMRequest,
    LLMResponse,
    Payload,
    Prompt,
    ToolCall,
    ToolReturn,
)
from .results import RESULT_FIELDS, llm_response, tool_result

P = TypeVar("P", bound=Payload)

FIXED = frozenset({"meta", "context", "tool_call_id"})
"""The fields of a payload that hooks cannot change: the origin and the id of a call."""

_EVERYWHERE = frozenset({words.CONTINUE, words.MODIFY, words.ABORT_TURN, words.HARD_ABORT})


@dataclass(frozen=True, slots=True)
class Stage(Generic[P]):
    """One point of an agent's turn at which hooks are asked."""

    name: str
    mode: str
    """The mode of `hook.hello` that it belongs to."""
    payload: type[P]
    carries: str = ""
    """The field of a reply that holds the edited payload; empty if the reply has the edited `fields` directly."""
    part: str | None = None
    """The one field of the payload that can be edited, if a reply holds only the content of that field."""
    fields: tuple[str, ...] = ()
    """The fields that can be edited, if a reply has them by their own names; if empty, all that are not fixed."""
    actions: frozenset[str] = _EVERYWHERE
    """The actions that a hook may take here."""
    result: Callable[[P, Any], Any] | None = None
    """Makes a result from the one in a `respond`."""
    about: str = field(default="", kw_only=True)
    """One sentence for people who write hooks."""
    method: str = field(init=False)
    """The method of the request."""
    approves: bool = field(init=False)
    """Whether this stage asks for approval: any failure is a denial."""
    editable: frozenset[str] = field(init=False)
    """The fields of the payload that can be edited."""
    form: AnswerForm = field(init=False)
    """The fields that an answer can have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", f"hook.{self.name}")
        object.__setattr__(self, "approves", not self.actions)
        names = {self.part} if self.part else self.fields or self.payload.model_fields.keys() - FIXED
        object.__setattr__(self, "editable", frozenset(names))
        inside = {"result": RESULT_FIELDS, "response": None}[self.part] if self.part else names
        form = AnswerForm(self.name, carries=self.carries, part=self.part or "", editable=inside, actions=self.actions)
        object.__setattr__(self, "form", form)

    def given(self, payload: P | Mapping[str, Any]) -> P:
        """Returns this payload, or the one that a mapping describes. Raises pydantic's `ValidationError`."""
        return payload if isinstance(payload, self.payload) else self.payload.model_validate(payload)


BEFORE_PROMPT: Stage[Prompt] = Stage(
    "before_prompt",
    "prompt",
    Prompt,
    fields=("prompt", "messages"),
    actions=_EVERYWHERE | {words.RETRY},
    about="The user said something.",
)
BEFORE_LLM: Stage[LLMRequest] = Stage(
    "before_llm",
    "llm",
    LLMRequest,
    "request",
    actions=_EVERYWHERE | {words.RESPOND, words.RETRY},
    result=llm_response,
    about="A request is about to go to the model.",
)
AFTER_LLM: Stage[LLMResponse] = Stage(
    "after_llm",
    "llm",
    LLMResponse,
    "response",
    part="response",
    actions=_EVERYWHERE | {words.RETRY},
    about="The model has answered.",
)
BEFORE_TOOL: Stage[ToolCall] = Stage(
    "before_tool",
    "tool",
    ToolCall,
    "call",
    actions=_EVERYWHERE | {words.RESPOND, words.DENY, words.PAUSE},
    result=tool_result,
    about="A tool is about to be called.",
)
APPROVE_TOOL: Stage[ToolCall] = Stage(
    "approve_tool",
    "approve",
    ToolCall,
    "call",
    actions=frozenset(),
    about="May a tool be called? Anything but a clear yes is a no.",
)
AFTER_TOOL: Stage[ToolReturn] = Stage(
    "after_tool", "tool", ToolReturn, "result", part="result", about="A tool was called."
)
BEFORE_FINISH: Stage[Finish] = Stage(
    "before_finish",
    "turn",
    Finish,
    fields=("messages",),
    actions=_EVERYWHERE | {words.RETRY, words.PAUSE},
    about="The turn is about to end.",
)
BEFORE_COMPACT: Stage[Compaction] = Stage(
    "before_compact",
    "compact",
    Compaction,
    fields=("messages",),
    actions=_EVERYWHERE | {words.SKIP},
    about="Messages are about to be compacted.",
)
AFTER_COMPACT: Stage[Compaction] = Stage(
    "after_compact", "compact", Compaction, fields=("messages",), about="Messages were compacted."
)

STAGES: dict[str, Stage[Any]] = {row.name: row for row in list(globals().values()) if isinstance(row, Stage)}
"""All rows above, in the order of a turn."""

MODES = {
    mode: tuple(name for name, row in STAGES.items() if row.mode == mode)
    for mode in dict.fromkeys(row.mode for row in STAGES.values())
}
"""The stages of each mode of `hook.hello`."""
