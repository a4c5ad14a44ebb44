"""The one loop over interceptors: order, fold, what ends it, what a failure does, and whose mistake raises."""

from __future__ import annotations

from typing import get_args

import anyio
import anyio.lowlevel
import pytest
from loops import ON_BOTH
from rows import each

from picohook.engine.listener import Account
from picohook.engine.tool_ownership import Ownership
from picohook.errors import EncodeError, HookCrashedError, HookTimeoutError
from picohook.hooks.function import FunctionHook
from picohook.model.decisions import (
    APPROVE,
    CONTINUE,
    AbortTurn,
    Approve,
    Continue,
    Decision,
    Deny,
    HardAbort,
    Modify,
    Pause,
    Respond,
    Retry,
    Skip,
)
from picohook.model.failure_policy import describe
from picohook.model.payloads import ToolCall, ToolResult
from picohook.model.stages import STAGES
from picohook.model.trail import Notes

pytestmark = pytest.mark.anyio

INTERCEPTS = sorted(set(STAGES) - {"approve_tool"})


def names(outcome):
    return [entry.hook for entry in outcome.trail]


def actions(outcome):
    return [entry.action for entry in outcome.trail]


def adds(word):
    """Answers with the arguments and one more: what was seen, and by whom, in the order it was."""
    return lambda question: Modify({"arguments": {**question.payload.arguments, word: len(question.payload.arguments)}})


class TestOrderAndFold:
    async def test_without_hooks_the_payload_stays_as_it_is(self, chain, payloads):
        for stage in INTERCEPTS:
            outcome = await chain(stage)
            assert (outcome.stage, outcome.action, outcome.trail) == (stage, "continue", ())
            assert outcome.payload is payloads[stage]
            assert (outcome.approved, outcome.hook, outcome.reason) == (None, "", "")

    @pytest.mark.parametrize("in_process", [True, False])
    async def test_hooks_are_asked_in_turn_and_each_sees_the_edits_before_it(self, chain, says, in_process):
        call = ToolCall(tool="bash")
        answers = {"a": adds("a"), "b": CONTINUE, "c": adds("c"), "d": adds("d")}
        hooks = [says(name, answer, in_process=in_process) for name, answer in answers.items()]
        outcome = await chain("before_tool", *hooks, payload=call)
        assert [hook.asked[0].arguments for hook in hooks] == [{}, {"a": 0}, {"a": 0}, {"a": 0, "c": 1}]
        assert outcome.payload.arguments == {"a": 0, "c": 1, "d": 2}
        assert (names(outcome), actions(outcome)) == (["a", "b", "c", "d"], ["modify", "continue", "modify", "modify"])
        assert outcome.action == "modify"
        assert call.arguments == {}

    async def test_a_modify_that_changes_nothing_is_a_continue_in_the_end(self, chain, says, payloads):
        outcome = await chain(
            "before_tool", says("a", Modify({"tool": "bash"})), says("b", Modify(patch={"channel": "cli"}))
        )
        assert outcome.action == "continue"
        assert outcome.payload is payloads["before_tool"]
        assert actions(outcome) == ["modify", "modify"]

    async def test_the_trail_has_the_reason_of_each_decision_and_of_a_failure_its_error(self, chain, says):
        decisions = (Continue(reason="fine"), Modify({"tool": "sh"}, reason="safer"), ValueError("broken"), Deny("no"))
        hooks = [says(name, decision) for name, decision in zip("abcd", decisions, strict=True)]
        outcome = await chain("before_tool", *hooks)
        assert [entry.reason for entry in outcome.trail] == ["fine", "safer", "", "no"]
        assert [entry.error for entry in outcome.trail] == [None, None, "broken", None]

    async def test_unknown_fields_change_nothing(self, chain, says, payloads):
        changes = {"unknown": 1, "meta": {"AgentID": "x"}, "context": {}, "tool_call_id": "other"}
        outcome = await chain("before_tool", says("a", Modify(changes)))
        assert outcome.action == "continue"
        assert outcome.payload is payloads["before_tool"]

    async def test_the_owners_of_tools_are_told_of_the_hook_of_each_edit(self, chain, says, payloads):
        heard = []

        class Heard(Ownership):
            def edited(self, hook, before, after):
                heard.append((hook.name, before, after))

        hooks = [says("a", adds("a")), says("b", CONTINUE), says("c", ValueError("no")), says("d", adds("d"))]
        outcome = await chain("before_tool", *hooks, owners=Heard())
        (first, before, between), (second, again, after) = heard
        assert (first, second) == ("a", "d")
        assert before is payloads["before_tool"]
        assert between is again
        assert after is outcome.payload

    async def test_a_payload_is_encoded_once_for_all_hooks(self, chain, says):
        hooks = [
            says("a", CONTINUE),
            says("b", CONTINUE),
            says("c", adds("c")),
            says("d", CONTINUE),
            says("e", CONTINUE),
        ]
        await chain("before_tool", *hooks)
        seen = [hook.questions[0].encoded.params() for hook in hooks]
        assert seen[0] is seen[1] is seen[2]
        assert seen[3] is seen[4]
        assert seen[2] is not seen[3]

    async def test_notes_come_out_in_the_order_of_the_hooks(self, chain, says):
        first, second, third = Notes("one"), Notes(additional_context="two"), Notes(inject_messages=({"role": "user"},))
        hooks = [says("a", Modify(notes=first)), says("b", CONTINUE), says("c", Modify({"tool": "x"}, notes=second))]
        outcome = await chain("before_tool", *hooks, says("d", Deny(notes=third)))
        assert outcome.notes == (first, second, third)


