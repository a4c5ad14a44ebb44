"""Listeners see what a host asks and tells, and cannot hurt it."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from loops import ON_BOTH

from picohook import (
    Account,
    Continue,
    Deny,
    FunctionHook,
    Host,
    Listener,
    Modify,
    PicohookError,
    RequiredListener,
    Respond,
    Resumed,
    ToolCall,
)

pytestmark = pytest.mark.anyio


class Diary(Listener):
    """Writes down what it sees."""

    def __init__(self):
        self.seen = []

    def opened(self):
        self.seen.append("opened")

    def begin(self, stage, payload):
        self.seen.append(("begin", stage.name, getattr(payload, "tool", None)))
        return Page(stage, payload, self.seen)

    def happened(self, event, hooks):
        self.seen.append(("happened", event.kind, [hook.name for hook in hooks]))

    def closed(self):
        self.seen.append("closed")


class Page(Account):
    def __init__(self, stage, payload, seen):
        super().__init__(stage, payload)
        self.seen = seen

    def asked(self, hook, encoded, asked):
        self.seen.append(("asked", hook.name, encoded.payload.tool, asked.decision.action))

    def concluded(self, outcome):
        self.seen.append(("concluded", outcome.action))

    def abandoned(self, error):
        self.seen.append(("abandoned", isinstance(error, anyio.get_cancelled_exc_class())))


def rename(call):
    return Modify({"tool": "sh"})


def deny(call):
    return Deny("no")


def go_on(call):
    return Continue()


async def test_a_listener_sees_the_life_of_a_host_and_each_chain_hook_by_hook():
    diary = Diary()
    hooks = [FunctionHook("a", {"before_tool": rename}), FunctionHook("b", {"before_tool": deny})]
    async with Host(hooks, listeners=[diary]) as host:
        await host.before_tool(ToolCall(tool="bash"))
        host.emit("turn_start")
    assert diary.seen == [
        "opened",
        ("begin", "before_tool", "bash"),
        ("asked", "a", "bash", "modify"),
        ("asked", "b", "sh", "deny_tool"),
        ("concluded", "deny_tool"),
        ("happened", "turn_start", []),
        "closed",
    ]


async def test_approvers_are_seen_as_well():
    diary = Diary()
    hooks = [FunctionHook("a", {"approve_tool": deny}), FunctionHook("b", {"approve_tool": lambda call: True})]
    async with Host(hooks, listeners=[diary]) as host:
        await host.approve_tool(ToolCall(tool="bash"))
    assert ("asked", "a", "bash", "deny_tool") in diary.seen  # b may be asked first, or not be waited for
    assert ("concluded", "deny_tool") in diary.seen


async def test_each_try_is_seen_before_it_is_made_and_why_the_last_one_failed_after_it():
    seen = []

    class Tries(Account):
        def asking(self, hook, encoded):
            seen.append(("asking", hook.name, encoded.payload.tool))

        def asked(self, hook, encoded, asked):
            seen.append(("asked", hook.name, asked.entry.failure))

    class Watch(Listener):
        def begin(self, stage, payload):
            return Tries(stage, payload)

    def fail(call):
        seen.append("failing")
        raise RuntimeError("no")

    hooks = [FunctionHook("a", {"before_tool": fail}, retry=1), FunctionHook("b", {"before_tool": go_on})]
    async with Host(hooks, listeners=[Watch()]) as host:
        await host.before_tool(ToolCall(tool="bash"))
    assert seen == [
        *[("asking", "a", "bash"), "failing"] * 2,
        ("asked", "a", "error"),
        ("asking", "b", "bash"),
        ("asked", "b", None),
    ]


async def test_a_chain_resumed_after_a_pause_names_the_answered_hook_and_those_that_have_decided():
    seen = []

    class Watching(Account):
        def resumed(self, resumed):
            seen.append(resumed)

    class Watch(Listener):
        def begin(self, stage, payload):
            return Watching(stage, payload)

    hooks = [FunctionHook(name, {"before_tool": deny}) for name in "abc"]
    async with Host(hooks, listeners=[Watch()]) as host:
        await host.before_tool(ToolCall(tool="bash"))
        outcome = await host.ask("before_tool", {"tool": "bash"}, resumed=Resumed("b", Continue(), {"a"}))
    assert seen == [Resumed("b", Continue(), {"a"})]
    assert [entry.hook for entry in outcome.trail] == ["b", "c"]


async def test_asking_a_stage_by_its_name_asks_that_stage_only():
    diary = Diary()

    def answer(call):
        return Respond({"for_llm": "42"})

    hooks = [FunctionHook("a", {"before_tool": answer}), FunctionHook("b", {"approve_tool": deny})]
    async with Host(hooks, listeners=[diary]) as host:
        asked = await host.ask("before_tool", {"tool": "bash"})
        alone = len(diary.seen)
        before = await host.before_tool({"tool": "bash"})
    assert (asked.action, before.action) == ("respond", "deny_tool")
    assert diary.seen[1:alone] == [
        ("begin", "before_tool", "bash"),
        ("asked", "a", "bash", "respond"),
        ("concluded", "respond"),
    ]


async def test_a_chain_whose_caller_gives_up_is_abandoned():
    diary = Diary()
    asked = anyio.Event()

    async def never(call):
        asked.set()
        await anyio.sleep_forever()

    async with Host([FunctionHook("slow", {"before_tool": never})], listeners=[diary]) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.before_tool, ToolCall(tool="bash"))
            await asked.wait()
            tasks.cancel_scope.cancel()
        assert diary.seen[-1] == ("abandoned", True)


async def test_a_listener_can_replace_the_meta_that_hooks_see():
    class Marks(Listener):
        def begin(self, stage, payload):
            meta = payload.meta.model_copy(update={"trace_path": "t1"})
            return Account(stage, payload.model_copy(update={"meta": meta}))

    seen = []

    def look(call):
        seen.append(call.meta.trace_path)
        return Continue()

    async with Host([FunctionHook("look", {"before_tool": look})], listeners=[Marks()]) as host:
        await host.before_tool(ToolCall(tool="bash"))
    assert seen == ["t1"]


@pytest.mark.parametrize("at", ["begin", "asked", "concluded", "happened", "closed"])
async def test_a_listener_that_fails_changes_nothing(at):
    def fail(*_):
        raise RuntimeError(at)

    broken, diary = Diary(), Diary()
    if at in {"asked", "concluded"}:

        class Torn(Page):
            asked = fail if at == "asked" else Page.asked
            concluded = fail if at == "concluded" else Page.concluded

        broken.begin = lambda stage, payload: Torn(stage, payload, [])
    else:
        setattr(broken, at, fail)
    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[broken, diary]) as host:
        outcome = await host.before_tool(ToolCall(tool="bash"))
        host.emit("turn_start")
    assert outcome.action == "deny_tool"
    assert [what if isinstance(what, str) else what[0] for what in diary.seen] == [
        "opened",
        "begin",
        "asked",
        "concluded",
        "happened",
        "closed",
    ]


async def test_a_listener_that_cannot_begin_is_an_error_before_anything_runs():
    class Full(Listener):
        def opened(self):
            raise PicohookError("the disk is full")

    diary = Diary()
    host = Host([FunctionHook("a", {"before_tool": go_on})], listeners=[diary, Full()])
    with pytest.raises(PicohookError, match="the disk is full"):
        async with host:
            raise AssertionError("it was entered")
    assert diary.seen == ["opened", "closed"]


async def test_a_listener_is_closed_when_the_host_cannot_start():
    diary = Diary()
    hooks = [FunctionHook("a", {"before_tool": go_on}), FunctionHook("a", {"before_tool": go_on})]
    with pytest.raises(PicohookError, match="mounted already"):
        async with Host(hooks, listeners=[diary]):
            raise AssertionError("it was entered")
    assert diary.seen == ["opened", "closed"]


async def test_a_host_that_is_entered_again_keeps_its_listeners():
    diary = Diary()
    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[diary]) as host:
        with pytest.raises(PicohookError, match="entered once"):
            await host.__aenter__()
        assert diary.seen == ["opened"]
        await host.before_tool(ToolCall(tool="bash"))
    assert diary.seen[-2:] == [("concluded", "deny_tool"), "closed"]


async def test_a_broken_account_is_left_out():
    class Halfway(Account):
        def __init__(self):
            """Without what every account has."""

    class Careless(Listener):
        def begin(self, stage, payload):
            return Halfway()

    diary = Diary()
    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[Careless(), diary]) as host:
        assert (await host.before_tool(ToolCall(tool="bash"))).action == "deny_tool"
    assert ("concluded", "deny_tool") in diary.seen


@ON_BOTH
async def test_a_cancellation_error_of_a_listener_does_not_reach_the_caller():
    class Cancels(Account):
        def concluded(self, outcome):
            raise asyncio.CancelledError  # as the result of a future that was cancelled does

    class Careless(Listener):
        def begin(self, stage, payload):
            return Cancels(stage, payload)

    async with Host([FunctionHook("a", {"before_tool": deny})], listeners=[Careless()]) as host:
        assert (await host.before_tool(ToolCall(tool="bash"))).action == "deny_tool"


async def test_a_listener_that_only_looks_cannot_change_an_outcome():
    class Meddler(Account):
        def asked(self, hook, encoded, asked):
            asked.decision = Continue()
            asked.entry.action = "continue"

        def concluded(self, outcome):
            outcome.action, outcome.approved, outcome.reason = "continue", True, ""
            outcome.trail[0].hook = "another"

    class Meddles(Listener):
        def begin(self, stage, payload):
            return Meddler(stage, payload)

    diary = Diary()
    hooks = [FunctionHook("a", {"before_tool": deny, "approve_tool": deny})]
    async with Host(hooks, listeners=[Meddles(), diary]) as host:
        before = await host.before_tool(ToolCall(tool="bash"))
        approval = await host.approve_tool(ToolCall(tool="bash"))
    assert (before.action, before.reason, before.trail[0].hook) == ("deny_tool", "no", "a")
    assert (approval.action, approval.approved) == ("deny_tool", False)
    assert [entry.action for entry in (*before.trail, *approval.trail)] == ["deny_tool"] * 2
    assert diary.seen.count(("concluded", "deny_tool")) == 2


class Book(RequiredListener):
    """Fails at one of its methods."""

    refusal = "it could not be written down"

    def __init__(self, at):
        self.at = at

    def begin(self, stage, payload):
        if self.at == "begin":
            raise OSError("the disk is full")
        return None if self.at is None else TornPage(stage, payload)


class TornPage(Account):
    def concluded(self, outcome):
        raise OSError("the disk is full")


@pytest.mark.parametrize("at", ["begin", "concluded"])
async def test_where_a_required_listener_fails_the_call_is_denied_and_the_other_listeners_see_that(at):
    diary = Diary()
    hooks = [FunctionHook("a", {"before_tool": lambda _: Respond({"for_llm": "42"}), "approve_tool": lambda _: True})]
    async with Host(hooks, listeners=[diary, Book(at)]) as host:
        before = await host.before_tool(ToolCall(tool="bash"))
        approval = await host.approve_tool(ToolCall(tool="bash"))
        finish = await host.before_finish({})
    assert (before.action, before.reason, before.result) == ("deny_tool", "it could not be written down", None)
    assert (approval.action, approval.approved) == ("deny_tool", False)
    assert finish.action == "abort_turn"
    assert [seen for seen in diary.seen if seen[0] == "concluded"] == [
        ("concluded", "deny_tool"),
        ("concluded", "deny_tool"),
        ("concluded", "abort_turn"),
    ]


async def test_a_required_listener_that_ignores_a_chain_does_not_affect_it():
    async with Host([FunctionHook("a", {"before_tool": go_on})], listeners=[Book(None)]) as host:
        assert (await host.before_tool(ToolCall(tool="bash"))).action == "continue"
