"""What hooks say about a turn beside its tools: rounds and their limit, annotations, prompts, the end, compaction."""

from __future__ import annotations

import contextlib

import pytest
from turns import Model, Tools, calls, host_with, kinds, payloads, says, wants

from picohook import (
    AbortTurn,
    AbortTurnError,
    Continue,
    Deny,
    LLMRequest,
    LLMResponse,
    Modify,
    Notes,
    Respond,
    Retry,
    RetryLimitError,
    Skip,
    worker_hooks,
)
from picohook.ext.rust_worker.worker import ContinueWithMessages, Message
from picohook.testing import FakeHook, hook_process

pytestmark = pytest.mark.anyio


async def run_turn(host, model, tools=None, session_id="s1", **request):
    async with host.session(session_id) as session, session.turn("hello") as turn:
        return await turn.run(complete=model.complete, execute=(tools or Tools()).execute, **request)


def texts(messages):
    return [(message["role"], message.get("content")) for message in messages]


# Rounds.


@pytest.mark.parametrize("stage", ["before_llm", "after_llm", "before_finish"])
async def test_a_hook_that_always_wants_another_round_gets_three_and_then_the_turn_fails_clearly(stage):
    hook = FakeHook("h", {stage: Retry("again")})
    model = Model(*[says("hm")] * 9)
    async with host_with(hook) as host:
        with pytest.raises(RetryLimitError, match="another round more than 3 times; the last one: again"):
            await run_turn(host, model)
    assert len(hook.asked) == 4
    assert [retry["Attempt"] for retry in payloads(host, "llm_retry")] == [1, 2, 3]
    assert {(retry["MaxRetries"], retry["Reason"]) for retry in payloads(host, "llm_retry")} == {(3, "again")}
    assert payloads(host, "turn_end")[0]["Status"] == "error"


async def test_the_rounds_of_a_turn_are_counted_together_and_the_limit_is_the_hosts():
    script = {stage: [Retry("again"), None, None, None] for stage in ("before_llm", "after_llm", "before_finish")}
    for limit, enough in ((3, True), (2, False)):
        hook = FakeHook("h", script)
        async with host_with(hook, retry_limit=limit) as host:
            if enough:
                assert (await run_turn(host, Model(*[says("hm")] * 9))).content == "hm"
            else:
                with pytest.raises(RetryLimitError):
                    await run_turn(host, Model(*[says("hm")] * 9))


async def test_each_turn_has_its_own_rounds():
    async with host_with(FakeHook("h", {"before_finish": [Retry("again"), None] * 2}), retry_limit=1) as host:
        for _ in range(2):
            assert (await run_turn(host, Model(says("a"), says("b")))).content == "b"


async def test_the_feedback_of_a_retry_is_a_user_message_at_the_end():
    hook = FakeHook("h", {"before_finish": [Retry("at before_finish"), None]})
    model = Model(says("one"), says("two"))
    async with host_with(hook) as host:
        result = await run_turn(host, model)
    assert texts(model.requests[1].messages) == [("user", "hello"), ("assistant", "one"), ("user", "at before_finish")]
    assert result.content == "two"


async def test_feedback_at_before_prompt_goes_to_the_model_instead_of_the_refused_message():
    stamp = FakeHook("a-stamp", {"before_prompt": lambda prompt: Modify({"prompt": f"[12:00] {prompt.prompt}"})})
    reviewer = FakeHook("b-reviewer", {"before_prompt": Retry("ask politely", notes=Notes("shown", "be kind"))})
    counter = FakeHook("c-counter", {"before_prompt": None})
    model, shown = Model(says("of course")), []
    async with (
        host_with(stamp, reviewer, counter) as host,
        host.session("s1", show=shown.append) as session,
        session.turn("hey you") as turn,
    ):
        await turn.run(complete=model.complete, execute=Tools().execute)
    assert [prompt.prompt for prompt in reviewer.asked_at("before_prompt")] == ["[12:00] hey you"]
    assert [prompt.prompt for prompt in stamp.asked_at("before_prompt")] == ["hey you", "ask politely"]
    assert [prompt.prompt for prompt in counter.asked_at("before_prompt")] == ["[12:00] ask politely"]
    assert texts(model.requests[0].messages) == [("user", "[12:00] ask politely")]
    assert (model.requests[0].system_prompt, shown) == ("be kind", ["shown"])
    assert payloads(host, "prompt_sent")[0]["UserMessage"] == "[12:00] ask politely"
    assert payloads(host, "turn_end")[0]["Status"] == "completed"
    assert payloads(host, "llm_retry") == []  # the model was asked once


