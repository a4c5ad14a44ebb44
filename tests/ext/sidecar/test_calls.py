"""Requests of a client and their answers: results, errors, batches, notifications, limits."""

from __future__ import annotations

import contextlib
import gc
import json
import socket

import anyio
import anyio.lowlevel
import pytest
from scripted import SERVE, command, scripted

from picohook import AbortTurn, Deny, FunctionHook, Host, Modify, Respond, Retry
from picohook.model.stages import STAGES
from picohook.rpc.connection import ConnectionLimits

pytestmark = pytest.mark.anyio

HUGE = 123456789012345678901234567890
CALL = {"tool": "bash", "arguments": {"command": "ls", "n": HUGE, "text": "caf\u00e9 \u2028 \U0001f600"}}
PAYLOADS = {
    "before_prompt": {"prompt": "hello"},
    "before_llm": {"model": "m", "messages": [{"role": "user", "content": "hello"}]},
    "after_llm": {"response": {"content": "hello"}},
    "before_tool": CALL,
    "approve_tool": CALL,
    "after_tool": {**CALL, "result": {"for_llm": "done", "async": True}, "duration": 5},
    "before_finish": {"prompt": "hello", "response": {"content": "bye"}},
    "before_compact": {"scope": "micro", "messages": [{"role": "user", "content": "hello"}]},
    "after_compact": {"scope": "micro", "messages": []},
}


def untimed(outcome):
    for entry in outcome["trail"]:
        assert entry.pop("duration_ms") >= 0
    return outcome


def function(stage, decide, name="f", **settings):
    return FunctionHook(name, {stage: decide}, **settings)


# Results.


@pytest.mark.parametrize("stage", STAGES)
async def test_each_stage_is_a_method_whose_result_is_the_outcome(serving, connect, stage):
    seen = []

    def decide(payload):
        seen.append(payload)
        return True if stage == "approve_tool" else None

    async with serving(Host([function(stage, decide)])) as sidecar:
        client = await connect()
        result = await client.result(stage, {**PAYLOADS[stage], "return_payload": True})
        asked = STAGES[stage].payload.model_validate(PAYLOADS[stage])
        assert seen == [asked]
        assert untimed(result) == untimed((await getattr(sidecar._host, stage)(asked)).wire())
        assert (
            result["payload"].items()
            >= {key: value for key, value in PAYLOADS[stage].items() if key != "result"}.items()
        )


@pytest.mark.parametrize(
    ("stage", "decision", "expected"),
    [
        ("before_tool", Deny("no"), {"action": "deny_tool", "reason": "no"}),
        ("before_tool", AbortTurn("stop"), {"action": "abort_turn", "reason": "stop"}),
        ("approve_tool", Deny("never"), {"action": "deny_tool", "approved": False, "reason": "never"}),
        ("before_llm", Retry("again"), {"action": "retry", "feedback": "again"}),
        ("after_tool", Modify({"for_llm": f"{HUGE}"}), {"action": "modify"}),
    ],
)
async def test_the_outcome_has_the_hooks_decision(serving, connect, stage, decision, expected):
    async with serving(Host([function(stage, lambda _: decision)])):
        result = await (await connect()).result(stage, PAYLOADS[stage])
        assert result.items() >= expected.items()


@pytest.mark.parametrize("stage", STAGES)
async def test_a_continue_has_no_payload_unless_the_client_asks_for_it(serving, connect, stage):
    async with serving(Host([function(stage, lambda _: True if stage == "approve_tool" else None)])):
        client = await connect()
        bare = untimed(await client.result(stage, PAYLOADS[stage]))
        assert bare["action"] == "continue"
        assert untimed(await client.result(stage, {**PAYLOADS[stage], "return_payload": False})) == bare
        full = untimed(await client.result(stage, {**PAYLOADS[stage], "return_payload": True}))
        assert full.pop("payload").keys() >= PAYLOADS[stage].keys()
        assert full == bare