ENDING = {
    "before_prompt": [Retry("again"), AbortTurn(), HardAbort()],
    "before_llm": [Respond({"content": "x"}), Retry("again"), AbortTurn(), HardAbort()],
    "after_llm": [Retry("again"), AbortTurn(), HardAbort()],
    "before_tool": [Respond({}), Deny(), Pause(), AbortTurn(), HardAbort()],
    "after_tool": [AbortTurn(), HardAbort()],
    "before_finish": [Retry("again"), Pause(), AbortTurn(), HardAbort()],
    "before_compact": [Skip(), AbortTurn(), HardAbort()],
    "after_compact": [AbortTurn(), HardAbort()],
}


class TestWhatEndsIt:
    @each(
        ("stage", "decision"),
        [(stage, decision) for stage, decisions in ENDING.items() for decision in decisions],
    )
    async def test_the_hooks_behind_are_not_asked(self, chain, says, stage, decision):
        behind = says("behind", CONTINUE)
        outcome = await chain(stage, says("before", CONTINUE), says("ends", decision), behind)
        assert outcome.action == decision.action
        assert (names(outcome), actions(outcome)) == (["before", "ends"], ["continue", decision.action])
        assert outcome.hook == "ends"
        assert behind.questions == []

    async def test_it_gives_its_reason_and_what_came_before_it_stays(self, chain, says):
        outcome = await chain("before_tool", says("a", adds("a")), says("b", Deny(reason="not today")))
        assert outcome.reason == "not today"
        assert "a" in outcome.payload.arguments

    async def test_feedback_comes_with_a_retry(self, chain, says):
        outcome = await chain("before_llm", says("a", Retry("louder", reason="quiet")))
        assert (outcome.feedback, outcome.reason) == ("louder", "quiet")

    async def test_a_retry_may_bring_fields_of_its_own(self, chain, says):
        outcome = await chain("before_prompt", says("a", Retry(changes={"prompt": "new"})))
        assert (outcome.action, outcome.payload.prompt, outcome.feedback) == ("retry", "new", "")

    async def test_a_retry_that_brings_nothing_is_a_failure(self, chain, says):
        outcome = await chain("before_prompt", says("a", Retry(), on_failure="abort"))
        assert outcome.action == "abort_turn"
        assert "another round" in outcome.trail[0].error

    async def test_respond_makes_a_tool_result(self, chain, says):
        outcome = await chain("before_tool", says("a", Respond({"for_llm": "sunny", "unknown": 1, "for_user": None})))
        assert outcome.result == ToolResult(for_llm="sunny")

    async def test_respond_makes_a_response_of_the_request_it_answers(self, chain, says, payloads):
        request = payloads["before_llm"]
        for result in ({"content": "x"}, {"model": "other", "response": {"content": "x"}}):
            outcome = await chain("before_llm", says("a", Respond(result)))
            answer = outcome.result
            assert (answer.response, answer.model) == ({"content": "x"}, "m")
            assert (answer.meta, answer.context, answer.channel, answer.chat_id) == (
                request.meta, request.context, request.channel, request.chat_id,
            )  # fmt: skip

    async def test_respond_may_edit_what_it_answers(self, chain, says):
        outcome = await chain("before_tool", says("a", Respond({}, changes={"arguments": {"cached": True}})))
        assert outcome.payload.arguments == {"cached": True}

    async def test_respond_is_a_response_of_the_request_as_the_hook_edited_it(self, chain, says):
        outcome = await chain("before_llm", says("a", Respond({"content": "x"}, changes={"model": "other"})))
        assert (outcome.payload.model, outcome.result.model) == ("other", "other")

    async def test_respond_with_a_wrong_result_is_a_failure(self, chain, says):
        outcome = await chain("before_tool", says("a", Respond({"for_llm": 5}), on_failure="deny"))
        assert (outcome.action, outcome.result) == ("deny_tool", None)

    async def test_a_denial_from_code_may_give_the_text_for_the_model(self, chain, says):
        outcome = await chain("before_tool", says("a", Deny(reason="no", result={"for_llm": "ask me later"})))
        assert (outcome.action, outcome.reason, outcome.result) == (
            "deny_tool",
            "no",
            ToolResult(for_llm="ask me later"),
        )

    async def test_a_denial_with_a_wrong_text_for_the_model_is_a_failure(self, chain, says):
        outcome = await chain("before_tool", says("a", Deny(result={"for_llm": 5}), on_failure="abort"))
        assert outcome.action == "abort_turn"

    async def test_A4_respond_with_another_tool_name_keeps_the_original_call(self, chain, says, payloads):
        outcome = await chain("before_tool", says("a", Respond({"for_llm": "x"}, changes={"tool": "mine"})))
        assert (outcome.action, outcome.payload.tool, outcome.result) == ("respond", "mine", ToolResult(for_llm="x"))
        assert outcome.asked_about is payloads["before_tool"]

    @pytest.mark.parametrize("stage", ["before_tool", "before_llm"])
    async def test_a_hook_that_must_not_respond_fails_if_it_does(self, chain, says, stage):
        hook = says("a", Respond({}), respond="forbid", on_failure="abort")
        outcome = await chain(stage, hook, says("b", CONTINUE))
        assert (outcome.action, outcome.result) == ("abort_turn", None)
        assert "forbid" in outcome.trail[0].error

    @pytest.mark.parametrize(
        "decision", [Modify({"tool": "x"}), Deny(), AbortTurn(), CONTINUE], ids=lambda one: one.action
    )
    async def test_it_may_say_anything_else(self, chain, says, decision):
        outcome = await chain("before_tool", says("a", decision, respond="forbid"))
        assert (outcome.action, outcome.trail[0].error) == (decision.action, None)