async def test_feedback_that_another_hook_refuses_too_aborts_the_turn():
    hooks = [FakeHook(name, {"before_prompt": Retry(f"not so, says {name}")}) for name in ("a", "b")]
    model = Model()
    async with host_with(*hooks) as host:
        with pytest.raises(AbortTurnError) as raised:
            await run_turn(host, model)
    assert raised.value.reason == "hook a refused the prompt, and hook b its replacement: not so, says b"
    assert [len(hook.asked) for hook in hooks] == [1, 1]
    assert [(entry.hook, entry.action) for entry in raised.value.outcome.trail] == [("a", "retry"), ("b", "retry")]
    assert model.requests == []
    assert "prompt_sent" not in kinds(host)


async def test_without_a_turn_feedback_at_before_prompt_is_the_prompt_to_send():
    hooks = [FakeHook("a", {"before_prompt": Retry("politely")}), FakeHook("b", {"before_prompt": None})]
    async with host_with(*hooks) as host:
        outcome = await host.before_prompt({"prompt": "hey you"})
    assert (outcome.action, outcome.payload.prompt) == ("modify", "politely")
    assert [(entry.hook, entry.action) for entry in outcome.trail] == [("a", "retry"), ("b", "continue")]


async def test_a_retry_may_replace_the_payload_instead():
    hook = FakeHook(
        "h",
        {
            "before_prompt": [Retry(changes={"prompt": "in other words"})],
            "before_finish": [Retry(changes={"messages": [{"role": "user", "content": "begin anew"}]}), None],
        },
    )
    model = Model(says("one"), says("two"))
    async with host_with(hook) as host:
        await run_turn(host, model)
    assert texts(model.requests[0].messages) == [("user", "in other words")]
    assert texts(model.requests[1].messages) == [("user", "begin anew")]


# Prompts and the end.


async def test_hooks_can_edit_a_prompt_and_the_messages_before_it():
    hook = FakeHook(
        "h", {"before_prompt": Modify({"prompt": "HELLO", "messages": [{"role": "system", "content": "s"}]})}
    )
    model = Model(says("hi"))
    async with host_with(hook) as host:
        await run_turn(host, model)
    assert texts(model.requests[0].messages) == [("system", "s"), ("user", "HELLO")]
    (sent,) = payloads(host, "prompt_sent")
    assert (sent["UserMessage"], texts(sent["Messages"])) == ("HELLO", [("system", "s")])
    assert payloads(host, "turn_end")[0]["UserMessage"] == "HELLO"


async def test_an_aborted_prompt_is_never_sent():
    model = Model()
    async with host_with(FakeHook("h", {"before_prompt": AbortTurn("rude")})) as host:
        with pytest.raises(AbortTurnError, match="rude"):
            await run_turn(host, model)
    assert "prompt_sent" not in kinds(host)


async def test_before_finish_sees_how_the_turn_would_end_and_may_edit_the_conversation():
    hook = FakeHook("h", {"before_finish": Modify({"messages": [{"role": "user", "content": "summary"}]})})
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        await turn.prompt()
        response = LLMResponse(response=says("bye"))
        assert await turn.finish(response, system_prompt="be kind", model="m1")
    (finish,) = hook.asked_at("before_finish")
    assert (finish.prompt, finish.response, finish.system_prompt, finish.model) == (
        "hello",
        says("bye"),
        "be kind",
        "m1",
    )
    assert texts(finish.messages) == [("user", "hello")]
    assert texts(session.messages) == [("user", "summary")]


async def test_an_abort_at_the_end_fails_the_turn():
    async with host_with(FakeHook("h", {"before_finish": AbortTurn("not so")})) as host:
        with pytest.raises(AbortTurnError, match="not so"):
            await run_turn(host, Model(says("bye")))


# Annotations.


def notes(word):
    return Notes(f"show {word}", f"context {word}", ({"role": "user", "content": f"inject {word}"},))


ANNOTATED = ("before_prompt", "before_llm", "after_llm", "before_tool", "after_tool", "before_finish")


