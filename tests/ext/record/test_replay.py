"""A replay asks again what was recorded, in its order, and finds the differences."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter

import anyio
import pytest

from picohook import Continue, FunctionHook, Host, Modify, Notes, Recorder, Respond, Resumed, Retry, ToolCall
from picohook.ext.record.facts import same
from picohook.ext.record.reader import Record
from picohook.ext.record.replay import Replay, choose_hook, questions, questions_to, recorded_hooks
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
    again = Replay()
    async with Host(hooks) as host:
        return [one async for one in again.compared(questions(record(path)), host)], again


async def replayed_alone(path, name, command):
    """Every question of one hook, asked of a command."""
    spec = recorded_hooks(record(path))[name].stand_in(name, command)
    again = Replay(name)
    async with Host([spec]) as host:
        return [one async for one in again.compared(questions_to(name, record(path)), host)], again


def changed(compared):
    return [one for one in compared if list(one.differences())]


async def test_a_replay_of_many_calls_decides_the_same_for_whole_chains_and_for_one_hook(path):
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
    assert (changed(chains), again.unanswered) == ([], 0)

    (hook,) = processes(counts=COUNTS)
    answers, again = await replayed_alone(path, "counts", hook.command)
    assert (changed(answers), again.unanswered) == ([], 0)
    assert len(answers) == 280 + 70 - denied


async def test_a_hook_alone_sees_its_questions_and_events_in_the_order_of_the_record(path):
    async with Host(processes(counts=COUNTS), listeners=[Recorder(path)]) as host:
        for n in range(20):
            await host.before_tool({"tool": "count"})
            if n % 2:
                await host.emit_and_wait("turn_end")

    (hook,) = processes(counts=COUNTS)
    answers, _ = await replayed_alone(path, "counts", hook.command)
    assert [one.recorded.get("reason") for one in answers[6::7]] == [
        "after 7 calls and 3 events",
        "after 14 calls and 6 events",
    ]
    assert changed(answers) == []

    without_events = path.read_text().replace('"hooks":["counts"]', '"hooks":[]')
    path.write_text(without_events)
    answers, _ = await replayed_alone(path, "counts", hook.command)
    assert [one.replayed["reason"] for one in changed(answers)] == [
        "after 7 calls and 0 events",
        "after 14 calls and 0 events",
    ]


async def test_exactly_the_decisions_of_a_changed_policy_are_found(path):
    async with Host(processes(rewrites=REWRITES, approves=APPROVES), listeners=[Recorder(path)]) as host:
        for n in range(30):
            await host.run_tool({"tool": "count", "arguments": {"n": n}}, lambda call: "done")

    other = REWRITES.replace("n % 3", "n % 6")
    compared, _ = await replayed(path, processes(rewrites=other, approves=APPROVES))
    found = changed(compared)
    assert [one.then.asked_about["arguments"]["n"] for one in found] == [3, 9, 15, 21, 27]
    assert [list(one.differences()) for one in found] == [["action", "payload"]] * 2 + [
        ["action", "notes", "payload"]
    ] + [["action", "payload"]] * 2
    assert found[0].values("payload") == (
        {"channel": "", "chat_id": "", "tool": "count", "arguments": {"n": 3 * 2**64}},
        {"channel": "", "chat_id": "", "tool": "count", "arguments": {"n": 3}},
    )
    assert [(entry.hook, entry.action) for entry in found[0].now.trail] == [("rewrites", "continue")]


async def replay_one(path, before, after, *, stage="before_tool", payload=None, **settings):
    """The differences of the one decision when a hook answers otherwise."""
    payload = payload or {"tool": "bash", "arguments": {"a": 1}}
    async with Host([FunctionHook("h", {stage: before}, **settings)], listeners=[Recorder(path)]) as host:
        await host.ask(stage, payload)
    (one,), _ = await replayed(path, [FunctionHook("h", {stage: after}, **settings)])
    return {fact: (one.recorded.get(fact), one.replayed.get(fact)) for fact in one.differences()}


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
    compared, _ = await replayed(path, hooks())
    assert [one.then.stage.name for one in compared] == ["before_tool", "approve_tool"]
    assert (changed(compared), asked) == ([], ["bash", "bash"])


async def test_a_chain_that_was_resumed_after_a_pause_is_resumed_again(path):
    def hooks(asked):
        def note(name):
            return lambda call: asked.append((name, call.tool)) or Continue()

        return [FunctionHook(name, {"before_tool": note(name)}, priority=place) for place, name in enumerate("abc")]

    recorded, again = [], []
    said = "b", Modify({"tool": "sh"}, reason="asked somebody", notes=Notes(inject_messages=({"role": "user"},)))
    async with Host(hooks(recorded), listeners=[Recorder(path)]) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"), resumed=Resumed(*said, skip={"a"}))
    compared, _ = await replayed(path, hooks(again))
    assert (outcome.payload.tool, recorded) == ("sh", [("c", "sh")])
    assert (changed(compared), len(compared), again) == ([], 1, recorded)


async def test_a_guard_that_is_asked_again_may_not_change_the_call_in_a_replay(path):
    """The second time it may not change the call, whichever program answers for it."""
    guard = FunctionHook("guard", {"before_tool": lambda call: Continue()}, guard=True, priority=1)
    later = FunctionHook("later", {"before_tool": lambda call: Modify({"tool": "sh"})}, priority=2)
    async with Host([guard, later], listeners=[Recorder(path)]) as host:
        await host.before_tool(ToolCall(tool="bash"))
    (hook,) = processes(guard='def before_tool(params):\n    return {"action": "modify", "call": {"tool": "other"}}')
    answers, _ = await replayed_alone(path, "guard", hook.command)
    assert [one.then.asked_about["tool"] for one in answers] == ["bash", "sh"]
    assert [one.replayed["action"] for one in answers] == ["modify", "failed"]


async def test_a_guard_that_decided_before_a_pause_may_not_change_the_call_in_a_replay(path):
    guard = FunctionHook("guard", {"before_tool": lambda call: Continue()}, guard=True, priority=1)
    async with Host([guard], listeners=[Recorder(path)]) as host:
        said = ("boss", Modify({"tool": "changed"}))
        await host.before_tool(ToolCall(tool="bash"), resumed=Resumed(*said, skip={"guard"}))
    (hook,) = processes(guard='def before_tool(params):\n    return {"action": "modify", "call": {"tool": "other"}}')
    answers, _ = await replayed_alone(path, "guard", hook.command)
    assert [one.replayed["action"] for one in answers] == ["failed"]


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
    compared, again = await replayed(path, [FunctionHook("h", {"before_tool": seen.append})])
    assert (compared, again.unanswered, [call.tool for call in seen]) == ([], 1, ["bash"])

    (hook,) = processes(h="def before_tool(params):\n    return {}")
    compared, again = await replayed_alone(path, "h", hook.command)
    assert (compared, again.unanswered) == ([], 1)


async def test_each_retry_of_a_question_is_asked_again(path):
    def fail_once(call, tries=[]):  # noqa: B006
        tries.append(call)
        if len(tries) == 1:
            raise RuntimeError("no")

    hook = FunctionHook("h", {"before_tool": fail_once}, retry=1)
    async with Host([hook], listeners=[Recorder(path)]) as host:
        await host.before_tool(ToolCall(tool="bash"))
    (counts,) = processes(h=COUNTS.replace("% 7", "% 2"))
    (one,), _ = await replayed_alone(path, "h", counts.command)
    assert one.replayed["reason"] == "after 2 calls and 0 events"


async def test_a_program_answers_in_place_of_a_hook_with_its_recorded_settings(path):
    """The program gets the hook's permissions and timeouts, and runs in its own directory."""
    settings = {"may_edit": ("messages",), "respond": "forbid", "timeout": 7.0, "observe": ("agent.turn.end",)}
    hook = FunctionHook("h", {"before_llm": lambda request: Continue()}, **settings)
    async with Host([hook], listeners=[Recorder(path)]) as host:
        await host.before_llm({"model": "m"})
        host.emit("turn_end")
    spec = recorded_hooks(record(path))["h"].stand_in("h", [sys.executable, "x.py"])
    assert (spec.command, spec.may_edit, spec.respond, spec.timeout) == (
        (sys.executable, "x.py"),
        ("messages",),
        "forbid",
        7.0,
    )
    assert (spec.stages, spec.observe, spec.events) == (("before_llm",), ("*",), "runtime")
    assert (spec.inherit_env, spec.required) == (True, True)


