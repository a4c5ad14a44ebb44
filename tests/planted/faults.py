"""Faults that a machine makes in the core, and the sixty that are drawn of them.

A fault is named by its room, its function and the text of its lines before and after. The draw goes by this name alone. So a
fault stays drawn when its file moves or other code changes, and another one takes its place when its own text changes.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SEED = 32
A_ROOM = 12
"""Faults that are drawn of each room, from as many functions."""
ROOMS = ("protocol", "engine", "calls", "model", "process")
OPPOSITE = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = ast.expr | ast.stmt


@dataclass(frozen=True)
class Fault:
    """One fault, and the file that has it."""

    room: str
    function: str
    source: str
    planted: str
    code: bytes
    file: Path

    @property
    def name(self) -> tuple[str, str, str, str]:
        return self.room, self.function, self.source, self.planted


def drawn(package: Path) -> list[Fault]:
    """The faults that are drawn of this package, room by room."""
    return [fault for room in ROOMS for fault in drawn_of(room, package.glob(f"{room}/*.py"))]


def drawn_of(room: str, files: Iterable[Path]) -> list[Fault]:
    """The first faults by the hash of their names, one of a function."""
    first: dict[str, Fault] = {}
    for fault in sorted((fault for file in files for fault in faults(room, file)), key=rank):
        first.setdefault(fault.function, fault)
    return [*first.values()][:A_ROOM]


def rank(fault: Fault) -> str:
    return hashlib.sha256(repr((SEED, *fault.name)).encode()).hexdigest()


def faults(room: str, file: Path) -> list[Fault]:
    """All faults of a file. Of two with one name there is none."""
    code = file.read_bytes()
    found: dict[tuple[str, ...], Fault | None] = {}
    for name, function in functions(ast.parse(code)):
        for place, planted in changes(function):
            fault = Fault(room, name, *replaced(code, place, planted), file)
            found[fault.name] = None if fault.name in found else fault
    return [fault for fault in found.values() if fault]


def replaced(code: bytes, place: Place, planted: str) -> tuple[str, str, bytes]:
    """The lines of a place as they are, as they become, and the whole file with them."""
    lines = code.splitlines(keepends=True)
    first, end = place.lineno - 1, place.end_lineno
    source = b"".join(lines[first:end])
    rest = len(lines[end - 1]) - place.end_col_offset
    changed = source[: place.col_offset] + planted.encode() + source[-rest:]
    before, after = (" ".join(text.decode().split()) for text in (source, changed))
    return before, after, b"".join((*lines[:first], changed, *lines[end:]))


def functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, Function]]:
    """The functions of a module and of its classes, and their names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield within + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{within}{child.name}.")


def changes(function: Function) -> Iterator[tuple[Place, str]]:
    """What may change in a function's body, and what it becomes."""
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.If, ast.While, ast.IfExp)) and isinstance(
                node.test, (ast.Name, ast.Attribute, ast.Call)
            ):
                yield node.test, f"(not {ast.unparse(node.test)})"
            if planted := change(node):
                yield node, planted


def change(node: ast.AST) -> str:
    match node:
        case ast.Compare(left, [operator], [right]):
            return f"({ast.unparse(ast.Compare(left, [OPPOSITE[type(operator)]()], [right]))})"
        case ast.BoolOp(operator, values):
            return f"({ast.unparse(ast.BoolOp(OPPOSITE[type(operator)](), values))})"
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
            return f"({ast.unparse(ast.BinOp(left, OPPOSITE[type(operator)](), right))})"
        case ast.UnaryOp(ast.Not(), operand):
            return f"({ast.unparse(operand)})"
        case ast.Constant(bool(value)):
            return str(not value)
        case ast.Constant(int(value)):
            return str(value + 1)
        case (
            ast.Expr(ast.Call() | ast.Await())
            | ast.Assign([ast.Attribute() | ast.Subscript()])
            | ast.AugAssign()
            | ast.Raise()
        ):
            return "pass"
        case ast.Break():
            return "continue"
        case ast.Continue():
            return "break"
    return ""
