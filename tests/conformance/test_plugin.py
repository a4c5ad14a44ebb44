"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import preloaded
import pytest

from picohook.conformance.manifest import load

from . import mutant_hook

ROOT = Path(__file__).parents[2]
OTHERS = [f"-pno:{one.name}" for one in entry_points(group="pytest11") if one.name != "picohook"]
"""Plugins of others that happen to be installed here, and take longer to load than these tests to run."""
HOOK = [preloaded.path_of("python"), mutant_hook.__file__]


@pytest.fixture
def run(tmp_path):
    """pytest, in an empty directory, with the plugin installed as the package installs it."""
    installed = tmp_path / "site" / "kit-1.dist-info"
    installed.mkdir(parents=True)
    (entry,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"].items()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: kit\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\n{} = {}\n".format(*entry))
    work = tmp_path / "work"
    work.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env["PYTHONPATH"] = os.pathsep.join([str(installed.parent), str(ROOT)])

    def start(*arguments, files=()):
        for name, text in dict(files).items():
            (work / name).write_text(text)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *OTHERS, *arguments],
            cwd=work,
            env=env,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return start


def hook(*arguments):
    return f"--picohook-hook={shlex.join([*HOOK, *arguments])}"


def test_there_is_a_test_for_each_requirement(run):
    done = run("--collect-only", "-q", hook())
    names = [line.removeprefix("picohook::") for line in done.stdout.splitlines() if line.startswith("picohook::")]
    assert tuple(names) == load("hook").ids


def test_a_hook_that_conforms_passes(run):
    done = run(hook(), "-k", "HELLO or ID-2")
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_a_must_that_does_not_hold_fails_and_says_why(run):
    done = run(hook("--break", "STAGE-5"), "-k", "STAGE-5 or ID-1")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "expected `approved` as true or false as the answer to hook.approve_tool" in done.stdout


def test_a_should_that_does_not_hold_is_an_expected_failure(run):
    done = run(hook("--break", "END-2"), "-k", "END-2", "-ra")
    assert done.returncode == 0, done.stdout
    assert "XFAIL" in done.stdout
    assert "SHOULD: ends well: it ended with 3" in done.stdout


def test_what_is_not_there_is_skipped_unless_it_is_claimed(run):
    files = {"hook.py": (ROOT / "hooks_examples" / "logger.py").read_text()}
    logger = f"--picohook-hook={shlex.join([sys.executable, 'hook.py'])}"
    assert "1 skipped" in run(logger, "-k", "STAGE-5", files=files).stdout
    assert "1 failed" in run(logger, "-k", "STAGE-5", "--picohook-stages=approve_tool").stdout


def test_it_runs_beside_other_tests(run):
    done = run(hook(), "-k", "ID-1 or ordinary", files={"test_other.py": "def test_ordinary(): pass\n"})
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--picohook-hook=python '"], "--picohook-hook: No closing quotation"),
        ([hook(), "--picohook-stages=before_tol"], "there is no stage 'before_tol'"),
        (["--picohook-hook=/nowhere/hook", "-k", "ID-1"], "'/nowhere/hook' cannot be started"),
    ],
)
def test_a_mistake_is_told(run, arguments, complaint):
    done = run(*arguments)
    assert done.returncode != 0
    assert complaint in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_without_the_option_it_loads_nothing_and_adds_nothing(run):
    test = (
        "import sys\n"
        "def test_ordinary(request):\n"
        "    assert request.config.pluginmanager.has_plugin('picohook')\n"
        "    assert not request.config.pluginmanager.has_plugin('picohook-conformance')\n"
        "    loaded = {name for name in sys.modules if name.startswith('picohook')}\n"
        "    assert loaded == {'picohook', 'picohook.conformance', 'picohook.conformance.plugin'}\n"
    )
    done = run("-W", "error", files={"test_other.py": test})
    assert "1 passed" in done.stdout, done.stdout
