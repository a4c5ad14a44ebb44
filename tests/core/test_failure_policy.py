"""What a failure counts as, and how it is told."""

from __future__ import annotations

import pytest
from rows import each

from picohook.errors import (
    HandshakeError,
    HookCrashedError,
    HookRefusedError,
    HookReplyError,
    HookTimeoutError,
    HookUnavailableError,
)
from picohook.model.apply_edit import apply_edit
from picohook.model.decisions import CONTINUE, AbortTurn, Deny
from picohook.model.failure_policy import cause, describe, on_failure
from picohook.model.payloads import ToolCall
from picohook.model.spec import OnFailure
from picohook.model.stages import BEFORE_TOOL, STAGES

REASON = "hook gate failed: it broke"
CAN_DENY = {"before_tool"}


@each("stage", sorted(STAGES))
@each("rule", list(OnFailure))
def test_a_failure_counts_as_its_setting_says(stage, rule):
    if stage == "approve_tool":
        expected = Deny(reason=REASON)
    elif rule is OnFailure.CONTINUE:
        expected = CONTINUE
    elif rule is OnFailure.DENY and stage in CAN_DENY:
        expected = Deny(reason=REASON)
    else:
        expected = AbortTurn(reason=REASON)
    assert on_failure(STAGES[stage], "gate", rule, "it broke") == expected


@each("stage", sorted(STAGES))
@each("rule", list(OnFailure))
def test_the_decision_for_a_failure_is_allowed_at_the_stage(stage, rule):
    decision = on_failure(STAGES[stage], "gate", rule, "it broke")
    assert STAGES[stage].approves or decision.action in STAGES[stage].actions


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("and this too")


@each(
    ("error", "said"),
    [
        (HookReplyError("plain"), "plain"),
        (ValueError("first line\nsecond line: a payload"), "first line"),
        (ValueError("\n\n  first line that says something\nsecond"), "first line that says something"),
        (ValueError(), "ValueError"),
        (ValueError("\n \n"), "ValueError"),
        (UnspeakableError(), "UnspeakableError"),
        (ValueError("\x1b[2J\rlevel=error\u202e"), r"\x1b[2J\rlevel=error\u202e"),
        (ValueError("x" * 5000), "x" * 1024),
        (ValueError("€" * 5000), "€" * 341),
        (ValueError("\ud800"), r"\ud800"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
        (KeyError("command"), "KeyError: 'command'"),
        (RuntimeError("first\x1b[2J\nsecond"), r"RuntimeError: first\x1b[2J"),
        (RuntimeError("x" * 5000), f"RuntimeError: {'x' * 400}"),
    ],
)
def test_a_failure_is_described_in_one_line_escaped_and_cut(error, said):
    assert describe(error) == said


@each(
    ("error", "kind"),
    [
        (HookTimeoutError("x"), "timeout"),
        (HookCrashedError("x"), "crashed"),
        (HookRefusedError("x", code=1), "refused"),
        (HookReplyError("x"), "reply"),
        (HandshakeError("x"), "handshake"),
        (HookUnavailableError("x", cause="busy"), "busy"),
        (ValueError("x"), "reply"),
        (KeyError("x"), "error"),
    ],
)
def test_metrics_count_a_failure_by_its_kind(error, kind):
    assert cause(error) == kind


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"arguments": "ls"}, "`arguments` must be an object, not a string"),
        ({"tool": 5}, "`tool` must be a string, not a number"),
        ({"tool": 5, "arguments": []}, "`tool` must be a string, not a number (and 1 more)"),
        ({"tool_kind": "odd"}, "`tool_kind`: Input should be 'readonly', 'write' or 'execute'"),
    ],
)
def test_the_cause_of_a_misfitting_edit_names_the_field_and_not_its_value(call, said):
    before = ToolCall(tool="bash", arguments={})
    with pytest.raises(ValueError, match="ToolCall") as caught:
        apply_edit(BEFORE_TOOL, before, call)
    assert describe(caught.value) == said


def test_an_error_whose_text_raises_is_described_by_its_type():
    class UntoldError(ValueError):
        def __str__(self):
            raise RuntimeError

    assert describe(UntoldError()) == "UntoldError"
