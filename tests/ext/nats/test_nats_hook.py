"""A hook over NATS: what its workers answer, and every way in which they do not."""

from __future__ import annotations

import json

import anyio
import pytest
from fakes import Connected, FakeWorker
from loops import ON_BOTH
from rows import each
from server import Server

from picohook import FunctionHook, HookSpec, Host, NatsSettings, PicohookError, ToolCall
from picohook.ext.nats import subjects
from picohook.ext.nats.breaker import EVERY, FAILURES

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash", arguments={"command": "rm -rf /"}, tool_call_id="c1")
DENY = {"action": "deny_tool", "reason": "no"}
YES = {"approved": True}


def answers(*results):
    return lambda _question: results


def failure(outcome):
    return outcome.trail[0].failure


class TestAnswers:
    async def test_a_worker_decides(self, host, serving):
        async with serving(answers(DENY)), host() as it:
            outcome = await it.before_tool(CALL)
        assert (outcome.action, outcome.reason, failure(outcome)) == ("deny_tool", "no", None)

    async def test_a_worker_approves(self, host, serving):
        async with serving(answers(YES)), host() as it:
            assert (await it.approve_tool(CALL)).approved is True

    async def test_an_edit_is_applied(self, host, serving):
        edit = {"action": "modify", "call": {"arguments": {"command": "ls"}}}
        async with serving(answers(edit)), host() as it:
            assert (await it.before_tool(CALL)).payload.arguments == {"command": "ls"}

    async def test_the_body_is_the_request_of_the_protocol_and_the_reply_subject_says_the_time(
        self, host, serving, settings
    ):
        async with serving(answers({})) as worker, host() as it:
            await it.before_tool(CALL)
        (message,) = worker.questions
        question = json.loads(message.data)
        assert (question["jsonrpc"], question["method"]) == ("2.0", "hook.before_tool")
        assert question["params"]["arguments"] == {"command": "rm -rf /"}
        assert message.subject == f"picohook.v1.rpc.{settings.tenant}.policy.before_tool.host.any"
        assert message.reply.startswith("_INBOX.host.")
        assert 0 < int(message.reply.rpartition(".")[2]) <= 20_000

    async def test_N5_only_the_first_of_two_answers_counts(self, host, serving):
        async with serving(answers({}, DENY)), host() as it:
            outcomes = [await it.before_tool(CALL) for _ in range(20)]
        assert {outcome.action for outcome in outcomes} == {"continue"}

    async def test_N5_an_answer_to_another_question_is_a_failure(self, host, serving):
        wrong = {"jsonrpc": "2.0", "id": 1, "result": YES, "digest": "0" * 64}
        async with serving(answers(wrong)), host() as it:
            outcome = await it.approve_tool(CALL)
        assert (outcome.approved, failure(outcome)) == (False, "digest")

    async def test_N5_an_answer_with_another_id_is_a_failure(self, host, serving):
        async with serving(answers({"jsonrpc": "2.0", "id": 99, "result": YES})), host() as it:
            outcome = await it.approve_tool(CALL)
        assert (outcome.approved, failure(outcome)) == (False, "reply")

    async def test_an_error_of_the_worker_is_a_refusal(self, host, serving):
        error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "the hook crashed"}}
        async with serving(answers(error)), host() as it:
            assert failure(await it.before_tool(CALL)) == "refused"

    async def test_progress_lets_it_take_longer_than_its_timeout(self, host, serving):
        progress = {"jsonrpc": "2.0", "method": "host.progress", "params": {}}
        async with serving(answers(progress, YES)), host() as it:
            assert (await it.approve_tool(CALL)).approved is True


