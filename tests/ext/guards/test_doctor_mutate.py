"""`picohook doctor --mutate`: which clothes of a harmful command pass a person's own gates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from picohook.cli.doctor.findings import Finding, Level
from picohook.ext.guards.doctor import COMMANDS, examine
from picohook.model.spec import HookSpec
from picohook.projects.layers import Layers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("gates")]

GATES = """
import re, shlex
from picohook import Deny

def of_texts(call):
    return Deny(reason="no") if re.search(r"rm -rf|git push --force", str(call.arguments)) else None

def of_everything(call):
    return Deny(reason="no")

def of_nothing(call):
    return None

def of_one_tool(call):
    return Deny(reason="no") if call.tool == "exec_command" and "dd " in call.arguments.get("cmd", "") else None

def of_short_ones(call):
    if len(call.arguments["command"]) > 30:
        raise ValueError("too long")
    return Deny(reason="no")

def of_a_crash(call):
    raise ValueError("no")
"""


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gates_of_a_person.py").write_text(GATES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


async def finding(function: str, **settings: object) -> Finding:
    spec = HookSpec(name="gate", python=f"gates_of_a_person:{function}", stages=["before_tool"], **settings)
    (only,) = [one async for one in examine(Layers(hooks=(spec,)))]
    return only


async def test_a_gate_of_texts_misses_other_clothes_and_they_are_named() -> None:
    found = await finding("of_texts")
    assert found.level is Level.WARNING
    assert found.message.startswith(f"it stops {COMMANDS[0]!r}, {COMMANDS[1]!r}, but not in ")
    assert "single quotes" in found.message
    assert "One that passes: " in found.message
    assert "[guards]" in found.hint


async def test_a_gate_that_stops_all_clothes_is_well() -> None:
    found = await finding("of_everything")
    assert found.level is Level.OK
    assert "in other clothes: all of " in found.message


async def test_a_gate_that_stops_nothing_is_told_to_have_a_canary() -> None:
    found = await finding("of_nothing")
    assert (found.level, found.message) == (Level.NOTE, "it stops none of the harmful commands that were tried")
    assert "canary" in found.hint


async def test_the_command_of_a_canary_is_tried_with_its_own_tool() -> None:
    found = await finding("of_one_tool", canary={"tool": "exec_command", "arguments": {"cmd": "dd of=/dev/sda"}})
    assert found.level is Level.WARNING
    assert found.message.startswith("it stops 'dd of=/dev/sda', but not in ")


async def test_a_gate_that_fails_is_an_error_and_its_failure_stops_nothing() -> None:
    for function in ("not_there", "of_a_crash"):
        found = await finding(function, on_failure="deny")
        assert found.level is Level.ERROR
        assert found.message.startswith("it stops none of the harmful commands that were tried: it fails")


async def test_a_gate_that_fails_about_some_clothes_does_not_stop_them() -> None:
    found = await finding("of_short_ones", on_failure="deny")
    assert found.level is Level.WARNING
    assert "variable" in found.message


def test_the_option_adds_its_finding_to_those_of_doctor(tmp_path: Path) -> None:
    config = tmp_path / "picohook.toml"
    hook = '[hooks.gate]\npython = "gates_of_a_person:of_everything"\nstages = ["before_tool"]\non_failure = "deny"\n'
    config.write_text(hook, encoding="utf-8")
    command = [sys.executable, "-m", "picohook", "doctor", "--json", "--mutate", str(config)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    checks = [one["check"] for one in json.loads(done.stdout)["findings"] if one["about"] == "hook gate"]
    assert "clothes" in checks
