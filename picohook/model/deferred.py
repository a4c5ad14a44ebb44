"""The base of picohook's models."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Signature:
    """Builds the model when its signature is first read."""

    def __get__(self, _: object, model: type[BaseModel]) -> Any:
        model.model_rebuild()
        return model.__signature__


class DeferredModel(BaseModel):
    """A model that is built when it is first used, because most programs use a few. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    __signature__ = _Signature()
