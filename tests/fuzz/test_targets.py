"""What is searched holds for lines as they come, and for everything that a search has ever found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

sys.path.append(str(Path(__file__).parent))

from targets import SEEDS, TARGETS

FINDINGS = sorted(Path(__file__).with_name("findings").glob("*-*"))


@pytest.mark.parametrize("target", TARGETS)
@given(st.lists(st.sampled_from(SEEDS) | st.binary(max_size=20) | st.just(b"\n"), max_size=8).map(b"".join))
def test_it_holds(target, data):
    TARGETS[target](data)


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_it_holds_for_what_was_found(finding):
    TARGETS[finding.name.partition("-")[0]](finding.read_bytes())
