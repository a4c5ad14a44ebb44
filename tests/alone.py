"""The tests of the core in a checkout of nothing else, and those of the offered rooms beside the core.

    python tests/alone.py core|offered [OPTION OF PYTEST...]

Tests that are about other rooms, too, have a mark of `needs`, and are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE), str(HERE / "helpers")]

from rooms import CORE, OFFERED, TESTS
from test_package import SOURCES, imports, room

HAS = {"core": {*CORE, "picohook", "testing"}, "offered": {*CORE, *OFFERED, "picohook", "testing"}}
"""`picohook.testing` imports the core only, and tests are written with it."""


def checkout(of: str, place: Path) -> None:
    """Copy the rooms, what they borrow, and their tests."""
    files = {path for path in (ROOT / "picohook").glob("*.py*") if path.stem in {"__init__", *HAS[of]}}
    files |= {SOURCES[module] for module in SOURCES if room(module) in HAS[of]}
    files |= {SOURCES[module] for module in borrowed(of)}
    files |= {path.parent / "__init__.py" for path in files} | {ROOT / "pyproject.toml"}
    files |= {path for path in HERE.glob("*") if path.is_file()}
    for name in ("faults", "helpers", *TESTS[of]):
        files |= {path for path in (HERE / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    for path in files:
        to = place / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            shutil.copy2(path, to)


def borrowed(of: str) -> set[str]:
    """The modules of other rooms that these import, and what those import in turn. A host imports some when it is used."""
    found: set[str] = set()
    left = {module for module in SOURCES if room(module) in HAS[of]} - {"picohook.host", "picohook"}
    while left:
        left = {
            one.of for one in imports() if one.by in left and one.of in SOURCES and room(one.of) not in HAS[of]
        } - found
        found |= left
    return found


def main(of: str, *options: str) -> int:
    if more := sorted(borrowed(of)):
        print("not yet alone, but with:", *more)
    with tempfile.TemporaryDirectory(prefix="picohook-alone-") as made:
        place = Path(made)
        place.chmod(0o755)  # for tests by other users
        checkout(of, place)
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [*options, *(f"tests/{name}" for name in TESTS[of])]
        return subprocess.run(command, cwd=place, env={**os.environ, "PYTHONPATH": made}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
