"""A guarded agent still types, with the real clients of each framework and a server that speaks the providers' API."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from picohook import AbortTurn, AbortTurnError, Deny, FunctionHook, Host, Modify, Respond, Timeouts

from .provider import STREAMS, provider, stream_of

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

PIECES = ["One ", "two ", "three."]


GOES_ON = [name for name in STREAMS if name != "pydantic-ai/responses"]
"""Where a run continues after a text."""


@pytest.fixture(params=STREAMS)
def stream(request):
    """Streams an agent of a framework."""

    def begin(*given):
        return stream_of(request.param, *given)

    return begin


def host_of(stages=None, **settings):
    return Host([FunctionHook("h", stages or {}, **settings)], timeouts=Timeouts(interceptor=60, approval=60, chain=60))


async def collect(texts, pieces):
    """Collect the pieces one by one, so that they are seen while the stream runs."""
    async for text in texts:
        pieces.append(text)


def read(path: str) -> str:
    return f"text of {path}"


async def test_the_first_piece_is_out_before_the_models_second_one_comes(stream):
    seen = asyncio.Event()

    async def after_it_was_seen(place):
        if place:
            await seen.wait()

    async with host_of({"before_tool": lambda _: None}) as host, provider([PIECES], after_it_was_seen) as model:
        pieces = []
        async for text in stream(model, host):
            pieces.append(text)
            seen.set()
    assert pieces == PIECES


async def test_the_tool_calls_of_a_stream_are_made_as_hooks_decide(stream):
    ran = []

    def read(path: str) -> str:
        ran.append(path)
        return f"secret of {path}" if path == "redacted" else f"text of {path}"

    def judge(call):
        match call.arguments["path"]:
            case "denied":
                return Deny("no")
            case "answered":
                return Respond({"for_llm": "from the hook"})
            case "changed":
                return Modify({"arguments": {"path": "other"}})
        return None

    def redact(returned):
        text = returned.result.for_llm
        return Modify({"for_llm": text.replace("secret", "[gone]")}) if "secret" in text else None

    stages = {
        "before_tool": judge,
        "approve_tool": lambda call: call.arguments["path"] != "refused",
        "after_tool": redact,
    }
    calls = [(path, "read", {"path": path}) for path in ("a", "denied", "answered", "changed", "redacted", "refused")]
    async with host_of(stages) as host, provider([calls, PIECES]) as model:
        assert [text async for text in stream(model, host, [read])] == PIECES
    assert sorted(ran) == ["a", "other", "redacted"]
    assert "Tool execution denied by hook: no" in model.told["denied"]
    assert "Tool execution denied by approval hook" in model.told["refused"]
    told = {name: model.told[name] for name in ("a", "answered", "changed", "redacted")}
    assert told == {
        "a": "text of a",
        "answered": "from the hook",
        "changed": "text of other",
        "redacted": "[gone] of redacted",
    }


async def test_observers_are_told_of_a_stream_in_order(stream):
    kinds = []
    script = [[("1", "read", {"path": "a"})], PIECES]
    async with host_of(on_event=lambda event: kinds.append(event.kind)) as host, provider(script) as model:
        assert [text async for text in stream(model, host, [read])] == PIECES
    steps = ["llm_request", "llm_response", "tool_exec_start", "tool_exec_end", "llm_request", "llm_response"]
    assert kinds == ["turn_start", *steps, "turn_end", "task_completed"]


async def test_a_hook_that_is_mounted_during_a_run_sees_the_next_response_before_the_user(stream):
    pieces = []

    def edit(answer):
        assert pieces == []
        return Modify({"content": "edited"})

    async def mount(_):
        await host.mount(FunctionHook("late", {"after_llm": edit}))

    script = [[("1", "read", {"path": "a"})], PIECES]
    async with host_of({"before_tool": mount}) as host, provider(script) as model:
        await collect(stream(model, host, [read]), pieces)
    assert pieces == ["edited"]


async def test_a_response_that_a_hook_refuses_is_not_streamed(stream):
    pieces = []
    async with host_of({"after_llm": lambda _: AbortTurn("enough")}) as host, provider([PIECES]) as model:
        with pytest.raises(AbortTurnError, match="enough"):
            await collect(stream(model, host), pieces)
    assert pieces == []


async def test_a_stream_that_nobody_reads_any_more_is_closed(stream):
    async def only_the_first(place):
        if place:
            await asyncio.Event().wait()

    kinds = []
    stages = {"before_tool": lambda _: None}
    async with (
        host_of(stages, on_event=lambda event: kinds.append(event.kind)) as host,
        provider([PIECES], only_the_first) as model,
    ):
        async with aclosing(stream(model, host)) as pieces:
            assert await anext(pieces) == PIECES[0]
        await model.left.wait()
        await host.emit_and_wait("turn_start")
    assert kinds == ["turn_start", "llm_request", "turn_abort", "turn_end", "turn_start"]


# Hooks that ask for parts.

EACH = {"characters": 1, "interval": 0, "window": 4}
"""A hook with these settings is asked at each piece, and the last four characters are held back."""
SECRET = ["my key ", "is 12", "34, keep it", " to yourself"]


def redact(answer):
    text = answer.response["content"] or ""
    return Modify({"content": text.replace("1234", "****")}) if "1234" in text else None


async def test_a_hook_that_asks_for_parts_finds_a_secret_that_is_cut_in_two(stream):
    first = asyncio.Event()

    async def after_the_first_is_seen(place):
        if place == len(SECRET) - 1:
            await first.wait()

    pieces = []
    async with (
        host_of({"after_llm": redact}, stream=EACH) as host,
        provider([SECRET], after_the_first_is_seen) as model,
    ):
        async for text in stream(model, host):
            pieces.append(text)
            first.set()
    assert "".join(pieces) == "my key is ****, keep it to yourself"
    assert pieces[0] == "my "
    assert len(pieces) > 2


@pytest.mark.parametrize("stream", GOES_ON, indirect=True)
async def test_the_final_answer_is_the_one_that_was_streamed_and_tools_are_called_after_it(stream):
    script = [["Let me see. ", "Wait.", ("1", "read", {"path": "a"})], SECRET]
    seen = []

    def judge(answer):
        seen.append((answer.partial, answer.response.get("tool_calls") is not None))
        return redact(answer)

    async with host_of({"after_llm": judge}, stream=EACH) as host, provider(script) as model:
        pieces = [text async for text in stream(model, host, [read])]
    assert "my key is ****, keep it to yourself" in "".join(pieces)
    assert "1234" not in "".join(pieces)
    assert (None, True) in seen
    assert (True, True) not in seen
    assert model.told["1"] == "text of a"


async def test_a_hook_ends_a_stream_with_its_reason(stream):
    def judge(answer):
        return AbortTurn("enough") if "1234" in (answer.response["content"] or "") else None

    kinds = []
    pieces = []
    stages = {"after_llm": judge}
    async with (
        host_of(stages, stream=EACH, on_event=lambda event: kinds.append(event.kind)) as host,
        provider([SECRET]) as model,
    ):
        with pytest.raises(AbortTurnError, match="enough"):
            await collect(stream(model, host), pieces)
    assert "".join(pieces) == "my key i"
    assert kinds[-2:] == ["turn_abort", "turn_end"]


async def test_a_change_of_what_is_out_already_is_a_failure_of_the_hook(stream):
    def judge(answer):
        return None if answer.partial else Modify({"content": "gone"})

    async with host_of({"after_llm": judge}, stream=EACH) as host, provider([SECRET]) as model:
        assert "".join([text async for text in stream(model, host)]) == "".join(SECRET)
        assert "changed text that the user has seen already" in host.status().hooks[0].last_error