@pytest.mark.parametrize(
    "decision", [Deny("no"), AbortTurn("stop"), Modify({"arguments": {}})], ids=lambda it: it.action
)
async def test_every_other_action_has_the_payload(serving, connect, decision):
    async with serving(Host([function("before_tool", lambda _: decision)])):
        result = await (await connect()).result("before_tool", CALL)
        assert result["payload"]["tool"] == "bash"


async def test_a_hook_that_answers_itself_gives_the_outcome_its_result(serving, connect):
    hook = function("before_tool", lambda _: Respond({"for_llm": None, "for_user": "hi"}), provides=("bash",))
    async with serving(Host([hook])):
        result = await (await connect()).result("before_tool", CALL)
        assert (result["action"], result["result"]["for_user"]) == ("respond", "hi")


@pytest.mark.parametrize(
    "value",
    [
        HUGE,
        -HUGE,
        2**63,
        2**64,
        0.1,
        1e300,
        5e-324,
        True,
        None,
        "",
        "\x00\u2028\ud7ff",
        [],
        {},
        {"a": [None, {"b": 1}]},
    ],
    ids=repr,
)
async def test_values_come_back_exactly_through_a_hook_process(serving, connect, value):
    async with serving(Host([scripted("one")])):
        client = await connect()
        await client.send(
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": HUGE,
                    "method": "before_tool",
                    "params": {"tool": "t", "arguments": {"v": value}, "return_payload": True},
                }
            )
        )
        answer = await client.message()
        assert answer["id"] == HUGE
        back = answer["result"]["payload"]["arguments"]["v"]
        assert (back, type(back)) == (value, type(value))


async def test_an_answer_larger_than_the_sockets_buffer_arrives_whole(serving, connect):
    arguments = {"text": "x" * 1_000_000}
    async with serving(Host()):
        client = await connect()
        for _ in range(2):
            result = await client.result("before_tool", {"tool": "t", "arguments": arguments, "return_payload": True})
            assert result["payload"]["arguments"] == arguments


@pytest.mark.parametrize("identity", [0, -1, HUGE, 1.5, "", 'a\u2028"\\', None])
async def test_a_response_has_the_exact_id_of_its_request(serving, connect, identity):
    async with serving(Host()):
        answer = await (await connect()).exchange(json.dumps({"jsonrpc": "2.0", "id": identity, "method": "list"}))
        assert (answer["id"], type(answer["id"])) == (identity, type(identity))
        assert "result" in answer


async def test_an_idle_worker_keeps_nothing_of_the_last_request(serving, connect):
    async with serving(Host()):
        client = await connect()
        await client.exchange('{"jsonrpc": "2.0", "id": "mark", "method": "before_tool", "params": {"tool": "t"}}')
        kept = [one for one in gc.get_objects() if type(one) is dict and one.get("id") == "mark" and "method" in one]
        assert not kept


async def test_answers_come_in_any_order_as_they_are_ready(serving, connect):
    first, second = anyio.Event(), anyio.Event()

    async def wait(call):
        await {"first": first, "second": second}[call.tool].wait()

    async with serving(Host([function("before_tool", wait)])):
        client = await connect()
        for name in ("first", "second"):
            params = {"tool": name}
            await client.send(json.dumps({"jsonrpc": "2.0", "id": name, "method": "before_tool", "params": params}))
        assert "result" in await client.ask("status")
        second.set()
        assert (await client.message())["id"] == "second"
        first.set()
        assert (await client.message())["id"] == "first"


async def test_requests_may_come_in_pieces_and_many_in_one_piece(serving, connect):
    async with serving(Host([function("before_tool", lambda _: None)])):
        client = await connect()
        lines = "".join(
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": number,
                    "method": "before_tool",
                    "params": {"tool": f"t{number}", "return_payload": True},
                }
            )
            + "\r\n\n"
            for number in range(500)
        ).encode()
        for piece in (lines[:7], lines[7:20000], lines[20000:]):
            await client.send(piece + b"" if piece.endswith(b"\n") else piece)
        answers = [await client.message() for _ in range(500)]
        assert {answer["id"]: answer["result"]["payload"]["tool"] for answer in answers} == {
            number: f"t{number}" for number in range(500)
        }


