"""A response of the model that arrives in pieces."""

from __future__ import annotations

import contextlib
import re

import needs
import pytest

from picohook import (
    AbortTurn,
    AbortTurnError,
    EncodeError,
    FunctionHook,
    HardAbort,
    Host,
    Modify,
    PicohookError,
    Respond,
    Retry,
)
from picohook.testing import FakeHook, RecordingHost, hook_process

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


# Hooks that ask for parts.

EACH = {"characters": 1, "interval": 0, "window": 4}
"""A hook with these settings is asked at each piece, and the last four characters are held back."""


def parts(reply, **settings):
    """A hook that is asked about parts of responses, too."""
    return FakeHook("filter", {"after_llm": reply}, stream=EACH, **settings)


def redact(answer):
    text = answer.response["content"]
    return Modify({"content": text.replace("1234", "****")}) if "1234" in text else None


async def begun(host):
    return (await host.decide_llm(REQUEST)).stream()


async def test_a_hook_sees_the_text_so_far_and_the_user_all_but_a_window():
    hook = parts(None)
    async with Host([hook]) as host:
        stream = await begun(host)
        assert await shown(stream, ["abc", "def", "g", "hij"]) == ["", "ab", "c", "def"]
        await stream.conclude({"content": "abcdefghij"})
        assert stream.rest == "ghij"
    asked = [(one.response["content"], one.partial, one.released) for one in hook.asked_at("after_llm")]
    assert asked == [
        ("abcdef", True, None),
        ("abcdefg", True, 2),
        ("abcdefghij", True, 3),
        ("abcdefghij", None, 6),
    ]
    assert [one.messages for one in hook.asked_at("after_llm")] == [None, None, None, REQUEST["messages"]]


async def test_a_secret_that_is_cut_in_two_is_found():
    async with Host([parts(redact)]) as host:
        stream = await begun(host)
        seen = await shown(stream, ["my key is 12", "34, keep", " it to yourself"])
        response = await stream.conclude({"content": "my key is 1234, keep it to yourself"})
    assert "".join([*seen, stream.rest]) == "my key is ****, keep it to yourself" == response.response["content"]
    assert seen[0] == "my key i"
    assert response.released is None


async def test_a_hook_keeps_what_it_changed_in_an_earlier_part():
    hook = parts([Modify({"content": "my key is ****, ke"}), None, None])
    async with Host([hook]) as host:
        stream = await begun(host)
        seen = await shown(stream, ["my key is 1234, ke", "ep it"])
        response = await stream.conclude({"content": "my key is 1234, keep it", "tool_calls": []})
    assert "".join([*seen, stream.rest]) == "my key is ****, keep it"
    assert response.response == {"content": "my key is ****, keep it", "tool_calls": []}


async def test_a_secret_that_goes_on_after_a_part_is_hidden_whole():
    def hide(answer):
        text = re.sub("[0-9]{4,}", "****", answer.response["content"])
        return Modify({"content": text}) if text != answer.response["content"] else None

    async with Host([parts(hide)]) as host:
        stream = await begun(host)
        seen = await shown(stream, ["my key is 1234", "5678", ", keep it", " to yourself"])
        response = await stream.conclude({"content": "my key is 12345678, keep it to yourself"})
    assert seen == ["my key is ", "", "****, kee", "p it to your"]
    assert "".join([*seen, stream.rest]) == "my key is ****, keep it to yourself" == response.response["content"]


async def test_half_of_a_character_is_an_error_and_not_shown():
    async with Host([asked(stream={**EACH, "window": 1})]) as host:
        stream = await begun(host)
        assert await shown(stream, ["ab"]) == ["a"]
        with pytest.raises(EncodeError, match="surrogates not allowed"):
            await stream.add("\ud83d")


async def test_what_a_hook_adds_to_the_end_of_each_part_is_there_once():
    async with Host([parts(lambda answer: Modify({"content": answer.response["content"] + " (AI)"}))]) as host:
        stream = await begun(host)
        seen = await shown(stream, ["abcdef", "ghi"])
        await stream.conclude({"content": "abcdefghi"})
    assert "".join([*seen, stream.rest]) == "abcdefghi (AI)"


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize(("on_failure", "ends"), [("continue", False), ("deny", True), ("abort", True)])
async def test_a_change_of_what_is_out_already_is_a_failure(on_failure, ends, at_the_end):
    script = [None, None, Modify({"content": "gone"})] if at_the_end else [None, Modify({"content": "gone"}), None]
    hook = parts(script, on_failure=on_failure)
    async with RecordingHost([hook]) as host:
        stream = await begun(host)
        seen = await shown(stream, ["abcdef"])
        with contextlib.ExitStack() as stack:
            if ends:
                stack.enter_context(pytest.raises(AbortTurnError, match="changed text that the user has seen already"))
            seen += await shown(stream, ["ghi"])
            await stream.conclude({"content": "abcdefghi"})
        failed = host.outcomes_at("after_llm")[2 if at_the_end else 1]
    assert "the first" in failed.trail[0].error
    assert "".join([*seen, stream.rest]) == ("abcdefghi" if not ends else "abcde" if at_the_end else "ab")
    assert hook.status().failures == 1


