"""What stands in the place of a hook during a drill."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from rows import each

from picohook.ext.drill.alone import recorder


def hook(text, missing=None):
    return {
        "at": "a hook",
        "run": ["/bin/sh", "-c", text],
        "missing": ["/bin/sh", "-c", missing or text],
        "shells": "/no",
    }


@pytest.fixture(autouse=True)
def drill(monkeypatch):
    monkeypatch.setenv(recorder.AGENT, str(os.getpid()))


@each(
    ("mode", "text", "code"),
    [
        ("ask", "grep -q event", 0),
        ("ask", "exit 7", 7),
        ("refuse", "exit 0", 2),
        ("missing", "grep -q event", 127),  # no program but shells is on the PATH
        ("missing", "grep -q event || exit 2", 2),
        ("killed", "exec cat > /dev/null", -9),  # it waits for its input, and the shell has become the program
        ("killed", "cat > /dev/null || exit 2; exit 0", 2),  # the shell around it goes on
    ],
)
def test_it_answers_as_the_mode_of_a_call_says(mode, text, code):
    assert recorder.answer(hook(text), mode, b"event\n")[0] == code


def test_it_kills_the_host_that_a_hook_waits_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    serves = ["/bin/sh", "-c", f"exec 3> {pipe}; echo ready; exec sleep 1000"]
    env = {**os.environ, recorder.HOOK: str(os.getpid())}
    with subprocess.Popen(serves, env=env, stdout=subprocess.PIPE) as host:
        try:
            assert host.stdout.readline() == b"ready\n"
            # The hook waits for its host's answer, and reads an end of the pipe.
            code, _, _ = recorder.answer(hook(f"cat {pipe}; exit 2"), "killed", b"event")
            assert (code, host.wait()) == (2, -9)
        finally:
            host.kill()
            os.close(reader)


def test_it_notes_what_it_is_asked_about_and_passes_other_calls_on(tmp_path):
    (tmp_path / "hooks.json").write_text(json.dumps([hook("cat; exit 3")]))
    program = [sys.executable, "-I", "-S", recorder.__file__, str(tmp_path), "0"]
    marker = "picohook-drill-main-1-refuse"
    refused = subprocess.run(program, input=f"touch /x/{marker}".encode(), capture_output=True, check=False)
    other = subprocess.run(program, input=b"other", capture_output=True, check=False)
    assert (refused.returncode, refused.stderr) == (2, b"the drill refuses this call\n")
    assert (other.returncode, other.stdout) == (3, b"other")
    notes = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert [note for note in notes if note["marker"]] == [
        {"hook": "a hook", "marker": marker},
        {"hook": "a hook", "marker": marker, "code": 2},
    ]


def test_a_failure_of_its_own_refuses_and_is_noted_as_such(tmp_path):
    (tmp_path / "hooks.json").write_text(json.dumps([{**hook(""), "run": ["/no/such/program"]}]))
    program = [sys.executable, "-I", "-S", recorder.__file__, str(tmp_path), "0"]
    done = subprocess.run(program, input=b"picohook-drill-main-0-ask", capture_output=True, check=False)
    last = json.loads((tmp_path / "asked").read_text().splitlines()[-1])
    assert (done.returncode, "fault" in last) == (2, True)
