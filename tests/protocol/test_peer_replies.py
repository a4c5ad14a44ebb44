"""What a reply ends, what is dropped, and what becomes of what the hook asks and tells."""

from __future__ import annotations

import pytest

from picohook.protocol.messages import Notification, Reply
from picohook.protocol.peer import ABANDONED, DroppedLine
from picohook.wire import words


class TestWhatAReplyEnds:
    @pytest.mark.parametrize("result", [{}, {"action": "continue"}, [], "text", 0, False, {"a": {"b": [None, 2**70]}}])
    def test_a_result_is_handed_on_as_it_is(self, hook, result):
        assert hook.answers({"result": result}) == Reply(result)
        assert hook.peer.in_flight() == 0

    def test_a_null_result_is_one(self, hook):
        assert hook.answers({"result": None}, strict=True) == Reply(None)

    def test_replies_come_in_any_order(self, hook):
        for token in "abc":
            hook.ask(token)
        hook.take()
        answers = hook.says({"id": 4, "result": 4}, {"id": 2, "result": 2}, {"id": 3, "result": 3})
        assert [(token, answer.result) for token, answer in answers] == [("c", 4), ("a", 2), ("b", 3)]

    @pytest.mark.parametrize(
        ("error", "code", "text"),
        [
            ({"code": -32000, "message": "too late"}, -32000, "too late"),
            ({"code": words.METHOD_NOT_FOUND, "message": "x", "data": {"a": 1}}, words.METHOD_NOT_FOUND, "x"),
            ({"code": "5", "message": "x"}, 0, "x"),
            ({"code": True, "message": "x"}, 0, "x"),
            ({"code": 1}, 1, "no message"),
            ({"code": 1, "message": {"a": 1}}, 1, "no message"),
            ({}, 0, "no message"),
            ("plain text", 0, "plain text"),
            (5, 0, "no message"),
            (False, 0, "no message"),
            ([], 0, "no message"),
            ({"code": 1, "message": "\x1b]0;x\x07\nlevel=error"}, 1, r"\x1b]0;x\x07\nlevel=error"),
            ({"code": 1, "message": "ö" * 5000}, 1, "ö" * 512),
        ],
    )
    def test_an_error_says_as_much_as_is_known(self, hook, error, code, text):
        assert hook.answers({"error": error}) == Reply(None, text, code)

    def test_R1_an_error_of_null_beside_a_result_is_ignored(self, hook):
        assert hook.answers({"error": None, "result": {"approved": True}}, strict=True).result == {"approved": True}

    @pytest.mark.parametrize("result", [{}, {"approved": True}, [], 0, False, ""])
    @pytest.mark.parametrize("strict", [False, True])
    def test_R1_a_result_and_an_error_fail(self, hook, result, strict):
        answer = hook.answers({"error": {"code": 5, "message": "x"}, "result": result}, strict=strict)
        assert answer == Reply(None, "its answer has both a result and an error")

    def test_R1_a_result_of_null_beside_an_error_is_an_error(self, hook):
        assert hook.answers({"error": {"code": 5, "message": "x"}, "result": None}) == Reply(None, "x", 5)

    @pytest.mark.parametrize(
        ("message", "why"),
        [
            (b'{"id":2,"result":{"approved":true}}', 'lacks "jsonrpc": "2.0"'),
            (b'{"jsonrpc":"1.0","id":2,"result":{"approved":true}}', 'lacks "jsonrpc": "2.0"'),
            (b'{"jsonrpc":2.0,"id":2,"result":{"approved":true}}', 'lacks "jsonrpc": "2.0"'),
            (b'{"jsonrpc":"2.0","id":2}', "neither a result nor an error"),
            (b'{"jsonrpc":"2.0","id":2,"error":null}', "neither a result nor an error"),
            (b'{"id":2}', 'lacks "jsonrpc": "2.0"'),
        ],
    )
    def test_R8_a_sloppy_answer_is_taken_with_a_warning_and_not_for_an_approval(self, talk, message, why):
        lenient, strict = talk().answers(message), talk().answers(message, strict=True)
        assert why in lenient.warning
        assert lenient.error is None
        assert lenient.result == ({"approved": True} if b"approved" in message else None)
        assert why in strict.error
        assert (strict.result, strict.code, strict.warning) == (None, None, "")

    def test_R8_a_sloppy_answer_is_taken_unless_strict_is_set(self, hook):
        request = hook.peer.request("hook.before_tool", b"{}", "asked")
        hook.take()
        ((_, answer),) = hook.says(b'{"id":%d,"result":5}' % request)
        assert (answer.result, answer.error) == (5, None)

    def test_a_clean_answer_comes_without_a_warning(self, hook):
        assert hook.answers({"result": {}}).warning == ""

    @pytest.mark.parametrize(
        "message",
        [
            b'{"jsonrpc":"2.0","id":2,"result":{"approved":false,"approved":true}}',
            b'{"jsonrpc":"2.0","id":2,"result":{"approved":false},"result":{"approved":true}}',
            b'{"jsonrpc":"2.0","id":9,"id":2,"result":{"approved":true}}',
            b'{"jsonrpc":"2.0","id":2,"error":{"code":1,"code":2}}',
            b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":2,"result":{"approved":true}}',
        ],
    )
    @pytest.mark.parametrize("strict", [False, True])
    def test_J1_a_key_twice_in_the_decision_or_around_it_fails(self, hook, message, strict):
        assert hook.answers(message, strict=strict) == Reply(None, "its answer has the same key twice")

    def test_J1_a_key_twice_further_down_fails_an_approval_only(self, talk):
        message = b'{"jsonrpc":"2.0","id":2,"result":{"approved":true,"more":{"a":1,"a":2}}}'
        assert talk().answers(message).result == {"approved": True, "more": {"a": 2}}
        assert talk().answers(message, strict=True) == Reply(None, "its answer has the same key twice")


