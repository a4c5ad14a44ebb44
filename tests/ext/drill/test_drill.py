"""`picohook drill`, with a small agent in the place of a vendor's. `make agents` drives the real ones."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import program
import pytest

HOOK = {"type": "command", "command": "cat > /dev/null", "onFailure": "block"}


@pytest.fixture(autouse=True)
def agent(project, tmp_path):
    """The program of an agent. Its own settings ask one hook, which lets all calls pass."""
    made = tmp_path / "bin" / "claude"
    made.parent.mkdir()
    made.write_text(f"#!{sys.executable}\n" + Path(__file__).with_name("fake_agent.py").read_text())
    made.chmod(0o755)
    project.env["PATH"] = f"{made.parent}:{project.env['PATH']}"
    settle(project.home)


def settle(place, hook=HOOK, **settings):
    """Write settings of Claude Code."""
    path = place / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    group = {"matcher": settings.pop("matcher", None), "hooks": [hook]}
    path.write_text(json.dumps({"hooks": {"PreToolUse": [group]}, **settings}))
    return path


def drilled(project, *ways, env=None, options=()):
    """The exit code, and the verdict about each way."""
    named = [word for way in ways for word in ("--way", way)]
    done = project("drill", "claude", "--json", *named, *options, env=env)
    assert done.out, done.err
    return done.code, {way["name"]: way["verdict"] for way in done.json["ways"]}


class TestAnAgentThatAsks:
    def test_is_guarded_along_each_way_that_it_has(self, project):
        ways = ["main", "parallel", "subdirectory", "resumed", "write", "missing", "killed"]
        assert drilled(project, *ways) == (0, dict.fromkeys(ways, "guarded"))

    def test_is_guarded_by_a_hook_that_refuses_every_call(self, project):
        settle(project.home, {"type": "command", "command": "echo no >&2; exit 2"})
        assert drilled(project, "main") == (0, {"main": "guarded"})

    def test_leaves_settings_project_and_home_as_they_were(self, project):
        path = settle(project.home)
        before = path.read_text()
        (project.home / ".claude/sessions").mkdir()
        drilled(project, "main", options=["--here"])
        assert path.read_text() == before
        assert [*project.path.iterdir()] == []
        left = {one.relative_to(project.home) for one in project.home.rglob("*") if one.is_file()}
        assert left == {Path(".claude/settings.json")}

    def test_is_guarded_beside_the_markers_of_another_drill_in_the_same_project(self, project):
        others = {project.path / f"picohook-drill-{name}" for name in ("main-0-ask", "main-1-refuse", "write-0-ask")}
        for path in others:
            path.touch()
        assert drilled(project, "main", "write", options=["--here"]) == (0, {"main": "guarded", "write": "guarded"})
        assert {*project.path.iterdir()} == others

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_leaves_no_file_and_no_process_when_it_is_interrupted(self, project, number, code):
        fifo = project.home / "asked"
        os.mkfifo(fifo)
        path = settle(project.home, {"type": "command", "command": f"exec 9> {fifo}; echo asked >&9; sleep 999"})
        before = path.read_text()
        arguments = ("drill", "claude", "--here", "--way", "subdirectory")
        with project.start(*arguments) as process, program.reading(fifo) as pipe:
            assert program.read_line(pipe) == "asked\n"
            process.send_signal(number)
            assert process.wait(timeout=60) == code
            assert program.read_line(pipe) == ""
        assert (path.read_text(), [*project.path.iterdir()]) == (before, [])
        assert {one for one in project.home.rglob("*") if not one.is_dir()} == {path, fifo}

    def test_says_what_was_seen_in_words(self, project):
        done = project("drill", "claude", "--way", "main", "--way", "open-shell")
        assert done.code == 0
        assert done.out.splitlines()[0].startswith("Claude Code 2.1.330, ")
        assert "settings.json: PreToolUse[0] was asked about each call, and none ran that was refused" in done.out
        assert "no tool of Claude Code types into a shell" in done.out

    def test_of_another_version_is_tried_and_the_version_told(self, project):
        done = project("drill", "claude", "--way", "main", "--json", env={"FAKE_VERSION": "9.9.9"})
        assert done.json["version"] == "9.9.9"
        assert "this version is not known: 9.9.9; its agent was tried as 2.1.330" in done.json["notes"]
        assert done.json["ok"]


class TestAnAgentThatDoesNotAsk:
    def test_is_unguarded_where_a_setting_turns_hooks_off(self, project):
        settle(project.home, disableAllHooks=True)
        done = project("drill", "claude", "--way", "main")
        assert done.code == 1
        assert "unguarded     a command of the main loop" in done.out
        assert "a call ran, and no hook was asked about it" in done.out
        assert done.out.endswith("unguarded: main\n")

    def test_is_unguarded_along_the_ways_that_a_matcher_leaves_out(self, project):
        settle(project.home, matcher="Bash")
        assert drilled(project, "main", "write") == (1, {"main": "guarded", "write": "unguarded"})

    def test_is_unguarded_if_a_failure_of_its_hook_lets_calls_run(self, project):
        settle(project.home, {"type": "command", "command": "/bin/cat > /dev/null"})
        ways = ["main", "missing", "killed"]
        code, found = drilled(project, *ways)
        assert (code, found) == (1, {"main": "guarded", "missing": "unguarded", "killed": "unguarded"})

    def test_is_unguarded_if_its_hook_always_fails(self, project):
        settle(project.home, {"type": "command", "command": "exit 3"})
        assert drilled(project, "main") == (1, {"main": "unguarded"})


class TestTheHooksOfAProject:
    def test_are_followed_where_they_are_and_their_file_does_not_change(self, project):
        settle(project.home, disableAllHooks=True)
        path = settle(project.path, disableAllHooks=False)
        before = path.read_text()
        done = project("drill", "claude", "--here", "--way", "main", "--way", "subdirectory", "--json")
        if "no mount namespace" in done.err:
            pytest.skip(done.err)
        assert {way["name"]: way["verdict"] for way in done.json["ways"]} == {
            "main": "guarded",
            "subdirectory": "unguarded",  # this agent looks for them in its directory alone
        }
        assert path.read_text() == before
        assert [*project.path.iterdir()] == [project.path / ".claude"]


class TestWhatCannotBeDriven:
    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (["cursor"], 2, "Cursor cannot be driven"),
            (["claud"], 2, 'there is no "claud" (did you mean "claude"?)'),
            (["claude", "--way", "mian"], 2, 'there is no "mian" (did you mean "main"?)'),
            (["gemini"], 1, "there is no program gemini on the PATH: install it, or put its directory there"),
        ],
    )
    def test_is_told_with_the_way_out(self, project, arguments, code, told):
        done = project("drill", *arguments)
        assert (done.code, done.out) == (code, "")
        assert told in done.err

    def test_an_agent_without_hooks_has_nothing_to_prove(self, project):
        (project.home / ".claude/settings.json").write_text("{}")
        done = project("drill", "claude", "--way", "main")
        assert done.code == 1
        assert "is asked before a tool: write one, or call picohook shim claude" in done.err

    def test_settings_that_cannot_be_read_are_named(self, project):
        path = project.home / ".claude/settings.json"
        path.write_text("{")
        done = project("drill", "claude", "--way", "main")
        assert done.code == 1
        assert f"{path} cannot be read: " in done.err


def test_doctor_offers_a_drill_of_an_installed_agent_with_hooks(project):
    assert "→ picohook drill claude" in project("doctor").out
    (project.home / ".claude/settings.json").write_text("{}")
    assert "picohook drill" not in project("doctor").out