class TestFailures:
    @each("rule", ["continue", "deny", "abort"])
    @each("stage", INTERCEPTS)
    async def test_a_failed_hook_changes_nothing_and_counts_as_configured(self, chain, says, payloads, stage, rule):
        behind = says("behind", CONTINUE)
        outcome = await chain(stage, says("fails", ValueError("it broke"), on_failure=rule), behind)
        assert outcome.payload is payloads[stage]
        assert outcome.trail[0].error == "it broke"
        expected = {
            "continue": "continue",
            "deny": "deny_tool" if stage == "before_tool" else "abort_turn",
            "abort": "abort_turn",
        }[rule]
        assert outcome.action == outcome.trail[0].action == expected
        assert len(behind.questions) == (rule == "continue")
        if rule != "continue":
            assert outcome.reason == "hook fails failed: it broke"
            assert outcome.hook == "fails"

    @each(
        "failure",
        [
            HookTimeoutError("no answer"), HookCrashedError("it exited"), EncodeError("its own payload"), RuntimeError(),
            NotImplementedError(), ExceptionGroup("two", [ValueError(), KeyError()]), StopAsyncIteration(), TimeoutError(),
            AssertionError("x"), RecursionError(), MemoryError(),
        ],
    )  # fmt: skip
    async def test_any_error_of_a_hook_is_its_failure(self, chain, says, failure):
        outcome = await chain("before_tool", says("fails", failure), says("behind", CONTINUE))
        assert outcome.action == "continue"
        assert outcome.trail[0].error == describe(failure)
        assert names(outcome) == ["fails", "behind"]

    async def test_a_hook_without_a_handle_has_failed(self, chain, says):
        class Silent(says):
            handle = says.__base__.handle

        outcome = await chain("before_tool", Silent("silent"))
        assert "has no `handle`" in outcome.trail[0].error

    @each("answer", [None, True, "continue", {"action": "continue"}, object(), Modify])
    @each("stage", INTERCEPTS)
    async def test_an_answer_that_is_not_a_decision_is_a_failure(self, chain, says, stage, answer):
        outcome = await chain(stage, says("a", lambda _: answer, on_failure="abort"))
        assert outcome.action == "abort_turn"
        assert f"{type(answer).__name__} is not a valid answer at {stage}" in outcome.reason

    EXAMPLES = (
        CONTINUE,
        Modify(),
        Respond({}),
        Deny(),
        APPROVE,
        Skip(),
        Retry("again"),
        Pause(),
        AbortTurn(),
        HardAbort(),
    )

    def test_the_examples_are_all_there_is(self):
        assert {type(decision) for decision in self.EXAMPLES} == set(get_args(Decision))

    @each("decision", EXAMPLES)
    @each("stage", INTERCEPTS)
    async def test_a_decision_that_the_stage_does_not_allow_is_a_failure(self, chain, says, stage, decision):
        allowed = {type(one) for one in ENDING[stage]} | {type(CONTINUE), Modify}
        outcome = await chain(stage, says("a", decision), says("b", CONTINUE))
        if type(decision) in allowed:
            assert outcome.trail[0].error is None
            assert actions(outcome)[0] == decision.action
        else:
            assert outcome.trail[0].error == f"{type(decision).__name__} is not a valid answer at {stage}"
            assert actions(outcome) == ["continue", "continue"]

    async def test_an_interceptors_yes_does_not_keep_the_others_from_being_asked(self, chain, says):
        outcome = await chain("before_tool", says("a", Approve()), says("guard", Deny(reason="no")))
        assert outcome.action == "deny_tool"

    @pytest.mark.parametrize(
        "changes", [{"tool": 5}, {"arguments": "x"}, {"tool_kind": "harmless"}], ids=lambda changes: next(iter(changes))
    )
    async def test_an_edit_that_leaves_no_payload_is_a_failure(self, chain, says, payloads, changes):
        outcome = await chain("before_tool", says("a", Modify(changes)))
        assert outcome.payload is payloads["before_tool"]
        (name,) = changes
        assert outcome.trail[0].error.startswith(f"`{name}`")

    @each("changes", [{"tools": []}, {"system_prompt": "x"}, {"messages": []}])
    @each("make", [Modify, lambda changes: Retry("again", changes=changes), lambda c: Respond({}, changes=c)])
    async def test_forbidden_edits_of_a_hook_are_left_out_and_shown(self, chain, says, payloads, make, changes):
        outcome = await chain("before_llm", says("a", make(changes), may_edit=()))
        assert outcome.payload == payloads["before_llm"]
        assert "it may not edit" in outcome.trail[0].error

    async def test_allowed_edits_beside_it_are_applied(self, chain, says):
        hook = says("a", Modify({"system_prompt": "x", "tools": []}), may_edit=("tools",))
        outcome = await chain("before_llm", hook)
        assert (outcome.action, outcome.payload.tools, outcome.payload.system_prompt) == ("modify", [], "be brief")
        assert outcome.trail[0].error == "it may not edit system_prompt: left as it was"
        assert outcome.trail[0].action == "modify"

    async def test_failures_are_counted_by_cause(self, chain, says):
        hook = says("a", HookTimeoutError("x"), CONTINUE, ValueError("x"))
        for _ in range(3):
            await chain("before_tool", hook)
        metrics = hook.metrics.stages["before_tool"]
        assert (metrics.executions, dict(metrics.failures)) == (3, {"timeout": 1, "reply": 1})