class TestAbsence:
    """Each cause is known at once: the timeouts of these hooks are far longer than the tests."""

    async def test_N4_a_hook_without_workers_fails_as_absent(self, host):
        async with host() as it:
            denied, refused = await it.before_tool(CALL), await it.approve_tool(CALL)
        assert (denied.action, failure(denied)) == ("deny_tool", "absent")
        assert (refused.approved, failure(refused)) == (False, "absent")
        assert denied.reason_for_llm == "hook p failed: no worker serves it"

    async def test_on_failure_decides_what_absence_counts_as_except_for_approvals(self, host):
        async with host(on_failure="continue") as it:
            assert (await it.before_tool(CALL)).action == "continue"
            assert (await it.approve_tool(CALL)).approved is False

    async def test_N4_no_server_is_there(self):
        nowhere = NatsSettings(servers=("nats://127.0.0.1:1",))
        spec = HookSpec(name="p", nats="policy", connection=nowhere, stages=("approve_tool",), hello_timeout=0.01)
        async with Host([spec]) as it:
            outcome = await it.approve_tool(CALL)
            assert (outcome.approved, failure(outcome)) == (False, "unreachable")
            assert it.status().hooks[0].state == "connecting"

    @ON_BOTH
    async def test_no_answer_in_time_is_a_timeout_and_cancels_the_question(self, host, serving):
        async with serving(answers()) as worker, host(timeout=0.05) as it:
            outcome = await it.before_tool(CALL)
            with anyio.fail_after(20):
                while not worker.cancelled:
                    await worker.changed.wait()
        assert (outcome.action, failure(outcome)) == ("deny_tool", "timeout")
        (message,) = worker.questions
        assert worker.cancelled == [{"reply": message.reply}]

    @ON_BOTH
    async def test_a_caller_that_gives_up_cancels_the_call(self, host, serving):
        async with serving(answers()) as worker, host() as it:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(it.before_tool, CALL)
                with anyio.fail_after(20):
                    while not worker.questions:
                        await worker.changed.wait()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(20):
                while not worker.cancelled:
                    await worker.changed.wait()

    async def test_a_busy_worker_is_asked_once_more(self, host, serving):
        def busy_first(question):
            busy = {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32005, "message": "busy"}}
            return [YES if len(worker.questions) == 2 else busy]

        async with serving(busy_first) as worker, host() as it:
            assert (await it.approve_tool(CALL)).approved is True
        first, second = (json.loads(question.data) for question in worker.questions)
        assert (first["params"], first["id"] + 1) == (second["params"], second["id"])

    async def test_N4_workers_that_stay_busy_are_a_failure(self, host, serving):
        def busy(question):
            return [{"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32005, "message": "9 calls in flight"}}]

        async with serving(busy) as worker, host() as it:
            outcome = await it.before_tool(CALL)
        assert (failure(outcome), len(worker.questions)) == ("busy", 2)

    async def test_N4_a_question_over_the_servers_limit_is_not_sent(self, host, serving):
        huge = ToolCall(tool="bash", arguments={"command": "x" * (1 << 20)})
        async with serving(answers({})) as worker, host() as it:
            assert failure(await it.before_tool(huge)) == "too_large"
            assert (await it.before_tool(CALL)).action == "continue"
        assert len(worker.questions) == 1

    @ON_BOTH
    async def test_calls_in_flight_fail_at_once_when_the_server_is_killed_and_work_after_its_return(self, serving):
        server = Server()
        try:
            there = NatsSettings(servers=(server.url,), host="host")
            spec = HookSpec(name="p", nats="policy", connection=there, stages=("before_tool",), timeout=25)
            outcomes = []
            async with (
                Host([spec]) as it,
                Connected(there) as connection,
                FakeWorker(connection, there, answers()) as worker,
                anyio.create_task_group() as tasks,
            ):

                async def ask():
                    outcomes.append(await it.before_tool(CALL))

                tasks.start_soon(ask)
                with anyio.fail_after(20):
                    while not worker.questions:
                        await worker.changed.wait()
                server.kill()
                with anyio.fail_after(20):
                    while not outcomes:
                        await anyio.sleep(0.01)
                assert failure(outcomes[0]) == "unreachable"
                (hook,) = it.hooks
                for _ in range(FAILURES):
                    hook.breaker.failed(subjects.ANY, "it was slow", hook.breaker.answers, anyio.current_time())
                assert failure(await it.before_tool(CALL)) == "unreachable"  # though the breaker is open
                server.start()
                assert await connection.connected(20)
                worker.answer = answers({})
                with anyio.fail_after(20):
                    while (await it.before_tool(CALL)).action != "continue":
                        await anyio.sleep(0.01)
        finally:
            server.kill()


class TestTheBreaker:
    async def test_it_opens_when_no_worker_answers_any_more_and_closes_when_one_does(self, host, serving, monkeypatch):
        monkeypatch.setattr("picohook.ext.nats.breaker.WAIT", 0.05)
        changes = []
        async with serving(answers()) as worker, host(timeout=0.02) as it:
            it.on_change.add(lambda change: changes.append(getattr(change, "state", None)))
            found = [failure(await it.before_tool(CALL)) for _ in range(FAILURES + 1)]
            assert found == ["timeout"] * FAILURES + ["breaker"]
            assert it.status().hooks[0].state == "breaker open"
            worker.answer = answers({})
            with anyio.fail_after(20):
                while (await it.before_tool(CALL)).action != "continue":
                    await anyio.sleep(0.01)
            assert it.status().hooks[0].state == "ready"
        assert [state for state in changes if state] == ["breaker open", "ready"]

    async def test_a_question_without_an_answer_opens_it_anew_after_the_wait(self, host, serving, monkeypatch):
        monkeypatch.setattr("picohook.ext.nats.breaker.WAIT", 0)
        async with serving(answers()), host(timeout=0.02) as it:
            (hook,) = it.hooks
            for _ in range(FAILURES + 1):
                assert failure(await it.before_tool(CALL)) == "timeout"
            monkeypatch.undo()
            assert failure(await it.before_tool(CALL)) == "timeout"
            assert hook.breaker.is_open
            assert failure(await it.before_tool(CALL)) == "breaker"

    async def test_absence_does_not_open_it_so_the_first_worker_is_asked_at_once(self, host, serving):
        async with host() as it:
            for _ in range(FAILURES + 1):
                assert failure(await it.before_tool(CALL)) == "absent"
            async with serving(answers(DENY)):
                assert (await it.before_tool(CALL)).reason == "no"

    async def test_a_worker_that_never_answers_does_not_stop_a_hook_that_another_one_answers_for(self, host, serving):
        silent = iter(range(1000))

        def every_other_one(_question):
            return [] if next(silent) % 2 else [{}]

        outcomes = []
        async with serving(every_other_one), host(timeout=0.3) as it, anyio.create_task_group() as tasks:

            async def ask():
                outcomes.append(failure(await it.before_tool(CALL)))

            for _ in range(4):
                for _ in range(4 * FAILURES):
                    tasks.start_soon(ask)
                await anyio.sleep(0.1)
        assert set(outcomes) == {None, "timeout"}


class TestHungWorkers:
    """A server before NATS 2.10 keeps a worker that hangs."""

    async def test_questions_go_to_workers_that_answer_but_for_a_few(self, host, serving):
        async with serving(answers({})) as living, host(timeout=0.2) as it:
            # One that answered is known. Else a server that chooses the other one five times in a row opens the breaker.
            assert failure(await it.before_tool(CALL)) is None
            async with serving(answers()) as hung:
                for _ in range(10 * EVERY):
                    await it.before_tool(CALL)
            assert 0 < len(hung.questions) < 30
            assert len(hung.questions) + len(living.questions) == 1 + 10 * EVERY

    async def test_one_that_answers_again_gets_questions_again(self, host, serving):
        async with serving(answers()) as hung, serving(answers({})), host(timeout=0.2) as it:
            while not hung.questions:
                await it.before_tool(CALL)
            while failure(await it.before_tool(CALL)) is not None:
                pass
            hung.answer, seen = answers({}), len(hung.questions)
            with anyio.fail_after(20):
                while len(hung.questions) < seen + 50:
                    assert failure(await it.before_tool(CALL)) is None

    async def test_one_that_ended_is_not_missed_and_asked_no_more(self, host, serving):
        async with serving(answers({})), host(timeout=0.2) as it:
            async with serving(answers({})) as ends:
                while not ends.questions:
                    await it.before_tool(CALL)
                (hook,) = it.hooks
                hook.breaker.failed("another", "it hangs", 0, anyio.current_time())
            assert [failure(await it.before_tool(CALL)) for _ in range(10)] == [None] * 10
            assert ends.name not in {hook.breaker.worker(anyio.current_time()) for _ in range(10)}


class TestTheFallback:
    async def test_a_hook_of_this_machine_decides_instead_and_the_trail_says_so(self, host):
        local = FunctionHook("local", {"before_tool": lambda _: {"action": "deny_tool", "reason": "local rules"}})
        async with host(local, fallback="local") as it:
            outcome = await it.before_tool(CALL)
        (entry,) = outcome.trail
        assert (outcome.action, outcome.reason, entry.hook, entry.degraded) == (
            "deny_tool",
            "local rules",
            "p",
            "local: absent",
        )

    async def test_it_is_not_asked_while_workers_answer(self, host, serving):
        asked = []
        local = FunctionHook("local", {"before_tool": asked.append})
        async with serving(answers({})), host(local, fallback="local") as it:
            assert (await it.before_tool(CALL)).trail[0].degraded == ""
        assert asked == []

    async def test_it_approves_nothing(self, host):
        local = FunctionHook("local", {"before_tool": lambda _: None, "approve_tool": lambda _: True})
        async with host(local, fallback="local") as it:
            assert (await it.approve_tool(CALL)).approved is False

    async def test_its_edit_must_have_a_json_form_as_that_of_any_function(self, host):
        edit = {"call": {"arguments": {"command": object()}}}
        local = FunctionHook("local", {"before_tool": lambda _: edit})
        async with host(local, fallback="local") as it:
            assert (await it.before_tool(CALL)).action == "deny_tool"

    async def test_a_fallback_that_is_not_there_is_a_mistake(self, host):
        with pytest.raises(PicohookError, match="there is no hook 'lokal'"):
            async with host(fallback="lokal"):
                pass


class TestNames:
    @each("name", ["policy", "my_hook", "a.b", "a b", "*", ">", "_x2e", "é", "$SRV", "_", "x_x"])
    def test_a_name_is_one_token(self, name):
        made = subjects.token(name)
        assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

    def test_no_two_names_have_the_same_token(self):
        names = ["a.b", "a_x2eb", "a_x5fx2eb", "a__x2eb", "a b", "a-b", "a_b"]
        assert len({subjects.token(name) for name in names}) == len(names)
