"""Sixty faults that a machine makes in the core, each in a copy of the package, and whether the tests find it.

    python tests/planted TESTS... [--only N...]

What came of each is written to `found.json`, beside this file. A fault is found when a test fails twice with it. The tests that
start no process are tried first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from faults import Fault, drawn

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "picohook"
FOUND = HERE / "found.json"
ROW = ("room", "function", "source", "planted", "found_by")
FIRST = {"engine": "core", "model": "core"}
"""The tests that are tried first for a room whose own have another name."""
FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)(?:\[\S*)?", re.MULTILINE)
HANGS = 180
"""Seconds after which a run of the tests has failed."""


def found_by(fault: Fault, tests: list[str], last: str | None) -> str | None:
    """The test that finds a fault, or None if there is none. The one that found it last is tried first."""
    own = FIRST.get(fault.room, fault.room)
    tests = sorted(tests, key=lambda path: Path(path).name != own)
    with tempfile.TemporaryDirectory(prefix="picohook-planted-") as copy:
        package = Path(copy, PACKAGE.name)
        shutil.copytree(PACKAGE, package)
        (package / fault.file.relative_to(PACKAGE)).write_bytes(fault.code)
        for options in (where(last), ["--quick", "--workers=2", *tests], ["--workers=2", *tests]):
            failed = run(copy, options) if options else None
            if failed and run(copy, where(failed) or options):
                return failed
    return None


def where(test: str | None) -> list[str]:
    """The test, in the file that has it now."""
    _, _, name = (test or "").partition("::")
    defined = f" {name.rpartition('::')[2]}("
    return [f"{file}::{name}" for file in Path("tests").rglob("test_*.py") if name and defined in file.read_text()]


def run(copy: str, options: list[str]) -> str | None:
    """The first test that fails on a copy of the package, or None if all of them pass."""
    command = [sys.executable, "-P", "-m", "pytest", "-qx", "--timeout=30", "-pno:cacheprovider", *options]
    environment = {**os.environ, "PYTHONPATH": copy}
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True) as process:
            try:
                process.wait(HANGS)
            except subprocess.TimeoutExpired:
                return "a run that does not end"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if not process.returncode:
            return None
        said.seek(0)
        failed = FAILED.search(said.read())
    return failed[1] if failed else "a run that does not start"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="+", help="paths of tests")
    parser.add_argument("--only", nargs="+", type=int, help="numbers of faults")
    arguments = parser.parse_args()
    before = json.loads(FOUND.read_text()) if FOUND.exists() else []
    earlier = {tuple(name): test for *name, test in map(dict.values, before)}
    rows = []
    for number, fault in enumerate(drawn(PACKAGE), 1):
        test = earlier.get(fault.name)
        if not arguments.only or number in arguments.only:
            test = found_by(fault, arguments.tests, test)
            print(f"{number:2} {': '.join(fault.name[:3])} -> {fault.planted}\n   {test or 'not found'}", flush=True)
        rows.append(dict(zip(ROW, (*fault.name, test), strict=True)))
    FOUND.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{sum(bool(row['found_by']) for row in rows)} of {len(rows)} are found")


if __name__ == "__main__":
    main()
