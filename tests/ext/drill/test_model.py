"""The model whose answers are a script."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from picohook.ext.drill.model import serving

CALL = ("c1", "space/run", {"command": "ls"})


def told(model, path, request):
    """What the model answers, as bytes."""
    body = json.dumps({"tools": [{}], **request}).encode()
    return urllib.request.urlopen(urllib.request.Request(model.url + path, body)).read()


def events(body):
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]


def test_it_speaks_as_three_vendors_do():
    with serving({"": [[CALL], [CALL], [CALL], [CALL]]}) as model:
        anthropic = events(told(model, "/v1/messages?beta=true", {}))
        openai = events(told(model, "/v1/responses", {}))
        streamed = events(told(model, "/v1beta/models/m:streamGenerateContent?alt=sse", {}))
        google = json.loads(told(model, "/v1beta/models/m:generateContent", {}))
    assert anthropic[1]["content_block"] == {"type": "tool_use", "id": "c1", "name": "space/run", "input": {}}
    assert json.loads(anthropic[2]["delta"]["partial_json"]) == {"command": "ls"}
    item = openai[1]["item"]
    assert (item["namespace"], item["name"], item["call_id"]) == ("space", "run", "c1")
    (part,) = google["candidates"][0]["content"]["parts"]
    assert part["functionCall"] == {"id": "c1", "name": "space/run", "args": {"command": "ls"}}
    assert streamed == [google]


def test_it_is_done_after_its_script_and_gives_a_word_where_there_are_no_tools():
    with serving({}) as model:
        assert b'"text": "done"' in told(model, "/v1/messages", {})
        assert b'"text": "a word"' in told(model, "/v1/messages", {"tools": []})
        assert model.requests == 1
        with pytest.raises(urllib.error.HTTPError, match="404"):
            told(model, "/v1/count_tokens", {})


def test_a_sub_agent_has_its_own_script_and_a_step_can_be_made_when_it_is_due():
    with serving({"main": [lambda model: f"after {model.requests}"], "helper": ["helped"]}) as model:
        assert b"helped" in told(model, "/v1/messages", {"messages": "helper"})
        assert b"after 2" in told(model, "/v1/messages", {"messages": "main and helper"})


def test_the_end_of_a_script_waits_for_the_sub_agents_own():
    scripts = {"main": [], "helper": [lambda _: f"main has ended: {main.done()}", "helped"]}
    with serving(scripts) as model, ThreadPoolExecutor() as pool:
        main = pool.submit(told, model, "/v1/messages", {"messages": "main"})
        while not model.requests:
            pass
        for word in (b"main has ended: False", b"helped"):
            assert word in told(model, "/v1/messages", {"messages": "helper"})
        assert b"done" in main.result()


def test_it_knows_what_it_was_told_of_each_call():
    said = [
        {"content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"text": "one"}]}]},
        {"type": "function_call_output", "call_id": "b", "output": "two"},
        {"parts": [{"functionResponse": {"id": "c", "response": {"output": "three"}}}]},
    ]
    with serving({}) as model:
        told(model, "/v1/messages", {"messages": said})
        assert model.results == {"a": '[{"text": "one"}]', "b": "two", "c": '{"output": "three"}'}
