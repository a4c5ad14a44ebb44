"""What `picohook shim` writes into the hook files of vendors, and takes out again."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
import typer
from typer.main import get_command

from picohook import PicohookError
from picohook.cli.settings_files import JsonText
from picohook.config import load
from picohook.ext.vendors.command import app
from picohook.ext.vendors.dialects import NAMES, vendor_named
from picohook.ext.vendors.shim import client
from picohook.ext.vendors.shim_entry import CLIENTS, OWN_PATH, is_shim

OWN = """{
    "model": "opus",
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "true"}]}],
        "PreToolUse": []
    },
    "z": "ä"
}"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The current directory, with no configuration of the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def shim(project, capfd):
    """`picohook shim` with these words. Gives what it printed; with `fails`, why it failed."""

    command = get_command(app)

    def run(*words, fails=False):
        capfd.readouterr()
        if fails:
            with pytest.raises(PicohookError) as failed:
                command.main([*words], standalone_mode=False)
            return str(failed.value)
        command.main([*words], standalone_mode=False)
        return capfd.readouterr().out

    return run


def commands_in(entries):
    handlers = [handler for entry in entries for handler in entry.get("hooks", [entry])]
    return [handler.get("command") or handler["bash"] for handler in handlers]


def test_a_hook_that_gives_a_person_more_time_than_the_agent_waits_is_named(project, shim, capfd):
    (project / "picohook.toml").write_text('[hooks.person]\nask = "queue"\n')
    said = []
    for options in ((), ("--timeout", "610")):
        get_command(app).main(["claude", "--config", "picohook.toml", *options], standalone_mode=False)
        said.append(capfd.readouterr().err)
    assert "person gives a person 600 s, and Claude Code waits for 300: --timeout 610" in said[0]
    assert "person" not in said[1]


