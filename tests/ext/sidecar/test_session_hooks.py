"""Hooks that a client of the sidecar answers itself, for one of its sessions."""

from __future__ import annotations

import json

import anyio
import pytest
from loops import ON_BOTH

from picohook import Deny, FunctionHook, Host, Timeouts, blade_hooks
from picohook.ext.blade.hooks import HookEvent
from picohook.rpc.connection import ConnectionLimits
from picohook.wire.words import MAX_LINE

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
CALL = {"tool": "bash", "arguments": {"command": "ls"}}


class Agent:
    """A client that answers for its hooks while it waits for answers."""

    def __init__(self, client):
        self.client = client
        self.asked = []
        self.told = []
        self.answers = {}
        self._last = 0

    async def start(self, session, **hooks):
        await self.ask("session.start", session=session)
        for name, settings in hooks.items():
            await self.ask("session.mount", session=session, hook=name, **settings)
        return (await self.ask("turn.start", session=session))["turn"]

    async def put(self, method, **params):
        self._last += 1
        await self.client.send(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}))
        return self._last

    async def reply(self, number, result):
        await self.client.send(json.dumps({"jsonrpc": "2.0", "id": number, **result}))

    async def ask(self, method, **params):
        number = await self.put(method, **params)
        while True:
            message = await self.client.message()
            if message.get("method") == "ask":
                asked = message["params"]
                self.asked.append((asked["hook"], asked["stage"], asked["payload"]))
                answer = self.answers[asked["hook"]]
                await self.reply(message["id"], answer if "error" in answer else {"result": answer})
            elif "method" in message:
                self.told.append((message["method"], message["params"]))
            elif message["id"] == number:
                return message["result"] if "result" in message else message["error"]


async def test_a_hook_of_a_client_is_asked_in_its_session_and_answered_on_the_same_connection(serving, connect):
    async with serving(Host(timeouts=FAR)):
        agent = Agent(await connect())
        turn = await agent.start("s1", guard={"stages": ["before_tool"], "filter": {"tool": "bash"}})
        agent.answers["guard"] = {"action": "deny_tool", "reason": "not here"}
        outcome = await agent.ask("before_tool", meta={"TurnID": turn}, **CALL)
        assert (outcome["action"], outcome["reason"]) == ("deny_tool", "not here")
        assert outcome["trail"][0]["hook"] == "guard@session"
        hook, stage, payload = agent.asked[0]
        assert (hook, stage, payload["arguments"]) == ("guard", "before_tool", CALL["arguments"])
        assert payload["meta"]["SessionKey"] == "s1"
        by_key = await agent.ask("before_tool", meta={"SessionKey": "s1"}, **CALL)
        assert by_key["action"] == "deny_tool"
        filtered = await agent.ask("before_tool", meta={"TurnID": turn}, tool="read")
        assert filtered["trail"][0]["skipped"]
    assert len(agent.asked) == 2


async def test_it_is_asked_about_no_other_session_and_no_other_client(serving, connect):
    async with serving(Host(timeouts=FAR)):
        agent, other = Agent(await connect()), Agent(await connect())
        await agent.start("s1", guard={"stages": ["before_tool"]})
        second = await agent.start("s2")
        foreign = await other.start("s3")
        for who, meta in (
            (agent, {"TurnID": second}),
            (agent, {}),
            (other, {"TurnID": foreign}),
            (other, {"SessionKey": "s1"}),  # a key is for a client to choose, and leads to no session of another
        ):
            assert (await who.ask("before_tool", meta=meta, **CALL))["trail"] == []


async def test_hooks_of_a_client_are_asked_last_in_their_own_order_about_the_payload_after_the_hosts_hooks(
    serving, connect
):
    first = FunctionHook("first", {"before_tool": lambda _: {"action": "modify", "call": {"arguments": {"n": 1}}}})
    async with serving(Host([first], timeouts=FAR)):
        agent = Agent(await connect())
        hooks = {"late": {"stages": ["before_tool"]}, "early": {"stages": ["before_tool"], "priority": 1}}
        turn = await agent.start("s1", **hooks)
        agent.answers = {"late": {}, "early": {"action": "modify", "call": {"arguments": {"n": 2}}}}
        outcome = await agent.ask("before_tool", meta={"TurnID": turn}, **CALL)
    assert [(hook, payload["arguments"]) for hook, _, payload in agent.asked] == [
        ("early", {"n": 1}),
        ("late", {"n": 2}),
    ]
    assert outcome["payload"]["arguments"] == {"n": 2}


