"""A part of a host may answer in place of approvers: a grant that a user gave earlier, for example."""

from __future__ import annotations

import math

import needs
import pytest

from picohook import Approve, Deny, FunctionHook, Host, Part, ToolCall
from picohook.engine import chain
from picohook.errors import EncodeError

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


class Keeps(Grants):
    """Keeps the grants that it is told of."""

    def __init__(self, *, fails=False):
        super().__init__(None)
        self.granted_with = []
        self._fails = fails

    async def granted(self, call, grants):
        if self._fails:
            raise OSError("the disk is full")
        self.granted_with += [(call.arguments["command"], hook.name, entry.grant) for hook, entry in grants]


def grants_for(scope, name="person"):
    return FunctionHook(name, {"approve_tool": lambda _: Approve(grant={"for": scope})})


async def test_a_part_is_told_of_the_grants_of_a_call_that_all_have_approved():
    keeps = Keeps()
    says_yes = FunctionHook("plain", {"approve_tool": lambda _: True})
    async with Host([grants_for("session"), grants_for("project", "other"), says_yes], parts=[keeps]) as host:
        assert (await host.approve_tool(CALL)).approved
    assert sorted(keeps.granted_with) == [
        ("ls", "other", {"for": "project"}),
        ("ls", "person", {"for": "session"}),
    ]


async def test_no_part_is_told_of_a_grant_beside_a_denial_or_of_a_plain_yes():
    keeps = Keeps()
    says_no = FunctionHook("no", {"approve_tool": lambda _: False})
    async with Host([grants_for("session"), says_no], parts=[keeps]) as host:
        assert (await host.approve_tool(CALL)).approved is False
    async with Host([FunctionHook("plain", {"approve_tool": lambda _: True})], parts=[keeps]) as host:
        assert (await host.approve_tool(CALL)).approved
    assert keeps.granted_with == []


async def test_a_part_that_cannot_keep_a_grant_is_in_the_trail_and_the_call_is_approved():
    async with Host([grants_for("session")], parts=[Keeps(fails=True)]) as host:
        outcome = await host.approve_tool(CALL)
    assert outcome.approved is True
    (_, failed) = outcome.trail
    assert (failed.hook, failed.error.partition(" (")[0]) == ("grants", "OSError: the disk is full")


async def test_no_part_is_told_of_a_grant_for_a_call_that_was_changed_meanwhile():
    keeps, call = Keeps(), CALL.deep_copy()

    def changes(_):
        call.arguments["command"] = "rm -rf /"
        return Approve(grant={"for": "session"})

    async with Host([FunctionHook("person", {"approve_tool": changes})], parts=[keeps]) as host:
        await host.approve_tool(call)
    assert keeps.granted_with == []


async def test_a_call_without_a_json_form_is_the_callers_mistake_and_neither_a_part_nor_an_approver_sees_it():
    asked, grants = [], Grants(Approve())
    async with Host([approver(asked=asked)], parts=[grants]) as host:
        with pytest.raises(EncodeError, match="set has no JSON form"):
            await host.approve_tool(ToolCall(tool="bash", arguments={"command": {"ls"}}))
    assert (grants.calls, asked) == ([], [])


async def test_a_part_that_knows_its_answer_gives_it_at_once():
    class AtOnce(Part):
        name = "known"

        def answer(self, call, approvers):
            return Approve(reason="as before")

    asked = []
    async with Host([approver(asked=asked)], parts=[AtOnce()]) as host:
        outcome = await host.approve_tool(CALL)
    assert (outcome.approved, outcome.hook, asked) == (True, "known", [])
