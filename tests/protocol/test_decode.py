"""One line to one message: what is a message, what is junk, and that nothing raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st
from rows import each

from picohook.protocol.codec import decode, decode_value
from picohook.protocol.messages import ABSENT, DuplicateKeys, InvalidLine, Notification, Request, Response


def reply(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":%s}' % result


def result_of(result: bytes):
    """What comes of a reply with this result: the result, or `Junk`."""
    message = decode(reply(result))
    return message if isinstance(message, InvalidLine) else message.result


class TestTheFourShapes:
    def test_a_response_with_a_result(self):
        assert decode(b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}') == Response(
            1, {"a": 1}, ABSENT, versioned=True, duplicates=DuplicateKeys.NOWHERE
        )

    def test_a_response_that_cannot_belong_to_a_request_of_ours(self):
        assert decode(b'{"jsonrpc":"2.0","id":"1","result":{"a":1}}') == Response(
            "1", {"a": 1}, ABSENT, versioned=True, duplicates=DuplicateKeys.NOWHERE
        )

    def test_a_response_with_an_error(self):
        assert decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":5}}') == Response(
            1, ABSENT, {"code": 5}, versioned=True, duplicates=DuplicateKeys.NOWHERE
        )

    def test_null_is_present_and_absent_is_not(self):
        assert decode(b'{"jsonrpc":"2.0","id":1,"result":null}').result is None
        assert decode(b'{"jsonrpc":"2.0","id":1,"error":null}').error is None

    def test_a_response_with_neither_is_still_a_response(self):
        message = decode(b'{"jsonrpc":"2.0","id":1}')
        assert message == Response(1, ABSENT, ABSENT, versioned=True, duplicates=DuplicateKeys.NOWHERE)

    @pytest.mark.parametrize("version", [b"", b'"jsonrpc":2.0,', b'"jsonrpc":"1.0",', b'"jsonrpc":null,'])
    def test_a_response_that_does_not_say_its_version_is_known_as_such(self, version):
        assert decode(b'{%s"id":1,"result":{}}' % version).versioned is False

    @pytest.mark.parametrize("id", ['"1"', "1.0", "true", "null", "[1]", '{"a":1}', "-1"])
    def test_a_response_keeps_an_odd_id_as_it_is(self, id):  # noqa: A002 - the word of the protocol
        message = decode(b'{"jsonrpc":"2.0","id":%s,"result":{}}' % id.encode())
        assert repr(message.id) == repr(json.loads(id))

    def test_a_request(self):
        assert decode(b'{"jsonrpc":"2.0","id":"a","method":"m","params":[1]}') == Request("a", "m", [1])

    def test_a_request_with_a_null_id_is_a_request(self):
        assert decode(b'{"id":null,"method":"m"}') == Request(None, "m", None)

    def test_a_notification(self):
        assert decode(b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}') == Notification("m", {"a": 1})

    def test_a_notification_without_params(self):
        assert decode(b'{"method":"m"}') == Notification("m", None)

    @each("method", [b"null", b"1", b'["m"]', b"true"])
    @each("id", [b"", b'"id":1,'])
    def test_a_method_that_is_not_a_string_is_junk(self, method, id):  # noqa: A002 - the word of the protocol
        assert isinstance(decode(b'{%s"method":%s,"result":{}}' % (id, method)), InvalidLine)

    @pytest.mark.parametrize("line", [b"{}", b'{"jsonrpc":"2.0"}', b'{"result":{}}', b'{"ID":1,"Method":"m"}'])
    def test_an_object_that_is_not_a_message_is_junk(self, line):
        assert isinstance(decode(line), InvalidLine)


@each(
    "line",
    [
        b"null", b" null", b"true", b"1", b'"id"', b"1.5", b"[]", b'[{"jsonrpc":"2.0","id":1,"result":{}}]', b"[1,2]",
        b"", b" ", b"2026-01-01 INFO ready", b"Traceback (most recent call last):", b"{", b"}", b"{}{}", b"{} x",
        b'{"id":1,"result":{}},', b"{'id':1,'result':{}}", b'{"id":1,"result":{},}', b'{"id":1 "result":{}}',
        b'{"id":1,"result":{}} // done', b'{"id":1,/**/"result":{}}', b"{id:1,result:{}}", b'{"id":1,"result":}',
    ],
)  # fmt: skip
def test_F9_R6_log_lines_scalars_batches_and_near_json_are_junk(line):
    assert isinstance(decode(line), InvalidLine)


class TestF8Encodings:
    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
    def test_another_encoding_is_junk(self, encoding):
        assert isinstance(decode('{"id":1,"result":"é"}'.encode(encoding)), InvalidLine)

    @pytest.mark.parametrize(
        "text", [b"\xff", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe9", b"\x80"]
    )
    def test_bytes_that_are_not_utf_8_are_junk(self, text):
        assert isinstance(result_of(b'"%s"' % text), InvalidLine)
        assert isinstance(decode(b'{"id":1,"%s":1}' % text), InvalidLine)

    @pytest.mark.parametrize("line", [b'{"id":1,"result":{}}\0', b'\0{"id":1}', b'{"id":1,"result":"\0"}', b"\0\0"])
    def test_a_nul_is_junk(self, line):
        assert isinstance(decode(line), InvalidLine)

    @pytest.mark.parametrize("control", [b"\x01", b"\t", b"\n", b"\r", b"\x1c", b"\x1f"])
    def test_a_raw_control_character_in_a_string_is_junk(self, control):
        assert isinstance(result_of(b'"%s"' % control), InvalidLine)

    @each("text", ["\u2028", "\u2029", "\x85", "\x7f", "\ufeff", "\ufffe", "😀", "\U0010ffff"])
    def test_odd_characters_that_are_json_arrive_as_they_are(self, text):
        assert result_of(json.dumps(text, ensure_ascii=False).encode()) == text
        assert result_of(json.dumps(text).encode()) == text

    def test_F6_a_carriage_return_at_the_end_is_tolerated(self):
        assert decode(b'{"id":1,"result":5}\r').result == 5


class TestJ2Numbers:
    @each(
        "number",
        [
            "NaN", "Infinity", "-Infinity", "nan", "inf",
            "1e999", "-1e999", "1E999", "1e+999", "1E+0400", "1e309", "1.8e308", "-1.8e308", "0.1e400", "1.5e0999",
            "1e99999999999999999999", "9" * 309 + ".0", "1" * 400 + ".5", "123456789" * 40 + "e0",
            # The decoder in use makes infinity of these without a word: many digits before a short exponent.
            "1" + "0" * 300 + "e20", "1" + "0" * 250 + "e99", "9" * 210 + "e99", "9" * 210 + ".5E+99", "-" + "8" * 230 + "e80",
            "9" * 304 + "e5",
        ],
    )  # fmt: skip
    def test_a_number_that_is_not_finite_is_junk_wherever_it_is(self, number):
        for result in (number, f"[1,{number}]", f'{{"a":{{"b":[{number}]}}}}', f'{{"a":1,"a":{number}}}'):
            assert isinstance(result_of(result.encode()), InvalidLine)
        assert isinstance(decode(b'{"id":%s,"result":{}}' % number.encode()), InvalidLine)
        assert isinstance(decode(b'{"method":"m","params":{"n":%s}}' % number.encode()), InvalidLine)

    @each(
        "number",
        [
            "1e308", "1.7976931348623157e308", "-1.7976931348623157E+308", "0e999", "1e-999", "5e-324", "-0.0", "0.1", "1.0",
            "1e00000000000000001", "9" * 209 + "e99", "1" * 309, "1" + "0" * 308 + ".5", "1" * 200 + "e-300",
            "10000000000000000.5",
        ],
    )  # fmt: skip
    def test_a_finite_number_arrives_as_exactly_that_number(self, number):
        found, expected = result_of(number.encode()), json.loads(number)
        assert (type(found), repr(found)) == (type(expected), repr(expected))

    @pytest.mark.parametrize("text", ["1e999", "NaN", "9" * 400, "0e000"])
    def test_text_in_a_string_that_looks_like_a_bad_number_is_fine(self, text):
        assert result_of(json.dumps({"text": text}).encode()) == {"text": text}

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_every_float_arrives_exactly(self, number):
        assert repr(result_of(repr(number).encode())) == repr(number)

    digits = st.text("0123456789", min_size=1, max_size=320)

    @given(digits, digits, st.sampled_from(["e", "E", "e+", "E+", "e-"]), st.text("0123456789", max_size=3))
    def test_a_number_is_exact_or_junk_and_never_infinity(self, whole, fraction, sign, exponent):
        text = f"{whole.lstrip('0') or '0'}.{fraction}" + (sign + exponent if exponent else "")
        expected = float(text)
        found = result_of(text.encode())
        assert isinstance(found, InvalidLine) if expected == float("inf") else repr(found) == repr(expected)


class TestJ4Integers:
    def test_4300_digits_are_exact(self):
        for number in (10**4300 - 1, -(10**4300 - 1)):
            assert result_of(b"%d" % number) == number

    @pytest.mark.parametrize("digits", [4301, 5000, 1_000_000])
    def test_one_digit_more_is_junk(self, digits):
        for sign in (b"", b"-"):
            assert isinstance(result_of(sign + b"1" * digits), InvalidLine)
            assert isinstance(result_of(b'{"a":1,"a":[%s]}' % (sign + b"1" * digits)), InvalidLine)

    @pytest.mark.parametrize("digits", [4300, 4301])
    def test_an_id_of_so_many_digits_does_no_harm(self, digits):
        message = decode(b'{"id":%s,"method":"m"}' % (b"1" * digits))
        assert isinstance(message, Request if digits == 4300 else InvalidLine)

    @given(st.integers(min_value=-(2**80), max_value=2**80))
    @example(2**53 + 1)
    @example(2**63)
    @example(2**64)
    @example(-(2**63) - 1)
    def test_an_integer_stays_an_integer_and_exact(self, number):
        found = result_of(b'{"arguments":{"n":%d}}' % number)
        assert found == {"arguments": {"n": number}}
        assert type(found["arguments"]["n"]) is int


class TestJ3Depth:
    """200 levels below the message itself."""

    @pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
    def test_200_levels_are_fine_and_201_are_junk(self, opening, closing):
        core = b"" if opening == b"[" else b"{}"
        levels = 200 - bool(core)
        assert not isinstance(result_of(opening * levels + core + closing * levels), InvalidLine)
        assert isinstance(result_of(opening * (levels + 1) + core + closing * (levels + 1)), InvalidLine)

    @pytest.mark.parametrize("twice", [b"", b'"a":1,"a":1,'], ids=["plain", "with a key twice"])
    @pytest.mark.parametrize("number", [b"1", b"1e999"])
    def test_the_slower_ways_keep_the_same_limit(self, twice, number):
        line = b'{"id":1,%s"n":%s,"result":%s}' % (twice, number, b"[" * 201 + b"]" * 201)
        assert isinstance(decode(line), InvalidLine)

    @pytest.mark.parametrize("line", [b"[" * 500_000, b'{"a":' * 200_000, b'{"id":1,"result":' + b"[" * 50_000])
    def test_a_bottomless_line_is_junk(self, line):
        assert isinstance(decode(line), InvalidLine)


class TestJ5Surrogates:
    @pytest.mark.parametrize(
        "text", [r"\ud800", r"\udfff", r"\udc00\ud800", r"\ud800\ud800", r"\ud800x", r"\ud800\n", r"\ud800\u0041"]
    )
    def test_a_lone_one_is_junk_in_a_value_and_in_a_key(self, text):
        assert isinstance(result_of(f'"{text}"'.encode()), InvalidLine)
        assert isinstance(result_of(f'{{"{text}":1}}'.encode()), InvalidLine)
        assert isinstance(result_of(f'{{"a":1,"a":"{text}"}}'.encode()), InvalidLine)

    def test_a_pair_is_a_character(self):
        assert result_of(rb'"\ud83d\ude00"') == "😀"


class TestJ1DoubledKeys:
    @pytest.mark.parametrize(
        "line",
        [
            b'{"id":1,"result":{},"result":{"approved":true}}',
            b'{"id":1,"id":2,"result":{}}',
            b'{"id":1,"result":{"approved":false,"approved":true}}',
            b'{"id":1,"result":{"approved":true,"approved":true}}',
            b'{"id":1,"error":{"code":1,"code":2}}',
            rb'{"id":1,"result":{"approved":false,"\u0061pproved":true}}',
            b'{"id":1,"result":{"a":{"b":1,"b":2},"a":3}}',
        ],
    )
    def test_in_the_envelope_or_the_decision_they_are_on_top(self, line):
        assert decode(line).duplicates is DuplicateKeys.ON_TOP

    @pytest.mark.parametrize(
        "line",
        [
            b'{"id":1,"result":{"call":{"tool":"a","tool":"b"}}}',
            b'{"id":1,"result":{"a":[[{"b":1,"b":1}]]}}',
            b'{"id":1,"result":[{"a":1,"a":1}]}',
            b'{"id":1,"error":{"data":{"a":1,"a":2}}}',
            b'{"id":1,"result":{},"more":{"a":1,"a":2}}',
            b'{"id":1,"result":{"a":{"":1,"":2}}}',
        ],
    )
    def test_anywhere_else_they_are_inside(self, line):
        assert decode(line).duplicates is DuplicateKeys.INSIDE

    @pytest.mark.parametrize(
        "line",
        [
            b'{"id":1,"result":{"a":{"a":1},"b":[{"a":1},{"a":1}],"A":1}}',
            b'{"id":1,"result":{"n":1e300,"a":{"n":9e200}}}',
        ],
    )
    def test_the_same_key_in_two_objects_is_fine(self, line):
        assert decode(line).duplicates is DuplicateKeys.NOWHERE

    def test_the_last_value_is_the_one_that_is_read(self):
        assert decode(b'{"id":1,"result":{"call":{"tool":"a","tool":"b"}}}').result == {"call": {"tool": "b"}}

    @pytest.mark.parametrize("line", [b'[{"a":1,"a":1}]', b'[[{"id":1,"id":1}],1e300]', b'{"a":1,"a":1}'])
    def test_a_doubled_key_does_not_make_a_message(self, line):
        assert isinstance(decode(line), InvalidLine)

    @each("rest", [b"", b",", b",NaN]", b",1e999]", rb',"\ud800"]', b"]]", b'"]', b',"\xff"]'])
    def test_a_doubled_key_does_not_make_a_line_json(self, rest):
        assert isinstance(decode(b'{"id":1,"result":[{"a":1,"a":2}%s}' % rest), InvalidLine)

    keys = st.sampled_from(["a", "b", "result", "id"])
    objects = st.recursive(
        st.just("1"),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
            st.lists(st.tuples(st.sampled_from("ab"), inner), max_size=3).map(
                lambda pairs: "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
            ),
        ),
        max_leaves=8,
    )

    @given(st.lists(st.tuples(keys, objects), max_size=4))
    def test_they_are_found_in_every_json_text(self, pairs):
        line = '{"id":1' + "".join(f',"{key}":{value}' for key, value in pairs) + "}"
        doubles: list[dict] = []

        def note(found):
            built = dict(found)
            if len(built) < len(found):
                doubles.append(built)
            return built

        value = json.loads(line, object_pairs_hook=note)
        on_top = any(one is value or one is value.get("result") for one in doubles)
        expected = DuplicateKeys.ON_TOP if on_top else DuplicateKeys.INSIDE if doubles else DuplicateKeys.NOWHERE
        message = decode(line.encode())
        assert message.duplicates is expected
        assert message.result == value.get("result", ABSENT)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values, st.booleans())
def test_json_arrives_as_python_reads_it(value, escaped):
    line = json.dumps(value, ensure_ascii=escaped).encode()
    assert repr(result_of(line)) == repr(value)


@given(st.binary())
@example(b'{"id":' + b"9" * 5000 + b"}")
@example(b'{"id":1,"result":' + b"[" * 100_000)
def test_arbitrary_bytes_never_raise(line):
    decode(line)
    decode(reply(line))


almost_json = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b'"id"', b"1", b"-", b".", b"e", b"E9", b"+", b"true", b"null",
         b"NaN", b" ", b"\\u", b"d800", b"\\", b"\xff", b"\xe2\x80\xa8", b"\0", b"\x0b", b"\xef\xbb\xbf", b"0", b"99"]
    )
).map(b"".join)  # fmt: skip


@given(almost_json)
def test_almost_json_is_read_as_strictly_as_python_can(text):
    def refuse(constant):
        raise ValueError(constant)

    try:
        expected = json.loads(reply(text).decode(), parse_constant=refuse)["result"]
        json.dumps(expected, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        assert isinstance(result_of(text), InvalidLine)
    else:
        assert repr(result_of(text)) == repr(expected)


class TestOneValue:
    @given(json_values)
    def test_it_arrives_as_python_reads_it(self, value):
        assert repr(decode_value(json.dumps(value).encode())) == repr(value)

    @each(
        "text",
        [b"", b"1 2", b"[1,]", b"NaN", b"1e999", b"9" * 210 + b"e99", b'{"a":1,"a":1}', b'[{"a":{"b":1,"b":2}}]', rb'"\ud800"',
         b"\xff", b"[" * 202 + b"]" * 202, b"1" * 4301, b"\xef\xbb\xbf{}"],
    )  # fmt: skip
    def test_text_that_is_not_json_raises_value_error(self, text):
        with pytest.raises(ValueError, match=r"."):
            decode_value(text)
