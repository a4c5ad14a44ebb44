"""Questions of newer MCP servers to the client's model: hooks decide on each, and on the answer in the repeated request."""

from __future__ import annotations

import pytest
from mcp_ends import META, as_line, between

from picohook.ext.mcp import input_rounds
from picohook.ext.mcp.approval import ClientApprover
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio

HELLO = {"role": "user", "content": {"type": "text", "text": "hello"}}
ASKED = {"messages": [HELLO], "maxTokens": 5}
MODEL = {"method": "sampling/createMessage", "params": ASKED}
USER = {"method": "elicitation/create", "params": {"message": "sure?"}}
SAID = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m", "stopReason": "endTurn"}
YES = {"action": "accept", "content": {"sure": True}}


@pytest.fixture(params=["tools/call", "prompts/get"])
def method(request):
    return request.param


class Talk:
    """A client and a server of the newer era, with hooks between them."""

    def __init__(self, both, method):
        self.both = both
        self.method = method
        self.number = 0

    async def ask(self, **more):
        """The client asks, and the server gets these params."""
        await self.send(**more)
        return (await self.both.server.message())["params"]

    async def send(self, **more):
        self.number += 1
        params = {"name": "x", "_meta": META, **more}
        await self.both.client.send({"id": self.number, "method": self.method, "params": params})

    async def require(self, requests, **more):
        """The server requires input. Returns the result that the client gets."""
        result = {"resultType": "input_required", "inputRequests": requests, **more}
        await self.both.server.send({"id": self.number, "result": result})
        return await self.result()

    async def result(self):
        answer = await self.both.client.message()
        assert answer["id"] == self.number
        return answer.get("result") or answer["error"]

    async def require_refusal(self):
        """The client's last request was refused, and did not reach the server."""
        refused = await self.result()
        assert refused.get("isError") or refused["code"] == -32000
        await self.both.client.send({"method": "next"})
        assert (await self.both.server.message())["method"] == "next"
        return str(refused)


async def test_hooks_see_the_question_and_the_answer_and_the_server_gets_its_own_state_back(method):
    hook = FakeHook(script={"before_llm": None, "after_llm": None})
    async with between(hook) as both:
        talk = Talk(both, method)
        await talk.ask()
        requests = {"m": MODEL, "u": USER}
        asked = await talk.require(requests, requestState="s", other=1)
        assert (asked["inputRequests"], asked["other"]) == (requests, 1)
        given = {"m": SAID, "u": YES}
        got = await talk.ask(requestState=asked["requestState"], inputResponses=given)
        assert got == {"name": "x", "_meta": META, "requestState": "s", "inputResponses": given}
    assert hook.asked_at("before_llm")[0].messages == [{"role": "user", "content": "hello"}]
    assert hook.asked_at("before_llm")[0].context == {"mcp_server": "demo", "mcp_method": "sampling/createMessage"}
    assert hook.asked_at("after_llm")[0].response["content"] == "hi"


async def test_a_result_that_does_not_ask_the_model_passes_byte_for_byte(method):
    line = as_line(
        {"id": 1, "result": {"resultType": "input_required", "inputRequests": {"u": USER}, "requestState": "s"}}
    )
    async with between() as both:
        talk = Talk(both, method)
        await talk.ask()
        await both.server.send(line)
        assert await both.client.line() == line
        assert (await talk.ask(requestState="s", inputResponses={"u": YES}))["requestState"] == "s"


async def test_hooks_edit_the_question_and_the_answer(method):
    question = {"action": "modify", "request": {"system_prompt": "Be brief."}}
    answer = {"action": "modify", "response": {"content": "***"}}
    async with between(FakeHook(script={"before_llm": question, "after_llm": answer})) as both:
        talk = Talk(both, method)
        await talk.ask()
        asked = await talk.require({"m": MODEL})
        assert asked["inputRequests"]["m"]["params"] == {**ASKED, "systemPrompt": "Be brief."}
        got = await talk.ask(requestState=asked["requestState"], inputResponses={"m": SAID})
        assert got["inputResponses"]["m"]["content"] == {"type": "text", "text": "***"}
        assert "requestState" not in got


