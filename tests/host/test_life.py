"""A host from entering to leaving, and what can happen to its hooks in between."""

from __future__ import annotations

import contextlib
import json

import anyio
import pytest
from loops import both
from scripted import HANG, HELLO, SERVE, children, descriptors, scripted

from picohook import (
    ConfigError,
    FunctionHook,
    Hook,
    HookCrashedError,
    HookSpec,
    Host,
    PicohookError,
    RestartPolicy,
    Timeouts,
    ToolCall,
)

pytestmark = pytest.mark.anyio
anyio_backend = both

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)
ONCE = RestartPolicy(max_starts=1)


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


async def test_an_error_of_the_block_is_raised_unchanged():
    with pytest.raises(LookupError, match="mine"):
        async with Host([scripted("h")], timeouts=FAR):
            raise LookupError("mine")
    assert not children()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_so_do_interrupts_and_exits(error):
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which one is the question
        async with Host([scripted("h")], timeouts=FAR):
            raise error
    assert caught.type is error
    assert not children()


async def test_a_host_is_entered_once_and_only_works_inside():
    host = Host([scripted("h")])
    with pytest.raises(PicohookError, match="not running"):
        await host.before_tool(asking())
    with pytest.raises(PicohookError, match="not running"):
        host.emit("turn_start")
    async with host:
        with pytest.raises(PicohookError, match="entered once"):
            await host.__aenter__()
        assert (await host.before_tool(asking())).trail[0].error is None
    for call in (host.before_tool(asking()), host.mount(scripted("new")), host.run_tool(asking(), print)):
        with pytest.raises(PicohookError, match="closed"):
            await call
    with pytest.raises(PicohookError, match="closed"):
        host.emit("turn_start")


async def test_names_are_unique_and_needed():
    async with Host([scripted("h")], timeouts=FAR) as host:
        with pytest.raises(PicohookError, match="'h' is mounted already"):
            await host.mount(scripted("h"))
        with pytest.raises(PicohookError, match="needs a name"):
            await host.mount(scripted(""))
        with pytest.raises(PicohookError, match="no hook named 'hh' is mounted: did you mean 'h'"):
            await host.unmount("hh")
        assert (await host.before_tool(asking())).trail[0].error is None
        assert len(children()) == 1
    with pytest.raises(PicohookError, match="'h' is mounted already"):
        await Host([scripted("h"), scripted("h")]).__aenter__()


async def test_mounted_and_unmounted_at_run_time(board):
    async with Host([scripted("a")], timeouts=FAR) as host:
        before = descriptors()
        await host.mount(scripted("b", board.call("b"), SERVE))
        line = await board.line("b")
        assert [entry.hook for entry in (await host.before_tool(asking())).trail] == ["a", "b"]
        await host.unmount("b")
        assert not line.alive
        assert [entry.hook for entry in (await host.before_tool(asking())).trail] == ["a"]
        assert [status.name for status in host.status().hooks] == ["a"]
        line.close()
        assert descriptors() == before
        await host.mount(scripted("b"))  # the name is free again
        assert len((await host.before_tool(asking())).trail) == 2


