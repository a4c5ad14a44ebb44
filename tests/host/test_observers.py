"""Observers are told, and nobody waits for them."""

from __future__ import annotations

import json
import threading
from datetime import datetime

import anyio
import anyio.lowlevel
import pytest
from loops import both
from scripted import HELLO, SERVE, scripted

from picohook import Deny, EncodeError, FunctionHook, Host, Meta, RestartPolicy, Timeouts, ToolCall
from picohook.hooks.function import THREADS

pytestmark = pytest.mark.anyio
anyio_backend = both

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
META = Meta(agent_id="a1", turn_id="t1", session_key="s1", parent_turn_id="t0", trace_path="run")


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


def held(board, **settings):
    """An observer that reads only after the test let it."""
    settings.setdefault("observe", ("*",))
    return scripted("slow", HELLO, board.call("slow"), ["wait"], SERVE, **settings)


async def test_a_slow_observer_never_delays_the_agent_and_its_dropped_events_are_counted(board):
    """It reads nothing until ten thousand were emitted; then it is told the first, which were on their way, and the last."""
    async with Host([held(board), scripted("good")], timeouts=FAR) as host:
        slow = await board.line("slow")
        for number in range(10_000):
            host.emit("tool_exec_start", {"Tool": "bash", "Number": number})
            if number % 1000 == 0:
                assert (await host.before_tool(asking(nonce=number))).payload.arguments == {"echo": number}
        await anyio.wait_all_tasks_blocked()
        dropped = host.status().hooks[0].dropped_events
        assert dropped > 0
        slow.go_on()
        numbers = [json.loads(await slow.said())["params"]["Payload"]["Number"] for _ in range(10_000 - dropped)]
        assert numbers == sorted(numbers)
        assert numbers[0] == 0
        assert numbers[-1000:] == list(range(9_000, 10_000))
        assert host.status().hooks[0].dropped_events == dropped
        assert host.status().hooks[1].dropped_events == 0


async def test_events_that_wait_for_an_observer_are_bounded_in_bytes_too(board):
    async with Host([held(board, grace=0.05)], timeouts=FAR) as host:
        await board.line("slow")
        for _ in range(20):
            host.emit("turn_start", {"UserMessage": "x" * 1_000_000})
        await anyio.wait_all_tasks_blocked()
        assert 10 <= host.status().hooks[0].dropped_events < 20


async def test_a_request_overtakes_events_that_wait(board, tmp_path):
    record = tmp_path / "record"
    spec = scripted(
        "slow",
        ["record", str(record)],
        HELLO,
        board.call("slow"),
        ["wait"],
        SERVE,
        observe=("*",),
        stages=("before_tool",),
    )
    async with Host([spec], timeouts=FAR) as host:
        slow = await board.line("slow")
        for _ in range(100):
            host.emit("turn_start", {"UserMessage": "x" * 10_000})
        await anyio.wait_all_tasks_blocked()  # what the pipe holds is on its way; the rest waits
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.before_tool, asking())
            await anyio.wait_all_tasks_blocked()
            slow.go_on()
        for _ in range(100):
            await slow.said()
    methods = [json.loads(line)["line"].get("method") for line in record.read_text().splitlines()]
    events_before = methods[: methods.index("hook.before_tool")].count("hook.event")
    assert methods.count("hook.event") == 100
    assert events_before <= 7  # a pipe of 64 KiB, and the line that was begun


async def test_closing_writes_waiting_events_within_the_grace(board):
    async with Host([held(board, grace=30)], timeouts=FAR) as host, anyio.create_task_group() as tasks:
        slow = await board.line("slow")
        for number in range(500):
            host.emit("turn_start", {"UserMessage": "x" * 1000, "MediaCount": number})
        tasks.start_soon(host.aclose)
        await anyio.wait_all_tasks_blocked()
        slow.go_on()
        for number in range(500):
            assert json.loads(await slow.said())["params"]["Payload"]["MediaCount"] == number
        await slow.dead()
    assert host.status().hooks[0].dropped_events == 0


