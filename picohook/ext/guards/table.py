"""`[guards]`: the guard of a configuration file, as a hook that is asked about each tool call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, JsonValue

from ...config.table import Table
from ...errors import PicohookError
from ...extension import Lazy
from ...model.spec import Canary, HookSpec, OnFailure
from .names import ALL, USUAL

if TYPE_CHECKING:
    from ...config.document import Config
    from ...config.problems import Problems

HOOK: Lazy[Any] = Lazy("picohook.ext.guards.hook:GuardsHook")
CANARY = Canary(tool="bash", arguments={"command": "rm -rf /"})


class GuardsTable(Table):
    """Guards: rules about tool calls, which read a call as the shell, the file system or the network would."""

    packs: tuple[str, ...] = Field(default=USUAL, description=f"The packs of rules: {', '.join(ALL)}.")
    allow: tuple[str, ...] = Field(
        default=(), description='Commands that no rule but those of "self" stops, with `*` for further words.'
    )
    undecided: Literal["ask", "deny", "continue"] = Field(
        default="ask", description="The decision about a call of which something that may do harm cannot be known."
    )
    rule: tuple[dict[str, JsonValue], ...] = Field(default=(), description="Rules of your own, as packs have them.")

    def apply(self, config: Config, problems: Problems) -> Config:
        try:
            from .judge import Judge

            Judge(self.packs, allow=self.allow, undecided=self.undecided, own=self.rule)
        except PicohookError as error:
            problems.add("guards", str(error))
        name = "guards"
        spec = GuardsSpec(
            name=name,
            stages=("before_tool",),
            observe=("session_end",),
            on_failure=OnFailure.DENY,
            guard=True,
            packs=self.packs,
            allow=self.allow,
            undecided=self.undecided,
            rules=self.rule,
            source=str(config.path),
            dir=str(config.project),
            canary=CANARY if "shell" in self.packs else None,
        )
        if name in config.key_paths:
            problems.add("guards", f"a hook is named {name}, too", "rename the hook")
        return replace(config, hooks=(*config.hooks, spec), key_paths={**config.key_paths, name: "guards"})


class GuardsSpec(HookSpec):
    """The settings of a guard."""

    packs: tuple[str, ...] = Field(default=USUAL, description="The packs of rules.")
    allow: tuple[str, ...] = Field(default=(), description="Commands that no rule but those of `self` stops.")
    undecided: Literal["ask", "deny", "continue"] = Field(
        default="ask", description="The decision about what is not known."
    )
    rules: tuple[dict[str, JsonValue], ...] = Field(default=(), description="A person's own rules.")

    def make(self) -> Any:
        return HOOK.load()(self)
