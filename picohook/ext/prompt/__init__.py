"""Hooks that ask a model, and the model's endpoint."""

from ...extension import Extension, Keyword, Lazy

extension = Extension(
    name="prompt",
    uses=("jcli",),
    public=("model", "model_prompt"),
    tables={"model": Lazy("picohook.ext.prompt.table:ModelTable")},
    keywords={"complete": Keyword(Lazy("picohook.ext.prompt.model:Model"))},
    kinds={"prompt": Lazy("picohook.ext.prompt.spec:PromptSpec")},
)
