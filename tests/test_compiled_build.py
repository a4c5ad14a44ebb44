"""What a build with a compiled core refuses. Nothing is compiled here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[1] / "hatch_build.py"
INTERFACE = "hatchling.builders.hooks.plugin.interface"


@pytest.fixture
def build(monkeypatch):
    """The build's own file. The library for builds, which need not be installed, only calls it."""
    interface = ModuleType(INTERFACE)
    interface.BuildHookInterface = object
    parts = INTERFACE.split(".")
    for end in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    monkeypatch.setitem(sys.modules, INTERFACE, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def runtime(build, tmp_path):
    """A directory with the text that is mended, once in each file."""
    directory = tmp_path / "runtime"
    directory.mkdir()
    for name, (wrong, _) in build.MENDED.items():
        (directory / name).write_text(f"before {wrong} after")
    return directory


def test_the_text_that_is_wrong_is_replaced_in_a_copy(build, runtime, tmp_path):
    mended = build._mend(runtime, tmp_path / "mended")
    for name, (wrong, right) in build.MENDED.items():
        assert (mended / name).read_text() == f"before {right} after"
        assert (runtime / name).read_text() == f"before {wrong} after"


@pytest.mark.parametrize("times", [0, 2])
def test_a_text_that_is_not_there_exactly_once_fails_the_build_with_place_and_way_out(build, runtime, tmp_path, times):
    name, (wrong, _) = list(build.MENDED.items())[-1]
    (runtime / name).write_text(wrong * times)
    with pytest.raises(RuntimeError) as raised:
        build._mend(runtime, tmp_path / "mended")
    for part in (str(runtime / name), f"{times} times, not once", f"mypy {build.MYPY}", "without PICOHOOK_COMPILE"):
        assert part in str(raised.value)


def test_a_file_that_the_runtime_does_not_have_fails_the_build(build, runtime, tmp_path):
    name = next(iter(build.MENDED))
    (runtime / name).unlink()
    with pytest.raises(RuntimeError, match=f"{name} has the text that is mended 0 times"):
        build._mend(runtime, tmp_path / "mended")


def test_the_compiler_of_a_build_has_one_exact_version(build):
    hook = build.CompileCore()
    hook.target_name = "wheel"
    hook.metadata = type("Metadata", (), {"core": type("Core", (), {"dependencies": []})})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PICOHOOK_COMPILE", "1")
        assert f"mypy=={build.MYPY}" in hook.dependencies()
