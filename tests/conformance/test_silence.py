"""The causes that the kit shows for a hook without answers, and the raw lines."""

from __future__ import annotations

import shutil

import pytest

from picohook.conformance import process
from picohook.conformance.hook import run

HELLO = '{"jsonrpc":"2.0","id":1,"result":{}}'

SILENT = {
    "nothing": ("exit 0", "it ended with exit code 0 and wrote nothing: does it call app.run()"),
    "a child keeps its output": ("sleep 1000 & echo boom >&2; exit 3", "it ended with exit code 3: boom"),
    "pretty": (
        "read line; printf '{\\n\"id\": 1\\n}\\n'; exec sleep 1000",
        "it gives no answer: it prints JSON over several lines",
    ),
    "string id": (
        """read line; echo '{"jsonrpc":"2.0","id":"1","result":{}}'; exec sleep 1000""",
        "it gives no answer: it sends the id back as a string",
    ),
    "to the end": (f"cat > /dev/null; echo '{HELLO}'", "it answered when its input was closed: answer each line"),
    "no flush": (f"exec sed 's/.*/{HELLO}/'", "it buffers its answers: flush standard output"),
    "traceback": (
        "read line; echo 'Traceback (most recent call last):\n  File \"/a/b.py\", line 3, in f\nKeyError: 1' >&2; exit 1",
        "it ended with exit code 1: KeyError: 1 (b.py:3)",
    ),
}


@pytest.mark.parametrize("case", SILENT)
def test_the_cause_of_a_missing_answer_is_shown(case, monkeypatch):
    monkeypatch.setattr(process, "LISTEN", 60.0 if case == "no flush" else 2.0)
    script, why = SILENT[case]
    report = run(["/bin/sh", "-c", script], only=["HELLO-1"], timeout=0.5, grace=1)
    (result,) = report.results
    assert result.status == "fail"
    assert result.said.startswith(why)


@pytest.mark.skipif(shutil.which("sed") is None, reason="needs sed, which holds back what it writes to a pipe")
def test_a_hook_that_flushes_only_its_hello_is_told_so(monkeypatch):
    monkeypatch.setattr(process, "LISTEN", 60.0)
    script = f"read line; echo '{HELLO}'; exec sed 's/.*/{HELLO.replace('1', '2', 1)}/'"
    report = run(["/bin/sh", "-c", script], only=["LINE-1"], timeout=0.5, grace=1)
    (result,) = report.results
    assert result.said == "it answered when its input was closed: flush standard output after each answer"


def test_the_raw_lines_of_each_run_are_shown_with_their_directions():
    seen = []
    script = f"read line; echo '{HELLO}'; printf '\\033[2Jno end'"
    run(["/bin/sh", "-c", script], only=["HELLO-1"], timeout=5, grace=5, seen=seen.append)
    lines = seen[0]
    assert [line.shown[:12] for line in lines] == ["→ HELLO-1  {", "← HELLO-1  {", "← HELLO-2  \\"]
    assert lines[1].text == HELLO
    assert lines[2].text == r"\x1b[2Jno end (no newline)"
