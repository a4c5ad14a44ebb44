"""Messages that would take long to decode are refused before that. Large texts in them are no reason."""

from __future__ import annotations

import base64
import json

import pytest
from rows import each

from picohook.protocol.codec import (
    MAX_ESCAPES,
    TOO_MANY_VALUES,
    TooManyValuesError,
    decode,
    decode_own,
    decode_value,
    envelope_of,
    has_too_many_values,
    load,
)
from picohook.protocol.messages import InvalidLine, Reply
from picohook.wire import words

MOST_VALUES = words.MAX_VALUES
MANY = {
    "empty lists": b"[" + b"[]," * MOST_VALUES + b"[]]",
    "numbers": b"[" + b"1," * (MOST_VALUES + 1) + b"1]",
    "names": b"{" + b",".join(b'"k%d":1' % number for number in range(MOST_VALUES)) + b"}",
    "texts": b"[" + b'"a",' * (MOST_VALUES + 1) + b'"a"]',
    "the same name": b"{" + b'"a":1,' * MOST_VALUES + b'"a":1}',
    "with a text": rb'["\\\",\"[",' + b"0," * (MOST_VALUES + 1) + b"0]",
    "long integers": b"[" + (b"9" * 4300 + b",") * 1000 + b"1]",
    "escapes": b'"' + rb"\n" * (MAX_ESCAPES + 1) + b'"',
    "brackets": b"[" * (2 * MOST_VALUES + 2),
}
LARGE = {
    "letters": "a" * 10_000_000,
    "commas": ",[{:" * 2_500_000,
    "quotes": '"' * 1_000_000,
    "backslashes": "\\" * 999_999,
    "JSON": json.dumps([{"a": [1, 2, {"b": "c"}]}] * 20_000),
    "JSON in JSON": json.dumps(json.dumps([{"a": [1, 2, {"b": "c"}]}] * 2000)),
    "digits": "0123456789" * 1_000_000,
    "an image": base64.b64encode(bytes(range(256)) * 30_000).decode(),
}


@pytest.mark.parametrize("name", MANY)
def test_E2_a_message_with_too_many_values_fails_its_call_and_no_other(hook, name):
    first, second = hook.ask("first"), hook.ask("second")
    hook.take()
    events = hook.says(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (first, MANY[name]))
    assert events == [("first", Reply(error=TOO_MANY_VALUES))]
    assert hook.says({"id": second, "result": {}}) == [("second", Reply({}))]


@pytest.mark.parametrize("name", MANY)
def test_E2_no_reader_decodes_too_many_values(name):
    for read in (decode_value, load):
        with pytest.raises(TooManyValuesError, match="more than 100000 values and names"):
            read(MANY[name])
    assert isinstance(decode(MANY[name]), InvalidLine)


@pytest.mark.parametrize("name", LARGE)
def test_a_large_text_is_no_reason_to_refuse_a_message(name):
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"x": [LARGE[name], 1]}}).encode()
    assert decode(line).result == {"x": [LARGE[name], 1]}
    assert load(line) == load(line.decode()) == json.loads(line)


def test_as_many_values_as_are_allowed_are_decoded():
    line = b"[" + b"null," * (MOST_VALUES - 1) + b"null]"
    assert len(decode_value(line)) == MOST_VALUES
    assert len(decode_own(MANY["numbers"])) == MOST_VALUES + 2


@each(
    ("line", "envelope"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":[', (7, False)),
        (b' { "id" : "a b" , "jsonrpc" : "2.0" , "error" : {', ("a b", False)),
        (b'{"jsonrpc":"2.0","id":7,"method":"x"', (7, True)),
        (b'{"params":{"id":5}, "jsonrpc": "2.0", "id": 7}', (7, True)),
        (b'{"jsonrpc":"2.0","method":"x","id":7,"params":[', (7, True)),
        (b'{"method":"x","jsonrpc":"2.0","id":7,"params":[', (7, True)),
        (b'{"method":"x","id":7,"jsonrpc":"2.0","params":[', (7, True)),
        (b'{"result":{"id":5},"jsonrpc":"2.0","id":7}\r', (7, False)),
        (b'{"result":{"id":5},"id":7,"jsonrpc":"2.0"}', (7, False)),
        (b'{"result":{"id":5}}', (None, False)),
        (rb'{"result":"\"id\":5}"}', (None, False)),
        (b'{"result":{},"id":1.5}', (None, False)),
        (b'{"id":01,"result":{}}', (None, False)),
        (b'{"id":"\xff","result":{}}', (None, False)),
        (b'{"id":"\t","result":{}}', (None, False)),
        (b"[" * 600, (None, False)),
    ],
)
def test_the_envelope_of_a_line_is_read_without_decoding_it(line, envelope):
    assert envelope_of(line[:512], line[-512:]) == envelope


def test_a_request_with_too_many_values_is_no_reply(hook):
    number = hook.ask("first")
    hook.take()
    (dropped,) = hook.says(b'{"jsonrpc":"2.0","id":%d,"method":"x","params":%b}' % (number, MANY["numbers"]))
    assert dropped.reason == TOO_MANY_VALUES
    assert hook.peer.in_flight() == 1


def test_a_line_that_cannot_hold_too_many_values_is_not_examined():
    class Line(bytes):
        def __contains__(self, _):
            raise AssertionError

    assert not has_too_many_values(Line(b"1," * MOST_VALUES))
    with pytest.raises(AssertionError):
        has_too_many_values(Line(b"1," * MOST_VALUES + b"1"))
