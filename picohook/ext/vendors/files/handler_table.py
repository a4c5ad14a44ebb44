"""The fields of a handler, and of a group of handlers, in a hook file."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from ....model.spec import Seconds, Settings


class HandlerTable(Settings):
    """One handler, with the keys of all vendors. Only those that its own vendor knows are read, and others are ignored."""

    model_config = ConfigDict(extra="allow")

    type: str = "command"
    name: str = ""
    only_if: str = Field(default="", alias="if")
    timeout: Seconds | None = None
    """In the unit of the vendor."""
    timeout_sec: Seconds | None = Field(default=None, alias="timeoutSec")
    command: str = ""
    bash: str = ""
    powershell: str = ""
    program: str = Field(default="", alias="exec")
    """A program that runs without a shell."""
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
    fails_closed: bool = Field(default=False, alias="failClosed")
    once: bool = False
    most_blocks: int | None = Field(default=None, ge=0, alias="loop_limit")
    context_limit: int = Field(default=0, ge=0, alias="additionalContextLimit")

    @model_validator(mode="after")
    def _one_command(self) -> Self:
        texts = self.bash or self.command or self.powershell
        if self.program and texts:
            raise ValueError("has `exec`, and a command for a shell: only one of them can run")
        object.__setattr__(self, "command", self.program or texts)
        if self.program:
            object.__setattr__(self, "args", self.args or ())
        return self

    def with_texts(self, texts: Mapping[str, str]) -> Self:
        """The handler with these texts in its command replaced, each by its value."""
        command, args = self.command, self.args
        for text, value in texts.items():
            command = command.replace(text, value)
            args = args and tuple(arg.replace(text, value) for arg in args)
        return self.model_copy(update={"command": command, "args": args})

    @property
    def blocks_on_failure(self) -> bool:
        """Whether its failure counts as a block."""
        return self.fails_closed or self.on_failure == "block"

    @property
    def is_for_windows(self) -> bool:
        """Whether it has a command for PowerShell alone."""
        return bool(self.powershell) and not (self.program or self.bash or "command" in self.model_fields_set)


class GroupTable(Settings):
    """The handlers of one matcher."""

    model_config = ConfigDict(extra="allow")

    matcher: str | None = None
    in_order: bool = Field(default=False, alias="sequential")
    hooks: tuple[dict[str, Any], ...] = ()