async def test_events_reach_their_observers(serving, connect):
    told = []
    async with serving(Host([FunctionHook("o", on_event=lambda event: told.append((event.kind, event.payload)))])):
        client = await connect()
        assert await client.result("emit", {"kind": "agent.error", "payload": {"Stage": "x", "Message": None}}) is True
        await client.send('{"jsonrpc": "2.0", "method": "emit", "params": ["turn_start", {"n": 1}]}')
        await client.result("status")
        while len(told) < 2:
            await anyio.lowlevel.checkpoint()
        assert told == [("error", {"Stage": "x", "Message": None}), ("turn_start", {"n": 1})]


async def test_a_sidecar_has_the_methods_of_the_control_socket(serving, connect):
    async with serving(Host([scripted("one")])):
        client = await connect()
        assert [hook["name"] for hook in (await client.result("status"))["hooks"]] == ["one"]
        assert (await client.result("list"))["stages"]["before_tool"][0]["hook"] == "one"
        assert 'picohook_up{hook="one"} 1' in await client.result("metrics")
        assert await client.result("watch") is True
        assert await client.result("restart", {"hook": "one"}) is True
        assert (await client.told("state", state="ready"))["hook"] == "one"


# Errors.

WRONG = {
    "no JSON": ("{", -32700, "Parse error"),
    "no UTF-8": (b"\xff\n", -32700, "Parse error"),
    "NaN": ('{"jsonrpc": "2.0", "id": NaN, "method": "status"}', -32700, "Parse error"),
    "infinity": ('{"jsonrpc": "2.0", "id": 1e999, "method": "status"}', -32700, "Parse error"),
    "half a character": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "\\ud800"}}',
        -32700,
        "Parse error",
    ),
    "a key twice": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "a", "tool": "b"}}',
        -32700,
        "Parse error",
    ),
    "too deep": ("[" * 5000 + "]" * 5000, -32700, "Parse error"),
    "a number": ("1", -32600, "not an object"),
    "an empty batch": ("[]", -32600, "empty batch"),
    "no version": ('{"id": 1, "method": "status"}', -32600, "`jsonrpc`"),
    "a method of another type": ('{"jsonrpc": "2.0", "id": 1, "method": 1}', -32600, "`method`"),
    "params of another type": ('{"jsonrpc": "2.0", "id": 1, "method": "status", "params": null}', -32600, "`params`"),
    "an id of another type": ('{"jsonrpc": "2.0", "id": true, "method": "status"}', -32600, "`id`"),
    "a method nearly": ('{"jsonrpc": "2.0", "id": 1, "method": "before_tools"}', -32601, "did you mean 'before_tool'?"),
    "an unknown method": ('{"jsonrpc": "2.0", "id": 1, "method": "\\u001b[31m"}', -32601, "Method not found"),
    "a private one": ('{"jsonrpc": "2.0", "id": 1, "method": "__class__"}', -32601, "Method not found"),
    "a payload without its field": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool"}',
        -32602,
        "tool: is missing",
    ),
    "a field of a wrong type": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": 5}}',
        -32602,
        "tool: must be a string, not the number 5",
    ),
    "a text for a number": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "t", "meta": {"Iteration": "5"}}}',
        -32602,
        'meta.Iteration: must be a whole number, not the string "5"',
    ),
    "a field named wrongly": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "t", "argument": {}}}',
        -32602,
        'argument: unknown key (did you mean "arguments"?)',
    ),
    "a field named wrongly inside": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "t", "meta": {"TurnId": "x"}}}',
        -32602,
        'meta.TurnId: unknown key (did you mean "TurnID"?)',
    ),
    "a return of the payload that is no boolean": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "t", "return_payload": 1}}',
        -32602,
        "return_payload: must be",
    ),
    "a payload in a list": (
        '{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": ["bash"]}',
        -32602,
        "an object, with names",
    ),
    "too many params": ('{"jsonrpc": "2.0", "id": 1, "method": "reset", "params": ["a", "b"]}', -32602, "an object"),
    "params of the method's own": (
        '{"jsonrpc": "2.0", "id": 1, "method": "status", "params": {"context": 1, "self": 2}}',
        -32602,
        "context: unknown key",
    ),
    "an unknown event": (
        '{"jsonrpc": "2.0", "id": 1, "method": "emit", "params": {"kind": "turn_strat"}}',
        -32602,
        "did you mean 'turn_start'?",
    ),
    "an unknown hook": (
        '{"jsonrpc": "2.0", "id": 1, "method": "reset", "params": {"hook": "on"}}',
        -32000,
        "no hook named 'on'",
    ),
    "a reload of nothing": ('{"jsonrpc": "2.0", "id": 1, "method": "reload"}', -32000, "can be reloaded"),
    "an unknown session": (
        '{"jsonrpc": "2.0", "id": 1, "method": "session.end", "params": {"session": "s"}}',
        -32001,
        "no session 's' open",
    ),
    "an unknown turn": (
        '{"jsonrpc": "2.0", "id": 1, "method": "turn.end", "params": {"turn": "t"}}',
        -32001,
        "no turn 't' open",
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_request_gets_its_error_and_the_connection_stays_open(serving, connect, case):
    line, code, message = WRONG[case]
    async with serving(Host()):
        client = await connect()
        answer = await client.exchange(line)
        assert answer["error"]["code"] == code
        assert message in answer["error"]["message"]
        assert answer["id"] == (None if code in {-32700, -32600} else 1)
        assert set(answer["error"].get("data", {})) <= {"problems"}
        for leak in ("Traceback", "pydantic", "class", "object at", "picohook."):
            assert leak not in json.dumps(answer).replace("__class__", "")
        assert (await client.result("status"))["hooks"] == []


async def test_the_error_of_a_wrong_payload_names_every_wrong_field_in_its_data(serving, connect):
    async with serving(Host()):
        error = (await (await connect()).ask("after_tool", {"tool": 1, "result": {"for_lm": "x"}}))["error"]
        assert [problem["where"] for problem in error["data"]["problems"]] == ["tool", "result.for_lm"]


async def test_a_failure_in_the_hosts_own_code_is_logged_and_the_client_gets_no_cause(serving, connect, journal):
    class Broken(FunctionHook):
        def status(self):
            raise ZeroDivisionError("internals")

    async with serving(Host([Broken("broken")]), logger=journal):
        client = await connect()
        assert (await client.ask("status"))["error"] == {"code": -32603, "message": "Internal error"}
        assert "internals" in journal.all("the sidecar failed", level="error")[0]["why"]


async def test_a_reload_of_a_wrong_configuration_lists_every_problem(serving, connect, tmp_path):
    config = tmp_path / "picohook.toml"
    config.write_text(f"[hooks.one]\nstages = ['before_tool']\ncommand = {json.dumps(command(SERVE))}\n")
    async with serving(Host.from_config(config)):
        config.write_text("[hooks.one]\ncomand = ['x']\nstages = ['before_tool']\n")
        error = (await (await connect()).ask("reload"))["error"]
        assert error["code"] == -32000
        assert [problem["where"] for problem in error["data"]["problems"]] == ["hooks.one.comand"]


async def test_notifications_are_handled_and_never_answered(serving, connect):
    seen = []
    async with serving(Host([function("before_tool", lambda call: seen.append(call.tool))])):
        client = await connect()
        await client.send('{"jsonrpc": "2.0", "method": "before_tool", "params": {"tool": "one"}}')
        await client.send('{"jsonrpc": "2.0", "method": "before_tool", "params": {"tool": 1}}')
        await client.send('{"jsonrpc": "2.0", "method": "nothing"}')
        await client.send('[{"jsonrpc": "2.0", "method": "before_tool", "params": {"tool": "two"}}]')
        await client.result("status")
        while len(seen) < 2:
            await anyio.lowlevel.checkpoint()
        assert sorted(seen) == ["one", "two"]


# Batches.


async def test_a_batch_is_answered_in_one_line_in_its_order_without_its_notifications(serving, connect):
    gates = {name: anyio.Event() for name in "ab"}

    async def wait(call):
        await gates[call.tool].wait()
        if call.tool == "b":
            gates["a"].set()

    gates["b"].set()
    async with serving(Host([function("before_tool", wait)])):
        batch = [
            {"jsonrpc": "2.0", "id": "a", "method": "before_tool", "params": {"tool": "a"}},
            {"jsonrpc": "2.0", "method": "emit", "params": {"kind": "error"}},
            {"jsonrpc": "2.0", "id": "b", "method": "before_tool", "params": {"tool": "b"}},
            {"jsonrpc": "2.0", "id": None, "method": "nothing"},
            1,
            [],
            {"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {}},
        ]
        answers = await (await connect()).exchange(json.dumps(batch))
        assert [answer["id"] for answer in answers] == ["a", "b", None, None, None, 1]
        assert [answer.get("error", {}).get("code") for answer in answers] == [
            None,
            None,
            -32601,
            -32600,
            -32600,
            -32602,
        ]


async def test_a_batch_past_the_limit_is_refused_and_one_at_the_limit_is_not(serving, connect):
    async with serving(Host(), limits=ConnectionLimits(line=1 << 20, batch=3)):
        client = await connect()
        status = {"jsonrpc": "2.0", "id": 1, "method": "list"}
        assert len(await client.exchange(json.dumps([status] * 3))) == 3
        answer = await client.exchange(json.dumps([status] * 4))
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert "3 requests at most" in answer["error"]["message"]


# Bounds.


async def test_a_line_that_is_too_long_is_answered_and_ends_only_its_own_connection(serving, connect):
    request = '{"jsonrpc": "2.0", "id": 1, "method": "list"'
    async with serving(Host(), limits=ConnectionLimits(line=1000)):
        other, exact, long = await connect(), await connect(), await connect()
        assert "result" in await exact.exchange(request + " " * (1000 - len(request) - 1) + "}")
        await long.send(b'{"jsonrpc": "2.0", "id": 7, "method": "list"}\n' + b"x" * 1001)
        answers = [await long.message(), await long.message()]
        assert {answer["id"] for answer in answers} == {7, None}
        assert {answer.get("error", {}).get("code") for answer in answers} == {None, -32600}
        assert await long.line() is None
        assert "result" in await other.ask("list")


async def test_calls_past_the_limit_wait_and_are_all_answered(serving, connect):
    under_way, most, gate = 0, 0, anyio.Event()

    async def count(_):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 4:
            gate.set()
        await gate.wait()
        under_way -= 1

    async with serving(Host([function("before_tool", count)]), limits=ConnectionLimits(line=1 << 20, in_flight=4)):
        client = await connect()
        for number in range(50):
            await client.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": "before_tool", "params": CALL}))
        assert {(await client.message())["id"] for _ in range(50)} == {*range(50)}
        assert most == 4


async def test_a_client_that_does_not_read_is_paused_and_gets_every_answer_later(serving, path):
    limits = ConnectionLimits(line=1 << 20, unread=100_000)
    params = {"tool": "t", "arguments": {"text": "x" * 10_000}, "return_payload": True}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "before_tool", "params": params}).encode() + b"\n"
        for number in range(300)
    ]
    async with serving(Host(), limits=limits) as sidecar:
        stream = await anyio.connect_unix(path)
        sent = 0

        async def send():
            nonlocal sent
            for line in lines:
                await stream.send(line)
                sent += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            while not (connections := sidecar.server.connections):
                await anyio.lowlevel.checkpoint()
            (connection,) = connections
            while connection.stream.unsent <= limits.unread or connection.stream.reading:
                await anyio.lowlevel.checkpoint()
            assert sent < 300
            received = b""
            while received.count(b"\n") < 300:
                received += await stream.receive()
        answers = [json.loads(line) for line in received.splitlines()]
        assert [answer["id"] for answer in answers] == [*range(300)]
        assert all(answer["result"]["payload"]["arguments"] == params["arguments"] for answer in answers)
        assert connection.stream.unsent == 0
        await stream.aclose()


