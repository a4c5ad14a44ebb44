"""A dialect is an entry in an extension's row. A file of somebody else's is read if it is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from picohook import Host, ToolCall, TrustError
from picohook.cli.app import app
from picohook.cli.doctor import files
from picohook.config import load
from picohook.projects import layers
from picohook.projects.trust import require_trust, trust

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Complaints, Write
    from packages import Install


TINY = """
from dataclasses import replace

from picohook import Dialect, Extension, HookSpec, Lazy

def is_meant(document, path):
    return "ask" in document

def read(document, problems, config):
    for index, function in enumerate(document["ask"]):
        if ":" not in function:
            problems.add(("ask", index), "is no function")
    problems.check()
    hooks = tuple(
        HookSpec(name=function.partition(":")[2], python=function, stages=("before_tool",), dir=str(config.work))
        for function in document["ask"]
    )
    return replace(config, hooks=hooks, key_paths={hook.name: f"ask[{index}]" for index, hook in enumerate(hooks)})

tiny = Dialect("Tiny", Lazy("tiny:is_meant"), Lazy("tiny:read"), project_files=(".tiny/hooks.yaml",))
extension = Extension(name="tiny", dialects={"tiny": tiny})
"""
GATE = """
from picohook import Deny

def no_bash(call):
    return Deny("no") if call.tool == "bash" else None

def no_web(call):
    return Deny("no") if call.tool == "web" else None
"""


@pytest.fixture(autouse=True)
def project(write: Write, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    install("tiny", text=TINY)
    write("project/gate.py", GATE)
    path = write("project/.tiny/hooks.yaml", "ask: ['gate:no_bash']\n")
    monkeypatch.chdir(path.parents[1])
    return path


def test_a_file_of_a_new_dialect_is_read(project: Path) -> None:
    config = load(project)
    assert (config.dialect, [spec.python for spec in config.hooks]) == ("tiny", ["gate:no_bash"])
    assert load(project, found=True).hooks[0].dir == str(project.parents[1])


def test_the_mistakes_in_it_are_named(complaints: Complaints) -> None:
    assert complaints("hooks.yaml", "ask: [gate]\n") == ["ask[0]: is no function"]


def test_no_file_of_another_packages_dialect_is_searched(project: Path) -> None:
    assert project.is_file()
    assert layers.project_configs(".") == []


def test_an_installed_package_is_not_asked_about_a_file_with_a_native_name(complaints: Complaints) -> None:
    (complaint,) = complaints("picohook.yaml", "ask: ['gate:no_bash']\n")
    assert complaint.startswith("ask: unknown key")


def test_it_can_be_trusted(project: Path) -> None:
    with pytest.raises(TrustError, match=r"hooks\.yaml: was found here and is not trusted yet"):
        require_trust(load(project, found=True))
    trust(load(project, found=True))
    require_trust(load(project, found=True))
    (project.parents[1] / "gate.py").write_text(GATE + "\n")
    with pytest.raises(TrustError, match=r"gate\.py: changed since it was trusted"):
        require_trust(load(project, found=True))


def test_commands_check_list_and_examine_it(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        app([*arguments, "--config", str(project)], standalone_mode=False)
        return capfd.readouterr().out

    assert f"{project}: ok" in run("check")
    (listed,) = json.loads(run("list", "--json"))["configs"]
    assert listed == {"config": str(project), "layer": None, "dialect": "tiny", "hooks": 1}
    assert any(finding.message == "tiny format, 1 hook" for finding in files.examine(layers.named(project)))


@pytest.mark.anyio
async def test_it_is_reloaded(project: Path) -> None:
    async def actions() -> list[str]:
        return [(await host.before_tool(ToolCall(tool=tool))).action for tool in ("bash", "web")]

    async with Host.from_config(project) as host:
        assert await actions() == ["deny_tool", "continue"]
        project.write_text("ask: ['gate:no_bash', 'gate:no_web']\n")
        done = await host.reload()
        assert (done.added, done.kept) == (("no_web",), ("no_bash",))
        assert await actions() == ["deny_tool", "deny_tool"]


def test_a_version_of_picoclaw_changes_nothing_for_j_clis_hooks(write: Write) -> None:
    path = write("hooks.yaml", "stop:\n  - command: 'true'\n")
    assert load(path, given={"picoclaw": "0.2.9"}) == load(path)
