"""A hook whose calls wait in the queue: what a person answers decides, and nothing else is a yes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import asynccontextmanager

import anyio
import loops
import preloaded
import pytest
from rows import each

from picohook import (
    ConfigError,
    Continue,
    Deny,
    FunctionHook,
    HookSpec,
    Host,
    LLMResponse,
    Modify,
    Pause,
    PausedError,
    Respond,
    ToolCall,
)
from picohook.config import load
from picohook.ext.approvals import database
from picohook.ext.approvals.queue import Answer
from picohook.ext.approvals.view import view
from picohook.testing import RecordingHost

from .conftest import come

pytestmark = pytest.mark.anyio
anyio_backend = loops.both

CALL = ToolCall(tool="bash", arguments={"command": "ls"})


def asking(timeout=60.0, **settings):
    return RecordingHost([HookSpec(name="person", approver="queue", approval_timeout=timeout, **settings)])


class Asked:
    """Calls that wait in tasks, and their outcomes."""

    def __init__(self, host, group):
        self.host, self.group = host, group
        self.outcomes = {}

    def __call__(self, name, call=CALL):
        async def ask():
            self.outcomes[name] = await self.host.approve_tool(call)

        self.group.start_soon(ask)


@each(
    ("answer", "approved", "reason"),
    [
        (Answer(True, "", "the page"), True, ""),
        (Answer(False, "", "the page"), False, "the user said no"),
        (Answer(False, "use git mv", "the page"), False, "the user said: use git mv"),
    ],
)
async def test_a_call_waits_until_a_person_answers(queue, answer, approved, reason):
    async with asking() as host, anyio.create_task_group() as group:
        ask = Asked(host, group)
        ask("one")
        [waiting] = await come(queue)
        assert json.loads(waiting.call)["arguments"] == {"command": "ls"}
        assert waiting.about["hook"] == "person"
        assert waiting.about["pid"] == os.getpid()
        queue.answer(waiting.id, answer)
    outcome = ask.outcomes["one"]
    assert (outcome.approved, outcome.reason) == (approved, reason)
    assert outcome.trail[0].reason == ("approved through the page" if approved else reason)


async def test_each_call_gets_its_own_answer_in_any_order(queue):
    async with asking() as host, anyio.create_task_group() as group:
        ask = Asked(host, group)
        for number in range(20):
            ask(number, ToolCall(tool="bash", arguments={"number": number}))
        for waiting in reversed(await come(queue, 20)):
            number = json.loads(waiting.call)["arguments"]["number"]
            queue.answer(waiting.id, Answer(number % 2 == 0, "", ""))
    assert {number: outcome.approved for number, outcome in ask.outcomes.items()} == {
        number: number % 2 == 0 for number in range(20)
    }


async def test_two_hosts_and_one_yes_are_one_run(queue):
    async with asking(0.5) as first, asking(0.5) as second, anyio.create_task_group() as group:
        asks = [Asked(host, group) for host in (first, second)]
        for ask in asks:
            ask("same")
        calls = await come(queue, 2)
        assert len({one.call for one in calls}) == 1
        queue.answer(calls[1].id, Answer(True, "", ""))
    assert sorted(ask.outcomes["same"].approved for ask in asks) == [False, True]


async def test_a_call_that_nobody_answers_in_time_is_denied_and_its_reason_says_so(queue):
    async with asking(2) as host:
        outcome = await host.approve_tool(CALL)
        assert (outcome.approved, outcome.reason) == (False, "nobody answered within 2 s")
        assert outcome.reason_for_llm == outcome.reason
        assert await come(queue, 0) == []


async def test_a_call_whose_caller_has_gone_leaves_the_queue(queue):
    async with asking() as host:
        async with anyio.create_task_group() as group:
            group.start_soon(host.approve_tool, CALL)
            [waiting] = await come(queue)
            group.cancel_scope.cancel()
        await come(queue, 0)
        assert queue.find(waiting.id).end == f"{waiting.id} waits no more: its caller has gone"


async def test_a_host_that_ends_takes_its_calls_with_it(queue):
    async with anyio.create_task_group() as group, asking() as host:
        group.start_soon(host.approve_tool, CALL)
        await come(queue)
        group.cancel_scope.cancel()
    assert queue.waiting() == []
    assert [name for name in os.listdir(queue.directory) if name.endswith(".alive")] == []


async def test_a_queue_that_cannot_be_used_denies(queue, state):
    os.chmod(queue.path, 0o644)
    async with asking() as host:
        outcome = await host.approve_tool(CALL)
        assert outcome.approved is False
        assert outcome.reason.startswith(f"hook person failed: {queue.path}: other users may open it")
        os.chmod(queue.path, 0o600)
        async with anyio.create_task_group() as group:  # the next call opens it anew
            ask = Asked(host, group)
            ask("next")
            [waiting] = await come(queue)
            queue.answer(waiting.id, Answer(True, "", ""))
        assert ask.outcomes["next"].approved is True


@each(
    ("harm", "why"),
    [
        (lambda queue: os.unlink(queue.path), "No such file"),
        (lambda queue: change(queue, "UPDATE calls SET call = x'7b7d', state = 'answered', yes = 1"), "was changed"),
        (lambda queue: change(queue, "DROP TABLE calls"), "no such table"),
    ],
)
async def test_harm_to_the_file_is_a_denial(queue, harm, why):
    async with asking() as host, anyio.create_task_group() as group:
        ask = Asked(host, group)
        ask("one")
        await come(queue)
        harm(queue)
    outcome = ask.outcomes["one"]
    assert outcome.approved is False
    assert why in outcome.reason
    queue.close()
    for name in os.listdir(queue.directory):
        os.unlink(os.path.join(queue.directory, name))
    queue.__init__()


def change(queue, statement):
    changing = sqlite3.connect(queue.path)
    changing.execute(statement)
    changing.commit()
    changing.close()


@each("answer", ["'yes'", "2", "'1'", "1.5", "x'01'"])
async def test_a_yes_of_another_form_is_a_no(queue, answer):
    async with asking() as host, anyio.create_task_group() as group:
        ask = Asked(host, group)
        ask("one")
        await come(queue)
        change(queue, f"UPDATE calls SET state = 'answered', yes = {answer}")
    assert ask.outcomes["one"].approved is (answer == "'1'")  # which SQLite stores as the number


@asynccontextmanager
async def asking_impatiently(queue, monkeypatch):
    """A host that waits briefly for a locked file: gives what asks its queue, and the call that waits there already."""
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    async with asking() as host, anyio.create_task_group() as group:
        ask = Asked(host, group)
        ask("first")
        [first] = await come(queue)
        yield ask, first


async def test_a_file_that_another_program_keeps_locked_denies_a_new_call_and_loses_none_that_waits(queue, monkeypatch):
    async with asking_impatiently(queue, monkeypatch) as (ask, first):
        queue._db.execute("BEGIN IMMEDIATE")
        ask("second")
        while "second" not in ask.outcomes:
            await anyio.sleep(0.01)
        queue._db.execute("ROLLBACK")
        queue.answer(first.id, Answer(True, "", ""))
    assert ask.outcomes["first"].approved is True
    assert ask.outcomes["second"].approved is False
    assert "database is locked" in ask.outcomes["second"].reason


async def test_an_answer_waits_while_another_program_keeps_the_file_locked(queue, monkeypatch):
    async with asking_impatiently(queue, monkeypatch) as (ask, first):
        queue._db.execute("BEGIN IMMEDIATE")
        queue._db.execute("UPDATE calls SET state = 'answered', yes = 1 WHERE id = ?", (first.id,))
        queue._db.execute("COMMIT")
        queue._db.execute("BEGIN IMMEDIATE")
        for name in ("second", "third", "fourth"):  # between two of them, the host looks for answers
            ask(name)
            while name not in ask.outcomes:
                await anyio.sleep(0.01)
        queue._db.execute("ROLLBACK")
    assert {name for name, outcome in ask.outcomes.items() if outcome.approved} == {"first"}


async def test_a_call_is_denied_in_time_while_another_one_waits_for_the_file(queue):
    async with asking(timeout=0.2) as host, anyio.create_task_group() as group:
        ask = Asked(host, group)
        queue._db.execute("BEGIN IMMEDIATE")
        ask("one")
        ask("two")
        while len(ask.outcomes) < 2:
            await anyio.sleep(0.01)
        queue._db.execute("ROLLBACK")
    for outcome in ask.outcomes.values():
        assert (outcome.approved, outcome.reason) == (False, "nobody answered within 0.2 s")


async def test_the_event_loop_goes_on_while_another_program_keeps_the_file_locked(queue):
    async with asking() as host:
        queue._db.execute("BEGIN IMMEDIATE")
        rounds = 0
        with anyio.move_on_after(0.2):
            async with anyio.create_task_group() as group:
                group.start_soon(host.approve_tool, CALL)
                while True:
                    await anyio.sleep(0)
                    rounds += 1
        queue._db.execute("ROLLBACK")
    assert rounds > 10


HOST = """
import anyio
from picohook import HookSpec, Host, ToolCall

