"""The settings of a prompt hook."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ...extension import Lazy
from ...model.spec import HookSpec, Seconds, Text

HOOK: Lazy[Any] = Lazy("picohook.ext.prompt.hook:PromptHook")
ASKED_MODEL: Lazy[Any] = Lazy("picohook.ext.prompt.endpoints:asked_model")
NO_MODEL = "asks a model, and there is no model"
NO_MODEL_HINT = "name one in [model] of the configuration, or give the host one: Host(..., complete=...)"
TIMEOUT = 30.0
"""The default timeout in seconds: models take longer than programs."""


class PromptSpec(HookSpec):
    """`prompt = "..."`: a model is asked."""

    prompt: Text = Field(description="A prompt for a model, with {{tool_name}} and the like.")
    model: str | None = Field(default=None, description="With prompt: the model; by default the embedder's choice.")
    timeout: Seconds | None = Field(default=TIMEOUT, description="Seconds for an intercept stage.")

    @property
    def kind(self) -> str:
        return "prompt"

    @property
    def is_run_anew(self) -> bool:
        return True

    def make(self) -> Any:
        return HOOK.load()(self)

    def asked_model(self, layers: Any) -> Any:
        return ASKED_MODEL.load()(self, layers)
