"""Ends of a process, its own and those that the host brings about. That it is dead the kernel says: its line is cut."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import anyio
import pytest
from scripted import HANG, HELLO, PATIENCE, SERVE, children, descriptors, scripted

import picohook
from picohook import Host, RestartPolicy, Timeouts, ToolCall
from picohook.process import kill

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("contain")]

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)
ONCE = RestartPolicy(max_starts=1)


def asking(*steps, **more):
    """A call at which the hook does these steps before it answers."""
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


def only(host: Host):
    (status,) = host.status().hooks
    return status


async def error_of(host: Host, *steps) -> str:
    (entry,) = (await host.before_tool(asking(*steps))).trail
    assert entry.error is not None
    return entry.error


async def test_P1_a_crash_in_mid_line_fails_the_call_at_once_with_the_exit_code_and_the_end_of_stderr():
    async with Host([scripted("h", restart=ONCE)], timeouts=FAR) as host:
        steps = ["say", "segfault, sorry"], ["write", '{"jsonrpc":"2.0","id":{id},"resu'], ["exit", 7]
        assert await error_of(host, *steps) == "it exited with code 7; it said: segfault, sorry"


async def test_F5_a_last_line_without_a_newline_is_not_an_answer():
    async with Host([scripted("h", restart=ONCE)], timeouts=FAR) as host:
        whole = '{"jsonrpc":"2.0","id":{id},"result":{"action":"deny_tool","reason":"x"}}'
        assert "it exited with code 0" in await error_of(host, ["write", whole], ["exit", 0])


async def test_output_of_a_process_is_read_before_its_calls_fail():
    async with Host([scripted("h", restart=ONCE)], timeouts=FAR) as host:
        result = {"action": "deny_tool", "reason": "x" * 40_000}
        outcome = await host.before_tool(asking(["reply", result], ["exit", 1]))
        assert outcome.action == "deny_tool"


async def test_output_of_a_process_is_read_to_the_end_even_if_its_exit_is_seen_first(board):
    """Its answer takes many reads, from a pipe that it made larger; its exit is there when the first of them is done."""
    async with Host([scripted("h", board.call("h"), SERVE, restart=ONCE)], timeouts=FAR) as host:
        line = await board.line("h")
        outcomes = []

        async def ask():
            reply = ["reply_of", 500_000]
            outcomes.append(await host.before_tool(asking(["tell", "asked"], ["wait"], reply, ["exit", 0])))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await line.said()
            line.go_on()
            line.dead_now()
        assert outcomes[0].trail[0].error is None
        assert outcomes[0].payload.arguments == {"x": "x" * 500_000}


async def test_output_before_a_process_closed_its_stdin_is_read_even_if_a_write_fails_first(board):
    """The write is tried before the answer is read: the event loop is held up until both are there."""
    hook = scripted("h", ["hello"], board.call("h"), ["read"], ["tell", "read"], ["wait"],
                    ["close", 0], ["reply", {"action": "deny_tool", "reason": "yes"}], ["tell", "wrote"], ["wait"], ["exit", 0],
                    restart=ONCE, stages=("before_tool",), observe=("*",))  # fmt: skip
    async with Host([hook], timeouts=FAR) as host:
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(asking()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            line = await board.line("h")
            await line.said()
            line.go_on()
            assert line.said_now() == "wrote"
            host._mounted.by_name["h"].hook.channel.notify(b"{}\n")
            line.go_on()
            line.dead_now()
        assert [outcome.action for outcome in outcomes] == ["deny_tool"]


async def test_P2_three_requests_in_a_row_without_an_answer_are_a_hang_and_end_in_a_kill(board, journal):
    spec = scripted("h", HELLO, board.call("h"), HANG, timeout=0.02, grace=0.1, restart=ONCE)
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        line = await board.line("h")
        for _ in range(2):
            assert "no answer within" in await error_of(host)
            assert only(host).state == "ready"
        assert "no answer within" in await error_of(host)
        await line.dead()
        await journal.seen("failed: it is not started again until it is reset")
        assert "it left 3 requests in a row without an answer, and was killed" in only(host).last_error
        assert only(host).timeouts == 3


async def test_P2_calls_queued_behind_one_that_timed_out_do_not_count_as_strikes():
    spec = scripted("h", HELLO, *[["read"]] * 50, SERVE, timeout=0.05, stages=("before_tool", "approve_tool"))
    async with Host([spec], timeouts=FAR) as host:
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(host.before_tool, asking())
        assert only(host).timeouts == 50
        assert (await host.approve_tool(asking())).approved
        assert only(host).starts == 1


async def test_P2_an_answer_in_between_clears_the_strikes():
    steps = [["read"], ["read"], ["read"], ["reply", {"approved": True}]] * 3
    spec = scripted("h", HELLO, *steps, SERVE, timeout=0.05, stages=("before_tool", "approve_tool"))
    async with Host([spec], timeouts=FAR) as host:
        for _ in range(3):
            for _ in range(2):
                assert "no answer within" in await error_of(host)
            assert (await host.approve_tool(asking())).approved
        assert only(host).starts == 1


async def test_P3_a_stopped_process_times_out_and_is_killed(board):
    spec = scripted("h", board.call("h"), SERVE, timeout=0.02, grace=0.1, restart=ONCE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        for _ in range(3):
            assert "no answer within" in await error_of(host, ["raise", "SIGSTOP"])
        await line.dead()
        assert only(host).timeouts == 3


async def test_P4_one_that_ignores_the_end_of_its_stdin_and_term_is_killed_after_its_grace(board, journal):
    spec = scripted("h", ["ignore", "SIGTERM"], board.call("h"), HELLO, HANG, grace=0.05)
    async with Host([spec], timeouts=FAR, logger=journal) as host:
        line = await board.line("h")
        process = host._mounted.by_name["h"].hook._child
    await line.dead()
    assert process.exit_code == -signal.SIGKILL
    assert not journal.all("survived SIGKILL: it is stuck in the kernel")


async def test_a_hook_that_ends_at_the_end_of_its_stdin_gets_no_signal(board):
    async with Host([scripted("h", board.call("h"), SERVE, grace=60)], timeouts=FAR) as host:
        line = await board.line("h")
        process = host._mounted.by_name["h"].hook._child
    await line.dead()
    assert process.exit_code == 0


async def test_a_hook_that_is_stopped_is_seen_to_stop_even_if_it_ends_before_the_host_goes_on():
    seen = []
    async with Host([scripted("h")], timeouts=FAR) as host:
        host.on_change.add(lambda change: seen.append(change.state))
        supervised = host._mounted.by_name["h"].hook
        supervised.stop()
        assert select.select([supervised._child.stdout], [], [], PATIENCE)[0]  # the end of its output
    assert seen == ["stopping", "stopped"]
    assert supervised._child.exit_code == 0


async def test_a_hook_that_ignores_the_end_of_its_stdin_gets_sigterm(board):
    async with Host([scripted("h", board.call("h"), HELLO, HANG, grace=0.05)], timeouts=FAR) as host:
        line = await board.line("h")
        process = host._mounted.by_name["h"].hook._child
    await line.dead()
    assert process.exit_code == -signal.SIGTERM


async def test_P5_a_process_that_closes_its_stdout_is_killed_and_its_calls_fail(board):
    async with Host([scripted("h", board.call("h"), SERVE, restart=ONCE)], timeouts=FAR) as host:
        line = await board.line("h")
        assert (
            await error_of(host, ["close", 1], HANG)
            == "it closed its output, and was killed: keep standard output open, for the answers"
        )
        await line.dead()


async def test_P6_a_process_that_closes_its_stdin_is_killed_at_the_next_write(board):
    spec = scripted("h", HELLO, ["close", 0], board.call("h"), HANG, restart=ONCE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        assert await error_of(host) == "it closed its input, and was killed"
        await line.dead()


async def test_P7_a_hook_that_never_reads_its_stdin_delays_only_its_own_calls(board):
    big = ToolCall(tool="write", arguments={"text": "x" * 1_000_000})
    deaf = scripted("a_deaf", HELLO, board.call("deaf"), HANG, timeout=0.05, grace=0.05, restart=ONCE)
    async with Host([deaf, scripted("b_good")], timeouts=FAR) as host:
        line = await board.line("deaf")
        for _ in range(3):
            bad, good = (await host.before_tool(big)).trail
            assert "no answer within" in bad.error
            assert good.error is None
        await line.dead()


async def test_F10_a_call_cancelled_in_mid_write_leaves_a_whole_line(board):
    big = ToolCall(tool="write", arguments={"text": "x" * 1_000_000})
    spec = scripted("h", HELLO, board.call("h"), ["wait"], SERVE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.before_tool, big)
            await anyio.wait_all_tasks_blocked()  # the pipe is full now, and most of the line is not written
            tasks.cancel_scope.cancel()
        line.go_on()
        outcome = await host.before_tool(asking(nonce="after"))
        assert outcome.payload.arguments == {"echo": "after"}
        assert only(host).starts == 1


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
async def test_F10_the_outbound_queue_is_bounded(board):
    big = ToolCall(tool="write", arguments={"text": "x" * 12_000_000})
    spec = scripted("h", HELLO, board.call("h"), ["wait"], SERVE)
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(host.before_tool, big)
            await anyio.wait_all_tasks_blocked()
            (entry,) = (await host.before_tool(big)).trail
            assert "its input queue is full" in entry.error
            line.go_on()
        assert (await host.before_tool(big)).trail[0].error is None


async def test_P8_a_flood_on_stderr_is_drained_capped_and_rate_limited_and_stdout_still_works(journal):
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        flood = ["flood", 2, "blah\n", 200_000]
        outcome = await host.before_tool(asking(flood, nonce=1))
        assert outcome.payload.arguments == {"echo": 1}
    shown = len(journal.all("stderr", line="blah"))
    hidden = sum(record["lines"] for record in journal.all("stderr, not shown"))
    assert shown + hidden == 200_000
    assert shown < 5_000
    assert len(host._mounted.by_name["h"].hook._child.stderr_tail) <= 8192


async def test_P8_a_flood_on_stderr_without_a_newline_is_bounded_too(journal):
    async with Host([scripted("h")], timeouts=FAR, logger=journal) as host:
        await host.before_tool(asking(["flood", 2, "x" * 1000, 1000]))
    assert max(len(record["line"]) for record in journal.all("stderr")) <= 20_000


async def test_a_line_on_stderr_is_logged_whole_however_it_was_written(journal, board):
    pieces = ["ünï".encode()[:-1], "ï".encode()[-1:] + "cö".encode(), b"de line\nand ", b"a last one"]
    steps = [step for piece in pieces for step in (["write_hex", piece.hex(), 2], ["tell", "wrote"], ["wait"])]
    async with Host([scripted("h", HELLO, board.call("h"), *steps, SERVE)], timeouts=FAR, logger=journal):
        line = await board.line("h")
        for _ in pieces:
            await line.said()
            await anyio.wait_all_tasks_blocked()  # it has been read
            line.go_on()
    assert [record["line"] for record in journal.all("stderr")] == ["ünïcöde line", "and a last one"]


@pytest.mark.parametrize("contain", ["group"])
async def test_P9_exit_is_seen_while_a_grandchild_holds_the_pipes(board, contain):
    """The grandchild is in a session of its own, where no signal to the hook's group reaches it, and nothing else holds it."""
    fork = ["fork", [["setsid"], board.call("daemon"), ["wait"]]]
    before = descriptors()
    async with Host([scripted("h", restart=ONCE, contain=contain)], timeouts=FAR) as host:
        assert await error_of(host, fork, ["exit", 3]) == "it exited with code 3"
        daemon = await board.line("daemon")
        assert daemon.alive
    assert daemon.alive
    assert descriptors() == before + 1  # the line to it; of the pipes that it holds, none
    daemon.go_on()
    await daemon.dead()


