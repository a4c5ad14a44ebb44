"""The table `[nats]`, which is the connection to NATS, and the settings of a hook that is served over it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ...config.table import Table
from ...extension import Lazy
from ...model.spec import HookSpec, OnFailure, Settings

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from ...config.document import Config
    from ...config.problems import Problems
    from ...projects.layers import Layers

S = TypeVar("S", bound=Settings)
HOOK: Lazy[Any] = Lazy("picohook.ext.nats.hook:NatsHook")


class NatsTls(Settings):
    """The encryption of connections to NATS. The server's certificate is always verified."""

    ca: str | None = Field(default=None, description="The file with the authorities; by default the system's.")
    cert: str | None = Field(default=None, description="The file with the client's own certificate.")
    key: str | None = Field(default=None, description="The file with the key of that certificate.")


class NatsSettings(Table):
    """The connection to NATS, for hooks served elsewhere, and for workers."""

    servers: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        default=("nats://127.0.0.1:4222",), description='URLs of servers of one cluster: "nats://HOST:PORT".'
    )
    tenant: str = Field(default="default", min_length=1, description="Whose hooks these are: a part of every subject.")
    host: str = Field(default="", description="This host's name, at which it gets answers; by default the machine's.")
    creds: str | None = Field(default=None, description="The file with the user's credentials (JWT and seed).")
    nkey: str | None = Field(default=None, description="The file with the seed of the user's nkey, without a JWT.")
    tls: NatsTls | None = Field(default=None, description="The certificates, for servers that demand TLS.")

    @field_validator("servers")
    @classmethod
    def _are_servers(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        for url in servers:
            parts = urlsplit(url)
            if parts.scheme not in {"nats", "tls", "ws", "wss"} or not parts.hostname:
                raise ValueError('must be URLs of servers, such as "nats://127.0.0.1:4222"')
            if parts.username is not None or parts.password is not None:
                raise ValueError("have a user or a password in them: name a file in `creds` or `nkey`")
        return servers

    @model_validator(mode="after")
    def _one_identity(self) -> NatsSettings:
        if self.creds is not None and self.nkey is not None:
            raise ValueError("has creds and nkey: a user has one of them")
        return self

    def placed(self, directory: Path) -> Self:
        tls = self.tls and _with_paths(self.tls, directory, "ca", "cert", "key")
        return _with_paths(self, directory, "creds", "nkey").model_copy(update={"tls": tls})

    def apply(self, config: Config, _problems: Problems) -> Config:
        hooks = (hook.model_copy(update={"connection": self}) if hook.kind == "nats" else hook for hook in config.hooks)
        return replace(config, hooks=tuple(hooks))


class NatsSpec(HookSpec):
    """`nats = "NAME"`: workers serve the hook."""

    SET_ELSEWHERE: ClassVar[dict[str, str]] = {**HookSpec.SET_ELSEWHERE, "connection": "it is the table [nats]"}

    nats: str = Field(min_length=1, description="The name of a hook that workers serve over NATS.")
    connection: NatsSettings = Field(
        default_factory=NatsSettings, description="With nats: the connection; set by [nats]."
    )
    on_failure: OnFailure = Field(default=OnFailure.DENY, description="What its failure does to the call.")

    @model_validator(mode="after")
    def _observes_nothing(self) -> NatsSpec:
        if self.observe:
            raise ValueError("observes events, and a hook that is served over NATS gets none")
        return self

    @property
    def kind(self) -> str:
        return "nats"

    def make(self) -> Any:
        return HOOK.load()(self)


def _with_paths(table: S, directory: Path, *names: str) -> S:
    """The table with absolute paths in these fields."""
    files = {name: str(directory / path) for name in names if (path := getattr(table, name)) is not None}
    return table.model_copy(update=files)


def connection_in(layers: Layers) -> NatsSettings | None:
    """The connection to NATS that these files name; of several files, that of the first that has one."""
    found = (table for table in layers.tables.get("nats", ()) if isinstance(table, NatsSettings))
    return next(found, None)
