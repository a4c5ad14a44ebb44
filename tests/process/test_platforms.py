"""A host without the ways of Linux, as on macOS; and Windows, which is refused."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from importlib.util import find_spec

import needs
import pytest
from scripted import SERVE, children, descriptors, scripted

from picohook import HookSpec, Host, RestartPolicy, Timeouts, ToolCall
from picohook.process.plan import plan
from picohook.transport import pipe
from picohook.wire import platforms
from picohook.wire.regular_files import identity

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)


@pytest.fixture(params=["waitid", "no waitid"])
def without_linux(request, monkeypatch):
    monkeypatch.setattr(platforms, "LINUX", False)
    if find_spec("picohook.contain"):
        monkeypatch.setattr("picohook.contain.tiers.Containment._lacking", {})
    if request.param == "no waitid":  # macOS before Python 3.13
        monkeypatch.delattr(os, "waitid")


def asking(*steps, **more):
    return ToolCall(tool="bash", arguments={"do": list(steps), **more})


def waiting_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("picohook wait")]


@needs.other_rooms
@pytest.mark.anyio
@pytest.mark.usefixtures("without_linux")
async def test_without_linux_features_a_host_serves_restarts_and_ends(board, journal):
    before = descriptors()
    hooks = [
        scripted("h", board.call("h"), SERVE, contain="best", restart=RestartPolicy(max_starts=5)),
        scripted("yes", contain="best", stages=("approve_tool",)),
    ]
    async with Host(hooks, timeouts=FAR, logger=journal) as host:
        line = await board.line("h")
        assert host.status().containment == "group"
        assert host.status().containment_lacks == {"namespace": "only Linux has it", "sweep": "only Linux has it"}
        assert len(waiting_threads()) == 2
        long = "x" * 300_000  # longer than a pipe, which is not widened here
        assert (await host.before_tool(asking(text=long, nonce=1))).payload.arguments == {"echo": 1}
        assert not pipe._wide
        assert (await host.approve_tool(asking())).approved
        failed = (await host.before_tool(asking(["exit", 3]))).trail[0]
        assert "it exited with code 3" in failed.error
        await line.dead()
        line.close()
        line = await board.line("h")
        assert (await host.before_tool(asking(nonce=2))).payload.arguments == {"echo": 2}
        assert line.alive
    await line.dead()
    line.close()
    assert not children()
    assert descriptors() == before


def test_a_process_is_ending_from_its_exit_until_nothing_is_known_of_it(monkeypatch):
    assert not platforms.is_ending(os.getpid())
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert platforms.is_ending(process.pid)
    assert platforms.is_ending(process.pid)
    monkeypatch.setattr(platforms, "LINUX", False)
    assert platforms.is_ending(os.getpid())


def test_a_program_is_opened_to_be_started_by_descriptor_on_linux_alone(monkeypatch):
    path = os.path.realpath("/bin/sh")
    seen = {path: identity(os.stat(path))}
    spec = HookSpec(name="h", command=(path,), stages=("before_tool",))
    for linux, by_descriptor in ((True, True), (False, False)):
        monkeypatch.setattr(platforms, "LINUX", linux)
        planned = plan(spec, os.environ, seen)
        assert (planned.program is not None) is by_descriptor
        assert planned.argv == (path,)
        planned.close()


@needs.other_rooms
def test_windows_is_refused_in_one_sentence_when_a_host_is_imported():
    program = """
import sys, types
from picohook.wire import platforms
platforms.os = types.SimpleNamespace(name="nt")
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
import picohook.sdk
try:
    from picohook import Host
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{platforms.WINDOWS_REFUSED}\n"
    assert "\n" not in platforms.WINDOWS_REFUSED
    assert "WSL" in platforms.WINDOWS_REFUSED


def test_the_transport_refuses_windows_and_takes_any_posix_system(monkeypatch):
    import picohook.transport

    importlib.reload(picohook.transport)
    monkeypatch.setattr(platforms.os, "name", "nt")
    with pytest.raises(ImportError, match="Linux and macOS only"):
        platforms.require_posix()
