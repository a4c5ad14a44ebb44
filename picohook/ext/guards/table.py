"""`[guards]`: the guard of a configuration file, as a hook that is asked about each tool call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field, JsonValue

from ...config.table import Table
from ...errors import PicohookError
from ...extension import Lazy
from ...model.spec import Canary, HookSpec, OnFailure
from .names import ALL, USUAL

if TYPE_CHECKING:
    from ...config.document import Config
    from ...config.problems import Problems

HOOK: Lazy[Any] = Lazy("picohook.ext.guards.hook:GuardsHook")
SHADOW = "guards-shadow"
"""The hook of the packs in shadow."""
CANARY = Canary(tool="bash", arguments={"command": "rm -rf /"})


class _Guarding(BaseModel):
    """The keys of the table, which its hook has too."""

    packs: tuple[str, ...] = Field(default=USUAL, description=f"The packs of rules: {', '.join(ALL)}.")
    allow: tuple[str, ...] = Field(
        default=(), description='Commands that no rule but those of "self" stops, with `*` for further words.'
    )
    undecided: Literal["ask", "deny", "continue"] = Field(
        default="ask", description="The decision about a call of which something that may do harm cannot be known."
    )
    trusted: tuple[str, ...] = Field(
        default=(),
        description="MCP servers that are believed about their tools: a call's `tool_kind` says what it does to its paths.",
    )
    rule: tuple[dict[str, JsonValue], ...] = Field(default=(), description="Rules of your own, as packs have them.")


class GuardsTable(_Guarding, Table):
    """Guards: rules about tool calls, which read a call as the shell, the file system or the network would."""

    shadow: tuple[str, ...] = Field(
        default=(), description="Packs in shadow: what they would decide is noted, and they decide nothing."
    )

    def apply(self, config: Config, problems: Problems) -> Config:
        try:
            from .judge import Judge

            Judge((*self.packs, *self.shadow), allow=self.allow, undecided=self.undecided, own=self.rule)
        except PicohookError as error:
            problems.add("guards", str(error))
        asked = {"stages": ("before_tool",), "observe": ("session_end",)}
        common = {
            **self.model_dump(exclude={"shadow"}),
            **asked,
            "source": str(config.path),
            "dir": str(config.project),
        }
        canary = CANARY if "shell" in self.packs else None
        hooks = [GuardsSpec(**common, name="guards", on_failure=OnFailure.DENY, guard=True, canary=canary)]
        if self.shadow:
            others = {"name": SHADOW, "packs": self.shadow, "undecided": "continue", "rule": (), "mode": "shadow"}
            hooks.append(GuardsSpec.with_keys(("mode",))(**{**common, **others}))
        for hook in hooks:
            if hook.name in config.key_paths:
                problems.add("guards", f"a hook is named {hook.name}, too", "rename the hook")
        places = {hook.name: "guards" for hook in hooks}
        return replace(config, hooks=(*config.hooks, *hooks), key_paths={**config.key_paths, **places})


class GuardsSpec(_Guarding, HookSpec):
    """The settings of a guard."""

    @property
    def kind(self) -> str:
        return "guards"

    @property
    def runs(self) -> str:
        return f"rules about {', '.join(self.packs)}"

    def make(self) -> Any:
        return HOOK.load()(self)
