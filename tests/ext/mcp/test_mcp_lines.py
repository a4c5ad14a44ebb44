"""The lines between an MCP client and an MCP server: which pass as they are, and which are refused."""

from __future__ import annotations

import json
import random

import anyio
import pytest
from mcp_ends import as_line, between, call, result
from rows import each

from picohook.ext.mcp import proxy
from picohook.testing import FakeHook

pytestmark = pytest.mark.anyio

ODD = [
    b'{"id":0,"jsonrpc":"2.0","method":"ping"}\n',
    b'  {"jsonrpc" : "2.0", "id" : "a\\u0041", "method" : "x/y", "params" : { } }\r\n',
    b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"a","params":{"n":1e2,"m":0.10,"s":"\\u2028\xe2\x80\xa8"}}\n',
    b'{"jsonrpc":"2.0","id":1.5,"method":"a","more":[1,{"b":null}]}\n',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}\n',
]


async def test_lines_pass_in_both_directions_byte_for_byte():
    async with between() as both:
        for sender, receiver in ((both.client, both.server), (both.server, both.client)):
            await sender.send(*ODD)
            assert await receiver.lines(len(ODD)) == ODD


async def test_answers_pass_byte_for_byte_in_any_order():
    answers = [
        b'{"result":{ "a":1.0 },"id":0,"jsonrpc":"2.0"}\n',
        b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"error":{"code":-1,"message":"no"}}\n',
        b'{"jsonrpc":"2.0", "id":"aA", "result":{}}\n',
    ]
    async with between() as both:
        for sender, receiver in ((both.client, both.server), (both.server, both.client)):
            await sender.send(*ODD)
            await receiver.lines(len(ODD))
            await receiver.send(*answers)
            assert await sender.lines(len(answers)) == answers


async def test_ten_thousand_lines_pass_byte_for_byte():
    seed = random.Random(1)
    asked = []
    for number in range(5000):
        text = "".join(seed.choices('aä\u2028\\"\n\t\U0001f600', k=seed.randrange(40)))
        if number % 3:
            asked.append(
                as_line({"id": number, "method": "resources/read", "params": {"uri": text, "n": seed.random()}})
            )
        else:
            asked.append(call(number, text=text, big=seed.getrandbits(200)))
    answers = [result(number, seed.randbytes(20).hex(), extra=seed.getrandbits(90)) for number in range(5000)]
    seed.shuffle(answers)
    async with (
        between(FakeHook(script={"before_tool": None, "after_tool": None})) as both,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(both.client.send, *asked)
        assert sorted(await both.server.lines(5000)) == sorted(asked)
        tasks.start_soon(both.server.send, *answers)
        assert sorted(await both.client.lines(5000)) == sorted(answers)


REFUSED = {
    b"nonsense": None,
    b'{"jsonrpc":"2.0","id":7,"method":"ping"': 7,
    b'[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}]': None,
    b"[]": None,
    b"7": None,
    b'{"id":7,"method":"ping"}': 7,
    b'{"jsonrpc":"1.0","id":7,"method":"ping"}': 7,
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}': None,
    b'{"jsonrpc":"2.0","id":true,"method":"ping"}': None,
    b'{"jsonrpc":"2.0","id":[7],"method":"ping"}': None,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","Method":"tools/call"}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","param\xc5\xbf":{}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"Tools/Call","params":{"name":"x"}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call\\u0000","params":{"name":"x"}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":" tools//call","params":{"name":"x"}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"n":1e999}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"n":' + b"[" * 300 + b"]" * 300 + b"}}": 7,
    b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}': None,
    b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}': None,
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}': None,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}': 7,
    b'{"jsonrpc":"2.0","method":"ping","id":7,"params":{"a":1,"a":2}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":\r{"jsonrpc":"2.0","id":8,"method":"tools/call"}\r}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"\xff"}': 7,
    b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}': None,
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":7,"method":"ping"}': None,
    b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}': None,
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":[]}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","Name":"y"}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","Arguments":{}}}': 7,
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","task":{}}}': 7,
}


