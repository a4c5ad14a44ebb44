"""From what a hook answered to a decision: which action is allowed where, and what a reply may carry."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st
from rows import each

from picohook.model.decisions import (
    APPROVE,
    CONTINUE,
    AbortTurn,
    Continue,
    Deny,
    HardAbort,
    Modify,
    Pause,
    Respond,
    Retry,
    Skip,
)
from picohook.model.replies import ReplyError, plain_decision, read_decision
from picohook.model.stages import (
    AFTER_COMPACT,
    AFTER_LLM,
    AFTER_TOOL,
    APPROVE_TOOL,
    BEFORE_COMPACT,
    BEFORE_FINISH,
    BEFORE_LLM,
    BEFORE_PROMPT,
    BEFORE_TOOL,
    STAGES,
)
from picohook.model.trail import Notes

INTERCEPTS = sorted(set(STAGES) - {"approve_tool"})
EVERYWHERE = ["continue", "modify", "abort_turn", "hard_abort"]
ALLOWED = {
    "before_prompt": [*EVERYWHERE, "retry"],
    "before_llm": [*EVERYWHERE, "respond", "retry"],
    "after_llm": [*EVERYWHERE, "retry"],
    "before_tool": [*EVERYWHERE, "respond", "deny_tool", "pause"],
    "after_tool": EVERYWHERE,
    "before_finish": [*EVERYWHERE, "retry", "pause"],
    "before_compact": [*EVERYWHERE, "skip"],
    "after_compact": EVERYWHERE,
}
"""protocol.md, "Actions"."""
DECIDES = {
    "continue": Continue, "modify": Modify, "respond": Respond, "deny_tool": Deny, "skip": Skip, "retry": Retry,
    "pause": Pause, "abort_turn": AbortTurn, "hard_abort": HardAbort,
}  # fmt: skip
CARRIED = {"modify": {"patch": {}}, "respond": {"result": {}}, "retry": {"feedback": "again"}}


@each("stage", INTERCEPTS)
def test_a_plain_answer_decides_the_same_as_one_that_is_read_field_by_field(stage):
    for action in (*DECIDES, "", "nonsense"):
        for reason in ("", "because", "é" * 500):
            plain = plain_decision(STAGES[stage], action, reason)
            try:
                exact = read_decision(STAGES[stage], {"action": action, "reason": reason, "x_more": 1})
            except ReplyError:
                exact = None
            assert plain in (None, exact)
            assert (
                plain is not None or exact is None or action in {"", "modify"} or (action == "continue" and not reason)
            )


@each("action", DECIDES)
@each("stage", INTERCEPTS)
def test_an_action_is_taken_where_it_is_allowed_and_a_failure_elsewhere(stage, action):
    answer = {"action": action, "reason": "because", **CARRIED.get(action, {})}
    if action in ALLOWED[stage]:
        decision = read_decision(STAGES[stage], answer)
        assert type(decision) is DECIDES[action]
        assert decision.action == action
        assert decision.reason == "because"
    else:
        with pytest.raises(ValueError, match=f"'{action}' is not one of {stage}'s"):
            read_decision(STAGES[stage], answer)


@each(
    "action",
    ["allow", "deny", "Continue", "CONTINUE", " continue", "continue\n", "modify ", "approve", "deny_tool;", "null", "0",
     1, 0, True, False, 1.5, [], {}, ["continue"], {"action": "continue"}],
)  # fmt: skip
@each("stage", sorted(STAGES))
def test_A7_an_unknown_action_is_a_failure_and_never_a_continue(stage, action):
    with pytest.raises(ValueError, match="action"):
        read_decision(STAGES[stage], {"action": action, "approved": True})


@each("answer", [None, {}, {"action": "continue"}, {"action": ""}, {"action": None}])
@each("stage", INTERCEPTS)
def test_an_empty_or_absent_answer_continues(stage, answer):
    assert read_decision(STAGES[stage], answer) == CONTINUE


@each("answer", [[], "continue", "", 0, 1, True, False, 1.5, [{"action": "continue"}]])
@each("stage", sorted(STAGES))
def test_an_answer_that_is_not_an_object_is_a_failure(stage, answer):
    with pytest.raises(ValueError, match="not an object"):
        read_decision(STAGES[stage], answer)


class TestPayloads:
    """A payload that comes with `continue`, `modify` or no action at all is applied."""

    @each("action", [{}, {"action": "continue"}, {"action": "modify"}, {"action": ""}, {"action": None}])
    @each(
        ("stage", "carried", "changes"),
        [
            (BEFORE_LLM, {"request": {"model": "n"}}, {"model": "n"}),
            (AFTER_LLM, {"response": {"content": "x"}}, {"content": "x"}),
            (BEFORE_TOOL, {"call": {"tool": "x"}}, {"tool": "x"}),
            (AFTER_TOOL, {"result": {"for_llm": "x"}}, {"for_llm": "x"}),
            (BEFORE_PROMPT, {"prompt": "x"}, {"prompt": "x"}),
            (BEFORE_PROMPT, {"messages": []}, {"messages": []}),
            (BEFORE_FINISH, {"messages": [{}]}, {"messages": [{}]}),
            (BEFORE_COMPACT, {"messages": [{}]}, {"messages": [{}]}),
            (AFTER_COMPACT, {"messages": [{}]}, {"messages": [{}]}),
        ],
    )
    def test_it_is_a_modify(self, stage, carried, changes, action):
        assert read_decision(stage, {**action, **carried}) == Modify(changes)

    @each("action", [{}, {"action": "continue"}, {"action": "modify"}])
    @each("stage", INTERCEPTS)
    def test_so_is_a_patch(self, stage, action):
        field = {"before_tool": "arguments", "after_tool": "media"}.get(stage, "messages")
        assert read_decision(STAGES[stage], {**action, "patch": {field: None}}) == Modify({}, patch={field: None})

    @each("stage", INTERCEPTS)
    def test_a_modify_with_nothing_is_a_failure(self, stage):
        carries = STAGES[stage].carries or "messages"
        for answer in ({"action": "modify"}, {"action": "modify", carries: None, "patch": None}):
            with pytest.raises(ValueError, match=f"`modify` came without .*`{carries}`.* or `patch`"):
                read_decision(STAGES[stage], answer)

    def test_the_payload_of_another_stage_is_not_looked_at(self):
        assert read_decision(BEFORE_TOOL, {"action": "continue", "request": {"model": "n"}}) == CONTINUE
        assert read_decision(AFTER_TOOL, {"action": "continue", "call": {"tool": "x"}}) == CONTINUE
        assert read_decision(BEFORE_FINISH, {"action": "continue", "prompt": "x"}) == CONTINUE

    @each(
        ("stage", "field"),
        [(BEFORE_LLM, "request"), (AFTER_LLM, "response"), (BEFORE_TOOL, "call"), (AFTER_TOOL, "result")]
        + [(STAGES[name], "patch") for name in INTERCEPTS],
    )
    @each("value", [[], "x", 5, True])
    @each("action", ["modify", "continue"])
    def test_one_that_is_not_an_object_is_a_failure(self, stage, field, value, action):
        with pytest.raises(ValueError, match=f"`{field}` is .* not an object"):
            read_decision(stage, {"action": action, field: value})


class TestWhatAnActionNeeds:
    def test_respond_to_a_tool_carries_the_result_and_maybe_an_edited_call(self):
        assert read_decision(BEFORE_TOOL, {"action": "respond", "result": {"for_llm": "x"}}) == Respond(
            {"for_llm": "x"}
        )
        answer = {"action": "respond", "result": {}, "call": {"arguments": {}}}
        assert read_decision(BEFORE_TOOL, answer) == Respond({}, changes={"arguments": {}})

    def test_respond_to_a_request_carries_the_response(self):
        assert read_decision(BEFORE_LLM, {"action": "respond", "result": {"content": "x"}}) == Respond({"content": "x"})

    @each("stage", [BEFORE_TOOL, BEFORE_LLM])
    @each("carried", [{}, {"result": None}, {"result": "x"}, {"result": []}, {"response": {}}])
    def test_respond_without_a_result_is_a_failure(self, stage, carried):
        with pytest.raises(ValueError, match="result"):
            read_decision(stage, {"action": "respond", **carried})

    @each("stage", [BEFORE_PROMPT, BEFORE_LLM, AFTER_LLM, BEFORE_FINISH])
    @each("carried", [{}, {"feedback": ""}, {"feedback": None}, {"feedback": 5}, {"reason": "x"}])
    def test_retry_without_feedback_is_a_failure(self, stage, carried):
        with pytest.raises(ValueError, match="feedback"):
            read_decision(stage, {"action": "retry", **carried})

    def test_retry_may_carry_the_fields_of_a_stage_instead(self):
        assert read_decision(BEFORE_PROMPT, {"action": "retry", "prompt": "x"}) == Retry("", changes={"prompt": "x"})
        answer = {"action": "retry", "messages": [{}], "feedback": "again"}
        assert read_decision(BEFORE_FINISH, answer) == Retry("again", changes={"messages": [{}]})
        assert read_decision(BEFORE_LLM, {"action": "retry", "feedback": "again", "request": {"a": 1}}) == Retry(
            "again"
        )

    def test_feedback_goes_to_the_model_and_is_cut_at_64_kib(self):
        decision = read_decision(BEFORE_LLM, {"action": "retry", "feedback": "x" * 100_000})
        assert decision.feedback == "x" * 65536


class TestTexts:
    @pytest.mark.parametrize("action", ["continue", "modify", "abort_turn", "hard_abort"])
    def test_A10_a_reason_is_cut_at_1_kib_and_not_inside_a_character(self, action):
        answer = {"action": action, **CARRIED.get(action, {})}
        assert read_decision(AFTER_TOOL, {**answer, "reason": "x" * 5000}).reason == "x" * 1024
        assert read_decision(AFTER_TOOL, {**answer, "reason": "€" * 5000}).reason == "€" * 341
        assert read_decision(AFTER_TOOL, {**answer, "reason": "x" * 1024}).reason == "x" * 1024

    @each("key", ["reason", "system_message", "additional_context"])
    @each("value", [5, [], {}, True, 1.5, ["x"]])
    def test_a_reason_that_is_not_text_is_a_failure(self, key, value):
        with pytest.raises(ValueError, match=f"`{key}` is .* not a string"):
            read_decision(BEFORE_TOOL, {"action": "continue", key: value})

    @pytest.mark.parametrize("key", ["reason", "system_message", "additional_context", "inject_messages"])
    def test_null_is_none(self, key):
        assert read_decision(BEFORE_TOOL, {"action": "continue", key: None}) == CONTINUE


class TestSeverity:
    @pytest.mark.parametrize(
        ("stage", "answer"), [(BEFORE_TOOL, {"action": "deny_tool"}), (APPROVE_TOOL, {"approved": False})]
    )
    @pytest.mark.parametrize("key", ["severity", "Severity"])
    def test_a_denial_can_have_one_which_is_cut(self, stage, answer, key):
        denial = read_decision(stage, {**answer, "reason": "no", key: "high"})
        assert denial == Deny("no", severity="high")
        assert read_decision(stage, {**answer, key: "x" * 100}).severity == "x" * 32
        with pytest.raises(ValueError, match="`severity` is a number, not a string"):
            read_decision(stage, {**answer, key: 5})

    def test_alone_it_decides_nothing_and_is_a_failure(self):
        with pytest.raises(ValueError, match="severity"):
            read_decision(BEFORE_TOOL, {"severity": "high"})


ANSWER = {
    "system_message": "for the user",
    "additional_context": "for the prompt",
    "inject_messages": [{"role": "user", "content": "x"}],
}
NOTES = Notes("for the user", "for the prompt", ({"role": "user", "content": "x"},))


class TestNotes:
    @each("action", DECIDES)
    @each("stage", INTERCEPTS)
    def test_they_come_with_every_action(self, stage, action):
        if action in ALLOWED[stage]:
            answer = {"action": action, **CARRIED.get(action, {}), **ANSWER}
            assert read_decision(STAGES[stage], answer).notes == NOTES

    @pytest.mark.parametrize("key", ["system_message", "additional_context", "inject_messages"])
    def test_each_comes_alone_and_without_an_action(self, key):
        decision = read_decision(BEFORE_TOOL, {key: ANSWER[key]})
        assert type(decision) is Continue
        assert decision.notes is not None
        assert decision.notes.wire() == {key: ANSWER[key]}

    def test_so_does_a_reason(self):
        assert read_decision(BEFORE_TOOL, {"reason": "x"}) == Continue(reason="x")

    def test_empty_ones_are_none(self):
        answer = {"action": "continue", "system_message": "", "additional_context": "", "inject_messages": []}
        assert read_decision(BEFORE_TOOL, answer) == CONTINUE

    def test_they_are_cut(self):
        answer = {"system_message": "x" * 100_000, "additional_context": "y" * 100_000}
        notes = read_decision(BEFORE_TOOL, answer).notes
        assert notes == Notes("x" * 1024, "y" * 65536)

    @each("value", ["x", {}, 5, True, [1], [None], ["x"], [{}, "x"], {"role": "user"}])
    def test_messages_that_are_not_a_list_of_objects_are_a_failure(self, value):
        with pytest.raises(ValueError, match="`inject_messages` is not a list of objects"):
            read_decision(BEFORE_LLM, {"inject_messages": value})


class TestApproval:
    @pytest.mark.parametrize(
        "answer",
        [{"approved": True}, {"approved": True, "reason": "fine"}, {"approved": True, "action": "continue"},
         {"approved": True, "action": ""}, {"approved": True, "action": None}, {"approved": True, "more": [1]}],
    )  # fmt: skip
    def test_true_approves(self, answer):
        assert read_decision(APPROVE_TOOL, answer) is APPROVE

    def test_false_denies_with_its_reason(self):
        assert read_decision(APPROVE_TOOL, {"approved": False}) == Deny()
        assert read_decision(APPROVE_TOOL, {"approved": False, "reason": "x" * 5000}) == Deny(reason="x" * 1024)

    def test_a_denial_with_a_broken_reason_still_does_not_approve(self):
        with pytest.raises(ValueError, match="`reason` is a number, not a string"):
            read_decision(APPROVE_TOOL, {"approved": False, "reason": 5})

    @each(
        "approved",
        ["yes", "true", "True", "on", "1", "", 1, 1.0, 0, -1, 2**70, 10**4299, None, [], [True], {}, {"approved": True}],
    )  # fmt: skip
    def test_J6_any_other_value_is_a_failure(self, approved):
        with pytest.raises(ValueError, match="only true is a yes"):
            read_decision(APPROVE_TOOL, {"approved": approved})

    @each(
        "answer",
        [None, {}, {"Approved": True}, {"APPROVED": True}, {"approve": True}, {"approved ": True}, {"ok": True},
         {"action": "continue"}, {"result": {"approved": True}}, {"call": {}, "reason": "sure"}],
    )  # fmt: skip
    def test_J7_A2_no_approved_is_a_failure(self, answer):
        with pytest.raises(ValueError, match="has no `approved`"):
            read_decision(APPROVE_TOOL, answer)

    @each("action", sorted({*DECIDES, "approve", "allow"} - {"continue"}))
    def test_A7_an_action_of_another_stage_is_a_failure_even_with_a_yes(self, action):
        with pytest.raises(ValueError, match=f"an approval has no action, and this one has '{action}'"):
            read_decision(APPROVE_TOOL, {"approved": True, "action": action})

    def test_what_is_shown_of_an_answer_is_cut(self):
        with pytest.raises(ValueError, match="yes") as caught:
            read_decision(APPROVE_TOOL, {"approved": "yes" * 1000})
        assert len(str(caught.value)) < 150


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
answers = st.dictionaries(
    st.sampled_from(
        ["action", "approved", "reason", "call", "request", "result", "response", "patch", "feedback", "messages", "prompt",
         "system_message", "additional_context", "inject_messages", "Approved"]
    ),
    st.sampled_from([*DECIDES, True, False, {}, {"a": 1}, "text", [{}]]) | json_values,
    max_size=6,
)  # fmt: skip


@given(answers | json_values, st.sampled_from(sorted(STAGES)))
def test_any_answer_is_an_allowed_decision_or_a_value_error(answer, stage):
    try:
        decision = read_decision(STAGES[stage], answer)
    except ValueError:
        return
    if stage == "approve_tool":
        assert decision is APPROVE or type(decision) is Deny
        assert (decision is APPROVE) is (answer["approved"] is True)
    else:
        assert decision.action in ALLOWED[stage]
    assert len(decision.reason.encode("utf-8", "surrogatepass")) <= 1024


actions = st.sampled_from([*DECIDES, "Continue", "", None, 1, ["continue"]])
reasons = st.one_of(st.sampled_from(["", "x" * 5000, "é" * 5000, None, 1, False, ["because"]]), st.text())


edits = json_values | st.dictionaries(
    st.sampled_from(["tool", "arguments", "model", "messages", "for_llm", "Tool", "meta"]), json_values, max_size=3
)
short_answers = st.fixed_dictionaries(
    {"action": actions},
    optional={
        "reason": reasons,
        **dict.fromkeys(["call", "request", "response", "result", "patch", "", "Call"], edits),
    },
)


@given(st.sampled_from(INTERCEPTS), short_answers)
@example("before_tool", {"action": "modify", "call": {"tool": "ls"}, "reason": "é" * 5000})
@example("before_llm", {"action": "modify", "request": {"model": None}})
@example("before_finish", {"action": "modify", "": {"messages": []}})
def test_a_short_answer_means_the_same_as_one_with_a_private_field(stage, answer):
    def read(answer):
        try:
            return read_decision(STAGES[stage], answer)
        except ValueError as error:
            return str(error)

    assert read(answer) == read({**answer, "x_trace": 1})
