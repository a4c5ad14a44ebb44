"""The base of picohook's models."""

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

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The model's JSON schema. A default that is a model is built first, because pydantic before 2.14 does not do that."""
        for field in cls.model_fields.values():
            if isinstance(field.default, BaseModel):
                type(field.default).model_rebuild()
        return super().model_json_schema(*args, **kwargs)