async def test_P9_a_grandchild_that_floods_the_pipes_does_not_delay_the_end(board):
    noise = ["fork", [["setsid"], board.call("noise"), ["flood", 1, "noise\n"]]]
    async with Host([scripted("h", restart=ONCE)], timeouts=FAR) as host:
        error = await error_of(host, noise, ["exit", 3])
        assert "it exited with code 3" in error or "it wrote more than 100 lines" in error
        line = await board.line("noise")
    await line.dead()  # of EPIPE: nobody reads any more


async def test_P10_a_child_of_the_same_group_does_not_outlive_the_hook(board):
    fork = ["fork", [["ignore", "SIGTERM"], ["ignore", "SIGHUP"], board.call("child"), HANG]]
    async with Host([scripted("h")], timeouts=FAR) as host:
        await host.before_tool(asking(fork))
        line = await board.line("child")
        assert line.alive
    await line.dead()


async def test_P10_a_child_of_the_same_group_does_not_outlive_a_crash(board):
    fork = ["fork", [["ignore", "SIGTERM"], board.call("child"), HANG]]
    async with Host([scripted("h", restart=ONCE)], timeouts=FAR) as host:
        await error_of(host, fork, ["exit", 1])
        await (await board.line("child")).dead()


async def test_P14_a_hook_outlives_the_thread_that_started_it(board):
    with Host.blocking([scripted("h", board.call("h"), SERVE)], timeouts=FAR) as host:
        thread = threading.Thread(target=lambda: host.mount(scripted("later", board.call("later"), SERVE)))
        thread.start()
        line = await board.line("later")
        await anyio.to_thread.run_sync(thread.join)
        assert [entry.error for entry in host.before_tool(asking()).trail] == [None, None]
        assert line.alive
    await line.dead()


