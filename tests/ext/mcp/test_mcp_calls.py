"""Tool calls between an MCP client and an MCP server: hooks decide on each, and on its result."""

from __future__ import annotations

import contextlib
import json

import anyio
import anyio.lowlevel
import pytest
from loops import ON_BOTH
from mcp_ends import META, as_line, between, call, result
from scripted import PATIENCE

from picohook import FunctionHook
from picohook.testing import FakeHook, RecordingHost

pytestmark = pytest.mark.anyio

DENY = {"action": "deny_tool", "reason": "not this"}


def text_of(message):
    return message["result"]["content"][0]["text"]


class Gate(FunctionHook):
    """Holds what it is asked about until it is opened."""

    def __init__(self, stage="before_tool", **settings):
        super().__init__("gate", {stage: self.wait}, **settings)
        self.asked, self.left = anyio.Event(), anyio.Event()
        self.opened = anyio.Event()

    async def wait(self, payload):
        if payload.tool.endswith("held"):
            self.asked.set()
            try:
                await self.opened.wait()
            finally:
                self.left.set()
        return True if self.spec.stages == ("approve_tool",) else None


async def has(event):
    with anyio.fail_after(PATIENCE):
        await event.wait()


@contextlib.asynccontextmanager
async def holding(gate):
    """A proxy whose call 1 is held at the gate."""
    async with between(gate) as both:
        await both.client.send(call(1, "held"))
        await has(gate.asked)
        yield both


# What hooks are asked.


async def test_hooks_see_the_tool_under_the_name_of_its_server_and_its_own():
    hook = FakeHook(script={"before_tool": None, "approve_tool": True, "after_tool": None})
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with between(hook) as both:
        await both.client.send(
            {
                "id": 7,
                "method": "tools/call",
                "params": {"name": "add", "arguments": {"a": 2**80}, "_meta": {"traceparent": trace}},
            }
        )
        await both.server.line()
        await both.server.send(result(7, "3", isError=True))
        await both.client.line()
    for asked in hook.asked:
        assert (asked.payload.tool, asked.payload.arguments) == ("mcp__demo__add", {"a": 2**80})
        assert asked.payload.context == {"tool_name": "add", "mcp_server": "demo"}
        assert (asked.payload.tool_call_id, asked.payload.meta.traceparent) == ("7", trace)
    (returned,) = hook.asked_at("after_tool")
    assert (returned.result.for_llm, returned.result.is_error) == ("3", True)


async def test_observers_are_told_of_the_session_and_of_each_call():
    host = RecordingHost([FakeHook(script={"before_tool": lambda asked: DENY if "no" in asked.arguments else None})])
    async with between(host=host) as both:
        await both.client.send(call(1))
        await both.server.line()
        await both.server.send(result(1, "ab"))
        await both.client.line()
        await both.client.send(call(2, no=1))
        await both.client.line()
    told = [(event.kind, event.payload.get("ForLLMLen")) for event in host.events]
    assert told == [
        ("session_start", None),
        ("tool_exec_start", None),
        ("tool_exec_end", 2),
        ("tool_exec_skipped", None),
        ("session_end", None),
    ]


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": {}}])
async def test_a_call_without_arguments_passes_as_it_is(arguments):
    line = as_line({"id": 1, "method": "tools/call", "params": {"name": "a", **arguments}})
    hook = FakeHook(script={"before_tool": None})
    async with between(hook) as both:
        await both.client.send(line)
        assert await both.server.line() == line
    assert hook.asked_at("before_tool")[0].arguments == {}


# What they decide about a call.


@pytest.mark.parametrize("identity", [0, "x", "", 2**70, 1.5, -1])
async def test_a_denied_call_never_reaches_the_server_and_is_answered_with_its_id(identity):
    async with between(FakeHook(script={"before_tool": DENY})) as both:
        await both.client.send(call(identity), {"method": "next"})
        assert (await both.server.message())["method"] == "next"
        answer = await both.client.message()
    text = "Tool execution denied by hook: not this"
    assert answer == {
        "jsonrpc": "2.0",
        "id": identity,
        "result": {"content": [{"type": "text", "text": text}], "isError": True},
    }


async def test_an_answer_by_hooks_to_a_newer_client_says_that_it_is_complete():
    async with between(FakeHook(script={"before_tool": DENY})) as both:
        await both.client.send(call(1, newer=True))
        assert (await both.client.message())["result"]["resultType"] == "complete"


