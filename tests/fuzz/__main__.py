"""Bytes that reach ever more of the decoder and the peer, for some seconds.

    python tests/fuzz [--seconds 60] [--seed 0] [decoder] [peer] [guards]

Atheris finds them, by what they cover; where it is not installed, Hypothesis does, blindly. Texts for guards are drawn at
random, from pieces of the shell's language and from changed calls of the corpus, since atheris sees nothing of the compiled
grammar. What breaks a target is written to `findings`, beside this file, and is a test from then on.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).parent
FINDINGS = HERE / "findings"
NO_ATHERIS = """\
atheris is not installed, and so nothing steers the search: Hypothesis makes the bytes.
(atheris: python -m pip install '.[fuzz]'; it has wheels for Linux on x86-64, for some versions of Python)
"""


def by_coverage(target: str, seconds: int) -> int:
    """In a process of its own, which libFuzzer ends."""
    with tempfile.TemporaryDirectory(prefix="picohook-fuzz-") as corpus:
        command = [sys.executable, str(HERE / "steered.py"), target, corpus, f"-max_total_time={seconds}"]
        options = ["-print_final_stats=1", "-max_len=4096", f"-artifact_prefix={FINDINGS}/{target}-"]
        done = subprocess.run([*command, *options], stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if done.returncode:
        print(done.stderr)
    else:
        tried = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
        covered = re.findall(r"cov: (\d+)", done.stderr)
        print(f"{target}: {tried[1] if tried else 0} inputs, {covered[-1] if covered else 0} places covered")
    return done.returncode


def blindly(target: str, seconds: int) -> int:
    """Whatever Hypothesis comes up with, until the time is over."""
    import time  # only here

    from hypothesis import given, settings, strategies as st
    from targets import SEEDS, TARGETS

    end = time.monotonic() + seconds
    tried = 0

    @settings(max_examples=500, deadline=None, database=None)
    @given(st.lists(st.sampled_from(SEEDS) | st.binary(max_size=40) | st.just(b"\n"), max_size=10).map(b"".join))
    def search(data: bytes) -> None:
        nonlocal tried
        tried += 1
        try:
            TARGETS[target](data)
        except Exception:
            (FINDINGS / f"{target}-hypothesis").write_bytes(data)
            raise

    while time.monotonic() < end:
        try:
            search()
        except Exception:  # whatever it raised is what was found
            traceback.print_exc()
            return 1
    print(f"{target}: {tried} inputs")
    return 0


def at_random(target: str, seconds: int, seed: int) -> int:
    """Random texts until the time is over. The slowest is printed."""
    import time  # only here
    from random import Random

    from targets import TARGETS, pieces_of_shell, shell_text

    calls = []
    for file in sorted((HERE.parent / "ext/guards/corpus").glob("*.jsonl")):
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        calls += [text.encode() for row in rows if isinstance(text := row.get("arguments", {}).get("command"), str)]
    random, pieces = Random(seed), pieces_of_shell()
    tried, slowest, which, end = 0, 0.0, b"", time.monotonic() + seconds
    begun = time.monotonic()
    while begun < end:
        data = shell_text(random, pieces, calls)
        try:
            TARGETS[target](data)
        except Exception:
            (FINDINGS / f"{target}-{seed}-{tried}").write_bytes(data)
            traceback.print_exc()
            return 1
        tried += 1
        now = time.monotonic()
        if now - begun > slowest:
            slowest, which = now - begun, data
        begun = now
    print(f"{target}: {tried} texts from seed {seed}, the slowest took {slowest * 1000:.1f} ms: {which!r}")
    return 0


def main() -> bool:
    """Whether anything was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the random texts for guards")
    parser.add_argument("targets", nargs="*", choices=["decoder", "peer", "guards", []], help="default: all")
    given = parser.parse_args()
    FINDINGS.mkdir(exist_ok=True)
    steered = importlib.util.find_spec("atheris") is not None
    if not steered:
        print(NO_ATHERIS)
    targets = given.targets or ["decoder", "peer", "guards"]
    seconds = max(1, given.seconds // len(targets))
    search = by_coverage if steered else blindly
    return any(
        at_random(target, seconds, given.seed) if target == "guards" else search(target, seconds) for target in targets
    )


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
