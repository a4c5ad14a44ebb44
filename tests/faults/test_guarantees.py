"""Every promise of the page of guarantees has tests that exist, and the page leads to the table that names them."""

from __future__ import annotations

import re

from promises import PROMISES
from table import PAGE, TESTS, places, promises

GUARANTEES = TESTS.parent / "docs" / "explanation" / "guarantees.md"


def test_the_promises_of_the_page_are_those_that_have_tests():
    headings = re.findall(r"^### (\d+\. .+)$", GUARANTEES.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(PROMISES)
    assert [heading.partition(".")[0] for heading in headings] == [str(number) for number in range(1, 21)]
    assert all(PROMISES.values())


def test_each_test_that_shows_a_promise_exists():
    named = {name for names in PROMISES.values() for name in names}
    assert named <= places().keys(), f"there are no such tests: {named - places().keys()}"


def test_each_promise_is_stated_and_the_page_leads_to_the_tests():
    text = GUARANTEES.read_text(encoding="utf-8")
    for section in re.split(r"^### (?=\d+\. )", text.partition("## Where")[0], flags=re.MULTILINE)[1:]:
        assert section.partition("\n\n")[2].startswith("**Promise.** "), section[:60]
    assert "](../reference/faults.md)" in text
    assert not re.findall(r"`(?:test_\w+|Test\w+)`", text)


def test_the_table_of_faults_ends_with_the_tests_of_each_promise():
    page = PAGE.read_text(encoding="utf-8")
    assert page.endswith("\n".join(["", *promises(), ""])), "make faults"
