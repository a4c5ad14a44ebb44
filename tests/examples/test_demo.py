"""The demo, as somebody sees it who has just cloned this."""

from __future__ import annotations

import os
import pty
import re
import runpy
import subprocess
import sys

import preloaded
import pytest

from .conftest import EXAMPLES, ROOT

pytestmark = pytest.mark.one_worker("demo")  # one worker plays it, for all tests


def run(*arguments, **environment):
    return subprocess.run(
        [preloaded.program("python"), str(EXAMPLES / "demo.py"), *arguments],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def run_in_terminal(**environment):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "demo.py")],
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment},
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:  # how a terminal on Linux ends
            pass
        os.close(ours)
    assert process.returncode == 0
    return shown.decode()


SAVE = 'save_note(text="sk-4f9a01cc7b52e8d3 opens the weather service. Take an …'


def calls(shown):
    """The calls, each as its title with what became of it, and its rows."""
    found = {}
    for line in shown.split("agent: ")[0].splitlines()[1:]:
        if line and not line.startswith(" "):
            rows = found[line] = []
        elif line:
            rows.append(line)
    return {tuple(title.rsplit(maxsplit=1)): rows for title, rows in found.items()}


@pytest.fixture(scope="module", params=["picohook.toml", "picoclaw.json"])
def demo(request):
    process = run(str(EXAMPLES / request.param))
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def test_it_shows_what_became_of_each_call_in_order(demo):
    assert [*calls(demo)] == [
        ("the model is asked", "changed"),
        ('get_weather(city="Berlin")', "answered"),
        ('read_file(path="/etc/passwd")', "denied"),
        (SAVE, "changed"),
        ('bash(command="ls notes")', "allowed"),
        ('bash(command="rm -rf notes")', "denied"),
    ]


@pytest.mark.parametrize(
    ("call", "row"),
    [
        ("the model is asked", r"  weather     changed   tools +\S+ ms"),
        ('get_weather(city="Berlin")', r"  weather     answered  Berlin: 12 °C, rain +\S+ ms"),
        ('read_file(path="/etc/passwd")', r"  path_guard  denied    /etc/passwd is outside the workspace +\S+ ms"),
        (SAVE, r"  redactor    changed   arguments +\S+ ms"),
        (SAVE, r"  path_guard  approved +\S+ ms"),
        (SAVE, r"  redactor    changed   result +\S+ ms"),
        (SAVE, r"  3 others let it pass"),
        ('bash(command="rm -rf notes")', r"  path_guard  denied    rm is not on the list of harmless commands +\S+ ms"),
    ],
)
def test_each_hook_that_did_something_has_a_line_with_its_time(demo, call, row):
    rows = next(rows for (title, _), rows in calls(demo).items() if title == call)
    assert [line for line in rows if re.fullmatch(row, line)]


def test_it_ends_with_what_happened_and_the_next_command(demo):
    end = " ".join(demo.split("agent: ")[1].split())
    assert re.fullmatch(
        r"Yes: .* saved\. 5 calls: 1 allowed, 1 changed, 2 denied, 1 answered\. "
        r"7 processes of hooks answered \d+ questions\. "
        r"Next, a hook of your own: picohook new my_hook && make demo HOOK=my_hook",
        end,
    )


def test_it_fits_eighty_columns_without_spaces_at_the_end_of_a_line(demo):
    assert max(len(line) for line in demo.splitlines()) <= 80
    assert [line for line in demo.splitlines() if line != line.rstrip()] == []


GATE = """
from picohook.sdk import HookApp
app = HookApp("mine")
@app.before_tool(tool="bash")
def guard(call):
    return call.deny("no shell today")
app.run()
"""


def test_a_hook_of_ones_own_is_asked_before_the_others(tmp_path):
    (tmp_path / "mine.py").write_text(GATE)
    program = run("--hook", str(tmp_path / "mine.py"))
    (tmp_path / "picohook.toml").write_text(
        f"[hooks.mine]\ncommand = [{sys.executable!r}, 'mine.py']\nstages = ['before_tool']\n"
    )
    directory = run("--hook", str(tmp_path))
    for process in (program, directory):
        rows = calls(process.stdout)['bash(command="ls notes")', "denied"]
        assert re.fullmatch(r"  mine        denied    no shell today +\S+ ms", rows[0])
        assert " ".join(process.stdout.split()).endswith("was asked first.")
        assert process.returncode == 0


def test_it_is_plain_without_a_terminal(demo):
    assert "\x1b" not in demo


def test_it_is_in_colour_on_a_terminal_and_plain_there_with_no_color():
    assert "\x1b[" in run_in_terminal(NO_COLOR="")
    assert "\x1b" not in run_in_terminal(NO_COLOR="1")


def test_a_hook_that_fails_shows_and_makes_the_demo_fail(tmp_path):
    (tmp_path / "picohook.toml").write_text("""
        [hooks.broken]
        command = ["python3", "-c", "raise SystemExit('no such luck')"]
        stages = ["before_tool"]
        restart = { max_starts = 1 }
        """)
    process = run(str(tmp_path / "picohook.toml"))
    assert process.returncode == 1
    assert "no such luck" in " ".join(process.stdout.split())


def test_a_warning_about_the_machine_shows_and_spoils_nothing(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    output = demo["Output"]()
    output.warning("this machine cannot provide a tier", tier="namespace", why="mount: Invalid argument")
    told = "host: this machine cannot provide a tier, tier: namespace, why: mount: Invalid argument"
    assert output.warnings == {"host": told}
    assert output.failures == 0
    output.warning("ended", hook="logger", why="it exited")
    assert output.failures == 1