@pytest.mark.parametrize("decision", [AbortTurn("enough"), HardAbort("enough")])
async def test_a_hook_ends_the_stream_with_its_reason(decision):
    async with Host([parts([None, decision])]) as host:
        stream = await begun(host)
        assert await shown(stream, ["abcdef"]) == ["ab"]
        with pytest.raises(AbortTurnError, match="enough"):
            await stream.add("ghi")
        with pytest.raises(PicohookError, match="cannot be concluded"):
            await stream.conclude({"content": "abcdefghi"})


async def test_another_round_is_possible_while_nothing_is_out():
    async with Host([parts([Retry("again"), Retry("again"), None])]) as host:
        decided = await host.decide_llm(REQUEST)
        stream = decided.stream()
        assert await shown(stream, ["abcdef", "ghi"]) == ["", ""]
        assert await stream.conclude({"content": "abcdefghi"}) is None
        stream = decided.stream()
        await stream.conclude({"content": "yes"})
    assert decided.request.messages[-1]["content"] == "again"
    assert stream.rest == "yes"


async def test_another_round_is_a_failure_when_something_is_out():
    async with RecordingHost([parts([None, Retry("again")])]) as host:
        stream = await begun(host)
        assert await shown(stream, ["abcdef"]) == ["ab"]
        await stream.conclude({"content": "abcdef"})
        assert "asked for another round" in host.outcomes[-1].trail[0].error
    assert stream.rest == "cdef"


@pytest.mark.parametrize(
    ("settings", "questions"),
    [
        ({"characters": 1, "interval": 0, "window": 0}, 6),
        ({"characters": 4, "interval": 0, "window": 0}, 3),
        ({"characters": 1, "interval": 0, "window": 8}, 2),
        ({"characters": 1, "interval": 1000, "window": 0}, 1),
    ],
)
async def test_a_hook_is_asked_at_most_so_often(settings, questions):
    hook = FakeHook("filter", {"after_llm": None}, stream=settings)
    async with Host([hook]) as host:
        await shown(await begun(host), ["ab"] * 6)
    assert len(hook.asked) == questions


async def test_nothing_is_out_early_if_another_hook_waits_for_the_whole_response():
    hook = parts(None)
    async with Host([hook, FunctionHook("whole", {"after_llm": lambda _: None})]) as host:
        stream = await begun(host)
        assert await shown(stream, ["abcdef", "ghi"]) == ["", ""]
        await stream.conclude({"content": "abcdefghi"})
    assert stream.rest == "abcdefghi"
    assert len(hook.asked) == 1


async def test_a_hook_that_is_mounted_during_a_stream_stops_it_until_it_has_seen_the_whole():
    async with Host([parts(None)]) as host:
        stream = await begun(host)
        assert await shown(stream, ["abcdef"]) == ["ab"]
        await host.mount(FunctionHook("late", {"after_llm": lambda answer: Modify({"content": "abXX"})}))
        assert await shown(stream, ["ghi", "jkl"]) == ["", ""]
        await stream.conclude({"content": "abcdefghijkl"})
    assert stream.rest == "XX"


async def test_what_is_held_back_for_a_hook_that_is_unmounted_is_held_back_until_the_end():
    async with Host([parts(None)]) as host:
        stream = await begun(host)
        assert await shown(stream, ["abcdef"]) == ["ab"]
        await host.unmount("filter")
        assert await shown(stream, ["ghi"]) == [""]
        await stream.conclude({"content": "abcdefghi"})
    assert stream.rest == "cdefghi"


async def test_a_hook_that_is_mounted_during_an_unguarded_stream_cannot_change_its_text_and_can_end_the_turn():
    def judge(answer):
        return AbortTurn("enough") if "bad" in answer.response["content"] else Modify({"content": "changed"})

    async with Host() as host:
        for text in ("fine", "bad"):
            stream = await begun(host)
            assert await shown(stream, [text]) == [text]
            if text == "fine":
                await host.mount(FunctionHook("late", {"after_llm": judge}))
                assert (await stream.conclude({"content": text})).response["content"] == "fine"
                await host.unmount("late")
            else:
                await host.mount(FunctionHook("late", {"after_llm": judge}))
                with pytest.raises(AbortTurnError, match="enough"):
                    await stream.conclude({"content": text})


async def test_a_response_that_is_not_the_one_that_was_streamed_is_refused():
    async with Host([parts(None)]) as host:
        stream = await begun(host)
        await shown(stream, ["abcdef"])
        with pytest.raises(PicohookError, match="does not begin with the text that it streamed"):
            await stream.conclude({"content": "something else"})


