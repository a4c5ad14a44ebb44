"""A hook's fallback: the hook of the same file that decides if this one fails."""

from __future__ import annotations

import pytest
from loops import ON_BOTH

from picohook import Continue, Deny, FunctionHook, HookSpec, Host, Modify, ToolCall
from picohook.engine.chain import Chain
from picohook.engine.order import seats
from picohook.errors import HookUnavailableError
from picohook.model.encoded import Encoded
from picohook.model.spec import Timeouts
from picohook.model.stages import BEFORE_TOOL

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": "ls"})


@pytest.fixture
def ask(says, clock):
    """Asks about `CALL` a hook that answers `first`, with the fallback `local` that answers `second`."""

    async def ask(first, second, *, budget=30.0, **settings):
        names = {"fallback": "local", "timeout": 8.0, **settings}
        hooks = [says("p", first, **names), says("local", second)]
        (seat,) = seats(hooks, Timeouts())["before_tool"]
        return await Chain(BEFORE_TOOL, Encoded(CALL), clock, clock() + budget).run([seat]), hooks

    return ask


def fails(_question=None):
    raise HookUnavailableError("nobody is there", cause="absent")


async def test_it_decides_in_place_of_a_hook_that_fails_and_the_trail_says_why(ask):
    outcome, (hook, local) = await ask(fails, Deny(reason="local rules"))
    (entry,) = outcome.trail
    assert (outcome.action, outcome.reason, outcome.hook) == ("deny_tool", "local rules", "p")
    assert (entry.hook, entry.degraded, entry.failure, entry.error) == ("p", "local: absent", None, None)
    assert hook.metrics.stages["before_tool"].degraded == {"absent": 1}
    assert (hook.failures.last, local.failures.last) == ("nobody is there", None)


async def test_a_hook_that_decides_needs_none(ask):
    asked = []
    outcome, _ = await ask(Deny(reason="mine"), asked.append)
    assert (outcome.reason, outcome.trail[0].degraded, asked) == ("mine", "", [])


@pytest.mark.parametrize(("on_failure", "action"), [("deny", "deny_tool"), ("continue", "continue")])
async def test_N7_a_fallback_that_fails_too_is_the_hooks_own_failure(ask, on_failure, action):
    def fails_too(_):
        raise ValueError("the local rules are broken")

    outcome, (_, local) = await ask(fails, fails_too, on_failure=on_failure)
    (entry,) = outcome.trail
    assert (outcome.action, entry.failure, entry.error, entry.degraded) == (action, "absent", "nobody is there", "")
    assert "the local rules are broken" in local.failures.last


@ON_BOTH
async def test_N7_an_answer_of_the_fallback_after_its_time_does_not_count(ask, clock):
    def late(question):
        clock.time = question.deadline + 0.1
        return Continue()

    outcome, (_, local) = await ask(fails, late, on_failure="deny")
    assert (outcome.action, outcome.trail[0].failure, local.failures.last) == (
        "deny_tool",
        "absent",
        "no answer in time",
    )


async def test_N7_a_decision_that_the_stage_does_not_allow_is_a_failure_of_the_fallback(ask):
    outcome, _ = await ask(fails, object(), on_failure="deny")
    assert (outcome.action, outcome.trail[0].failure) == ("deny_tool", "absent")


async def test_the_hook_has_three_quarters_of_the_time_and_its_fallback_the_rest(ask, clock):
    given = []

    def late(question):
        given.append((question.deadline - question.begun, question.limit - question.begun))
        clock.time = question.deadline
        fails()

    def local(question):
        given.append((question.deadline - question.begun, question.limit - question.begun))
        return Continue()

    outcome, _ = await ask(late, local)
    assert outcome.trail[0].degraded == "local: absent"
    assert given == [(6.0, 28.0), (2.0, 2.0)]


async def test_a_hook_that_fails_at_once_leaves_its_fallback_the_whole_time_that_this_has(ask):
    given = []
    await ask(fails, lambda question: given.append(question.deadline - question.begun) or Continue())
    assert given == [5.0]  # its own timeout, of the 8 s of the hook


async def test_both_share_what_is_left_of_the_chains_time(ask, clock):
    given = []

    def late(question):
        given.append(question.deadline - question.begun)
        clock.time = question.deadline
        fails()

    await ask(late, lambda question: given.append(question.deadline - question.begun) or Continue(), budget=4.0)
    assert given == [3.0, 1.0]


async def test_it_is_not_asked_when_the_time_is_over(ask, clock):
    def too_late(_):
        clock.time += 60
        fails()

    outcome, _ = await ask(too_late, Deny(reason="local"), on_failure="continue")
    assert (outcome.action, outcome.trail[0].degraded) == ("continue", "")


async def test_its_own_settings_say_what_it_may_edit_and_the_hooks_retries_come_first(ask):
    tries = []

    def never(_):
        tries.append(1)
        fails()

    outcome, _ = await ask(never, Modify({"arguments": {"command": "pwd"}}), retry=2)
    assert (outcome.payload.arguments, len(tries)) == ({"command": "pwd"}, 3)


async def test_an_answer_after_a_failure_is_noticed_again(says, clock):
    hooks = [says("p", fails, Deny("no"), fallback="local"), says("local", Continue())]
    (seat,) = seats(hooks, Timeouts())["before_tool"]
    outcomes = [await Chain(BEFORE_TOOL, Encoded(CALL), clock, clock() + 30).run([seat]) for _ in range(2)]
    assert [outcome.trail[0].degraded for outcome in outcomes] == ["local: absent", ""]
    assert [outcome.action for outcome in outcomes] == ["continue", "deny_tool"]


async def test_any_kind_of_hook_may_have_one():
    broken = HookSpec(name="p", command=("/nowhere/hook",), stages=("before_tool",), fallback="local")
    local = FunctionHook(
        "local", {"before_tool": lambda _: {"action": "deny_tool", "reason": "local rules"}}, layer="user"
    )
    async with Host([broken, local]) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.reason, outcome.trail[0].degraded) == ("local rules", "local: crashed")