@pytest.mark.parametrize("vendor", NAMES)
class TestEachVendor:
    def test_it_has_one_entry_an_event_and_nothing_else(self, shim, project, vendor):
        shim(vendor, "--project")
        known = vendor_named(vendor)
        written = json.loads((project / known.shim.project_file).read_text())
        assert {**written, "hooks": {}} == {**known.shim.file, "hooks": {}}
        assert list(written["hooks"]) == list(known.asked)
        for event, entries in written["hooks"].items():
            (command,) = commands_in(entries)
            shell, option, script, name, *words = shlex.split(command)
            assert (shell, option, name) == ("sh", "-c", "picohook")
            assert ' picohook shim-client "$@" ||' in script
            assert words[:3] == [vendor, event, known.asked[event].on_failure]
            assert 0 < float(words[3]) < min(300.0, known.asked[event].longest)

    def test_a_projects_file_names_nothing_of_this_machine_and_a_users_file_runs_this_python(
        self, shim, project, vendor
    ):
        (project / "a b.toml").write_text("")
        shim(vendor, "--project")
        text = (project / vendor_named(vendor).shim.project_file).read_text()
        assert [name for name in (str(project), sys.executable, sys.prefix, client.__file__) if name in text] == []
        shim(vendor, "--config", "a b.toml")
        own = json.loads((project.parent / "home" / vendor_named(vendor).shim.user_file.removeprefix("~/")).read_text())
        for entries in own["hooks"].values():
            words = shlex.split(commands_in(entries)[0])
            assert words[2].startswith(f'{sys.executable} -I -S {client.__file__} "$@" ||')
            assert words[-1] == str(project / "a b.toml")
        with pytest.raises(typer.BadParameter, match="names a file of this machine"):
            shim(vendor, "--project", "--config", "a b.toml")

    @pytest.mark.parametrize("script", [None, "kill -9 $$"])
    def test_where_picohook_cannot_be_started_the_call_is_refused_and_says_why(
        self, shim, project, vendor, tmp_path, script
    ):
        shim(vendor, "--project")
        (tmp_path / "bin").mkdir()
        for name in ("sh", "bash"):
            (tmp_path / "bin" / name).symlink_to(shutil.which(name))
        if script is not None:
            (tmp_path / "bin" / "picohook").write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "bin" / "picohook").chmod(0o755)
        written = json.loads((project / vendor_named(vendor).shim.project_file).read_text())
        for event, entries in written["hooks"].items():
            done = subprocess.run(
                commands_in(entries), shell=True, env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
            assert done.returncode == (1 if vendor_named(vendor).asked[event].on_failure == "pass" else 2)
            assert "is it installed?" in done.stderr
            assert not done.stdout

    def test_no_module_of_the_project_runs_in_place_of_picohooks(self, shim, project, vendor, tmp_path):
        """An empty part of PYTHONPATH is the working directory."""
        shim(vendor, "--project")
        (project / "sitecustomize.py").write_text("raise SystemExit(0)")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "picohook").write_text(
            f"#!{sys.executable}\nimport os, sys\nprint(os.environ['{OWN_PATH}'])\nsys.exit(2)\n"
        )
        (tmp_path / "bin" / "picohook").chmod(0o755)
        written = json.loads((project / vendor_named(vendor).shim.project_file).read_text())
        command = commands_in(next(iter(written["hooks"].values())))
        env = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ":/own"}
        done = subprocess.run(command, shell=True, env=env, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert done.stdout == ":/own\n"

    def test_a_second_time_changes_nothing_and_removal_leaves_nothing(self, shim, project, vendor):
        file = project / vendor_named(vendor).shim.project_file
        shim(vendor, "--project")
        before = file.read_bytes()
        assert "asks picohook already" in shim(vendor, "--project")
        assert file.read_bytes() == before
        shim(vendor, "--project", "--remove")
        assert list(file.parent.iterdir()) == []
        assert shim(vendor, "--project", "--remove") == "nothing to change\n"

    @pytest.mark.parametrize("linked", ["file", "backup", "directory"])
    def test_X10_a_link_of_the_repository_is_not_followed(self, shim, project, vendor, linked):
        outside = project.parent / "outside"
        outside.mkdir()
        (outside / "own.json").write_text(OWN)
        file = project / vendor_named(vendor).shim.project_file
        if linked == "directory":
            (project / file.relative_to(project).parts[0]).symlink_to(outside)
        else:
            file.parent.mkdir(parents=True)
            file.write_text(OWN.replace("opus", "evil"))
            link = file if linked == "file" else file.with_name(f"{file.name}.before-picohook")
            link.unlink(missing_ok=True)
            link.symlink_to(outside / "own.json")
        assert "is a link to" in shim(vendor, "--project", fails=True)
        assert [one.name for one in outside.iterdir()] == ["own.json"]
        assert (outside / "own.json").read_text() == OWN
        assert not any(is_shim(command) for file in project.rglob("*.json") for command in [file.read_text()])

    def test_a_link_of_the_user_stays_one(self, shim, project, vendor):
        file = project.parent / "home" / vendor_named(vendor).shim.user_file.removeprefix("~/")
        kept = project.parent / "home/dotfiles/settings"
        (kept / ".git").mkdir(parents=True)
        file.parent.parent.mkdir(parents=True, exist_ok=True)
        file.parent.symlink_to(kept)
        file.symlink_to(kept / "shared.json")
        (kept / "shared.json").write_text(OWN)
        shim(vendor)
        assert file.is_symlink()
        assert "picohook" in (kept / "shared.json").read_text()
        shim(vendor, "--remove")
        assert (kept / "shared.json").read_text() == OWN
        assert sorted(os.listdir(kept)) == [".git", file.name, "shared.json"]

    def test_the_users_own_file_is_written_without_project(self, shim, project, vendor):
        shim(vendor)
        assert (project.parent / "home" / vendor_named(vendor).shim.user_file.removeprefix("~/")).is_file()
        assert list(project.iterdir()) == []


class TestAFileOfTheUsers:
    @pytest.fixture
    def file(self, project):
        (project / ".claude").mkdir()
        file = project / ".claude/settings.json"
        file.write_text(OWN)
        file.chmod(0o640)
        return file

    def test_what_is_in_it_stays_and_its_first_version_is_beside_it(self, shim, file):
        shim("claude", "--project")
        written = json.loads(file.read_text())
        assert list(written) == ["model", "hooks", "z"]
        assert commands_in(written["hooks"]["Stop"])[0] == "true"
        assert file.read_text().startswith('{\n    "model"')
        assert file.stat().st_mode & 0o777 == 0o640
        assert file.with_name("settings.json.before-picohook").read_text() == OWN

    def test_it_is_restored_byte_for_byte(self, shim, file):
        shim("claude", "--project")
        file.write_text(file.read_text().replace("opus", "haiku"))
        shim("claude", "--project", "--remove")  # this leaves the first version beside it
        own = OWN.replace("\n", "\r\n").encode()
        file.write_bytes(own)
        shim("claude", "--project", "--timeout", "20")
        shim("claude", "--project")
        shim("claude", "--project", "--remove")
        assert file.read_bytes() == own
        assert file.stat().st_mode & 0o777 == 0o640
        assert list(file.parent.iterdir()) == [file]

    def test_a_file_that_it_made_and_changed_leaves_nothing(self, shim, project):
        shim("claude", "--project")
        shim("claude", "--project", "--timeout", "20")
        shim("claude", "--project", "--remove")
        assert not [*(project / ".claude").iterdir()]

    def test_what_was_changed_since_stays(self, shim, file):
        shim("claude", "--project")
        file.write_text(file.read_text().replace("opus", "haiku"))
        shim("claude", "--project", "--remove")
        assert json.loads(file.read_text()) == {**json.loads(OWN.replace("opus", "haiku")), "hooks": {"Stop": [
            {"hooks": [{"type": "command", "command": "true"}]}
        ]}}  # fmt: skip

    def test_a_handler_that_the_user_put_beside_it_stays(self, shim, file):
        shim("claude", "--project")
        document = json.loads(file.read_text())
        document["hooks"]["PreToolUse"][0]["hooks"].append({"type": "command", "command": "mine"})
        file.write_text(json.dumps(document))
        shim("claude", "--project", "--remove")
        assert commands_in(json.loads(file.read_text())["hooks"]["PreToolUse"]) == ["mine"]

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("{ // mine\n}", "is not JSON, maybe because of comments"),
            ('{"hooks": [', "is not JSON"),
            ("[]", "is not a hook file of Claude Code"),
            ('{"hooks": {"Stop": {}}}', "is not a hook file of Claude Code"),
            ("\udcff", "is not JSON"),
            ('{"hooks": {"Stop": [{"timeout": 1e400}]}}', "cannot be edited: Out of range"),
            (f'{{"a": {"[" * 100_000}{"]" * 100_000}}}', "is nested too deeply"),
            ('{"hooks": {"Stop": [{"timeout": NaN}]}}', "cannot be edited: Out of range"),
            ('{"a": {"b": 1, "c": 2, "b": 3}}', "cannot be edited: it has the key 'b' twice: keep one of them"),
        ],
    )
    def test_what_is_not_understood_is_not_written(self, shim, file, text, why):
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        before = file.read_bytes()
        assert why in shim("claude", "--project", fails=True)
        assert file.read_bytes() == before
        assert list(file.parent.iterdir()) == [file]

    def test_picohook_itself_does_not_run_the_shim(self, shim, file):
        shim("claude", "--project")
        assert [hook.name for hook in load(file).hooks] == ["claude:Stop"]


