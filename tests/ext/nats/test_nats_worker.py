"""Workers: any hook of a host, served to another host."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest
from loops import ON_BOTH

from picohook import (
    FunctionHook,
    HookSpec,
    Host,
    LLMRequest,
    LLMResponse,
    PicohookError,
    Prompt,
    ToolCall,
    ToolReturn,
)
from picohook.ext.approvals.queue import Answer, Queue
from picohook.ext.nats import subjects
from picohook.ext.nats.worker import NatsWorker

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": "rm -rf /"}, tool_call_id="c1")


class Serving:
    """A worker in this process, which serves hooks to others."""

    def __init__(self, connected, *hooks, **settings):
        self.connected = connected
        self.hooks = hooks
        self.settings = settings

    async def __aenter__(self):
        self.tasks = anyio.create_task_group()
        await self.tasks.__aenter__()
        self.host = await Host(self.hooks).__aenter__()
        self.worker = NatsWorker(self.host, await self.connected.__aenter__(), **self.settings)
        ready = anyio.Event()
        self.tasks.start_soon(self._serve, ready)
        with anyio.fail_after(20):
            await ready.wait()
        return self.worker

    async def _serve(self, ready):
        await self.worker.serve(ready=ready.set)

    async def __aexit__(self, *error):
        self.worker.end()
        await self.tasks.__aexit__(*error)
        await self.connected.__aexit__(*error)
        await self.host.aclose()


@pytest.fixture
def served(other):
    """`async with served(function) as worker`: a worker whose hook `policy` is this function, at these stages."""
    return lambda function, *stages, **settings: Serving(
        other(), FunctionHook("policy", dict.fromkeys(stages or ["before_tool"], function)), **settings
    )


RESULT = {"for_llm": "42"}
ANSWERS = [
    (CALL, "before_tool", {"action": "deny_tool", "reason": "no"}),
    (CALL, "before_tool", {"reason": "fine", "system_message": "seen", "additional_context": "be careful"}),
    (
        CALL,
        "before_tool",
        {"call": {"arguments": {"command": "ls"}}, "inject_messages": [{"role": "user", "content": "x"}]},
    ),
    (CALL, "before_tool", {"patch": {"tool": "sh", "arguments": {"n": 1}}}),
    (CALL, "before_tool", {"action": "respond", "result": RESULT, "call": {"tool": "other"}}),
    (CALL, "before_tool", {"action": "pause", "reason": "ask"}),
    (CALL, "before_tool", {"action": "hard_abort", "reason": "stop"}),
    (CALL, "approve_tool", {"approved": True}),
    (CALL, "approve_tool", {"approved": True, "grant": {"for": "session", "times": 2}}),
    (CALL, "approve_tool", {"approved": False, "reason": "no"}),
    (Prompt(prompt="hi"), "before_prompt", {"action": "retry", "feedback": "say more"}),
    (Prompt(prompt="hi"), "before_prompt", {"prompt": "hello"}),
    (LLMRequest(model="m", messages=[{"role": "user", "content": "hi"}]), "before_llm", {"request": {"model": "n"}}),
    (LLMRequest(model="m"), "before_llm", {"action": "respond", "result": {"content": "hi"}}),
    (LLMResponse(model="m", response={"content": "hi"}), "after_llm", {"response": {"content": "ho"}}),
    (ToolReturn(tool="t", result={"for_llm": "a"}), "after_tool", {"result": {"for_llm": "b"}}),
]


def facts(outcome):
    shown = outcome.wire()
    for entry in shown["trail"]:
        del entry["duration_ms"], entry["hook"]
    return shown


@pytest.mark.parametrize(("payload", "stage", "answer"), ANSWERS)
async def test_an_answer_has_the_same_effect_as_that_of_a_hook_here(host, served, payload, stage, answer):
    async with Host([FunctionHook("p", {stage: lambda _: answer})]) as here:
        expected = await here.ask(stage, payload)
    async with served(lambda _: answer, stage), host(stages=(stage,)) as there:
        outcome = await there.ask(stage, payload)
    assert facts(outcome) == facts(expected)


async def test_the_host_learns_that_a_worker_refused_an_edit(host, other):
    edits = FunctionHook(
        "policy", {"before_llm": lambda _: {"request": {"tools": [{}], "model": "n"}}}, may_edit=["system"]
    )
    async with Serving(other(), edits), host(stages=("before_llm",)) as there:
        outcome = await there.before_llm(LLMRequest(model="m"))
        (asking,) = there.hooks
    assert (outcome.action, outcome.payload.model, outcome.payload.tools) == ("modify", "n", [])
    assert outcome.trail[0].reason == "it may not edit tools: left as it was"
    assert [hook.metrics.stages["before_llm"].refused_edits for hook in (edits, asking)] == [1, 1]


async def test_changes_in_place_reach_the_host_if_the_hook_continues(host, served):
    async def change(call):
        call.arguments["command"] = "ls"
        return {"action": "deny_tool"} if call.tool == "sh" else None

    async with served(change), host() as it:
        edited, denied = [
            await it.before_tool(ToolCall(tool=tool, arguments={"command": "rm"})) for tool in ("bash", "sh")
        ]
    assert (edited.action, edited.payload.arguments) == ("modify", {"command": "ls"})
    assert (denied.action, denied.payload.arguments) == ("deny_tool", {"command": "rm"})


@pytest.mark.parametrize("stage", ["before_tool", "approve_tool"])
@pytest.mark.parametrize("retry", [0, 1])
@ON_BOTH
async def test_a_hook_is_cut_off_at_its_own_timeout_and_others_are_still_asked(host, other, stage, retry):
    cut_off = []

    async def slow(call):
        if call.tool != "slow":
            return {"approved": True} if stage == "approve_tool" else None
        try:
            await anyio.sleep_forever()
        finally:
            cut_off.append(call.tool)

    hook = FunctionHook("policy", {stage: slow}, timeout=0.05, approval_timeout=0.05, retry=retry)
    async with Serving(other(), hook) as worker, host(stages=(stage,)) as it:
        outcomes = [await it.ask(stage, ToolCall(tool=tool)) for tool in ("slow", "fast", "slow", "fast")]
    assert [outcome.trail[0].failure for outcome in outcomes] == ["refused", None, "refused", None]
    assert "timeout: no answer in time" in outcomes[0].reason
    assert len(cut_off) == (2 if stage == "approve_tool" else 2 + 2 * retry)
    assert worker.in_flight == 0


class NotAnError(BaseException):
    """What a library raises that panics."""


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", [NotAnError, asyncio.CancelledError])
async def test_a_function_that_raises_what_is_no_exception_fails_and_others_are_still_asked(host, served, waits, kind):
    async def fail(call):
        if call.tool != "bad":
            return
        if waits:
            await anyio.sleep(0)
        raise kind

    async with served(fail) as worker, host() as it:
        outcomes = [await it.before_tool(ToolCall(tool=tool)) for tool in ("bad", "good", "bad", "good")]
    assert [outcome.trail[0].failure for outcome in outcomes] == ["refused", None, "refused", None]
    assert worker.in_flight == 0


async def test_a_question_has_its_own_time_and_not_that_of_a_question_that_came_with_it(other, settings):
    async def continues(_):
        return None

    async def waits(_):
        await anyio.sleep(0.3)

    quick = FunctionHook("quick", {"before_tool": continues}, timeout=0.1)
    slow = FunctionHook("slow", {"before_tool": waits}, retry=1)
    asked = [
        HookSpec(name=hook.name, nats=hook.name, connection=settings, stages=("before_tool",), timeout=20)
        for hook in (quick, slow)
    ]
    actions = []

    async def ask(it):
        actions.append((await it.before_tool(CALL)).action)

    async with (
        Serving(other(), quick, slow),
        Host(asked[:1]) as first,
        Host(asked[1:]) as second,
        anyio.create_task_group() as tasks,
    ):
        for it in (first, first, second, second):
            tasks.start_soon(ask, it)
    assert actions == ["continue"] * 4


VARIABLE = ContextVar("VARIABLE", default="unset")


@pytest.mark.parametrize("waits", [False, True])
async def test_no_variable_that_a_function_sets_is_there_for_the_next_question(host, served, waits):
    async def sets(_):
        seen.append(VARIABLE.get())
        VARIABLE.set("set")
        if waits:
            await anyio.sleep(0)

    seen = []
    async with served(sets), host() as it, anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(it.before_tool, CALL)
    assert seen == ["unset"] * 6


async def test_a_hook_that_fails_is_a_failure_for_the_host_whatever_the_worker_counts_it_as(host, served):
    def fail(_):
        raise RuntimeError("broken")

    async with served(fail, "before_tool", "approve_tool"), host() as it:
        denied, refused = await it.before_tool(CALL), await it.approve_tool(CALL)
    assert (denied.action, denied.trail[0].failure) == ("deny_tool", "refused")
    assert "broken" in denied.reason
    assert (refused.approved, refused.trail[0].failure) == (False, "refused")


async def test_a_stage_that_is_not_served_is_a_failure(host, served):
    async with served(lambda _: None, "before_tool"), host() as it:
        outcome = await it.approve_tool(CALL)
    assert (outcome.approved, outcome.trail[0].failure) == (False, "refused")


async def test_a_worker_with_too_many_questions_refuses_more_at_once(host, served):
    begun, go_on = anyio.Event(), anyio.Event()

    async def slow(_):
        begun.set()
        await go_on.wait()

    outcomes = []
    async with served(slow, max_in_flight=1) as worker, host() as it, anyio.create_task_group() as tasks:

        async def ask():
            outcomes.append(await it.before_tool(CALL))

        tasks.start_soon(ask)
        await begun.wait()
        assert (await it.before_tool(CALL)).trail[0].failure == "busy"
        assert worker.in_flight == 1
        go_on.set()
    assert [outcome.action for outcome in outcomes] == ["continue"]


async def test_questions_that_come_at_the_same_time_are_all_answered_also_if_some_are_given_up(host, served):
    answered = []

    async def ask(it, number, scope):
        with scope:
            answered.append((number, (await it.before_tool(ToolCall(tool=str(number)))).reason))

    async def deny(call):
        return {"action": "deny_tool", "reason": call.tool}

    scopes = [anyio.CancelScope() for _ in range(160)]
    async with served(deny, max_in_flight=len(scopes)) as worker, host() as it:
        async with anyio.create_task_group() as tasks:
            for number, scope in enumerate(scopes):
                tasks.start_soon(ask, it, number, scope)
            (hook,) = it.hooks
            while not hook._calls.in_flight():
                await anyio.lowlevel.checkpoint()
            for scope in scopes[::2]:
                scope.cancel()
        with anyio.fail_after(20):
            while worker.in_flight:
                await anyio.sleep(0.01)
    assert {number for number, _ in answered} >= set(range(1, len(scopes), 2))
    assert all(reason == str(number) for number, reason in answered)


async def asked_by_hand(connection, settings, *times, answers_wanted=1):
    """Ask the same question once for each of these times, and return the answers, until there are as many as are wanted."""
    answers, subject = [], f"_INBOX.hand.{settings.tenant}"
    listening = await connection.listen(f"{subject}.>", answers.append)
    question = b'{"jsonrpc":"2.0","id":1,"method":"hook.before_tool","params":{"tool":"bash","arguments":{}}}'
    for given in times:
        rpc = subjects.rpc(settings.tenant, "policy", "before_tool", "hand")
        await connection.publish(rpc, question, f"{subject}.{given}")
    with anyio.fail_after(20):
        while len(answers) < answers_wanted:
            await anyio.sleep(0.01)
    await connection.unlisten(listening, drain=True)
    return answers


async def test_a_question_that_comes_twice_is_answered_once(served, other, settings):
    async def slow(_):
        asked.append(1)
        await go_on.wait()

    asked, go_on = [], anyio.Event()
    async with served(slow) as worker, other() as connection, anyio.create_task_group() as tasks:

        async def let_go():
            with anyio.fail_after(20):
                while not worker.in_flight:
                    await anyio.sleep(0.01)
            await connection.flush()
            go_on.set()

        tasks.start_soon(let_go)
        assert len(await asked_by_hand(connection, settings, "x", "x")) == 1
        assert (len(asked), worker.in_flight) == (1, 0)


SLOW = r"""
read -r hello; echo '{"jsonrpc":"2.0","id":1,"result":{"ok":true,"capabilities":{"progress":true}}}'
read -r question; echo '{"jsonrpc":"2.0","method":"host.progress","params":{"id":2}}'
echo '{"jsonrpc":"2.0","id":2,"result":{"action":"continue"}}'
read -r end
"""


async def test_a_hook_that_still_works_gets_more_time_from_the_asking_host_too(other, settings):
    slow = HookSpec(name="policy", command=("sh", "-c", SLOW), stages=("before_tool",))
    async with Serving(other(), slow), other() as connection:
        told = await asked_by_hand(connection, settings, 9000, answers_wanted=2)
    answers = [json.loads(message.data) for message in told]
    assert {"jsonrpc": "2.0", "method": "host.progress", "params": {"id": 1}} in answers
    assert {"jsonrpc": "2.0", "id": 1, "result": {"action": "continue"}} in answers


@pytest.mark.parametrize("digits", [16, 1900])
async def test_a_time_that_no_clock_has_is_no_limit(served, other, settings, digits):
    async with served(lambda _: None), other() as connection:
        (answer,) = await asked_by_hand(connection, settings, "9" * digits)
    assert json.loads(answer.data)["result"] == {"action": "continue"}


@ON_BOTH
async def test_a_question_whose_host_gave_up_is_cancelled(host, served):
    cancelled = anyio.Event()

    async def slow(_):
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with served(slow), host(timeout=0.05) as it:
        assert (await it.before_tool(CALL)).trail[0].failure == "timeout"
        with anyio.fail_after(20):
            await cancelled.wait()


async def test_a_worker_that_ends_answers_what_it_has_and_takes_no_more(host, served):
    begun, go_on = anyio.Event(), anyio.Event()

    async def slow(_):
        begun.set()
        await go_on.wait()
        return {"action": "deny_tool", "reason": "answered"}

    outcomes = []
    async with host() as it:
        async with anyio.create_task_group() as tasks:

            async def ask():
                outcomes.append(await it.before_tool(CALL))

            async with served(slow) as worker:
                tasks.start_soon(ask)
                await begun.wait()
                worker.end()
                with anyio.fail_after(20):
                    while worker.hooks:
                        await anyio.lowlevel.checkpoint()
                go_on.set()
        assert [outcome.reason for outcome in outcomes] == ["answered"]
        assert (await it.before_tool(CALL)).trail[0].failure == "absent"


async def test_two_workers_share_the_questions_and_none_is_lost_when_one_ends(host, other, settings):
    def worker(name):
        return Serving(
            other(), FunctionHook("policy", {"before_tool": lambda _: {"action": "deny_tool", "reason": name}})
        )

    reasons = []
    async with worker("a"), host() as it:
        async with worker("b"):
            reasons += [(await it.before_tool(CALL)).reason for _ in range(50)]
            assert set(reasons) == {"a", "b"}
        reasons = [(await it.before_tool(CALL)).reason for _ in range(50)]
    assert set(reasons) == {"a"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_command_serves_a_configuration_until_term_and_follows_its_reloads(tmp_path, host, settings):
    (tmp_path / "policy.py").write_text("def asked(call):\n    return {'action': 'deny_tool', 'reason': 'served'}\n")
    file = tmp_path / "picohook.toml"

    def write(tenant, *names):
        hooks = "".join(f'[hooks.{name}]\npython = "policy:asked"\nstages = ["before_tool"]\n' for name in names)
        file.write_text(f'[nats]\nservers = ["{settings.servers[0]}"]\ntenant = "{tenant}"\n{hooks}')

    write(settings.tenant, "policy")
    command = [sys.executable, "-m", "picohook", "worker", "--config", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, contextlib.ExitStack() as at_end:
        at_end.callback(process.kill)
        assert process.stderr.readline() == "Serving over NATS: policy\n"
        async with host() as it:
            assert (await it.before_tool(CALL)).reason == "served"
            write("elsewhere", "more")
            process.send_signal(signal.SIGHUP)
            while "the table [nats] has changed" not in process.stderr.readline():
                assert process.poll() is None
            with anyio.fail_after(20):
                while (await it.before_tool(CALL)).trail[0].failure != "absent":
                    await anyio.sleep(0.01)
            write(settings.tenant, "policy")
            process.send_signal(signal.SIGHUP)
            with anyio.fail_after(20):
                while (await it.before_tool(CALL)).reason != "served":
                    await anyio.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(process.wait) == 0
            assert (await it.before_tool(CALL)).trail[0].failure == "absent"


async def test_a_worker_with_the_queue_of_its_user_makes_it_the_queue_of_all_hosts_that_ask_it(
    host, other, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    person = HookSpec(name="policy", approver="queue").make()
    ran, results = [], {}

    async def run(it, name):
        call = ToolCall(tool="bash", arguments={"command": name})
        results[name] = (await it.run_tool(call, lambda one: ran.append(one.arguments["command"]))).for_llm

    async def waiting(count):
        while len(found := queue.waiting()) != count:
            await anyio.sleep(0.01)
        return {json.loads(one.call)["arguments"]["command"]: one.id for one in found}

    stages = ("approve_tool",)
    async with (
        Serving(other(), person),
        host(stages=stages) as one,
        host(stages=stages) as two,
        anyio.create_task_group() as tasks,
    ):
        with contextlib.closing(Queue()) as queue:
            tasks.start_soon(run, one, "ls")
            tasks.start_soon(run, two, "rm")
            asked = await waiting(2)
            queue.answer(asked["ls"], Answer(True, "", "the page"))
            queue.answer(asked["rm"], Answer(False, "use git rm", "the page"))
            await waiting(0)
            with anyio.CancelScope() as gone:
                async with anyio.create_task_group() as callers:
                    callers.start_soon(run, one, "cat")
                    (late,) = (await waiting(1)).values()
                    gone.cancel()
            await waiting(0)
            with pytest.raises(PicohookError, match="its caller has gone"):
                queue.answer(late, Answer(True, "", "the page"))
    assert ran == ["ls"]
    assert results["rm"] == "Tool execution denied by approval hook: the user said: use git rm"
