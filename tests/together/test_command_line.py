"""What a package by somebody else adds to the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import picohook
from picohook.cli.app import app

OPTIONS = """
from picohook import Extension, Lazy, Option

extension = Extension(
    name="more",
    options={
        "doctor --alter": Option(Lazy("more:mutate"), "Change calls, and see which a gate misses.", metavar="HOOK", many=True),
        "trace --paper": Option(Lazy("more:html"), "Write a page instead.", metavar="FILE"),
        "trace --quick": Option(Lazy("more:quick"), "Do nothing."),
    },
    doctor=Lazy("more:examine"),
)

async def examine(layers):
    from picohook.cli.doctor.findings import Finding, Level
    yield Finding(Level.OK, "more", "hooks", f"{len(layers.hooks)} hooks may run")

def mutate(context, hooks):
    from picohook.cli.doctor.examine import examinations
    from picohook.cli.doctor.findings import Finding, Level
    async def examine(layers):
        for hook in hooks:
            yield Finding(Level.WARNING, hook, "mutations", "it misses 3 of 100", "read them")
    examinations(context).append(examine)

def html(context, file):
    import typer
    print(f"{context.params['record']} as {file}")
    raise typer.Exit

def quick(context, value):
    import typer
    print(value)
    raise typer.Exit
"""
TWO = """
from picohook import Extension, Lazy
extension = Extension(name="{name}", schemas={{"mine": Lazy("json:loads")}})
"""


@pytest.fixture
def run(capfd, tmp_path, monkeypatch):
    """Runs `picohook` without any hook. Returns its exit code, and what it prints."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str):
        with pytest.raises(SystemExit) as ended:
            app(arguments, prog_name="picohook")
        return ended.value.code, capfd.readouterr().out

    return run


@pytest.fixture
def doctor(run, tmp_path):
    """Runs `picohook doctor` in a process of its own, which may end before its threads. Returns what it prints."""
    del run

    def doctor(*arguments: str):
        command = [sys.executable, "-m", "picohook", "doctor", *arguments]
        path = os.pathsep.join((str(tmp_path), str(Path(picohook.__file__).parents[1])))
        env = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False).stdout

    return doctor


def test_an_option_of_a_package_adds_to_what_doctor_examines(install, doctor):
    install("more", text=OPTIONS)
    examined = json.loads(doctor("--json", "--alter", "gate", "--alter=other"))
    found = [(one["about"], one["message"]) for one in examined["findings"]]
    assert [one for one in found if one[0] in {"more", "gate", "other"}] == [
        ("more", "0 hooks may run"),
        ("gate", "it misses 3 of 100"),
        ("other", "it misses 3 of 100"),
    ]


def test_an_option_of_a_package_takes_the_place_of_what_another_extensions_command_does(install, run, tmp_path):
    install("more", text=OPTIONS)
    (tmp_path / "record.jsonl").write_text("")
    assert run("trace", "record.jsonl", "--paper", "page.html") == (0, "record.jsonl as page.html\n")
    assert run("trace", "record.jsonl", "--quick") == (0, "True\n")


def test_help_shows_the_options_of_packages(install, run):
    install("more", text=OPTIONS)
    code, shown = run("trace", "--help")
    assert code == 0
    assert "--paper FILE" in shown
    assert "Write a page instead." in shown


def test_an_option_that_no_package_has_is_unknown(run):
    assert run("trace", "record.jsonl", "--paper", "page.html")[0] == 2


def test_extensions_lists_what_there_is_and_where_it_comes_from(install, run):
    install("more", text=OPTIONS)
    code, shown = run("extensions", "--json")
    rows = {row["name"]: row for row in json.loads(shown)["extensions"]}
    assert (code, json.loads(shown)["problems"]) == (0, [])
    assert (rows["audit"]["from"], rows["audit"]["commands"]) == ("", ["audit"])
    assert (rows["more"]["from"], rows["more"]["options"]) == (
        "more 1.2",
        ["doctor --alter", "trace --paper", "trace --quick"],
    )
    _, shown = run("extensions")
    assert [line.split()[:4] for line in shown.splitlines() if line.startswith("more")] == [
        ["more", "more", "1.2", "options:"]
    ]


def test_extensions_fails_and_names_each_package_that_cannot_be_used(install, run):
    install("bad_package", text="extension = 3")
    for name in ("one_package", "two_package"):
        install(name, text=TWO.format(name=name))
    code, shown = run("extensions", "--json")
    bad, both = json.loads(shown)["problems"]
    assert code == 1
    assert bad == {"package": "bad_package 1.2", "why": "its entry point names a int, not a picohook.Extension"}
    assert both["why"].startswith("one_package 1.2 and two_package 1.2 both have 'mine' as one of their schemas")


def test_doctor_warns_of_a_package_that_cannot_be_used(install, doctor):
    install("bad_package", text="extension = 3")
    shown = doctor()
    assert "bad_package 1.2" in shown
    assert "extension: its entry point names a int" in shown


def test_a_command_that_no_package_has_is_compared_with_those_of_packages(install, capfd):
    install("one_package")
    with pytest.raises(SystemExit):
        app(["helo"], prog_name="picohook")
    assert "Did you mean 'hello'?" in capfd.readouterr().err
