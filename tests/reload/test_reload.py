"""Reloading: what changes, what stays, and that nobody who asks in the meantime notices."""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
from collections import Counter
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from loops import ON_BOTH
from scripted import HANG, PATIENCE, SERVE, command, descriptors, scripted

from picohook import (
    ConfigError,
    Continue,
    FunctionHook,
    Hook,
    HookCrashedError,
    HookSpec,
    Host,
    PicohookError,
    Timeouts,
    ToolCall,
)
from picohook.hooks.base import StateChange

pytestmark = pytest.mark.anyio

EXCLUSIVE = str(Path(__file__).with_name("exclusive.py"))
HELD_BACK = [["read"], ["tell", "asked to greet"], ["wait"], ["reply", {"ok": True}]]
"""Steps of a hook with a line that says hello when the test lets it."""


def signs(by):
    """A step: to serve, and say by whom each call was answered."""
    return ["serve", {"hook.before_tool": {"action": "modify", "call": {"arguments": {"by": by}}}}]


def call(tool="bash", **arguments):
    return ToolCall(tool=tool, arguments=arguments)


async def asked(host, **arguments):
    """Who answered."""
    outcome = await host.before_tool(call(**arguments))
    assert [entry.error for entry in outcome.trail if entry.error] == []
    return outcome.payload.arguments["by"]


def status(host, name):
    return next(hook for hook in host.status().hooks if hook.name == name)


def pids(host):
    return {hook.name: hook.pid for hook in host.status().hooks}


async def test_each_hook_is_added_removed_changed_or_kept_as_the_configuration_says(config, journal):
    for name in ("kept", "changed", "removed"):
        config.hook(name)
    async with Host.from_config(config.write(), logger=journal) as host:
        await host.before_tool(call())
        before = pids(host)
        del config.hooks["removed"]
        config.hook("changed", priority=7)
        config.hook("added", priority=1)
        config.write()
        done = await host.reload()
        assert done.wire() == {
            "added": ["added"],
            "removed": ["removed"],
            "changed": ["changed"],
            "kept": ["kept"],
            "failed": {},
        }
        after = pids(host)
        assert after.keys() == {"kept", "changed", "added"}
        assert after["kept"] == before["kept"]
        assert after["changed"] != before["changed"]
        assert [hook.name for hook in host.asked_at("before_tool")] == ["added", "changed", "kept"]
        outcome = await host.before_tool(call())
        assert [(entry.hook, entry.error) for entry in outcome.trail] == [
            ("added", None),
            ("changed", None),
            ("kept", None),
        ]
        assert status(host, "kept").stages["before_tool"]["executions"] == 2
        assert status(host, "kept").starts == 1
        assert journal.all("reloaded", added="added", removed="removed", changed="changed", kept="kept")


async def test_a_reload_without_a_change_changes_nothing(config):
    config.hook("one")
    config.hook("two")
    async with Host.from_config(config.write()) as host:
        before = pids(host)
        assert (await host.reload()).kept == ("one", "two")
        assert pids(host) == before


WORKERS = 60
TOOLS = ("first", "second", "third")