async def test_a_hook_answers_in_place_of_the_model(method):
    respond = {"action": "respond", "result": {"content": "mine"}}
    async with between(FakeHook(script={"before_llm": respond})) as both:
        talk = Talk(both, method)
        await talk.ask()
        asked = await talk.require({"m": MODEL})
        assert asked["inputRequests"] == {}
        got = await talk.ask(requestState=asked["requestState"])
        assert got["inputResponses"]["m"]["content"] == {"type": "text", "text": "mine"}


async def test_the_model_is_asked_again_with_the_feedback_of_a_hook(method):
    hook = FakeHook(script={"after_llm": [{"action": "retry", "feedback": "shorter"}, None]})
    async with between(hook) as both:
        talk = Talk(both, method)
        await talk.ask()
        asked = await talk.require({"m": MODEL, "u": USER}, requestState="s")
        await talk.send(requestState=asked["requestState"], inputResponses={"m": SAID, "u": YES})
        asked = await talk.result()
        assert asked["inputRequests"]["m"]["params"]["messages"][-1]["content"]["text"] == "shorter"
        assert list(asked["inputRequests"]) == ["m"]
        got = await talk.ask(requestState=asked["requestState"], inputResponses={"m": SAID})
        assert (got["requestState"], got["inputResponses"]) == ("s", {"m": SAID, "u": YES})


@pytest.mark.parametrize("question", [MODEL, {**MODEL, "params": {"messages": "x"}}])
async def test_a_question_that_hooks_refuse_or_cannot_see_does_not_reach_the_client(method, question):
    hook = FakeHook(script={"before_llm": {"action": "abort_turn", "reason": "not this"}})
    async with between(hook) as both:
        talk = Talk(both, method)
        await talk.ask()
        refused = await talk.require({"m": question})
        assert "a question to the model was refused" in str(refused)
        assert "hello" not in str(refused)


@pytest.mark.parametrize("said", [SAID, {"content": 7}])
async def test_an_answer_that_hooks_refuse_or_cannot_see_does_not_reach_the_server(method, said):
    async with between(FakeHook(script={"after_llm": {"action": "abort_turn", "reason": "no"}})) as both:
        talk = Talk(both, method)
        await talk.ask()
        asked = await talk.require({"m": MODEL})
        await talk.send(requestState=asked["requestState"], inputResponses={"m": said})
        assert "a question to the model was refused" in await talk.require_refusal()


@pytest.mark.parametrize("how", ["twice", "late", "forged", "without a state"])
async def test_an_answer_that_hooks_were_not_asked_about_does_not_reach_the_server(method, how, monkeypatch):
    async with between(FakeHook(script={"after_llm": None})) as both:
        talk = Talk(both, method)
        await talk.ask()
        if how == "late":
            monkeypatch.setattr(input_rounds, "EXPIRES", -1.0)
        state = (await talk.require({"m": MODEL}))["requestState"]
        if how == "twice":
            await talk.ask(requestState=state, inputResponses={"m": SAID})
        states = {"forged": {"requestState": state[:-1]}, "without a state": {}}
        await talk.send(inputResponses={"m": SAID}, **states.get(how, {"requestState": state}))
        await talk.require_refusal()


async def test_the_oldest_questions_are_forgotten(method, monkeypatch):
    monkeypatch.setattr(input_rounds, "MOST_BYTES", 1000)
    async with between() as both:
        talk = Talk(both, method)
        states = []
        for _ in range(5):
            await talk.ask()
            states.append((await talk.require({"m": MODEL}))["requestState"])
        assert len(both.proxy._shared.rounds._rounds) < 5
        await talk.ask(requestState=states[-1], inputResponses={"m": SAID})
        await talk.send(requestState=states[0], inputResponses={"m": SAID})
        await talk.require_refusal()


async def test_the_answer_continues_after_the_user_has_approved_the_call_again():
    elicits = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    hook = FakeHook(script={"after_llm": None})
    async with between(hook, approver=ClientApprover("*")) as both:
        talk = Talk(both, "tools/call")

        async def approved(**more):
            await talk.send(_meta=elicits, **more)
            state = (await talk.result())["requestState"]
            answer = {"picohook_approval": {"action": "accept", "content": {"approve": True}}}
            return await talk.ask(_meta=elicits, requestState=state, inputResponses=answer)

        await approved()
        asked = await talk.require({"m": MODEL}, requestState="s")
        got = await approved(requestState=asked["requestState"], inputResponses={"m": SAID})
        assert (got["requestState"], got["inputResponses"]) == ("s", {"m": SAID})
    assert len(hook.asked_at("after_llm")) == 1
