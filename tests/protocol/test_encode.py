"""A payload to its bytes: exactly, or `EncodeError` before anything is written."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import uuid

import pytest
from hypothesis import example, given, strategies as st
from rows import each

from picohook.errors import EncodeError
from picohook.protocol.codec import decode, encode, encode_ordered


class Colour(enum.Enum):
    RED = "red"
    NOTHING = None
    NOT_A_NUMBER = float("nan")


class Name(str):
    __slots__ = ()


@dataclasses.dataclass
class Point:
    x: int = 1


def cycle() -> list:
    inner: list = []
    outer = {"inner": inner}
    inner.append(outer)
    return [outer]


def deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


NOT_JSON = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "a lone surrogate": "\ud800",
    "a reversed pair of surrogates": "\udc00\ud800",
    "a lone surrogate as a key": {"\udfff": 1},
    "a set": {1},
    "bytes": b"x",
    "an object": object(),
    "a date": dt.date(2026, 1, 1),
    "a time": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "a dataclass": Point(),
    "an enum of nan": Colour.NOT_A_NUMBER,
    "a tuple as a key": {(1, 2): 3},
    "nan as a key": {float("nan"): 1},
    "a cycle": cycle(),
    "a hundred thousand levels": deep(100_000),
    "an integer of 4301 digits": 10**4300,
}


@each("name", NOT_JSON)
@each(
    "around",
    [
        lambda value: value,
        lambda value: {"a": [1, value], "b": 2},
        lambda value: {"nothing": None, "a": {"b": value}},
        lambda value: {"said": "null", "a": (value, 1)},
        lambda value: [2**70, value],
        lambda value: {"a": value, "said": ["x null"] * 100},
    ],
)
def test_J5_a_value_without_a_json_form_is_an_encode_error_wherever_it_is(name, around):
    with pytest.raises(EncodeError, match="cannot be sent as JSON"):
        encode(around(NOT_JSON[name]))


@each(
    ("value", "line"),
    [
        (None, b"null"),
        ({"a": None}, b'{"a":null}'),
        ({"a": None, "b": [None, (1, None)]}, b'{"a":null,"b":[null,[1,null]]}'),
        ((1, (2, 3)), b"[1,[2,3]]"),
        ([], b"[]"),
        ({"a": True, "b": False, "c": None, "d": 1.0}, b'{"a":true,"b":false,"c":null,"d":1.0}'),
        ({"a": "null"}, b'{"a":"null"}'),
        (-0.0, b"-0.0"),
        ({"n": None, "zero": -0.0}, b'{"n":null,"zero":-0.0}'),
        ("\u2028\u2029\x85\x7f", '"\u2028\u2029\x85\x7f"'.encode()),
        ({"é": "😀"}, '{"é":"😀"}'.encode()),
        ({"big": 2**70, "é": "\u2028"}, '{"big":1180591620717411303424,"é":"\u2028"}'.encode()),
        ({50256: -100}, b'{"50256":-100}'),
        ({1: {2.5: None}, None: True}, b'{"1":{"2.5":null},"null":true}'),
        (Name("x"), b'"x"'),
        ([Name("x"), None], b'["x",null]'),
    ],
)  # fmt: skip
def test_a_value_with_a_json_form_is_written_in_it(value, line):
    assert encode(value) == line


@each(
    "beside", [{}, {"none": None}, {"text": "null"}, {"none": None, "pair": (1, 2)}, {"big": 2**70}],
)  # fmt: skip
@each(
    ("value", "plain"),
    [
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Colour.RED, "red"),
        (Colour.NOTHING, None),
        (enum.IntEnum("Size", "SMALL")(1), 1),
        (enum.StrEnum("Word", "YES").YES, "yes"),
        ((1, 2), [1, 2]),
        ({7: 1}, {"7": 1}),
    ],
)
def test_a_value_is_accepted_or_refused_whatever_is_beside_it(value, plain, beside):
    beside_plain = {key: list(one) if isinstance(one, tuple) else one for key, one in beside.items()}
    assert json.loads(encode({"value": value, **beside})) == {"value": plain, **beside_plain}


@pytest.mark.parametrize("value", [{1: "a", "1": "b"}, [{None: 1, "null": 2}], {"deep": {True: 1, "true": 1}}])
def test_keys_that_are_one_key_in_json_are_an_encode_error(value):
    with pytest.raises(EncodeError, match="two keys"):
        encode(value)


def test_the_payload_is_not_in_the_message():
    with pytest.raises(EncodeError) as caught:
        encode({"password": "hunter2", "when": dt.date(2026, 1, 1)})
    assert "hunter2" not in str(caught.value)


@each("extra", [{}, {"none": None}, {"big": 2**70}, {"pair": (1, 2), "none": None}])
@each("levels", [1, 100, 198])
def test_values_that_a_hook_may_send_back_can_be_sent(levels, extra):
    assert json.loads(encode({"value": deep(levels), **extra}))["value"] == deep(levels)


@given(st.integers(min_value=-(2**80), max_value=2**80))
@example(2**63 - 1)
@example(2**64 - 1)
@example(2**64)
@example(-(2**63) - 1)
@example(10**4299)
def test_an_integer_is_exact(number):
    assert encode({"n": number, "none": None}) == b'{"n":%d,"none":null}' % number


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
)


@given(json_values)
def test_a_sent_payload_is_one_line_and_reads_back_unchanged(value):
    data = encode(value)
    assert b"\n" not in data
    assert repr(json.loads(data)) == repr(value)
    assert repr(decode(b'{"id":1,"result":%s}' % data).result) == repr(value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3) | st.just(Colour.RED),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.booleans(), inner, max_size=3)
    ),
)


@pytest.mark.parametrize("text", ["null", "return null;", "a null, and a null", "nullable"])
def test_what_is_null_in_python_too_and_texts_that_say_so_are_encoded_at_once(text):
    for exact in ([text], [None, text], [{"a": None}, 1.5, text]):
        assert encode({"said": exact}) == json.dumps({"said": exact}, separators=(",", ":")).encode()
    for inexact in ([float("nan"), text], [{"a": float("-inf")}, None, text]):
        with pytest.raises(EncodeError):
            encode({"said": inexact})


@given(anything)
def test_every_value_is_sent_as_strict_json_or_not_at_all(value):
    try:
        data = encode(value)
    except EncodeError:
        return
    line = b'{"id":1,"result":%s}' % data
    assert decode(line).duplicates.value == 0
    assert json.loads(data) == json.loads(json.dumps(value, default=lambda colour: colour.value))


@each("value", [1, 2**70, "\ud800"])
def test_values_that_differ_in_order_alone_have_the_same_ordered_bytes(value):
    assert encode_ordered({"b": value, "a": {"d": 1, "c": 2}}) == encode_ordered({"a": {"c": 2, "d": 1}, "b": value})
    assert encode_ordered([value, "x"]) != encode_ordered(["x", value])


def test_a_number_that_json_does_not_have_has_other_ordered_bytes_than_null():
    one, other, null, text = (
        encode_ordered({"a": [value, None]}) for value in (float("nan"), float("inf"), None, "null")
    )
    assert len({one, other, null, text}) == 4
    assert encode_ordered("null") == b'"null"'
