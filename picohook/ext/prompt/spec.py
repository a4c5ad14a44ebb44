"""The settings of a prompt hook."""

from typing import Any

from pydantic import Field

from ...extension import Lazy
from ...model.spec import HookSpec, Seconds, Service, Text

HOOK: Lazy[Any] = Lazy("picohook.ext.prompt.hook:PromptHook")
TIMEOUT = 30.0
"""The default timeout in seconds: models take longer than programs."""


class PromptSpec(HookSpec):
    """`prompt = "..."`: a model is asked."""

    prompt: Text = Field(description="A question to a model, with fields such as {{tool_name}}.")
    model: str | None = Field(default=None, description="The model that answers the prompt.")
    timeout: Seconds | None = Field(default=TIMEOUT, description="Seconds for one question, except at approve_tool.")

    @property
    def kind(self) -> str:
        return "prompt"

    @property
    def is_run_anew(self) -> bool:
        return True

    @property
    def wants(self) -> tuple[str, ...]:
        return ("model",)

    def service(self) -> Service:
        from .model import model_of

        return model_of(self)

    def make(self) -> Any:
        return HOOK.load()(self)
