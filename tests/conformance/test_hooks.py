"""The requirements for hooks: each is broken by its mutant alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from picohook import PicohookError
from picohook.conformance.hook import run
from picohook.conformance.manifest import load

from . import mutant_hook

ROOT = Path(__file__).parents[2]
# Imported, so that it is compiled once and not for each of the thousands of times that it is started.
BOOT = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import mutant_hook; mutant_hook.main()"
GOOD = [sys.executable, "-I", "-S", "-c", BOOT]
GRACE = {"END-1": 1.0, "END-4": 1.0}
"""Shorter for mutants that have to be waited for."""

IDS = load("hook").ids


def statuses(report):
    return {one.requirement.id: (one.status, one.expected, one.said) for one in report.results if one.status != "pass"}


def test_the_good_hook_holds_all_of_them():
    report = run(GOOD, timeout=20, grace=20)
    assert statuses(report) == {}
    assert tuple(one.requirement.id for one in report.results) == IDS
    assert report.ok


def test_each_requirement_has_its_mutant_and_each_mutant_its_requirement():
    mutants = {name.replace("_", "-") for name in vars(mutant_hook) if name[0].isupper() and name[-1].isdigit()}
    assert mutants == set(IDS)


@pytest.mark.parametrize("requirement", IDS)
def test_a_mutant_breaks_its_requirement_and_no_other(requirement):
    report = run([*GOOD, "--break", requirement], timeout=20, grace=GRACE.get(requirement, 20))
    found = statuses(report)
    assert {one for one, (status, _, _) in found.items() if status == "fail"} == {requirement}, found
    assert report.ok is (load("hook")[requirement].level != "MUST")
    assert found[requirement][1]
    assert found[requirement][2]


def test_one_requirement_can_be_looked_at_alone():
    report = run([*GOOD, "--break", "REPLY-1"], only=["ID-1", "REPLY-1"])
    assert [(one.requirement.id, one.status) for one in report.results] == [("ID-1", "pass"), ("REPLY-1", "fail")]
    assert report.results[1].said == (
        'in the run for HELLO-1, it wrote {"id": 1, "result": {"ok": true, "name": "mutant", '
        '"capabilities": {"cancel": true, "progress": false}}}'
    )


def test_a_stage_that_is_claimed_has_to_be_there():
    logger = [sys.executable, os.fspath(ROOT / "hooks_examples" / "logger.py")]
    (free,) = run(logger, only=["STAGE-5"]).results
    (claimed,) = run(logger, only=["STAGE-5"], stages=["approve_tool"]).results
    assert (free.status, free.said) == ("skip", "it approves nothing")
    assert (claimed.status, claimed.said) == (
        "fail",
        'it answered {"jsonrpc": "2.0", "id": 2, "result": {"action": "continue"}}',
    )


def test_what_ends_before_it_answers_is_told_with_its_last_words():
    (result,) = run([sys.executable, "-c", "raise SystemExit('no \\x1b[31mlicence')"], only=["HELLO-1"]).results
    assert (result.expected, result.said) == (
        "an answer to hook.hello with id 1",
        "it ended with exit code 1: no \\x1b[31mlicence",
    )


def test_output_that_a_grandchild_keeps_open_is_not_waited_for(tmp_path):
    # The grandchild reads a pipe that nobody writes to: it ends with the group, or never.
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f'sh -c "cat {fifo}" & exec "$@"'
    report = run(["sh", "-c", script, "sh", *GOOD], only=["END-1", "HELLO-1", "REPLY-1"], timeout=20, grace=600)
    assert statuses(report) == {}


def test_a_command_that_cannot_be_started_is_an_error():
    with pytest.raises(PicohookError, match="'/nowhere/hook' cannot be started: No such file or directory"):
        run(["/nowhere/hook"])
