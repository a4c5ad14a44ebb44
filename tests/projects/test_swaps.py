"""What was looked at is what decides, also where somebody puts another file in its place at the worst moment."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import threading
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from scripted import reads_files

from picohook import HookSpec, Host, LLMRequest, RestartPolicy, Timeouts, ToolCall
from picohook.contain.tiers import Containment
from picohook.errors import HookCrashedError
from picohook.observe.log import Log
from picohook.process.plan import ChangedError, plan
from picohook.process.runner import Runner
from picohook.process.spawn import ProcessServices
from picohook.process.threads import MOST_STUCK, FileThreads
from picohook.projects.layers import discover
from picohook.transport.event_loop import current_reactor
from picohook.wire.regular_files import identity

from .conftest import trust_all

pytestmark = pytest.mark.anyio

CALL = ToolCall(tool="bash")
FAR = Timeouts(interceptor=60, approval=60, hello=60)

HOOK = """
import json, sys
open("started", "a").write("{word} ")
for line in sys.stdin:
    request = json.loads(line)
    result = {{"ok": True}}
    if request["method"] != "hook.hello":
        open("asked", "a").write("{word} ")
        result = {{"action": "deny_tool", "reason": "{word}"}}
    print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}), flush=True)
"""
GOOD, EVIL = HOOK.format(word="good"), HOOK.format(word="evil")


class Swaps:
    """A host's `verify` with somebody beside it: what is to happen after each look, and before it."""

    def __init__(self, verify):
        self.verify = verify
        self.looks = 0
        self.before = {}
        self.after = {}

    def __call__(self, spec):
        self.looks += 1
        self.before.get(self.looks, _nothing)()
        seen = self.verify(spec)
        self.after.get(self.looks, _nothing)()
        return seen


def _nothing():
    pass


@pytest.fixture
def swaps(project):
    """A trusted project with a hook, another file that waits to take its place, and the host's look at both."""
    project.write("gate.py", GOOD)
    project.write("evil.py", EVIL)
    project.write("picohook.toml", _toml(command=[sys.executable, "gate.py"]))
    return project


def _toml(**settings):
    return "[hooks.gate]\nstages = ['before_tool']\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in settings.items())


def swap(project, one="gate.py", other="evil.py"):
    """Both are there afterwards, each under the other's name, and with the same content and times as before."""
    first, second, aside = project.path / one, project.path / other, project.path / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def watched(project, **changes):
    trust_all(project)
    layers = discover(project.path)
    seen = Swaps(layers.verify)
    hooks = [hook.model_copy(update=changes) for hook in layers.hooks]
    return seen, Host(hooks, verify=seen, timeouts=FAR)


def said(project, name):
    path = project.path / name
    return path.read_text().split() if path.exists() else []


async def test_X4_a_script_that_is_swapped_between_the_look_and_the_start_is_asked_nothing(swaps):
    seen, host = watched(swaps)
    seen.after[1] = partial(swap, swaps)
    async with host:
        outcome = await host.before_tool(CALL)
        (status,) = host.status().hooks
    assert (outcome.action, status.state) == ("continue", "failed")
    assert "gate.py: changed since it was trusted" in outcome.trail[0].error
    assert (said(swaps, "started"), said(swaps, "asked")) == (["evil"], [])


async def test_X4_a_script_that_is_swapped_and_back_is_asked_nothing_and_the_right_one_is_started_again(swaps):
    seen, host = watched(swaps)
    seen.after[1] = seen.before[2] = partial(swap, swaps)
    async with host:
        outcome = await host.before_tool(CALL)
        assert (outcome.action, outcome.reason) == ("deny_tool", "good")
    assert (said(swaps, "started"), said(swaps, "asked")) == (["evil", "good"], ["good"])
    assert seen.looks == 4


async def test_X4_the_same_at_a_restart(swaps):
    seen, host = watched(swaps)
    async with host:
        assert (await host.before_tool(CALL)).reason == "good"
        seen.after[3] = seen.before[4] = partial(swap, swaps)
        host.restart("gate")
        assert (await host.before_tool(CALL)).reason == "good"
    assert (said(swaps, "started"), said(swaps, "asked")) == (["good", "evil", "good"], ["good", "good"])


async def test_X4_one_that_is_swapped_at_every_start_is_given_up_and_never_asked(swaps):
    seen, host = watched(swaps, restart=RestartPolicy(max_starts=3))
    seen.after = {2 * number + 1: partial(swap, swaps) for number in range(9)}
    seen.before = {2 * number: partial(swap, swaps) for number in range(1, 9)}
    async with host:
        outcome = await host.before_tool(CALL)
        (status,) = host.status().hooks
    assert "its files changed while it was being started" in outcome.trail[0].error
    assert status.state == "failed"
    assert (set(said(swaps, "started")), said(swaps, "asked")) == ({"evil"}, [])


