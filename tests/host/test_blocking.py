"""The host of synchronous programs: from any thread, and interrupted at any moment."""

from __future__ import annotations

import ast
import inspect
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import needs
import pytest
from scripted import HANG, HELLO, SERVE, Journal, children, descriptors, scripted
from stubs import BLOCKING, stub

import picohook
from picohook import (
    AbortTurn,
    AbortTurnError,
    BlockingHost,
    ConfigError,
    FunctionHook,
    HookCrashedError,
    Host,
    Modify,
    PicohookError,
    Retry,
    Skip,
    Timeouts,
    ToolCall,
)

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60, observer=60)
STAGES = ("before_llm", "after_llm", "before_tool", "approve_tool", "after_tool")


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


def test_every_method_works_without_await(board):
    seen = []
    hooks = [scripted("h", board.call("h"), SERVE, stages=STAGES), FunctionHook("f", on_event=seen.append)]
    with Host.blocking(hooks, timeouts=FAR) as host:
        assert host.before_llm({"model": "m"}).action == "continue"
        assert host.after_llm({"response": {"content": "x"}}).action == "continue"
        assert host.before_tool(asking(nonce=1)).payload.arguments == {"echo": 1}
        assert host.approve_tool(asking()).approved
        assert host.after_tool({"tool": "x", "result": {"for_llm": "y"}}).action == "continue"
        assert host.run_tool(asking(), lambda call: threading.current_thread().name).for_llm != "MainThread"
        assert host.run_llm({"model": "m"}, lambda request: {"content": "hi"}).response == {"content": "hi"}
        host.emit("turn_start")
        host.mount(scripted("other"))
        host.restart("h")
        host.unmount("other")
        assert host.before_tool(asking()).trail[0].error is None
        assert [status.state for status in host.status().hooks] == ["ready", "ready"]
    assert not children()
    assert {event.kind for event in seen} >= {"tool_exec_start", "llm_request", "turn_start"}


def test_each_coroutine_method_of_a_host_is_a_method_of_the_blocking_host():
    theirs = {name for name in dir(Host) if inspect.iscoroutinefunction(getattr(Host, name)) and name[0] != "_"}
    assert theirs - {"aclose"} <= vars(BlockingHost).keys()


@needs.other_rooms
def test_type_checkers_see_the_signatures_of_the_host():
    assert declared(BLOCKING.read_text()) == declared(stub()), "`make stub` writes the file anew"


def declared(text):
    """The imported names and the methods of a stub, whatever its lines look like."""
    *imports, methods = ast.parse(text).body
    return {(one.module, one.level, name.name) for one in imports for name in one.names}, ast.dump(methods)


def test_the_further_stages_without_await():
    def prompt(prompt):
        return Modify({"prompt": prompt.prompt.upper()})

    hooks = {
        "before_prompt": prompt,
        "before_finish": lambda _: Retry("go on"),
        "before_compact": lambda _: Skip("not now"),
        "after_compact": lambda compaction: Modify({"messages": compaction.messages[-1:]}),
    }
    messages = [{"role": "user", "content": text} for text in "ab"]
    with Host.blocking([FunctionHook("f", hooks)]) as host:
        assert host.before_prompt({"prompt": "hi"}).payload.prompt == "HI"
        assert host.before_finish({"response": {"content": "done"}}).feedback == "go on"
        assert host.before_compact({"scope": "auto", "messages": messages}).reason == "not now"
        assert host.after_compact({"scope": "auto", "messages": messages}).payload.messages == messages[1:]


def test_an_event_can_be_waited_for_without_await():
    seen = []
    with Host.blocking([FunctionHook("f", on_event=seen.append)]) as host:
        host.emit_and_wait("turn_end", {"Status": "ok"})
        assert [event.kind for event in seen] == ["turn_end"]


def test_many_threads_at_once_neither_lose_nor_mix_up_answers():
    with Host.blocking([scripted("a"), scripted("b", stages=("approve_tool",))], timeouts=FAR) as host:

        def ask(nonce):
            assert host.approve_tool(asking()).approved
            return nonce, host.before_tool(asking(nonce=nonce)).payload.arguments["echo"]

        with ThreadPoolExecutor(20) as threads:
            answers = list(threads.map(ask, range(1000)))
    assert answers == [(nonce, nonce) for nonce in range(1000)]


def test_calls_of_several_threads_run_at_the_same_time(board):
    """The first waits in its hook for what the test does when the second one is done."""
    hooks = [scripted("slow", board.call("slow"), SERVE), scripted("quick", stages=("approve_tool",))]
    with Host.blocking(hooks, timeouts=FAR) as host, ThreadPoolExecutor(1) as threads:
        first = threads.submit(host.before_tool, asking(["tell", "asked"], ["wait"], nonce=1))
        slow = board.line_now("slow")
        assert slow.said_now() == "asked"
        assert host.approve_tool(asking()).approved
        slow.go_on()
        assert first.result(30).payload.arguments == {"echo": 1}