async def test_no_call_is_lost_or_answered_twice_while_hooks_are_replaced_under_load(config, tmp_path, journal):
    def versions(number):
        for tool in TOOLS:
            record = str(tmp_path / f"{tool}.{number}.record")
            config.hook(tool, ["record", record], SERVE, stages=["before_tool"], filter={"tool": tool})
        config.write()

    versions(0)
    replies, answered = [], Counter()
    over = anyio.Event()

    async with Host.from_config(config.path, logger=journal) as host:

        async def work(worker):
            tool, count = TOOLS[worker % len(TOOLS)], 0
            while not over.is_set():
                nonce, count = f"{worker}/{count}", count + 1
                replies.append((nonce, await host.before_tool(call(tool, nonce=nonce))))
                answered[tool] += 1

        async with anyio.create_task_group() as tasks:
            for worker in range(WORKERS):
                tasks.start_soon(work, worker)
            for number in range(1, 6):
                versions(number)
                assert set((await host.reload()).changed) == set(TOOLS)
                enough = {
                    tool: answered[tool] + WORKERS for tool in TOOLS
                }  # more than those who asked the version before
                while any(answered[tool] <= enough[tool] for tool in TOOLS):
                    await anyio.lowlevel.checkpoint()
            over.set()

    for nonce, outcome in replies:
        assert [entry.error for entry in outcome.trail] == [None] * len(TOOLS)
        assert outcome.payload.arguments == {"echo": nonce}
    asked = {}
    for record in tmp_path.glob("*.record"):
        for line in record.read_text().splitlines():
            seen = json.loads(line)
            if seen["way"] == "in" and seen["line"]["method"] == "hook.before_tool":
                asked.setdefault(seen["line"]["params"]["arguments"]["nonce"], []).append(record.name)
    assert {nonce: len(by) for nonce, by in asked.items()} == {nonce: 1 for nonce, _ in replies}
    assert len({by for [by] in asked.values()}) == 6 * len(TOOLS)


async def test_every_event_arrives_once_while_the_observer_is_replaced(config, tmp_path):
    def version(number):
        config.hook("observer", ["record", str(tmp_path / f"{number}.record")], SERVE, observe=["error"])
        config.write()

    told = 0
    done = []

    async def reload(host):
        done.append(await host.reload())

    version(0)
    async with Host.from_config(config.path) as host:
        for number in range(1, 5):
            version(number)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(reload, host)
                while len(done) < number:
                    await host.emit_and_wait("error", {"Message": str(told)})
                    told += 1
        await host.emit_and_wait("error", {"Message": str(told)})
        told += 1
    seen = [
        json.loads(line)["line"]["params"]["Payload"]["Message"]
        for record in tmp_path.glob("*.record")
        for line in record.read_text().splitlines()
        if "hook.event" in line
    ]
    assert sorted(map(int, seen)) == list(range(told))


async def test_the_old_hook_serves_until_the_new_one_has_said_hello(config, board):
    config.hook("guard", board.call("old"), signs("old"))
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        old = await board.line("old")
        config.hook("guard", board.call("new"), *HELD_BACK, signs("new"))
        config.write()
        tasks.start_soon(host.reload)
        new = await board.line("new")
        assert await new.said() == "asked to greet"
        assert await asked(host) == "old"
        assert pids(host) == {"guard": old.pid}
        new.go_on()
        await old.dead()
        assert await asked(host) == "new"
        assert pids(host) == {"guard": new.pid}


async def test_the_old_hook_is_stopped_once_it_has_answered_all_questions(config, board):
    config.hook("guard", board.call("old"), signs("old"))
    answers = []

    async def ask(host):
        answers.append(await asked(host, do=[["tell", "asked"], ["wait"]]))

    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        old = await board.line("old")
        tasks.start_soon(ask, host)
        assert await old.said() == "asked"
        config.hook("guard", signs("new"))
        config.write()
        await host.reload()
        assert await asked(host) == "new"
        assert old.alive
        old.go_on()
        await old.dead()
    assert answers == ["old"]


async def test_a_chain_that_began_before_asks_the_old_hook_even_afterwards(config, board):
    config.hook("first", board.call("first"), signs("first"), priority=1)
    config.hook("second", board.call("old"), signs("old"), priority=2)
    answers = []

    async def ask(host):
        answers.append(await asked(host, do=[["tell", "asked"], ["wait"]]))

    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        first, old = await board.line("first"), await board.line("old")
        tasks.start_soon(ask, host)
        assert await first.said() == "asked"
        config.hook("second", signs("new"), priority=2)
        config.write()
        assert (await host.reload()).changed == ("second",)
        assert answers == []
        first.go_on()
        await old.dead()
        assert await asked(host) == "new"
    assert answers == ["old"]