@pytest.mark.parametrize("what", ["rewritten", "link", "directory"])
async def test_X6_a_file_that_replaces_a_script_is_never_asked(swaps, what):
    good, evil = swaps.path / "gate.py", swaps.path / "evil.py"

    def put():
        if what == "rewritten":
            good.write_text(EVIL)
        elif what == "link":
            good.unlink()
            good.symlink_to(evil)
        else:
            swap(swaps, "sub", "other")

    if what == "directory":
        for place, text in (("sub", GOOD), ("other", EVIL)):
            swaps.write(f"{place}/gate.py", text)
        swaps.write("picohook.toml", _toml(command=[sys.executable, "sub/gate.py"]))
    seen, host = watched(swaps)
    seen.after[1] = put
    async with host:
        outcome = await host.before_tool(CALL)
    assert outcome.trail[0].error is not None
    assert (said(swaps, "started"), said(swaps, "asked")) == (["evil"], [])


async def test_X4_a_shell_command_whose_script_is_swapped_does_not_decide(swaps):
    for name in ("good", "evil"):
        swaps.write(f"{name}.sh", f"""echo '{{"action": "deny_tool", "reason": "{name}"}}'\n""")
    swaps.write("picohook.toml", _toml(run="sh good.sh", on_failure="abort"))
    seen, host = watched(swaps)
    turn = partial(swap, swaps, "good.sh", "evil.sh")
    seen.after[1] = seen.before[2] = turn
    async with host:
        outcome = await host.before_tool(CALL)
        assert outcome.action == "abort_turn"
        assert "its files changed while it was being started" in outcome.trail[0].error
        assert (await host.before_tool(CALL)).reason == "good"


async def test_X4_a_function_whose_file_is_swapped_is_never_run(swaps):
    for name in ("good", "evil"):
        swaps.write(
            f"{name}.py", f"with open('started', 'a') as file:\n    file.write('{name} ')\ndef f(call):\n    pass\n"
        )
    swaps.write("picohook.toml", _toml(python="good:f"))
    turn = partial(swap, swaps, "good.py", "evil.py")
    for after in (turn, _nothing):
        seen, host = watched(swaps)
        seen.after[1] = seen.before[2] = after
        async with host:
            outcome = await host.before_tool(CALL)
            assert (outcome.trail[0].error is None) == (after is _nothing)
    assert said(swaps, "started") == ["good"]


SHELL_HOOK = """
while read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
    *hook.hello*) result='{"ok": true}' ;;
    *) result='{"action": "deny_tool", "reason": "good"}' ;;
  esac
  printf '{"jsonrpc": "2.0", "id": %s, "result": %s}\\n' "$id" "$result"
done
"""


@pytest.fixture
def compiled(swaps):
    """A project whose program is compiled: a shell of the system, under another name."""
    shutil.copy(os.path.realpath(shutil.which("sh")), swaps.path / "gate")
    with (swaps.path / "gate").open("rb") as file:
        if file.read(4) != b"\x7fELF":
            pytest.skip("the shell of this machine is not a compiled program")
    swaps.write("gate.sh", SHELL_HOOK)
    swaps.write("evil", "#!/bin/sh\necho evil >> started\n").chmod(0o755)
    return swaps


async def test_X4_a_compiled_program_that_is_swapped_after_the_look_never_runs(compiled):
    compiled.write("picohook.toml", _toml(command=["./gate", "gate.sh"]))
    seen, host = watched(compiled)
    seen.after[1] = seen.before[2] = partial(swap, compiled, "gate", "evil")
    async with host:
        assert (await host.before_tool(CALL)).reason == "good"
        assert seen.looks == 3  # the first found another program to start, and started none
    assert said(compiled, "started") == []


async def test_X4_a_compiled_program_that_is_swapped_while_it_is_started_does_not_stay(compiled):
    compiled.write("picohook.toml", _toml(command=["./gate", "gate.sh"]))
    seen, host = watched(compiled)
    seen.before[2] = partial(swap, compiled, "gate", "evil")
    async with host:
        with pytest.raises(HookCrashedError, match="gate: changed since it was trusted"), anyio.fail_after(60):
            await host._mounted.by_name["gate"].hook.ready(math.inf)
        assert host.status().hooks[0].state == "failed"
    assert said(compiled, "started") == []