async def test_unmounting_takes_a_hook_out_of_every_chain_at_once_and_fails_its_calls_in_flight(board):
    async with Host([scripted("h", board.call("h"), SERVE, grace=0.1)], timeouts=FAR) as host:
        line = await board.line("h")
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(asking(["tell", "asked"], ["ignore", "SIGTERM"], HANG)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await line.said()
            with anyio.CancelScope() as scope:
                scope.cancel()  # it is done to the end nonetheless
                await host.unmount("h")
        assert outcomes[0].trail[0].error == "it is being stopped"
        assert not line.alive
        assert (await host.before_tool(asking())).trail == ()


async def test_a_hook_that_another_ones_after_names_cannot_be_unmounted(board):
    hooks = [scripted("first", board.call("first"), SERVE), scripted("second", after=("first",))]
    async with Host(hooks, timeouts=FAR) as host:
        line = await board.line("first")
        with pytest.raises(ConfigError, match="there is no hook 'first'"):
            await host.unmount("first")
        assert [entry.error for entry in (await host.before_tool(asking())).trail] == [None, None]
        assert line.alive
        await host.unmount("second")
        await host.unmount("first")
        assert not line.alive


async def test_a_call_under_way_keeps_the_chain_that_it_began_with(board):
    async with Host([scripted("a", board.call("a"), SERVE), scripted("b")], timeouts=FAR) as host:
        line = await board.line("a")
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(asking(["tell", "asked"], ["wait"])))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await line.said()
            await host.unmount("b")
            await host.mount(scripted("c"))
            line.go_on()
        assert [(entry.hook, entry.error) for entry in outcomes[0].trail] == [("a", None), ("b", "it is stopped")]


async def test_the_answer_of_a_hook_that_was_unmounted_meanwhile_goes_through_approval(board):
    """Its `respond` arrives in the very moment in which it is taken out: nobody vouches for it any more."""
    result = {"action": "respond", "result": {"for_llm": "mine"}}
    hooks = [
        scripted("h", board.call("h"), SERVE, provides=("bash",)),
        scripted(
            "no", ["serve", {"hook.approve_tool": {"approved": False, "reason": "who?"}}], stages=("approve_tool",)
        ),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        line = await board.line("h")
        outcomes = []

        async def ask(*steps):
            outcomes.append(await host.before_tool(asking(*steps, who="h")))

        await ask(["reply", result])
        assert outcomes[0].result.for_llm == "mine"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, ["tell", "asked"], ["wait"], ["reply", result], ["tell", "done"])
            await line.said()
            line.go_on()
            line.said_now()
            mounted_hooks = host._mounted  # as `unmount` does it, before the answer is read
            mounted_hooks.seat({name: one for name, one in mounted_hooks.by_name.items() if name != "h"})
        assert outcomes[1].action == "deny_tool"
        assert outcomes[1].reason == "who?"


async def test_a_required_hook_that_does_not_start_is_fatal_and_nothing_stays_running(board):
    hooks = [
        scripted("good", board.call("good"), SERVE),
        scripted("bad", ["say", "no licence"], ["exit", 2], required=True, restart=ONCE),
    ]
    with pytest.raises(
        HookCrashedError, match="hook bad is required, and did not start: it exited with code 2; it said"
    ):
        async with Host(hooks, timeouts=FAR):
            pytest.fail("it was entered")
    assert not (await board.line("good")).alive
    assert not children()


async def test_a_required_hook_that_cannot_be_mounted_leaves_the_host_as_it_was():
    async with Host([scripted("good")], timeouts=FAR) as host:
        with pytest.raises(HookCrashedError, match="hook bad is required"):
            await host.mount(HookSpec(name="bad", command=("./nothing",), stages=("before_tool",), required=True))
        assert [hook.name for hook in host.hooks] == ["good"]
        assert [entry.hook for entry in (await host.before_tool(asking())).trail] == ["good"]


async def test_C3_closing_twice_and_at_the_same_time_is_one_teardown(board, journal):
    steps = board.call("h"), HELLO, ["end_of_stdin"], ["tell", "end"], ["exit", 0]
    async with Host([scripted("h", *steps)], timeouts=FAR, logger=journal) as host:
        line = await board.line("h")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(host.aclose)
        assert await line.said() == "end"
        await line.dead()
        await host.aclose()
        assert host.status().hooks[0].state == "stopped"
    await host.aclose()
    assert host.status().hooks[0].starts == 1


async def test_C3_closing_during_a_restart_starts_no_process(board):
    async with Host([scripted("h", board.call("h"), SERVE)], timeouts=FAR) as host:
        first = await board.line("h")
        host.restart("h")
    assert not first.alive
    assert board.nobody_called()
    assert host.status().hooks[0].starts == 1


