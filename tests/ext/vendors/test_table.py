"""The page of the dialects says what their data says, and the data is complete."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from dialect_table import PAGE, whole

import picohook
from picohook.ext.vendors import extension
from picohook.ext.vendors.dialects import NAMES, agent_of, dialect_of, form_of
from picohook.model.stages import STAGES
from picohook.wire import words


def test_the_page_is_what_the_dialects_are():
    page = PAGE.read_text(encoding="utf-8")
    assert page == whole(page), "run: python tests/ext/vendors/dialect_table.py"


@pytest.mark.parametrize("name", NAMES)
def test_every_event_is_done_by_a_stage_or_says_why_not(name):
    dialect = dialect_of(name)
    for event, row in dialect.events.items():
        assert row.supported is not bool(row.why), event
        assert row.stage in {"", *STAGES}, event
        assert row.kind in {"", *words.EVENT_KINDS}, event


def test_each_dialect_has_a_contract_a_form_of_its_files_and_a_shim():
    for name, vendor in extension.dialects.items():
        assert (form_of(name).dialect, dialect_of(name).title) == (name, vendor.title)
        assert name in agent_of(name).runs


def test_a_dialect_imports_nothing_that_starts_processes():
    package = Path(picohook.__file__).parent
    vendors = package / "ext" / "vendors"
    paths = [path for name in NAMES for path in (vendors / name).glob("*.py")]
    assert len(paths) > 30
    for path in [vendors / "contract.py", *(path for path in paths if path.stem not in {"file", "shim"})]:
        depth = len(path.relative_to(package).parts)  # this many dots lead out of the package
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == depth:
                assert (node.module or "").partition(".")[0] in {"errors", "model", "protocol", "wire"}, path
            elif isinstance(node, ast.ImportFrom) and node.level:
                assert node.level < depth - 1, f"{path} imports {node.module} of another room"


def test_claude_codes_events_are_all_there():
    assert len(dialect_of("claude").events) == 33
