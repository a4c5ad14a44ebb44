"""The settings of a hook that is served over NATS."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from ...extension import Lazy
from ...model.spec import HookSpec, OnFailure
from .settings import NatsSettings

HOOK: Lazy[Any] = Lazy("picohook.ext.nats.hook:NatsHook")


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