@each("line", REFUSED)
async def test_a_bad_line_of_the_client_is_refused_and_the_next_one_passes(line):
    async with between() as both:
        await both.client.send(line + b"\n", ODD[0])
        assert await both.server.line() == ODD[0]
        answer = await both.client.message()
        assert (answer["id"], answer["error"]["code"]) == (REFUSED[line], -32600)
        assert answer["error"]["message"].startswith("picohook: ")


@each("line", [line for line in REFUSED if b"tools/call" not in line])
async def test_a_bad_line_of_the_server_does_not_reach_the_client(line):
    async with between() as both:
        await both.server.send(line + b"\n", ODD[0])
        assert await both.client.line() == ODD[0]


BAD_ANSWERS = [
    b'{"jsonrpc":"2.0","id":7,"result":' + b"[" * 300 + b"]" * 300 + b"}\n",
    b'{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}\n',
    b'{"jsonrpc":"2.0","id":7,"result":{},"error":{}}\n',
    b'{"id":7,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":7,"result":{},"Result":{}}\n',
]


@each("answer", BAD_ANSWERS)
@each("asked", [as_line({"id": 7, "method": "ping"}), call(7)])
async def test_who_waits_for_an_answer_that_is_refused_is_told(answer, asked):
    async with between() as both:
        await both.client.send(asked)
        await both.server.line()
        await both.server.send(answer)
        told = await both.client.message()
        assert (told["id"], told["error"]["code"]) == (7, -32000)


@pytest.mark.parametrize("asked", ["roots/list", "sampling/createMessage"])
async def test_a_server_whose_question_gets_a_bad_answer_is_told(asked):
    async with between() as both:
        await both.server.send({"id": 7, "method": asked, "params": {"messages": []}})
        await both.client.line()
        await both.client.send(BAD_ANSWERS[0])
        assert (await both.server.message())["id"] == 7


async def test_a_method_that_is_refused_does_not_reach_the_client_and_others_do():
    asked = as_line({"id": 7, "method": "sampling/createMessage"}), as_line({"id": 8, "method": "roots/list"})
    async with between(refused=["sampling/createMessage"]) as both:
        await both.server.send(*asked)
        assert await both.client.line() == asked[1]
        answer = await both.server.message()
        assert (answer["id"], "which is refused here" in answer["error"]["message"]) == (7, True)


@pytest.mark.parametrize(
    "asked", [call(1, newer=True), as_line({"id": 1, "method": "prompts/get"})], ids=["call", "prompt"]
)
async def test_a_newer_server_gets_no_input_that_is_refused_and_never_asks_the_model(asked):
    def asks(*methods):
        requests = {str(number): {"method": method} for number, method in enumerate(methods)}
        return as_line({"id": 1, "result": {"resultType": "input_required", "inputRequests": requests}})

    refused = ["elicitation/create"], ["roots/list", "sampling/createMessage"]
    async with between(refused=["elicitation/create"]) as both:
        for methods, passes in ((["roots/list"], True), *((one, False) for one in refused)):
            await both.client.send(asked)
            await both.server.line()
            await both.server.send(asks(*methods))
            line = await both.client.line()
            assert (line == asks(*methods)) is passes
            assert passes or json.loads(line)["error"]["code"] == -32000


async def test_a_second_request_with_an_open_id_is_refused_and_the_first_is_answered():
    async with between() as both:
        await both.client.send({"id": 1, "method": "ping"}, call(1), {"id": 1.0, "method": "other"})
        await both.server.line()
        assert [(await both.client.message())["id"] for _ in range(2)] == [None, None]
        await both.server.send({"id": 1, "result": {}}, ODD[0])
        assert await both.client.lines(2) == [as_line({"id": 1, "result": {}}), ODD[0]]


async def test_an_id_can_be_used_again_after_its_answer():
    async with between() as both:
        for line in (as_line({"id": 1, "method": "ping"}), call(1)) * 2:
            await both.client.send(line)
            assert await both.server.line() == line
            await both.server.send(result(1))
            assert await both.client.line() == result(1)