class TestTheCallersMistake:
    """A payload that is no JSON is raised, and nobody is asked."""

    @each("in_process", [True, False])
    @each("value", [float("nan"), "\ud800", {1, 2}, b"x"])
    @each("stage", ["before_tool", "approve_tool"])
    async def test_it_is_raised_before_any_hook_is_asked(self, chain, says, stage, value, in_process):
        hooks = [says("a", ValueError(), on_failure="continue"), says("b", CONTINUE, in_process=in_process)]
        with pytest.raises(EncodeError):
            await chain(stage, *hooks, payload=ToolCall(tool="bash", arguments={"value": value}))
        assert [hook.questions for hook in hooks] == [[], []]

    @pytest.mark.parametrize("stage", ["before_tool", "approve_tool"])
    async def test_without_hooks_nothing_is_encoded(self, chain, stage):
        call = ToolCall(tool="bash", arguments={"value": {1, 2}})
        assert (await chain(stage, payload=call)).payload is call

    @pytest.mark.parametrize(
        "decision",
        [
            Modify({"arguments": {"value": float("nan")}}),
            Modify(patch={"arguments": {"value": "\ud800"}}),
            Respond({}, changes={"arguments": {"value": {1, 2}}}),
        ],
        ids=lambda decision: decision.action,
    )
    async def test_an_edit_without_a_json_form_is_the_hooks_failure(self, chain, says, payloads, decision):
        process = says("behind", CONTINUE, in_process=False)
        outcome = await chain("before_tool", says("a", decision), process)
        assert outcome.trail[0].error.startswith("the payload cannot be sent as JSON")
        assert process.asked == [payloads["before_tool"]]


