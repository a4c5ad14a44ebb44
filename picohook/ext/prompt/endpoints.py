"""The models that the prompt hooks of a configuration ask."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from ...errors import Problem
from ...model.asked_model import AskedModel
from ...projects.layers import user_table
from ...wire.extras import how_to_install
from ...wire.text import escape
from .spec import NO_MODEL, NO_MODEL_HINT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...config.document import Config
    from ...hooks.base import Complete
    from ...model.spec import HookSpec
    from ...projects.layers import Layers
    from .table import ModelTable


def asked_model(spec: HookSpec, layers: Layers) -> AskedModel:
    """The model that a prompt hook of these configurations asks.

    It is the model of its file, or else of the nearest file before it, in the order in which files are asked. So only a
    project's own hooks, and those of projects inside it, ask the project's model.
    """
    config = next(one for one in layers.configs if str(one.path) == spec.source)
    found = _named(layers, config)
    if found is None:
        why = f"{NO_MODEL}: a host does not start with it"
        return AskedModel("", "", Problem(escape(spec.source), "", why, NO_MODEL_HINT), _none)
    file, table = found
    shown = table.shown(getattr(spec, "model", None))
    return AskedModel(file, shown, _unusable(file, table, os.environ), partial(_client, table, os.environ))


def _named(layers: Layers, config: Config) -> tuple[str, ModelTable] | None:
    before = layers.configs[layers.configs.index(config) :: -1]
    found = next(((str(one.path), one.tables["model"]) for one in before if "model" in one.tables), None)
    return (user_table("model") or found) if "model" not in config.tables and config.layer is None else found


def _none() -> None:
    """Returns no function: there is no model to ask."""


def _unusable(file: str, model: ModelTable, environ: Mapping[str, str]) -> Problem | None:
    if model.key_env and not environ.get(model.key_env):
        why = f"the environment has no {model.key_env}, which should have the model's key"
        return Problem(escape(file), "model.key_env", why, "set it where the host is started")
    try:
        import httpx  # noqa: F401 - an extra
    except ImportError:
        return Problem(escape(file), "model", "asking a model needs httpx", how_to_install("openai"))
    return None


def _client(model: ModelTable, environ: Mapping[str, str]) -> Complete:
    from .openai_chat import openai_chat  # an extra

    key = environ[model.key_env] if model.key_env else None
    return openai_chat(model.base_url, key, model=model.name, timeout=model.timeout, **model.options)
