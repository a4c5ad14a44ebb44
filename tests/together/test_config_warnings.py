"""What a configuration says in vain is a warning with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from picohook.model.expressions import ADVICE
from picohook.projects.layers import named

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Write


def warned(path: Path) -> list[str]:
    found = named(path).warnings
    assert {problem.file for problem in found} <= {str(path)}
    return [str(problem).removeprefix(f"{path}: ") for problem in found]


def hook(write: Write, defaults: dict[str, Any] | None = None, **keys: Any) -> list[str]:
    table = {"command": ["a"], "stages": ["before_tool"], **keys}
    table = {key: value for key, value in table.items() if value is not None}
    document = {"hooks": {"h": table}, **({"$schema": ""} if defaults is None else {"defaults": defaults})}
    path = write("a.yaml", json.dumps(document))
    return [line.removeprefix("hooks.h.") for line in warned(path)]


CUT_SHORT = "more than the {budget} s of the whole chain, which run out first (raise defaults.chain_budget)"


@pytest.mark.parametrize(
    ("defaults", "keys", "expected"),
    [
        ({}, {"timeout": 30}, []),
        ({}, {"timeout": 30.5}, ["timeout: 30.5 s at before_tool is " + CUT_SHORT.format(budget=30)]),
        ({"chain_budget": 60}, {"timeout": 60}, []),
        ({"chain_budget": 2}, {}, ["timeout: 5 s at before_tool is " + CUT_SHORT.format(budget=2)]),
        (
            {"interceptor_timeout": 40},
            {"timeouts": {"before_llm": 1}, "stages": ["before_tool", "before_llm"]},
            ["timeout: 40 s at before_tool is " + CUT_SHORT.format(budget=30)],
        ),
        (
            {},
            {"timeouts": {"before_tool": 31}},
            ["timeouts.before_tool: 31 s at before_tool is " + CUT_SHORT.format(budget=30)],
        ),
        ({"chain_budget": 2}, {"stages": ["approve_tool"]}, []),
        ({"chain_budget": 2}, {"stages": None, "observe": ["*"]}, []),
        ({}, {"command": None, "prompt": "?"}, []),
        ({}, {"command": None, "stages": None, "ask": "queue", "timeout": 1800}, []),
    ],
)
def test_a_hook_with_more_time_than_its_chain_is_a_warning(write, defaults, keys, expected):
    assert hook(write, defaults, **keys) == expected


SLASHES = "filter.tool: %(it)s is read as a glob: write a regular expression between slashes, /%(it)s/"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"filter": {"tool": "bash", "channel": "cli", "agent": "main"}}, []),
        ({"filter": {"when": {"tool_kind": "write", "arguments": {}}}}, []),
        (
            {"filter": {"tool": "/(/"}},
            [f"filter.tool: /(/ matches every tool, because it cannot be read: unclosed group ({ADVICE})"],
        ),
        (
            {"filter": {"tool": "mcp__*|[ab]?|files.read-1|/^a+$/"}},
            [SLASHES % {"it": "mcp__*|[ab]?|files.read-1|/^a+$/"}],
        ),
        ({"filter": {"tool": "mcp__*|[ab]?|files.read-1"}}, []),
        ({"filter": {"tool": "/^a+$/"}}, []),
        *(({"filter": {"tool": it}}, [SLASHES % {"it": it}]) for it in ("^bash$", "(bash", "ba.*", r"\w")),
        (
            {"filter": {"model": "gpt"}},
            ["filter.model: before_tool has no such field, so the hook is never asked there"],
        ),
        (
            {"filter": {"tool": "bash"}, "stages": ["before_tool", "before_llm", "before_finish"]},
            [
                "filter.tool: before_llm has no such field, so the hook is never asked there",
                "filter.tool: before_finish has no such field, so the hook is never asked there",
            ],
        ),
        ({"filter": {"when": {"is_error": True}}, "stages": ["after_tool"]}, []),
        (
            {"filter": {"when": {"is_error": True}}},
            ["filter.when.is_error: before_tool has no such field, so the hook is never asked there"],
        ),
        ({"filter": {"tool": "bash"}, "stages": None, "observe": ["*"]}, []),
        ({"filter": {"tool": "bash"}, "stages": None, "observe": ["agent.tool.exec_end", "turn_end"]}, []),
        (
            {"filter": {"tool": "bash"}, "stages": None, "observe": ["turn_end"]},
            ["filter.tool: the events it observes have no such field, so the hook is never told"],
        ),
        (
            {"filter": {"channel": "cli"}, "observe": ["*"]},
            ["filter.channel: the events it observes have no such field, so the hook is never told"],
        ),
        ({"filter": {"model": "gpt"}, "stages": None, "observe": ["llm_request"]}, []),
        ({"filter": {"when": {"Status": "error"}}, "stages": None, "observe": ["turn_end"]}, []),
    ],
)
def test_a_filter_on_a_missing_field_is_a_warning(write, keys, expected):
    assert hook(write, **keys) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"stages": ["approve_tool"], "approval_timeout": 3, "timeouts": {"approve_tool": 3}}, []),
        (
            {"approval_timeout": 3, "timeouts": {"after_llm": 3}},
            [
                "approval_timeout: it is for approve_tool, and the hook is not asked there",
                "timeouts.after_llm: the hook is not asked there",
            ],
        ),
        (
            {"stages": ["approve_tool"], "timeout": 3, "retry": 1, "on_failure": "deny", "may_edit": ["tools"]},
            [
                "timeout: it is for every stage but approve_tool, and the hook is not asked there",
                "retry: it is for every stage but approve_tool, and the hook is not asked there",
                "on_failure: it is for every stage but approve_tool, and the hook is not asked there",
                "may_edit: it is for before_llm, and the hook is not asked there",
            ],
        ),
        (
            {"stages": ["after_tool"], "provides": ["x"], "respond": "forbid"},
            [
                "provides: it is for before_tool, and the hook is not asked there",
                "respond: it is for before_llm and before_tool, and the hook is not asked there",
            ],
        ),
        (
            {"stages": ["before_tool"], "stream": True},
            ["stream: it is for after_llm, and the hook is not asked there"],
        ),
        (
            {"stages": ["after_llm"], "stream": {"window": 8}, "command": None, "run": "cat"},
            [
                "stream: it is for a process that is kept running or a function, and this hook is run anew for each question"
            ],
        ),
        ({"stages": ["after_llm"], "stream": {"window": 8, "characters": 1, "interval": 0}}, []),
        ({"stages": None, "observe": ["*"], "command": None, "run": "cat", "timeout": 3}, []),
        ({"events": "runtime"}, ["events: the hook observes no events"]),
        (
            {"command": None, "run": "cat", "restart": {"max_starts": 2}},
            ["restart: it is for a process that is kept running, and this hook has none"],
        ),
        ({"enabled": False, "approval_timeout": 3}, []),
    ],
)
def test_a_setting_without_effect_is_a_warning(write, keys, expected):
    assert hook(write, **keys) == expected


def test_a_default_for_all_hooks_is_not_a_warning_for_one(write):
    defaults = {"on_failure": "deny", "respond": "forbid", "restart": {"max_starts": 2}, "approval_timeout": 3}
    assert hook(write, defaults, command=None, run="cat", stages=["after_tool"]) == []


def test_warnings_are_found_in_every_format(write):
    process = {"enabled": True, "transport": "stdio", "command": ["a"], "intercept": ["before_tool"]}
    picoclaw = {"hooks": {"builtins": {"x": {"enabled": True}}, "processes": {"a b": process}}}
    assert warned(write("a.json", json.dumps(picoclaw))) == [
        'hooks.builtins: "x" is built into PicoClaw, not into picohook: mount your own hook for it'
    ]
    picoclaw["hooks"]["defaults"] = {"interceptor_timeout_ms": 40_000}
    assert len(warned(write("a.json", json.dumps(picoclaw)))) == 1  # its chains have no budget
    assert warned(write("hooks.yaml", "stop:\n  - {command: x}\n  - {command: x, timeout: 40}\n")) == [
        "stop[1].timeout: 40 s at before_finish is more than the 30 s of the whole chain, which run out first"
    ]


@pytest.mark.parametrize(("key", "value"), [("stdio", "socket"), ("session", "own")])
def test_a_setting_of_processes_for_a_hook_that_is_not_a_program_is_a_warning(key, value, write):
    assert hook(write, **{key: value}) == []
    assert hook(write, command=None, run="cat", **{key: value}) == []
    assert hook(write, command=None, python="module:function", **{key: value}) == [
        f"{key}: it is for a hook that is a program"
    ]