@pytest.mark.parametrize("answer", [False, RuntimeError("broken"), {"approved": "yes"}, {}])
async def test_a_call_that_an_approver_does_not_approve_never_reaches_the_server(answer):
    async with between(FakeHook(script={"approve_tool": answer})) as both:
        await both.client.send(call(1), {"method": "next"})
        assert (await both.server.message())["method"] == "next"
        assert text_of(await both.client.message()).startswith("Tool execution denied by approval hook")


async def test_a_failing_guard_denies():
    async with between(FakeHook(script={"before_tool": RuntimeError("broken")}, guard=True)) as both:
        await both.client.send(call(1))
        assert (await both.client.message())["result"]["isError"] is True


async def test_an_edit_changes_the_arguments_and_nothing_else():
    edit = {"action": "modify", "call": {"arguments": {"path": "/safe", "n": 2**70}}}
    async with between(FakeHook(script={"before_tool": edit})) as both:
        params = {"name": "read", "arguments": {"path": "/etc"}, "_meta": {"progressToken": 1.5}, "other": [1]}
        await both.client.send({"id": "a", "method": "tools/call", "params": params, "more": 1})
        assert await both.server.message() == {
            "jsonrpc": "2.0",
            "id": "a",
            "method": "tools/call",
            "params": {**params, "arguments": {"path": "/safe", "n": 2**70}},
            "more": 1,
        }


async def test_an_edit_from_true_to_one_is_an_edit():
    async with between(FakeHook(script={"before_tool": {"action": "modify", "call": {"arguments": {"a": 1}}}})) as both:
        await both.client.send(call(1, a=True))
        assert (await both.server.message())["params"]["arguments"]["a"] is not True


@pytest.mark.parametrize(("tool", "reaches"), [("mcp__demo__other", True), ("mcp__other__a", False), ("a", False)])
async def test_a_hook_can_send_a_call_to_another_tool_of_the_same_server_only(tool, reaches):
    async with between(FakeHook(script={"before_tool": {"action": "modify", "call": {"tool": tool}}})) as both:
        await both.client.send(call(1))
        if reaches:
            assert (await both.server.message())["params"]["name"] == "other"
        else:
            text = f"no hook answered the call of {tool}, which is not a tool of this server"
            assert text_of(await both.client.message()) == text


async def test_a_hook_can_answer_in_place_of_the_server():
    media = [{"type": "image", "data": "", "mimeType": "image/png"}, "file.txt", 7]
    answer = {"action": "respond", "result": {"for_llm": "mine", "media": media}}
    async with between(FakeHook(script={"before_tool": answer})) as both:
        await both.client.send(call(1), {"method": "next"})
        assert (await both.server.message())["method"] == "next"
        assert (await both.client.message())["result"] == {
            "content": [
                {"type": "text", "text": "mine"},
                media[0],
                {"type": "text", "text": "file.txt"},
                {"type": "text", "text": "7"},
            ]
        }


@pytest.mark.parametrize("stage", ["before_tool", "after_tool"])
async def test_an_abort_or_a_pause_fails_the_call_and_a_hard_abort_all_later_ones(stage):
    hook = FakeHook(script={stage: [{"action": "abort_turn", "reason": "a"}, {"action": "hard_abort", "reason": "h"}]})
    async with between(hook) as both:
        for identity, text in ((1, "A hook ended the turn: a"), (2, "A hook ended the turn: h")):
            await both.client.send(call(identity))
            if stage == "after_tool":
                await both.server.line()
                await both.server.send(result(identity, "unseen"))
            assert text_of(await both.client.message()) == text
        for identity in (3, 4):
            await both.client.send(call(identity))
            assert text_of(await both.client.message()) == "A hook ended the turn: hook fake ended the session: h"


async def test_a_paused_call_fails():
    async with between(FakeHook(script={"before_tool": {"action": "pause", "reason": "wait"}})) as both:
        await both.client.send(call(1))
        assert text_of(await both.client.message()) == "A hook paused the call, and MCP cannot resume it: wait"


# Results.


def edit_result(**changes):
    return FakeHook(script={"after_tool": {"action": "modify", "result": changes}})


async def answered(hook, answer, *, newer=False):
    """What the client gets for this answer of the server."""
    async with between(hook) as both:
        await both.client.send(call(1, newer=newer))
        await both.server.line()
        await both.server.send(answer)
        return await both.client.line()


