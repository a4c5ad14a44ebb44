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


async def test_a_hook_is_asked_through_it(endpoint):
    endpoint.says('Let me see. {"action": "skip", "retry_feedback": "it deletes everything"}')
    hook = HookSpec(name="careful", prompt="Is {{tool_arguments}} safe?", model="judge", stages=("before_tool",))
    async with Host([hook], timeouts=FAR, complete=openai_chat(endpoint.url, model="gpt-4o")) as host:
        outcome = await host.before_tool(ToolCall(tool="Bash", arguments={"command": "rm -rf /"}))
    assert (outcome.action, outcome.reason) == ("deny_tool", "it deletes everything")
    body = endpoint.asked[0][2]
    assert body["model"] == "judge"
    assert body["messages"][0]["content"].startswith('Is {"command":"rm -rf /"} safe?\n')
