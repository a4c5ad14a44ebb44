"""The files that a project's hook runs: told by its command, or named by its `trust`, or refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

import needs
import pytest

from picohook.config import load
from picohook.errors import ConfigError, TrustError
from picohook.process.plan import ChangedError
from picohook.projects import hook_files
from picohook.projects.trust import covered, require_trust, still_trusted, trust

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Write

    from picohook.config import Config

WAY_OUT = "(name them: trust = [GLOB, ...], or trust = [] if it runs none; or make it a script of the project)"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of the system, whatever this machine has: none is ever started here."""
    directory = tmp_path / "bin"
    directory.mkdir()
    names = (
        "python3",
        "python3.12",
        "sh",
        "bash",
        "node",
        "ruby",
        "perl",
        "grep",
        "jq",
        "env",
        "nice",
        "timeout",
        "make",
    )
    for name in (*names, "uv", "npm", "npx", "go", "cargo", "java", "deno", "bun"):
        (directory / name).write_text("")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    return directory


@pytest.fixture(autouse=True)
def project(write: Write, tmp_path: Path) -> Path:
    for name in (
        "hook.py",
        "run.py",
        "check.sh",
        "hook.js",
        "pkg/__main__.py",
        "dir/__main__.py",
        "Makefile",
        "rules.json",
    ):
        write(f"project/{name}", "good")
    run = write("project/run", "#!/bin/sh\n")
    run.chmod(0o755)
    return tmp_path / "project"


def config(write: Write, **settings: object) -> Config:
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    return load(write("project/picohook.toml", f"[hooks.a]\n{lines}stages = ['before_tool']\n"), found=True)


def names(found: Config) -> list[str]:
    return [os.path.relpath(path, found.project) for path in covered(found)][1:]


TOLD = [
    (["python3", "hook.py"], ["hook.py"]),
    (["python3.12", "-u", "hook.py", "--strict", "-v", "3"], ["hook.py"]),
    (["python3", "run.py", "rules.json"], ["run.py", "rules.json"]),
    (["sh", "-eu", "check.sh"], ["check.sh"]),
    (["node", "hook.js"], ["hook.js"]),
    (["./run"], ["run"]),
    (["./run", "check.sh", "--level=3"], ["run", "check.sh"]),
    (["python3", "not_there_yet.py"], []),
    ("python3 hook.py", ["hook.py"]),
    ("./run 2>&1 | grep -v noise >> log || true", ["run"]),
    ("if grep -q 'rm -rf'; then echo '{\"action\": \"skip\"}'; fi", []),
    ("jq -e '.x | not' rules.json >/dev/null || { echo no >&2; exit 2; }", ["rules.json"]),
    ("[ -f check.sh ] && sh check.sh 2>/dev/null || [[ a == b ]]", ["check.sh"]),
    ("sh check.sh < rules.json > out && python3 hook.py", ["check.sh", "rules.json", "hook.py"]),
]


@pytest.mark.parametrize(("command", "files"), TOLD, ids=lambda value: str(value)[:40])
def test_X4_a_command_whose_words_are_all_known_passes_and_its_files_are_covered(
    write: Write, command: list[str] | str, files: list[str]
) -> None:
    found = config(write, **{"run" if isinstance(command, str) else "command": command})
    assert names(found) == files
    trust(found)
    require_trust(found)
    still_trusted(found, found.hooks[0])
    for name in files:
        write(f"project/{name}", "changed").chmod(0o755)
        with pytest.raises(TrustError, match="changed since it was trusted"):
            still_trusted(found, found.hooks[0])
        trust(found)


NOT_TOLD = [
    ["python3", "-m", "hook"],
    ["python3", "-m", "pkg"],
    ["python3", "dir"],
    ["python3", "."],
    ["python3", "-c", "import hook"],
    ["python3", "-W", "ignore", "hook.py"],
    ["python3", "-"],
    ["python3"],
    ["sh", "-c", "python3 hook.py"],
    ["bash", "-c", "python3 hook.py"],
    ["bash", "--rcfile", "check.sh", "run"],
    ["node", "hook"],
    ["node", "--require", "hook.js", "x.js"],
    ["node", "-r", "./hook", "hook.js"],
    ["ruby", "-I", "dir", "x.rb"],
    ["perl", "-Mhook", "x.pl"],
    ["python3", "run.py", "--file=hook.py"],
    ["python3", "run.py", "-fhook.py"],
    ["python3", "run.py", "hook.py:main"],
    ["python3", "run.py", "hook:main"],
    ["python3", "run.py", "dir"],
    ["python3", "run.py", ".."],
    ["./run", "--rules", "x=rules.json"],
    ["./run", "pkg.__main__"],
    ["make"],
    ["make", "-f", "Makefile"],
    ["env", "X=1", "python3", "hook.py"],
    ["nice", "python3", "hook.py"],
    ["timeout", "5", "python3", "hook.py"],
    ["uv", "run", "hook.py"],
    ["npx", "hook"],
    ["npm", "run", "hook"],
    ["deno", "run", "hook.js"],
    ["bun", "hook.js"],
    ["java", "-cp", ".", "Hook"],
    ["java", "-jar", "hook.jar"],
    ["go", "run", "."],
    ["cargo", "run"],
    ["not-installed-yet"],
    "sh -c 'python3 hook.py'",
    "cd dir && python3 __main__.py",
    "python3 -m hook",
    "X=1 python3 hook.py",
    "exec python3 hook.py",
    "python3 $HOOK",
    "python3 *.py",
    "`cat rules.json`",
    "$(cat rules.json)",
    "cat check.sh | sh",
    "sh < check.sh",
    ". ./check.sh",
    "eval 'python3 hook.py'",
    "echo hi & ./run",
    "sh <<END\npython3 hook.py\nEND",
    "echo hi > ",
    "python3 hook.py;make",
    "python3 hook.py\nmake",
    '"make"',
    "'./ru'n -x --f=hook.py",
    "sed s/a/b/e x",
    "jq -L dir .",
    "jq 'import \"x\" as x; x::f'",
    "true && { ./run } && make",
    "{ ./run; make; }",
    "echo {a,b}",
    "[ -f run ] && make",
    "[[ -f $HOOK ]]",
    "echo [ab]",
    "cd dir && ./run",
    "echo no >&2 && make",
]


