"""An audit log that goes on in a new file while its host runs: one chain over all of them."""

from __future__ import annotations

import itertools
import json
import os
import shutil

import pytest
from typer.testing import CliRunner

from picohook import AuditLog, FunctionHook, Host, PicohookError, RequiredAuditLog, ToolCall
from picohook.config import load
from picohook.ext.audit.command import app
from picohook.ext.audit.table import AuditTable
from picohook.journal.ledger import files_of, verify

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash")


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def verified(*paths, **settings):
    return verify(itertools.chain(*[path.read_bytes().splitlines(keepends=True) for path in paths]), **settings)


def host(log):
    return Host([FunctionHook("f", {"before_tool": lambda _: None})], listeners=[log])


def moved(path, old):
    path.rename(old)


def copied_and_emptied(path, old):
    shutil.copy(path, old)
    os.truncate(path, 0)


@pytest.mark.parametrize("rotate", [moved, copied_and_emptied])
async def test_the_chain_continues_in_a_new_file_when_the_log_is_rotated(tmp_path, rotate):
    path, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    log = AuditLog(path)
    async with host(log) as running:
        await running.before_tool(CALL)
        rotate(path, old)
        await running.before_tool(CALL)
        await running.before_tool(CALL)
    assert log.failures == 0
    assert [record["number"] for record in records(old) + records(path)] == [*range(1, 7)]
    assert records(path)[0]["previous"] == records(old)[-1]["hash"]
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert verified(old, path) == verified(old, path, head=records(old)[-1]["hash"])
    assert (verified(old, path).ok, verified(old, path).notes) == (True, ())
    assert verified(path).problem == f"records 1 to {len(records(old))} are missing"
    assert verified(path, after=records(old)[-1]["hash"]).ok
    assert verified(path, after="0" * 64).problem


async def test_it_continues_in_a_new_file_when_it_reaches_its_maximum_size(tmp_path):
    path = tmp_path / "audit.jsonl"
    for _ in range(2):  # the second run goes on where the first one ended
        async with host(AuditLog(path, max_size=1000)) as running:
            for _ in range(4):
                await running.before_tool(CALL)
    files = files_of(path)
    assert files == [*(f"{path}.{number}" for number in range(1, len(files))), str(path)]
    assert len(files) > 3
    assert all(os.path.getsize(file) <= 1000 for file in files)
    opened = [open(file, "rb") for file in files]  # noqa: SIM115 - closed below
    verdict = verify(itertools.chain(*opened))
    for file in opened:
        file.close()
    assert (verdict.ok, verdict.records) == (True, 14)


async def test_a_record_is_lost_and_counted_if_another_file_is_in_its_place(tmp_path):
    path = tmp_path / "audit.jsonl"
    log = RequiredAuditLog(path)
    async with host(log) as running:
        path.rename(tmp_path / "old")
        path.write_text("mine\n")
        assert (await running.before_tool(CALL)).reason == "the audit log cannot be written"
        path.unlink()
        assert (await running.before_tool(CALL)).action == "continue"
    assert path.read_text().startswith('{"number": ')
    assert records(path)[0]["method"] == "audit.lost"
    assert verified(tmp_path / "old", path).ok


async def test_audit_verify_looks_at_all_files_of_the_chain(tmp_path):
    path = tmp_path / "audit.jsonl"
    async with host(AuditLog(path)) as running:
        for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl-20260101"):
            await running.before_tool(CALL)
            path.rename(tmp_path / name)
        await running.before_tool(CALL)
    (tmp_path / "audit.jsonl.bak").write_text("something else\n")
    names = ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl-20260101", "audit.jsonl"]
    assert files_of(path) == [str(tmp_path / name) for name in names]
    assert CliRunner().invoke(app, ["verify", str(path)]).exit_code == 0
    gone = tmp_path / "audit.jsonl.2"
    last = records(gone)[-1]["hash"]
    gone.unlink()
    assert CliRunner().invoke(app, ["verify", str(path)]).exit_code == 1
    assert CliRunner().invoke(app, ["verify", str(path), "--after", last]).exit_code == 0


def test_the_configuration_says_how_large_it_may_be(tmp_path):
    file = tmp_path / "picohook.toml"
    file.write_text('[audit]\npath = "audit.jsonl"\nmax_size = "1M"\n[hooks]\n')
    (log,) = AuditTable.part([load(file).tables["audit"]]).listeners
    assert log.max_size == 1 << 20


@pytest.mark.parametrize("left", [None, b"", b'{"number": 3, "ti'])
async def test_the_chain_continues_after_a_host_was_killed_between_a_full_file_and_the_first_record_of_the_next(
    tmp_path, left
):
    path, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.2"
    async with host(AuditLog(path)) as running:
        await running.before_tool(CALL)
    path.rename(old)  # as a host does when the file is full
    (tmp_path / "audit.jsonl.1").write_text("an older file\n")
    os.utime(tmp_path / "audit.jsonl.1", (1, 1))
    if left is not None:
        path.write_bytes(left)
    async with host(AuditLog(path, max_size=10_000)) as running:
        await running.before_tool(CALL)
    assert (verified(old, path).problem, records(path)[0]["previous"]) == (None, records(old)[-1]["hash"])
    assert (records(path)[0]["method"] == "audit.cut") == bool(left)


async def test_a_host_does_not_continue_a_full_file_whose_last_record_was_changed(tmp_path):
    path = tmp_path / "audit.jsonl"
    async with host(AuditLog(path)) as running:
        await running.before_tool(CALL)
    (tmp_path / "audit.jsonl.1").write_text(path.read_text().replace("host.stop", "host.stay"))
    path.unlink()
    with pytest.raises(PicohookError, match=r"its last record in audit\.jsonl\.1 was changed"):
        async with host(AuditLog(path, max_size=10_000)):
            pass