class TestTime:
    @ON_BOTH
    async def test_a_hook_gets_its_own_deadline_from_when_it_is_asked(self, chain, says, clock):
        def slow(_):
            clock.time += 3
            return CONTINUE

        hooks = [says("a", slow), says("b", slow)]
        outcome = await chain("before_tool", *hooks)
        assert [hook.questions[0].deadline for hook in hooks] == [1005, 1008]
        assert [entry.duration for entry in outcome.trail] == [3, 3]

    async def test_encoding_and_listeners_do_not_use_up_a_hooks_time(self, chain, says, clock, payloads):
        class Heavy(ToolCall):
            def wire(self):
                clock.time += 7
                return super().wire()

        class Slow(Account):
            def asked(self, *_):
                clock.time += 4

        hooks = [says("a", Modify({"tool": "other"})), says("b", CONTINUE)]
        heavy = Heavy(**payloads["before_tool"].__dict__)
        outcome = await chain("before_tool", *hooks, payload=heavy, account=Slow(STAGES["before_tool"], heavy))
        begun = [hook.questions[0].deadline - 5 for hook in hooks]
        assert begun[0] == 1007
        assert begun[1] >= 1011
        assert outcome.trail[1].duration == 0

    @pytest.mark.parametrize("stage", sorted(STAGES))
    @pytest.mark.parametrize("retry", [0, 2])
    @ON_BOTH
    async def test_A9_an_answer_after_the_deadline_is_a_failure_whoever_was_late(
        self, chain, says, clock, stage, retry
    ):
        def late(question):
            clock.time = question.deadline + 0.001
            return APPROVE if STAGES[stage].approves else Modify({"meta": None}) if retry else CONTINUE

        hook = says("late", late, retry=retry, on_failure="abort")
        outcome = await chain(stage, hook, timeout=4, budget=100)
        assert (outcome.action in {"deny_tool", "abort_turn"}, outcome.approved) == (
            True,
            False if STAGES[stage].approves else None,
        )
        (entry,) = outcome.trail
        assert (entry.error, entry.failure) == ("no answer in time", "timeout")
        assert len(hook.questions) == 1 + (0 if STAGES[stage].approves else retry)

    @ON_BOTH
    async def test_A9_an_edit_after_the_deadline_is_not_made(self, chain, says, clock):
        def late(question):
            clock.time = question.deadline + 1
            return Modify({"tool": "other"})

        hooks = [says("late", late), says("next", CONTINUE)]
        outcome = await chain("before_tool", *hooks, timeout=4, budget=100)
        assert (outcome.action, outcome.payload.tool) == ("continue", hooks[1].asked[0].tool)
        assert outcome.payload.tool != "other"

    @pytest.mark.parametrize(("after", "error"), [(30, None), (41, "no answer in time")])
    @ON_BOTH
    async def test_a_hook_that_reports_progress_has_until_its_limit(self, chain, says, clock, after, error):
        def slow(_):
            clock.time += after
            return CONTINUE

        hook = says("slow", slow)
        hook.takes_bytes = True
        outcome = await chain("before_tool", hook, timeout=4, budget=100)
        assert outcome.trail[0].error == error

    async def test_ten_slow_hooks_end_within_the_budget_of_the_chain(self, chain, says, clock):
        def hangs(question):
            clock.time = question.deadline
            raise HookTimeoutError("no answer in time")

        hooks = [says(f"slow {number}", hangs) for number in range(10)]
        outcome = await chain("before_tool", *hooks, timeout=4, budget=10)
        assert clock.time == 1010
        assert [len(hook.questions) for hook in hooks] == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
        assert [entry.duration for entry in outcome.trail] == [4, 4, 2, 0, 0, 0, 0, 0, 0, 0]
        assert [entry.error for entry in outcome.trail[3:]] == [
            "the time for the whole chain was used up before it was asked"
        ] * 7
        assert outcome.action == "continue"

    async def test_slow_hooks_of_the_system_leave_half_of_the_time_to_others(self, chain, says, clock):
        def slow(question):
            clock.time = min(question.deadline, clock.time + 4)
            return CONTINUE

        def hangs(question):
            clock.time = question.limit
            raise HookTimeoutError("no answer in time")

        builtin = says("builtin", slow, layer="builtin")
        answers = [slow, hangs, CONTINUE]
        central = [says(f"central {n}", answer, layer="system", retry=9) for n, answer in enumerate(answers)]
        local = says("local", Deny("no"), layer="user")
        outcome = await chain("before_tool", builtin, *central, local, budget=20)
        assert [entry.duration for entry in outcome.trail] == [4, 4, 4, 0, 0]
        assert outcome.trail[3].error == "the time of the system's hooks was used up before it was asked"
        assert (outcome.action, outcome.hook) == ("deny_tool", "local")

    async def test_another_guard_is_asked_again_before_one_of_the_system(self, chain, says, clock):
        def second_time_slow(question):
            if question.payload.tool == "other":
                clock.time = question.deadline
            return CONTINUE

        def forbids_other(question):
            return Deny("no") if question.payload.tool == "other" else CONTINUE

        system = says("system", second_time_slow, layer="system", guard=True)
        local = says("local", forbids_other, layer="user", guard=True, on_failure="continue")
        outcome = await chain("before_tool", system, local, says("edits", Modify({"tool": "other"})), budget=5)
        assert (outcome.action, outcome.hook) == ("deny_tool", "local")

    async def test_a_guard_that_is_asked_too_late_denies(self, chain, says, clock):
        def hangs(question):
            clock.time = question.deadline
            return CONTINUE

        guard = says("guard", CONTINUE, guard=True)
        outcome = await chain("before_tool", says("slow", hangs), guard, budget=5)
        assert outcome.action == "deny_tool"
        assert guard.questions == []

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ((5, 300), (5, 50)), ((5, 30), (5, 30)), ((5, 3), (3, 3)), ((100, 10_000), (100, 600)), ((900, 10_000), (900, 900)),
            ((60, 700), (60, 600)),
        ],
    )  # fmt: skip
    @ON_BOTH
    async def test_progress_moves_a_deadline_on_to_ten_times_and_never_back(self, chain, says, given, expected):
        hook = says("a", CONTINUE)
        await chain("before_tool", hook, timeout=given[0], budget=given[1])
        (question,) = hook.questions
        assert (question.deadline - 1000, question.limit - 1000) == expected

    async def test_the_budget_does_not_run_while_a_person_is_waited_for(self, chain, says, clock):
        def thinks(_):
            clock.time += 100
            return CONTINUE

        class Person(says):
            waits_for_person = True

        person, before, behind = Person("person", thinks), says("before", CONTINUE), says("behind", CONTINUE)
        await chain("before_tool", before, person, behind, timeout=300, budget=10)
        assert [hook.questions[0].deadline - 1000 for hook in (before, person, behind)] == [10, 300, 110]

    async def test_approvers_have_only_their_own_timeouts(self, chain, says):
        hook = says("a", APPROVE)
        await chain("approve_tool", hook, timeout=60, budget=1)
        assert (hook.questions[0].deadline, hook.questions[0].limit) == (1060, 1600)


