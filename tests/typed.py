"""What a type checker knows of the public API. mypy reads this file, nothing runs it: an ignored error that is none is one."""

from __future__ import annotations

from typing import Literal, assert_never, assert_type

from picohook import LLMResponse, Outcome, OutcomeAction, StageTrail, ToolCall, ToolResult, TrailEntry, TurnResult


def an_action_is_one_of_a_few_words(outcome: Outcome[ToolCall], entry: TrailEntry, passed: StageTrail) -> None:
    assert_type(outcome.action, OutcomeAction)
    assert_type(passed.action, OutcomeAction)
    assert_type(entry.action, OutcomeAction | Literal[""])
    if outcome.action == "deny":  # type: ignore[comparison-overlap] # it is "deny_tool"
        return
    match outcome.action:
        case "continue" | "modify" | "respond" | "retry" | "skip":
            pass
        case "deny_tool" | "pause" | "abort_turn" | "hard_abort":
            pass
        case other:
            assert_never(other)


def results_have_trails(tool: ToolResult, model: LLMResponse, turn: TurnResult) -> None:
    assert_type(tool.trails, tuple[StageTrail, ...])
    assert_type(model.trails, tuple[StageTrail, ...])
    assert_type(turn.trails, tuple[StageTrail, ...])
