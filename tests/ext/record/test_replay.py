"""A replay asks again what was recorded, in its order, and finds the differences."""

from __future__ import annotations

import io
from collections import Counter

import anyio
import pytest

from picohook import (
    Continue,
    Deny,
    FunctionHook,
    Host,
    Modify,
    Notes,
    Pause,
    Recorder,
    Respond,
    Resumed,
    Retry,
    ToolCall,
)
from picohook.ext.record.reader import Record
from picohook.ext.record.replay import compared
from picohook.testing import hook_process

pytestmark = pytest.mark.anyio

# Each decides by what it has seen before: in another order, or without an event, it would decide otherwise.
COUNTS = """
asked, told = 0, 0

def event(params):
    global told
    told += 1

def before_tool(params):
    global asked
    asked += 1
    if asked % 7 == 0:
        return {"action": "deny_tool", "reason": f"after {asked} calls and {told} events"}
    return {}

def after_tool(params):
    return {"action": "modify", "result": {"for_llm": params["result"]["for_llm"] + f", after {told} events"}}
"""
REWRITES = """
def before_tool(params):
    n = params["arguments"]["n"]
    if n % 3 == 0:
        return {"action": "modify", "patch": {"arguments": {"n": n * 2**64}}}
    return {"system_message": f"saw {n}"} if n % 5 == 0 else {}
"""
APPROVES = """
def approve_tool(params):
    return {"approved": params["arguments"]["n"] % 11 != 0, "reason": "a multiple of 11"}
"""


def processes(**sources):
    # Told of turn_end alone, after which the tests wait: an event that nobody waits for may be overtaken by a question.
    settings = {"counts": {"observe": ("turn_end",)}}
    return [
        hook_process(source, name=name, priority=place, **settings.get(name, {}))
        for place, (name, source) in enumerate(sources.items())
    ]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "session.jsonl"


def record(path):
    return Record(io.BytesIO(path.read_bytes()), path.name)


async def replayed(path, hooks):
    """Every chain, asked of these hooks."""
    counts = Counter()
    async with Host(hooks) as host:
        return [one async for one in compared(record(path), host, counts)], counts


def changed(found):
    return [one for one in found if one.changed]


async def test_a_replay_of_many_calls_decides_the_same(path):
    sources = {"counts": COUNTS, "rewrites": REWRITES, "approves": APPROVES}
    denied = 0

    async def call(host, n):
        nonlocal denied
        call = {"tool": "count", "arguments": {"n": n}}
        if n % 4:
            await host.before_tool(call)
        else:
            result = await host.run_tool(call, lambda call: "done")
            denied += result.is_error

    async with Host(processes(**sources), listeners=[Recorder(path)]) as host:
        for n in range(0, 280, 4):
            async with anyio.create_task_group() as tasks:
                for one in range(n, n + 4):
                    tasks.start_soon(call, host, one)
            await host.emit_and_wait("turn_end", {"Status": "completed"})

    chains, again = await replayed(path, processes(**sources))
    ended = Counter(one.then.stage.name for one in chains)
    assert ended["before_tool"] == 280
    assert ended["after_tool"] == 70 - denied
    assert Counter(one.recorded["action"] for one in chains)["deny_tool"] == 280 // 7
    assert (changed(chains), again["not compared"]) == ([], 0)


async def test_a_hook_sees_its_questions_and_events_in_the_order_of_the_record(path):
    async with Host(processes(counts=COUNTS), listeners=[Recorder(path)]) as host:
        for n in range(20):
            await host.before_tool({"tool": "count"})
            if n % 2:
                await host.emit_and_wait("turn_end")

    answers, _ = await replayed(path, processes(counts=COUNTS))
    assert [one.recorded.get("reason") for one in answers[6::7]] == [
        "after 7 calls and 3 events",
        "after 14 calls and 6 events",
    ]
    assert changed(answers) == []

    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"type":"event"' not in line))
    answers, _ = await replayed(path, processes(counts=COUNTS))
    assert [one.replayed["reason"] for one in changed(answers)] == [
        "after 7 calls and 0 events",
        "after 14 calls and 0 events",
    ]


async def test_exactly_the_decisions_of_a_changed_policy_are_found(path):
    async with Host(processes(rewrites=REWRITES, approves=APPROVES), listeners=[Recorder(path)]) as host:
        for n in range(30):
            await host.run_tool({"tool": "count", "arguments": {"n": n}}, lambda call: "done")

    other = REWRITES.replace("n % 3", "n % 6")
    found, _ = await replayed(path, processes(rewrites=other, approves=APPROVES))
    found = changed(found)
    assert [one.then.asked_about["arguments"]["n"] for one in found] == [3, 9, 15, 21, 27]
    assert [[*one.changed] for one in found] == [["action", "payload"]] * 2 + [["action", "notes", "payload"]] + [
        ["action", "payload"]
    ] * 2
    assert found[0].changed["payload"] == (
        {"channel": "", "chat_id": "", "tool": "count", "arguments": {"n": 3 * 2**64}},
        {"channel": "", "chat_id": "", "tool": "count", "arguments": {"n": 3}},
    )
    assert [(answer["hook"], answer["action"]) for answer in found[0].now.answers] == [("rewrites", "continue")]


async def replay_one(path, before, after, *, stage="before_tool", payload=None, **settings):
    """The differences of the one decision when a hook answers otherwise."""
    payload = payload or {"tool": "bash", "arguments": {"a": 1}}
    async with Host([FunctionHook("h", {stage: before}, **settings)], listeners=[Recorder(path)]) as host:
        await host.ask(stage, payload)
    (one,), _ = await replayed(path, [FunctionHook("h", {stage: after}, **settings)])
    return one.changed