@pytest.mark.parametrize("identity", ["1", 2, 1.5])
async def test_an_answer_that_nobody_asked_for_is_refused(identity):
    async with between(FakeHook(script={"after_tool": {"action": "modify", "result": {"for_llm": "seen"}}})) as both:
        await both.client.send(call(1))
        await both.server.line()
        await both.server.send(result(identity, "unseen"), result(1, "a"), result(1, "again"), ODD[0])
        answers = [await both.client.message() for _ in range(2)]
        assert [one for one in answers if "method" not in one] == [
            {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "seen"}]}}
        ]


async def test_each_side_has_its_own_ids():
    async with between() as both:
        await both.client.send(call(1))
        await both.server.line()
        await both.server.send({"id": 1, "method": "roots/list"})
        assert (await both.client.message())["method"] == "roots/list"
        await both.client.send({"id": 1, "result": {"roots": []}})
        assert (await both.server.message())["result"] == {"roots": []}
        await both.server.send(result(1, "a"))
        assert await both.client.line() == result(1, "a")


LONG = "x" * 2000
TOO_LONG = "it has more than 1000 bytes"


@pytest.mark.parametrize("cuts", [1, 7, 3000])
@pytest.mark.parametrize("at_end", [False, True])
async def test_E3_an_answer_that_is_too_long_fails_its_call_and_no_other(cuts, at_end):
    async with between(max_line=1000) as both:
        await both.client.send(call(1), {"id": "two", "method": "resources/read"}, {"id": 3, "method": "ping"})
        await both.server.lines(3)
        for identity in (1, "two"):
            members = (
                {"result": {"text": LONG}, "id": identity} if at_end else {"id": identity, "result": {"text": LONG}}
            )
            line = as_line(members)
            for at in range(0, len(line), cuts):
                await both.server.send(line[at : at + cuts])
                if cuts == 7:
                    await anyio.lowlevel.checkpoint()
            answer = await both.client.message()
            assert (answer["id"], answer["error"]["message"]) == (
                identity,
                f"picohook: the answer was refused: {TOO_LONG}",
            )
        await both.server.send({"id": 3, "result": {}})
        assert await both.client.line() == as_line({"id": 3, "result": {}})


async def test_E3_a_request_that_is_too_long_is_answered_with_an_error():
    async with between(max_line=1000) as both:
        await both.client.send(
            {"id": 1, "method": "ping"}, call(2, text=LONG), {"id": 3, "method": "ping", "params": {"x": LONG}}
        )
        answers = [await both.client.message() for _ in range(2)]
        assert [(one["id"], one["error"]["message"]) for one in answers] == [
            (2, f"picohook: {TOO_LONG}"),
            (3, f"picohook: {TOO_LONG}"),
        ]
        await both.client.send(b"[" * 5000 + b"\n", {"id": 4, "method": "ping"})
        assert (await both.client.message())["id"] is None
        assert [json.loads(one)["id"] for one in await both.server.lines(2)] == [1, 4]


@pytest.mark.parametrize("side", ["client", "server"])
async def test_a_line_of_the_limit_passes_and_one_with_a_byte_more_does_not(side):
    async with between(max_line=100) as both:
        sender, receiver = (both.client, both.server) if side == "client" else (both.server, both.client)
        fits = as_line({"method": "x" * (100 - len(as_line({"method": ""})) + 1)})
        await sender.send(fits, b" " + fits, fits, b"\n", fits)
        assert await receiver.lines(3) == [fits] * 3


async def test_E3_a_message_with_too_many_values_fails_its_call():
    many = b"[" + b"[]," * 100_001 + b"[]]"
    async with between() as both:
        await both.client.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}\n' % many, call(2))
        await both.server.send(b'{"result":%b,"jsonrpc":"2.0","id":2}\n' % many)
        answers = [await both.client.message() for _ in range(2)]
        assert [one["id"] for one in answers] == [1, 2]
        assert all("more than 100000 values" in one["error"]["message"] for one in answers)


HALF = rb"a \ud83d\ude00 \ud83d \\ud83d \udc00\n"
MENDED = "a \U0001f600 \ufffd \\ud83d \ufffd\n"


async def test_J5_a_line_with_half_a_surrogate_pair_passes_if_no_hook_decides():
    asked, told = (
        b'{"jsonrpc":"2.0","id":1,"%b":{"text":"%b"}%b}\n' % (name, HALF, more)
        for name, more in ((b"params", b',"method":"x"'), (b"result", b""))
    )
    async with between() as both:
        await both.client.send(asked)
        assert await both.server.line() == asked
        await both.server.send(told)
        assert await both.client.line() == told


