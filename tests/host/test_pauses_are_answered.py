"""A hook with `answers_pauses` is asked about what another paused, after all others. Without its answer, a pause stays one."""

from __future__ import annotations

import pytest
from rows import each

from picohook import Continue, Deny, FunctionHook, Host, Modify, Pause, Respond, ToolCall
from picohook.errors import HookError

pytestmark = pytest.mark.anyio
CALL = ToolCall(tool="bash")


class Person(FunctionHook):
    answers_pauses = True


def raises(_call):
    raise HookError("the person is not there")


async def outcome_of(answer, **settings):
    pauses = FunctionHook("careful", {"before_tool": lambda _: Pause("really?")}, priority=50)
    async with Host([Person("person", {"before_tool": answer}, **settings), pauses]) as host:
        return await host.before_tool(CALL)


@each(
    ("answer", "action"),
    [
        (lambda _: None, "continue"),
        (lambda _: Continue(reason="yes"), "continue"),
        (lambda _: Modify({"arguments": {"n": 1}}), "modify"),
        (lambda _: Deny("no"), "deny_tool"),
    ],
)
async def test_its_decision_takes_the_place_of_the_pause(answer, action):
    outcome = await outcome_of(answer)
    assert outcome.action == action
    assert [entry.hook for entry in outcome.trail] == ["careful", "person"]


@each(
    ("answer", "settings"),
    [
        (lambda _: None, {"filter": {"tool": "another"}}),
        (raises, {"on_failure": "continue"}),
        (lambda _: Pause("and what does another one say?"), {}),
    ],
)
async def test_a_pause_that_it_does_not_answer_stays_a_pause(answer, settings):
    outcome = await outcome_of(answer, **settings)
    assert outcome.action == "pause"
    assert "person" in [entry.hook for entry in outcome.trail]


async def test_its_failure_denies_if_that_is_its_rule():
    assert (await outcome_of(raises, on_failure="deny")).action == "deny_tool"


async def test_it_is_not_asked_where_no_hook_pauses():
    async with Host([Person("person", {"before_tool": raises}, on_failure="deny")]) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.trail) == ("continue", ())


async def test_a_guard_that_pauses_about_the_final_call_is_answered_about_that_call():
    asked = []
    guard = FunctionHook("guard", {"before_tool": lambda call: Pause("so?") if call.arguments else None}, guard=True)
    editor = FunctionHook("editor", {"before_tool": lambda _: Modify({"arguments": {"n": 2}})}, priority=200)
    person = Person("person", {"before_tool": lambda call: asked.append(call.arguments)}, on_failure="deny")
    async with Host([person, guard, editor]) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, asked) == ("modify", [{"n": 2}])
    assert [(entry.hook, entry.action) for entry in outcome.trail][2:] == [("guard", "pause"), ("person", "continue")]


@each(
    ("answer", "hooks"),
    [(lambda _: Pause("ask the boss"), ["person"]), (raises, ["careful", "later"])],
)
async def test_whoever_makes_the_call_answers_each_pause_that_stays_once(answer, hooks):
    asked = []

    def on_pause(outcome):
        asked.append(outcome.hook)
        return Continue()

    pauses = [
        FunctionHook(name, {"before_tool": lambda _: Pause("really?")}, priority=at)
        for name, at in (("careful", 50), ("later", 60))
    ]
    async with Host([*pauses, Person("person", {"before_tool": answer}, on_failure="continue")]) as host:
        decided = await host.decide(CALL, on_pause=on_pause)
    assert (decided.action, asked) == ("continue", hooks)


async def test_a_person_may_answer_for_the_tool():
    outcome = await outcome_of(lambda _: Respond({"for_llm": "done by hand"}), provides=("bash",))
    assert (outcome.action, outcome.hook, outcome.result.for_llm) == ("respond", "person", "done by hand")


async def test_an_answer_is_for_the_call_as_it_was_then():
    asked = []

    def answer(call):
        asked.append(call.arguments)
        if call.arguments:
            raise HookError("the person is gone")

    hooks = [
        FunctionHook("careful", {"before_tool": lambda _: Pause("really?")}, priority=50),
        FunctionHook("runs", {"before_tool": lambda _: Modify({"arguments": {"n": 2}})}, provides=("bash",)),
        Person("person", {"before_tool": answer}, on_failure="continue"),
    ]
    async with Host(hooks) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.hook, asked) == ("pause", "careful", [{}, {"n": 2}])


async def test_a_guard_that_asks_a_person_is_asked_again_about_a_changed_call_and_its_time_is_its_own():
    class Slow(FunctionHook):
        waits_for_person = True

    seen = []
    guard = Slow("guard", {"before_tool": lambda call: seen.append(call.arguments)}, guard=True, priority=10)
    editor = FunctionHook("editor", {"before_tool": lambda _: Modify({"arguments": {"n": 2}})}, priority=20)
    async with Host([guard, editor]) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, seen) == ("modify", [{}, {"n": 2}])