class TestCommentsInASettingsFileOfGemini:
    @pytest.fixture
    def file(self, project):
        (project / ".gemini").mkdir()
        return project / ".gemini/settings.json"

    @pytest.mark.parametrize(
        "text",
        [
            '{ // first\n  "hooks": {"AfterTool": []}, /* "hooks": */\n  "ui": {} // last\n}\n',
            '// first\r\n{\r\n\t"ui": "// no comment" // last\r\n}',
            "{ // nothing else\n}",
            '{"ui": {}} // last',
        ],
    )
    def test_they_stay_and_removal_restores_each_byte(self, shim, file, text):
        file.write_bytes(text.encode())
        shim("gemini", "--project")
        edited = file.read_bytes().decode()
        assert JsonText(edited).comments() == JsonText(text).comments()
        own = JsonText(text).document
        assert {**JsonText(edited).document, "hooks": 0} == {**own, "hooks": 0}
        assert edited.count("\r") == (edited.count("\n") if "\r" in text else 0)
        assert list(JsonText(edited).document["hooks"]) == list(vendor_named("gemini").asked)
        assert [hook.name for hook in load(file).hooks] == []
        shim("gemini", "--project", "--remove")
        assert file.read_bytes() == text.encode()
        assert list(file.parent.iterdir()) == [file]

    def test_one_that_was_added_since_stays(self, shim, file):
        file.write_text('{\n  "ui": {}\n}')
        shim("gemini", "--project")
        file.write_text(file.read_text().replace('"ui": {}', '"ui": {} // new'))
        shim("gemini", "--project", "--remove")
        assert file.read_text() == '{\n  "hooks": {},\n  "ui": {} // new\n}'

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ('{"hooks": {\n// mine\n}}', "`hooks` has comments, and an edit would lose them"),
            ('{"ui": {}, // last\n}', "is not JSON"),
        ],
    )
    def test_one_that_would_get_lost_is_named_and_nothing_is_written(self, shim, file, text, why):
        file.write_text(text)
        assert why in shim("gemini", "--project", fails=True)
        assert file.read_text() == text
        assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "text", ['{"a": "\\ud83d", "b": "\\ud83d\\ude00 ü"}', '{"a": 12345678901234567890123, "b": 1.5}']
)
def test_what_is_unusual_in_a_file_is_the_same_after_an_edit(shim, project, text):
    file = project / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text(text)
    shim("claude", "--project")
    assert {**json.loads(file.read_text()), "hooks": 0} == {**json.loads(text), "hooks": 0}
    shim("claude", "--project", "--remove")
    assert file.read_text() == text


