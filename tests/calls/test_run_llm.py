"""A whole model call: before_llm, the model, after_llm, in as many rounds as hooks ask for."""

from __future__ import annotations

import json

import pytest
from scripted import SERVE, scripted

from picohook import (
    AbortTurn,
    AbortTurnError,
    Continue,
    FunctionHook,
    HardAbort,
    HardAbortError,
    Host,
    LLMRequest,
    LLMResponse,
    Meta,
    Modify,
    Notes,
    Respond,
    Retry,
    RetryLimitError,
    Timeouts,
)

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
HELLO = {"role": "user", "content": "hello"}
REQUEST = LLMRequest(model="m1", messages=[HELLO], meta=Meta(session_key="s1"), options={"max_tokens": 10})


class Model:
    def __init__(self):
        self.requests = []
        self.events = []
        self.observer = FunctionHook("story", on_event=self.take)

    async def take(self, event):
        self.events.append((event.kind, dict(event.payload)))

    async def complete(self, request):
        self.requests.append(request)
        return {"role": "assistant", "content": f"answer {len(self.requests)}", "reasoning": "hm"}

    async def told(self, host):
        await host.emit_and_wait("task_completed")
        assert self.events.pop()[0] == "task_completed"
        return self.events


@pytest.fixture
def model():
    return Model()


def hook(name, before=None, after=None, **settings):
    def handler(decide):
        async def handle(payload):
            return decide(payload) if callable(decide) else decide

        return handle

    handlers = {"before_llm": before, "after_llm": after}
    return FunctionHook(name, {stage: handler(d) for stage, d in handlers.items() if d is not None}, **settings)


async def test_the_request_goes_through_the_hooks_to_the_model_and_its_answer_back_through_them(model):
    hooks = [
        model.observer,
        hook("asks", before=Modify({"model": "m2", "messages": [HELLO, {"role": "user", "content": "really"}]})),
        hook("says", after=Modify({"content": "edited"})),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        response = await host.run_llm(REQUEST, model.complete)
        events = await model.told(host)
    assert [request.model for request in model.requests] == ["m2"]
    assert len(model.requests[0].messages) == 2
    assert isinstance(response, LLMResponse)
    assert response.response["content"] == "edited"
    assert response.meta == REQUEST.meta
    assert events == [
        ("llm_request", {"Model": "m2", "MessagesCount": 2, "ToolsCount": 0, "MaxTokens": 10, "Temperature": 0}),
        ("llm_response", {"ContentLen": len("edited"), "ToolCalls": 0, "HasReasoning": True}),
    ]


async def test_the_same_through_a_process(model, tmp_path):
    record = tmp_path / "record"
    spec = scripted("h", ["record", str(record)], SERVE, stages=("before_llm", "after_llm"), observe=("*",))
    async with Host([spec], timeouts=FAR) as host:
        await host.run_llm(REQUEST, model.complete)
    lines = [json.loads(line)["line"] for line in record.read_text().splitlines()]
    assert [line["method"] for line in lines if "method" in line and "id" in line][1:] == [
        "hook.before_llm",
        "hook.after_llm",
    ]
    assert [line["params"]["Kind"] for line in lines if line.get("method") == "hook.event"] == [
        "llm_request",
        "llm_response",
    ]


async def test_respond_stands_and_the_model_is_not_asked(model):
    hooks = [model.observer, hook("h", before=Respond({"role": "assistant", "content": "cached"}), after=Deny_never)]
    async with Host(hooks, timeouts=FAR) as host:
        response = await host.run_llm(REQUEST, model.complete)
        assert await model.told(host) == []
    assert response.response["content"] == "cached"
    assert model.requests == []


def Deny_never(_):
    pytest.fail("after_llm was asked")


async def test_retry_asks_again_with_the_feedback_until_the_hook_is_content(model):
    wants = iter([Retry("shorter"), Retry("politer"), None])
    async with Host([model.observer, hook("h", after=lambda _: next(wants))], timeouts=FAR) as host:
        response = await host.run_llm(REQUEST, model.complete)
        events = await model.told(host)
    assert response.response["content"] == "answer 3"
    assert [[message["content"] for message in request.messages] for request in model.requests] == [
        ["hello"],
        ["hello", "shorter"],
        ["hello", "shorter", "politer"],
    ]
    retries = [payload for kind, payload in events if kind == "llm_retry"]
    assert [(one["Attempt"], one["MaxRetries"], one["Reason"]) for one in retries] == [
        (1, 3, "shorter"),
        (2, 3, "politer"),
    ]


@pytest.mark.parametrize("where", ["before", "after"])
async def test_past_the_retry_limit_it_is_an_error_that_names_the_last_feedback(where, model):
    async with Host([model.observer, hook("h", **{where: Retry("again")})], timeouts=FAR, retry_limit=2) as host:
        with pytest.raises(RetryLimitError, match="more than 2 times; the last one: again"):
            await host.run_llm(REQUEST, model.complete)
        events = await model.told(host)
    assert len(model.requests) == (3 if where == "after" else 0)
    assert len([kind for kind, _ in events if kind == "llm_retry"]) == 2


async def test_without_any_retries_the_first_one_is_too_many(model):
    async with Host([hook("h", after=Retry("again"))], timeouts=FAR, retry_limit=0) as host:
        with pytest.raises(RetryLimitError):
            await host.run_llm(REQUEST, model.complete)
    assert len(model.requests) == 1


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(("decision", "error"), [(AbortTurn, AbortTurnError), (HardAbort, HardAbortError)])
async def test_decisions_that_end_the_turn_are_raised(where, decision, error, model):
    async with Host([hook("h", **{where: decision(reason="stop")})], timeouts=FAR) as host:
        with pytest.raises(error, match="stop") as caught:
            await host.run_llm(REQUEST, model.complete)
    assert type(caught.value) is error
    assert len(model.requests) == (where == "after")


async def test_additions_of_hooks_reach_the_model(model):
    notes = Notes(additional_context="be kind", inject_messages=({"role": "user", "content": "injected"},))
    async with Host([hook("h", before=Continue(notes=notes))], timeouts=FAR) as host:
        await host.run_llm(REQUEST.model_copy(update={"system_prompt": "base"}), model.complete)
    (request,) = model.requests
    assert request.system_prompt == "base\n\nbe kind"
    assert [message["content"] for message in request.messages] == ["hello", "injected"]


async def test_a_model_that_raises_raises_out_of_run_llm(model):
    async def fail(request):
        raise ConnectionError("no network")

    async with Host([hook("h", after=Deny_never)], timeouts=FAR) as host:
        with pytest.raises(ConnectionError, match="no network"):
            await host.run_llm(REQUEST, fail)
