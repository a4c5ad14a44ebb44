"""The handshake."""

from __future__ import annotations

import pytest

from picohook.errors import ProtocolError
from picohook.protocol.codec import encode, notification_line
from picohook.protocol.peer import DroppedLine, PeerState
from picohook.wire import words


def event(text: str) -> bytes:
    return notification_line("hook.event", encode({"Kind": text}))


class TestHello:
    def test_it_is_the_first_request_with_id_1(self, talk):
        hook = talk(ready=False)
        assert hook.peer.hello("gate", ["tool", "approve"], "token") == 1
        assert hook.take() == (
            b'{"jsonrpc":"2.0","id":1,"method":"hook.hello",'
            b'"params":{"name":"gate","version":1,"modes":["tool","approve"]}}\n'
        )

    def test_a_name_is_quoted(self, talk):
        hook = talk(ready=False)
        hook.peer.hello('"} \n', [], "token")
        hook.take()
        assert hook.read[0]["params"]["name"] == '"} \n'

    def test_hello_is_sent_once(self, talk):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        with pytest.raises(ProtocolError, match="already"):
            hook.peer.hello("gate", [], "token")

    def test_no_question_can_be_asked_before_hello_is_answered(self, talk):
        hook = talk(ready=False)
        with pytest.raises(ProtocolError, match="no request can be sent"):
            hook.ask("early")
        hook.peer.hello("gate", [], "token")
        hook.take()
        with pytest.raises(ProtocolError, match="no request can be sent"):
            hook.ask("early")
        hook.says({"id": 1, "result": {}})
        with pytest.raises(ProtocolError, match="no request can be sent"):
            hook.ask("answered, and not taken as a yes yet")

    def test_events_wait_until_it_is_answered(self, talk):
        hook = talk(ready=False)
        hook.peer.notify(event("before"))
        assert not hook.peer.wants_to_send
        assert not hook.peer.data_to_send()
        hook.peer.hello("gate", [], "token")
        hook.peer.notify(event("meanwhile"))
        hook.take()
        assert [line["method"] for line in hook.read] == ["hook.hello"]
        assert not hook.peer.wants_to_send
        hook.says({"id": 1, "result": {}})
        hook.peer.accept_hello({})
        hook.take()
        assert [line["params"].get("Kind") for line in hook.read] == [None, "before", "meanwhile"]

    def test_ids_go_up_from_there(self, hook):
        assert [hook.ask("a"), hook.ask("b"), hook.ask("c")] == [2, 3, 4]
        hook.take()
        assert [line["id"] for line in hook.read] == [2, 3, 4]

    @pytest.mark.parametrize(
        "result",
        [{}, None, True, [], "hello", 5, {"ok": True, "name": "x"}, {"ok": 0}, {"ok": "no"}, {"version": 1}, {"a": 1}],
    )
    def test_any_result_of_a_version_1_hook_accepts(self, talk, result):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        assert hook.peer.accept_hello(result) is None
        assert hook.peer.state is PeerState.READY
        assert hook.peer.capabilities == frozenset()

    @pytest.mark.parametrize(
        ("result", "reason"),
        [
            ({"ok": False}, "it says no, and gives no reason"),
            ({"ok": False, "reason": "wrong moon"}, "it says no: wrong moon"),
            ({"ok": False, "error": "wrong moon"}, "it says no: wrong moon"),
            ({"ok": False, "message": "wrong moon", "reason": 5}, "it says no: wrong moon"),
            ({"ok": False, "version": 1, "reason": "\x1b[2J\n"}, r"it says no: \x1b[2J\n"),
            ({"ok": False, "reason": "x" * 5000}, "it says no: " + "x" * 1024),
            ({"ok": True, "version": 2}, "it speaks version 2, and this host speaks 1"),
            ({"version": 0}, "it speaks version 0, and this host speaks 1"),
            ({"version": "1"}, "it speaks version '1', and this host speaks 1"),
            ({"version": 1.0}, "it speaks version 1.0, and this host speaks 1"),
            ({"version": True}, "it speaks version True, and this host speaks 1"),
            ({"version": "\x1b" * 200}, "it speaks version '" + r"\x1b" * 19 + "\\x1, and this host speaks 1"),
            ({"version": 10**4299}, "it speaks version 1" + "0" * 79 + ", and this host speaks 1"),
        ],
    )
    def test_S7_ok_false_and_another_version_are_refusals_with_a_reason(self, talk, result, reason):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        assert hook.peer.accept_hello(result) == reason
        assert hook.peer.state is PeerState.GREETING

    @pytest.mark.parametrize(
        ("offered", "taken"),
        [
            ({"cancel": True, "log": True, "progress": True}, {"cancel", "log", "progress"}),
            ({"cancel": True, "log": False, "progress": 1, "teleport": True}, {"cancel"}),
            ({"cancel": "yes", "log": {}, "progress": None}, set()),
            (["cancel"], set()),
            ("cancel", set()),
            (None, set()),
        ],
    )
    def test_capabilities_are_those_that_it_sets_to_true_and_the_host_knows(self, talk, offered, taken):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        assert hook.peer.accept_hello({"ok": True, "capabilities": offered}) is None
        assert hook.peer.capabilities == taken

    @pytest.mark.parametrize("answer", [b'{"id":1,"result":{}}', b'{"jsonrpc":"2.0","id":1}', b'{"id":1}'])
    def test_R8_a_sloppy_answer_to_hello_counts(self, talk, answer):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        hook.take()
        ((token, answered),) = hook.says(answer)
        assert (token, answered.error) == ("token", None)
        assert answered.warning

    def test_R9_an_echo_ends_hello_with_an_error(self, talk):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        (noise,) = hook.peer.receive_data(hook.take())
        assert isinstance(noise, DroppedLine)
        ((token, answer),) = hook.peer.receive_data(hook.take())
        assert (token, answer.result, answer.code) == ("token", None, words.METHOD_NOT_FOUND)
        assert not hook.peer.wants_to_send

    def test_S6_noise_before_the_answer_is_dropped(self, talk):
        hook = talk(ready=False)
        hook.peer.hello("gate", [], "token")
        hook.take()
        assert hook.is_noise(b"starting up...")
        assert hook.is_noise(b'{"level":"info"}')
        assert [token for token, _ in hook.says({"id": 1, "result": {}})] == ["token"]


@pytest.mark.parametrize(
    ("result", "slots"),
    [
        ({"max_in_flight": 3}, 3),
        ({"max_in_flight": 0}, None),
        ({"max_in_flight": True}, None),
        ({}, None),
        (None, None),
    ],
)
def test_only_a_whole_number_above_0_offers_slots(result, slots, talk):
    hook = talk(ready=False)
    hook.peer.hello("gate", [], "token")
    assert hook.peer.accept_hello(result) is None
    assert hook.peer.slots == slots
