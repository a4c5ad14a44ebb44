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
INSTALLED = [f"-pno:{one.name}" for one in entry_points(group="pytest11")]
"""Plugins that happen to be installed here, and take longer to load than these tests to run."""
HOOK = [preloaded.path_of("python", "hooks"), mutant_hook.__file__]
ASKED = ["-p", "picohook.conformance.plugin"]


@pytest.fixture
def bare(tmp_path):
    """pytest in an empty directory, without any plugin."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env["PYTHONPATH"] = str(ROOT)

    def start(*arguments, files=(), python=HOOK[0]):
        for name, text in dict(files).items():
            (tmp_path / name).write_text(text)
        return subprocess.run(
            [python, "-m", "pytest", "-p", "no:cacheprovider", *INSTALLED, *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


@pytest.fixture
def run(bare):
    """pytest in an empty directory, with the plugin."""
    return lambda *arguments, **settings: bare(*ASKED, *arguments, **settings)


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


def test_a_must_that_fails_is_a_failure_with_the_cause(run):
    done = run(hook("--break", "STAGE-5"), "-k", "STAGE-5 or ID-1")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "expected `approved` as true or false as the answer to hook.approve_tool" in done.stdout


def test_a_should_that_fails_is_an_expected_failure(run):
    done = run(hook("--break", "END-2"), "-k", "END-2", "-ra")
    assert done.returncode == 0, done.stdout
    assert "XFAIL" in done.stdout
    assert "SHOULD: ends well: it ended with 3" in done.stdout


def test_a_stage_that_is_not_served_is_skipped_unless_it_is_named(run):
    files = {"hook.py": (ROOT / "hooks_examples" / "logger.py").read_text()}
    logger = f"--picohook-hook={shlex.join([HOOK[0], 'hook.py'])}"
    assert "1 skipped" in run(logger, "-k", "STAGE-5", files=files).stdout
    assert "1 failed" in run(logger, "-k", "STAGE-5", "--picohook-stages=approve_tool").stdout


def test_it_runs_beside_other_tests(run):
    done = run(hook(), "-k", "ID-1 or ordinary", files={"test_other.py": "def test_ordinary(): pass\n"})
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--picohook-hook=python '"], "--picohook-hook: No closing quotation"),
        ([hook(), "--picohook-stages=before_tol"], "--picohook-stages: unknown stage 'before_tol': use before_prompt"),
        (["--picohook-hook=/nowhere/hook", "-k", "ID-1"], "'/nowhere/hook' cannot be started"),
    ],
)
def test_a_mistake_in_an_option_is_named(run, arguments, complaint):
    done = run(*arguments)
    assert done.returncode != 0
    assert complaint in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


LOADED = """\
import sys
def test_ordinary(request):
    assert not request.config.pluginmanager.has_plugin("picohook-conformance")
    loaded = {name for name in sys.modules if name.partition(".")[0] == "picohook"}
    assert loaded == EXPECTED
"""


def test_a_run_without_the_plugin_does_not_import_the_package(bare):
    files = {"test_other.py": LOADED.replace("EXPECTED", "set()")}
    done = bare("-W", "error", files=files, python=sys.executable)
    assert "1 passed" in done.stdout, done.stdout


def test_the_package_installs_no_plugin():
    assert "entry-points" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_without_the_option_the_plugin_loads_no_part_of_the_kit(run):
    package = {"picohook", "picohook.wire", "picohook.wire.version"}  # `import picohook` itself
    expected = package | {"picohook.conformance", "picohook.conformance.plugin"}
    files = {"test_other.py": LOADED.replace("EXPECTED", repr(expected))}
    done = run("-W", "error", files=files, python=sys.executable)
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p picohook.conformance.plugin'\n"},
        {"conftest.py": "pytest_plugins = ['picohook.conformance.plugin']\n"},
    ],
    ids=["addopts", "conftest"],
)
def test_a_project_can_ask_for_the_plugin_once(bare, files):
    done = bare(hook(), "-k", "ID-1", files=files)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
