"""A response of the model that arrives in pieces."""

from __future__ import annotations

import pytest

from picohook import AbortTurn, AbortTurnError, FunctionHook, Host, Modify, PicohookError, Retry

pytestmark = pytest.mark.anyio

REQUEST = {"messages": [{"role": "user", "content": "hi"}], "model": "m1"}
PIECES = ["One ", "two ", "three."]


def asked(reply=None, **settings):
    """A hook that is asked about responses."""
    return FunctionHook("filter", {"after_llm": reply or (lambda _: None)}, **settings)


async def shown(stream, pieces=PIECES):
    """What the user sees of these pieces before the response is concluded."""
    return [await stream.add(piece) for piece in pieces]


async def test_each_piece_is_shown_at_once_where_no_hook_is_asked():
    async with Host([FunctionHook("guard", {"before_tool": lambda _: None})]) as host:
        decided = await host.decide_llm(REQUEST)
        stream = decided.stream()
        assert stream.unguarded
        assert await shown(stream) == PIECES
        response = await stream.conclude({"content": "".join(PIECES)})
    assert response is decided.response
    assert response.response == {"content": "One two three."}
    assert stream.rest == ""


async def test_nothing_is_shown_before_hooks_have_seen_the_whole_response():
    async with Host([asked(lambda _: Modify({"content": "Four."}))]) as host:
        stream = (await host.decide_llm(REQUEST)).stream()
        assert not stream.unguarded
        assert await shown(stream) == ["", "", ""]
        await stream.conclude({"content": "".join(PIECES)})
    assert stream.rest == "Four."


@pytest.mark.parametrize(
    ("given", "unguarded"),
    [({"model": "m2"}, True), ({"model": "m1"}, False), ({"model": "m1", "when": {"response": {}}}, False)],
)
async def test_a_hook_whose_filter_does_not_match_holds_nothing_back(given, unguarded):
    async with Host([asked(filter=given)]) as host:
        assert (await host.decide_llm(REQUEST)).stream().unguarded is unguarded


async def test_each_model_call_finds_out_anew_whether_hooks_are_asked():
    async with Host() as host:
        assert (await host.decide_llm(REQUEST)).stream().unguarded
        await host.mount(asked())
        assert not (await host.decide_llm(REQUEST)).stream().unguarded
        await host.unmount("filter")
        assert (await host.decide_llm(REQUEST)).stream().unguarded


async def test_each_round_has_its_own_stream():
    async with Host([asked(lambda answer: Retry("again") if answer.response["content"] == "no" else None)]) as host:
        decided = await host.decide_llm(REQUEST)
        stream = decided.stream()
        assert await stream.conclude({"content": "no"}) is None
        assert stream.rest == ""
        stream = decided.stream()
        await stream.conclude({"content": "yes"})
    assert stream.rest == "yes"


async def test_a_response_that_a_hook_refuses_has_no_rest():
    async with Host([asked(lambda _: AbortTurn("enough"))]) as host:
        stream = (await host.decide_llm(REQUEST)).stream()
        with pytest.raises(AbortTurnError, match="enough"):
            await stream.conclude({"content": "One."})
    assert stream.rest == ""


async def test_a_stream_is_concluded_once():
    async with Host() as host:
        stream = (await host.decide_llm(REQUEST)).stream()
        await stream.conclude({"content": ""})
        with pytest.raises(PicohookError, match="cannot be concluded"):
            await stream.conclude({"content": ""})