async def test_P15_a_process_that_has_ended_is_not_signalled_any_more(board, monkeypatch):
    async with Host([scripted("h", board.call("h"), SERVE, restart=ONCE)], timeouts=FAR) as host:
        process = host._mounted.by_name["h"].hook._child
        await error_of(host, ["exit", 0])
        await process.exited.wait()
        monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("a signal to whoever has that number now"))
        process._process.signal(signal.SIGTERM)
        host.restart("h")


async def test_P16_the_embedders_own_children_keep_their_exit_codes():
    async with Host([scripted("h")], timeouts=FAR) as host:
        own = os.spawnv(os.P_NOWAIT, "/bin/sh", ["sh", "-c", "exit 5"])
        await error_of(host, ["exit", 1])
        await host.before_tool(asking())  # by the next process: the first one was reaped
        assert os.waitpid(own, 0) == (own, 5 << 8)


async def test_P16_a_handler_of_sigchld_is_left_alone():
    seen = []
    before = signal.signal(signal.SIGCHLD, lambda number, _: seen.append(number))
    try:
        handler = signal.getsignal(signal.SIGCHLD)
        async with Host([scripted("h", restart=ONCE)], timeouts=FAR) as host:
            assert await error_of(host, ["exit", 4]) == "it exited with code 4"
            assert signal.getsignal(signal.SIGCHLD) is handler
        assert seen
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("seen_by", ["pidfd", "thread"])
async def test_an_embedder_that_ignores_sigchld_still_sees_its_hooks_end(board, monkeypatch, seen_by):
    if seen_by == "thread":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    contain = {"contain": "group"} if seen_by == "thread" else {}
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with Host([scripted("h", board.call("h"), SERVE, restart=ONCE, **contain)], timeouts=FAR) as host:
            line = await board.line("h")
            assert "it exited with code" in await error_of(host, ["exit", 4])  # which one, nobody can say
            await line.dead()
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("contain", ["group"])
async def test_without_pidfd_a_thread_sees_the_end_and_leaves_the_process_to_be_reaped(board, monkeypatch, contain):
    monkeypatch.delattr(os, "pidfd_open", raising=False)

    def waiting():
        return [thread for thread in threading.enumerate() if thread.name.startswith("picohook wait")]

    async with Host([scripted("h", board.call("h"), SERVE, contain=contain)], timeouts=FAR) as host:
        assert waiting()
        assert await error_of(host, ["say", "old way"], ["exit", 4]) == "it exited with code 4; it said: old way"
        assert (await host.before_tool(asking())).trail[0].error is None
        await (await board.line("h")).dead()
        second = await board.line("h")
    await second.dead()
    with anyio.fail_after(30):
        while waiting():  # a thread is not there any more some moments after its last act
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("contain", ["group"])
async def test_without_pidfd_and_without_threads_the_start_is_postponed_and_nothing_leaks(
    journal, monkeypatch, contain
):
    monkeypatch.delattr(os, "pidfd_open", raising=False)

    def full(self):
        raise RuntimeError("can't start new thread")

    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        async with Host([scripted("h", contain=contain)], timeouts=FAR, logger=journal) as host:
            assert only(host).state == "restarting"
            assert "can't start new thread" in only(host).last_error
    assert descriptors() == before
    assert not children()


