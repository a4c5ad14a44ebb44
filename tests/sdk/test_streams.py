"""Hooks of the SDK that take parts of a response."""

from __future__ import annotations

import pytest

from picohook.sdk import HookApp, testing


def app_of(*streams):
    app = HookApp("filter")
    for stream in streams:

        @app.after_llm(stream=stream)
        def redact(answer):
            text = answer.response["content"]
            if "1234" in text and answer.partial and answer.released == 2:
                return answer.modify(response={"content": text.replace("1234", "****")})
            return None

    return app


@pytest.mark.parametrize(("streams", "offered"), [([True], True), ([True, True], True), ([False], False), ([], False)])
def test_a_hook_offers_to_stream_if_its_handler_does(streams, offered):
    with testing.client(app_of(*streams)) as hook:
        assert ("stream" in hook.greeting["capabilities"]) is offered


@pytest.mark.parametrize("streams", [[True, False], [False, True]])
def test_a_hook_with_one_handler_for_whole_responses_does_not_offer_to_stream(streams):
    with testing.client(app_of(*streams)) as hook:
        assert "stream" not in hook.greeting["capabilities"]


def test_a_handler_sees_that_it_gets_a_part_and_what_of_it_is_out():
    with testing.client(app_of(True)) as hook:
        part = {"response": {"content": "a 1234"}, "partial": True, "released": 2}
        assert hook.after_llm(part).payload["response"]["content"] == "a ****"
        assert hook.after_llm({"response": {"content": "a 1234"}}).action == "continue"


def test_only_after_llm_takes_stream():
    with pytest.raises(TypeError, match=r"@app\.before_llm: only after_llm takes `stream`"):
        HookApp("x").before_llm(stream=True)(print)
