"""What a process gets as params: the payload's JSON, to the byte, however much of it was made before."""

from __future__ import annotations

import copy
import json
import pickle
import tracemalloc

import pytest
from hypothesis import example, given, strategies as st

from picohook.errors import EncodeError
from picohook.model.encoded import Encoded
from picohook.model.payloads import Meta, ToolCall, ToolResult, ToolReturn
from picohook.protocol.codec import encode

anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.sampled_from(["null", 2**64, -(2**70), "\ud800", object()]),
    ),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=6,
)
texts = st.one_of(st.text(max_size=8), st.sampled_from(["null", "\ud800", '"', "\u2028"]))
metas = st.builds(
    Meta,
    session_key=texts,
    agent_id=texts,
    traceparent=texts,
    iteration=st.one_of(st.integers(0, 9), st.just(2**70)),
)


def made(make):
    try:
        return make()
    except EncodeError:
        return EncodeError


@given(metas, st.lists(st.dictionaries(st.text(max_size=5), anything, max_size=3), min_size=1, max_size=3))
@example(Meta(), [{"a": float("nan")}])
@example(Meta(), [{"a": None}])
@example(Meta(session_key="null"), [{"a": [1, {"b": None}]}])
def test_params_are_the_payload_encoded_as_a_whole(meta, all_arguments):
    for arguments in all_arguments:
        call = ToolCall(meta=meta, tool="bash", arguments=arguments)
        returned = ToolReturn(meta=meta, tool="bash", arguments=arguments, result=ToolResult(for_llm="x"))
        for payload in (call, returned):
            assert made(Encoded(payload).params) == made(lambda whole=payload: encode(whole.wire()))


def test_a_meta_that_was_encoded_is_as_any_other():
    meta, other = Meta(session_key="s"), Meta(session_key="s")
    Encoded(ToolCall(meta=meta, tool="bash")).params()
    assert (meta == other, hash(meta) == hash(other), repr(meta) == repr(other)) == (True, True, True)
    moved = meta.model_copy(update={"session_key": "t"})
    for one, key in ((moved, "t"), (copy.deepcopy(meta), "s"), (pickle.loads(pickle.dumps(meta)), "s")):
        assert json.loads(Encoded(ToolCall(meta=one, tool="bash")).params())["meta"]["SessionKey"] == key


@pytest.mark.parametrize("of", ["payload", "meta"])
def test_an_embedders_own_wire_form_is_used(of):
    class OwnCall(ToolCall):
        def wire(self):
            return {**super().wire(), "more": 1}

    class OwnMeta(Meta):
        def wire(self):
            return {**super().wire(), "more": 1}

    call = OwnCall(tool="bash") if of == "payload" else ToolCall(tool="bash", meta=OwnMeta())
    params = json.loads(Encoded(call).params())
    assert (params if of == "payload" else params["meta"])["more"] == 1


@pytest.mark.parametrize("text", ["short", "long" * 1000])
def test_the_bytes_of_a_payload_take_hardly_more_memory_than_they_are_long(text):
    payloads = [Encoded(ToolCall(tool="t", arguments={"text": text})) for _ in range(100)]
    tracemalloc.start()
    try:
        kept = [encoded.params() for encoded in payloads]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 100 * (len(kept[0]) + 200) * 2