class TestRetries:
    async def test_a_failed_hook_is_asked_again_as_often_as_it_says(self, chain, says):
        hook = says("a", ValueError("1"), ValueError("2"), Deny(reason="no"), retry=2)
        outcome = await chain("before_tool", hook)
        assert (outcome.action, len(hook.questions)) == ("deny_tool", 3)
        assert (outcome.trail[0].retries, outcome.trail[0].error) == (2, None)
        assert len(outcome.trail) == 1

    async def test_and_not_more_often(self, chain, says):
        hook = says("a", ValueError("1"), ValueError("2"), CONTINUE, retry=1, on_failure="deny")
        outcome = await chain("before_tool", hook)
        assert (outcome.action, len(hook.questions), outcome.trail[0].error) == ("deny_tool", 2, "2")

    async def test_a_decision_is_not_asked_for_again(self, chain, says):
        hook = says("a", Deny(), retry=5)
        await chain("before_tool", hook)
        assert len(hook.questions) == 1

    async def test_each_try_has_its_own_deadline_within_the_budget(self, chain, says, clock):
        def hangs(question):
            clock.time = question.deadline
            raise HookTimeoutError("no answer in time")

        hook = says("a", hangs, retry=9)
        outcome = await chain("before_tool", hook, timeout=4, budget=10)
        assert [question.deadline for question in hook.questions] == [1004, 1008, 1010]
        assert (outcome.trail[0].retries, outcome.trail[0].duration) == (2, 10)

    async def test_an_approver_is_asked_once(self, chain, says):
        hook = says("a", ValueError("no"), APPROVE, retry=3)
        outcome = await chain("approve_tool", hook)
        assert (outcome.approved, len(hook.questions)) == (False, 1)


