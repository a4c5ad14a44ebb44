"""The SDK imports `picohook.wire` and itself alone, and its files do not import each other in a circle."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from picohook import sdk

SDK = Path(sdk.__file__).parent


def imports(file, package):
    """The modules that a file imports from the package, for annotations too."""
    depth = package.count(".") + 1
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package.split(".")[: depth - node.level + 1]
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from [module] if node.module else [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("picohook"):
            yield node.module


@pytest.mark.parametrize("room", ["sdk", "conformance", "integrations"])
def test_no_files_import_each_other_in_a_circle(room):
    package = f"picohook.{room}"
    graph = {
        f"{package}.{file.stem}": {name for name in imports(file, package) if name.startswith(f"{package}.")}
        for file in SDK.with_name(room).glob("*.py")
        if file.stem != "__init__"
    }
    assert len(graph) > 5
    assert [*TopologicalSorter(graph).static_order()]


def test_the_sdk_imports_the_wire_room_alone():
    found = {name for file in SDK.glob("*.py") for name in imports(file, "picohook.sdk")}
    assert {name for name in found if not name.startswith("picohook.sdk")} <= {
        name for name in found if name.startswith("picohook.wire")
    }