@pytest.mark.parametrize("on_failure", ["continue", "deny"])
async def test_a_hook_that_fails_at_a_part_counts_as_its_configuration_says(on_failure):
    async with Host([parts([OSError("the disk is full"), None], on_failure=on_failure)]) as host:
        stream = await begun(host)
        if on_failure == "deny":
            with pytest.raises(AbortTurnError, match="the disk is full"):
                await stream.add("abcdef")
            return
        assert await shown(stream, ["abcdef"]) == ["ab"]
        response = await stream.conclude({"content": "abcdef"})
    assert [one.trail[0].error for one in response.trails[1:]] == ["OSError: the disk is full", None]


# Whole calls and turns.


def answers(*rounds):
    """A model that says these pieces, round by round."""
    left = iter(rounds)

    async def complete(request):
        del request
        for piece in next(left):
            yield piece

    return complete


async def test_run_llm_shows_the_pieces_as_hooks_let_them_pass():
    seen = []
    async with Host([parts(redact)]) as host:
        pieces = ["my key is 12", "34, keep it"]
        response = await host.run_llm(REQUEST, answers(pieces), stream=seen.append)
    assert len(seen) > 1
    assert "".join(seen) == "my key is ****, keep it" == response.response["content"]


async def test_run_llm_takes_the_whole_message_after_its_pieces():
    seen = []
    call = {"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}}

    async def show(text):
        seen.append(text)

    async with Host() as host:
        said = answers(["Let me ", "see.", {"content": "Let me see.", "tool_calls": [call]}])
        response = await host.run_llm(REQUEST, said, stream=show)
    assert seen == ["Let me ", "see."]
    assert response.response["tool_calls"] == [call]


async def test_run_llm_shows_a_whole_message_too_and_one_that_a_hook_gives():
    async def complete(request):
        return {"content": request.model}

    seen = []
    async with Host() as host:
        await host.run_llm(REQUEST, complete, stream=seen.append)
        await host.mount(FunctionHook("h", {"before_llm": lambda _: Respond({"response": {"content": "mine"}})}))
        await host.run_llm(REQUEST, complete, stream=seen.append)
    assert seen == ["m1", "mine"]


async def test_run_llm_closes_the_models_stream_when_a_hook_ends_the_turn():
    closed = []

    async def complete(request):
        del request
        try:
            yield "abcdef"
            pytest.fail("it was asked for more")
        finally:
            closed.append(True)

    async with Host([parts(AbortTurn("enough"))]) as host:
        with pytest.raises(AbortTurnError, match="enough"):
            await host.run_llm(REQUEST, complete, stream=print)
    assert closed == [True]


@needs.other_rooms
async def test_a_turn_streams_its_responses():
    seen = []
    call = {"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    said = answers(["Let me see.", {"content": "Let me see.", "tool_calls": [call]}], ["my key is ", "1234"])
    async with Host([parts(redact)]) as host, host.session("s1") as session, session.turn("hello") as turn:
        result = await turn.run(complete=said, execute=lambda _: "ok", stream=seen.append)
    assert "".join(seen) == "Let me see.my key is ****"
    assert result.content == "my key is ****"
    assert [message["role"] for message in result.messages] == ["user", "assistant", "tool", "assistant"]


# Hooks that are processes.

FILTER = """
    def hello(params):
        return {"ok": True, "capabilities": {"stream": %s}}

    def after_llm(params):
        if params.get("released") and "crash" in params["response"]["content"]:
            sys.exit("the disk is full")
        text = params["response"]["content"]
        if params.get("partial") and "1234" in text:
            return {"action": "modify", "response": {"content": text.replace("1234", "****")}}
        return {}
"""


async def test_a_process_that_offers_to_stream_is_asked_about_parts():
    async with Host([hook_process(FILTER % True, stream=EACH, on_failure="deny")]) as host:
        stream = await begun(host)
        assert await shown(stream, ["the key is 12", "34, as you know"]) == ["the key i", "s ****, as you "]
        assert (await stream.conclude({"content": "the key is 1234, as you know"})).response["content"].endswith("know")
        stream = await begun(host)
        assert await shown(stream, ["abcdef"]) == ["ab"]
        with pytest.raises(AbortTurnError, match="the disk is full"):
            await stream.add(" crash")


async def test_a_process_that_does_not_offer_to_stream_gets_whole_responses_and_the_log_says_so(journal):
    async with Host([hook_process(FILTER % False, stream=EACH)], logger=journal) as host:
        stream = await begun(host)
        assert await shown(stream, ["the key is 12", "34"]) == ["", ""]
        await stream.conclude({"content": "the key is 1234"})
    assert stream.rest == "the key is 1234"
    (record,) = journal.all("stream has no effect", hook="process")
    assert record["why"].startswith("its hello does not offer the capability `stream`")
