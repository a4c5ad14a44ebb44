"""The model of a hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import HookError
from ...hooks.function import Functions
from ...hooks.time_limit import TimeLimit

if TYPE_CHECKING:
    from ...hooks.base import HostServices
    from ...model.spec import HookSpec
    from .model_prompt import ModelPrompt


class ModelOfHook:
    """The model of one hook."""

    def __init__(self, spec: HookSpec, host: HostServices) -> None:
        self._spec = spec
        self._model_of = host.model_of
        self._functions = Functions(spec.name, host, "the model could not be asked: ")

    async def ask(self, prompt: ModelPrompt, model: str | None, deadline: float) -> dict[str, Any]:
        """The model's answer. Raises `HookError` if there is none by the deadline."""
        complete = None if self._model_of is None else self._model_of(self._spec)
        if complete is None:  # mounting the hook requires a model, but a reload may have removed it since
            raise HookError("there is no model to ask: name one in [model] of the configuration")
        with TimeLimit(deadline):
            return prompt.answer_in(await self._functions.call(complete, prompt, model))
