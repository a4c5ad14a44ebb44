"""Questions of an older MCP server to the client's model: hooks decide on each, and on the answer."""

from __future__ import annotations

import anyio
import pytest
from loops import ON_BOTH
from mcp_ends import as_line, between, call
from rows import each
from scripted import PATIENCE

from picohook import FunctionHook
from picohook.testing import FakeHook, RecordingHost

pytestmark = pytest.mark.anyio


def text(text):
    return {"type": "text", "text": text}


HELLO = {"role": "user", "content": text("hello")}
IMAGE = {"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]}
TOOL = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}, "annotations": {"a": 1}}
FULL = {
    "messages": [HELLO, IMAGE],
    "modelPreferences": {"hints": [{"name": "small"}], "costPriority": 1},
    "systemPrompt": "Be brief.",
    "maxTokens": 100,
    "temperature": 1.0,
    "stopSequences": ["x"],
    "tools": [TOOL],
    "metadata": {"m": 1e2},
}


def asks(identity=7, **params):
    return as_line({"id": identity, "method": "sampling/createMessage", "params": {"messages": [HELLO], **params}})


def says(answer="hi", identity=7, **more):
    result = {"role": "assistant", "content": text(answer), "model": "m", "stopReason": "endTurn"}
    return as_line({"id": identity, "result": {**result, **more}})


async def answered_as(hook, answer):
    """What the server gets for this answer of the client."""
    async with between(hook) as both:
        await both.server.send(asks())
        await both.client.line()
        await both.client.send(answer)
        return await both.server.message()


async def test_a_question_and_its_answer_pass_byte_for_byte_and_hooks_see_both():
    hook = FakeHook(script={"before_llm": None, "after_llm": None})
    async with between(hook) as both:
        await both.server.send(asks(**FULL))
        assert await both.client.line() == asks(**FULL)
        await both.client.send(says())
        assert await both.server.line() == says()
    (asked,) = hook.asked_at("before_llm")
    assert asked.system_prompt == "Be brief."
    assert asked.messages == [{"role": "user", "content": "hello"}, IMAGE]
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    assert asked.tools == [{"type": "function", "function": function}]
    assert asked.context == {"mcp_server": "demo", "mcp_method": "sampling/createMessage"}
    (answer,) = hook.asked_at("after_llm")
    assert answer.response == {"role": "assistant", "content": "hi", "model": "m", "stopReason": "endTurn"}
    assert answer.model == "m"


async def test_observers_are_told_of_the_question_and_the_answer():
    host = RecordingHost([])
    async with between(host=host) as both:
        await both.server.send(asks(maxTokens=5))
        await both.client.line()
        await both.client.send(says())
        await both.server.line()
    told = {event.kind: event.payload for event in host.events}
    assert (told["llm_request"]["MessagesCount"], told["llm_response"]["ContentLen"]) == (1, 2)


async def test_what_hooks_add_to_every_request_is_left_out():
    notes = {"additional_context": "It rains.", "inject_messages": [{"role": "user", "content": "and?"}]}
    async with between(FakeHook(script={"before_llm": notes})) as both:
        await both.server.send(asks())
        assert await both.client.line() == asks()


@each(
    "answer",
    [
        {"action": "modify", "request": {"messages": [{"role": "user", "content": "*"}]}},
        {"action": "modify", "request": {"options": {"max_tokens": 5}}},
        {"action": "respond", "result": {"content": "mine"}},
        {"action": "retry", "feedback": "shorter"},
    ],
)
async def test_a_question_that_hooks_change_or_answer_is_refused(answer):
    async with between(FakeHook(script={"before_llm": [answer, None], "after_llm": None})) as both:
        await both.server.send(asks(**FULL), {"method": "next"})
        assert (await both.client.message())["method"] == "next"
        error = (await both.server.message())["error"]
        assert (error["code"], "only as the server asked it" in error["message"]) == (-32000, True)