@pytest.mark.parametrize("stage", ANNOTATED)
async def test_annotations_are_collected_in_the_outcome_in_the_order_of_the_hooks(stage):
    hooks = [
        FakeHook("a", {stage: Continue(notes=notes("a"))}, priority=1),
        FakeHook("silent", {stage: None}, priority=2),
        FakeHook("b", {stage: Modify({}, notes=notes("b"))}, priority=3),
        hook_process(
            f"""
            def {stage}(params):
                return {{"system_message": "show c", "additional_context": "context c",
                         "inject_messages": [{{"role": "user", "content": "inject c"}}]}}
            """
        ),
    ]
    async with host_with(*hooks) as host:
        await run_turn(host, Model(wants("ls"), says("done")))
    assert host.outcomes_at(stage)
    for outcome in host.outcomes_at(stage):
        assert outcome.notes == (notes("a"), notes("b"), notes("c"))


async def test_the_outcome_has_the_reason_of_the_decision_that_ended_the_chain():
    hook = FakeHook("h", {"before_llm": [Retry("again", reason="thin"), None, None], "before_tool": Deny("no")})
    async with host_with(hook) as host:
        await run_turn(host, Model(wants("ls"), says("done")))
    assert [outcome.reason for outcome in host.outcomes_at("before_llm")] == ["thin", "", ""]
    assert [outcome.reason for outcome in host.outcomes_at("before_tool")] == ["no"]


@pytest.mark.parametrize("stage", ANNOTATED)
async def test_annotations_reach_the_next_request_once_and_the_user(stage):
    hook = FakeHook("h", {stage: [Continue(notes=notes("x")), *[None] * 5]})
    finish = FakeHook("again", {"before_finish": [Retry("go on"), None]}, priority=200)
    model, shown = Model(wants("ls"), says("done"), says("really")), []
    async with (
        host_with(hook, finish) as host,
        host.session("s1", show=shown.append) as session,
        session.turn("hello") as turn,
    ):
        await turn.run(complete=model.complete, execute=Tools().execute, system_prompt="base")
    where = {"before_prompt": 0, "before_llm": 0, "before_finish": 2}.get(stage, 1)
    for place, request in enumerate(model.requests):
        assert request.system_prompt == ("base\n\ncontext x" if place == where else "base")
        assert (("user", "inject x") in texts(request.messages)) is (place == where)
    assert shown == ["show x"]
    assert ("user", "inject x") not in texts(session.messages)


@pytest.mark.parametrize("reply", [None, AbortTurn("not so")])
async def test_annotations_after_the_last_request_of_a_turn_reach_the_first_request_of_the_next_turn(reply):
    late = FakeHook("late", {"before_compact": [Continue(notes=notes("x"))], "before_finish": [reply, None, None]})
    model = Model(says("one"), says("two"), says("three"))
    async with host_with(late) as host, host.session("s1") as session:
        for said in ("first", "second", "third"):
            with contextlib.suppress(AbortTurnError):
                async with session.turn(said) as turn:
                    if turn.user_message == "first":
                        await turn.prompt()
                        await turn.llm(LLMRequest(messages=turn.messages), model.complete)
                        turn.messages = await turn.compact(turn.messages, auto=lambda messages: messages)
                        await turn.finish()
                    else:
                        await turn.run(complete=model.complete, execute=Tools().execute)
    assert [request.system_prompt for request in model.requests] == [None, "context x", None]
    assert [("user", "inject x") in texts(request.messages) for request in model.requests] == [False, True, False]


@pytest.mark.parametrize("stage", ["before_llm", "after_llm"])
async def test_annotations_of_a_retry_reach_the_next_round_and_no_other_request(stage):
    hook = FakeHook("h", {stage: [Retry("again", notes=notes("x")), None, None]})
    model, shown = Model(*[says("hm")] * 3), []
    rejected = [] if stage == "before_llm" else [None]
    async with (
        host_with(hook) as host,
        host.session("s1", show=shown.append) as session,
        session.turn("hello") as turn,
    ):
        await turn.llm(LLMRequest(), model.complete)
        await turn.llm(LLMRequest(), model.complete)
    assert [request.system_prompt for request in model.requests] == [*rejected, "context x", None]
    assert texts(model.requests[len(rejected)].messages) == [("user", "inject x"), ("user", "again")]
    assert shown == ["show x"]