async def test_emit_and_wait_waits_until_it_is_written(board):
    async with Host([held(board)], timeouts=FAR) as host, anyio.create_task_group() as tasks:
        slow = await board.line("slow")
        written = anyio.Event()

        async def tell():
            await host.emit_and_wait("session_end", {"x": "y" * 3_000_000})
            written.set()

        tasks.start_soon(tell)
        await anyio.wait_all_tasks_blocked()
        assert not written.is_set()
        slow.go_on()
        await written.wait()
        assert "session_end" in await slow.said()


async def test_emit_and_wait_is_bounded_by_the_observer_timeout(board):
    timeouts = FAR.model_copy(update={"observer": 0.05})
    async with Host([held(board, grace=0.1), FunctionHook("f", on_event=hang, grace=0.1)], timeouts=timeouts) as host:
        slow = await board.line("slow")
        await host.emit_and_wait("session_end", {"x": "y" * 3_000_000})
        assert slow.alive  # and still holds it up


async def hang(_):
    await anyio.sleep_forever()


async def test_emit_and_wait_ends_at_once_when_the_observer_dies(board):
    spec = scripted("slow", HELLO, board.call("slow"), ["wait"], ["exit", 1], observe=("*",))
    async with Host([spec], timeouts=FAR) as host, anyio.create_task_group() as tasks:
        slow = await board.line("slow")
        tasks.start_soon(host.emit_and_wait, "session_end", {"x": "y" * 3_000_000})
        await anyio.wait_all_tasks_blocked()
        slow.go_on()
        await slow.dead()
        ended = anyio.current_time()
    assert anyio.current_time() < ended + 30  # its own deadline is a minute away


async def test_emit_and_wait_ends_at_once_when_the_observer_is_unmounted(board):
    async with Host([held(board, grace=0.05)], timeouts=FAR) as host, anyio.create_task_group() as tasks:
        await board.line("slow")
        tasks.start_soon(host.emit_and_wait, "session_end", {"x": "y" * 3_000_000})
        await anyio.wait_all_tasks_blocked()
        await host.unmount("slow")
        ended = anyio.current_time()
    assert anyio.current_time() < ended + 30  # its own deadline is a minute away


async def test_both_dialects(board):
    hooks = [
        scripted("legacy", HELLO, board.call("legacy"), SERVE, observe=("tool_exec_start",)),
        scripted("runtime", HELLO, board.call("runtime"), SERVE, observe=("agent.tool.exec_start",)),
    ]
    payload = {"Tool": "echo_text", "Arguments": {"text": "hello"}}
    async with Host(hooks, timeouts=FAR) as host:
        host.emit("turn_start", {})  # neither wants to know
        host.emit("tool_exec_start", payload, meta=META)
        host.emit("agent.tool.exec_start", payload)
        legacy, runtime = await board.line("legacy"), await board.line("runtime")
        first = json.loads(await legacy.said())
        second = json.loads(await legacy.said())
        told = json.loads(await runtime.said())
        assert json.loads(await runtime.said())["params"]["kind"] == "agent.tool.exec_start"
    assert first["method"] == "hook.event"
    assert first["params"]["Kind"] == second["params"]["Kind"] == "tool_exec_start"
    assert first["params"]["Payload"] == payload
    assert first["params"]["Meta"].items() >= {"AgentID": "a1", "TurnID": "t1", "SessionKey": "s1"}.items()
    assert "id" not in first
    params = told["params"]
    assert told["method"] == "hook.runtime_event"
    assert "id" not in told
    assert set(params) == {"id", "kind", "time", "source", "scope", "correlation", "severity", "payload", "attrs"}
    assert (params["kind"], params["severity"], params["payload"]) == ("agent.tool.exec_start", "info", payload)
    assert params["scope"].items() >= {"agent_id": "a1", "session_key": "s1", "turn_id": "t1"}.items()
    assert params["correlation"].items() >= {"parent_turn_id": "t0"}.items()
    assert datetime.fromisoformat(params["time"]).tzinfo is not None


async def test_events_for_a_hook_that_does_not_serve_are_dropped_and_counted(journal):
    spec = scripted("h", ["exit", 1], observe=("*",), restart=RestartPolicy(max_starts=1))
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        for _ in range(7):
            host.emit("turn_start")
        await host.emit_and_wait("turn_end")
        assert host.status().hooks[0].dropped_events == 8