def test_the_directory_that_a_vendor_has_moved_its_files_to_is_used(shim, project, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / "moved"))
    shim("claude")
    assert (project / "moved/settings.json").is_file()


@pytest.mark.parametrize(("own", "hooks_have"), [("/own", b"/own"), ("", None)])
def test_hooks_get_the_pythonpath_that_the_client_does_without(own, hooks_have):
    main = (
        "import posix, sys\nfrom picohook import __main__\nfrom picohook.ext.vendors.alone import ask_host\n"
        f"ask_host.main = lambda: sys.exit(print(posix.environ.get(b'PYTHONPATH'), b'{OWN_PATH}' in posix.environ))\n"
        "sys.modules['ask_host'] = ask_host\n"
        "__main__.main()"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": "", OWN_PATH: own}
    command = [sys.executable, "-c", main, "shim-client"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{hooks_have} False\n"


def test_only_the_client_itself_is_recognised():
    assert client.__file__.endswith(CLIENTS[0])
    assert is_shim(f"python3 -I -S '{client.__file__}' claude")
    assert is_shim("python3 -I -S /opt/picohook/serve/shim/client.py claude")
    assert is_shim("picohook shim-client claude")
    assert not is_shim("echo picohook shim-client claude")
    assert not is_shim("sh -c")
    assert not is_shim(f"python3 -c 'print(\"{CLIENTS[0]}\")'")
    assert not is_shim(f"python3 '{client.__file__}")
    assert not is_shim(None)


def test_a_home_directory_that_is_not_named_whole_is_refused(shim, project, monkeypatch):
    monkeypatch.setenv("HOME", ".")
    assert "HOME does not name a directory by its whole path" in shim("claude", fails=True)
    assert not [*project.iterdir()]
