"""Which model the prompt hooks of a configuration ask, and what asks it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import ConfigError, Problem
from ..wire.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..hooks.base import Complete
    from ..model.spec import HookSpec
    from .dialects.native import Model
    from .layers import Layers
    from .load import Config

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def model_of(read: Config | Layers, config: Config) -> tuple[str, Model] | None:
    """The model that this configuration's hooks ask, and the file that names it; None where no file does.

    It is the file's own, or that of another file of its layer, or the user's. So what a project names gets nothing but the
    questions of the project's own hooks.
    """
    if config.model is not None:
        return str(config.path), config.model
    for layer in (config.layer, "user"):
        for other in read.configs:
            if other.layer == layer is not None and other.model is not None:
                return str(other.path), other.model
    if config.layer is None:  # it was named, and is alone
        from .layers import own_model  # noqa: PLC0415 - which imports what this module's users import

        return own_model()
    return None


def asked_by(read: Config | Layers) -> Iterator[tuple[Config, HookSpec, tuple[str, Model] | None]]:
    """Each hook that asks a model, with its file, and the model."""
    for config in read.configs:
        asking = [spec for spec in config.hooks if spec.prompt is not None]
        found = model_of(read, config) if asking else None
        for spec in asking:
            yield config, spec, found


def ways_to_models(
    read: Config | Layers, environ: Mapping[str, str] = os.environ
) -> Callable[[HookSpec], Complete | None]:
    """What a host asks the models with. Raises `ConfigError` where one cannot be asked; it may take a while.

    A hook for which no file names a model gets None.
    """
    ways: dict[str, Complete] = {}
    made: dict[int, Complete] = {}
    problems: dict[Problem, None] = {}
    for config, spec, found in asked_by(read):
        if found is None:
            continue
        file, model = found
        problem = unusable(file, model, environ)
        if problem is not None:
            problems[problem] = None
        elif id(model) not in made:
            made[id(model)] = way(model, environ)
        if id(model) in made:
            ways[spec.source] = ways[str(config.path)] = made[id(model)]
    if problems:
        raise ConfigError(problems)
    return lambda spec: ways.get(spec.source)


def unusable(file: str, model: Model, environ: Mapping[str, str] = os.environ) -> Problem | None:
    """What keeps a model from being asked here."""
    if model.key_env and not environ.get(model.key_env):
        why = f"the environment has no {model.key_env}, which is to have the key of the model"
        return Problem(escape(file), "model.key_env", why, "set it where the host is started")
    try:
        import httpx  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return Problem(escape(file), "model", "asking a model needs httpx", "pip install 'picohook[openai]'")
    return None


def unencrypted(model: Model) -> bool:
    """Whether what is asked goes over a network as plain text."""
    parts = urlsplit(model.base_url)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def shown(model: Model, name: str | None = None) -> str:
    """The model, or another one of this name, and where it is, for people."""
    key = f", with the key in ${model.key_env}" if model.key_env else ""
    return f"{name or model.name} at {model.base_url}{key}"


def way(model: Model, environ: Mapping[str, str] = os.environ) -> Complete:
    """What asks a usable model. It may take a while."""
    from ..hooks.openai_chat import openai_chat  # noqa: PLC0415 - of all hosts, those with prompt hooks

    key = environ[model.key_env] if model.key_env else None
    return openai_chat(model.base_url, key, model=model.name, timeout=model.timeout, **model.options)
