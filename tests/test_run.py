"""The tests' own run: what it starts, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import run

HERE = os.path.dirname(run.__file__)
CHILD = "import signal, sys; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN, flush=True); signal.pause()"
RUN = f"""
import sys
sys.path.append({HERE!r})
import run, signal, subprocess
run.begin()
subprocess.Popen([sys.executable, "-c", {CHILD!r}])
signal.pause()
"""


def test_a_run_that_was_started_ignoring_signals_starts_programs_that_do_not_and_leaves_none_when_it_is_killed():
    environment = {name: value for name, value in os.environ.items() if name != run.MARK}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen([sys.executable, "-c", RUN], env=environment, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout.readline() == "False\n"
        process.kill()
        assert process.stdout.read() == ""  # its end comes when the program that holds it is gone, too


@pytest.mark.parametrize(("strict", "outcome"), [(False, "skipped"), (True, "failed")])
def test_a_skipped_test_fails_where_skips_are_not_allowed(strict, outcome):
    place = ("test_it.py", 3, "Skipped: there is no tmux")
    report = pytest.TestReport("test_it.py::test", ("test_it.py", 3, "test"), {}, "skipped", place, "setup")
    judged = run.judged(report, strict=strict)
    assert judged.outcome == outcome
    assert "there is no tmux" in str(judged.longrepr)