async def test_a_chain_from_before_two_reloads_still_finds_its_hook(config, board):
    config.hook("first", board.call("first"), signs("first"), priority=1)
    config.hook("second", board.call("old"), signs("old"), priority=2)
    answers = []

    async def ask(host):
        answers.append(await asked(host, do=[["tell", "asked"], ["wait"]]))

    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        first, old = await board.line("first"), await board.line("old")
        tasks.start_soon(ask, host)
        await first.said()
        config.hook("other")
        config.write()
        await host.reload()
        del config.hooks["second"]
        config.write()
        assert (await host.reload()).removed == ("second",)
        assert old.alive
        first.go_on()
        await old.dead()
    assert answers == ["old"]


async def test_a_removed_hook_is_asked_no_more_and_ends(config, board):
    config.hook("gone", board.call("gone"), signs("gone"))
    config.hook("stays", signs("stays"), priority=1)
    async with Host.from_config(config.write()) as host:
        gone = await board.line("gone")
        assert await asked(host) == "gone"
        del config.hooks["gone"]
        config.write()
        await host.reload()
        assert await asked(host) == "stays"
        await gone.dead()


async def test_a_chain_that_never_ends_does_not_keep_the_old_hook_for_ever(config, board):
    class Endless(Hook):
        async def handle(self, question):
            entered.set()
            await anyio.sleep_forever()

    entered = anyio.Event()
    config.defaults["chain_budget"] = 0.1
    config.hook("old", board.call("old"), SERVE)
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        old = await board.line("old")
        await host.mount(Endless(HookSpec(name="endless", stages=("before_tool",))))
        tasks.start_soon(host.before_tool, call())
        await entered.wait()
        config.hooks.clear()
        config.hook("new")
        config.write()
        await host.reload()
        await old.dead()
        tasks.cancel_scope.cancel()


async def test_a_renamed_approver_is_asked_at_all_times(config, board):
    config.hook("old", ["serve", {"hook.approve_tool": {"approved": False, "reason": "old"}}], stages=["approve_tool"])
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        config.hooks.clear()
        answer = {"hook.approve_tool": {"approved": False, "reason": "new"}}
        config.hook("new", board.call("new"), *HELD_BACK, ["serve", answer], stages=["approve_tool"])
        config.write()
        tasks.start_soon(host.reload)
        new = await board.line("new")
        await new.said()
        assert (await host.approve_tool(call())).reason == "old"
        new.go_on()
        while (outcome := await host.approve_tool(call())).reason == "old":
            assert not outcome.approved
        assert outcome.reason == "new"


async def test_kept_hooks_get_new_timeouts_and_defaults(config, board):
    config.hook("kept", board.call("kept"), SERVE)
    config.hook("slow", board.call("slow"), SERVE, timeout=60, filter={"tool": "slow"})
    async with Host.from_config(config.write()) as host:
        await board.line("slow")
        before = pids(host)
        config.defaults |= {"interceptor_timeout": 0.2, "hello_timeout": 7, "chain_budget": 13}
        config.write()
        assert (await host.reload()).kept == ("kept", "slow")
        assert pids(host) == before
        assert host.timeouts == Timeouts(interceptor=0.2, approval=60, hello=7, chain=13)
        outcome = await host.before_tool(call(do=[["wait"]]))
        assert "no answer within 0.2 s" in outcome.trail[0].error
        (await board.line("kept")).go_on()


async def test_a_kept_hook_is_started_again_with_the_new_hello_timeout(config, tmp_path, journal):
    script = tmp_path / "hook"
    script.write_text(f"""#!/bin/sh
[ -e {tmp_path}/silent ] && exec sleep 1000
exec {shlex.join(command(SERVE))}
""")
    script.chmod(0o755)
    config.hook("kept", command=[str(script)], grace=0.1)
    async with Host.from_config(config.write(), logger=journal) as host:
        config.defaults["hello_timeout"] = 0.1
        config.write()
        assert (await host.reload()).kept == ("kept",)
        (tmp_path / "silent").touch()
        host.restart("kept")
        assert "hook.hello was not answered in time" in (await journal.seen("ended", times=2))["why"]


