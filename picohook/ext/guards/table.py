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


class GuardsTable(_Guarding, Table):
    """Guards: rules about tool calls, which read a call as the shell, the file system or the network would."""

    rule: tuple[dict[str, JsonValue], ...] = Field(default=(), description="Rules of your own, as packs have them.")

    def apply(self, config: Config, problems: Problems) -> Config:
        try:
            from .judge import Judge

            Judge(self.packs, allow=self.allow, undecided=self.undecided, own=self.rule)
        except PicohookError as error:
            problems.add("guards", str(error))
        if "guards" in config.key_paths:
            problems.add("guards", "a hook is named guards, too", "rename the hook")
        spec = GuardsSpec(
            name="guards",
            stages=("before_tool",),
            observe=("session_end",),
            on_failure=OnFailure.DENY,
            guard=True,
            **self.model_dump(exclude={"rule"}),
            rules=self.rule,
            source=str(config.path),
            dir=str(config.project),
            canary=CANARY if "shell" in self.packs else None,
        )
        return replace(config, hooks=(*config.hooks, spec), key_paths={**config.key_paths, "guards": "guards"})


class GuardsSpec(_Guarding, HookSpec):
    """The settings of a guard."""

    rules: tuple[dict[str, JsonValue], ...] = Field(default=(), description="A person's own rules.")

    def make(self) -> Any:
        return HOOK.load()(self)