@pytest.mark.parametrize(
    ("on_failure", "action"), [("continue", "continue"), ("deny", "deny_tool"), ("abort", "abort_turn")]
)
@pytest.mark.parametrize("answer", [{"error": {"code": -32000, "message": "oops"}}, {"action": "nonsense"}])
async def test_an_answer_that_is_not_a_decision_is_a_failure_and_on_failure_decides(
    serving, connect, on_failure, action, answer
):
    async with serving(Host(timeouts=FAR)):
        agent = Agent(await connect())
        turn = await agent.start("s1", guard={"stages": ["before_tool"], "on_failure": on_failure})
        agent.answers["guard"] = answer
        outcome = await agent.ask("before_tool", meta={"TurnID": turn}, **CALL)
    assert outcome["action"] == action
    assert outcome["trail"][0]["error"]


async def test_only_true_approves(serving, connect):
    async with serving(Host(timeouts=FAR)):
        agent = Agent(await connect())
        turn = await agent.start("s1", asker={"stages": ["approve_tool"]})
        said = []
        for answer in ({"approved": True}, {"approved": False}, {}, {"approved": "yes"}, {"error": {"code": 1}}):
            agent.answers["asker"] = answer
            said.append((await agent.ask("approve_tool", meta={"TurnID": turn}, **CALL))["approved"])
    assert said == [True, False, False, False, False]


@ON_BOTH
async def test_a_hook_that_does_not_answer_is_cancelled_at_its_timeout(serving, connect):
    async with serving(Host(timeouts=FAR)):
        agent = Agent(await connect())
        turn = await agent.start("s1", guard={"stages": ["before_tool"], "timeout": 0.05, "on_failure": "deny"})
        await agent.put("before_tool", meta={"TurnID": turn}, **CALL)
        question = await agent.client.message()
        cancelled = await agent.client.message()
        assert (cancelled["method"], cancelled["params"]) == ("cancel", {"id": question["id"]})
        outcome = (await agent.client.message())["result"]
        assert (outcome["action"], outcome["trail"][0]["error"]) == ("deny_tool", "no answer in time")
        await agent.reply(question["id"], {"result": {}})  # too late: it answers nothing
        assert await agent.ask("session.end", session="s1") is True


async def test_an_approval_is_denied_at_once_when_its_client_goes(serving, connect):
    outcomes = []
    host = Host(timeouts=FAR)
    async with serving(host):
        host.on_change.add(outcomes.append)
        client = await connect()
        agent = Agent(client)
        turn = await agent.start("s1", asker={"stages": ["approve_tool"]}, guard={"stages": ["before_tool"]})
        other = Agent(await connect())
        await agent.put("approve_tool", meta={"TurnID": turn}, **CALL)
        await agent.client.message()
        await client.stream.send_eof()  # it still reads
        answer = await agent.client.message()
        assert answer["result"]["approved"] is False
        assert "the client is gone" in answer["result"]["reason"]
        assert (await other.ask("before_tool", **CALL))["action"] == "continue"
    assert [outcome.approved for outcome in outcomes if outcome.stage == "approve_tool"] == [False]


async def test_answers_of_the_client_are_read_however_many_of_its_calls_wait_for_them(serving, connect):
    async with serving(Host(timeouts=FAR), limits=ConnectionLimits(line=MAX_LINE, in_flight=2, batch=4)):
        agent = Agent(await connect())
        turn = await agent.start("s1", guard={"stages": ["before_tool"]})
        for _ in range(5):
            await agent.put("before_tool", meta={"TurnID": turn}, **CALL)
        answered = 0
        while answered < 5:
            message = await agent.client.message()
            if message.get("method") == "ask":
                await agent.reply(message["id"], {"result": {}})
            else:
                assert message["result"]["action"] == "continue"
                answered += 1


async def test_calls_that_wait_behind_unanswered_requests_are_bounded(serving, connect):
    async with serving(Host(timeouts=FAR), limits=ConnectionLimits(line=MAX_LINE, in_flight=2, batch=4)):
        agent = Agent(await connect())
        turn = await agent.start("s1", guard={"stages": ["before_tool"]})
        for _ in range(9):
            await agent.put("before_tool", meta={"TurnID": turn}, **CALL)
        messages = [await agent.client.message() for _ in range(3)]
        assert [message["method"] for message in messages if "method" in message] == ["ask", "ask"]
        (refused,) = [message for message in messages if "error" in message]
        assert refused["error"]["code"] == -32000


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"hook": "h"}, "stages"),
        ({"hook": "h", "stages": ["before_tol"]}, "stages"),
        ({"hook": "h", "stages": [], "observe": ["*"]}, "observe"),
        ({"hook": "h", "stages": ["before_tool"], "run": "true"}, "unknown key"),
        ({"hook": "h", "stages": ["before_tool"], "command": ["true"]}, "unknown key"),
        ({"hook": "h", "stages": ["before_tool"], "provides": ["bash"]}, "unknown key"),
        ({"hook": "a\u202eb", "stages": ["before_tool"]}, "cannot be the name of a hook"),
        ({"hook": "h@session", "stages": ["before_tool"]}, "cannot be the name of a hook"),
    ],
)
async def test_a_hook_that_cannot_be_mounted_is_refused_with_the_cause(serving, connect, params, said):
    async with serving(Host(timeouts=FAR)):
        agent = Agent(await connect())
        await agent.start("s1")
        error = await agent.ask("session.mount", session="s1", **params)
        assert error["code"] == -32602
        assert said in error["message"]


