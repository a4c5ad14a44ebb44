"""C1, S9: all that a host can be asked to do, cancelled at each point in turn at which it waits, on both event loops.

A run is cut at its first point, the next one at its second, and so on, until one comes to its end. Turns of the event loop, at
which what goes on beside it is cut too, are swept in `test_cancellation.py`.
"""

from __future__ import annotations

import json
import sys

import anyio
import anyio.lowlevel
import needs
import pytest
from loops import both
from scripted import children, command, held, scripted, settled

from picohook import Host, LLMRequest, RestartPolicy, Timeouts, ToolCall, ToolResult, ToolReturn
from picohook.model.payloads import Prompt
from picohook.process import restart

pytestmark = pytest.mark.anyio
anyio_backend = both

FAR = Timeouts(interceptor=3600, approval=3600, hello=3600, chain=3600, observer=3600)
"""None passes while a test runs: on trio, an alarm that rings is one task less."""
ALL = ("before_tool", "approve_tool", "after_tool", "before_llm", "after_llm", "before_prompt")
OFTEN = RestartPolicy(max_starts=10_000)
SOON = {"after_tool": 0.05}
MOST_POINTS = 200
"""No run has so many points."""


class CutAt:
    """An awaitable that runs another one, and cancels it at one of the points at which it waits."""

    def __init__(self, coroutine, point, scope):
        self._coroutine = coroutine
        self._point = point
        self._scope = scope
        self.points = 0

    def __await__(self):
        steps = self._coroutine.__await__()
        resume, value = steps.send, None
        while True:
            try:
                waits_for = resume(value)
            except StopIteration as done:
                return done.value
            self.points += 1
            if self.points == self._point:
                self._scope.cancel()
            try:
                resume, value = steps.send, (yield waits_for)
            except BaseException as error:  # it is the other one's
                resume, value = steps.throw, error


async def sweep(run, check):
    """Cut it at every point, and check each time that nothing is left; how many points it had."""
    for point in range(1, MOST_POINTS):
        with anyio.CancelScope() as scope:
            cut = CutAt(run(), point, scope)
            await cut
        await check()
        if cut.points < point:
            return cut.points
    raise AssertionError("it does not come to an end")


def asking(**arguments):
    return ToolCall(tool="bash", arguments=arguments)


async def crash_and_ask(host):
    await host.before_tool(asking(do=[["exit", 1]], who="a"))
    await host.before_tool(asking())


async def restart_and_ask(host):
    host.restart("a")
    await host.before_tool(asking())


async def ask_in_vain(host):
    silent = {"do": [["silent"]], "who": "a"}
    await host.after_tool(ToolReturn(tool="bash", arguments=silent, result=ToolResult(for_llm="done")))


async def mount_and_unmount(host):
    await host.mount(scripted("new"))
    await host.unmount("new")


async def complete(request):
    await anyio.lowlevel.checkpoint()
    return {"content": "done"}


ASKED = {
    "before_tool": lambda host: host.before_tool(asking(nonce=1)),
    "approve_tool_by_two": lambda host: host.approve_tool(asking()),
    "run_tool": lambda host: host.run_tool(asking(), lambda call: "done"),
    "run_llm": lambda host: host.run_llm(LLMRequest(model="m"), complete),
    "before_prompt": lambda host: host.before_prompt(Prompt(prompt="x")),
    "an_event_that_is_waited_for": lambda host: host.emit_and_wait("turn_start", {"UserMessage": "x"}),
    "a_call_that_crashes_its_hook_and_the_next": crash_and_ask,
    "a_call_during_a_restart": restart_and_ask,
    "a_question_that_is_not_answered": ask_in_vain,
    "mount_and_unmount": mount_and_unmount,
}


@pytest.mark.parametrize("what", ASKED)
async def test_C1_a_call_cancelled_at_any_point_leaves_no_caller_waiting_and_the_host_intact(what, monkeypatch):
    monkeypatch.setattr(restart, "BACKOFF_FIRST", 0.001)
    hooks = [scripted(name, stages=ALL, observe=("*",), restart=OFTEN, timeouts=SOON) for name in "ab"]
    async with Host(hooks, timeouts=FAR) as host:

        async def check():
            if len(host.hooks) == 3:  # it was cut when it had been mounted
                await host.unmount("new")
            assert (await host.before_tool(asking(nonce=2))).payload.arguments == {"echo": 2}
            assert (await host.approve_tool(asking())).approved
            for mounted in host._mounted.by_name.values():
                supervised = mounted.hook
                assert not supervised._waiting
                assert supervised.channel._peer.in_flight() == 0
                assert not supervised.channel._flush_waiters
            await settled(before)

        before = held()
        assert await sweep(lambda: ASKED[what](host), check) >= 1


async def test_S9_C3_a_host_cancelled_at_any_point_from_its_start_to_its_end_leaves_nothing():
    async def run():
        async with Host([scripted("a"), scripted("b", observe=("*",))], timeouts=FAR) as host:
            await host.before_tool(asking())

    async def check():
        assert not children()
        await settled(before)

    before = held()
    assert await sweep(run, check) >= 4  # leaving is one of them: its steps are in a task that no caller cuts


@needs.other_rooms
async def test_C1_a_reload_cancelled_at_any_point_is_done_or_not_done(tmp_path):
    path = tmp_path / "picohook.toml"
    name = ["old"]

    def write(word):
        steps = ["serve", {"hook.before_tool": {"action": "modify", "call": {"arguments": {"by": word}}}}]
        told = json.dumps([sys.executable, *command(steps)[1:]])
        path.write_text(f'[hooks.h]\ncommand = {told}\nstages = ["before_tool"]\n')
        return path

    async with Host.from_config(write("old")) as host:

        async def run():
            name.append("new" if name[-1] == "old" else "old")
            write(name[-1])
            await host.reload()

        async def check():
            outcome = await host.before_tool(asking())
            assert [entry.error for entry in outcome.trail] == [None]
            assert outcome.payload.arguments["by"] in {"old", "new"}
            await host.reload()
            assert (await host.before_tool(asking())).payload.arguments == {"by": name[-1]}
            assert len(children()) == alive

        alive = len(children())
        assert await sweep(run, check) >= 1
    assert not children()


async def test_the_sweep_cuts_at_each_point():
    cut = []

    async def run():
        for point in range(1, 4):
            try:
                await anyio.lowlevel.checkpoint()
            except anyio.get_cancelled_exc_class():
                cut.append(point)
                raise

    async def check():
        pass

    assert await sweep(run, check) >= 3
    assert set(cut) == {1, 2, 3}
