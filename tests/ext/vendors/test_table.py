"""The page of the dialects says what their data says, and the data is complete."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from dialect_table import PAGE, whole

import picohook
from picohook.ext.vendors import extension
from picohook.ext.vendors.dialects import NAMES, vendor_named
from picohook.model.stages import STAGES
from picohook.wire import words


def test_the_page_is_what_the_dialects_are():
    page = PAGE.read_text(encoding="utf-8")
    assert page == whole(page), "run: python tests/ext/vendors/dialect_table.py"


@pytest.mark.parametrize("name", NAMES)
def test_every_event_is_done_by_a_stage_or_says_why_not(name):
    dialect = vendor_named(name)
    for event, row in dialect.events.items():
        assert row.supported is not bool(row.why), event
        assert row.stage in {"", *STAGES}, event
        assert row.kind in {"", *words.EVENT_KINDS}, event


def test_each_vendor_has_a_table_with_its_title_and_runs_its_own_files():
    for name, row in extension.dialects.items():
        vendor = vendor_named(name)
        assert (vendor.title, name in vendor.shim.runs) == (row.title, True)


def test_a_dialect_imports_nothing_that_starts_processes():
    package = Path(picohook.__file__).parent
    vendors = package / "ext" / "vendors"
    paths = [path for name in NAMES for path in (vendors / name).glob("*.py")]
    assert len(paths) > 10
    for path in [vendors / "contract.py", vendors / "vendor.py", *paths]:
        depth = len(path.relative_to(package).parts)  # this many dots lead out of the package
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == depth:
                assert (node.module or "").partition(".")[0] in {"errors", "model", "protocol", "wire"}, path
            elif isinstance(node, ast.ImportFrom) and node.level:
                assert node.level < depth - 1, f"{path} imports {node.module} of another room"


def test_claude_codes_events_are_all_there():
    assert len(vendor_named("claude").events) == 33
