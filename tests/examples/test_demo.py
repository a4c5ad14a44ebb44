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


SAVE = 'save_note(text="sk-4f9a01cc7b52e8d3 opens the weather service. Take an umbrella.")'


def steps(shown):
    """The steps, each as its title and its rows."""
    found = []
    for line in shown.splitlines():
        if line and not line.startswith(" "):
            found.append((line.split("  ", 1)[-1], []))
        elif line.strip():
            found[-1][1].append(line.strip())
    return found


@pytest.fixture(scope="module", params=["picohook.toml", "picoclaw.json"])
def demo(request):
    process = run(str(EXAMPLES / request.param))
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def test_it_shows_each_step_of_the_turn_in_order(demo):
    *titles, last = [title for title, _ in steps(demo)]
    assert titles == [
        "user: Do I need an umbrella in Berlin? And please look after my notes.",
        "the model is asked",
        'get_weather(city="Berlin")',
        'read_file(path="/etc/passwd")',
        "the model is asked",
        SAVE,
        'bash(command="ls notes")',
        'bash(command="rm -rf notes")',
        "the model is asked",
        "Events, for which the agent did not wait, as the observers saw them",
    ]
    assert re.fullmatch("7 hook processes answered [0-9]+ questions, and were ended", last)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("the model is asked", ["before_llm", "logger", "1 message, 3 tools", "continue", "ms"]),
        ("the model is asked", ["weather", "the same", "modify: tools", "ms"]),
        ('get_weather(city="Berlin")', ["weather", "the same", "respond: Berlin: 12 °C,", "ms"]),
        ('read_file(path="/etc/passwd")', ["path_guard", "deny_tool: /etc/passwd", "ms"]),
        (SAVE, ["redactor", "modify: arguments", "ms"]),
        (SAVE, ["approve_tool", "path_guard", 'save_note(text="[redacted] open', "approved", "ms"]),
        (SAVE, ["redactor", "modify: result", "ms"]),
        ('bash(command="rm -rf notes")', ["approve_tool", "path_guard", "refused: rm is not on", "ms"]),
    ],
)
def test_it_shows_each_hooks_decision_and_its_time(demo, step, words):
    rows = [row for title, rows in steps(demo) if title == step for row in rows]
    assert any(all(word in row for word in words) for row in rows)


@pytest.mark.parametrize(
    "told",
    [
        "the model is told: Berlin: 12 °C, rain",
        "the model is told: Tool execution denied by hook: /etc/passwd is outside the workspace",
        "the model is told: saved, password: [redacted] (55 characters)",
        "the model is told: shopping.md  travel.md",
        "the model is told: Tool execution denied by approval hook: rm is not on the list",
        "it is offered read_file, save_note, bash, get_weather, and says: I look it up.",
        "event_counter    43 events: 23 llm_delta, 3 llm_request",
        "info   agent.turn.start",
        "warn   agent.tool.exec_skipped  bash",
        "info   agent.turn.end  completed",
    ],
)
def test_it_shows_the_outcome(demo, told):
    assert told in demo


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
    assert "no such luck" in process.stdout


def test_a_warning_about_the_machine_shows_and_spoils_nothing(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    output = demo["Output"]()
    output.warning("this machine cannot provide a tier", tier="namespace", why="mount: Invalid argument")
    assert output.warnings == [
        "host: this machine cannot provide a tier, tier: namespace, why: mount: Invalid argument"
    ]
    assert output.failures == 0
    output.warning("ended", hook="logger", why="it exited")
    assert output.failures == 1