ONLY_SH = {"filter": {"tool": "sh"}}


class TestFilters:
    async def test_a_hook_that_does_not_want_a_payload_is_not_asked_and_the_trail_says_so(self, chain, says):
        hook = says("a", Deny(), **ONLY_SH)
        outcome = await chain("before_tool", hook)
        assert (outcome.action, hook.questions) == ("continue", [])
        assert [(entry.hook, entry.action, entry.skipped) for entry in outcome.trail] == [("a", "", True)]
        assert hook.metrics.stages["before_tool"].skipped == 1

    async def test_A6_a_filter_sees_the_call_as_it_is_when_the_hook_would_be_asked(self, chain, says):
        hook = says("b", Deny(reason="no sh"), **ONLY_SH)
        outcome = await chain("before_tool", says("a", Modify({"tool": "sh"})), hook)
        assert (outcome.action, outcome.reason) == ("deny_tool", "no sh")

    async def test_a_payload_that_no_filter_matches_is_not_encoded(self, chain, says):
        call = ToolCall(tool="bash", arguments={"value": {1}})
        for stage in ("before_tool", "approve_tool"):
            assert (await chain(stage, says("a", Deny(), **ONLY_SH), payload=call)).action == "continue"


class TestGuards:
    async def test_a_guard_is_asked_again_about_a_call_that_changed_after_it_saw_it(self, chain, says):
        guard = says("guard", CONTINUE, Deny(reason="not that"), guard=True)
        outcome = await chain("before_tool", guard, says("edits", adds("x")))
        assert (outcome.action, outcome.reason) == ("deny_tool", "not that")
        assert names(outcome) == ["guard", "edits", "guard"]
        assert guard.asked[1] == outcome.payload

    async def test_it_is_not_if_nothing_changed_after_it(self, chain, says):
        guard = says("guard", CONTINUE, guard=True)
        outcome = await chain("before_tool", says("edits", adds("x")), guard, says("b", Modify({"tool": "bash"})))
        assert (outcome.action, len(guard.questions)) == ("modify", 1)

    async def test_its_own_edit_is_what_it_saw(self, chain, says):
        guard = says("guard", adds("x"), guard=True)
        await chain("before_tool", guard)
        assert len(guard.questions) == 1

    async def test_one_whose_filter_matches_only_the_final_call_is_asked_about_that(self, chain, says):
        guard = says("guard", Deny(reason="no sh"), guard=True, filter={"tool": "sh"})
        outcome = await chain("before_tool", guard, says("edits", Modify({"tool": "sh"})))
        assert (outcome.action, len(guard.questions)) == ("deny_tool", 1)

    async def test_one_whose_filter_no_longer_matches_is_not(self, chain, says):
        guard = says("guard", CONTINUE, Deny(), guard=True, filter={"tool": "bash"})
        outcome = await chain("before_tool", guard, says("edits", Modify({"tool": "sh"})))
        assert (outcome.action, len(guard.questions)) == ("modify", 1)

    @pytest.mark.parametrize(
        "last", [CONTINUE, Modify(), Modify({"channel": "cli"})], ids=["continue", "modify", "an echo"]
    )
    async def test_a_guard_that_lets_it_pass_does_not_keep_the_next_from_being_asked(self, chain, says, last):
        first = says("first", CONTINUE, last, guard=True)
        second = says("second", CONTINUE, Deny(reason="not that"), guard=True)
        outcome = await chain("before_tool", first, second, says("edits", adds("x")))
        assert (outcome.action, outcome.hook) == ("deny_tool", "second")

    @pytest.mark.parametrize(
        "late", [adds("y"), lambda _: Respond({}, changes={"arguments": {}})], ids=["modify", "respond"]
    )
    async def test_one_that_changes_the_final_call_has_failed_and_a_failed_guard_denies(self, chain, says, late):
        outcome = await chain("before_tool", says("guard", CONTINUE, late, guard=True), says("edits", adds("x")))
        assert outcome.action == "deny_tool"
        assert "may no longer change" in outcome.reason
        assert "y" not in outcome.payload.arguments

    async def test_A8_a_failed_guard_denies_unless_it_is_told_otherwise(self, chain, says):
        edits = says("edits", adds("x"))
        outcome = await chain("before_tool", says("guard", CONTINUE, ValueError(), guard=True), edits)
        assert outcome.action == "deny_tool"
        guard = says("guard", CONTINUE, ValueError(), guard=True, on_failure="continue")
        assert (await chain("before_tool", guard, edits)).action == "modify"

    async def test_one_that_ends_the_chain_the_first_time_is_not_asked_again(self, chain, says):
        guard = says("guard", Deny(), guard=True)
        await chain("before_tool", guard, says("edits", adds("x")))
        assert len(guard.questions) == 1