def test_hooks_are_served_while_a_tool_blocks(board):
    with Host.blocking([scripted("h", stages=("before_tool", "approve_tool"))], timeouts=FAR) as host:

        def execute(call):
            return str(host.approve_tool(asking()).approved)  # a tool may ask, too

        assert host.run_tool(asking(), execute).for_llm == "True"


@needs.other_rooms
def test_errors_come_through_as_they_are():
    hook = FunctionHook("f", {"before_tool": lambda _: AbortTurn(reason="stop")})
    before = descriptors()
    with pytest.raises(AbortTurnError, match="stop"), Host.blocking([hook], timeouts=FAR) as host:
        host.run_tool(asking(), print)
    with pytest.raises(LookupError, match="mine"), Host.blocking([scripted("h")], timeouts=FAR):
        raise LookupError("mine")
    with pytest.raises(HookCrashedError, match="is required"):
        Host.blocking([scripted("h", ["exit", 1], required=True)], timeouts=FAR).__enter__()
    with pytest.raises(ConfigError):
        Host.blocking("/no/such/picohook.toml")
    assert not children()
    assert descriptors() == before


def test_only_inside_its_block_and_only_once():
    host = Host.blocking([scripted("h")], timeouts=FAR)
    with pytest.raises(PicohookError, match="not running"):
        host.before_tool(asking())
    with host:
        assert host.before_tool(asking()).trail[0].error is None
        with pytest.raises(PicohookError, match="entered once"):
            host.__enter__()
    with pytest.raises(PicohookError, match="closed"):
        host.before_tool(asking())


def test_a_call_that_is_under_way_when_the_host_closes_fails_and_does_not_hang(board):
    journal = Journal()
    with ThreadPoolExecutor(1) as threads:
        with Host.blocking([scripted("h", board.call("h"), SERVE)], timeouts=FAR, logger=journal) as host:
            call = threads.submit(host.before_tool, asking(["tell", "asked"], ["silent"]))
            assert board.line_now("h").said_now() == "asked"
        assert call.result(30).trail[0].error == "it is being stopped"


PROGRAM = """
    import sys, threading
    sys.path[:0] = {path!r}
    from picohook import Host, Timeouts
    from scripted import HELLO, HANG, SERVE, children, scripted

    def tool(call):
        print("in the tool", file=sys.stderr, flush=True)
        threading.Event().wait()

    hook = scripted("h", ["call", {port!r}, "h"], {steps}, grace=0.1, stages=("before_tool", "approve_tool"))
    try:
        with Host.blocking([hook], timeouts=Timeouts(interceptor=600, approval=600, hello=600, chain=600)) as host:
            {body}
    except BaseException as error:
        print(type(error).__name__, len(children()))
"""
INTERRUPTED = {
    "in_a_call": ('HELLO, ["read"], ["tell", "now"], HANG', "host.before_tool({'tool': 'x'})"),
    "in_hello": ('["ignore", "SIGTERM"], ["tell", "now"], HANG', "pass"),
    "in_the_block": ('HELLO, ["tell", "now"], HANG', "threading.Event().wait()"),
    "in_a_tool": ('["serve", {"hook.approve_tool": {"approved": True}}]', "host.run_tool({'tool': 'x'}, tool)"),
    "while_it_closes": ('HELLO, ["ignore", "SIGTERM"], ["end_of_stdin"], ["tell", "now"], HANG', "pass"),
}


@pytest.mark.parametrize("when", INTERRUPTED)
@needs.other_rooms
def test_an_interrupt_at_any_moment_raises_keyboard_interrupt_and_leaves_no_process(when, board):
    steps, body = INTERRUPTED[when]
    path = [str(Path(picohook.__file__).parents[1]), str(Path(__file__).parents[1] / "helpers")]
    program = textwrap.dedent(PROGRAM).format(path=path, port=board.call("")[1], steps=steps, body=body)
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = board.line_now("h")
        if when == "in_a_tool":
            assert process.stderr.readline() == "in the tool\n"
        else:
            assert line.said_now() == "now"
        process.send_signal(signal.SIGINT)
        said, complaints = process.communicate(timeout=60)
    line.dead_now()
    assert said == "KeyboardInterrupt 0\n"
    assert "Traceback" not in complaints
    assert process.returncode == 0


def test_two_hosts_in_one_program_are_apart():
    with Host.blocking([scripted("h")], timeouts=FAR) as one:
        with Host.blocking([scripted("h", HELLO, ["read"], HANG, grace=0.1, timeout=0.05)], timeouts=FAR) as other:
            assert other.before_tool(asking()).trail[0].error is not None
        assert one.before_tool(asking()).trail[0].error is None
