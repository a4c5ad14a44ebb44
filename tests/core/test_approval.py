"""Approved means that everybody who is asked said yes, and no failure is ever a yes."""

from __future__ import annotations

import itertools
from typing import get_args

import anyio
import pytest
from loops import ON_BOTH
from rows import each

from picohook.engine.chain import NEVER, NOT_NEEDED, Chain
from picohook.engine.part import Part
from picohook.engine.seat import Seat
from picohook.errors import EncodeError, HookCrashedError, HookTimeoutError
from picohook.hooks.function import FunctionHook
from picohook.model.decisions import (
    APPROVE,
    CONTINUE,
    AbortTurn,
    Approve,
    Decision,
    Deny,
    HardAbort,
    Modify,
    Pause,
    Respond,
    Retry,
    Skip,
)
from picohook.model.encoded import Encoded
from picohook.model.failure_policy import describe
from picohook.model.payloads import ToolCall
from picohook.model.replies import ReplyError, read_decision
from picohook.model.stages import STAGES

pytestmark = pytest.mark.anyio


async def test_without_approvers_it_is_approved_with_an_empty_trail(chain, payloads):
    outcome = await chain("approve_tool")
    assert (outcome.approved, outcome.action, outcome.trail) == (True, "continue", ())
    assert outcome.payload is payloads["approve_tool"]


async def test_an_approver_whose_filter_does_not_match_is_not_asked(chain, says):
    outcome = await chain("approve_tool", says("a", Deny(), filter={"tool": "sh"}))
    assert outcome.approved is True
    assert [(entry.hook, entry.action, entry.skipped) for entry in outcome.trail] == [("a", "", True)]


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_all_have_to_say_yes(chain, says, payloads, count):
    outcome = await chain("approve_tool", *(says(f"{number}", APPROVE) for number in range(count)))
    assert (outcome.approved, outcome.action, outcome.reason, outcome.hook) == (True, "continue", "", "")
    assert outcome.payload is payloads["approve_tool"]
    assert [(entry.hook, entry.action, entry.error) for entry in outcome.trail] == [
        (f"{number}", "continue", None) for number in range(count)
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_A3_one_denial_denies_and_says_whose_and_why(chain, says, place):
    hooks = [says(f"{number}", Deny(reason="no") if number == place else APPROVE) for number in range(3)]
    outcome = await chain("approve_tool", *hooks)
    assert (outcome.approved, outcome.action, outcome.reason, outcome.hook) == (False, "deny_tool", "no", f"{place}")


NO_YES = [
    CONTINUE, Modify({"tool": "x"}), Respond({}), Skip(), Retry("again"), Pause(), AbortTurn(), HardAbort(),
    None, True, 1, "yes", {"approved": True}, Approve, object(),
    HookTimeoutError("no answer in time"), HookCrashedError("it was ended by SIGKILL"), ValueError("only true is a yes"),
    EncodeError("of its own"), ExceptionGroup("two", [ValueError("a")]), RuntimeError(),
]  # fmt: skip


def test_every_kind_of_decision_but_two_is_among_them():
    assert {type(one) for one in NO_YES} & set(get_args(Decision)) == set(get_args(Decision)) - {Approve, Deny}


@each("rule", ["continue", "deny", "abort"])
@each("others", [0, 2])
@each("answer", NO_YES)
async def test_A1_A2_S11_anything_but_a_yes_denies_with_its_cause(chain, says, answer, others, rule):
    given = answer if isinstance(answer, Exception) else lambda _: answer
    hooks = [says("fails", given, on_failure=rule), *(says(f"{number}", APPROVE) for number in range(others))]
    outcome = await chain("approve_tool", *hooks)
    assert (outcome.approved, outcome.action, outcome.hook) == (False, "deny_tool", "fails")
    cause = f"{type(answer).__name__} is not a valid answer at approve_tool"
    if isinstance(answer, Exception):
        cause = describe(answer)
    assert outcome.reason == f"hook fails failed: {cause}"
    assert (outcome.trail[0].action, outcome.trail[0].error) == ("deny_tool", cause)


async def test_an_approver_changes_nothing(chain, says, payloads):
    outcome = await chain("approve_tool", says("a", Deny()), payload=payloads["approve_tool"])
    assert outcome.payload is payloads["approve_tool"]


async def test_the_text_of_a_denial_for_the_model_is_not_a_tools_result(chain, says):
    outcome = await chain("approve_tool", says("a", Deny(reason="no", result={"for_llm": "x"})))
    assert (outcome.approved, outcome.reason, outcome.result) == (False, "no", None)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_payload_without_a_json_form_is_the_callers_mistake_and_no_hook_is_asked(chain, says, count):
    hooks = [says(f"{number}", APPROVE) for number in range(count)]
    with pytest.raises(EncodeError):
        await chain("approve_tool", *hooks, payload=ToolCall(tool="x", arguments={"n": float("nan")}))
    assert not any(hook.questions for hook in hooks)


async def test_all_are_asked_at_the_same_time(chain, says):
    """Each waits until all have been asked: one after another, they would wait for ever."""
    count = 5
    everybody = anyio.Event()
    asked = []

    async def waits(question):
        asked.append(question)
        if len(asked) == count:
            everybody.set()
        await everybody.wait()
        return APPROVE

    with anyio.fail_after(5):
        outcome = await chain("approve_tool", *(says(f"{number}", waits) for number in range(count)))
    assert outcome.approved is True


async def test_all_see_the_same_bytes(chain, says):
    hooks = [says(f"{number}", APPROVE) for number in range(3)]
    await chain("approve_tool", *hooks)
    assert len({id(hook.questions[0].encoded.params()) for hook in hooks}) == 1


@pytest.mark.parametrize("no", [Deny(reason="no"), ValueError("it broke")], ids=["a no", "a failure"])
async def test_after_the_first_denial_the_others_are_not_waited_for_and_the_trail_says_so(chain, says, no):
    cancelled = []

    async def waits(question):
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(question)

    hooks = [says("slow", waits), says("quick", no), says("slow too", waits)]
    with anyio.fail_after(5):
        outcome = await chain("approve_tool", *hooks)
    assert (outcome.approved, outcome.hook) == (False, "quick")
    assert outcome.reason in {"no", "hook quick failed: it broke"}
    assert [(entry.hook, entry.action, entry.error) for entry in outcome.trail] == [
        ("slow", "", "not waited for: another approver denied"),
        ("quick", "deny_tool", None if isinstance(no, Deny) else "it broke"),
        ("slow too", "", "not waited for: another approver denied"),
    ]
    assert len(cancelled) == 2


async def test_of_several_denials_the_first_in_order_gives_the_reason(chain, says):
    outcome = await chain("approve_tool", says("a", Deny(reason="a")), says("b", Deny(reason="b")))
    assert outcome.reason == "a"


@pytest.mark.parametrize("order", list(itertools.permutations(["yes", "no", "broken"])), ids="-".join)
async def test_the_order_of_approvers_does_not_matter_to_the_answer(chain, says, order):
    answers = {"yes": APPROVE, "no": Deny(), "broken": ValueError()}
    assert (await chain("approve_tool", *(says(name, answers[name]) for name in order))).approved is False


@pytest.mark.parametrize("count", [1, 3])
@ON_BOTH
async def test_a_cancelled_approval_gives_no_answer(chain, says, count):
    with anyio.CancelScope() as scope:

        async def waits(_):
            scope.cancel()
            await anyio.sleep_forever()

        await chain("approve_tool", *(says(f"{number}", waits) for number in range(count)))
        pytest.fail("the chain came to an answer")
    assert scope.cancelled_caught


class TestFunctionHooks:
    @pytest.fixture
    async def ask(self, chain, host_services):
        async def run(*functions, timeout=5.0):
            hooks = [FunctionHook(f"{number}", {"approve_tool": one}) for number, one in enumerate(functions)]
            for hook in hooks:
                hook.open(host_services)
            return await chain("approve_tool", *hooks, clock=host_services.reactor.now, timeout=timeout)

        return run

    @pytest.mark.parametrize("said", [True, APPROVE, {"approved": True}], ids=repr)
    async def test_these_answers_approve(self, ask, said):
        assert (await ask(lambda _: said, lambda _: said)).approved is True

    @pytest.mark.parametrize(
        "said",
        [False, None, 1, "yes", {}, {"approved": 1}, {"Approved": True}, [True], CONTINUE, Deny(), Modify()],
        ids=repr,
    )
    async def test_these_answers_deny(self, ask, said):
        assert (await ask(lambda _: said)).approved is False
        assert (await ask(lambda _: True, lambda _: said)).approved is False

    @ON_BOTH
    async def test_A1_no_answer_in_time_denies(self, ask):
        async def hangs(_):
            await anyio.sleep_forever()

        outcome = await ask(hangs, timeout=0.05)
        assert (outcome.approved, outcome.reason) == (False, "hook 0 failed: no answer in time")

    @ON_BOTH
    async def test_A9_a_yes_after_the_deadline_denies(self, ask):
        async def clings(_):
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.06)
            return True

        assert (await ask(clings, timeout=0.05)).approved is False


