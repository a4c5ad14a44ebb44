"""Approval of tool calls by the user, whom the MCP client asks."""

from __future__ import annotations

import anyio
import pytest
from mcp_ends import META, as_line, between, call, result
from rows import each

from picohook.ext.mcp import approval
from picohook.ext.mcp.approval import ClientApprover
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio

YES = {"action": "accept", "content": {"approve": True}}
NO = [
    {"action": "decline"},
    {"action": "cancel"},
    {"action": "accept"},
    {"action": "accept", "content": {"approve": False}},
    {"action": "accept", "content": {"approve": "true"}},
    {"action": "accept", "content": {"approve": 1}},
    {"action": "accept", "content": {"Approve": True}},
    {"action": "decline", "content": {"approve": True}},
    {"content": {"approve": True}},
    {},
    True,
    None,
]
DENIED = "Tool execution denied by approval hook: "
CAN = {"elicitation": {}}


def text_of(message):
    return message["result"]["content"][0]["text"]


async def initialize(both, capabilities):
    line = as_line({"id": "i", "method": "initialize", "params": {"capabilities": capabilities}})
    await both.client.send(line)
    assert await both.server.line() == line
    await both.server.send(result("i"))
    await both.client.line()


# The older protocol.


async def test_an_older_client_is_asked_and_the_call_runs_if_its_user_says_yes():
    async with between(approver=ClientApprover("mcp__demo__w*")) as both:
        await initialize(both, CAN)
        await both.client.send(call(1, "write", path="\u202ex"), call(2, "read"))
        assert await both.server.line() == call(2, "read")
        asked = await both.client.message()
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["message"].startswith(
            'Allow mcp__demo__write?\n{"path": "\\u202ex"}\nSHA-256 of the call: '
        )
        assert asked["params"]["requestedSchema"]["required"] == ["approve"]
        await both.client.send({"id": asked["id"], "result": YES})
        assert await both.server.line() == call(1, "write", path="\u202ex")


@each("answer", [*({"result": one} for one in NO), {"error": {"code": 1, "message": "no"}}])
async def test_everything_but_a_clear_yes_is_a_denial(answer):
    async with between(approver=ClientApprover("*")) as both:
        await initialize(both, CAN)
        await both.client.send(call(1))
        asked = await both.client.message()
        await both.client.send({"id": asked["id"], **answer}, {"method": "next"})
        assert (await both.server.message())["method"] == "next"
        assert text_of(await both.client.message()).startswith(DENIED)


@each("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": None}, {"elicitation": True}, 7])
@each("other", [None, True, False])
async def test_for_a_client_that_cannot_ask_the_other_approvers_decide(capabilities, other):
    hooks = [] if other is None else [FakeHook(script={"approve_tool": other})]
    async with between(*hooks, approver=ClientApprover("*")) as both:
        await initialize(both, capabilities)
        await both.client.send(call(1))
        if other:
            assert await both.server.line() == call(1)
        else:
            why = "the client cannot ask its user, and there is no other approver" if other is None else ""
            assert text_of(await both.client.message()).startswith(
                DENIED.rstrip(": ") if other is False else DENIED + why
            )


async def test_another_approver_whose_filter_does_not_match_does_not_decide():
    other = FakeHook(script={"approve_tool": True}, filter={"tool": "else"})
    async with between(other, approver=ClientApprover("*")) as both:
        await initialize(both, {})
        await both.client.send(call(1))
        assert text_of(await both.client.message()).startswith(DENIED)


async def test_the_client_is_asked_about_the_call_as_hooks_left_it():
    edit = FakeHook(script={"before_tool": {"action": "modify", "call": {"arguments": {"a": "edited"}}}})
    async with between(edit, approver=ClientApprover("*")) as both:
        await initialize(both, CAN)
        await both.client.send(call(1, a="given"))
        asked = await both.client.message()
        assert '{"a": "edited"}' in asked["params"]["message"]