class TestWhatMatchesNothing:
    @pytest.mark.parametrize("id", ['"2"', "2.0", "true", "null", "[2]", '{"id":2}', "3", "0", "-2", "2" * 30])
    @pytest.mark.parametrize("body", ['"result":{"approved":true}', '"error":{"code":1,"message":"x"}'])
    def test_J8_R5_a_wrong_id_is_dropped(self, hook, id, body):  # noqa: A002 - the word of the protocol
        hook.ask("asked")
        hook.take()
        assert hook.is_noise(f'{{"jsonrpc":"2.0","id":{id},{body}}}'.encode())
        assert [token for token, _ in hook.says({"id": 2, "result": 5})] == ["asked"]

    def test_J8_true_is_not_id_1(self, talk):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        hook.take()
        assert hook.is_noise({"id": True, "result": {}})
        assert hook.is_noise({"id": 1.0, "result": {}})
        assert not hook.is_noise({"id": 1, "result": {}})

    def test_R2_the_first_answer_wins(self, hook):
        assert hook.answers({"result": "first"}).result == "first"
        assert hook.is_noise({"id": 2, "result": "second"})
        assert hook.is_noise({"id": 2, "error": {"code": 1}})

    def test_R2_a_late_answer_is_dropped(self, hook):
        request = hook.ask("asked")
        hook.take()
        hook.peer.abandon(request, "late")
        assert hook.is_noise({"id": request, "result": {"approved": True}})

    def test_a_late_answer_is_distinguished_from_noise_once(self, hook):
        abandoned, answered, unwritten = hook.ask("a"), hook.ask("b"), hook.ask("c")
        hook.take(2 * len(hook.peer.data_to_send()[0]))
        for request in (abandoned, unwritten):
            hook.peer.abandon(request, "late")
        hook.says({"id": answered, "result": {}})
        said = [{"id": request, "result": {}} for request in (abandoned, abandoned, answered, unwritten, 99, 1.5)]
        assert [noise.late for noise in hook.says(*said)] == [True, False, False, False, False, False]
        assert [noise.late for noise in hook.says(b"junk", {"method": "m"}, {"id": 5, "method": "m"})] == [False] * 3

    def test_the_number_of_expected_late_answers_is_bounded(self, hook):
        requests = [hook.ask(number) for number in range(ABANDONED + 2)]
        hook.take()
        for request in requests:
            hook.peer.abandon(request, "late")
        noises = hook.says(*({"id": request, "result": {}} for request in requests))
        assert [noise.late for noise in noises] == [False] * 2 + [True] * ABANDONED

    def test_R3_an_answer_before_the_question_is_written_is_dropped_at_every_byte(self, hook):
        request = hook.ask("asked")
        size = len(b"".join(hook.peer.data_to_send()))
        for _ in range(size - 1):
            assert hook.is_noise({"id": request, "result": {"approved": True}})
            hook.take(1)
        assert hook.is_noise({"id": request, "result": {"approved": True}})
        hook.take(1)
        assert [token for token, _ in hook.says({"id": request, "result": {}})] == ["asked"]

    def test_an_answer_with_the_id_of_no_request_is_told_so(self, hook):
        request = hook.ask("asked")
        hook.take()
        told = "which no request has: send back the id of the request"
        said = hook.says(*({"id": one, "result": {}} for one in (request + 1, 0, -1, request)))
        assert [told in noise.hint for noise in said[:3]] == [True] * 3
        (again,) = hook.says({"id": request, "result": {}})
        assert again.hint == ""

    def test_R6_a_batch_is_one_bad_line(self, hook):
        hook.ask("asked")
        hook.take()
        assert hook.is_noise(b'[{"jsonrpc":"2.0","id":2,"result":{}}]')
        assert hook.is_noise(b"[]")

    @pytest.mark.parametrize("line", [b"", b"\r", b"  ", b"\t \r"])
    def test_a_blank_line_is_ignored(self, hook, line):
        assert hook.says(line) == []

    def test_blank_lines_are_free_and_a_flood_of_them_is_noise(self, hook):
        assert hook.says(*[b"", b"\r"] * 49, b"") == []
        assert hook.says(b" ") == [DroppedLine("100 blank lines")]
        assert len(hook.says(*[b""] * 1000)) == 10

    def test_a_bad_line_is_shown_escaped_and_cut(self, hook):
        (noise,) = hook.says(b"\x1b[2J\xff\xe2\x80\xae" + b"x" * 1000)
        assert noise.excerpt == r"\x1b[2J\xff\u202e" + "x" * 192 + "… (1008 bytes)"

    def test_received_bytes_are_counted(self, talk):
        hook = talk(ready=False)
        assert hook.peer.received_bytes == 0
        hook.says(b"12345")
        assert hook.peer.received_bytes == 6