async def test_settings_that_all_hooks_share_change_the_hooks_that_they_reach(config):
    config.hook("own", env={"COLOUR": "red"})
    config.hook("shared")
    async with Host.from_config(config.write()) as host:
        config.defaults["env"] = {"COLOUR": "red"}
        config.write()
        done = await host.reload()
        assert (done.changed, done.kept) == (("shared",), ("own",))


# What cannot be taken over.


@pytest.mark.parametrize(
    "text",
    [
        "[hooks.guard\n",
        "[hooks.guard]\nstages = ['before_tool']\n",
        "[hooks.guard]\ncommand = ['cat']\nstages = ['before_tool']\nafter = ['nobody']\n",
        None,
    ],
    ids=["no TOML", "no command", "an order that cannot be", "gone"],
)
async def test_a_bad_configuration_changes_nothing_and_is_logged(config, journal, text):
    config.hook("guard", signs("guard"))
    config.hook("other")
    async with Host.from_config(config.write(), logger=journal) as host:
        before = pids(host)
        if text is None:
            config.path.unlink()
        else:
            config.path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            await host.reload()
        assert [str(config.path) in problem.file for problem in caught.value.problems] == [True]
        (record,) = journal.all("not reloaded: the old configuration stays")
        assert record["level"] == "error"
        assert str(caught.value) in record["why"]
        assert pids(host) == before
        assert await asked(host) == "guard"
        config.hook("more")
        config.write()
        assert (await host.reload()).added == ("more",)


async def test_a_changed_hook_that_does_not_start_leaves_the_old_one_mounted(config, journal):
    config.hook("guard", signs("old"))
    config.hook("other", priority=1)
    async with Host.from_config(config.write(), logger=journal) as host:
        before = pids(host)
        config.hook("guard", ["say", "no licence"], ["exit", 3])
        config.hook("other", priority=2)
        config.write()
        done = await host.reload()
        assert done.changed == ("other",)
        assert "it exited with code 3; it said: no licence" in done.failed["guard"]
        (record,) = journal.all("does not start with its new settings")
        assert (record["level"], record["hook"]) == ("error", "guard")
        assert pids(host)["guard"] == before["guard"]
        assert await asked(host) == "old"
        assert "guard" in (await host.reload()).failed  # another try
        config.hook("guard", signs("new"))
        config.write()
        assert (await host.reload()).changed == ("guard",)
        assert await asked(host) == "new"


async def test_an_old_hook_that_stays_is_asked_where_the_new_one_would_be(config):
    config.hook("first", priority=1)
    config.hook("second", priority=2)
    async with Host.from_config(config.write()) as host:
        config.hook("first", ["exit", 3], priority=3)
        config.hook("third", priority=4, after=["first"])
        config.write()
        assert (await host.reload()).failed.keys() == {"first"}
        assert [hook.name for hook in host.asked_at("before_tool")] == ["second", "first", "third"]


async def test_an_added_hook_that_does_not_start_fails_closed_and_is_started_again(config, tmp_path, journal):
    config.hook("other")
    async with Host.from_config(config.write(), logger=journal) as host:
        config.hook("approver", command=[str(tmp_path / "late")], stages=["approve_tool"])
        config.write()
        done = await host.reload()
        assert done.added == ()
        assert "does not exist" in done.failed["approver"]
        assert (await host.approve_tool(call())).approved is False
        (tmp_path / "late").write_text(f"#!/bin/sh\nexec {shlex.join(scripted('x').command)}\n")
        (tmp_path / "late").chmod(0o755)
        host.reset("approver")
        await journal.seen("ready", hook="approver")
        assert (await host.approve_tool(call())).approved is True


async def test_a_required_hook_that_does_not_start_stops_the_whole_reload(config, board, journal):
    config.hook("old", signs("old"))
    async with Host.from_config(config.write(), logger=journal) as host:
        before = pids(host)
        config.hooks.clear()
        config.hook("new", board.call("new"), SERVE)
        config.hook("needed", ["exit", 3], required=True)
        config.write()
        with pytest.raises(HookCrashedError, match="needed is required, and did not start"):
            await host.reload()
        await (await board.line("new")).dead()
        assert pids(host) == before
        assert await asked(host) == "old"
        assert len(journal.all("not reloaded: the old configuration stays", level="error")) == 1


