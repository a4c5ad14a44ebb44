"""The fields of a handler, and of a group of handlers, in a hook file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from ....model.spec import Seconds, Settings


class HandlerTable(Settings):
    """One handler in the form of Claude Code, which other agents share. Other keys are ignored, with a warning.

    An agent with other names for these fields has a subclass with aliases.
    """

    model_config = ConfigDict(extra="allow")

    type: str = "command"
    name: str = ""
    description: str = ""
    only_if: str = Field(default="", alias="if")
    timeout: Seconds | None = None
    """In the unit of the form."""
    command: str = ""
    args: tuple[str, ...] | None = None
    in_background: bool = Field(default=False, alias="async")
    rewakes: bool = Field(default=False, alias="asyncRewake")
    shell: Literal["bash", "powershell"] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    header_env: tuple[str, ...] = Field(default=(), alias="allowedEnvVars")
    prompt: str = ""
    model: str | None = None
    continues_on_block: bool = Field(default=False, alias="continueOnBlock")
    on_failure: Literal["continue", "block"] = Field(default="continue", alias="onFailure")
    once: bool = False
    status: str = Field(default="", alias="statusMessage")
    most_blocks: int | None = None
    context_limit: int = Field(default=0, ge=0, alias="additionalContextLimit")

    @property
    def blocks_on_failure(self) -> bool:
        """Whether its failure counts as a block."""
        return self.on_failure == "block"

    @property
    def cannot_run(self) -> str:
        """The reason why it cannot be run on this system; empty if it can."""
        return ""


class GroupTable(Settings):
    """The handlers of one matcher."""

    model_config = ConfigDict(extra="allow")

    matcher: str | None = None
    in_order: bool = Field(default=False, alias="sequential")
    hooks: tuple[dict[str, Any], ...] = ()