@pytest.mark.parametrize("command", NOT_TOLD, ids=lambda value: str(value)[:40])
def test_X4_a_command_that_does_not_show_its_files_is_refused_with_the_way_out(
    write: Write, command: list[str] | str
) -> None:
    key = "run" if isinstance(command, str) else "command"
    refused = config(write, **{key: command})
    with pytest.raises(TrustError) as caught:
        trust(refused)
    (said,) = str(caught.value).splitlines()
    assert said.startswith(f"{refused.path}: hooks.a: its command does not tell which files of the project it runs: ")
    assert said.endswith(WAY_OUT)

    named = config(write, **{key: command, "trust": ["hook.py", "pkg/**"]})
    assert {"hook.py", "pkg/__main__.py"} <= set(names(named))
    trust(named)
    still_trusted(named, named.hooks[0])
    write("project/pkg/__main__.py", "changed")
    with pytest.raises(TrustError, match=r"__main__\.py: changed since it was trusted"):
        still_trusted(named, named.hooks[0])


def test_X4_a_trusted_hook_is_refused_once_its_command_no_longer_shows_what_it_runs(write: Write) -> None:
    found = config(write, command=["python3", "run.py", "--file=later.py"])
    trust(found)
    still_trusted(found, found.hooks[0])
    write("project/later.py", "new")
    with pytest.raises(TrustError, match=r"may mean later\.py"):
        still_trusted(found, found.hooks[0])
    with pytest.raises(TrustError, match=r"may mean later\.py"):
        require_trust(found)


def test_an_empty_trust_says_that_it_runs_no_file_of_the_project(write: Write) -> None:
    found = config(write, command=["jq", "-n", "{}"], trust=[])
    trust(found)
    still_trusted(found, found.hooks[0])
    assert names(found) == []


def test_X6_a_link_in_the_project_to_an_interpreter_is_an_interpreter(
    write: Write, project: Path, programs: Path
) -> None:
    (project / "mypy").symlink_to(programs / "python3")
    with pytest.raises(TrustError, match="does not name the script"):
        trust(config(write, command=["./mypy", "-m", "hook"]))
    (project / "python3").symlink_to(programs / "make")
    with pytest.raises(TrustError, match="may find them by itself"):
        trust(config(write, command=["./python3", "hook.py"]))
    shutil.copy(programs / "python3", project / "bin-python3")
    (project / "bin-python3").rename(project / "python")
    with pytest.raises(TrustError, match="does not name the script"):
        trust(config(write, command=["./python", "-m", "hook"]))