# Never two at once.


def exclusive(config, tmp_path, by, *more, **settings):
    lock = str(tmp_path / "lock")
    config.hook("alone", command=[sys.executable, "-I", "-S", EXCLUSIVE, lock, by, *more], **settings)
    config.write()


async def test_a_hook_that_may_not_overlap_never_runs_twice_at_once_and_loses_no_call(config, tmp_path):
    exclusive(config, tmp_path, "0", overlap=False)
    replies = []
    over = anyio.Event()
    async with Host.from_config(config.path) as host:

        async def work(worker):
            count = 0
            while not over.is_set():
                nonce, count = f"{worker}/{count}", count + 1
                outcome = await host.before_tool(call(nonce=nonce))
                replies.append((nonce, outcome.trail[0].error, outcome.payload.arguments))

        async with anyio.create_task_group() as tasks:
            for worker in range(50):
                tasks.start_soon(work, worker)
            for number in range(1, 5):
                exclusive(config, tmp_path, str(number), overlap=False)
                assert (await host.reload()).changed == ("alone",)
                assert status(host, "alone").starts == 1
                while replies[-1][2]["by"] != str(number):
                    await anyio.lowlevel.checkpoint()
            over.set()
    assert [error for _, error, _ in replies if error] == []
    assert all(arguments["echo"] == nonce for nonce, _, arguments in replies)
    order = [int(arguments["by"]) for _, _, arguments in replies]
    assert order == sorted(order)
    assert set(order) == set(range(5))


async def test_a_hook_that_may_overlap_is_started_while_the_old_one_runs(config, tmp_path):
    exclusive(config, tmp_path, "old")
    async with Host.from_config(config.path) as host:
        exclusive(config, tmp_path, "new")
        assert "there are two of me" in (await host.reload()).failed["alone"]
        assert await asked(host) == "old"


@pytest.mark.parametrize(("old", "new"), [(True, False), (False, True)])
async def test_the_old_or_the_new_settings_can_forbid_the_overlap(config, tmp_path, old, new):
    exclusive(config, tmp_path, "old", overlap=old)
    async with Host.from_config(config.path) as host:
        exclusive(config, tmp_path, "new", overlap=new)
        assert (await host.reload()).changed == ("alone",)
        assert await asked(host) == "new"


@ON_BOTH
async def test_questions_wait_for_the_new_one_within_their_own_deadline(config, board):
    config.hook("alone", board.call("old"), signs("old"), overlap=False)
    answers = []

    async def ask(host):
        answers.append(await asked(host))

    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        old = await board.line("old")
        config.hook(
            "alone", board.call("new"), *HELD_BACK, signs("new"), overlap=False, timeouts={"before_prompt": 0.1}
        )
        config.hooks["alone"]["stages"] = ["before_tool", "before_prompt"]
        config.write()
        tasks.start_soon(host.reload)
        new = await board.line("new")
        await old.dead()
        await new.said()
        tasks.start_soon(ask, host)
        outcome = await host.before_prompt({"prompt": "hello"})
        assert outcome.trail[0].error == "timed out waiting for the old hook to end"
        assert answers == []
        new.go_on()
        await host.before_prompt({"prompt": "hello"})
    assert answers == ["new"]


async def test_events_wait_for_the_new_one(config, board):
    config.hook("alone", board.call("old"), SERVE, observe=["error"], overlap=False)
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        old = await board.line("old")
        config.hook("alone", board.call("new"), *HELD_BACK, SERVE, observe=["error"], overlap=False)
        config.write()
        tasks.start_soon(host.reload)
        new = await board.line("new")
        await old.dead()
        await new.said()
        for number in range(3):
            host.emit("error", {"Message": str(number)})
        new.go_on()
        told = [json.loads(await new.said()) for _ in range(3)]
        assert [one["params"]["Payload"]["Message"] for one in told] == ["0", "1", "2"]