async def test_J5_half_a_surrogate_pair_is_replaced_where_hooks_decide_and_what_they_saw_is_sent():
    guard = FakeHook(script={"before_tool": {"action": "continue"}, "after_tool": {"action": "continue"}})
    call_line = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}}\n' % HALF
    )
    async with between(guard) as both:
        await both.client.send(call_line)
        sent = await both.server.message()
        assert sent["params"]["arguments"]["text"] == MENDED
        await both.server.send(b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b"}]}}\n' % HALF)
        assert (await both.client.message())["result"]["content"][0]["text"] == MENDED
        before, after = (one.payload for one in guard.asked)
        assert (before.arguments["text"], after.result.for_llm) == (MENDED, MENDED)


async def test_an_unfinished_line_is_not_passed_on():
    async with between() as both:
        await both.client.send(ODD[0], call(9)[:-1])
        both.client.end()
        assert await both.server.line() == ODD[0]
        await both.server.send({"id": 0, "result": {}})
        assert await both.server.line() == b""


@pytest.mark.parametrize("side", ["client", "server"])
async def test_a_side_is_read_only_as_fast_as_the_other_side_reads(side):
    async with between() as both:
        fast, slow = (both.client, both.server) if side == "client" else (both.server, both.client)
        lines = [as_line({"method": "a", "params": {"n": number, "x": "x" * 50_000}}) for number in range(100)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fast.send, *lines)
            stream = both.proxy.server.stream if side == "client" else both.proxy.client.stream
            with anyio.fail_after(30):
                while stream.unsent <= 1 << 18:
                    await anyio.lowlevel.checkpoint()
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            assert stream.unsent < (1 << 18) + 200_000
            assert await slow.lines(100) == lines


async def test_a_client_that_does_not_read_what_the_proxy_answers_is_not_read(monkeypatch):
    monkeypatch.setattr(proxy, "MOST_HELD", 1 << 14)
    refused = b"[%b]\n" % (b"x" * 1000)
    async with between() as both, anyio.create_task_group() as tasks:
        tasks.start_soon(both.client.send, *[refused] * 2000)
        stream = both.proxy.client.stream
        with anyio.fail_after(30):
            while stream.unsent <= 1 << 14:
                await anyio.lowlevel.checkpoint()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert stream.unsent < (1 << 14) + 20_000
        assert len(set(await both.client.lines(2000))) == 1


async def test_two_thousand_mutated_lines_break_nothing_and_no_call_passes_unseen():
    seed = random.Random(17)
    hook = FakeHook(script={"before_tool": None})
    good = [call(number, text="x", more={"a": [1, None]}) for number in range(4)] + ODD
    lines = []
    for number in range(2000):
        line = bytearray(seed.choice(good).replace(b'"id": ', b'"id": %d' % (number + 1))[:-1])
        for _ in range(seed.randrange(1, 4)):
            place = seed.randrange(len(line))
            line[place : place + seed.randrange(3)] = seed.choice(
                [b"", b'"', b"{", b"}", b",", b"\r", b"\xff", b"\\", b"0", b"[", b"tools/call", b'"id":1,', b"\x00"]
            )
        lines.append(bytes(line).replace(b"\n", b"") + b"\n")
    last = as_line({"method": "last"})
    async with between(hook) as both, anyio.create_task_group() as tasks:
        got = []

        async def read_answers():
            while await both.client.line():
                pass

        tasks.start_soon(both.client.send, *lines, last)
        tasks.start_soon(read_answers)
        while (line := await both.server.line()) != last:
            got.append(line)
        called = [json.loads(line) for line in got if b"tools/call" in line]
        called = [one for one in called if one["method"] == "tools/call"]
        assert all(line in lines for line in got)
        assert len(called) > 40
        asked = [json.dumps([one.tool, one.arguments]) for one in hook.asked_at("before_tool")]
        for one in called:
            asked.remove(json.dumps([f"mcp__demo__{one['params']['name']}", one["params"].get("arguments") or {}]))
        both.client.end()
        both.server.end()
