"""The parts of `make release-check` that build nothing, and the workflows, which nobody has run yet."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import release
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
CHANGELOG = "## [Unreleased]\n\nThis will be 0.2.0.\n\n## [0.1.0] - 2030-01-31\n\n- one\n\n## [0.0.9] - 2029-01-31\n"


def wheel_with(place, name, *files, version=release.VERSION):
    path = place / name
    with zipfile.ZipFile(path, "w") as archive:
        for file in ("picohook/__init__.py", "picohook/py.typed", *files):
            archive.writestr(file, "")
        archive.writestr("picohook.dist-info/METADATA", f"Version: {version}\n\nText\n")
    return path


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    assert release.section(CHANGELOG, "0.1.0", released=True) == "## [0.1.0] - 2030-01-31\n\n- one\n"
    assert "This will be" in release.section(CHANGELOG, "0.2.0", released=False)


@pytest.mark.parametrize(("version", "released"), [("0.2.0", True), ("0.3.0", False)])
def test_a_version_that_the_changelog_does_not_name_ends_the_check_with_a_way_out(version, released):
    with pytest.raises(
        SystemExit, match=re.escape(f"no section '## [{version}] - YEAR-MONTH-DAY': rename [Unreleased]")
    ):
        release.section(CHANGELOG, version, released=released)


def test_the_changelog_has_a_section_about_this_version():
    assert release.section((ROOT / "CHANGELOG.md").read_text(), release.VERSION, released=False)


def test_two_builds_that_differ_in_a_byte_are_told_apart(tmp_path):
    for place, data in (("one", b"same"), ("other", b"same"), ("third", b"not the same")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a.whl").write_bytes(data)
    one, other, third = ([tmp_path / place / "a.whl"] for place in ("one", "other", "third"))
    assert release.differences(one, other) == []
    assert release.differences(one, third) == ["two builds of a.whl differ"]


def test_a_file_that_git_does_not_have_is_found_in_the_source_distribution(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "tracked", lambda: {"README.md"})
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("README.md", "PKG-INFO", "secrets.txt"):
            archive.addfile(tarfile.TarInfo(f"a-1/{name}"), io.BytesIO())
    assert release.stray(path) == ["secrets.txt is in a.tar.gz, and not in git"]


def test_a_wheel_must_say_whether_it_is_compiled_and_have_the_source_of_each_module(tmp_path):
    native = f"picohook/chain{release.EXTENSION}"
    plain, fast = "a-py3-none-any.whl", "a-cp311-cp311-linux_x86_64.whl"
    assert release.misleading(wheel_with(tmp_path, plain)) == []
    assert release.misleading(wheel_with(tmp_path, fast, native, "picohook/chain.py")) == []
    assert release.misleading(wheel_with(tmp_path, fast)) == [
        f"{fast} has no extension modules, and its name says that it has"
    ]
    assert release.misleading(wheel_with(tmp_path, plain, native)) == [
        f"{plain} has {native} without its source",
        f"{plain} has extension modules, and its name says that it has none",
    ]
    (told,) = release.misleading(wheel_with(tmp_path, plain, version="9.9"))
    assert "says that it is 9.9" in told


def test_each_supported_python_is_looked_for():
    assert set(release.pythons()) == {"3.11", "3.12", "3.13"}
    assert any(release.pythons().values())
    assert release.python("3.0") is None


def test_the_workflows_try_each_python_that_the_package_names_and_commands_that_the_makefile_has():
    commands = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    versions = set(release.pythons())
    for name in ("tests", "compiled"):
        assert (
            set(yaml.safe_load(WORKFLOWS["tests"].read_text())["jobs"][name]["strategy"]["matrix"]["python"])
            == versions
        )
    for path in WORKFLOWS.values():
        assert set(re.findall(r"run: make ([a-z-]+)", path.read_text())) <= commands
    built = release.tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["build"]
    assert built.split() == [f"cp{version.replace('.', '')}-manylinux_*" for version in sorted(versions)]


def test_only_the_job_that_publishes_can_ask_for_a_token_of_the_index():
    jobs = yaml.safe_load(WORKFLOWS["release"].read_text())["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["environment"] == "pypi"
    assert set(jobs["publish"]["needs"]) == {"check", "compiled"}


def test_a_linter_finds_nothing_in_the_workflows_if_there_is_one():
    linter = shutil.which("actionlint", path=f"{os.environ.get('PATH', '')}:{Path.home() / 'go/bin'}")
    assert set(WORKFLOWS) == {"release", "tests"}
    if linter is not None:
        done = subprocess.run([linter, *WORKFLOWS.values()], capture_output=True, text=True, check=False)
        assert done.stdout == ""
        assert done.returncode == 0