async def test_the_old_settings_are_started_again_when_the_new_ones_fail_and_the_questions_that_wait_are_answered(
    config, tmp_path, journal
):
    exclusive(config, tmp_path, "old", overlap=False)
    answers = []

    async def ask(host):
        answers.append(await asked(host))

    async with Host.from_config(config.path, logger=journal) as host:
        exclusive(config, tmp_path, "new", "fail", overlap=False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.reload)
            while status(host, "alone").state == "ready":
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(ask, host)
        assert answers == ["old"]
        (record,) = journal.all("does not start with its new settings", hook="alone")
        assert "these settings are no good" in record["why"]
        exclusive(config, tmp_path, "newer", overlap=False)
        assert (await host.reload()).changed == ("alone",)
        assert await asked(host) == "newer"


async def test_a_hook_that_comes_back_waits_for_the_one_that_still_drains(config, board, tmp_path):
    config.hook("first", board.call("first"), signs("first"), priority=1)
    exclusive(config, tmp_path, "old", overlap=False)
    answers = []

    async def ask(host, **arguments):
        answers.append(await asked(host, **arguments))

    async with Host.from_config(config.path) as host, anyio.create_task_group() as tasks:
        first = await board.line("first")
        tasks.start_soon(lambda: ask(host, do=[["tell", "asked"], ["wait"]]))
        await first.said()
        old = config.hooks.pop("alone")
        config.write()
        await host.reload()
        config.hooks["alone"] = old
        config.write()
        tasks.start_soon(host.reload)
        while "alone" not in pids(host):
            await anyio.lowlevel.checkpoint()
        assert status(host, "alone").state == "starting"
        first.go_on()
        await ask(host)
    assert sorted(answers) == ["old", "old"]


# Beside other things.


async def test_hooks_mounted_in_code_are_left_alone(config, board):
    config.hook("configured")
    async with Host.from_config(config.write()) as host:
        await host.mount(scripted("mounted", board.call("mounted"), SERVE))
        await host.mount(FunctionHook("function", {"before_tool": lambda _: Continue()}))
        mounted = await board.line("mounted")
        config.hooks.clear()
        config.hook("other")
        config.write()
        done = await host.reload()
        assert (done.added, done.removed, done.kept) == (("other",), ("configured",), ())
        assert pids(host)["mounted"] == mounted.pid
        outcome = await host.before_tool(call())
        assert [entry.hook for entry in outcome.trail] == ["other", "function", "mounted"]


async def test_a_configuration_cannot_take_the_name_of_a_hook_that_was_mounted_in_code(config):
    config.hook("one")
    async with Host.from_config(config.write()) as host:
        await host.mount(scripted("two", signs("code"), priority=200))
        config.hook("two", signs("config"))
        config.write()
        with pytest.raises(ConfigError, match=r"hooks.two: is the name of a hook that was mounted in code"):
            await host.reload()
        assert await asked(host) == "code"


async def test_a_hook_of_the_configuration_that_code_replaced_is_codes_own(config):
    config.hook("one", signs("config"))
    async with Host.from_config(config.write()) as host:
        await host.unmount("one")
        await host.mount(scripted("one", signs("code")))
        with pytest.raises(ConfigError, match="mounted in code"):
            await host.reload()
        config.hooks.clear()
        config.hook("two", priority=1)
        config.write()
        assert (await host.reload()).wire() == {
            "added": ["two"],
            "removed": [],
            "changed": [],
            "kept": [],
            "failed": {},
        }
        assert [hook.name for hook in host.asked_at("before_tool")] == ["two", "one"]


async def test_a_hook_that_code_unmounted_comes_back_with_the_next_reload(config):
    config.hook("one")
    async with Host.from_config(config.write()) as host:
        await host.unmount("one")
        assert (await host.reload()).added == ("one",)


