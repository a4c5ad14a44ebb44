"""The package by somebody else in `hooks_examples`, installed as its `pyproject.toml` says."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "hooks_examples/picohook_http"


@pytest.fixture
def run(tmp_path):
    """Runs a module with arguments where the package is installed. Returns its output."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"picohook_http-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((group, points),) = project["entry-points"].items()
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{key} = {at}\n" for key, at in points.items()))

    def run(*arguments, **given):
        path = os.pathsep.join((str(PACKAGE), str(tmp_path)))
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            capture_output=True,
            check=False,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "GATE_KEY": "secret"},
            **given,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_its_own_tests_pass(run):
    assert "passed" in run("pytest", "-q", "-p", "no:cacheprovider", str(PACKAGE))


def test_its_kind_and_its_command_are_there_for_everybody(run, tmp_path):
    file = tmp_path / "picohook.toml"
    file.write_text(
        '[http]\nkey_env = "GATE_KEY"\n[hooks.gate]\nurl = "https://example.org"\nstages = ["before_tool"]\n'
    )
    listed = run("picohook", "list", "--config", str(file))
    assert "https://example.org" in listed
    assert "key_env GATE_KEY" in listed
    assert len(run("picohook", "signature", "GATE_KEY", input="{}").strip()) == 64
    assert "picohook-http 0.1" in run("picohook", "extensions")
    assert '"url"' in run("picohook", "schema", "config")


def test_its_page_shows_its_files():
    page = (PACKAGE.parents[1] / "docs/how-to/extend-picohook.md").read_text()
    for name in (
        "picohook_http/__init__.py",
        "picohook_http/hook.py",
        "picohook_http/table.py",
        "picohook_http/command.py",
    ):
        assert f'```python title="{name}"\n{(PACKAGE / name).read_text()}```\n' in page


def test_it_is_small():
    files = [path for path in PACKAGE.rglob("*") if path.suffix == ".py"]
    assert sum(len(path.read_text().splitlines()) for path in files) < 150
