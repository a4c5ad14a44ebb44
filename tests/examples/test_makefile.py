"""What the README's commands do before anything of picohook runs. Python is a stand-in here that notes how it is called."""

from __future__ import annotations

import os
import subprocess

import pytest

from .conftest import ROOT

PYTHON = """#!/bin/sh
echo "$(basename "$0") $*" >> calls
case "$*" in
    -c*) echo "Python $VERSION"; [ "$VERSION" != 3.9 ] ;;
    -V) echo "Python $VERSION" ;;
    "-m venv --clear .venv") rm -rf .venv; mkdir -p .venv/bin; sed 1d "$0" > .venv/bin/python; chmod +x .venv/bin/python ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    for name in ("Makefile", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "thepython").write_text(PYTHON)
    (tmp_path / "thepython").chmod(0o755)
    return tmp_path


@pytest.fixture
def make(checkout):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}

    def run(goal, *, version="3.11", python="./thepython"):
        (checkout / "calls").write_text("")
        done = subprocess.run(
            ["make", goal, f"PYTHON={python}"],
            cwd=checkout,
            env={**environment, "VERSION": version},
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        return done, (checkout / "calls").read_text().splitlines()

    return run


def test_the_environment_is_made_once(make):
    first, calls = make("demo")
    assert first.returncode == 0
    assert "thepython -m venv --clear .venv" in calls
    assert any(call.startswith("python -m pip install") and call.endswith("--editable .") for call in calls)
    assert calls[-1] == "python hooks_examples/demo.py"
    _, calls = make("demo")
    assert calls == ["python hooks_examples/demo.py"]


def test_the_tests_need_more_than_the_demo(make):
    make("demo")
    _, calls = make("test")
    assert [call.split()[-1] for call in calls] == [".[dev]", "auto"]


def test_the_environment_is_made_again_when_the_project_file_changes(make, checkout):
    make("test")
    installed = (checkout / ".venv" / ".installed-dev").stat().st_mtime
    os.utime(checkout / "pyproject.toml", (installed + 10, installed + 10))
    _, calls = make("test")
    assert "thepython -m venv --clear .venv" in calls
    assert calls[-1] == "python -m pytest --workers auto"


@pytest.mark.parametrize(
    ("python", "version", "what"),
    [("./thepython", "3.9", "./thepython is Python 3.9."), ("./nothing", "", "./nothing is not there.")],
)
def test_an_unsuitable_python_is_named(make, checkout, python, version, what):
    done, _ = make("demo", python=python, version=version)
    assert done.returncode != 0
    assert f"picohook needs Python 3.11 or newer, and {what}" in done.stderr
    assert "make demo PYTHON=" in done.stderr
    assert not (checkout / ".venv").exists()