async def test_a_question_about_a_long_call_says_that_it_is_cut():
    async with between(approver=ClientApprover("*")) as both:
        await initialize(both, CAN)
        await both.client.send(call(1, a="x" * 100_000))
        message = (await both.client.message())["params"]["message"]
        assert len(message) < 5000
        assert "… (100009 characters in all)" in message


async def test_a_question_about_a_cancelled_call_is_cancelled_and_its_late_answer_goes_nowhere():
    async with between(approver=ClientApprover("*")) as both:
        await initialize(both, CAN)
        await both.client.send(call(1))
        asked = await both.client.message()
        await both.client.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        told = await both.client.message()
        assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
        await both.client.send({"id": asked["id"], "result": YES}, {"method": "next"})
        assert (await both.server.message())["method"] == "next"


async def test_a_user_who_does_not_answer_in_time_has_not_approved():
    approver = ClientApprover("*")
    approver.spec = approver.spec.model_copy(update={"approval_timeout": 0.01})
    async with between(approver=approver) as both:
        await initialize(both, CAN)
        await both.client.send(call(1))
        assert (await both.client.message())["method"] == "elicitation/create"
        answers = [await both.client.message() for _ in range(2)]
        assert {one.get("method") for one in answers} == {"notifications/cancelled", None}
        assert any(text_of(one).startswith(DENIED) for one in answers if "result" in one)


async def test_the_end_of_the_client_is_a_denial():
    async with between(approver=ClientApprover("*")) as both:
        await initialize(both, CAN)
        await both.client.send(call(1))
        await both.client.message()
        both.client.end()
        assert text_of(await both.client.message()).startswith(DENIED)
        assert await both.server.line() == b""


@pytest.mark.parametrize("can", [{}, CAN])
async def test_the_server_does_not_say_what_the_client_can(can):
    other = FakeHook(script={"approve_tool": True})
    async with between(other, approver=ClientApprover("*")) as both:
        await initialize(both, {} if can else CAN)
        await both.server.send({"id": 1, "method": "initialize", "params": {"capabilities": can}})
        await both.client.line()
        await both.client.send(call(1))
        if can:
            assert await both.server.line() == call(1)
        else:
            assert (await both.client.message())["method"] == "elicitation/create"


async def test_the_server_cannot_answer_the_clients_question():
    async with between(approver=ClientApprover("*")) as both:
        await initialize(both, CAN)
        await both.client.send(call(1))
        asked = await both.client.message()
        await both.server.send({"id": asked["id"], "result": YES}, {"method": "next"})
        assert (await both.client.message())["method"] == "next"
        await both.client.send({"id": asked["id"], "result": NO[0]})
        assert text_of(await both.client.message()).startswith(DENIED)


# The newer protocol.

NEWER = {**META, "io.modelcontextprotocol/clientCapabilities": CAN}


def newer(identity, *, meta=NEWER, tool="write", arguments=None, **more):
    params = {"name": tool, "arguments": arguments or {"a": 1}, "_meta": meta, **more}
    return as_line({"id": identity, "method": "tools/call", "params": params})


async def question(both, line):
    """The question that is the result of this call."""
    await both.client.send(line)
    asked = (await both.client.message())["result"]
    assert asked["resultType"] == "input_required"
    (key,) = asked["inputRequests"]
    assert asked["inputRequests"][key]["method"] == "elicitation/create"
    return {"requestState": asked["requestState"], "inputResponses": {key: YES}}


async def test_a_newer_client_repeats_its_call_with_the_answer_and_the_server_sees_a_plain_call():
    async with between(approver=ClientApprover("*")) as both:
        answers = await question(both, newer(1))
        await both.client.send(newer(2, **answers))
        assert await both.server.line() == newer(2).replace(b", ", b",").replace(b": ", b":")
        await both.server.send(result(2, "done"))
        assert await both.client.line() == result(2, "done")


