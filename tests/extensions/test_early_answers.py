"""A part of a host may answer in place of approvers: a grant that a user gave earlier, for example."""

from __future__ import annotations

import math

import needs
import pytest

from picohook import Approve, Deny, FunctionHook, Host, Part, ToolCall
from picohook.engine import chain

pytestmark = pytest.mark.anyio
CALL = ToolCall(tool="bash", arguments={"command": "ls"})


class Grants(Part):
    """Answers what it is given, and keeps the calls."""

    name = "grants"

    def __init__(self, answer):
        self.calls = []
        self.approvers = []
        self._answer = answer

    async def answer(self, call, approvers):
        self.calls.append(call)
        self.approvers += [hook.name for hook in approvers]
        return self._answer(call) if callable(self._answer) else self._answer


def approver(name="person", *, asked, **settings):
    def approve(call):
        asked.append((name, call.arguments["command"]))
        return settings.get("guard", False)

    return FunctionHook(name, {"before_tool": lambda _: None, "approve_tool": approve}, **settings)


def shown(outcome):
    return [(entry.hook, entry.action, entry.error) for entry in outcome.trail]


async def test_an_approval_takes_the_place_of_approvers_and_is_in_the_trail_by_the_parts_name():
    asked, grants = [], Grants(Approve(reason="granted for this hour"))
    async with Host([approver(asked=asked)], parts=[grants]) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.hook, outcome.reason, asked) == (True, "grants", "granted for this hour", [])
    assert shown(outcome) == [
        ("grants", Approve().action, None),
        ("person", "", "not asked: a part of the host answered"),
    ]
    assert outcome.trail[0].reason == "granted for this hour"


async def test_a_denial_is_the_outcome():
    asked, grants = [], Grants(Deny(reason="revoked", severity="high"))
    async with Host([approver(asked=asked), approver("g", asked=asked, guard=True)], parts=[grants]) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.reason, outcome.hook, asked) == (False, "revoked", "grants", [])
    assert outcome.trail[0].severity == "high"


async def test_without_an_answer_approvers_are_asked():
    asked = []
    async with Host([approver(asked=asked)], parts=[Grants(None)]) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, asked) == (False, [("person", "ls")])
    assert [entry.hook for entry in outcome.trail] == ["person"]


@pytest.mark.parametrize("guard_says", [True, False])
async def test_no_part_answers_for_a_guard(guard_says):
    asked = []
    guard = FunctionHook(
        "gate",
        {"before_tool": lambda _: None, "approve_tool": lambda _: asked.append("gate") or guard_says},
        guard=True,
    )
    async with Host([guard, approver(asked=asked)], parts=[Grants(Approve())]) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, asked) == (guard_says, ["gate"])


def fails(_):
    raise OSError("the file of grants is gone")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fails, "OSError: the file of grants is gone"),
        (True, "TypeError: a part answers with Approve, Deny or None, not True"),
    ],
)
async def test_a_failure_counts_as_no_answer(answer, error):
    asked = []
    async with Host([approver(asked=asked)], parts=[Grants(answer)]) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, asked) == (False, [("person", "ls")])
    (name, action, why), _ = shown(outcome)
    assert (name, action) == ("grants", "")
    assert why.startswith(error)


async def test_a_part_that_hangs_counts_as_no_answer(monkeypatch):
    import anyio

    class Hangs(Part):
        async def answer(self, call, approvers):
            await anyio.sleep(math.inf)

    monkeypatch.setattr(chain, "ANSWERS_WITHIN", 0.01)
    asked = []
    async with Host([approver(asked=asked)], parts=[Hangs()]) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.trail[0].hook, asked) == (False, "Hangs", [("person", "ls")])


async def test_the_answer_is_about_a_copy_of_the_call_that_will_run():
    call = CALL.deep_copy()

    def harmless(copy):
        copy.arguments["command"] = "rm -rf /"  # changes only its own
        return Approve()

    async with Host([approver(asked=[])], parts=[Grants(harmless)]) as host:
        outcome = await host.approve_tool(call)
    assert (outcome.approved, outcome.payload.arguments) == (True, {"command": "ls"})


async def test_an_answer_about_a_call_that_was_changed_meanwhile_does_not_count():
    call = CALL.deep_copy()

    def meanwhile(_):
        call.arguments["command"] = "rm -rf /"
        return Approve()

    async with Host([approver(asked=[])], parts=[Grants(meanwhile)]) as host:
        outcome = await host.approve_tool(call)
    assert outcome.approved is False
    assert "changed in place" in outcome.trail[0].error


async def test_without_approvers_no_part_is_asked():
    grants = Grants(Deny(reason="no"))
    async with Host([], parts=[grants]) as host:
        assert (await host.approve_tool(CALL)).approved
    assert grants.calls == []


@needs.other_rooms
async def test_a_part_is_told_the_approvers_in_whose_place_it_answers_those_of_a_session_too():
    asked, grants = [], Grants(None)
    guard, other = approver("gate", asked=asked, guard=True), approver("other", asked=asked, filter={"tool": "edit"})
    async with (
        Host([approver(asked=asked), guard, other], parts=[grants]) as host,
        host.session("s1", hooks=[approver("own", asked=asked)]) as session,
        session.turn("hello") as turn,
    ):
        await turn.decide(CALL)
    assert grants.approvers == ["person", "own@session"]
