"""The model of a hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import HookError, Problem
from ...hooks.function import Functions
from ...hooks.time_limit import TimeLimit
from .spec import NO_MODEL, NO_MODEL_HINT

if TYPE_CHECKING:
    from ...hooks.base import HostServices
    from ...model.spec import HookSpec
    from .model_prompt import ModelPrompt


def no_model(spec: HookSpec, host: HostServices) -> Problem | None:
    """The problem with a hook that asks a model, if the host has no model for it."""
    if host.model_of(spec) is not None:
        return None
    return Problem(spec.source or "(code)", f"hooks.{spec.name}", NO_MODEL, NO_MODEL_HINT)


class ModelOfHook:
    """The model of one hook."""

    def __init__(self, spec: HookSpec, host: HostServices) -> None:
        self._spec = spec
        self._model_of = host.model_of
        self._functions = Functions(spec.name, host, "the model could not be asked: ")

    async def ask(self, prompt: ModelPrompt, model: str | None, deadline: float) -> dict[str, Any]:
        """The model's answer. Raises `HookError` if the model does not answer by the deadline."""
        complete = self._model_of(self._spec)
        if complete is None:  # mounting the hook requires a model, but a reload may have removed it since
            raise HookError("there is no model to ask: name one in [model] of the configuration")
        with TimeLimit(deadline):
            answer = await self._functions.call(complete, prompt, model)
        return prompt.answer_in(answer)
