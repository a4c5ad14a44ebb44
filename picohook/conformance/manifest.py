"""The requirements: read from the vector files, and made from the rows of stages that the files do not list."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..model.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.stages import Stage

FORMAT = 1
"""The version of the vector files' own format."""

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vectors")

MUST, SHOULD, MAY = LEVELS = ("MUST", "SHOULD", "MAY")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of the protocol."""

    id: str
    level: str
    title: str
    wants: str
    vector: Mapping[str, Any]
    """The whole entry of the file, with the steps."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """All requirements of one side."""

    side: str
    protocol: int
    requirements: tuple[Requirement, ...]
    data: Mapping[str, Any]
    """The whole file."""

    def __getitem__(self, requirement_id: str) -> Requirement:
        return next(one for one in self.requirements if one.id == requirement_id)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the requirements, in order."""
        return tuple(one.id for one in self.requirements)


@cache
def load(side: str) -> Manifest:
    """Returns the manifest of a side, `hook` or `host`. Raises `ValueError` for a format that this version does not read."""
    with open(os.path.join(VECTORS, f"{side}.json"), encoding="utf-8") as file:
        data = json.load(file)
    if data["format"] != FORMAT:
        raise ValueError(f"the vectors have format {data['format']}, and this reads {FORMAT}")
    _add_missing_stages(data)
    requirements = (
        Requirement(one["id"], one["level"], one["title"], one["wants"], one) for one in data["requirements"]
    )
    return Manifest(side, data["protocol"], tuple(requirements), data)


def filled(value: Any, parts: Mapping[str, Any]) -> Any:
    """Returns a value of a vector with its placeholders replaced: `$use`, `$repeat` and `$nest`."""
    match value:
        case {"$use": name}:
            return filled(parts[name], parts)
        case {"$repeat": [text, times]}:
            return text * times
        case {"$nest": depth}:
            nested: list[Any] = []
            for _ in range(depth - 1):
                nested = [nested]
            return nested
        case dict():
            return {key: filled(inner, parts) for key, inner in value.items()}
        case list():
            return [filled(inner, parts) for inner in value]
    return value


# Stages that the vector files do not list.

_SAMPLES: dict[str, Any] = {
    "string": "x",
    "integer": 1,
    "number": 1.0,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}
"""A value of each type of JSON Schema."""


def _add_missing_stages(data: dict[str, Any]) -> None:
    """Add the stages that a vector file does not list to its modes, and to its payloads and requirements or its shapes."""
    listed = data["payloads"] if "payloads" in data else data["shapes"]
    for name, stage in STAGES.items():
        if name in listed:
            continue
        schema = stage.payload.model_json_schema()
        data["modes"].setdefault(stage.mode, []).append(name)
        if "payloads" in data:
            required = {field: _sample(schema["properties"][field], schema) for field in schema.get("required", ())}
            listed[name] = {"meta": {"$use": "meta"}, "channel": "cli", "chat_id": "c1", **required}
            data["profiles"]["picohook"]["modes"] = [*data["modes"]]
            data["requirements"].append(_requirement_of(stage))
        else:
            listed[name] = {
                field if field in schema.get("required", ()) else f"{field}?": _type(found, schema)
                for field, found in schema["properties"].items()
            }


def _requirement_of(stage: Stage[Any]) -> dict[str, Any]:
    return {
        "id": f"STAGE-{stage.name}",
        "level": "MUST",
        "title": "approves with true or false" if stage.approves else f"makes a decision that {stage.name} allows",
        "wants": "The result is a decision that the stage allows.",
        "stage": stage.name,
        "steps": [
            {"ask": [{"id": 2, "stage": stage.name}]},
            {"expect": 2, "like": "approval" if stage.approves else "decision"},
        ],
    }


def _resolved(found: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a schema that says a type: references followed, and the first of several types."""
    if "anyOf" in found:
        found = found["anyOf"][0]
    return schema["$defs"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found


def _type(found: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    return str(_resolved(found, schema).get("type", "object"))


def _sample(found: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    found = _resolved(found, schema)
    if "enum" in found:
        return found["enum"][0]
    inner = {field: _sample(found["properties"][field], schema) for field in found.get("required", ())}
    return inner or found.get("const", _SAMPLES[found.get("type", "object")])
