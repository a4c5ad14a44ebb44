"""The requirements, read from the vector files."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

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