@pytest.mark.parametrize("key", ["command", "run"])
def test_X7_a_program_that_the_path_finds_in_the_project_is_covered(
    write: Write, project: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    tool = write("project/bin/tool", "#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(project / "bin"))
    found = config(write, **{key: ["tool"] if key == "command" else "tool"})
    trust(found)
    assert names(found) == ["bin/tool"]
    tool.write_text("changed")
    with pytest.raises(TrustError, match="tool: changed since it was trusted"):
        still_trusted(found, found.hooks[0])


def test_X4_a_file_that_cannot_be_read_is_never_trusted(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    found = config(write, command=["python3", "hook.py"])
    monkeypatch.setattr("picohook.projects.trust.MOST_SCRIPT", 3)
    with pytest.raises(
        TrustError, match=r"hook\.py: cannot be read, so it cannot be trusted: it is larger than 3 bytes"
    ):
        trust(found)


class TestGlobs:
    @pytest.mark.parametrize(
        ("glob", "files"),
        [
            ("hook.py", ["hook.py"]),
            ("*.py", ["hook.py", "run.py"]),
            ("[hr]*.py", ["hook.py", "run.py"]),
            ("**/__main__.py", ["dir/__main__.py", "pkg/__main__.py"]),
            ("pkg/**", ["pkg/__main__.py", "pkg/deep/.hidden"]),
            ("pkg/*/.hidden", ["pkg/deep/.hidden"]),
            ("*/__main__.py", ["dir/__main__.py", "pkg/__main__.py"]),
        ],
    )
    def test_they_name_files_of_the_project_at_any_depth(self, write: Write, glob: str, files: list[str]) -> None:
        write("project/pkg/deep/.hidden", "x")
        assert sorted(names(config(write, command=["make"], trust=[glob]))) == files

    def test_X4_files_that_come_and_go_are_asked_about(self, write: Write, project: Path) -> None:
        found = config(write, command=["make"], trust=["pkg/*"])
        trust(found)
        new = write("project/pkg/new.py", "new")
        for look in (lambda: still_trusted(found, found.hooks[0]), lambda: require_trust(found)):
            with pytest.raises(TrustError, match=r"new\.py: is run now, and was not when this was trusted"):
                look()
        trust(found)
        new.unlink()
        for look in (lambda: still_trusted(found, found.hooks[0]), lambda: require_trust(found)):
            with pytest.raises(TrustError, match=r"new\.py: is gone since it was trusted"):
                look()

    def test_a_glob_that_matches_nothing_is_an_error(self, write: Write) -> None:
        found = config(write, command=["make"], trust=["Makefile", "scripts/*.py"])
        with pytest.raises(TrustError, match=re.escape('hooks.a.trust: "scripts/*.py" matches no file of the project')):
            trust(found)

    @pytest.mark.parametrize(
        "glob", ["/etc/passwd", "../x", "a/../b", "./x", "", "a//b", "**/**/**/x", "a**b", "x" * 600]
    )
    def test_a_wrong_glob_is_a_mistake(self, write: Write, glob: str) -> None:
        with pytest.raises(ConfigError, match=r"hooks\.a\.trust: must be .*globs"):
            config(write, command=["make"], trust=[glob])

    def test_globs_are_bounded_in_files_bytes_and_paths_looked_at(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = config(write, command=["make"], trust=["**"])
        for name, most in (("MOST_FILES", 3), ("MOST_BYTES", 10), ("MOST_LOOKED_AT", 4)):
            with monkeypatch.context() as patch:
                patch.setattr(hook_files, name, most)
                with pytest.raises(TrustError, match="more than"):
                    trust(found)
        trust(found)

    def test_a_link_in_a_circle_is_not_followed(self, write: Write, project: Path) -> None:
        (project / "pkg" / "around").symlink_to(project)
        assert names(config(write, command=["make"], trust=["**/hook.py"])) == ["hook.py"]


@needs.extensions
def test_X4_j_clis_and_picoclaws_project_files_have_the_same_way_out(write: Write) -> None:
    path = write("project/.jcli/hooks.yaml", "stop:\n  - command: make check\n")
    with pytest.raises(
        TrustError, match=r"stop\[0\]: its command does not tell which files of the project it runs: make may"
    ):
        trust(load(path, found=True))
    path.write_text("stop:\n  - command: make check\n    trust: [Makefile, '*.py']\n")
    trust(load(path, found=True))
    assert names(load(path, found=True)) == ["Makefile", "hook.py", "run.py"]
    path.write_text("stop:\n  - command: make check\n    trust: [/etc/passwd]\n")
    with pytest.raises(ConfigError, match=r"stop\[0\]\.trust: must be globs relative to the project"):
        load(path, found=True)

    entry = {"enabled": True, "command": ["make"], "intercept": ["before_tool"]}
    path = write("project/picohook.json", json.dumps({"hooks": {"processes": {"p": entry}}}))
    with pytest.raises(TrustError, match=r"hooks\.processes\.p: its command does not tell"):
        trust(load(path, found=True))
    path.write_text(json.dumps({"hooks": {"processes": {"p": {**entry, "trust": ["Makefile"]}}}}))
    assert names(load(path, found=True)) == ["Makefile"]


def test_the_commands_of_a_named_configuration_need_not_show_their_files(write: Write) -> None:
    found = load(config(write, command=[sys.executable, "-m", "hook"]).path)
    require_trust(found)
    assert still_trusted(found, found.hooks[0]) is None


def test_X4_files_that_never_stop_changing_are_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    found = config(write, command=["python3", "hook.py"])
    trust(found)
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("picohook.projects.trust.SETTLED", 10**15)
    with pytest.raises(ChangedError):
        still_trusted(found, found.hooks[0])
    assert len(slept) > 1


def test_X6_the_identity_of_a_file_includes_the_links_and_directories_above_it(write: Write, project: Path) -> None:
    (project / "link").symlink_to("pkg")
    found = config(write, command=["python3", "link/__main__.py"])
    trust(found)
    file, link, aside = project / "pkg/__main__.py", project / "link", project / "aside"

    def seen() -> dict[str, tuple[int, ...]] | None:
        return still_trusted(found, found.hooks[0])

    before = seen()
    assert before == seen()
    for path in (file, link):
        path.rename(aside)
        aside.rename(path)
        assert before != seen()
        before = seen()
    shutil.copytree(project / "pkg", aside)
    (project / "pkg").rename(project / "old")
    aside.rename(project / "pkg")
    assert before != seen()
