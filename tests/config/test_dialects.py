"""A dialect is a file and one entry in a table: the rest of picohook needs no change for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from picohook import HookSpec, Host, ToolCall, TrustError
from picohook.cli.app import app
from picohook.cli.doctor import files
from picohook.config import load
from picohook.config.dialects import DIALECTS, Dialect
from picohook.projects import layers
from picohook.projects.trust import trust

if TYPE_CHECKING:
    from pathlib import Path

    from picohook.config import Config
    from picohook.config.problems import Problems
    from tests.config.conftest import Complaints, Write


def read(document: dict[str, Any], problems: Problems, config: Config) -> Config:
    """A list of functions that are asked before tools."""
    for index, function in enumerate(document["ask"]):
        if ":" not in function:
            problems.add(("ask", index), "is no function")
    problems.check()
    hooks = tuple(
        HookSpec(name=function.partition(":")[2], python=function, stages=("before_tool",), dir=str(config.work))
        for function in document["ask"]
    )
    return replace(config, hooks=hooks, key_paths={hook.name: f"ask[{index}]" for index, hook in enumerate(hooks)})


GATE = """
from picohook import Deny

def no_bash(call):
    return Deny("no") if call.tool == "bash" else None

def no_web(call):
    return Deny("no") if call.tool == "web" else None
"""


@pytest.fixture(autouse=True)
def project(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    tiny = Dialect("Tiny", lambda document, _path: "ask" in document, read, project_files=(".tiny/hooks.yaml",))
    monkeypatch.setitem(DIALECTS, "tiny", tiny)
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


def test_it_is_found_and_needs_trust(project: Path) -> None:
    assert layers.project_configs(".") == [project]
    with pytest.raises(TrustError, match=r"hooks\.yaml: was found here and is not trusted yet"):
        layers.discover().require_trust()
    trust(load(project, found=True))
    layers.discover().require_trust()
    (project.parents[1] / "gate.py").write_text(GATE + "\n")
    with pytest.raises(TrustError, match=r"gate\.py: changed since it was trusted"):
        layers.discover().require_trust()


def test_commands_trust_check_list_and_examine_it(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        app(arguments, standalone_mode=False)
        return capfd.readouterr().out

    assert f"{project} is trusted" in run("trust")
    assert f"{project}: ok" in run("check")
    (listed,) = json.loads(run("list", "--json"))["configs"]
    assert listed == {"config": str(project), "layer": "project", "dialect": "tiny", "hooks": 1}
    assert any(finding.message == "tiny format, 1 hook" for finding in files.examine(layers.discover()))


@pytest.mark.anyio
async def test_it_is_reloaded(project: Path) -> None:
    async def actions() -> list[str]:
        return [(await host.before_tool(ToolCall(tool=tool))).action for tool in ("bash", "web")]

    trust(load(project, found=True))
    async with Host.discover() as host:
        assert await actions() == ["deny_tool", "continue"]
        project.write_text("ask: ['gate:no_bash', 'gate:no_web']\n")
        trust(load(project, found=True))
        done = await host.reload()
        assert (done.added, done.kept) == (("no_web",), ("no_bash",))
        assert await actions() == ["deny_tool", "deny_tool"]


def test_a_version_of_picoclaw_changes_nothing_for_j_clis_hooks(write: Write) -> None:
    path = write("hooks.yaml", "stop:\n  - command: 'true'\n")
    assert load(path, picoclaw="0.2.9") == load(path)
