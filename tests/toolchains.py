"""Toolchains of other languages, as a reader has them who built the examples before: what is installed and compiled is kept."""

from __future__ import annotations

import functools
import os
import re
import shutil
from pathlib import Path

import preloaded

ROOT = Path(__file__).parents[1]
COMPILING = 600
"""Seconds for a compiler that has kept nothing yet, on a busy machine."""
NODE_MODULES = ROOT / "hooks_examples" / "typescript" / "node_modules"
"""TypeScript, and the types of Node."""
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options with which a Java program starts faster, and ends before it would be worth compiling."""
PROGRAMS = {
    "java": f'exec {{java}} {JAVA} "$@"',
    "javac": f'exec {{javac}} {" ".join(f"-J{option}" for option in JAVA.split())} "$@"',
    "npm": f'if [ "$1" = install ]; then exec ln -s {NODE_MODULES} node_modules; fi; exec {{npm}} "$@"',
    "npx": 'program=$1; shift; exec node_modules/.bin/"$program" "$@"',
}


def without_notices(said: str) -> str:
    """What a program said, without its notices that this machine contains hooks less well, as in many containers."""
    return re.sub(r"(?m)^.*this machine cannot provide a tier of containment.*\n", "", said)


@functools.cache
def programs() -> str:
    """Return a directory for the PATH: `java` and `javac` start faster, and `npm install` makes a link."""
    place = Path(preloaded.directory()) / "toolchains"
    place.mkdir(exist_ok=True)
    for name, script in PROGRAMS.items():
        real = shutil.which(name)
        if real is not None:
            (place / name).write_text(f"#!/bin/sh\n{script.format(**{name: real})}\n", encoding="utf-8")
            (place / name).chmod(0o755)
    return os.fspath(place)