async def test_events_that_wait_when_a_process_dies_are_counted_as_dropped(board):
    spec = scripted(
        "h", HELLO, board.call("h"), ["wait"], ["exit", 1], observe=("*",), restart=RestartPolicy(max_starts=1)
    )
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        for _ in range(200):
            host.emit("turn_start", {"UserMessage": "x" * 1000})
        await anyio.wait_all_tasks_blocked()
        line.go_on()
        await line.dead()
        with anyio.fail_after(30):
            while host.status().hooks[0].state != "failed":
                await anyio.lowlevel.checkpoint()
        assert 200 - 66 <= host.status().hooks[0].dropped_events <= 200


async def test_an_event_without_a_json_form_is_the_embedders_mistake_and_no_observer_is_told(board):
    seen = []
    hooks = [scripted("h", HELLO, board.call("h"), SERVE, observe=("*",)), FunctionHook("f", on_event=seen.append)]
    async with Host(hooks, timeouts=FAR) as host:
        with pytest.raises(EncodeError):
            host.emit("turn_start", {"x": float("nan")})
        with pytest.raises(ValueError, match="did you mean 'turn_start'"):
            host.emit("turn_strat")
        await host.emit_and_wait("turn_end")
        assert "turn_end" in await (await board.line("h")).said()
    assert [event.kind for event in seen] == ["turn_end"]


async def test_an_in_process_observer_that_hangs_fails_or_blocks_delays_nothing(journal):
    release = threading.Event()
    seen = []

    def fail(event):
        seen.append(event.kind)
        raise ZeroDivisionError("oops")

    hooks = [
        FunctionHook("hangs", on_event=hang, grace=0.05),
        FunctionHook("blocks", on_event=lambda _: release.wait(60), grace=0.05),
        FunctionHook("fails", on_event=fail),
        scripted("good"),
    ]
    try:
        async with Host(hooks, timeouts=FAR, logger=journal) as host:
            for number in range(1500):
                host.emit("turn_start")
                if number % 500 == 0:
                    assert (await host.before_tool(asking())).trail[0].error is None
            await host.before_tool(asking())  # a turn of the event loop, in which the last ones are handed on
            await journal.seen("failed", hook="fails")
            dropped = {status.name: status.dropped_events for status in host.status().hooks}
            assert dropped["hangs"] >= 1500 - 1025
            assert dropped["blocks"] >= 1500 - 1025
    finally:
        release.set()
    assert set(seen) == {"turn_start"}


async def test_functions_that_hang_take_no_threads_from_others():
    """As many hang as there are threads for everybody, and another function is still asked."""
    release = threading.Event()
    stuck = FunctionHook("stuck", {"before_tool": lambda _: release.wait()}, timeout=0.02)
    good = FunctionHook("good", {"approve_tool": lambda _: True})
    try:
        async with Host([stuck, good], timeouts=FAR) as host:
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(host.before_tool, asking())
            with anyio.fail_after(20):
                assert (await host.approve_tool(asking())).approved
                assert await anyio.to_thread.run_sync(lambda: "the embedder's own") == "the embedder's own"
    finally:
        release.set()


async def test_E5_functions_that_hang_keep_a_bounded_number_of_threads_until_they_return():
    release, before = threading.Event(), threading.active_count()
    hung, done = 0, FunctionHook("h", {"before_tool": lambda call: release.wait() and Deny("late")}, timeout=0.005)
    async with Host([done], timeouts=FAR) as host:
        try:
            for _ in range(THREADS + 4):
                hung += (await host.before_tool(asking())).trail[0].failure == "timeout"
            assert threading.active_count() <= before + THREADS + 1
        finally:
            release.set()
        with anyio.fail_after(20):
            while (await host.before_tool(asking())).action != "deny_tool":  # as soon as they have returned
                pass
    assert hung == THREADS + 4


async def test_events_to_one_hook_keep_their_order_across_emit_and_emit_and_wait(board):
    async with Host([scripted("h", HELLO, board.call("h"), SERVE, observe=("*",))], timeouts=FAR) as host:
        line = await board.line("h")
        for number in range(300):
            if number % 7 == 0:
                await host.emit_and_wait("turn_end", {"Iterations": number})
            else:
                host.emit("turn_end", {"Iterations": number})
        kinds = [json.loads(await line.said())["params"]["Payload"]["Iterations"] for _ in range(300)]
        assert kinds == list(range(300))