async def test_a_hook_that_others_mounted_in_code_are_after_cannot_go(config):
    config.hook("one")
    async with Host.from_config(config.write()) as host:
        await host.mount(scripted("two", after=("one",)))
        config.hooks.clear()
        config.hook("three")
        config.write()
        with pytest.raises(ConfigError, match="there is no hook 'one'"):
            await host.reload()
        assert [hook.name for hook in host.asked_at("before_tool")] == ["one", "two"]


async def test_a_hook_that_code_unmounts_during_a_reload_stays_unmounted(config, board):
    config.hook("one", board.call("one"), SERVE)
    config.hook("two")
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        config.hook("three", board.call("three"), *HELD_BACK, SERVE)
        config.write()
        tasks.start_soon(host.reload)
        three = await board.line("three")
        await three.said()
        await host.unmount("one")
        await (await board.line("one")).dead()
        three.go_on()
        while "three" not in pids(host):
            await anyio.lowlevel.checkpoint()
        assert pids(host).keys() == {"two", "three"}


async def test_a_hook_that_code_mounts_during_a_reload_is_not_replaced(config, board):
    async def reload(host):
        with pytest.raises(ConfigError, match="mounted in code"):
            await host.reload()

    config.hook("one")
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        config.hook("two", board.call("configured"), *HELD_BACK, SERVE)
        config.write()
        tasks.start_soon(reload, host)
        configured = await board.line("configured")
        await configured.said()
        await host.mount(scripted("two", signs("code")))
        configured.go_on()
        await configured.dead()
        assert await asked(host) == "code"


async def test_a_placeholder_can_be_unmounted(config, board):
    config.hook("alone", board.call("old"), signs("old"), overlap=False)
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        await board.line("old")
        config.hook("alone", board.call("new"), *HELD_BACK, SERVE, overlap=False)
        config.write()
        tasks.start_soon(host.reload)
        new = await board.line("new")
        await new.said()
        tasks.start_soon(host.before_tool, call())
        await host.unmount("alone")
        new.go_on()
        await new.dead()
        assert pids(host) == {}


async def test_reloads_at_once_follow_one_another_and_all_see_the_same(config, board):
    config.hook("one", board.call("old"), SERVE)
    async with Host.from_config(config.write()) as host:
        config.hook("one", board.call("new"), SERVE)
        config.write()
        done = []

        async def reload():
            done.append(await host.reload())

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(reload)
        assert [one.changed for one in done] == [("one",), (), (), ()]
        assert [one.kept for one in done] == [(), *[("one",)] * 3]
        await (await board.line("old")).dead()
        await board.line("new")
        assert board.nobody_called()


@ON_BOTH
async def test_a_reload_continues_when_its_caller_is_cancelled(config, board, journal):
    config.hook("one", board.call("old"), SERVE)
    async with Host.from_config(config.write(), logger=journal) as host:
        config.hook("one", board.call("new"), *HELD_BACK, SERVE)
        config.write()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.reload)
            new = await board.line("new")
            tasks.cancel_scope.cancel()
        new.go_on()
        await journal.seen("reloaded", changed="one")
        assert pids(host) == {"one": new.pid}


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("steps", [HELD_BACK, [HANG]], ids=["at hello", "before hello"])
async def test_closing_ends_a_reload_and_all_that_it_started(config, board, monkeypatch, steps, overlap):
    monkeypatch.setattr("picohook.engine.lifecycle.LAST_RESORT", 2 * PATIENCE)
    failures = []

    async def reload(host):
        try:
            await host.reload()
        except PicohookError as error:
            failures.append(str(error))

    config.hook("one", board.call("old"), SERVE, overlap=overlap)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            async with Host.from_config(config.write()) as host:
                old = await board.line("old")
                config.hook("one", board.call("new"), *steps, overlap=overlap, grace=0.1)
                config.write()
                tasks.start_soon(reload, host)
                new = await board.line("new")
            await old.dead()
            await new.dead()
    assert failures == ["the host was closed"]