@each("answer", NO)
async def test_everything_but_a_clear_yes_of_a_newer_client_is_a_denial(answer):
    async with between(approver=ClientApprover("*")) as both:
        answers = await question(both, newer(1))
        (key,) = answers["inputResponses"]
        await both.client.send(newer(2, **{**answers, "inputResponses": {key: answer}}))
        assert text_of(await both.client.message()).startswith(DENIED)


async def test_an_approval_counts_once_for_one_call():
    async with between(approver=ClientApprover("*")) as both:
        for other in ({"arguments": {"a": 2}}, {"tool": "other"}, {"arguments": {"a": True}}):
            answers = await question(both, newer(1))
            await both.client.send(newer(2, **other, **answers))
            assert "for another call" in text_of(await both.client.message())
            await both.client.send(newer(3, **answers))
            assert "was used before" in text_of(await both.client.message())
        answers = await question(both, newer(1))
        await both.client.send(newer(4, **answers))
        await both.server.line()
        await both.client.send(newer(5, **answers))
        assert "was used before" in text_of(await both.client.message())


async def test_an_approval_that_comes_too_late_does_not_count(monkeypatch):
    monkeypatch.setattr(approval, "EXPIRES", 0.0)
    async with between(approver=ClientApprover("*")) as both:
        answers = await question(both, newer(1))
        await both.client.send(newer(2, **answers))
        assert "has expired" in text_of(await both.client.message())


@pytest.mark.parametrize("state", ["picohook.", "picohook.forged"])
async def test_a_forged_approval_does_not_count(state):
    async with between(approver=ClientApprover("*")) as both:
        answers = await question(both, newer(1))
        await both.client.send(newer(2, **{**answers, "requestState": state}))
        assert text_of(await both.client.message()).startswith(DENIED)


async def test_the_oldest_questions_are_forgotten(monkeypatch):
    monkeypatch.setattr(approval, "MOST_WAITING", 1)
    async with between(approver=ClientApprover("*")) as both:
        first, second = [await question(both, newer(number)) for number in range(2)]
        await both.client.send(newer(2, **first))
        assert text_of(await both.client.message()).startswith(DENIED)
        await both.client.send(newer(3, **second))
        assert (await both.server.message())["id"] == 3


async def test_a_newer_client_that_cannot_ask_is_denied():
    async with between(approver=ClientApprover("*")) as both:
        await initialize(both, CAN)
        await both.client.send(newer(1, meta=META))
        assert "the client cannot ask its user" in text_of(await both.client.message())


async def test_the_servers_own_question_goes_on_after_the_approval():
    own = {"requestState": "the server's", "inputResponses": {"k": {"action": "accept"}}}
    async with between(approver=ClientApprover("*")) as both:
        answers = await question(both, newer(1, **own))
        await both.client.send(newer(2, **answers))
        params = (await both.server.message())["params"]
        assert {name: params[name] for name in own} == own


async def test_a_denial_by_another_hook_is_no_question():
    deny = FakeHook(script={"before_tool": {"action": "deny_tool", "reason": "no"}})
    async with between(deny, approver=ClientApprover("*")) as both:
        await both.client.send(newer(1))
        assert text_of(await both.client.message()) == "Tool execution denied by hook: no"


async def test_two_questions_at_once_are_not_mixed_up():
    async with between(approver=ClientApprover("*")) as both, anyio.create_task_group():
        await both.client.send(newer(1), newer(2, arguments={"a": 2}))
        states = {}
        for _ in range(2):
            answer = await both.client.message()
            states[answer["id"]] = answer["result"]["requestState"]
        yes = {"inputResponses": {"picohook_approval": YES}}
        await both.client.send(
            newer(3, arguments={"a": 2}, requestState=states[2], **yes), newer(4, requestState=states[1], **yes)
        )
        assert {(await both.server.message())["id"] for _ in range(2)} == {3, 4}
