"""Makes the requirements, payloads and shapes of stages that the vector files do not list from the rows of `model.stages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.stages import Stage

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


def add_missing_stages(data: dict[str, Any]) -> None:
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
            data["requirements"].append(_requirement(stage))
        else:
            listed[name] = {
                field if field in schema.get("required", ()) else f"{field}?": _type(found, schema)
                for field, found in schema["properties"].items()
            }


def _requirement(stage: Stage[Any]) -> dict[str, Any]:
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