@pytest.mark.parametrize("action", ["abort_turn", "hard_abort"])
async def test_a_question_that_hooks_refuse_does_not_reach_the_client(action):
    hook = FakeHook(script={"before_llm": {"action": action, "reason": "not this"}})
    async with between(hook) as both:
        await both.server.send(asks(), {"method": "next"})
        assert (await both.client.message())["method"] == "next"
        answer = await both.server.message()
        assert (answer["id"], answer["error"]["code"]) == (7, -32000)
        assert "not this" in answer["error"]["message"]
        await both.client.send(call(1))
        if action == "hard_abort":
            assert (await both.client.message())["result"]["isError"] is True
        else:
            assert await both.server.line() == call(1)


async def test_a_failing_guard_refuses_the_question():
    hook = FakeHook(script={"before_llm": RuntimeError("broken")}, on_failure="deny")
    async with between(hook) as both:
        await both.server.send(asks())
        assert "error" in await both.server.message()


@each("answer", [{"action": "modify", "response": {"content": "***"}}, {"action": "retry", "feedback": "shorter"}])
async def test_an_answer_that_hooks_change_is_refused(answer):
    got = await answered_as(FakeHook(script={"after_llm": [answer, None]}), says("secret"))
    assert (got["id"], got["error"]["code"], "secret" in str(got)) == (7, -32000, False)
    assert "only as the client gave it" in got["error"]["message"]


@pytest.mark.parametrize("action", ["abort_turn", "hard_abort"])
async def test_an_answer_that_hooks_refuse_does_not_reach_the_server(action):
    got = await answered_as(FakeHook(script={"after_llm": {"action": action, "reason": "no"}}), says("secret"))
    assert "secret" not in str(got)
    assert got["error"]["code"] == -32000


async def test_a_refusal_of_the_client_passes_as_it_is():
    hook = FakeHook(script={"after_llm": None})
    line = as_line({"id": 7, "error": {"code": -1, "message": "the user said no"}})
    async with between(hook) as both:
        await both.server.send(asks())
        await both.client.line()
        await both.client.send(line)
        assert await both.server.line() == line
    assert hook.asked_at("after_llm") == []


@each(
    "params",
    [
        {"messages": "x"},
        {"messages": ["x"]},
        {"messages": [{"role": "user", "content": "x"}]},
        {"messages": [{**HELLO, "Content": "x"}]},
        {"Messages": []},
        {"tools": [7]},
        {"systemPrompt": 7},
        {"task": {}},
    ],
)
async def test_a_question_that_hooks_cannot_be_shown_is_refused(params):
    async with between() as both:
        await both.server.send(asks(**params), {"method": "next"})
        assert (await both.client.message())["method"] == "next"
        assert (await both.server.message())["error"]["code"] == -32600


@pytest.mark.parametrize("result", [7, {}, {"content": "x"}, {"content": [7]}, {"content": {}, "Content": {}}])
async def test_an_answer_that_hooks_cannot_be_shown_is_refused(result):
    got = await answered_as(FakeHook(), as_line({"id": 7, "result": result}))
    assert (got["id"], got["error"]["code"]) == (7, -32000)


async def test_a_question_without_an_id_is_refused():
    async with between() as both:
        await both.server.send({"method": "sampling/createMessage", "params": {"messages": []}}, {"method": "next"})
        assert (await both.client.message())["method"] == "next"


@ON_BOTH
async def test_a_question_that_is_cancelled_while_hooks_decide_never_reaches_the_client():
    asked, left = anyio.Event(), anyio.Event()

    async def wait(_):
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.set()

    async with between(FunctionHook("gate", {"before_llm": wait})) as both:
        with anyio.fail_after(PATIENCE):
            await both.server.send(asks())
            await asked.wait()
            await both.server.send({"method": "notifications/cancelled", "params": {"requestId": 7}})
            await left.wait()
        await both.server.send({"method": "next"})
        assert (await both.client.message())["method"] == "next"


async def test_the_client_cannot_be_asked_by_itself():
    """Only a server asks a model. The same line of the client is like any other."""
    line = as_line({"id": 1, "method": "sampling/createMessage"})
    hook = FakeHook(script={"before_llm": None})
    async with between(hook) as both:
        await both.client.send(line)
        assert await both.server.line() == line
    assert hook.asked_at("before_llm") == []
