"""A shell completes commands, options, stages and other words, with the script that the program prints for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from program import PATIENCE, Result

TAB = """
eval "$(picohook --show-completion)"
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_picohook_completion picohook
printf "%s\\n" "${{COMPREPLY[@]}}"
"""
"""What bash does when TAB is pressed."""


def bash(project, script: str) -> Result:
    """Run a script that finds `picohook` on its PATH."""
    programs = project.path / "bin"
    programs.mkdir()
    program = programs / "picohook"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m picohook "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=project.path,
        env={**project.env, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_bash_completes_with_the_script_that_is_printed_for_it(project):
    done = bash(project, TAB.format(words="picohook call bef"))

    assert (done.code, done.err) == (0, "")
    assert sorted(done.out.split()) == ["before_compact", "before_finish", "before_llm", "before_prompt", "before_tool"]


def test_completion_is_installed_in_the_home_directory(project):
    done = bash(project, "picohook --install-completion; true")

    assert (done.code, done.err) == (0, "")
    script = project.home / ".bash_completions/picohook.sh"
    assert f"source '{script}'" in (project.home / ".bashrc").read_text()
    assert "complete_bash" in script.read_text()


def offered(project, line: str, shell: str) -> str:
    env = {
        "_PICOHOOK_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = project(env=env)
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("picohook ch", ["check"]),
        ("picohook call --rec", ["--record"]),
        ("picohook call --picoclaw 0.2.9", ["0.2.9", "0.2.9+edits"]),
        ("picohook schema con", ["config"]),
        ("picohook control rel", ["reload"]),
        ("picohook new guard --lang ty", ["typescript"]),
        ("picohook nothing ", []),
    ],
)
def test_words_are_completed(project, line, words):
    assert offered(project, line, "bash").split() == words


def test_zsh_and_fish_get_the_words_with_their_help(project):
    assert offered(project, "picohook ch", "fish").startswith("check\tCheck a configuration")
    assert '"check":"Check a configuration' in offered(project, "picohook ch", "zsh")
