"""The halves of a tool call as methods: the sidecar decides, the client runs the tool, the sidecar concludes."""

from __future__ import annotations

import jsonschema
import pytest

from picohook import AbortTurn, Deny, FunctionHook, Host, Modify, Notes, Pause, Respond
from picohook.ext.sidecar.methods.openrpc import openrpc
from picohook.model.decisions import Continue
from picohook.testing import RecordingHost

pytestmark = pytest.mark.anyio

CALL = {"tool": "bash", "arguments": {"command": "ls", "n": 123456789012345678901234567890}, "tool_call_id": "1"}
DONE = {"for_llm": "done"}
OF_T = {"TurnID": "t"}
DOCUMENT = openrpc()


def valid(method, result):
    (described,) = [one for one in DOCUMENT["methods"] if one["name"] == method]
    schema = {**described["result"]["schema"], "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(result)
    return result


async def decide(client, **more):
    return valid("tool.decide", await client.result("tool.decide", {**CALL, **more}))


async def conclude(client, decided, **more):
    params = {"decided": decided["decided"], "result": DONE, **more}
    return valid("tool.conclude", await client.result("tool.conclude", params))


async def begin(client):
    await client.result("session.start", {"session": "s"})
    await client.result("turn.start", {"session": "s", "turn": "t"})


def hook(**stages):
    handlers = {stage: lambda _, decision=decision: decision for stage, decision in stages.items()}
    return FunctionHook("h", handlers, provides=("bash",))


async def test_a_call_is_decided_and_its_result_concluded_once(serving, connect):
    left = {**CALL["arguments"], "command": "pwd"}
    edits = hook(before_tool=Modify({"arguments": left}), approve_tool=True, after_tool=Modify({"for_llm": "seen"}))
    host = RecordingHost([edits])
    async with serving(host):
        client = await connect()
        decided = await decide(client)
        assert decided["action"] == "continue"
        assert (decided["call"]["tool"], decided["call"]["arguments"]) == ("bash", left)
        assert [trail["stage"] for trail in decided["trails"]] == ["before_tool", "approve_tool"]
        told = await conclude(client, decided, duration=5, error="late", arguments=left)
        assert (told["action"], told["result"]["for_llm"]) == ("continue", "seen")
        assert [trail["stage"] for trail in told["trails"]] == ["after_tool"]
        error = (await client.ask("tool.conclude", {"decided": decided["decided"], "result": DONE}))["error"]
        assert error["code"] == -32001
    (after,) = host.outcomes_at("after_tool")
    assert (after.payload.duration, after.payload.error) == (5, "late")
    assert [event.kind for event in host.events] == ["tool_exec_start", "tool_exec_end"]


@pytest.mark.parametrize(
    ("stages", "action", "text"),
    [
        ({"before_tool": Deny("no")}, "deny_tool", "Tool execution denied by hook: no"),
        ({"approve_tool": Deny("no")}, "deny_tool", "Tool execution denied by approval hook: no"),
        ({"before_tool": Respond({"for_llm": "cached"})}, "respond", "cached"),
    ],
)
async def test_a_call_that_is_not_to_run_has_its_result(serving, connect, stages, action, text):
    async with serving(Host([hook(**stages)])):
        decided = await decide(await connect())
        assert (decided["action"], decided["result"]["for_llm"], "decided" in decided) == (action, text, False)


@pytest.mark.parametrize(("decision", "action"), [(AbortTurn("stop"), "abort_turn"), (Pause("stop"), "pause")])
async def test_what_ends_the_turn_is_said_by_the_action(serving, connect, decision, action):
    async with serving(Host([hook(before_tool=decision)])):
        decided = await decide(await connect())
        assert (decided["action"], decided["reason"], "result" in decided) == (action, "stop", False)
    async with serving(Host([hook(after_tool=AbortTurn("leak"))])):
        client = await connect()
        told = await conclude(client, await decide(client))
        assert (told["action"], told["reason"], "result" in told) == ("abort_turn", "leak", False)


async def test_a_tool_that_ran_with_other_arguments_is_refused(serving, connect):
    async with serving(Host()):
        client = await connect()
        decided = await decide(client)
        params = {"decided": decided["decided"], "result": DONE, "arguments": {"command": "rm"}}
        error = (await client.ask("tool.conclude", params))["error"]
        assert (error["code"], "other arguments" in error["message"]) == (-32000, True)


async def test_in_a_turn_the_halves_have_its_ids_its_notes_and_its_events(serving, connect):
    host = RecordingHost([hook(after_tool=Continue(notes=Notes(additional_context="Mind.")))])
    async with serving(host):
        client = await connect()
        await begin(client)
        decided = await decide(client, meta=OF_T)
        assert decided["call"]["meta"].items() >= {"TurnID": "t", "SessionKey": "s", "Source": "turn.tool"}.items()
        await conclude(client, decided)
        request = await client.result("before_llm", {"meta": OF_T})
        assert request["payload"]["system_prompt"] == "Mind."
        await client.result("turn.end", {"turn": "t"})
    (end,) = [event.payload for event in host.events if event.kind == "turn_end"]
    assert end["ToolExecutions"] == [{"name": "bash", "success": True}]


async def test_a_call_that_pauses_in_a_turn_is_resumed(serving, connect):
    asked = []
    first = FunctionHook("first", {"before_tool": lambda _: asked.append("first")})
    async with serving(Host([first, hook(before_tool=Pause("sure?"))])):
        client = await connect()
        await begin(client)
        assert (await decide(client, meta=OF_T))["action"] == "pause"
        resume = {"turn": "t", "tool_call_id": "1", "decision": {"action": "continue"}}
        assert (await client.result("turn.resume", resume))["action"] == "continue"
    assert asked == ["first"]


async def test_an_approval_answers_one_pause_about_the_call_that_the_person_saw(serving, connect):
    second = FunctionHook("second", {"before_tool": lambda call: Pause("again?") if call.tool == "two" else None})
    changes = FunctionHook(
        "changes",
        {"before_tool": lambda call: Modify({"arguments": {}}) if call.tool == "changed" else None},
        priority=-1,
    )
    async with serving(Host([changes, hook(before_tool=Pause("sure?")), second])):
        client = await connect()
        await begin(client)
        for meta in ({}, OF_T):
            told = [
                (await decide(client, tool=tool, approved=True, meta=meta))["action"]
                for tool in ("x", "two", "changed")
            ]
            assert told == ["continue", "pause", "pause"]
        resume = {"turn": "t", "tool_call_id": "1", "decision": {"action": "continue"}}
        assert (await client.result("turn.resume", resume))["action"] == "continue"
        assert (await client.ask("tool.decide", {**CALL, "approved": "yes"}))["error"]["code"] == -32602


@pytest.mark.parametrize("ends", ["turn", "session"])
async def test_a_decided_call_ends_with_its_turn(serving, connect, ends):
    async with serving(Host()):
        client = await connect()
        await begin(client)
        decided = await decide(client, meta=OF_T)
        await client.result(f"{ends}.end", {ends: ends[0]})
        params = {"decided": decided["decided"], "result": DONE}
        assert (await client.ask("tool.conclude", params))["error"]["code"] == -32001


async def test_the_open_calls_of_a_connection_are_bounded_and_its_own(serving, connect, monkeypatch):
    monkeypatch.setattr("picohook.ext.sidecar.methods.context.MAX_OPEN", 2)
    async with serving(Host()):
        client, other = await connect(), await connect()
        decided = await decide(client)
        await decide(client)
        assert (await client.ask("tool.decide", CALL))["error"]["code"] == -32000
        params = {"decided": decided["decided"], "result": DONE}
        assert (await other.ask("tool.conclude", params))["error"]["code"] == -32001
        await conclude(client, decided)
        await decide(client)
