"""`picohook doctor` asks each gate of another agent's file about sample calls, and reports if it always answers the same."""

from __future__ import annotations

import json

import pytest
from gates import tried

from picohook import foreign_hooks
from picohook.cli.doctor.findings import Level
from picohook.ext.vendors.gates import SAMPLES, tools_of
from picohook.ext.vendors.tools import TOOLS

WRONG_FIELD = "jq -e .toolInput.command >/dev/null || { echo no >&2; exit 2; }"
APPROVAL = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}


def gate(command, matcher="", **more):
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}


GATES = {
    "works": (gate("grep -q 'rm -rf' && { echo no >&2; exit 2; }; exit 0"), Level.OK, "(no), and no harmless call"),
    "guards files": (gate("grep -q hunter2 && exit 2; exit 0"), Level.OK, "it denies Write"),
    "guards servers' tools": (gate("grep -q DROP && exit 2; exit 0", "mcp__.*"), Level.OK, "it denies mcp__example__"),
    "wants only some commands": (gate("exit 2", **{"if": "Bash(git push *)"}), Level.OK, "it denies Bash"),
    "reads a field that is not sent": (gate(WRONG_FIELD, "Bash"), Level.WARNING, 'every call: Bash {"command": "ls"'),
    "refuses only what is harmless": (
        gate("grep -q 'rm -rf' && exit 0; exit 2"),
        Level.WARNING,
        "it refuses a harmless call and no harmful one",
    ),
    "never refuses": (gate("cat >/dev/null"), Level.NOTE, "it refuses no call"),
    "is not there": (gate("./gone.sh"), Level.ERROR, "exited with code 127"),
    "fails about what it should refuse": (gate("grep -q 'rm -rf' && exit 7; exit 0"), Level.WARNING, "code 7"),
    "wants no sample call": (gate("exit 2", **{"if": "Bash(terraform *)"}), Level.NOTE, "it was not tried"),
}


@pytest.mark.anyio
async def test_a_gate_that_always_answers_the_same_is_found(settings):
    path = settings(
        PreToolUse=[gate for gate, _, _ in GATES.values()],
        PermissionRequest=[gate(f"echo '{json.dumps(APPROVAL)}'")],
    )
    expected = {**GATES, "approves everything": (None, Level.WARNING, "it approves every call")}

    found = await tried(path)

    for (name, (_, level, message)), (was, said) in zip(expected.items(), found, strict=True):
        assert (was, message in said) == (level, True), (name, was, said)


@pytest.mark.anyio
async def test_a_gate_that_decides_nothing_or_asks_a_model_is_not_tried(settings):
    path = settings(PreToolUse=[gate("exit 2", **{"async": True}), {"hooks": [{"type": "prompt", "prompt": "Safe?"}]}])
    ((level, message),) = await tried(path)
    assert (level, message) == (Level.NOTE, "its model was not asked")


def test_each_tool_of_the_table_has_a_harmless_and_a_harmful_call():
    assert SAMPLES.keys() == TOOLS.keys()
    for tool, sample in SAMPLES.items():
        assert TOOLS[tool].fields.keys() <= sample.harmless.keys() == sample.harmful.keys(), tool


def test_a_gate_is_asked_about_the_tools_that_its_matcher_matches(settings):
    (group,) = foreign_hooks(settings(PreToolUse=[gate("true", "Write|Edit")]))
    assert [tool for tool, _ in tools_of(group.filter, 0)] == ["Write", "Edit"]