class TestTheHookAsks:
    @pytest.mark.parametrize("id", [1, 0, -5, "a", "", 2**70, 1.5, "\u2028\x1b"])
    def test_R7_a_request_is_answered_method_not_found(self, hook, id):  # noqa: A002 - the word of the protocol
        assert hook.is_noise({"id": id, "method": "host.run", "params": {}})
        hook.take()
        assert hook.read == [{
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": -32601, "message": "the host offers no such method"},
        }]  # fmt: skip

    @pytest.mark.parametrize("id", [None, True, [], {}])
    def test_R7_a_request_with_an_id_that_cannot_match_is_not_answered(self, hook, id):  # noqa: A002 - the word of the protocol
        assert hook.is_noise({"id": id, "method": "host.run"})
        assert not hook.peer.wants_to_send

    def test_R7_a_notification_is_never_answered(self, hook):
        assert hook.is_noise({"method": "host.run", "params": {}})
        assert hook.is_noise({"method": "hook.hello"})
        assert not hook.peer.wants_to_send

    def test_it_ends_no_request_of_the_host_with_the_same_id(self, hook):
        request = hook.ask("asked")
        hook.take()
        assert hook.is_noise({"id": request, "method": "m", "result": {"approved": True}})
        assert [token for token, _ in hook.says({"id": request, "result": {}})] == ["asked"]

    def test_an_id_of_4300_digits_is_answered_and_a_longer_one_is_junk(self, hook):
        assert hook.is_noise(b'{"id":%s,"method":"m"}' % (b"7" * 4300))
        assert b'"id":' + b"7" * 4300 + b"," in hook.take()
        assert hook.is_noise(b'{"id":%s,"method":"m"}' % (b"7" * 4301))
        assert not hook.peer.wants_to_send

    def test_answers_to_a_hook_that_does_not_read_are_bounded(self, talk):
        hook = talk(max_outbound=1000)
        for _ in range(100):
            assert hook.is_noise({"id": "x" * 100, "method": "m"})
        hook.says({"id": "x" * 1000, "method": "m"})
        assert 0 < len(hook.take()) <= 1000


