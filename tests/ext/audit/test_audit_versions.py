"""A log of every version of the format is verified and continued. `versions/N.jsonl` was written when N was the version."""

from __future__ import annotations

import io
import json
from pathlib import Path

import anyio
import pytest

from picohook import AuditLog, Host
from picohook.journal.ledger import FORMAT, NOTHING, keyed, verify

VERSIONS = Path(__file__).parent / "versions"


def log(*records: dict[str, object]) -> list[bytes]:
    """The lines of a log with these records."""
    lines, head = [], NOTHING
    for number, record in enumerate(records, 1):
        whole = {"number": number, **record, "previous": head}
        head = keyed(b"", whole)
        lines.append(json.dumps({**whole, "hash": head}).encode() + b"\n")
    return lines


def test_there_is_a_log_of_every_version():
    assert {path.name for path in VERSIONS.iterdir()} == {f"{version}.jsonl" for version in range(1, FORMAT + 1)}


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_a_log_of_every_version_is_verified_and_continued(version, tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes((VERSIONS / f"{version}.jsonl").read_bytes())
    before = verify(io.BytesIO(path.read_bytes()))
    assert (before.problem, before.records) == (None, 6)

    async def run():
        async with Host(listeners=[AuditLog(path)]):
            pass

    anyio.run(run)
    after = verify(io.BytesIO(path.read_bytes()))
    assert (after.problem, after.records) == (None, 8)
    assert json.loads(path.read_text().splitlines()[6])["format"] == FORMAT


def test_a_start_without_a_format_is_of_version_1():
    assert verify(log({"method": "host.start"}, {"method": "host.stop"})).problem is None


@pytest.mark.parametrize("newer", [FORMAT + 1, "2", None])
def test_a_newer_format_is_refused_with_both_versions(newer):
    problem = verify(log({"method": "host.start", "format": newer})).problem
    assert problem == (
        f"record 1 is of format {json.dumps(newer)}, and this picohook knows format {FORMAT}: use a newer picohook"
    )


def test_a_format_that_follows_another_in_one_log_is_refused_where_it_begins():
    lines = log({"method": "host.start", "format": 1}, {"method": "host.stop"}, {"method": "host.start", "format": 2})
    verdict = verify(lines)
    assert (verdict.records, (verdict.problem or "")[:8]) == (2, "record 3")