async def test_C3_closing_during_the_hello_of_the_next_process_ends_it(board):
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, scripted("h", board.call("h"), ["wait"], HELLO, ["exit", 1], grace=0.1))
        (await board.line("h")).go_on()
        second = await board.line("h")
        await host.aclose()
        assert not second.alive
    assert not children()


async def test_closing_does_not_wait_for_a_hello_that_may_never_come(board):
    async with Host(timeouts=FAR) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.mount, scripted("h", board.call("h"), ["read"], ["end_of_stdin"]))
        line = await board.line("h")
        with anyio.fail_after(30):  # and a hello may take a minute
            await host.aclose()
        assert not line.alive


async def test_a_mount_that_has_not_begun_when_the_host_closes_does_not_wait_for_ever():
    async def mount():
        with contextlib.suppress(PicohookError):  # trio may close it first
            await host.mount(scripted("h"))

    async with Host(timeouts=FAR) as host:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(mount)
                tasks.start_soon(host.aclose)
    assert not children()


async def test_calls_in_flight_fail_when_the_host_closes_and_approvals_are_denied(board):
    async with Host(
        [scripted("h", board.call("h"), SERVE, stages=("before_tool", "approve_tool"))], timeouts=FAR
    ) as host:
        line = await board.line("h")
        outcomes = []

        async def ask(stage):
            outcomes.append(await stage(asking(["tell", "asked"], ["silent"])))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, host.before_tool)
            tasks.start_soon(ask, host.approve_tool)
            await line.said()
            await line.said()
            await host.aclose()
        assert [outcome.trail[0].error for outcome in outcomes] == ["it is being stopped"] * 2
        assert {outcome.approved for outcome in outcomes} == {None, False}


async def test_hooks_are_stopped_at_the_same_time_and_not_one_after_another(board):
    """Each ends only when the other one has seen the end of its stdin."""
    hooks = [
        scripted(name, board.call(name), HELLO, ["end_of_stdin"], ["tell", "end"], ["wait"], grace=60) for name in "ab"
    ]
    async with Host(hooks, timeouts=FAR) as host, anyio.create_task_group() as tasks:
        a, b = await board.line("a"), await board.line("b")
        tasks.start_soon(host.aclose)
        assert await a.said() == "end"
        assert await b.said() == "end"
        b.go_on()
        a.go_on()


async def test_events_that_wait_are_written_before_the_hook_is_ended(board):
    spec = scripted("h", HELLO, board.call("h"), SERVE, observe=("*",))
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        for number in range(100):
            host.emit("turn_start", {"MediaCount": number})
    for number in range(100):
        assert json.loads(await line.said())["params"]["Payload"] == {"MediaCount": number}
    await line.dead()


async def test_an_embedders_own_hook_whose_task_fails_affects_no_other(journal):
    class Broken(Hook):
        async def run(self):
            raise ZeroDivisionError("oops")

        def notify(self, event):
            raise ZeroDivisionError("oops again")

    broken = Broken(HookSpec(name="broken", observe=("*",)))
    seen = []
    async with Host([broken, FunctionHook("f", on_event=seen.append)], timeouts=FAR, logger=journal) as host:
        await journal.seen("the task of a hook failed")
        host.emit("turn_start")
        await journal.seen("failed", stage="observe")
        await host.emit_and_wait("turn_end")
    assert [event.kind for event in seen] == ["turn_start", "turn_end"]


async def test_the_ladder_ends_even_if_the_hook_does_not_read_and_events_wait(board):
    spec = scripted("h", HELLO, board.call("h"), ["ignore", "SIGTERM"], HANG, observe=("*",), grace=0.05)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        for _ in range(10):
            host.emit("turn_start", {"UserMessage": "x" * 100_000})
    assert not line.alive
    assert host.status().hooks[0].dropped_events > 0