async def test_a_client_that_watches_and_does_not_read_is_dropped_and_others_are_not(serving, connect, journal):
    limits = ConnectionLimits(line=1 << 20, unread_max=10_000)
    async with serving(
        Host([function("before_tool", lambda _: Deny("x" * 1000))]), limits=limits, logger=journal
    ) as sidecar:
        slow, quick = await connect(), await connect()
        await slow.result("watch")
        while not journal.all("a client of the sidecar was dropped: it reads too slowly"):
            assert "result" in await quick.ask("before_tool", CALL)
        while sidecar._host.on_change:
            await anyio.lowlevel.checkpoint()
        assert "result" in await quick.ask("before_tool", CALL)


async def test_a_client_whose_unread_answers_pass_the_limit_is_dropped(serving, path, journal, connect):
    gate = anyio.Event()

    async def wait(call):
        await gate.wait()
        return Modify({"arguments": {"text": "x" * 100_000}}) if call.tool == "t" else None

    limits = ConnectionLimits(line=1 << 20, unread=1 << 20, unread_max=1 << 21)
    async with serving(Host([function("before_tool", wait)]), limits=limits, logger=journal):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            for number in range(60):
                client.sendall(
                    json.dumps(
                        {"jsonrpc": "2.0", "id": number, "method": "before_tool", "params": {"tool": "t"}}
                    ).encode()
                    + b"\n"
                )
            other = await connect()
            await other.result("status")
            gate.set()
            await journal.seen("a client of the sidecar was dropped: it reads too slowly")
            assert "result" in await other.ask("before_tool", CALL)


