"""A hook's settings: what they mean together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from rows import each

from picohook.model.spec import HookSpec, OnFailure, Timeouts, WholeModeSpec
from picohook.model.stages import MODES, STAGES
from picohook.wire import words

DEFAULTS = Timeouts(interceptor=5, approval=60)


@pytest.mark.parametrize(
    ("stages", "observe", "modes"),
    [
        ((), (), ()),
        ((), ("error",), ("observe",)),
        (("before_llm",), (), ("llm",)),
        (("after_tool", "approve_tool"), ("*",), ("observe", "tool", "approve")),
        (("after_compact", "before_finish", "before_prompt"), (), ("prompt", "turn", "compact")),
        (tuple(STAGES), ("",), ("observe", "prompt", "llm", "tool", "approve", "turn", "compact")),
    ],
)
def test_the_modes_of_hello_are_those_of_its_stages(stages, observe, modes):
    assert HookSpec(name="a", stages=stages, observe=observe).modes == modes
    assert set(modes) <= {words.OBSERVE, *MODES}


def test_stages_are_exact():
    assert HookSpec(name="a", stages=("before_tool",)).asked_at == ("before_tool",)


def test_in_picoclaws_way_one_stage_of_a_mode_stands_for_all_of_it():
    assert WholeModeSpec(name="a", stages=("after_tool", "approve_tool"), observe=("*",)).asked_at == (
        "before_tool",
        "after_tool",
        "approve_tool",
    )


@pytest.mark.parametrize("everything", ["*", "all", ""])
def test_every_kind_can_be_observed_at_once(everything):
    assert HookSpec(name="a", observe=("error", everything)).kinds == set(words.EVENT_KINDS)


@pytest.mark.parametrize(
    ("observe", "kinds", "dialect"),
    [
        ((), set(), "legacy"),
        (("error", "turn_end"), {"error", "turn_end"}, "legacy"),
        (("agent.turn.end",), {"turn_end"}, "runtime"),
        (("error", "agent.tool.exec_start"), {"error", "tool_exec_start"}, "runtime"),
    ],
)
def test_dotted_kinds_mean_the_dotted_dialect(observe, kinds, dialect):
    spec = HookSpec(name="a", observe=observe)
    assert (spec.kinds, spec.events) == (kinds, dialect)


@pytest.mark.parametrize(
    ("settings", "interceptor", "approval"),
    [
        ({}, 5, 60),
        ({"timeout": 1}, 1, 60),
        ({"approval_timeout": 2}, 5, 2),
        ({"timeouts": {"before_tool": 3}}, 3, 60),
        ({"timeouts": {"approve_tool": 4}, "timeout": 1, "approval_timeout": 2}, 1, 4),
        ({"timeouts": {"before_tool": 3, "approve_tool": 4}, "timeout": 1, "approval_timeout": 2}, 3, 4),
    ],
)
def test_the_nearest_timeout_counts(settings, interceptor, approval):
    spec = HookSpec(name="a", **settings)
    assert spec.timeout_at("before_tool", DEFAULTS, approves=False) == interceptor
    assert spec.timeout_at("approve_tool", DEFAULTS, approves=True) == approval


def test_a_guard_denies_when_it_fails_unless_it_is_told_otherwise():
    assert HookSpec(name="a").on_failure is OnFailure.CONTINUE
    assert HookSpec(name="a", guard=True).on_failure is OnFailure.DENY
    assert HookSpec(name="a", guard=True, on_failure="continue").on_failure is OnFailure.CONTINUE


@each(
    ("settings", "said"),
    [
        ({"command": "python3 gate.py"}, r'give a list, one element an argument: \["python3", "gate.py"\]'),
        ({"command": [""]}, "program's name is empty"),
        ({"command": ["a", "b\0"]}, "NUL"),
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": float("inf")}, "finite"),
        ({"timeout": float("nan")}, "."),
        ({"stages": ["before_lunch"]}, "before_llm"),
        ({"may_edit": ["all"]}, "may_edit"),
        ({"max_in_flight": 0}, "greater than or equal to 1"),
        ({"prioritty": 1}, "prioritty"),
        ({"trust": ["../gate.py"]}, "relative to the project"),
        ({"trust": ["hooks/**.py"]}, "simple globs"),
        ({"trust": ["**/a/**/b/**/c.py"]}, "simple globs"),
        ({"trust": ["a" * 513]}, "simple globs"),
    ],
)
def test_a_mistake_is_named(settings, said):
    with pytest.raises(ValidationError, match=said):
        HookSpec(name="a", **settings)


def test_settings_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        HookSpec(name="a").priority = 5
