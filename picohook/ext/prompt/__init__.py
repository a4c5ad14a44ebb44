"""Hooks that ask a model, and the model's endpoint."""

from __future__ import annotations

from ...extension import Extension, Lazy

extension = Extension(
    name="prompt",
    uses=("jcli",),
    public=("endpoints", "model_of_hook", "model_prompt"),
    tables={"model": Lazy("picohook.ext.prompt.table:ModelTable")},
    kinds={"prompt": Lazy("picohook.ext.prompt.spec:PromptSpec")},
)
