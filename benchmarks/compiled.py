"""The same rows with a compiled core: a wheel is built with `PICOHOOK_COMPILE=1`, and another process measures it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .given import Given
from .measure import Ratio, Row

ROOT = Path(__file__).parents[1]
NAMES = ("round-trips", "answers", "fresh-meta", "throughput", "busy")


def compiled(given: Given) -> list[Row]:
    """The rows of `NAMES`; none if there is nothing to compile with."""
    with tempfile.TemporaryDirectory() as name:
        build, figures = Path(name) / "build", Path(name) / "figures.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(build), str(ROOT)]
        done = subprocess.run(pip, env={**os.environ, "PICOHOOK_COMPILE": "1"}, check=False)
        if done.returncode:
            print("The rows with a compiled core are missing: it could not be compiled.", file=sys.stderr)
            return []
        # -P, and this order: picohook is the compiled one, and the benchmarks are these.
        command = [sys.executable, "-P", "-m", "benchmarks", *NAMES, "--rounds", str(given.rounds)]
        subprocess.run(
            [*command, "--scale", str(given.scale), "--json", str(figures)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(build), str(ROOT)))},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        rows = json.loads(figures.read_text())["rows"]
    return [_row(row) for row in rows]


def _row(shown: dict[str, object]) -> Row:
    rounds, _verdict = shown.pop("rounds"), shown.pop("verdict")
    assert isinstance(rounds, list)
    return Row(**{**shown, "measure": f"{shown['measure']}, compiled core", "value": Ratio.median(rounds)})  # type: ignore[arg-type]