async def test_a_client_mounts_hooks_only_in_its_own_sessions(serving, connect):
    async with serving(Host([FunctionHook("operators", {"before_tool": lambda _: Deny("no")})], timeouts=FAR)):
        agent, other = Agent(await connect()), Agent(await connect())
        await agent.start("s1", guard={"stages": ["before_tool"]})
        again = await agent.ask("session.mount", session="s1", hook="guard", stages=["before_tool"])
        assert again["code"] == -32002
        assert (await other.ask("session.mount", session="s1", hook="x", stages=["before_tool"]))["code"] == -32001


async def test_the_hooks_of_a_client_that_vanishes_are_unmounted(serving, connect):
    host = Host(timeouts=FAR)
    async with serving(host):
        client = await connect()
        await Agent(client).start("s1", guard={"stages": ["before_tool"]})
        await client.stream.aclose()
        other = Agent(await connect())
        while (await other.ask("session.start", session="s1")).get("code") == -32002:  # until it has ended
            await anyio.lowlevel.checkpoint()
        outcome = await other.ask("before_tool", meta={"SessionKey": "s1"}, **CALL)
        assert outcome["trail"] == []


async def test_feedback_at_before_prompt_and_the_last_requests_model_reach_hooks_of_the_sidecars_turns(
    serving, connect
):
    refused = FunctionHook("reviewer", {"before_prompt": lambda _: {"action": "retry", "feedback": "politely"}})
    async with serving(Host([refused], timeouts=FAR)):
        agent = Agent(await connect())
        stages = ["before_prompt", "before_llm", "after_llm", "before_finish"]
        turn = await agent.start("s1", own={"stages": stages})
        agent.answers["own"] = {}
        meta = {"TurnID": turn}
        outcome = await agent.ask("before_prompt", meta=meta, prompt="hey you")
        assert (outcome["action"], outcome["payload"]["prompt"]) == ("modify", "politely")
        await agent.ask("before_llm", meta=meta, model="gpt-4o", system_prompt="be kind")
        await agent.ask("after_llm", meta=meta, response={"content": "hi"})
        await agent.ask("before_finish", meta=meta)
    by_stage = {stage: payload for _, stage, payload in agent.asked}
    assert [payload["prompt"] for _, stage, payload in agent.asked if stage == "before_prompt"] == ["politely"]
    assert by_stage["after_llm"]["model"] == "gpt-4o"
    finish = by_stage["before_finish"]
    assert (finish["model"], finish["system_prompt"], finish["prompt"]) == ("gpt-4o", "be kind", "politely")
    assert finish["response"] == {"content": "hi"}


async def test_blades_abort_ends_a_session_that_is_asked_without_a_turn(serving, connect):
    hooks = blade_hooks({HookEvent.PreToolUse: [lambda given: {"action": "abort", "reason": "dangerous"}]})
    async with serving(Host(hooks, timeouts=FAR)):
        agent, other = Agent(await connect()), Agent(await connect())
        await agent.ask("session.start", session="s1")
        await other.ask("session.start", session="s2")
        outcome = await agent.ask("before_tool", meta={"SessionKey": "s1"}, **CALL)
        assert outcome["action"] == "hard_abort"
        assert "ended the session: dangerous" in (await agent.ask("turn.start", session="s1"))["message"]
        assert "turn" in await other.ask("turn.start", session="s2")


async def test_a_request_about_an_ended_session_or_turn_is_refused_if_the_client_had_hooks_there(serving, connect):
    async with serving(Host(timeouts=FAR)):
        agent, other = Agent(await connect()), Agent(await connect())
        turn = await agent.start("s1", user={"stages": ["approve_tool"]})
        await agent.ask("turn.end", turn=turn)
        assert (await agent.ask("approve_tool", meta={"TurnID": turn}, **CALL))["code"] == -32001
        agent.answers["user"] = {"approved": False}
        for meta in ({"SessionKey": "s1"}, {"SessionKey": "s1", "TurnID": turn}):
            assert (await agent.ask("approve_tool", meta=meta, **CALL))["approved"] is False
        second = (await agent.ask("turn.start", session="s1"))["turn"]
        await agent.ask("session.end", session="s1")
        for meta in ({"SessionKey": "s1"}, {"TurnID": second}):
            assert (await agent.ask("approve_tool", meta=meta, **CALL))["code"] == -32001
        assert (await other.ask("approve_tool", meta={"SessionKey": "s1"}, **CALL))["approved"] is True
        await agent.ask("session.start", session="s1")  # it has no such hook
        assert (await agent.ask("approve_tool", meta={"SessionKey": "s1"}, **CALL))["approved"] is True