def fail(call):
    raise RuntimeError("no")


CASES = {
    "another reason": ({"action": "deny_tool", "reason": "a"}, {"action": "deny_tool", "reason": "b"}, {"reason"}),
    "another action": ({"action": "abort_turn"}, {"action": "deny_tool"}, {"action"}),
    "another payload": (
        {"action": "modify", "call": {"tool": "a"}},
        {"action": "modify", "call": {"tool": "b"}},
        {"payload"},
    ),
    "true for 1": (
        {"action": "modify", "call": {"arguments": {"b": 1}}},
        {"action": "modify", "call": {"arguments": {"b": True}}},
        {"payload"},
    ),
    "an integer that only looks the same as a float": (
        {"action": "modify", "call": {"arguments": {"b": 2**63 + 1}}},
        {"action": "modify", "call": {"arguments": {"b": float(2**63)}}},
        {"payload"},
    ),
    "another result": (
        {"action": "respond", "result": {"for_llm": "a"}},
        {"action": "respond", "result": {"for_llm": "b"}},
        {"result"},
    ),
    "other notes": ({"system_message": "a"}, {"system_message": "b"}, {"notes"}),
    "a failure that changes nothing": ({}, fail, {"failed"}),
    "a failure of another kind": (fail, {"action": "nonsense"}, {"failed"}),
    "the same said in another way": (
        {"action": "modify", "call": {"tool": "bash", "arguments": {"a": 2}}},
        {"action": "continue", "patch": {"arguments": {"a": 2}}},
        set(),
    ),
    "an edit that edits nothing": ({}, {"action": "modify", "call": {"tool": "bash"}}, set()),
    "a failure told in other words": (fail, lambda call: 1 / 0, set()),
}


@pytest.mark.parametrize("case", CASES)
async def test_decisions_differ_by_their_effect_and_not_by_their_form(path, case):
    before, after, expected = CASES[case]
    answers = [answer if callable(answer) else lambda call, answer=answer: answer for answer in (before, after)]
    assert (await replay_one(path, *answers)).keys() == expected


async def test_feedback_and_approval_are_compared(path):
    differing = await replay_one(
        path, lambda request: Retry("a"), lambda request: Retry("b"), stage="before_llm", payload={"model": "m"}
    )
    assert differing == {"feedback": ("a", "b")}
    differing = await replay_one(path, lambda call: True, lambda call: False, stage="approve_tool")
    assert differing == {"action": ("approved", "denied")}


async def test_failures_are_compared_by_their_kind_and_not_by_their_text(path):
    assert await replay_one(path, fail, lambda call: 1 / 0, on_failure="deny") == {}
    assert (await replay_one(path, fail, lambda call: {}, on_failure="deny")).keys() == {"action", "failed"}


async def test_only_recorded_questions_are_asked_again(path):
    """A hook that answers for another's tool needs an approval. That was a question of its own, and is one again."""
    asked = []

    def approve(call):
        asked.append(call.tool)
        return True

    def hooks():
        answers = FunctionHook("answers", {"before_tool": lambda call: Respond({"for_llm": "42"})})
        return [answers, FunctionHook("approves", {"approve_tool": approve})]

    async with Host(hooks(), listeners=[Recorder(path)]) as host:
        await host.before_tool(ToolCall(tool="bash"))
    found, _ = await replayed(path, hooks())
    assert [one.then.stage.name for one in found] == ["before_tool", "approve_tool"]
    assert (changed(found), asked) == ([], ["bash", "bash"])


@pytest.mark.parametrize("answer", [Continue(), Deny("the user said no")])
async def test_a_pause_that_a_person_answered_then_and_nobody_answers_now_is_no_change(path, answer):
    class Person(FunctionHook):
        answers_pauses = True

    pauses = [FunctionHook("careful", {"before_tool": lambda _: Pause("really?")})]
    person = Person("person", {"before_tool": lambda _: answer})
    async with Host([*pauses, person], listeners=[Recorder(path)]) as host:
        assert (await host.before_tool({"tool": "count"})).action == answer.action
    (chain,), _ = await replayed(path, pauses)
    assert (chain.recorded["action"], chain.changed) == (answer.action, {})


async def test_a_chain_that_was_resumed_after_a_pause_is_not_asked_again_and_is_counted(path):
    asked = []
    hooks = [FunctionHook(name, {"before_tool": lambda call: asked.append(call.tool)}) for name in "abc"]
    said = "b", Modify({"tool": "sh"}, reason="asked somebody", notes=Notes(inject_messages=({"role": "user"},)))
    async with Host(hooks, listeners=[Recorder(path)]) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"), resumed=Resumed(*said, skip={"a"}))
    found, again = await replayed(path, hooks)
    assert (outcome.payload.tool, asked) == ("sh", ["sh"])
    assert (found, again["not compared"]) == ([], 1)


async def test_a_question_without_an_answer_is_asked_and_counted_and_not_compared(path):
    asked = anyio.Event()

    async def never(call):
        asked.set()
        await anyio.sleep_forever()

    slow = FunctionHook("h", {"before_tool": never})
    async with Host([slow], listeners=[Recorder(path)]) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.before_tool, ToolCall(tool="bash"))
        await asked.wait()
        tasks.cancel_scope.cancel()

    seen = []
    found, again = await replayed(path, [FunctionHook("h", {"before_tool": seen.append})])
    assert (found, again["not compared"], [call.tool for call in seen]) == ([], 1, ["bash"])
