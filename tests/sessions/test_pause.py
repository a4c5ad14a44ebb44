"""A turn that a hook pauses, and that goes on: here, later, or in another process."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import preloaded
import pytest
from rows import each
from turns import KEY, Model, Tools, calls, host_with, kinds, office, payloads, says, told, wants

from picohook import (
    AbortTurn,
    AbortTurnError,
    Approve,
    Continue,
    Deny,
    HardAbort,
    HardAbortError,
    LLMRequest,
    Modify,
    Notes,
    Pause,
    PausedError,
    PicohookError,
    Respond,
    Resumed,
    Retry,
    RetryLimitError,
    Skip,
)
from picohook.sessions.paused import PausedTurn
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio


def unless(*tools, decision=None):
    """Pauses, unless it is one of these tools."""
    return lambda call: None if call.tool in tools else (decision or Pause(f"may it {call.tool}?"))


async def pause(session, *tools, message="hello", **settings):
    """Run a turn up to the pause that has to come."""
    with pytest.raises(PausedError) as raised:
        async with session.turn(message) as turn:
            await turn.run(complete=Model(wants(*tools)).complete, execute=Tools().execute, **settings)
    assert raised.value.paused is turn.paused is not None
    return raised.value.paused


async def go_on(session, paused, decision, tools=None, model=None):
    async with session.resume(paused, decision) as turn:
        return await turn.run(complete=(model or Model(says("done"))).complete, execute=(tools or Tools()).execute)


def through_text(paused, key=None):
    return PausedTurn.from_json(paused.to_json(key), key)


# In another process.


async def elsewhere(**orders):
    done = await anyio.run_process(
        [preloaded.program("python"), str(Path(__file__).with_name("resume_elsewhere.py"))],
        input=json.dumps(orders).encode(),
        stderr=None,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("sealed", "strict"), [(True, True), (False, False)], ids=["sealed-strict", "neither"])
async def test_a_turn_is_resumed_in_another_process_with_the_decisions_that_were_taken(sealed, strict, tmp_path):
    log = tmp_path / "asked"
    async with host_with(*office(str(log))) as host, host.session("s1") as session:
        paused = await pause(session, "read", "write", message="do it")
    assert log.read_text().split("\n")[:-1] == [
        *(f"{name} read" for name in ("early", "boss", "late", "gate")),
        "early write",
        "boss write",
    ]
    log.write_text("")
    text = paused.to_json(KEY if sealed else None)
    done = await elsewhere(paused=text, log=str(log), sealed=sealed, strict=strict, at="before_tool")

    gate, early = not sealed, strict
    asked = [
        ("early read", early),
        ("gate read", gate),
        ("early write", early),
        ("late write", True),
        ("gate write", True),
    ]
    assert log.read_text().split("\n")[:-1] == [line for line, expected in asked if expected]
    assert done["ran"] == ["read", "write"]
    assert done["told"] == [["c0", "did read"], ["c1", "did write"]]
    assert (done["content"], done["iterations"], done["turn_id"]) == ("done", 2, paused.meta.turn_id)
    times = 4 + 2 * strict
    assert done["system_prompts"][0].count("was here") == times
    assert [kind for kind in kinds(host) if kind.startswith("t")] == ["turn_start"]
    assert [kind for kind in done["events"] if kind.startswith("turn")] == ["turn_end"]


async def test_so_is_a_turn_that_paused_at_its_end(tmp_path):
    log = tmp_path / "asked"
    async with host_with(*office(str(log), at="before_finish")) as host, host.session("s1") as session:
        with pytest.raises(PausedError) as raised:
            async with session.turn("do it") as turn:
                await turn.run(complete=Model(says("bye")).complete, execute=Tools().execute)
    assert log.read_text().split() == ["early", "boss"]
    text = raised.value.paused.to_json()
    for strict, expected in ((False, ["late"]), (True, ["early", "late"])):
        log.write_text("")
        done = await elsewhere(paused=text, log=str(log), sealed=False, strict=strict, at="before_finish")
        assert log.read_text().split() == expected
        assert (done["content"], done["ran"], done["system_prompts"]) == ("bye", [], [])


# What the answer does.


ANSWERS = [
    (Continue(), "did rm"),
    (Modify({"arguments": {"path": "/tmp"}}), "rm {'path': '/tmp'}"),
    (Modify(patch={"arguments": {"n": None, "path": "/tmp"}}), "rm {'path': '/tmp'}"),
    (Deny("rather not"), "Tool execution denied by hook: rather not"),
    (Respond({"for_llm": "pretend"}), "pretend"),
]


@pytest.mark.parametrize(("decision", "expected"), ANSWERS, ids=range(len(ANSWERS)))
async def test_the_answer_stands_for_the_decision_of_the_hook_that_paused(decision, expected):
    hook = FakeHook("h", {"before_tool": Pause("may it?")}, provides=["rm"])
    tools = Tools(rm=lambda call: f"rm {call.arguments}" if "path" in call.arguments else "did rm")
    async with host_with(hook) as host, host.session("s1") as session:
        result = await go_on(session, await pause(session, "rm"), decision, tools)
    assert told(result.messages) == [("c0", expected)]
    assert len(hook.asked) == 1
    assert result.content == "done"


@pytest.mark.parametrize(
    ("decision", "error"), [(AbortTurn("stop"), AbortTurnError), (HardAbort("stop"), HardAbortError)]
)
async def test_the_answer_can_be_the_end_of_the_turn(decision, error):
    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host, host.session("s1") as session:
        with pytest.raises(error, match="stop"):
            await go_on(session, await pause(session, "rm"), decision)
    assert told(session.messages) == [("c0", "Tool execution skipped: stop")]


@pytest.mark.parametrize("decision", [Approve(), Pause(), Skip(), Retry("again")])
async def test_a_wrong_answer_is_refused_at_once_and_the_turn_can_still_be_resumed(decision):
    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host, host.session("s1") as session:
        paused = await pause(session, "rm")
        with pytest.raises(
            PicohookError, match=f"{type(decision).__name__} is not a valid answer for a hook that paused at"
        ):
            session.resume(paused, decision)
        assert (await go_on(session, paused, Continue())).content == "done"


@pytest.mark.parametrize("decision", [Pause(), Skip(), Retry("again")])
async def test_a_stage_that_is_asked_alone_refuses_a_wrong_answer_before_any_hook_is_asked(decision):
    paused, other = FakeHook("h", {"before_tool": Pause()}), FakeHook("other", {"before_tool": None})
    async with host_with(paused, other) as host:
        with pytest.raises(
            PicohookError, match=f"{type(decision).__name__} is not a valid answer for a hook that paused at"
        ):
            await host.before_tool(*calls("rm"), resumed=Resumed("h", decision))
    assert (paused.asked, other.asked) == ([], [])


@pytest.mark.parametrize("stage", ["before_tool", "before_finish"])
async def test_an_answer_that_cannot_be_taken_is_the_embedders_mistake_and_never_a_yes(stage):
    wrong = Modify({"arguments": "all of them"} if stage == "before_tool" else {"messages": "none"})
    tools = Tools()
    async with host_with(FakeHook("h", {stage: Pause()}, on_failure="continue")) as host, host.session("s1") as session:
        paused = await pause(session, *["rm"] * (stage == "before_tool"))
        with pytest.raises(PicohookError, match="the answer for hook h cannot be taken: "):
            await go_on(session, paused, wrong, tools)
        assert tools.ran == []
        with pytest.raises(PicohookError, match="the pause was used before"):
            await go_on(session, paused, Continue(), tools)
    assert tools.ran == []


async def test_an_answer_for_a_hook_that_is_gone_still_counts():
    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host, host.session("s1") as session:
        paused = await pause(session, "rm")
        await host.unmount("h")
        result = await go_on(session, paused, Deny("no"))
    assert told(result.messages) == [("c0", "Tool execution denied by hook: no")]


async def test_a_pause_at_the_end_can_be_answered_with_another_round():
    hook = FakeHook("h", {"before_finish": [Pause("really?"), None]})
    model = Model(says("better"))
    async with host_with(hook) as host, host.session("s1") as session:
        result = await go_on(session, await pause(session), Retry("do better"), model=model)
    assert result.content == "better"
    assert model.requests[0].messages[-1] == {"role": "user", "content": "do better"}


# What is kept.


async def test_a_hook_whose_filter_did_not_match_is_asked_about_a_call_that_the_answer_makes_match():
    gate = FakeHook("gate", {"before_tool": Deny("no rm")}, filter={"tool": "rm"}, priority=1)
    boss, tools = FakeHook("boss", {"before_tool": Pause()}, priority=2), Tools()
    async with host_with(gate, boss) as host, host.session("s1") as session:
        paused = through_text(await pause(session, "ls"), KEY)
        result = await go_on(session, paused, Modify({"tool": "rm"}), tools)
    assert told(result.messages) == [("c0", "Tool execution denied by hook: no rm")]
    assert tools.ran == []


async def test_earlier_decisions_are_kept_and_the_later_hooks_are_asked():
    early = FakeHook("early", {"before_tool": Modify({"arguments": {"by": "early"}})}, priority=1)
    boss = FakeHook("boss", {"before_tool": unless("a")}, priority=2)
    late = FakeHook("late", {"before_tool": None}, priority=3)
    ran = []
    async with host_with(early, boss, late) as host, host.session("s1") as session:
        paused = through_text(await pause(session, "a", "b", "c"), KEY)
        with pytest.raises(PausedError) as raised:
            await go_on(session, paused, Continue())
        paused_again = raised.value.paused
        assert (paused_again.hook, paused_again.at, paused_again.reason) == ("boss", 2, "may it c?")
        async with session.resume(paused_again, Continue()) as turn:
            await turn.run(complete=Model(says("done")).complete, execute=ran.append)
    for hook in (early, boss, late):
        assert [call.tool for call in hook.asked_at("before_tool")] == ["a", "b", "c"]
    assert sorted((call.tool, call.arguments) for call in ran) == [(tool, {"by": "early"}) for tool in "abc"]


async def test_calls_that_were_settled_before_the_pause_stay_so():
    hook = FakeHook("h", {"before_tool": lambda call: {"a": Deny("not this")}.get(call.tool, Pause())})
    tools = Tools()
    async with host_with(hook) as host, host.session("s1") as session:
        result = await go_on(session, through_text(await pause(session, "a", "b")), Continue(), tools)
    assert told(result.messages) == [("c0", "Tool execution denied by hook: not this"), ("c1", "did b")]
    assert tools.ran == ["b"]


async def test_a_hook_that_changed_since_or_is_new_is_asked():
    async with (
        host_with(
            FakeHook("same", {"before_tool": None}), FakeHook("boss", {"before_tool": unless("a")}, priority=200)
        ) as host,
        host.session("s1") as session,
    ):
        paused = await pause(session, "a", "b")
    same = FakeHook("same", {"before_tool": None})
    boss = FakeHook("boss", {"before_tool": unless("a")}, priority=200)
    new = FakeHook("new", {"before_tool": None})
    changed = FakeHook("same", {"before_tool": Deny("not any more")}, timeout=7)
    for hooks, asked in (([same, boss], []), ([same, boss, new], ["a", "b"]), ([changed, boss], ["a", "b"])):
        async with host_with(*hooks) as host, host.session("s1") as session:
            result = await go_on(session, paused, Continue())
        assert [call.tool for call in hooks[-1].asked_at("before_tool") if hooks[-1] is new] == (
            asked if hooks[-1] is new else []
        )
        denied = [text for _, text in told(result.messages) if "not any more" in text]
        assert len(denied) == (2 if changed in hooks else 0)
    assert same.asked == boss.asked == []


async def test_an_answer_that_was_not_used_before_another_pause_is_asked_for_again():
    boss = FakeHook("boss", {"before_tool": unless("a")})
    async with host_with(boss) as host, host.session("s1") as session:
        paused = await pause(session, "a", "b")
        assert (paused.hook, paused.at) == ("boss", 1)
        await host.mount(FakeHook("new", {"before_tool": unless("b")}))
        tools = Tools()
        for expected in (("new", 0), ("boss", 1)):
            with pytest.raises(PausedError) as raised:
                await go_on(session, paused, Continue(), tools)
            paused = through_text(raised.value.paused, KEY)
            assert (paused.hook, paused.at) == expected
        assert tools.ran == []
        await go_on(session, paused, Deny("no"), tools)
    assert tools.ran == ["a"]


@pytest.mark.parametrize("stage", ["before_tool", "before_finish"])
async def test_each_of_two_hooks_that_pause_is_answered_for(stage):
    hooks = [FakeHook(name, {stage: Pause()}) for name in ("one", "two")]
    async with host_with(*hooks) as host, host.session("s1") as session:
        paused = through_text(await pause(session, *["rm"] * (stage == "before_tool")))
        with pytest.raises(PausedError) as raised:
            await go_on(session, paused, Continue())
        assert (paused.hook, raised.value.paused.hook) == ("one", "two")
        await go_on(session, through_text(raised.value.paused), Continue())
    assert [len(hook.asked) for hook in hooks] == [1, 1]


async def test_the_conversation_the_annotations_and_the_rounds_are_kept():
    hook = FakeHook(
        "h",
        {
            "before_prompt": Continue(notes=Notes("", "context p")),
            "before_llm": [Retry("again"), *[None] * 5],
            "before_tool": Pause("may it?", notes=Notes("shown", "context t", ({"role": "user", "content": "in"},))),
            "before_finish": Retry("more"),
        },
    )
    model, shown = Model(*[says("hm")] * 5), []
    async with host_with(hook) as host, host.session("s1", show=shown.append) as session:
        first = Model(lambda request: wants("rm"))
        with pytest.raises(PausedError) as raised:
            async with session.turn("hello", turn_id="t1") as turn:
                await turn.run(complete=first.complete, execute=Tools().execute)
        paused = through_text(raised.value.paused)
        with pytest.raises(RetryLimitError):
            await go_on(session, paused, Continue(), model=model)
    assert first.requests[0].system_prompt == "context p"
    assert [message["content"] for message in first.requests[0].messages] == ["hello", "again"]
    assert model.requests[0].system_prompt == "context t"
    assert [message["content"] for message in model.requests[0].messages] == ["hello", "", "did rm", "in"]
    assert len(model.requests) == 3  # one round was used before
    assert shown == ["shown"]
    assert model.requests[0].meta.turn_id == "t1"
    assert model.requests[0].meta.iteration == 2


async def test_messages_that_arrived_meanwhile_are_kept_too():
    def before(call):
        turn.steer("by the way")
        return Pause()

    hook = FakeHook("h", {"before_tool": before})
    async with host_with(hook) as host, host.session("s1") as session:
        async with session.turn("hello") as turn:
            async with session.turn("look", parent=turn) as sub:
                await sub.llm(LLMRequest(), Model(says("found")).complete)
            with pytest.raises(PausedError):
                await turn.tools(calls("a", "b"), Tools().execute)
        assert not turn.steer("too late")
        paused = through_text(turn.paused)
        model, tools = Model(says("done")), Tools()
        result = await go_on(session, paused, Continue(), tools, model)
    assert tools.ran == []
    assert [message["content"] for message in model.requests[0].messages[-2:]] == ["by the way", "found"]
    assert result.content == "done"
    assert "subturn_orphan" not in kinds(host)


async def test_messages_that_arrive_with_a_pause_do_not_change_settled_calls():
    def before(call):
        if call.tool == "a":
            return Deny("not this")
        turn.steer("by the way")
        return Pause()

    async with host_with(FakeHook("h", {"before_tool": before})) as host, host.session("s1") as session:
        async with session.turn("hello") as turn:
            with pytest.raises(PausedError):
                await turn.tools(calls("a", "b"), Tools().execute)
        result = await go_on(session, through_text(turn.paused), Continue())
    assert told(result.messages) == [
        ("c0", "Tool execution denied by hook: not this"),
        ("c1", "Tool execution skipped: queued user steering message"),
    ]


async def test_an_interrupt_is_kept_too():
    def before(call):
        turn.interrupt()
        return Pause()

    async with host_with(FakeHook("h", {"before_tool": before})) as host, host.session("s1") as session:
        with pytest.raises(PausedError):
            async with session.turn("hello") as turn:
                await turn.tools(calls("a"), Tools().execute)
        model = Model(says("bye"))
        await go_on(session, through_text(turn.paused), Continue(), model=model)
    assert model.requests[0].graceful_terminal


async def test_resuming_does_not_change_the_paused_turn():
    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host, host.session("s1") as session:
        paused = await pause(session, "rm")
        before = paused.to_json()
        await go_on(session, paused, Deny("no"))
        assert paused.to_json() == before


# Approvals.


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        (lambda paused: paused, ["b"]),
        (lambda paused: through_text(paused, KEY), ["b"]),
        (through_text, ["a", "b"]),
        (lambda paused: PausedTurn.from_json(paused.to_json(KEY)), ["a", "b"]),
        (lambda paused: PausedTurn.model_validate_json(paused.model_dump_json()), ["a", "b"]),
        (lambda paused: PausedTurn.model_validate(paused.model_dump()), ["a", "b"]),
    ],
    ids=["object", "sealed", "unsealed", "seal_not_checked", "not_by_from_json", "from_a_mapping"],
)
async def test_approvers_are_asked_again_unless_only_the_embedder_can_have_written_the_turn(kept, asked):
    async with (
        host_with(FakeHook("h", {"before_tool": unless("a")}), FakeHook("gate", {"approve_tool": True})) as host,
        host.session("s1") as session,
    ):
        paused = kept(await pause(session, "a", "b"))
    gate = FakeHook("gate", {"approve_tool": True})
    async with host_with(FakeHook("h", {"before_tool": unless("a")}), gate) as host, host.session("s1") as session:
        result = await go_on(session, paused, Continue())
    assert [call.tool for call in gate.asked_at("approve_tool")] == asked
    assert told(result.messages) == [("c0", "did a"), ("c1", "did b")]


@pytest.mark.parametrize(
    "approvers",
    [
        [FakeHook("gate", {"approve_tool": True}), FakeHook("new", {"approve_tool": False})],
        [FakeHook("gate", {"approve_tool": False}, approval_timeout=7)],
    ],
    ids=["new", "changed"],
)
async def test_an_approver_that_is_changed_or_new_is_asked_all_the_same(approvers):
    async with (
        host_with(FakeHook("h", {"before_tool": unless("a")}), FakeHook("gate", {"approve_tool": True})) as host,
        host.session("s1") as session,
    ):
        text = (await pause(session, "a", "b")).to_json(KEY)
    tools = Tools()
    async with (
        host_with(FakeHook("h", {"before_tool": unless("a")}), *approvers) as host,
        host.session("s1") as session,
    ):
        await go_on(session, PausedTurn.from_json(text, KEY), Continue(), tools)
    assert tools.ran == []


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_call_that_a_changed_hook_edits_is_approved_again(guarded):
    def hooks():
        return [
            FakeHook("h", {"before_tool": unless("a")}),
            FakeHook("gate", {"approve_tool": True}),
            FakeHook("guard", {"before_tool": None}, guard=guarded),
        ]

    async with host_with(*hooks()) as host, host.session("s1") as session:
        text = (await pause(session, "a", "b")).to_json(KEY)
    later, tools = hooks(), Tools()
    new = FakeHook("new", {"before_tool": Modify({"arguments": {"n": 7}})}, priority=200)
    async with host_with(*later, new) as host, host.session("s1") as session:
        await go_on(session, PausedTurn.from_json(text, KEY), Continue(), tools)
    approved = [(call.tool, call.arguments) for call in later[1].asked_at("approve_tool")]
    assert approved == [("a", {"n": 7}), ("b", {"n": 7})]
    assert sorted(tools.ran) == ["a", "b"]
    assert [call.tool for call in later[2].asked_at("before_tool")] == (["a", "b"] if guarded else [])


# Guards.


def guard(*answers):
    return FakeHook("guard", {"before_tool": list(answers)}, guard=True, priority=1)


async def test_a_guard_is_asked_again_when_the_answer_changes_the_call():
    watch = guard(None, lambda call: Deny("not that") if call.arguments.get("path") == "/" else None)
    boss = FakeHook("boss", {"before_tool": Pause()}, priority=2)
    tools = Tools()
    async with host_with(watch, boss) as host, host.session("s1") as session:
        paused = await pause(session, "rm")
        result = await go_on(session, paused, Modify({"arguments": {"path": "/"}}), tools)
    assert told(result.messages) == [("c0", "Tool execution denied by hook: not that")]
    assert len(boss.asked) == 1
    assert tools.ran == []


async def test_a_guard_is_not_asked_again_when_the_answer_changes_nothing():
    watch = guard(None)
    boss = FakeHook("boss", {"before_tool": Pause()}, priority=2)
    async with host_with(watch, boss) as host, host.session("s1") as session:
        await go_on(session, await pause(session, "rm"), Continue())
    assert len(watch.asked) == 1


async def test_a_guard_that_saw_an_earlier_call_before_the_pause_is_asked_about_the_one_that_will_run():
    watch = guard(None, Deny("not that"))
    editor = FakeHook("editor", {"before_tool": Modify({"arguments": {"path": "/"}})}, priority=2)
    boss = FakeHook("boss", {"before_tool": Pause()}, priority=3)
    async with host_with(watch, editor, boss) as host, host.session("s1") as session:
        result = await go_on(session, await pause(session, "rm"), Continue())
    assert told(result.messages) == [("c0", "Tool execution denied by hook: not that")]
    assert [call.arguments for call in watch.asked_at("before_tool")][1] == {"path": "/"}


async def test_a_guard_that_paused_was_answered_for_and_is_asked_again_only_about_another_call():
    for changes, times in (({}, 1), ({"arguments": {"path": "/"}}, 2)):
        watch = guard(Pause("may it?"), Pause("and this?"))
        late = FakeHook("late", {"before_tool": Modify(changes)}, priority=2)
        async with host_with(watch, late) as host, host.session("s1") as session:
            paused = await pause(session, "rm")
            if times == 2:
                with pytest.raises(PausedError) as raised:
                    await go_on(session, paused, Continue())
                paused = raised.value.paused
                assert (paused.hook, paused.reason) == ("guard", "and this?")
            result = await go_on(session, paused, Continue())
        assert told(result.messages) == [("c0", "did rm")]
        assert len(watch.asked) == times
        assert len(late.asked) == 1


async def test_a_guard_that_paused_is_asked_itself_about_later_edits():
    watch = guard(Pause("may it?"), None)
    late = FakeHook("late", {"before_tool": Modify({"arguments": {"path": "/tmp/a"}})}, priority=2)
    tools = Tools()
    async with host_with(watch, late) as host, host.session("s1") as session:
        await go_on(session, await pause(session, "rm"), Modify({"arguments": {"path": "/tmp"}}), tools)
    assert [call.arguments for call in watch.asked_at("before_tool")] == [{"n": 0}, {"path": "/tmp/a"}]
    assert tools.ran == ["rm"]


@pytest.mark.parametrize(
    ("kept", "times"),
    [
        (lambda paused: paused, 1),
        (lambda paused: through_text(paused, KEY), 1),
        (through_text, 2),
        (lambda paused: PausedTurn.from_json(rewritten(paused.to_json(KEY))), 2),
    ],
    ids=["object", "sealed", "unsealed", "rewritten"],
)
async def test_a_guard_is_asked_again_unless_only_the_embedder_can_have_written_the_turn(kept, times):
    watch = guard(None, lambda call: Deny("not that") if call.arguments.get("path") == "/" else None)
    boss = FakeHook("boss", {"before_tool": Pause()}, priority=2)
    tools = Tools()
    async with host_with(watch, boss) as host, host.session("s1") as session:
        paused = kept(await pause(session, "rm"))
        await go_on(session, paused, Continue(), tools)
    assert len(watch.asked) == times
    assert tools.ran == ([] if paused.batch[0].call.arguments.get("path") else ["rm"])


def rewritten(text):
    turn = json.loads(text)
    turn["turn"]["batch"][0]["call"]["arguments"]["path"] = "/"
    return json.dumps(turn)


async def test_a_guard_is_asked_about_a_call_that_was_changed_in_place_during_the_pause():
    watch = guard(None, lambda call: Deny("not that") if call.arguments.get("path") == "/" else None)
    boss = FakeHook("boss", {"before_tool": Pause()}, priority=2)
    tools = Tools()
    async with host_with(watch, boss) as host, host.session("s1") as session:
        paused = await pause(session, "rm")
        paused.batch[0].call.arguments["path"] = "/"
        result = await go_on(session, paused, Continue(), tools)
    assert told(result.messages) == [("c0", "Tool execution denied by hook: not that")]
    assert tools.ran == []


# How a paused turn ends, and goes on.


@pytest.mark.parametrize("caught", ["outside", "inside", "in_a_group"])
async def test_a_paused_turn_has_not_ended_and_the_resumed_one_ends_it_once(caught):
    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host, host.session("s1") as session:

        async def run(turn):
            await turn.run(complete=Model(wants("rm")).complete, execute=Tools().execute)

        try:
            async with session.turn("hello") as turn:
                if caught == "inside":
                    with pytest.raises(PausedError):
                        await run(turn)
                elif caught == "in_a_group":
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(run, turn)
                else:
                    await run(turn)
        except* PausedError:
            pass
        assert kinds(host)[-1] == "llm_response"
        assert session.messages == []  # no call dangles in it
        await go_on(session, turn.paused, Continue())
        assert [message["role"] for message in session.messages] == ["user", "assistant", "tool", "assistant"]
    assert kinds(host).count("turn_start") == kinds(host).count("turn_end") == 1


async def pause_and_keep(turn, keep):
    async with turn:
        with pytest.raises(PausedError):
            await turn.tools(calls("rm"), Tools().execute)
        await keep(turn.paused)


async def test_a_turn_that_fails_after_the_pause_has_ended():
    async def keep(paused):
        raise OSError("disk full")

    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host, host.session("s1") as session:
        turn = session.turn("hello")
        with pytest.raises(OSError, match="disk full"):
            await pause_and_keep(turn, keep)
    assert payloads(host, "turn_end")[0]["Status"] == "error"


async def test_a_resumed_turn_continues_where_it_paused_and_nowhere_else():
    tools = Tools()
    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host, host.session("s1") as session:
        paused = await pause(session, "rm")
        async with session.resume(paused, Continue()) as turn:
            for step in (
                lambda: turn.prompt("x"),
                lambda: turn.llm(LLMRequest(), Model().complete),
                turn.finish,
            ):
                with pytest.raises(PicohookError, match="this turn was paused at before_tool: resume it there"):
                    await step()
            with pytest.raises(PicohookError, match="a resumed turn has its tool calls already"):
                await turn.tools(calls("other"), tools.execute)
            (result,) = await turn.tools(None, tools.execute)
            assert result.for_llm == "did rm"
    assert tools.ran == ["rm"]


async def test_a_turn_is_resumed_in_its_own_session():
    async with host_with(FakeHook("h", {"before_tool": Pause()})) as host:
        async with host.session("s1") as session:
            paused = await pause(session, "rm")
        with pytest.raises(PicohookError, match="the paused turn belongs to session 's1', and this is 's2'"):
            host.session("s2").resume(paused, Continue())


@pytest.mark.parametrize("still_there", [True, False])
async def test_a_sub_turn_can_pause_and_its_result_still_goes_to_its_parent(still_there):
    async with (
        host_with(FakeHook("h", {"before_tool": Pause()})) as host,
        host.session("s1") as session,
        session.turn("hello") as parent,
    ):
        with pytest.raises(PausedError) as raised:
            async with session.turn("look", parent=parent) as sub:
                await sub.run(complete=Model(wants("rm")).complete, execute=Tools().execute)
        assert "subturn_end" not in kinds(host)
        paused = through_text(raised.value.paused)
        async with session.resume(paused, Continue(), parent=parent if still_there else None) as sub:
            await sub.run(complete=Model(says("found")).complete, execute=Tools().execute)
        assert [message["content"] for message in parent.collect()] == ["found"] * still_there
        assert session.messages == []
    assert kinds(host).count("subturn_spawn") == kinds(host).count("subturn_end") == 1
    assert kinds(host).count("subturn_orphan") == (not still_there)
    assert sub.meta.parent_turn_id == parent.meta.turn_id


# The text.


async def paused_text(key=None):
    hook = FakeHook("h", {"before_tool": Pause()})
    async with host_with(hook) as host, host.session("s1") as session:
        return (await pause(session, "rm")).to_json(key)


@pytest.mark.parametrize("key", [None, KEY])
async def test_a_paused_turn_comes_back_from_its_text_as_it_was(key):
    text = await paused_text(key)
    paused = PausedTurn.from_json(text, key)
    assert json.loads(paused.to_json(key)) == json.loads(text)
    assert PausedTurn.from_json(text.encode(), key) == paused
    assert paused.authentic is (key is not None)


NONE_OF_OURS = [
    ("", "this is not a paused turn: Expecting value"),
    ("{", "this is not a paused turn: "),
    (b"\xff", "this is not a paused turn: "),
    ("[" * 100_000, "this is not a paused turn: "),
    ("[]", "it is not an object with a `turn`"),
    ("{}", "it is not an object with a `turn`"),
    ('{"turn": 1}', "it is not an object with a `turn`"),
    ('{"turn": {}}', "the paused turn is of version None, and this picohook reads version 1"),
    ('{"turn": {"version": 2}}', "the paused turn is of version 2, and this picohook reads version 1"),
    ('{"turn": {"version": 1}}', "this is not a paused turn: nonce: Field required"),
]


@each(("text", "error"), NONE_OF_OURS)
def test_a_text_that_is_not_a_paused_turn_is_refused(text, error):
    with pytest.raises(PicohookError) as raised:
        PausedTurn.from_json(text)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"stage": "after_tool"}, "stage: Input should be 'before_tool' or 'before_finish'"),
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
        ({"at": 1}, "there is no call 1 in a batch of 1"),
        ({"at": -1}, "at: Input should be greater than or equal to 0"),
        ({"batch": []}, "there is no call 0 in a batch of 0"),
        ({"rounds": -9}, "rounds: Input should be greater than or equal to 0"),
        ({"batch": [{"call": {}}]}, "batch.0.call.tool: Field required"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
async def test_a_paused_turn_with_a_mistake_names_it(changes, error):
    turn = json.loads(await paused_text())["turn"]
    with pytest.raises(PicohookError) as raised:
        PausedTurn.from_json(json.dumps({"turn": turn | changes}))
    assert str(raised.value).startswith("this is not a paused turn: ")
    assert error in str(raised.value)


def tampered(text):
    sealed = json.loads(text)
    sealed["turn"]["batch"][0]["call"]["tool"] = "mkfs"
    return json.dumps(sealed)


@pytest.mark.parametrize(
    "change",
    [
        tampered,
        lambda text: json.dumps({"turn": json.loads(text)["turn"]}),
        lambda text: json.dumps(json.loads(text) | {"mac": 1}),
        lambda text: json.dumps(json.loads(text) | {"mac": "é\ud800"}),
        lambda text: json.dumps(json.loads(text) | {"mac": ""}),
    ],
    ids=["turn", "no_mac", "mac_of_no_kind", "mac_in_no_ascii", "empty_mac"],
)
async def test_a_text_that_was_changed_does_not_pass_for_the_embedders_own(change):
    text = change(await paused_text(KEY))
    with pytest.raises(PicohookError, match="was changed, or sealed with another key"):
        PausedTurn.from_json(text, KEY)


async def test_nor_does_a_text_with_another_key():
    with pytest.raises(PicohookError, match="sealed with another key"):
        PausedTurn.from_json(await paused_text(b"another"), KEY)


async def test_a_sealed_text_whose_members_were_put_in_another_order_is_still_the_embedders_own():
    text = json.dumps(json.loads(await paused_text(KEY)), sort_keys=True)
    assert PausedTurn.from_json(text, KEY).authentic


async def test_an_empty_key_is_refused():
    paused = PausedTurn.from_json(await paused_text())
    with pytest.raises(PicohookError, match="an empty key"):
        paused.to_json(b"")
    with pytest.raises(PicohookError, match="an empty key"):
        PausedTurn.from_json(paused.to_json(), b"")


@pytest.mark.parametrize("value", [object(), b"\xff"], ids=["object", "bytes"])
async def test_a_turn_without_a_json_form_is_an_error(value):
    async with (
        host_with(FakeHook("h", {"before_tool": Pause()})) as host,
        host.session("s1") as session,
        session.turn("hello") as turn,
    ):
        turn.messages.append({"role": "user", "content": value})
        with pytest.raises(PausedError):
            await turn.tools(calls("rm"), Tools().execute)
    with pytest.raises(PicohookError, match="this turn cannot be written as JSON"):
        turn.paused.to_json()


async def test_a_turn_that_is_resumed_before_its_end_tells_hooks_the_model_and_the_system_prompt():
    boss = FakeHook("boss", {"before_finish": Pause("may it end?")})
    late = FakeHook("late", {"before_finish": None}, priority=200)
    async with host_with(boss, late) as host, host.session("s1") as session:
        model, about = Model(says("well")), {"model": "m1", "system_prompt": "be kind"}
        with pytest.raises(PausedError) as raised:
            async with session.turn("hello") as turn:
                await turn.run(complete=model.complete, execute=Tools().execute, **about)
        await go_on(session, through_text(raised.value.paused), Continue())
    (finish,) = late.asked_at("before_finish")
    assert (finish.model, finish.system_prompt) == ("m1", "be kind")
