"""Every example, in every language and with its real toolchain, keeps to all that the protocol asks of a hook."""

from __future__ import annotations

import inspect
import os

import preloaded
import pytest

from picohook.conformance.hook import run
from picohook.conformance.manifest import load
from picohook.conformance.report import FAIL, SKIP

from .conftest import EXAMPLES
from .languages import LANGUAGES
from .test_languages import STAGES
from .test_useful import module

PATIENCE = 30
"""For a busy machine: a hook that is slow to start is not one that does not answer."""

IN_PROCESS = {"demo", "terminal_approval"}
"""A host, and a hook that lives in one."""
USEFUL = {path.stem for path in EXAMPLES.glob("*.py")} - IN_PROCESS
ARGUMENTS = {"audit_log": '"$$.jsonl"', "result_cache": "read_file"}
"""For a shell: each process of the audit log has a file of its own."""
SERVED_ALIKE = USEFUL - {"jsonrpcserver_gate"}

OPTIONAL = {"CALL-4", "HELLO-6", "STAGE-12"}
STAGE = {one.vector["stage"]: one.id for one in load("hook").requirements if "stage" in one.vector}


def conforms(command, stages=()):
    """Nothing that is asked of a hook with these stages, MUST or SHOULD, does not hold; nor is it skipped."""
    report = run(command, stages=stages, timeout=PATIENCE, grace=PATIENCE)
    results = {one.requirement.id: (one.status, one.expected, one.said) for one in report.results}
    assert {name: result for name, result in results.items() if result[0] == FAIL} == {}
    skipped = {name for name, result in results.items() if result[0] == SKIP}
    assert skipped <= {*STAGE.values(), *OPTIONAL} - {STAGE[stage] for stage in stages}


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_the_hook_of_every_language_conforms(language, shared):
    conforms(language.command(shared), STAGES)


@pytest.mark.parametrize("name", sorted(USEFUL))
def test_a_hook_to_install_conforms(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hook, python = os.fspath(EXAMPLES / f"{name}.py"), preloaded.program("python")
    conforms(["sh", "-c", f'exec "$0" "$1" {ARGUMENTS.get(name, "")}', python, hook])


def test_hooks_that_are_to_be_copied_alone_serve_alike():
    assert len({inspect.getsource(module(name).serve) for name in SERVED_ALIKE}) == 1
