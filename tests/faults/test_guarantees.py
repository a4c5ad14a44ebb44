"""The page of guarantees names tests that exist, for every promise."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "explanation" / "guarantees.md"


def test_every_promise_names_tests_and_each_of_them_exists():
    sources = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    defined = set(re.findall(r"^ *(?:async )?(?:def|class) (test_\w+|Test\w+)|^(Test\w+) = ", sources, re.MULTILINE))
    known = {name for pair in defined for name in pair if name}
    promises = re.split(r"^\*\*(?=\d+\. )", PAGE.read_text().partition("## Where")[0], flags=re.MULTILINE)[1:]
    assert [promise.partition(".")[0] for promise in promises] == [str(number) for number in range(1, 18)]
    for promise in promises:
        named = re.findall(r"`(test_\w+|Test\w+)`", promise)
        assert named, f"nothing shows that {promise[:60]}"
        assert set(named) <= known, f"there are no such tests: {set(named) - known}"