# Clients that vanish.


async def test_the_calls_of_a_client_that_vanishes_are_cancelled_and_those_of_others_are_not(serving, connect, board):
    hook = scripted("h", board.call("h"), SERVE)
    began, ended = [], []
    gate = anyio.Event()

    async def wait(call):
        began.append(call.tool)
        try:
            await gate.wait()
        except anyio.get_cancelled_exc_class():
            ended.append(call.tool)
            raise

    async with serving(Host([function("before_tool", wait, priority=1), hook])):
        await board.line("h")
        gone, other = await connect(), await connect()
        for client, name in ((gone, "gone"), (other, "other")):
            params = {"tool": name}
            await client.send(json.dumps({"jsonrpc": "2.0", "id": name, "method": "before_tool", "params": params}))
        while len(began) < 2:
            await anyio.lowlevel.checkpoint()
        await gone.stream.aclose()
        while not ended:
            await anyio.lowlevel.checkpoint()
        gate.set()
        answer = await other.message()
        assert (answer["id"], answer["result"]["trail"][1]["error"]) == ("other", None)
        assert ended == ["gone"]


async def test_a_client_that_ends_its_input_still_gets_its_answers(serving, path):
    gate = anyio.Event()

    async def wait(_):
        await gate.wait()

    async with serving(Host([function("before_tool", wait)])):
        stream = await anyio.connect_unix(path)
        await stream.send(b'{"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "t"}}\n{"half')
        await stream.send_eof()
        gate.set()
        received = b""
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                received += await stream.receive()
        assert [json.loads(line)["id"] for line in received.splitlines()] == [1]
        await stream.aclose()


async def test_clients_that_vanish_without_reading_do_not_affect_others(serving, path, connect):
    async with serving(Host([scripted("one")])):
        for _ in range(100):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                with contextlib.suppress(BrokenPipeError):
                    client.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "metrics"}\n' * 10 + b'{"half')
            await anyio.lowlevel.checkpoint()
        while True:
            client = await connect()
            with contextlib.suppress(anyio.BrokenResourceError):  # for a moment, the clients that went still count
                await client.send('{"jsonrpc": "2.0", "id": 1, "method": "status"}')
                if await client.line() is not None:
                    break
        assert (await client.result("before_tool", CALL))["trail"][0]["error"] is None