async def test_the_grant_of_a_yes_is_in_the_trail(chain, says):
    outcome = await chain("approve_tool", says("a", Approve(grant={"for": "session"})), says("b", APPROVE))
    assert outcome.approved is True
    assert [entry.grant for entry in outcome.trail] == [{"for": "session"}, None]
    assert [entry.wire().get("grant") for entry in outcome.trail] == [{"for": "session"}, None]


@each("answer", [{"approved": False, "grant": {"for": "session"}}, {"approved": False, "Grant": {"for": "session"}}])
def test_a_no_grants_nothing(answer):
    assert read_decision(STAGES["approve_tool"], answer) == Deny()


@each("grant", [True, "session", ["session"], 1])
def test_a_yes_with_a_grant_that_cannot_be_read_is_no_yes(grant):
    with pytest.raises(ReplyError, match=r"`grant` is .*, not an object"):
        read_decision(STAGES["approve_tool"], {"approved": True, "grant": grant})


def test_a_grant_is_read_in_any_case_and_null_is_none():
    assert read_decision(STAGES["approve_tool"], {"approved": True, "Grant": {"for": "agent"}}).grant == {
        "for": "agent"
    }
    assert read_decision(STAGES["approve_tool"], {"approved": True, "grant": None}) == APPROVE


class Refuses(Part):
    async def answer(self, call, approvers):
        return Deny("as before")


async def test_a_part_that_denies_in_place_of_approvers_denies(clock, payloads, says):
    chain = Chain(STAGES["approve_tool"], Encoded(payloads["approve_tool"]), clock, NEVER)
    chain.answering = [Refuses()]
    outcome = await chain.run([Seat(says("yes", APPROVE), 5.0)])
    assert (outcome.approved, outcome.action, outcome.reason) == (False, "deny_tool", "as before")
    assert [entry.error for entry in outcome.trail] == [None, NOT_NEEDED]