@pytest.mark.parametrize("contain", ["group"])
async def test_if_no_descriptor_is_left_for_a_pidfd_no_process_stays(journal, monkeypatch, contain):
    def full(pid):
        raise OSError(errno.EMFILE, "Too many open files")

    before = descriptors()
    monkeypatch.setattr(os, "pidfd_open", full, raising=False)
    async with Host([scripted("h", contain=contain)], timeouts=FAR, logger=journal) as host:
        assert only(host).state == "restarting"
    assert descriptors() == before
    assert not children()


PROGRAM = """
    import asyncio, gc, sys
    sys.path[:0] = {path!r}
    from picohook import Host
    from scripted import HELLO, HANG, Line, scripted

    async def leave():
        steps = ["call", {port!r}, "h"], HELLO, ["ignore", "SIGTERM"], HANG
        host = Host([scripted("h", *steps, grace=0.1, contain={contain!r})])
        await host.__aenter__()
        return host

    {body}
"""
ABANDONED = {
    "the_loop_is_closed_and_forgotten": """
    loop = asyncio.new_event_loop()
    host = loop.run_until_complete(leave())
    loop.close()
    del host, loop
    gc.collect()
    sys.stdin.readline()
    """,
    "the_loop_is_closed_and_the_program_ends": """
    loop = asyncio.new_event_loop()
    host = loop.run_until_complete(leave())
    loop.close()
    """,
    "asyncio_run_ends_without_close": """
    asyncio.run(leave())
    sys.stdin.readline()
    """,
    "the_program_ends_in_the_loop": """
    async def main():
        await leave()
        sys.exit(0)
    asyncio.run(main())
    """,
}


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
@pytest.mark.parametrize("how", ABANDONED)
@pytest.mark.parametrize("contain", ["best", "group"])
async def test_C2_a_host_that_is_never_closed_leaves_no_process(how, board, contain):
    path = [str(Path(picohook.__file__).parents[1]), str(Path(__file__).parents[1] / "helpers")]
    program = textwrap.dedent(PROGRAM).format(
        path=path, port=board.call("")[1], contain=contain, body=textwrap.dedent(ABANDONED[how])
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            line = await board.line("h")
            await line.dead()
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False})])
@pytest.mark.parametrize("contain", ["best", "group"])
async def test_C2_a_forked_copy_of_the_embedder_ends_no_hook_when_it_ends(board, contain):
    path = [str(Path(picohook.__file__).parents[1]), str(Path(__file__).parents[1] / "helpers")]
    body = """
    async def main():
        import atexit, os
        async with Host([scripted("h", ["call", {port!r}, "h"], ["serve"], contain={contain!r})]) as host:
            if os.fork() == 0:
                atexit._run_exitfuncs()
                os._exit(0)
            os.wait()
            outcome = await host.before_tool({{"tool": "x"}})
            print(outcome.trail[0].error)
    asyncio.run(main())
    """
    program = textwrap.dedent(PROGRAM).format(
        path=path,
        port=board.call("")[1],
        contain=contain,
        body=textwrap.dedent(body).format(port=board.call("")[1], contain=contain),
    )
    done = await anyio.run_process([sys.executable, "-c", program], check=False, stdin=subprocess.DEVNULL)
    assert done.stdout.decode().strip().endswith("None")


@pytest.mark.parametrize("contain", ["group"])
async def test_a_process_that_survives_sigkill_is_reported_and_blocks_nothing_for_ever(
    board, journal, monkeypatch, contain
):
    """As one does that is stuck in the kernel: here, because no signal is sent. When it ends after all, it is reaped."""
    spec = scripted("h", HELLO, board.call("h"), HANG, grace=0.05, contain=contain)
    host = Host([spec], timeouts=FAR, logger=journal)
    before = descriptors()
    async with host:
        line = await board.line("h")
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", lambda *_: None)
            patch.setattr(kill, "KILL_WAIT", 0.05)
            await host.aclose()
        assert len(journal.all("survived SIGKILL: it is stuck in the kernel", pid=line.pid)) == 1
        assert line.alive
        os.kill(line.pid, signal.SIGKILL)
        await line.dead()
        await host._mounted.by_name["h"].hook._child.exited.wait()
    assert not children()
    line.close()
    assert descriptors() == before
