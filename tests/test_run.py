"""The tests' own run: what it starts, and what it leaves behind."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
import run
from loops import loop_of
from rows import each

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


def test_tests_that_take_the_event_loops_by_turns_take_each_as_often():
    loops = Counter(loop_of(f"test_it[{number}]")[0] for number in range(100))
    assert loops == {"asyncio": 50, "trio": 50}


def test_a_failure_in_a_table_names_its_row():
    tried = []

    @each("outer", "ab")
    @each(("number", "half"), [(2, 1), (4, 3)])
    def test(fixture, outer, number, half):
        tried.append(f"{fixture}{outer}{number}")
        assert number == 2 * half

    assert [*inspect.signature(test).parameters] == ["fixture"]
    with pytest.raises(AssertionError) as failed:
        test(fixture="-")
    assert tried == ["-a2", "-a4"]
    assert failed.value.__notes__ == ["in the row {'number': 4, 'half': 3}", "in the row {'outer': 'a'}"]


TESTS = """
import os, pytest, signal

@pytest.mark.timeout(0.1)
def test_hangs(): signal.pause()

def test_ends(): os._exit(7)

@pytest.mark.parametrize("number", range(5))
@pytest.mark.one_worker("name")
def test_together(number):
    assert globals().setdefault("its_process", os.getpid()) == os.getpid()

@pytest.mark.parametrize("number", range(20))
def test_alone(number, tmp_path, shared_directory):
    assert shared_directory in tmp_path.parents
    print("said", number)
    assert number != 3
"""


def test_each_test_is_run_by_one_worker_and_has_failed_if_it_hangs_or_the_worker_ends_before_it_does(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "workers", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    command += ["--workers", "3", "-q", "-rf"]
    environment = {**os.environ, "PYTHONPATH": HERE, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    failed = {line.split()[1].partition("::")[2] for line in done.stdout.splitlines() if line.startswith("FAILED ")}
    assert {"test_ends", "test_hangs", "test_alone[3]"} <= failed
    # The worker that ended had taken one test more, and printed nothing of it.
    assert len(failed) <= 4
    assert f"{len(failed)} failed, {27 - len(failed)} passed" in done.stdout
    assert "Failed: Timeout" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("said ")] == ["said 3"]
    assert "exit codes: [0, 7]" in done.stdout
