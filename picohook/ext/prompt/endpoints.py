"""The models that the prompt hooks of a configuration ask."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...errors import ConfigError, Problem
from ...projects.layers import user_table
from ...wire.extras import how_to_install
from ...wire.text import escape
from .spec import NO_MODEL, NO_MODEL_HINT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...config.document import Config
    from ...hooks.base import Complete
    from ...model.spec import HookSpec
    from ...projects.layers import Layers
    from .table import ModelTable


LACKS_MODEL, WAY_OUT = f"{NO_MODEL}: a host does not start", NO_MODEL_HINT
"""The reason why a hook cannot be used, and what to do."""


def model_of(layers: Layers, config: Config) -> tuple[str, ModelTable] | None:
    """The model that this file's hooks ask, with the file that names it; None if no file names one.

    It is the model of this file, or else of the nearest file before it, in the order in which files are asked. So only a
    project's own hooks, and those of projects inside it, ask the project's model.
    """
    before = layers.configs[layers.configs.index(config) :: -1]
    found = next(((str(one.path), one.tables["model"]) for one in before if "model" in one.tables), None)
    return (user_table("model") or found) if "model" not in config.tables and config.layer is None else found


def asks_model(spec: HookSpec) -> bool:
    """Whether the hook, or a handler of its group, asks a model."""
    return any(member.kind == "prompt" for member in spec.members)


def prompt_hooks(layers: Layers) -> Iterator[tuple[Config, HookSpec, tuple[str, ModelTable] | None]]:
    """Each hook that asks a model, with its file and the model."""
    for config in layers.configs:
        asking = [spec for spec in config.hooks if asks_model(spec)]
        found = model_of(layers, config) if asking else None
        for spec in asking:
            yield config, spec, found


def model_clients(layers: Layers, environ: Mapping[str, str] = os.environ) -> Callable[[HookSpec], Complete | None]:
    """The `model_of` of a host: a function from a hook to its model's client, or to None if no file names a model.

    Raises `ConfigError` if a model cannot be asked. This may read certificates, which takes a while.
    """
    chosen = {str(config.path): found for config, _, found in prompt_hooks(layers) if found is not None}
    models = dict(chosen.values())
    problems = [problem for file, model in models.items() if (problem := unusable(file, model, environ)) is not None]
    if problems:
        raise ConfigError(problems)
    clients = {file: client(model, environ) for file, model in models.items()}
    by_path = {path: clients[file] for path, (file, _) in chosen.items()}
    return lambda spec: by_path.get(spec.source)


def unusable(file: str, model: ModelTable, environ: Mapping[str, str] = os.environ) -> Problem | None:
    """The reason why the model that this file names cannot be asked here; None if it can."""
    if model.key_env and not environ.get(model.key_env):
        why = f"the environment has no {model.key_env}, which should have the model's key"
        return Problem(escape(file), "model.key_env", why, "set it where the host is started")
    try:
        import httpx  # noqa: F401 - an extra
    except ImportError:
        return Problem(escape(file), "model", "asking a model needs httpx", how_to_install("openai"))
    return None


def shown(model: ModelTable, spec: HookSpec) -> str:
    """The model and its endpoint, for people. The hook may name another model of the same endpoint."""
    return model.shown(getattr(spec, "model", None))


def client(model: ModelTable, environ: Mapping[str, str] = os.environ) -> Complete:
    """Returns a function that asks the model. Making it may read certificates, which takes a while."""
    from .openai_chat import openai_chat  # an extra

    key = environ[model.key_env] if model.key_env else None
    return openai_chat(model.base_url, key, model=model.name, timeout=model.timeout, **model.options)
