"""What the table of faults makes of the results of tests. Whether every fault is met, `make check` says."""

from __future__ import annotations

import pytest
from catalogue import AREAS, FAULTS
from table import Table, backend_of, ids_of


def test_the_catalogue_is_whole():
    assert len(FAULTS) == 105
    assert {fault[0] for fault in FAULTS} == AREAS.keys()


@pytest.mark.parametrize(
    ("node", "faults"),
    [
        ("tests/a.py::test_F1_an_endless_line", {"F1"}),
        ("tests/a.py::test_F1_R10_two_at_once[trio]", {"F1", "R10"}),
        ("tests/a.py::TestF8Encodings::test_x[F9]", {"F8"}),
        ("tests/a.py::TestJ1::test_x", set()),
        ("tests/a.py::test_a_bad_line[trio-F8_nul]", {"F8"}),
        ("tests/a.py::test_a_bad_line[F8_nul-asyncio]", {"F8"}),
        ("tests/a.py::test_that_F1_is_met", set()),
    ],
    ids=range(7),  # these are about no fault themselves
)
def test_the_name_of_a_test_says_its_fault(node, faults):
    assert ids_of(node) == faults


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ({"[asyncio]": "passed", "[trio]": "passed"}, "asyncio, trio"),
        ({"[asyncio]": "passed", "[trio]": "failed"}, "FAILED"),
        ({"[asyncio]": "passed", "[trio]": "skipped"}, "NOT ON trio"),
        ({"[asyncio]": "passed"}, "NOT ON trio"),
        ({"[asyncio-a]": "passed", "[asyncio-b]": "skipped", "[trio-a]": "passed", "": "passed"}, "asyncio, trio"),
        ({"": "passed", "[x]": "skipped"}, "yes"),
        ({"": "skipped"}, "NOT RUN"),
        ({}, "NOT TESTED"),
    ],
)
def test_a_fault_counts_as_met_when_it_was_seen(results, verdict):
    table = Table({f"tests/a.py::test_F1_x{case}": result for case, result in results.items()})
    assert table.verdict("F1") == verdict
    assert ("F1" in table.wrong) is (verdict not in {"asyncio, trio", "yes"})
    assert f"| {verdict} |" in table.page()


def test_a_name_with_an_unknown_id_is_seen():
    assert Table({"tests/a.py::test_Q7_x": "passed"}).unknown == {"Q7"}


def test_the_event_loop_of_a_test_is_seen():
    assert [backend_of(f"t.py::x{case}") for case in ("[trio]", "[a-asyncio]", "[a]", "")] == [
        "trio",
        "asyncio",
        None,
        None,
    ]