async def test_closing_does_not_wait_for_hooks_that_drain(config, board):
    config.hook("one", board.call("old"), SERVE, grace=0.1)
    async with Host.from_config(config.write()) as host, anyio.create_task_group() as tasks:
        old = await board.line("old")
        tasks.start_soon(host.before_tool, call(do=[["tell", "asked"], ["wait"]]))
        await old.said()
        config.hooks["one"]["priority"] = 1
        config.write()
        await host.reload()
        assert old.alive
        states = []
        host.on_change.add(states.append)
        await host.aclose()
        ends = sorted(one.state for one in states if isinstance(one, StateChange))
        assert ends == ["stopped", "stopped", "stopping", "stopping"]
        await old.dead()


async def test_many_reloads_leave_nothing_behind(config, journal):
    config.hook("one", priority=0)
    async with Host.from_config(config.write(), logger=journal) as host:
        counts = []
        for number in range(1, 16):
            config.hook("one", priority=number)
            config.write()
            await host.reload()
            while len(host._mounted.alive("one")) > 1 or host._mounted._services:
                await anyio.lowlevel.checkpoint()
            counts.append(descriptors())
        assert len(set(counts[1:])) == 1


async def test_only_a_running_host_that_was_made_from_a_configuration_can_be_reloaded(config):
    async with Host([scripted("one")]) as host:
        with pytest.raises(PicohookError, match="from_config"):
            await host.reload()
    config.hook("one")
    host = Host.from_config(config.write())
    with pytest.raises(PicohookError, match="not running"):
        await host.reload()
    async with host:
        pass
    with pytest.raises(PicohookError, match="closed"):
        await host.reload()


async def test_a_script_beside_the_configuration_that_changed_is_a_change_of_its_hook(config):
    directory = config.path.parent
    program = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {"action": "modify", "call": {"arguments": {"by": "BY"}}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
    (directory / "hook.py").write_text(program)
    config.hook("scripted", command=[sys.executable, "hook.py"])
    config.hook("other", priority=1)
    async with Host.from_config(config.write()) as host:
        assert await asked(host) == "BY"
        (directory / "hook.py").write_text(program.replace("BY", "new"))
        done = await host.reload()
        assert (done.changed, done.kept) == (("scripted",), ("other",))
        assert await asked(host) == "new"


async def test_function_hooks_of_a_configuration_are_exchanged_too(config):
    directory = config.path.parent
    (directory / "hook.py").write_text("def decide(call):\n    return {'action': 'deny_tool', 'reason': 'old'}\n")
    config.hook("function", python="hook:decide", stages=["before_tool"])
    del config.hooks["function"]["command"]
    async with Host.from_config(config.write()) as host:
        assert (await host.before_tool(call())).reason == "old"
        new = directory / "new.py"
        new.write_text("def decide(call):\n    return {'action': 'deny_tool', 'reason': 'brand new'}\n")
        os.replace(new, directory / "hook.py")
        assert (await host.reload()).changed == ("function",)
        assert (await host.before_tool(call())).reason == "brand new"


def test_a_synchronous_program_can_reload_too(config):
    config.hook("one")
    with Host.blocking(config.write()) as host:
        config.hook("two")
        config.write()
        assert host.reload().added == ("two",)


@ON_BOTH
async def test_a_host_is_left_at_once_while_its_configuration_is_read_from_a_file_system_that_hangs(config):
    reads, answers = threading.Event(), threading.Event()

    def hang():
        reads.set()
        answers.wait()

    config.path.write_text('[hooks.h]\nrun = "true"\nstages = ["before_tool"]\n')
    host = Host.from_config(config.path)
    try:
        with anyio.fail_after(PATIENCE):
            async with host, anyio.create_task_group() as tasks:
                host.reloader.source.read = hang
                tasks.start_soon(host.reload)
                while not reads.is_set():
                    await anyio.sleep(0.001)
                tasks.cancel_scope.cancel()
        assert not answers.is_set()
    finally:
        answers.set()
