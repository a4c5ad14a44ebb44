"""What is searched holds for lines as they come, and for everything that a search has ever found."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

sys.path.append(str(Path(__file__).parent))

from targets import SEEDS, TARGETS, pieces_of_shell, shell_text

FINDINGS = sorted(Path(__file__).with_name("findings").glob("*-*"))


@pytest.mark.parametrize("target", ["decoder", "peer"])
@given(st.lists(st.sampled_from(SEEDS) | st.binary(max_size=20) | st.just(b"\n"), max_size=8).map(b"".join))
def test_it_holds(target, data):
    TARGETS[target](data)


def test_guards_hold_for_random_texts():
    random, pieces = Random(1), pieces_of_shell()
    for _ in range(500):
        TARGETS["guards"](
            shell_text(
                random, pieces, [b"cd x && npm test 2>&1 | tail -5", b"git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\""]
            )
        )


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_it_holds_for_what_was_found(finding):
    TARGETS[finding.name.partition("-")[0]](finding.read_bytes())