async def test_annotations_beside_a_ready_answer_reach_the_next_request():
    hook = FakeHook("h", {"before_llm": [Respond(says("ready"), notes=notes("x")), None]})
    model = Model(says("hm"))
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        await turn.llm(LLMRequest(), model.complete)
        await turn.llm(LLMRequest(), model.complete)
    assert model.requests[0].system_prompt == "context x"


async def test_annotations_beside_a_denial_count_too():
    hook = FakeHook("h", {"before_tool": Deny("no", notes=notes("x"))})
    model = Model(says("hm"))
    async with host_with(hook) as host, host.session("s1") as session, session.turn("hello") as turn:
        await turn.tools(calls("rm"), Tools().execute)
        await turn.llm(LLMRequest(system_prompt="base"), model.complete)
    assert model.requests[0].system_prompt == "base\n\ncontext x"


# Compaction.

LONG = [{"role": "user", "content": str(number)} for number in range(10)]


def last(count):
    return lambda messages: messages[-count:]


async def compact(host, **scopes):
    async with host.session("s1") as session, session.turn("hello") as turn:
        return await turn.compact(LONG, system_prompt="be kind", model="m1", **scopes)


async def test_a_compaction_is_asked_about_before_and_after_in_both_scopes():
    hook = FakeHook("h", {"before_compact": None, "after_compact": None})

    async def auto(messages):
        return messages[-2:]

    async with host_with(hook) as host:
        left = await compact(host, micro=last(5), auto=auto)
    assert left == LONG[-2:]
    asked = [(one.stage, one.payload.scope, len(one.payload.messages)) for one in hook.asked]
    assert asked == [
        ("before_compact", "micro", 10),
        ("after_compact", "micro", 5),
        ("before_compact", "auto", 5),
        ("after_compact", "auto", 2),
    ]
    assert {(one.payload.system_prompt, one.payload.model) for one in hook.asked} == {("be kind", "m1")}
    assert {one.payload.meta.session_key for one in hook.asked} == {"s1"}
    assert payloads(host, "context_compress") == [
        {"Reason": "micro", "DroppedMessages": 5, "RemainingMessages": 5},
        {"Reason": "auto", "DroppedMessages": 3, "RemainingMessages": 2},
    ]


async def test_hooks_can_edit_the_messages_before_and_after_a_compaction():
    hook = FakeHook(
        "h",
        {
            "before_compact": Modify({"messages": LONG[:4]}),
            "after_compact": lambda after: Modify({"messages": [*after.messages, LONG[9]]}),
        },
    )
    async with host_with(hook) as host:
        assert await compact(host, auto=last(1)) == [LONG[3], LONG[9]]


async def test_skipping_the_micro_compaction_skips_the_auto_one_too():
    hook = FakeHook("h", {"before_compact": Skip("not now", notes=Notes("show x")), "after_compact": None})
    shown = []
    async with host_with(hook) as host, host.session("s1", show=shown.append) as session, session.turn() as turn:
        assert await turn.compact(LONG, micro=last(5), auto=last(2)) == LONG
    assert [one.payload.scope for one in hook.asked] == ["micro"]
    assert shown == ["show x"]
    assert "context_compress" not in kinds(host)


async def test_the_auto_compaction_alone_can_be_skipped():
    hook = FakeHook("h", {"before_compact": lambda before: Skip() if before.scope == "auto" else None})
    async with host_with(hook) as host:
        assert await compact(host, micro=last(5), auto=last(2)) == LONG[-5:]


@pytest.mark.parametrize("stage", ["before_compact", "after_compact"])
async def test_a_compaction_can_be_aborted(stage):
    async with host_with(FakeHook("h", {stage: AbortTurn("keep them")})) as host:
        with pytest.raises(AbortTurnError, match="keep them"):
            await compact(host, micro=last(5))


async def test_a_compaction_that_leaves_as_many_messages_dropped_none():
    async with host_with() as host:
        await compact(host, auto=lambda messages: [*messages, LONG[0]])
    assert payloads(host, "context_compress") == [{"Reason": "auto", "DroppedMessages": 0, "RemainingMessages": 11}]


async def test_the_error_of_a_limit_reached_without_feedback_is_a_whole_sentence():
    again = worker_hooks(on_turn_end=[lambda _: ContinueWithMessages([Message.user("once more")])])
    async with host_with(*again, retry_limit=1) as host:
        with pytest.raises(RetryLimitError, match=r"more than 1 times$"):
            await run_turn(host, Model(*[says("hm")] * 3))
