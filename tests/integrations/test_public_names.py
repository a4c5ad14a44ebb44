"""The integrations are written as anybody's would be: on picohook's public names."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from rows import each

import picohook

pytestmark = pytest.mark.one_worker("the package, parsed")

PACKAGE = Path(picohook.__file__).parent
MODULES = sorted((PACKAGE / "integrations").glob("*.py"))
OWN = [path for path in MODULES if path.name != "__init__.py"]  # which has the message for a missing extra
OTHERS = sorted(other for other in PACKAGE.rglob("*.py") if other not in MODULES)


def names(tree: ast.AST, kind: type[ast.AST], field: str) -> set[str]:
    return {getattr(node, field) for node in ast.walk(tree) if isinstance(node, kind)}


def private(tree: ast.AST) -> set[str]:
    """The private attributes that code uses."""
    return {name for name in names(tree, ast.Attribute, "attr") if name.startswith("_") and not name.startswith("__")}


@functools.cache
def defined(*paths: Path) -> set[str]:
    """The private attributes and functions that these modules set and define."""
    trees = [ast.parse(path.read_text()) for path in paths]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    assigned = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    return assigned | functions | fields


@each("path", OWN)
def test_an_integration_imports_only_public_names(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level > 1:
            assert (node.level, node.module) == (2, None)
            assert {alias.name for alias in node.names} <= set(picohook.__all__)
        if isinstance(node, ast.ImportFrom | ast.Import):
            whole = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert not [name for name in whole if name.split(".")[0] == "picohook"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_an_integration_uses_no_private_attribute_of_picohook(path):
    others = private(ast.parse(path.read_text())) - defined(*MODULES)
    suspects = [other for other in OTHERS if any(name in other.read_text() for name in others)]
    assert not others & defined(*suspects)
