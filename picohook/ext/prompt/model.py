"""The models that hooks ask: the one that the program gives its host, or those of the configuration's tables `[model]`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from ...engine.part import Part
from ...errors import HookError, Problem
from ...hooks.base import TimeLimit
from ...hooks.function import Functions
from ...model.spec import Service
from ...wire.extras import how_to_install
from ...wire.text import escape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from ...hooks.base import HostServices
    from ...model.spec import HookSpec
    from .model_prompt import ModelPrompt
    from .table import ModelTable

    Complete: TypeAlias = Callable[[Any, str | None], str | Awaitable[str]]
    """Asks a model: takes a `ModelPrompt` and a model's name (None for the default), and returns the text of the answer."""

NO_MODEL = "asks a model, and there is no model"
NO_MODEL_HINT = "name one in [model] of the configuration, or give the host one: Host(..., complete=...)"


class Model(Part):
    """`Host(complete=...)`: the model of all hooks of a host. It replaces those of the configuration."""

    def __init__(self, complete: Complete) -> None:
        self.complete = complete


class Endpoints:
    """The functions of one host that ask the models of its configuration."""

    def __init__(self, _host: HostServices) -> None:
        self._made: dict[str, Complete] = {}
        self._lock = anyio.Lock()

    async def of(self, table: ModelTable) -> Complete:
        """Returns the function that asks this model. Raises `PicohookError` if an extra is missing."""
        async with self._lock:
            key = table.model_dump_json()
            if key not in self._made:  # in a thread, because this may read certificates
                self._made[key] = await anyio.to_thread.run_sync(_client, table)
            return self._made[key]


class ModelOfHook:
    """The model of one hook."""

    def __init__(self, spec: HookSpec, host: HostServices) -> None:
        self._given = host.part(Model)
        self._endpoints = host.shared(Endpoints)
        self._functions = Functions(spec.name, host, "the model could not be asked: ")

    async def ask(self, spec: HookSpec, prompt: ModelPrompt, model: str | None, deadline: float) -> dict[str, Any]:
        """The model's answer. `spec` has the hook's settings, which a reload may have replaced.

        Raises `HookError` if the model does not answer by the deadline.
        """
        with TimeLimit(deadline):
            answer = await self._functions.call(await self._complete(spec), prompt, model)
        return prompt.answer_in(answer)

    async def _complete(self, spec: HookSpec) -> Complete:
        if self._given is not None:
            return self._given.complete
        if "model" not in spec.tables:  # a reload has removed the hook, and its last questions are asked
            raise HookError("there is no model to ask: name one in [model] of the configuration")
        return await self._endpoints.of(spec.tables["model"][1])


def problem_with_model(spec: HookSpec, host: HostServices) -> Problem | None:
    """The reason why a hook that asks a model cannot ask it on this host; None if it can."""
    return model_of(spec).problem if host.part(Model) is None else None


def model_of(spec: HookSpec) -> Service:
    """The model that the configuration names for a hook, and the reason why it cannot be asked on this machine."""
    if "model" not in spec.tables:
        return Service("", Problem(spec.source or "(code)", f"hooks.{spec.name}", NO_MODEL, NO_MODEL_HINT))
    file, table = spec.tables["model"]
    return Service(table.shown(getattr(spec, "model", None)), _unusable(escape(file), table))


def _unusable(file: str, table: ModelTable) -> Problem | None:
    if table.key_env and not os.environ.get(table.key_env):
        why = f"the environment has no {table.key_env}, which should have the model's key"
        return Problem(file, "model.key_env", why, "set it where the host is started")
    try:
        import httpx  # noqa: F401 - an extra
    except ImportError:
        return Problem(file, "model", "asking a model needs httpx", how_to_install("openai"))
    return None


def _client(table: ModelTable) -> Complete:
    from .openai_chat import openai_chat  # an extra

    key = os.environ[table.key_env] if table.key_env else None
    return openai_chat(table.base_url, key, model=table.name, timeout=table.timeout, **table.options)