async def main():
    async with Host([HookSpec(name="person", approver="queue")]) as host:
        await host.approve_tool(ToolCall(tool="theirs"))

anyio.run(main)
"""


async def test_the_calls_of_a_host_that_was_killed_leave_the_queue_and_those_of_others_are_answered(queue, write):
    host_of_another_process = [preloaded.program("python"), str(write("host.py", HOST))]
    async with asking() as host, anyio.create_task_group() as group:
        with subprocess.Popen(host_of_another_process) as process:
            [theirs] = await come(queue)
            ask = Asked(host, group)
            ask("mine")
            _, mine = await come(queue, 2)
            process.kill()
        while queue.count() == 2:
            queue.remove_dead()
            await anyio.sleep(0.01)
        assert [one.id for one in queue.waiting()] == [mine.id]
        assert queue.find(theirs.id).state == "gone"
        queue.answer(mine.id, Answer(True, "", ""))
    assert ask.outcomes["mine"].approved is True


async def test_a_flood_is_answered(queue):
    async with asking(600) as host, anyio.create_task_group() as group:
        ask = Asked(host, group)
        for number in range(200):
            ask(number)
        calls = await come(queue, 200)
        for one in calls:
            queue.answer(one.id, Answer(True, "", ""))
    assert len(ask.outcomes) == 200
    assert all(outcome.approved for outcome in ask.outcomes.values())


async def test_the_tool_runs_after_a_yes_and_not_after_a_no(queue):
    ran = []
    async with asking() as host:
        for yes in (True, False):
            async with anyio.create_task_group() as group:
                group.start_soon(host.run_tool, CALL, lambda call: ran.append(call.tool))
                [waiting] = await come(queue)
                assert ran == ["bash"] * (not yes)
                queue.answer(waiting.id, Answer(yes, "", ""))
            assert ran == ["bash"]


@each(("yes", "ran"), [(True, ["bash"]), (False, [])])
async def test_a_pause_that_is_resumed_with_continue_waits_in_the_queue_and_the_answer_there_decides(queue, yes, ran):
    hooks = [
        FunctionHook("careful", {"before_tool": lambda _: Pause("really?")}),
        HookSpec(name="person", approver="queue", approval_timeout=60),
    ]
    done = []
    async with RecordingHost(hooks) as host, host.session("s1") as session:
        with pytest.raises(PausedError) as paused:
            async with session.turn("go") as turn:
                await turn.tools([CALL], lambda call: done.append(call.tool))
        async with anyio.create_task_group() as group:

            async def resume():
                async with session.resume(paused.value.paused, Continue()) as turn:
                    await turn.tools(None, lambda call: done.append(call.tool))

            group.start_soon(resume)
            [waiting] = await come(queue)
            assert done == []
            queue.answer(waiting.id, Answer(yes, "", ""))
    assert done == ran


async def test_a_configuration_names_it_by_its_key(write, queue):
    path = write("picohook.toml", '[hooks.person]\napprover = "queue"\nfilter = {tool = "bash"}\n')
    [spec] = load(path).hooks
    assert (spec.stages, spec.approval_timeout, spec.kind, spec.runs) == (("approve_tool",), 600.0, "approver", "queue")
    async with Host.from_config(path) as host, anyio.create_task_group() as group:
        assert (await host.approve_tool(ToolCall(tool="read"))).approved is True  # its filter does not match
        ask = Asked(host, group)
        ask("one")
        [waiting] = await come(queue)
        assert waiting.about["filter"] == {"tool": "bash"}
        assert waiting.about["source"] == str(path)
        queue.answer(waiting.id, Answer(True, "", ""))
    assert ask.outcomes["one"].approved is True


@each(
    ("table", "complaint"),
    [
        ('approver = "page"', 'hooks.a.approver: "page" is not one of queue'),
        (
            'approver = "queue"\nstages = ["before_tool"]',
            'hooks.a.stages: must be ["approve_tool"]: a person is asked for approval and nothing else',
        ),
        (
            'approver = "queue"\nnotify = "ntfy publish"',
            'hooks.a.notify: give a list, one element an argument: ["ntfy", "publish"]',
        ),
        ('approver = "queue"\nnotify = ["", "a"]', "hooks.a.notify: the program's name is empty"),
    ],
)
async def test_a_mistake_is_named(write, table, complaint):
    path = write("picohook.toml", "[hooks.a]\n" + table + '\nstages = ["approve_tool"]\n' * ("stages" not in table))
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert [str(problem).removeprefix(f"{path}: ") for problem in caught.value.problems] == [complaint]


async def test_a_yes_for_later_calls_is_a_grant_that_names_the_channel(queue, write):
    path = write("picohook.toml", "[grants]\n[hooks.person]\napprover = 'queue'\n")
    call = ToolCall(tool="bash", arguments={"command": "ls"}, meta={"SessionKey": "s1"})
    async with Host.from_config(path) as host, anyio.create_task_group() as group:
        asked = Asked(host, group)
        asked("first", call)
        (waiting,) = await come(queue)
        offered = [grant for _, grant in view(waiting).offers]
        queue.answer(waiting.id, Answer(True, "", "the terminal 3, by ann", offered[0]))
        while "first" not in asked.outcomes:
            await anyio.sleep(0.01)
        later = await host.approve_tool(call)
    assert (asked.outcomes["first"].approved, later.approved, queue.count()) == (True, True, 0)
    assert later.trail[0].reason.endswith(", by person: approved through the terminal 3, by ann")


async def test_without_the_table_of_grants_none_is_offered(queue):
    async with asking() as host, anyio.create_task_group() as group:
        Asked(host, group)("only")
        (waiting,) = await come(queue)
        queue.answer(waiting.id, Answer(True, "", ""))
    assert view(waiting).offers == []


# `ask = "queue"`: what other hooks have paused.


def careful(reason="really?", stage="before_tool", **more):
    return FunctionHook("careful", {stage: lambda _: Pause(reason)}, **more)


def careful_at_the_end():
    """A hook that pauses the end of each sub-turn."""
    return FunctionHook("ends", {"before_finish": lambda one: Pause("done?") if one.meta.parent_turn_id else None})


def calls_tool(name):
    """A response of the model that calls this tool."""
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


ASK = HookSpec(name="person", ask="queue", timeout=60)


@each(
    ("yes", "ran", "reason"),
    [(True, ["bash"], ""), (False, [], "Tool execution denied by hook: the user said: use git mv")],
)
async def test_an_answer_resumes_a_turn_that_a_hook_paused(queue, yes, ran, reason):
    done, results = [], []
    async with (
        RecordingHost([careful(), ASK]) as host,
        host.session("s1") as session,
        session.turn("go") as turn,
        anyio.create_task_group() as group,
    ):

        async def run():
            results.extend(await turn.tools([CALL], lambda call: done.append(call.tool)))

        group.start_soon(run)
        [waiting] = await come(queue)
        assert (done, waiting.about["paused"]) == ([], ["really?"])
        assert dict(view(waiting).facts)["paused"] == "really?"
        queue.answer(waiting.id, Answer(yes, "" if yes else "use git mv", "the page"))
    assert done == ran
    assert results[0].for_llm == reason
    entries = [(entry.hook, entry.action) for entry in turn.trails[0].trail]
    assert entries == [("careful", "pause"), ("person", "continue" if yes else "deny_tool")]
    assert turn.trails[0].trail[-1].reason == ("approved through the page" if yes else "the user said: use git mv")


async def test_a_person_is_asked_once_about_all_pauses_and_about_the_call_that_will_run(queue):
    hooks = [
        careful("one"),
        FunctionHook("editor", {"before_tool": lambda _: Modify({"arguments": {"command": "ls -l"}})}, priority=110),
        FunctionHook("later", {"before_tool": lambda _: Pause("two")}, priority=120),
        HookSpec(name="person", ask="queue", priority=1),
    ]
    outcomes = []
    async with RecordingHost(hooks) as host, anyio.create_task_group() as group:

        async def ask():
            outcomes.append(await host.before_tool(CALL))

        group.start_soon(ask)
        [waiting] = await come(queue)
        assert json.loads(waiting.call)["arguments"] == {"command": "ls -l"}
        assert waiting.about["paused"] == ["one", "two"]
        queue.answer(waiting.id, Answer(True, "", ""))
    assert (outcomes[0].action, outcomes[0].payload.arguments) == ("modify", {"command": "ls -l"})


async def test_a_call_that_no_hook_pauses_or_that_another_denies_does_not_wait(queue):
    async with RecordingHost([ASK]) as host:
        outcome = await host.before_tool(CALL)
        assert (outcome.action, outcome.trail) == ("continue", ())
    no = FunctionHook("no", {"before_tool": lambda _: Deny("never")}, priority=110)
    async with RecordingHost([careful(), no, ASK]) as host:
        assert (await host.before_tool(CALL)).reason == "never"
    assert queue.waiting() == []


async def test_a_pause_that_nobody_answers_denies_the_call(queue):
    async with RecordingHost([careful(), HookSpec(name="person", ask="queue", timeout=0.2)]) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.reason) == ("deny_tool", "nobody answered within 0.2 s")


@each(
    ("answer", "ends"),
    [(Answer(True, "", ""), True), (Answer(False, "run the tests", ""), False), (Answer(False, "", ""), False)],
)
async def test_an_answer_ends_a_turn_that_a_hook_paused_at_its_end_or_starts_another_round(queue, answer, ends):
    ended = []
    async with (
        RecordingHost([careful(stage="before_finish"), ASK]) as host,
        host.session("s1") as session,
        session.turn("go") as turn,
        anyio.create_task_group() as group,
    ):

        async def finish():
            ended.append(await turn.finish(LLMResponse(response={"role": "assistant", "content": "I am done"})))

        group.start_soon(finish)
        [waiting] = await come(queue)
        shown = view(waiting)
        assert (shown.tool, shown.arguments) == ("the end of the turn", [("response", "I am done")])
        queue.answer(waiting.id, answer)
    assert ended == [ends]
    assert ends or turn.messages[-1]["content"] == (answer.reason or "the user said no")


@each(
    ("yes", "ran", "said"),
    [(True, ["bash"], "ran"), (False, [], "Tool execution denied by hook: the user said: use git mv")],
)
async def test_an_answer_resumes_a_sub_turn_and_the_turn_that_waits_for_it(queue, yes, ran, said):
    done, results = [], []
    async with (
        RecordingHost([careful(filter={"tool": "bash"}), careful_at_the_end(), ASK]) as host,
        host.session("s1") as session,
        session.turn("go") as turn,
        anyio.create_task_group() as group,
    ):

        async def answers(request):
            told = request.messages[-1]
            return {"content": told["content"]} if told["role"] == "tool" else calls_tool("bash")

        async def delegate(_):
            async with session.turn("look", parent=turn, agent_id="helper") as sub:
                return (await sub.run(complete=answers, execute=lambda call: done.append(call.tool) or "ran")).content

        async def run():
            results.extend(await turn.tools([ToolCall(tool="delegate")], delegate))

        group.start_soon(run)
        [waiting] = await come(queue)
        assert (done, json.loads(waiting.call)["meta"]["AgentID"]) == ([], "helper")
        assert json.loads(waiting.call)["meta"]["ParentTurnID"] == turn.meta.turn_id
        queue.answer(waiting.id, Answer(yes, "" if yes else "use git mv", "the page"))
        while not (waits := queue.waiting()):
            await anyio.sleep(0.01)
        assert dict(view(waits[0]).arguments) == {"response": said}
        queue.answer(waits[0].id, Answer(True, "", "the page"))
    assert done == ran
    assert results[0].for_llm == said


async def test_an_explicit_answer_for_a_hook_that_paused_elsewhere_needs_no_other(queue):
    async with RecordingHost([careful()]) as host, host.session("s1") as session:
        with pytest.raises(PausedError) as paused:
            async with session.turn("go") as turn:
                await turn.tools([CALL], lambda _: None)
    done = []
    async with (
        RecordingHost([careful(), ASK]) as host,
        host.session("s1") as session,
        session.resume(paused.value.paused, Continue()) as turn,
    ):
        await turn.tools(None, lambda call: done.append(call.tool))
    assert (done, queue.waiting()) == (["bash"], [])


@each(("yes", "action"), [(True, "respond"), (False, "deny_tool")])
async def test_a_hook_that_provides_the_tool_runs_it_only_after_the_answer(queue, yes, action):
    ran, outcomes = [], []

    def run(call):
        ran.append(call.tool)
        return Respond(result={"for_llm": "done"})

    own = FunctionHook("own", {"before_tool": run}, priority=110, provides=("bash",))
    async with RecordingHost([careful(), own, ASK]) as host, anyio.create_task_group() as group:

        async def ask():
            outcomes.append(await host.before_tool(CALL))

        group.start_soon(ask)
        [waiting] = await come(queue)
        assert ran == []
        queue.answer(waiting.id, Answer(yes, "", ""))
    assert (outcomes[0].action, ran) == (action, ["bash"] if yes else [])


async def test_a_person_is_asked_again_about_a_call_that_is_changed_after_the_answer(queue):
    own = FunctionHook("own", {"before_tool": lambda _: Continue()}, priority=110, provides=("bash",))
    edit = FunctionHook("edit", {"before_tool": lambda _: Modify({"arguments": {"command": "rm"}})}, priority=120)
    outcomes, shown = [], []
    async with RecordingHost([careful(), own, edit, ASK]) as host, anyio.create_task_group() as group:

        async def ask():
            outcomes.append(await host.before_tool(CALL))

        group.start_soon(ask)
        for yes in (True, False):
            [waiting] = await come(queue)
            shown.append(json.loads(waiting.call)["arguments"]["command"])
            queue.answer(waiting.id, Answer(yes, "", ""))
    assert (shown, outcomes[0].action) == (["ls", "rm"], "deny_tool")


async def test_an_answer_of_another_hook_is_no_answer_of_a_person(queue):
    fake = FunctionHook("fake", {"before_tool": lambda _: Respond(result={"for_llm": "done"})}, priority=110)
    async with RecordingHost([careful(), fake, ASK]) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.reason, queue.waiting()) == ("pause", "really?", [])


async def test_a_hooks_answer_about_a_call_that_changed_after_the_persons_yes_does_not_count(queue):
    hooks = [
        careful(),
        FunctionHook("own", {"before_tool": lambda _: Continue()}, priority=110, provides=("bash",)),
        FunctionHook("edit", {"before_tool": lambda _: Modify({"arguments": {"command": "rm"}})}, priority=120),
        FunctionHook("fake", {"before_tool": lambda _: Respond(result={"for_llm": "done"})}, priority=130),
    ]
    outcomes = []
    async with RecordingHost([*hooks, ASK]) as host, anyio.create_task_group() as group:

        async def ask():
            outcomes.append(await host.before_tool(CALL))

        group.start_soon(ask)
        [waiting] = await come(queue)
        queue.answer(waiting.id, Answer(True, "", ""))
    assert outcomes[0].action == "pause"


async def test_a_call_that_its_caller_changes_while_a_person_looks_at_it_is_denied(queue):
    call, outcomes = ToolCall(tool="bash", arguments={"command": "ls"}), []
    async with RecordingHost([careful(), ASK]) as host, anyio.create_task_group() as group:

        async def ask():
            outcomes.append(await host.before_tool(call))

        group.start_soon(ask)
        [waiting] = await come(queue)
        call.arguments["command"] = "rm"
        queue.answer(waiting.id, Answer(True, "", ""))
    assert outcomes[0].action == "deny_tool"


@each("more", [{"filter": {"tool": "bash"}}, {"on_failure": "continue"}, {"fallback": "other"}, {"mode": "shadow"}])
async def test_a_pause_never_ends_without_an_answer(more):
    with pytest.raises(ValueError, match="a pause would end without an answer"):
        HookSpec(name="person", ask="queue", **more)
