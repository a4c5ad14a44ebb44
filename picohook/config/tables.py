"""The tables `[model]` and `[[foreign]]` of a configuration."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, field_validator

from ..model.spec import Seconds, Settings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class ModelTable(Settings):
    """The model that hooks with a `prompt` ask, at an endpoint that speaks OpenAI's chat completions."""

    base_url: str = Field(description='The endpoint\'s URL, without "/chat/completions".')
    name: str = Field(min_length=1, description="The model for hooks that name no other.")
    key_env: str | None = Field(default=None, description="The environment variable with the key, if one is needed.")
    timeout: Seconds = Field(default=60.0, description="Seconds for one request. A hook's own timeout ends it, too.")
    options: dict[str, JsonValue] = Field(
        default_factory=dict, description="Added to every request: temperature, max_tokens, ..."
    )

    @property
    def is_unencrypted(self) -> bool:
        """Whether requests go over a network as plain text."""
        parts = urlsplit(self.base_url)
        return parts.scheme == "http" and parts.hostname not in _LOOPBACK

    @field_validator("base_url")
    @classmethod
    def _is_an_endpoint(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or any(ord(letter) <= ord(" ") for letter in url):
            raise ValueError('must be a URL, such as "https://api.openai.com/v1"')
        if parts.username is not None or parts.password is not None:
            raise ValueError(
                "has a user or a password in it: keep keys out of the file, and name a variable in key_env"
            )
        if parts.query or parts.fragment:
            raise ValueError('must end before "/chat/completions", and have no "?" and no "#"')
        return url

    @field_validator("key_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError('must be the name of an environment variable, such as "OPENAI_API_KEY", and not the key')
        return name

    @field_validator("options")
    @classmethod
    def _set_nothing_else(cls, options: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = sorted({"base_url", "api_key", "model", "messages", "timeout", "stream"} & options.keys())
        if taken:
            raise ValueError(f"has {', '.join(taken)}, which each request sets itself")
        return options