@pytest.mark.parametrize("contain", ["group", "best"])
async def test_X4_P18_a_compiled_program_is_started_by_descriptor_whatever_its_path_means_by_then(compiled, contain):
    path = str(compiled.path / "gate")
    shown = "echo $0; for open in /proc/$$/fd/*; do readlink $open; done"
    spec = HookSpec(name="gate", command=(path, "-c", shown), dir=str(compiled.path), contain=contain)
    planned = plan(spec, os.environ, {path: identity(os.stat(path))})
    swap(compiled, "gate", "evil")
    reactor, log = current_reactor(), Log(None)
    containment = Containment(reactor, log)
    try:
        deadline = reactor.now() + 60
        host = ProcessServices(reactor, log, Timeouts(), containment)
        done = await Runner(spec, host).run_once(planned, b"", deadline)
        tier = containment.tier
    finally:
        planned.close()
        await containment.aclose()
    name, *descriptors = done.stdout.decode().splitlines()
    assert name == path
    assert said(compiled, "started") == []
    # Where a launcher starts it, not even the descriptor of the program stays open.
    assert len([to for to in descriptors if str(compiled.path) in to]) == (1 if tier == "group" else 0)


async def test_X4_a_compiled_program_that_changed_since_the_look_is_not_planned(compiled):
    path = compiled.path / "gate"
    seen = {str(path): identity(path.stat())}
    swap(compiled, "gate", "evil")
    with pytest.raises(ChangedError):
        plan(HookSpec(name="gate", command=(str(path),), dir=str(compiled.path)), os.environ, seen)


# Nothing on the event loop waits for a file.


async def test_a_program_that_is_a_named_pipe_is_an_error_and_blocks_nothing(project):
    os.mkfifo(project.path / "x", 0o755)
    bad = HookSpec(name="bad", command=("./x",), stages=("before_tool",), dir=str(project.path))
    project.write("gate.py", GOOD)
    good = HookSpec(name="good", command=(sys.executable, "gate.py"), stages=("before_tool",), dir=str(project.path))
    async with Host([bad, good], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
    assert "x is neither a program nor a script: it is not a regular file" in outcome.trail[0].error
    assert outcome.reason == "good"


async def test_a_program_that_becomes_a_named_pipe_is_an_error_at_the_restart(project):
    script = project.write("gate", f"#!{sys.executable}\n{GOOD}")
    script.chmod(0o755)
    spec = HookSpec(name="gate", command=("./gate",), stages=("before_tool",), dir=str(project.path))
    async with Host([spec], timeouts=FAR) as host:
        assert (await host.before_tool(CALL)).reason == "good"
        script.unlink()
        os.mkfifo(script, 0o755)
        host.restart("gate")
        assert "it is not a regular file" in (await host.before_tool(CALL)).trail[0].error


@pytest.mark.parametrize("kind", ["command", "run"])
async def test_a_file_system_that_does_not_answer_blocks_one_hook_only(project, kind):
    project.write("gate.py", GOOD)
    command = {"command": (sys.executable, "gate.py")} if kind == "command" else {"run": "true"}
    stuck = HookSpec(name="stuck", stages=("before_llm",), dir=str(project.path), timeout=0.05, **command)
    good = HookSpec(name="good", command=(sys.executable, "gate.py"), stages=("before_tool",), dir=str(project.path))
    released = threading.Event()

    def verify(spec):
        if spec.name == "stuck":
            released.wait()

    try:
        async with Host([good], timeouts=FAR, verify=verify) as host, anyio.create_task_group() as tasks:
            tasks.start_soon(host.mount, stuck)
            await anyio.wait_all_tasks_blocked()
            outcome = await host.before_llm(LLMRequest())
            assert outcome.trail[0].error is not None
            assert (await host.before_tool(CALL)).reason == "good"
            tasks.cancel_scope.cancel()
    finally:
        released.set()


async def test_files_that_stay_stuck_take_a_bounded_number_of_threads():
    released = threading.Event()
    threads, reactor = FileThreads(), current_reactor()
    try:
        for _ in range(MOST_STUCK):
            begun = threading.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(threads.run, lambda begun=begun: (begun.set(), released.wait()), reactor.now() + 60)
                await anyio.to_thread.run_sync(begun.wait)
                tasks.cancel_scope.cancel()
        assert reads_files()
        with pytest.raises(TimeoutError):
            await threads.run(pytest.fail, reactor.now() + 60)
    finally:
        released.set()
    while threads._threads.stuck:
        await anyio.lowlevel.checkpoint()
    assert await threads.run(lambda: "done", reactor.now() + 60) == "done"