class Stop(BaseException):
    """Nobody's failure."""


class TestCancellation:
    @ON_BOTH
    async def test_it_passes_through_and_no_other_hook_is_asked(self, chain, says):
        behind = says("behind", CONTINUE)
        with anyio.CancelScope() as scope:

            async def hangs(_):
                scope.cancel()
                await anyio.sleep_forever()

            await chain("before_tool", says("hangs", hangs, retry=3), behind)
            pytest.fail("the chain went on")
        assert scope.cancelled_caught
        assert behind.questions == []

    @ON_BOTH
    async def test_a_base_exception_passes_through(self, chain, says):
        behind = says("behind", CONTINUE)
        for stage in ("before_tool", "approve_tool"):
            with pytest.raises(Stop):
                await chain(
                    stage,
                    says("a", Stop()),
                    behind if stage == "before_tool" else says("skipped", APPROVE, filter={"tool": "x"}),
                )
        assert behind.questions == []


class TestFunctionHooks:
    """Real hooks on the real clock."""

    @pytest.fixture
    async def ask(self, chain, host_services):
        async def run(stage, function, *, timeout=5.0, **settings):
            hook = FunctionHook("function", {stage: function}, **settings)
            hook.open(host_services)
            return await chain(stage, hook, clock=host_services.reactor.now, timeout=timeout)

        return run

    async def test_a_function_decides_in_a_thread_and_an_async_one_in_the_loop(self, ask):
        async def denies(call):
            await anyio.lowlevel.checkpoint()
            return Deny(reason=call.tool)

        for function in (lambda call: Deny(reason=call.tool), denies):
            assert (await ask("before_tool", function)).reason == "bash"

    @pytest.mark.parametrize(
        ("said", "action"),
        [
            (None, "continue"), ({}, "continue"), ({"action": "deny_tool"}, "deny_tool"), (Modify({"tool": "x"}), "modify"),
            ({"call": {"tool": "x"}}, "modify"), ({"patch": {"tool": "x"}}, "modify"), (Pause(), "pause"),
            (True, "abort_turn"), ("no", "abort_turn"), ({"action": "allow"}, "abort_turn"), (APPROVE, "abort_turn"),
            (Skip(), "abort_turn"), ({"call": {"arguments": {"n": float("nan")}}}, "abort_turn"),
        ],
        ids=repr,
    )  # fmt: skip
    async def test_what_it_may_return(self, ask, said, action):
        outcome = await ask("before_tool", lambda _: said, on_failure="abort")
        assert outcome.action == action
        assert (outcome.trail[0].error is not None) is (action == "abort_turn")

    @ON_BOTH
    async def test_one_that_hangs_has_failed_at_its_deadline(self, ask):
        async def hangs(_):
            await anyio.sleep_forever()

        outcome = await ask("before_tool", hangs, timeout=0.05, on_failure="deny")
        assert (outcome.action, outcome.trail[0].error) == ("deny_tool", "no answer in time")

    async def test_what_it_raises_is_its_failure(self, ask):
        outcome = await ask("before_tool", lambda call: call.nothing, on_failure="abort")
        assert "nothing" in outcome.reason
