"""Draws docstrings of the package at random, for a person to read: `make docstrings`. `SEED=7` repeats an earlier draw.

Of 150, at most 5 in 100 may be odd: a sentence that has to be read twice, a pronoun without a noun, or a function that returns
something and never says what.
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "picohook"
DRAWN = 150


def docstrings():
    """Yields the docstrings of the package and of the attributes of its classes and modules, each with its place and name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "name", "")
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if ast.get_docstring(node) is not None:
                    yield path, node.body[0].lineno, name or "(module)", ast.get_docstring(node)
                yield from attributes(path, node)


def attributes(path, node):
    """Yields the texts below assignments."""
    for assigned, text in zip(node.body, node.body[1:], strict=False):
        targets = getattr(assigned, "targets", [getattr(assigned, "target", None)])
        if (
            isinstance(text, ast.Expr)
            and isinstance(getattr(text.value, "value", None), str)
            and targets[0] is not None
        ):
            yield path, text.lineno, ast.unparse(targets[0]), text.value.value


def main(seed):
    drawn = random.Random(seed).sample(sorted(docstrings()), DRAWN)
    for number, (path, line, name, text) in enumerate(drawn, 1):
        print(f"{number}. {path.relative_to(PACKAGE)}:{line} {name}\n    {text.strip()}\n")
    print(f"seed {seed}: of these {DRAWN}, at most {DRAWN * 5 // 100} may be odd")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else random.randrange(10_000))
