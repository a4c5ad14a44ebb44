"""Writes the stubs for type checkers anew: `make stub`.

`picohook/blocking_methods.pyi` has the signatures of `Host`'s methods, and `picohook/__init__.pyi` the public names.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from importlib.util import resolve_name
from pathlib import Path

import picohook
from picohook import Host
from picohook.blocking import MADE

PACKAGE = Path(picohook.__file__).parent
BLOCKING, PUBLIC = PACKAGE / "blocking_methods.pyi", PACKAGE / "__init__.pyi"
PUBLIC_HEAD = "# The public names, for type checkers, from the table in `__init__.py`. `make stub` writes this file."
HEAD = "# The methods that `BlockingHost` has of `Host`, for type checkers. `make stub` writes this file."


def stub() -> str:
    """Returns the text of the stub. It is not formatted."""
    body, imports = [], set()
    for name in MADE:
        home = next(kind for kind in Host.__mro__ if name in vars(kind))
        tree = ast.parse(Path(sys.modules[home.__module__].__file__).read_text())
        (found,) = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == home.__name__]
        (method,) = [one for one in found.body if getattr(one, "name", "") == name]
        body.append(f"    def {name}({ast.unparse(method.args)}) -> {returned(method)}: ...")
        named = {node.id for node in ast.walk(ast.parse(body[-1].strip())) if isinstance(node, ast.Name)}
        imports |= {where(one, tree, home) for one in named - vars(builtins).keys()}
    return "\n".join([HEAD, *sorted(imports), "class BlockingMethods:", *body])


def public_stub() -> str:
    """Returns the text of the stub of all public names. It is not formatted."""
    homes = picohook._NAMES.items()
    imports = [
        f"from .{home} import {', '.join(f'{name} as {name}' for name in names.split())}" for home, names in homes
    ]
    return "\n".join([PUBLIC_HEAD, *imports, "", "__version__: str", f"__all__ = {picohook.__all__}"])


def returned(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Returns the annotation of what a method returns when it is awaited."""
    text = ast.unparse(method.returns)
    return text.removeprefix("Coroutine[Any, Any, ").removesuffix("]") if text.startswith("Coroutine") else text


def where(name: str, tree: ast.Module, home: type) -> str:
    """Returns the import of a name that a module uses, as the stub has it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            module = resolve_name("." * node.level + (node.module or ""), home.__module__.rpartition(".")[0])
            return f"from {module.replace('picohook.', '.')} import {name}"
    return f"from {home.__module__.replace('picohook.', '.')} import {name}"


def main() -> None:
    BLOCKING.write_text(stub())
    PUBLIC.write_text(public_stub())
    for command in (["check", "--quiet", "--fix-only", "--select=I"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, BLOCKING, PUBLIC], check=True)


if __name__ == "__main__":
    main()