async def test_a_hook_need_not_know_the_stages_that_picoclaws_configuration_gave_it(path, tmp_path):
    source = tmp_path / "hook.py"
    source.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    known = request['method'] in {'hook.hello', 'hook.before_tool'}\n"
        "    said = {'result': {}} if known else {'error': {'code': -32601, 'message': 'no'}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], **said}), flush=True)\n"
    )
    command = [sys.executable, str(source)]
    config = tmp_path / "config.json"
    hook = {"enabled": True, "transport": "stdio", "command": command, "intercept": ["before_tool"]}
    config.write_text(json.dumps({"hooks": {"enabled": True, "processes": {"old": hook}}}))
    async with Host.from_config(config, listeners=[Recorder(path)]) as host:
        await host.after_tool({"tool": "bash", "result": {}})
    (one,), _ = await replayed_alone(path, "old", command)
    assert (one.then.stage.name, one.recorded, one.replayed) == (
        "after_tool",
        {"action": "continue"},
        {"action": "continue"},
    )


def test_the_chosen_hook_is_the_named_one_or_the_only_one():
    lines = [
        {"type": "record", "version": 1, "time": "", "picohook": ""},
        {"type": "event", "at": 0.0, "event": "turn_end", "payload": {}, "hooks": ["audit"]},
        {"type": "begin", "at": 0.0, "chain": 1, "stage": "before_tool", "params": {"tool": "t"}},
        {"type": "ask", "at": 0.0, "chain": 1, "hook": "guard"},
    ]
    hooks = recorded_hooks(Record(io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines)), "r"))
    assert choose_hook(hooks, None) == choose_hook(hooks, "guard") == "guard"
    with pytest.raises(Exception, match=r"no hook 'audit' was asked in this record \(there are: guard\)"):
        choose_hook(hooks, "audit")


def test_values_are_compared_as_json():
    assert same({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})
    assert not same({"a": 1}, {"a": 1, "b": None})
    assert not same([1], [1, 2])
    assert not same([True], [1])
    assert not same(0, False)
    assert not same(None, 0)