LOG = {"method": "host.log", "params": {"level": "info", "message": "hi"}}
PROGRESS = {"method": "host.progress", "params": {"id": 2}}


class TestCapabilities:
    def test_offered_notifications_are_passed_on(self, talk):
        hook = talk(capabilities={"log": True, "progress": True})
        assert hook.says(LOG, PROGRESS) == [
            Notification("host.log", {"level": "info", "message": "hi"}),
            Notification("host.progress", {"id": 2}),
        ]

    def test_other_notifications_are_dropped(self, talk):
        assert talk(capabilities={"log": True}).is_noise(PROGRESS)
        assert talk(capabilities={"progress": True}).is_noise(LOG)
        assert talk(capabilities={"cancel": True}).is_noise(LOG)

    def test_not_even_log_before_hello_is_answered(self, talk):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        hook.take()
        assert hook.is_noise(LOG)

    @pytest.mark.parametrize("params", [None, [], "x", 5])
    def test_params_that_are_not_an_object_are_dropped(self, talk, params):
        assert talk(capabilities={"log": True}).is_noise({"method": "host.log", "params": params})

    def test_they_are_never_answered(self, talk):
        hook = talk(capabilities={"log": True})
        hook.says(LOG)
        assert not hook.peer.wants_to_send


class TestWhatStandsOutsideOfTheResult:
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize(
        ("message", "name"),
        [
            (b'{"jsonrpc":"2.0","id":2,"action":"deny_tool","reason":"no"}', "action"),
            (b'{"jsonrpc":"2.0","id":2,"result":null,"decision":"deny"}', "decision"),
            (b'{"jsonrpc":"2.0","id":2,"result":{},"Action":"deny_tool"}', "Action"),
            (b'{"jsonrpc":"2.0","id":2,"Result":{"action":"deny_tool"}}', "Result"),
            (b'{"jsonrpc":"2.0","id":2,"Error":{"code":1,"message":"no"}}', "Error"),
            (b'{"jsonrpc":"2.0","id":2,"result":{"approved":true},"Result":{"action":"deny_tool"}}', "Result"),
            (b'{"jsonrpc":"2.0","id":2,"result":{"approved":true},"approved":false}', "approved"),
            (b'{"id":2,"params":{"action":"deny_tool"}}', "params"),
        ],
    )
    def test_a_decision_there_is_a_failure_and_never_a_continue(self, talk, message, name, strict):
        answer = talk().answers(message, strict=strict)
        assert answer.error == (
            f"`{name}` is beside its `result`, where the host does not read it: put it inside `result`"
        )
        assert answer.result is None

    @pytest.mark.parametrize(
        "message",
        [
            b'{"jsonrpc":"2.0","id":2,"result":{"action":"continue"},"action":"continue","elapsed_ms":4}',
            b'{"jsonrpc":"2.0","id":2,"result":{},"error":null,"elapsed_ms":4}',
            b'{"jsonrpc":"2.0","id":2,"result":{},"Error":null,"action":""}',
        ],
    )
    def test_a_hooks_own_fields_do_no_harm(self, hook, message):
        answer = hook.answers(message)
        assert (answer.error, answer.warning) == (None, "")
