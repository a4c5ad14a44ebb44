"""The table `[model]`: the model that prompt hooks ask."""

import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, field_validator

from ...config.document import Config
from ...config.problems import Problems
from ...config.table import Consent, Table
from ...model.spec import Seconds

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class ModelTable(Table):
    """The model that prompt hooks ask, at an endpoint that speaks OpenAI's chat completions."""

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

    def shown(self, name: str | None = None) -> str:
        """The model and its endpoint, for people; `name` is another model of the same endpoint."""
        key = f", with the key in ${self.key_env}" if self.key_env else ""
        return f"{name or self.name} at {self.base_url}{key}"

    def apply(self, config: Config, _problems: Problems) -> Config:
        if not self.is_unencrypted:
            return config
        with_key = " and the key" if self.key_env else ""
        warning = f"model.base_url: questions{with_key} go over the network as plain text (use https)"
        return replace(config, warnings=(*config.warnings, warning))

    def consent(self) -> Iterable[Consent]:
        yield Consent(f"Hooks of this file that ask a model ask {self.shown()}.", sends_to=self.shown())

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