SEEN = [
    ({"content": []}, "", []),
    ({}, "", []),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "annotations": {}}]}, "a\nb", []),
    ({"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}}, '{"a": 1}', []),
    ({"content": [{"type": "text", "text": "x"}], "structuredContent": {"result": "x"}}, "x", []),
    ({"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}}, "3", []),
    ({"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": "y"}}, 'x\n{"a":"y"}', []),
    ({"content": [], "structuredContent": [1]}, "[1]", []),
    (
        {"content": [{"type": "resource", "resource": {"text": "r"}}]},
        "",
        [{"type": "resource", "resource": {"text": "r"}}],
    ),
]


@pytest.mark.parametrize(("given", "text", "media"), SEEN)
async def test_hooks_see_all_of_a_result_and_it_passes_byte_for_byte(given, text, media):
    hook = FakeHook(script={"after_tool": None})
    line = as_line({"id": 1, "result": given})
    assert await answered(hook, line) == line
    (seen,) = hook.asked_at("after_tool")
    assert (seen.result.for_llm, seen.result.media) == (text, media)


@pytest.mark.parametrize(
    ("given", "for_llm", "expected"),
    [
        ('{"a":"secret"}', '{"a":"***"}', {"a": "***"}),
        ("secret", "***", {"result": "***"}),
    ],
)
async def test_structured_content_says_what_hooks_leave_of_the_text(given, for_llm, expected):
    structured = json.loads(given) if given.startswith("{") else {"result": given}
    line = result(1, given, structuredContent=structured, _meta={"x": 1})
    got = json.loads(await answered(edit_result(for_llm=for_llm), line))["result"]
    assert got == {"_meta": {"x": 1}, "content": [{"type": "text", "text": for_llm}], "structuredContent": expected}


@pytest.mark.parametrize("structured", [{"other": "secret"}, {"result": 3}, [1]])
async def test_structured_content_that_cannot_follow_an_edit_is_left_out(structured):
    line = result(1, "secret", structuredContent=structured)
    got = await answered(edit_result(for_llm="***"), line)
    assert json.loads(got)["result"] == {"content": [{"type": "text", "text": "***"}]}
    assert b"secret" not in got


async def test_hooks_can_edit_media_and_the_error_flag():
    line = as_line({"id": 1, "result": {"content": [{"type": "image", "data": "x"}], "isError": True}})
    got = json.loads(await answered(edit_result(media=[{"type": "audio", "data": "y"}], is_error=False), line))
    assert got["result"] == {"content": [{"type": "audio", "data": "y"}]}


async def test_an_error_of_the_server_passes_and_can_be_edited():
    line = as_line({"id": 1, "error": {"code": -32602, "message": "unknown tool"}})
    hook = FakeHook(script={"after_tool": None})
    assert await answered(hook, line) == line
    assert hook.asked_at("after_tool")[0].result.for_llm == "unknown tool"
    assert text_of(json.loads(await answered(edit_result(for_llm="no"), line))) == "no"


@pytest.mark.parametrize(
    "given",
    [
        7,
        None,
        {"content": 7},
        {"content": ["x"]},
        {"Content": []},
        {"content": [], "structuredcontent": 1},
        {"task": {"taskId": "1", "status": "working"}},
        {"toolResult": "secret"},
    ],
)
async def test_a_result_that_hooks_cannot_be_shown_is_refused(given):
    got = json.loads(await answered(FakeHook(script={"after_tool": None}), as_line({"id": 1, "result": given})))
    assert text_of(got).startswith("picohook refused the server's result: ")


async def test_a_newer_servers_question_passes_without_after_tool():
    hook = FakeHook(script={"after_tool": None})
    line = as_line({"id": 1, "result": {"resultType": "input_required", "requestState": "s"}})
    assert await answered(hook, line, newer=True) == line
    assert hook.asked_at("after_tool") == []


async def test_an_older_client_gets_no_result_past_after_tool():
    line = result(1, "secret", resultType="input_required")
    got = await answered(edit_result(for_llm="***"), line)
    assert text_of(json.loads(got)) == "***"


async def test_a_result_of_an_unknown_kind_is_refused():
    got = json.loads(await answered(FakeHook(), result(1, "secret", resultType="task"), newer=True))
    assert text_of(got) == "picohook refused the server's result: it is of the unknown kind 'task'"


# Held calls.


async def test_what_comes_after_a_held_call_overtakes_it():
    gate = Gate()
    async with between(gate) as both:
        held, free = call(1, "held"), call(2)
        await both.client.send(held, free, {"id": 3, "method": "ping"})
        assert sorted(await both.server.lines(2)) == sorted([free, as_line({"id": 3, "method": "ping"})])
        gate.opened.set()
        assert await both.server.line() == held


async def test_an_answer_that_comes_before_its_call_was_forwarded_is_refused():
    gate = Gate()
    async with holding(gate) as both:
        await both.server.send(result(1, "forged"), {"method": "next"})
        assert (await both.client.message())["method"] == "next"
        gate.opened.set()
        await both.server.line()
        await both.server.send(result(1, "real"))
        assert text_of(await both.client.message()) == "real"


@pytest.mark.parametrize("stage", ["before_tool", "approve_tool"])
@ON_BOTH
async def test_a_call_that_is_cancelled_while_hooks_decide_is_never_forwarded(stage):
    gate = Gate(stage)
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    async with holding(gate) as both:
        await both.client.send(cancel)
        await has(gate.left)
        gate.opened.set()
        await both.client.send({"id": 1, "method": "next"})  # the id is free
        assert (await both.server.message())["method"] == "next"
        await both.server.send({"id": 1, "result": {}})
        assert (await both.client.message())["result"] == {}


@ON_BOTH
async def test_a_call_that_is_cancelled_at_once_is_never_forwarded():
    cancel = as_line({"method": "notifications/cancelled", "params": {"requestId": 1}})
    async with between() as both:
        await both.client.send(call(1) + cancel + as_line({"method": "next"}))
        assert (await both.server.message())["method"] == "next"
        both.client.end()
        assert await both.server.line() == b""


@ON_BOTH
async def test_a_call_that_is_cancelled_at_the_server_is_cancelled_there_and_its_late_result_is_dropped():
    cancel = as_line({"method": "notifications/cancelled", "params": {"requestId": 1}})
    hook = FakeHook(script={"after_tool": None})
    async with between(hook) as both:
        await both.client.send(call(1))
        await both.server.line()
        await both.client.send(cancel)
        assert await both.server.line() == cancel
        await both.server.send(result(1, "late"), {"method": "next"})
        assert (await both.client.message())["method"] == "next"
    assert hook.asked_at("after_tool") == []


@ON_BOTH
async def test_a_result_that_is_cancelled_while_hooks_see_it_is_dropped():
    gate = Gate("after_tool")
    async with between(gate) as both:
        await both.client.send(call(1, "held"))
        await both.server.line()
        await both.server.send(result(1, "late"))
        await has(gate.asked)
        await both.client.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        await has(gate.left)
        await both.server.send({"method": "next"})
        assert (await both.client.message())["method"] == "next"


@pytest.mark.parametrize("of", ["client", "server"])
@ON_BOTH
async def test_other_requests_are_cancelled_too(of):
    cancel = as_line({"method": "notifications/cancelled", "params": {"requestId": 1}})
    async with between() as both:
        asks, answers = (both.client, both.server) if of == "client" else (both.server, both.client)
        await asks.send({"id": 1, "method": "x"}, cancel)
        await answers.line()
        assert await answers.line() == cancel
        await answers.send({"id": 1, "result": {}}, {"method": "next"})
        assert (await asks.message())["method"] == "next"


# The end.


async def test_a_client_that_sends_nothing_more_gets_the_answers_to_held_calls():
    gate = Gate()
    async with holding(gate) as both:
        both.client.end()
        gate.opened.set()
        assert await both.server.line() == call(1, "held")
        assert await both.server.line() == b""
        await both.server.send(result(1, "a"))
        assert await both.client.line() == result(1, "a")
        assert await both.client.line() == b""
        await both.ended()


@ON_BOTH
async def test_a_client_that_goes_away_cancels_its_calls():
    gate = Gate()
    async with holding(gate) as both:
        both.client.close()
        await has(gate.left)
        await both.ended()
        assert await both.server.line() == b""


async def test_what_a_server_wrote_before_its_end_reaches_the_client_through_hooks():
    gate = Gate("after_tool")
    async with between(gate) as both:
        await both.client.send(call(1, "held"), call(2))
        await both.server.lines(2)
        await both.server.send(result(1, "a"), {"method": "last"})
        both.server.close()
        assert (await both.client.message())["method"] == "last"
        await has(gate.asked)
        gate.opened.set()
        assert await both.client.line() == result(1, "a")
        assert await both.client.line() == b""
        await both.ended()


async def test_a_call_that_the_server_never_answers_holds_up_nothing_and_no_end():
    async with between() as both:
        await both.client.send(call("hangs"), call(2))
        await both.server.lines(2)
        await both.server.send(result(2, "a"))
        assert await both.client.line() == result(2, "a")
        both.client.close()
        await both.ended()


@ON_BOTH
async def test_calls_that_are_held_when_the_server_ends_are_cancelled():
    gate = Gate()
    async with holding(gate) as both:
        both.server.close()
        await has(gate.left)
        assert await both.client.line() == b""
        await both.ended()


async def test_the_meta_of_a_newer_call_reaches_the_server():
    async with between() as both:
        await both.client.send(call(1, newer=True))
        assert (await both.server.message())["params"]["_meta"] == META
