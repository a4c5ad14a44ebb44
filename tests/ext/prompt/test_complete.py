"""The ready `complete`, against a server of our own."""

from __future__ import annotations

import sys

import pytest
from kinds_support import FAR

from picohook import HookSpec, Host, PicohookError, ToolCall, openai_chat

pytestmark = pytest.mark.anyio


async def test_a_prompt_is_one_user_message_and_the_text_comes_back(endpoint):
    endpoint.says("你好")
    complete = openai_chat(endpoint.url, "key-1", model="gpt-4o", temperature=0)
    assert await complete("hello", None) == "你好"
    path, headers, body = endpoint.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer key-1"
    assert body == {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}], "temperature": 0}


async def test_a_hook_can_name_another_model_and_a_key_is_not_needed(endpoint):
    endpoint.says("hi")
    await openai_chat(endpoint.url + "/", model="gpt-4o")("hello", "gpt-4o-mini")
    path, headers, body = endpoint.asked[0]
    assert (path, body["model"]) == ("/v1/chat/completions", "gpt-4o-mini")
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("status", "text", "complaint"),
    [
        (401, '{"error": "no such key"}', 'answered 401: {"error": "no such key"}'),
        (500, "\x1b[2J" + "x" * 1000, r"answered 500: \\x1b\[2Jx{196}$"),
        (307, "", "answered 307"),
        (200, "hello", r"answered with no text: choices\[0\]\.message\.content is not a string"),
        (200, "{}", "answered with no text"),
        (200, '{"choices": []}', "answered with no text"),
        (200, '{"choices": [{"message": {"content": null}}]}', "answered with no text"),
        (200, "[" * 100_000, "answered with no text"),
    ],
)
async def test_errors_never_hold_the_key(endpoint, status, text, complaint):
    endpoint.answers.append((status, text))
    with pytest.raises(PicohookError, match=complaint) as caught:
        await openai_chat(endpoint.url, "key-1", model="gpt-4o")("hello", None)
    assert "key-1" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "nonsense", "http://[::1/v1"])
async def test_a_missing_endpoint_is_named(url):
    with pytest.raises(PicohookError, match="cannot be asked: "):
        await openai_chat(url, model="gpt-4o")("hello", None)


async def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(PicohookError, match=r"openai_chat needs httpx: .* -m pip install 'httpx>=0.27'"):
        openai_chat("http://127.0.0.1:1/v1", model="gpt-4o")


CALL = ToolCall(tool="Bash", arguments={"command": "rm -rf /"})
SAFE = HookSpec(name="careful", prompt="Is {{tool_arguments}} safe?", model="judge", stages=("before_tool",))


async def test_A11_a_hook_asks_with_its_data_apart_and_the_answer_has_to_fit_a_schema(endpoint):
    endpoint.says({"action": "skip", "retry_feedback": "it deletes everything"})
    async with Host([SAFE], timeouts=FAR, complete=openai_chat(endpoint.url, model="gpt-4o", n=1)) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.reason) == ("deny_tool", "it deletes everything")
    ((_, _, body),) = endpoint.asked
    assert (body["model"], body["n"]) == ("judge", 1)
    system, user = body["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["content"].startswith("Is {{tool_arguments}} safe?\n")
    assert "rm -rf" in user["content"]
    assert "rm -rf" not in system["content"]
    form = body["response_format"]["json_schema"]
    assert form["strict"] is True
    assert {"nonce", "action", "tool_arguments"} <= form["schema"]["properties"].keys()


@pytest.mark.parametrize("status", [400, 422, 501])
async def test_an_endpoint_without_structured_output_gets_one_text_and_is_not_tried_again(endpoint, status):
    complete = openai_chat(endpoint.url, model="gpt-4o")
    async with Host([SAFE], timeouts=FAR, complete=complete) as host:
        endpoint.answers.append((status, "what is response_format?"))
        for _ in range(2):
            endpoint.says({"action": "skip"})
            assert (await host.before_tool(CALL)).action == "deny_tool"
    bodies = [body for _, _, body in endpoint.asked]
    assert ["response_format" in body for body in bodies] == [True, False, False]
    assert [message["role"] for message in bodies[1]["messages"]] == ["user"]


async def test_an_endpoint_that_refuses_both_forms_is_asked_in_both_the_next_time_too(endpoint):
    complete = openai_chat(endpoint.url, model="gpt-4o")
    async with Host([SAFE], timeouts=FAR, complete=complete) as host:
        for _ in range(2):
            endpoint.answers += [(400, "too long"), (400, "too long")]
            outcome = await host.before_tool(CALL)
            assert outcome.trail[0].error.endswith("answered 400: too long")
    assert ["response_format" in body for _, _, body in endpoint.asked] == [True, False, True, False]


async def test_a_programs_own_response_format_is_used(endpoint):
    own = {"type": "json_object"}
    endpoint.says({})
    complete = openai_chat(endpoint.url, model="gpt-4o", response_format=own)
    async with Host([SAFE], timeouts=FAR, complete=complete) as host:
        assert (await host.before_tool(CALL)).trail[0].error is None
    assert endpoint.asked[0][2]["response_format"] == own
