"""What the README's commands do before anything of picohook runs. Python is a stand-in here that notes how it is called."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from .conftest import ROOT

PYTHON = """#!/bin/sh
echo "$(basename "$0") $*" >> calls
case "$*" in
    -c*3,*11*) echo "Python $VERSION"; [ "$VERSION" != 3.9 ] ;;
    -c*) [ "$VERSION" ] && echo "$VERSION" ;;
    -V) echo "Python $VERSION" ;;
    "-m venv --clear .venv")
        rm -rf .venv; mkdir -p .venv/bin
        sed "s/[$]VERSION/$VERSION/g" "$0" > .venv/bin/python; chmod +x .venv/bin/python
        printf '%s\n' "version = $VERSION" "command = $0 -m venv --clear $PWD/.venv" > .venv/pyvenv.cfg ;;
    "-m pip"*) echo "Collecting things"; echo "ERROR: $FAILS" >&2; [ ! "$FAILS" ] ;;
esac
"""
MAKES = "thepython -m venv --clear .venv"


@pytest.fixture
def checkout(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "thepython").write_text(PYTHON)
    (tmp_path / "thepython").chmod(0o755)
    return tmp_path


@pytest.fixture
def make(checkout):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}

    def run(goal, *, version="3.11", python="./thepython", cwd=checkout, fails=""):
        (cwd / "calls").write_text("")
        done = subprocess.run(
            ["make", goal, *([f"PYTHON={python}"] if python else [])],
            cwd=cwd,
            env={**environment, "VERSION": version, "FAILS": fails},
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        calls = (cwd / "calls").read_text().splitlines()
        return done, [call for call in calls if call.split()[1:2] != ["-c"]]

    return run


def test_the_environment_is_made_once(make):
    first, calls = make("demo")
    assert first.returncode == 0
    assert MAKES in calls
    assert any(call.startswith("python -m pip install") and call.endswith("--editable .[cli]") for call in calls)
    assert calls[-1] == "python hooks_examples/demo.py"
    _, calls = make("demo")
    assert calls == ["python hooks_examples/demo.py"]


def test_the_tests_need_more_than_the_demo(make):
    make("demo")
    _, calls = make("test")
    assert [call.split()[-1] for call in calls] == [".[dev]", "auto"]


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_the_environment_is_made_again_when_what_it_is_made_of_changes(make, checkout, file):
    make("test")
    installed = (checkout / ".venv" / ".installed-dev").stat().st_mtime
    os.utime(checkout / file, (installed + 10, installed + 10))
    _, calls = make("test")
    assert MAKES in calls
    assert calls[-1] == "python -m pytest --workers auto"


def test_another_python_that_is_named_replaces_the_environment_and_then_stays(make):
    make("demo")
    _, calls = make("demo", version="3.12")
    assert calls[:2] == ["thepython -V", MAKES]
    _, calls = make("demo", python="")
    assert calls == ["python hooks_examples/demo.py"]


def test_an_environment_that_was_moved_is_made_again(make, checkout):
    make("demo")
    moved = checkout.rename(checkout.with_name("else where"))
    _, calls = make("demo", cwd=moved)
    assert MAKES in calls


def test_an_error_of_pip_is_shown_and_the_next_attempt_installs(make):
    done, calls = make("demo", fails="no matching distribution")
    assert done.returncode != 0
    assert "no matching distribution" in done.stderr
    assert "python hooks_examples/demo.py" not in calls
    done, calls = make("demo")
    assert (done.returncode, calls[-1]) == (0, "python hooks_examples/demo.py")
    assert "Collecting" not in done.stdout + done.stderr


@pytest.mark.parametrize("version", re.findall(r":: Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text()))
def test_each_python_that_is_installed_makes_an_environment_once(make, checkout, version):
    python = installed(version) or pytest.skip(f"there is no python{version}")
    # pip is left out, as most of the time goes into it
    (checkout / "python").write_text(
        f'#!/bin/sh\n[ "$2" = venv ] && set -- -m venv --without-pip --clear .venv\nexec {python} "$@"\n'
    )
    (checkout / "python").chmod(0o755)
    done, _ = make(".venv/.made", python="./python")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Making .venv with Python {version}." in done.stdout
    done, _ = make(".venv/.made", python="./python")
    assert done.stdout == "make: '.venv/.made' is up to date.\n"


def installed(version):
    """Return the path of the newest Python of this version; None if there is none."""
    chosen = subprocess.run(["sh", "-c", f"pyenv latest {version}"], capture_output=True, check=False, text=True).stdout
    found = subprocess.run(
        ["sh", "-c", f"python{version} -c 'import sys; print(sys.executable)'"],
        env={**os.environ, "PYENV_VERSION": chosen.strip()},
        capture_output=True,
        check=False,
        text=True,
    )
    return found.stdout.strip()


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
