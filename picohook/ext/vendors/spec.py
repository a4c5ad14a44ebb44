"""The settings of a group: the handlers of one event in another agent's hook file, which are one hook of the chain."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ...errors import HookError
from ...extension import Lazy
from ...model.filters import Filter
from ...model.payloads import Prompt
from ...model.spec import HookSpec
from .contract import Facts, Failures, Rule
from .dialects import vendor_named
from .tools import ToolAlias  # noqa: TC001 - pydantic reads it at run time

if TYPE_CHECKING:
    from ...model.events import Event
    from ...model.payloads import Payload
    from ...model.spec import Service
    from .contract import HandlerInput
    from .vendor import Vendor

_SESSION = str(uuid.uuid4())
"""The session's id where a payload has none."""
HOOK: Lazy[Any] = Lazy("picohook.ext.vendors.handlers:HandlersHook")


class HandlerSpec(HookSpec):
    """A handler as an ordinary hook: a command, a prompt or a URL; or nothing, if it cannot be run."""

    rule: Rule
    """When it runs, and what its result may do."""
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    """The headers of the request, for a handler with a URL."""
    header_env: tuple[str, ...] = ()
    """The environment variables that its headers may name."""
    prompt: str | None = None
    model: str | None = None

    @property
    def kind(self) -> str:
        return super().kind if self.rule.kind == "command" else "url" if self.url else self.rule.kind

    @property
    def runs(self) -> str:
        return f"nothing: {self.rule.why}" if self.rule.why else self.url or super().runs

    @property
    def wants(self) -> tuple[str, ...]:
        return ("model",) if self.kind == "prompt" else ()

    def service(self) -> Service | None:
        from ..prompt.model import model_of  # files without a prompt do without

        return model_of(self) if self.wants else None

    @property
    def examined(self) -> HookSpec:
        """The hook with the variables in its command replaced by the directories that they name."""
        text = self.run
        if text is None and len(self.command) == 3 and self.command[1] in {"-c", "-lc"}:  # noqa: PLR2004 - bash -c TEXT
            text = self.command[2]
        if text is None:
            return self
        for name, value in self.env.items():
            if re.fullmatch(r"[\w@%+:,./= -]*", value):
                text = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", lambda _, value=value: value, text)  # type: ignore[misc]
        return self.model_copy(update={"run": text, "command": ()})


class Selection(Filter):
    """Matches payloads and events that at least one handler of a group is asked about."""

    dialect: str
    event: str
    handlers: tuple[HandlerSpec, ...]
    project: str = "/"
    tools: dict[str, ToolAlias] = Field(default_factory=dict)
    strict: bool = False
    """Whether a call is refused if handlers may read another argument of it than the tool does."""

    @property
    def contract(self) -> Vendor:
        """The contract of the vendor."""
        return vendor_named(self.dialect)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the handlers."""
        return tuple(handler.rule for handler in self.handlers)

    @property
    def has_background(self) -> bool:
        """Whether a handler runs in the background, so that its texts come with the next prompt."""
        return any(rule.in_background for rule in self.rules)

    def chosen(self, payload: Payload | Event, *, blocks: int = 0) -> tuple[HandlerInput | None, list[int]]:
        """Returns the input of handlers about a payload, and the indexes of those that run.

        `blocks` is the number of times that handlers have kept this turn from ending. Raises `HookError` for an unclear call.
        """
        facts = Facts(self.project, _SESSION, blocks, self.tools, datetime.now(UTC).isoformat())
        handler_input = self.contract.encode(self.event, payload, facts)
        if handler_input is None:
            return None, []
        call = handler_input.call
        unclear = self.strict and call is not None and (call.unclear or call.lacks)
        if call is not None and unclear and self._may_concern(handler_input, facts):
            lacks = f"the call has no `{call.lacks}`, and may have it by another name"
            why = f"{call.unclear} may be the same field of the call, and differ" if call.unclear else lacks
            raise HookError(f"{why}: name the argument that it is in `tools` of [[foreign]]")
        return handler_input, self.contract.select(self.event, self.rules, handler_input, facts)

    def _may_concern(self, handler_input: HandlerInput, facts: Facts) -> bool:
        """Whether a handler may want the call, whatever its arguments are. If the call lacks a field, it must name the tool."""
        if not self.contract.events[self.event].matched.startswith("tool"):
            return True
        rules = [rule.model_copy(update={"only_if": ""}) for rule in self.rules]
        if handler_input.call is not None and not handler_input.call.unclear:
            rules = [rule for rule in rules if rule.matcher not in {"", "*", ".*"}]  # the others may be about no field
        return bool(self.contract.select(self.event, rules, handler_input, facts))

    def matches(self, payload: Payload) -> bool:
        if self.has_background and isinstance(payload, Prompt):
            return True
        return self._wanted(payload)

    def matches_event(self, event: Event) -> bool:
        return self._wanted(event)

    def _wanted(self, payload: Payload | Event) -> bool:
        try:
            return bool(self.chosen(payload)[1])
        except Exception:  # when the hook is asked, it fails in the same way, and its failure is counted
            return True


class GroupSpec(HookSpec):
    """The handlers of one event in one hook file. They answer as one hook."""

    filter: Selection
    failures: Failures = "strict"
    file: str = ""
    """The file that they are written in."""

    @property
    def kind(self) -> str:
        return "handlers"

    def make(self) -> Any:
        return HOOK.load()(self)

    @property
    def runs(self) -> str:
        return "; ".join(handler.runs for handler in self.filter.handlers)

    @property
    def settings_files(self) -> tuple[str, ...]:
        return (self.file,) if self.file and self.file != self.source else ()

    @property
    def members(self) -> tuple[HookSpec, ...]:
        own = {"name": self.name, "source": self.source, "layer": self.layer, "tables": self.tables}
        return tuple(handler.model_copy(update=own) for handler in self.filter.handlers)

    @property
    def wants(self) -> tuple[str, ...]:
        return tuple({key: None for handler in self.filter.handlers for key in handler.wants})

    def service(self) -> Service | None:
        return next((asked for member in self.members if (asked := member.service()) is not None), None)
