"""What containment costs those around it: nothing. And what happens where it is not available."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from grounds import AS_SOMEBODY, CONTAIN, ONE_LOOP, SOMEBODY, Ground, Held, Hosting, as_user, lacking, means_for, stray
from hosting import family
from scripted import HELLO, PATIENCE, SERVE, children, descriptors

from picohook import HookCrashedError, HookSpec, Host, RestartPolicy, Timeouts, ToolCall
from picohook.contain.tiers import Containment
from picohook.observe.log import Log
from picohook.process.plan import Plan
from picohook.transport.event_loop import current_reactor

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60)
CALL = ToolCall(tool="bash", arguments={})


def true(contain):
    return Plan(("/bin/true",), {}, None, contain=contain)


async def end_of(process):
    ended = anyio.Event()
    process.when_ended(ended.set)
    with anyio.fail_after(PATIENCE):
        await ended.wait()


def only(host):
    (status,) = host.status().hooks
    return status


@pytest.fixture
def nothing_is_known(monkeypatch):
    """As if no host had tried yet what there is."""
    monkeypatch.setattr(Containment, "_lacking", {})


async def test_after_30_restarts_descriptors_threads_and_zombies_are_what_they_were(tier, board, journal):
    daemon = ["daemon", [board.call("daemon"), ["hang"]]]
    hook = stray("h", daemon, ["serve"], contain=CONTAIN[tier], restart=RestartPolicy(max_starts=100), grace=0.05)
    async with Host([hook], timeouts=FAR, logger=journal) as host:
        (launcher,) = host._mounted.containment._launchers
        await host.before_tool(CALL)

        def standing():
            own = descriptors() - len(board._lines)
            return own, children(), len(os.listdir(f"/proc/{launcher.pid}/fd"))

        def threads():  # those that an event loop keeps for a while come and go
            return {thread for thread in threading.enumerate() if not thread.name.startswith(("AnyIO", "Trio"))}

        before, threads_before, lines = standing(), threads(), []
        for time in range(2, 32):
            lines.append(await board.line("daemon"))
            host.restart("h")
            await journal.seen("ready", times=time)
            await host.before_tool(CALL)
        assert standing() == before
        assert threads() <= threads_before
        assert not any(line.alive for line in lines)
        assert not launcher.processes.keys() - {next(launcher._ids) - 1}


async def test_commands_that_end_at_once_do_not_end_the_launcher(tier):
    """They may have ended before the launcher has told the host that they started."""
    hook = HookSpec(name="h", run="echo '{}'", stages=("before_tool",), contain=CONTAIN[tier])
    async with Host([hook], timeouts=FAR) as host:

        async def ask():
            for _ in range(25):
                (entry,) = (await host.before_tool(CALL)).trail
                assert entry.error is None

        await host.before_tool(CALL)
        (launcher,) = host._mounted.containment._launchers
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(ask)
        assert host._mounted.containment._launchers == [launcher]


async def test_for_a_whole_host_it_takes_less_than_15_mb_of_memory(tier, board):
    hooks = [stray(name, board.call(name), SERVE, contain=CONTAIN[tier]) for name in ("one", "two")]
    async with Host(hooks, timeouts=FAR):
        pids = {(await board.line(name)).pid for name in ("one", "two")}
        launcher = set(family()) - {os.getpid(), *pids}
        assert len(launcher) == 3  # with a keeper for each hook
        assert 0 < sum(map(own_memory, launcher)) < 15_000_000


def own_memory(pid):
    """Bytes that a process has, those that it shares with others by its share."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss: +(\d+) kB", rollup, re.MULTILINE)[1]) * 1024


async def test_the_embedders_own_children_are_not_touched(tier, board):
    """Not signalled, not reaped: whatever becomes of the hooks and of the launcher."""
    with subprocess.Popen(["/bin/sh", "-c", "read line; exit 5"], stdin=subprocess.PIPE) as own:
        async with Host([stray("h", contain=CONTAIN[tier])], timeouts=FAR) as host:
            (launcher,) = host._mounted.containment._launchers
            os.kill(launcher.pid, signal.SIGKILL)
            host.restart("h")
            await host.before_tool(CALL)
        assert own.poll() is None
        own.stdin.close()
        assert own.wait() == 5


async def test_a_handler_for_sigchld_is_left_alone(tier):
    seen = []
    before = signal.signal(signal.SIGCHLD, lambda number, _: seen.append(number))
    try:
        handler = signal.getsignal(signal.SIGCHLD)
        async with Host([stray("h", contain=CONTAIN[tier])], timeouts=FAR) as host:
            await host.before_tool(CALL)
            assert not seen  # of a hook's end it would see nothing either: it is the launcher's child
        assert seen  # that one is its own
        assert signal.getsignal(signal.SIGCHLD) is handler
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_an_embedder_that_reaps_every_child_and_one_that_ignores_them_lose_nothing(tier, board):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with Host([stray("h", board.call("h"), ["serve"], contain=CONTAIN[tier])], timeouts=FAR) as host:
            line = await board.line("h")
            do = ToolCall(tool="bash", arguments={"do": [["exit", 4]]})
            assert (await host.before_tool(do)).trail[0].error == "it exited with code 4"
            await line.dead()
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_a_hook_inherits_neither_blocked_nor_ignored_signals_of_pythons(tier, board):
    """SIGPIPE and SIGXFSZ, which Python ignores; and what a thread of the host blocks."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with Held() as pipe:
            held = Containment(current_reactor(), Log())
            plan = Plan(("/bin/grep", "Sig[BI]", "/proc/self/status"), {}, None, contain=CONTAIN[tier])
            await held.spawn(plan, pipe.streams, anyio.current_time() + 60)
            said = (await pipe.said(1)).decode()
        await held.aclose()
        await pipe.ended()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    blocked, ignored = (int(line.split()[1], 16) for line in said.splitlines()[:2])
    assert not blocked
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1 | 1 << signal.SIGCHLD - 1)


SEEN = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/task/*/environ; ls -l /proc/1/fd; echo end"


async def test_X15_no_process_in_sight_of_a_hook_has_the_hosts_environment(tmp_path, monkeypatch):
    if why := lacking("namespace"):
        pytest.skip(why)
    monkeypatch.setenv("TOKEN_OF_HOST", "hunter2")
    said, ended = tmp_path / "said", anyio.Event()
    plan = Plan(("/bin/sh", "-c", f"({SEEN}) >{said} 2>&1"), {}, None, contain="required")
    with Held() as pipe:
        held = Containment(current_reactor(), Log())
        process = await held.spawn(plan, pipe.streams, anyio.current_time() + 60)
        process.when_ended(ended.set)
        with anyio.fail_after(PATIENCE):
            await ended.wait()
        await held.aclose()
    text = said.read_bytes()
    assert text.endswith(b"end\n")
    assert b"launcher_program" in text  # the command of the first process of the namespace
    assert not [name for name in ("TOKEN_OF_HOST", "hunter2", "HOME=", "VIRTUAL_ENV") if name.encode() in text]


async def test_X15_the_first_process_has_nothing_of_other_hooks_in_its_memory(tmp_path):
    """A hook with the rights of root may read it."""
    if why := lacking("namespace"):
        pytest.skip(why)
    said = tmp_path / "said"
    held = Containment(current_reactor(), Log())
    for argv, env in (
        (("/bin/true",), {"TOKEN_OF_OTHER": "".join(reversed("2retnuh"))}),
        ((sys.executable, "-IS", "-c", LOOK, str(said), "2retnuh"), {}),
    ):
        with Held() as pipe:
            process = await held.spawn(
                Plan(argv, env, None, contain="required"), pipe.streams, anyio.current_time() + 60
            )
            await end_of(process)
    await held.aclose()
    if said.read_text() == "not allowed":
        pytest.skip("hooks of this user may not read the memory of their first process")
    assert said.read_text() == "read, and found 0"


LOOK = """
import re, sys
said, word = sys.argv[1], sys.argv[2][::-1].encode()
found = size = 0
try:
    with open("/proc/1/maps") as maps, open("/proc/1/mem", "rb", 0) as memory:
        for start, end in re.findall("(?m)^([0-9a-f]+)-([0-9a-f]+) rw", maps.read()):
            memory.seek(int(start, 16))
            part = memory.read(int(end, 16) - int(start, 16))
            found += part.count(word)
            size += len(part)
    how = f"read, and found {found}" if size else "empty"
except PermissionError:
    how = "not allowed"
with open(said, "w") as file:
    file.write(how)
"""


async def test_without_a_directory_of_its_own_a_hook_starts_where_the_host_is_by_then(tier, tmp_path, monkeypatch):
    held = Containment(current_reactor(), Log())
    for name in ("first", "second", "gone"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        if name == "gone":
            (tmp_path / name).rmdir()
        with Held() as pipe:
            plan = Plan(("/bin/pwd",), {}, None, contain=CONTAIN[tier])
            await held.spawn(plan, pipe.streams, anyio.current_time() + 60)
            # Where that is gone, it starts where the launcher did.
            assert (await pipe.said(1)).decode().strip() == str(tmp_path / ("first" if name == "gone" else name))
        await pipe.ended()
    await held.aclose()


async def test_the_status_has_the_hosts_pid_of_a_hook_and_its_own_proc_has_its_inner_pid(board):
    if why := lacking("namespace"):
        pytest.skip(why)
    async with Host(
        [stray("h", board.call("h"), ["tell_session"], ["serve"], contain="required")], timeouts=FAR
    ) as host:
        line = await board.line("h")
        inner = int((await line.said()).strip("[").split(",")[0])
        assert only(host).pid == line.pid != inner
        with open(f"/proc/{line.pid}/status") as file:
            assert f"NSpid:\t{line.pid}\t{inner}\n" in file.read()
        assert os.path.samefile(f"/proc/{line.pid}/root/proc/{inner}/exe", sys.executable)


# Where it is not available.


async def test_a_hook_that_requires_it_does_not_start_without_it_and_says_why(monkeypatch, journal):
    monkeypatch.setattr(Containment, "_lacking", {"namespace": "unshare: Operation not permitted"})
    hooks = [stray("strict", contain="required"), stray("easy")]
    async with Host(hooks, timeouts=FAR, logger=journal) as host:
        strict, easy = host.status().hooks
        assert (strict.state, strict.starts, easy.state) == ("failed", 0, "ready")
        assert (
            "cannot be started: this machine cannot provide the containment it asks for: "
            "namespace: unshare: Operation not permitted"
        ) in strict.last_error
        assert easy.containment == host.status().containment != "namespace"
        assert host.status().containment_lacks["namespace"] == "unshare: Operation not permitted"
        outcome = await host.before_tool(CALL)
        assert [entry.error is None for entry in outcome.trail] in ([False, True], [True, False])


async def test_a_launcher_that_cannot_provide_its_tier_says_so_once_and_the_next_best_is_used(
    monkeypatch, journal, nothing_is_known
):
    if why := lacking("sweep"):
        pytest.skip(why)
    monkeypatch.setattr("picohook.contain.launcher_start.PROGRAM", NO_NAMESPACE)
    for times in (1, 1):  # by the second host it is known
        async with Host([stray("a"), stray("b")], timeouts=FAR, logger=journal) as host:
            assert host.status().containment == "sweep"
            assert host.status().containment_lacks == {"namespace": "unshare: Operation not permitted"}
        assert len(journal.all("this machine cannot provide a tier of containment", tier="namespace")) == times
    assert not children()


NO_NAMESPACE = """
import sys; sys.path.append(sys.argv[3])
from contain import launcher_program, namespace, syscalls
unshare = namespace.libc
def libc(name, *arguments):
    if name == "unshare":
        raise PermissionError(1, "unshare: Operation not permitted")
    unshare(name, *arguments)
namespace.libc = syscalls.libc = libc
launcher_program.main()
"""


@pytest.mark.parametrize(
    "program",
    ["import no_such_module", "import os; os.kill(os.getpid(), 9)", "import time; time.sleep(1000)"],
    ids=["broken", "killed", "stuck"],
)
async def test_without_a_launcher_the_process_group_is_used(program, monkeypatch, journal, nothing_is_known):
    monkeypatch.setattr("picohook.contain.launcher_start.PROGRAM", program)
    monkeypatch.setattr("picohook.contain.launcher.READY_WAIT", 0.1 if "sleep" in program else 30)
    before = descriptors()
    async with Host([stray("h")], timeouts=FAR, logger=journal) as host:
        assert (only(host).state, host.status().containment) == ("ready", "group")
        assert host.status().containment_lacks.keys() == {"namespace", "sweep"}
        assert (await host.before_tool(CALL)).trail[0].error is None
    assert len(journal.all("this machine cannot provide a tier of containment")) == 2
    assert Containment._lacking == {}  # the next host may have more luck
    assert descriptors() == before


@pytest.mark.parametrize("name", ["", "/opt/app/agent"], ids=["embedded", "frozen"])
async def test_a_program_that_is_not_python_is_not_started_as_python(name, monkeypatch, nothing_is_known):
    monkeypatch.setattr(sys, "executable", name)
    held = Containment(current_reactor(), Log())
    assert (await held._spawner(("namespace", "sweep", "group"), anyio.current_time() + 60))[0] == "group"
    assert "this program is not one" in held.unable["sweep"]
    await held.aclose()


@pytest.mark.parametrize("contain", ["best", "required", "sweep", "group"])
async def test_each_setting_chooses_its_tier(contain):
    held = Containment(current_reactor(), Log())
    allowed = {"best": ["namespace", "sweep", "group"], "required": ["namespace"]}.get(contain, [contain])
    there = [tier for tier in allowed if not lacking(tier)]
    with Held() as pipe:
        if there:
            process = await held.spawn(true(contain), pipe.streams, anyio.current_time() + 60)
            assert process.tier == held.tier == there[0]
            await end_of(process)
        else:
            with pytest.raises(ValueError, match="not to be had"):
                await held.spawn(true(contain), pipe.streams, anyio.current_time() + 60)
    await held.aclose()
    await pipe.ended()


async def test_the_status_of_a_host_is_the_least_of_its_hooks(board):
    async with Host(timeouts=FAR) as host:
        assert host.status().containment == "none"
        seen = []
        for name in ("required", "sweep", "group", "best"):
            if name in {"best", "group"} or not lacking("namespace" if name == "required" else name):
                await host.mount(stray(name, contain=name))
                seen.append(host.status().containment)
        assert seen[-1] == seen[-2] == "group"
        assert {hook.name: hook.containment for hook in host.status().hooks}["group"] == "group"
        wire = host.status().wire()
        assert wire["containment"] == "group"
        assert all("containment" in hook for hook in wire["hooks"])
    assert only_none(host)


def only_none(host):
    return {hook.containment for hook in host.status().hooks} == {None}


# What cannot be started.


@pytest.mark.parametrize("tier", ["namespace", "sweep", "group"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"argv": ("/no/such/program",)}, "No such file or directory"),
        ({"argv": ("/",)}, "Permission denied"),
        ({"argv": ("/bin/true", "x" * 3_000_000)}, "Argument list too long"),
        ({"argv": ("/bin/true", "a\0b")}, "embedded null byte"),
        ({"env": {"A": "a\0b"}}, "embedded null byte"),
        ({"env": {"a=b": "a"}}, "illegal environment variable name"),
        ({"argv": ("/bin/true", "\ud800")}, "surrogates not allowed"),
    ],
    ids=str,
)
async def test_S1_S3_a_failed_start_is_the_same_error_in_every_tier(tier, change, why):
    if reason := lacking(tier):
        pytest.skip(reason)
    settings = {"argv": ("/bin/true",), "env": {}, "cwd": None, "contain": CONTAIN[tier]} | change
    before = descriptors()
    held = Containment(current_reactor(), Log())
    with Held() as pipe, pytest.raises((OSError, ValueError), match=why):
        await held.spawn(Plan(**settings), pipe.streams, anyio.current_time() + 60)
    await pipe.ended()
    await held.aclose()
    assert descriptors() == before


@pytest.mark.parametrize(
    ("tier", "anyio_backend"),
    [
        ("namespace", ("asyncio", {"use_uvloop": False})),
        ("sweep", ("trio", {})),
        ("group", ("asyncio", {"use_uvloop": False})),
        ("group", ("trio", {})),
    ],
    ids=["namespace", "sweep", "group-asyncio", "group-trio"],
)
@AS_SOMEBODY
async def test_S8_out_of_processes_the_start_is_put_off_and_the_other_hooks_serve(tier, board, backend):
    """As somebody without rights: root may have as many as there are."""
    user = SOMEBODY if os.geteuid() == 0 else None
    if tier != "group" and (why := lacking(tier, user)):
        pytest.skip(why)
    hooks = [stray("one", board.call("one"), SERVE, stages=("after_tool",)), stray("two", board.call("two"), SERVE)]
    with Hosting(Ground(tier, user), "close", *hooks, backend=backend) as hosting:
        assert await hosting.said() == "ready"
        first = [await board.line(name) for name in ("one", "two")]
        assert await hosting.do("processes 1") == "limited"
        await hosting.do("restart one")
        await first[0].dead()
        with anyio.fail_after(PATIENCE):
            while "cannot be started now" not in str((await hosting.do("status"))[1]["one"]):
                pass
        assert await hosting.do("ask []") == [None]
        assert first[1].alive
        assert await hosting.do("processes") == "limited"
        assert (await board.line("one")).alive


CROWDED = """
import os, resource, socket, struct, sys, anyio
sys.path[:0] = [sys.argv[1]]
from picohook.contain.tiers import Containment
from picohook.observe.log import Log
from picohook.process.plan import Plan
from picohook.process.plan import TRANSIENT
from picohook.transport.event_loop import current_reactor

async def main():
    held = Containment(current_reactor(), Log())
    await held._spawner(("sweep",), anyio.current_time() + 60)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        while True:
            one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("40i", *[0] * 40))])
    except OSError:
        pass
    try:
        await held.spawn(Plan(("/bin/true",), os.environ, None, contain="sweep"), (0, 1, 2), anyio.current_time() + 60)
    except OSError as error:
        print(error.errno in TRANSIENT)
    await held.aclose()

anyio.run(main)
"""


@ONE_LOOP
@AS_SOMEBODY
async def test_S8_too_many_descriptors_on_their_way_put_a_start_off():
    """They are counted for a user without rights, in all programs."""
    user = SOMEBODY if os.geteuid() == 0 else None
    if why := lacking("sweep", user):
        pytest.skip(why)
    means = means_for(user)
    command = [means.python, "-c", CROWDED, str(means.root)]
    done = await anyio.run_process(command, env=means.environment, cwd=means.root, check=False, **as_user(user))
    assert done.stdout == b"True\n"


async def test_a_directory_that_may_not_be_entered_is_named(tmp_path):
    if why := lacking("sweep"):
        pytest.skip(why)
    (tmp_path / "file").touch()
    held = Containment(current_reactor(), Log())
    with Held() as pipe, pytest.raises(OSError, match="its directory: Not a directory"):
        await held.spawn(replace(true("sweep"), cwd=str(tmp_path / "file")), pipe.streams, anyio.current_time() + 60)
    await pipe.ended()
    await held.aclose()


async def test_P18_the_launcher_holds_no_descriptor_of_the_hosts_and_keeps_none_of_the_hooks(tier, board):
    leaky, other = os.pipe()
    os.set_inheritable(leaky, True)
    try:
        async with Host([stray(name, contain=CONTAIN[tier]) for name in "abc"], timeouts=FAR) as host:
            (launcher,) = host._mounted.containment._launchers
            held = {os.readlink(f"/proc/{launcher.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{launcher.pid}/fd")}
            kinds = sorted(name.split("[")[0].split(":")[0] for name in held)
            # /dev/null, pidfds of itself and of the host, two sockets that SIGCHLD wakes it by, and that to the host.
            assert kinds == sorted(["/dev/null", "anon_inode", "socket", "socket", "socket"]), held
            assert os.readlink(f"/proc/self/fd/{leaky}") not in held
    finally:
        os.close(leaky)
        os.close(other)


async def test_P1_an_exit_that_a_busy_machine_reports_late_is_still_an_exit(tier, board, monkeypatch):
    """Here the launcher is stopped, so that the end of the output is seen long before the end of the process."""
    monkeypatch.setattr("picohook.hooks.process.EXIT_WAIT", 0)
    async with Host([stray("h", board.call("h"), SERVE, contain=CONTAIN[tier])], timeouts=FAR) as host:
        line = await board.line("h")
        (launcher,) = host._mounted.containment._launchers
        supervised = host._mounted.by_name["h"].hook
        outcomes = []

        async def ask():
            outcomes.append(await host.before_tool(ToolCall(tool="bash", arguments={"do": [["wait"], ["exit", 3]]})))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            os.kill(launcher.pid, signal.SIGSTOP)
            line.go_on()
            await line.dead()
            while supervised.channel is not None:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            os.kill(launcher.pid, signal.SIGCONT)
    assert outcomes[0].trail[0].error == "it exited with code 3"


async def test_P15_a_process_that_has_ended_is_not_signalled_any_more(tier):
    held = Containment(current_reactor(), Log())
    with Held() as pipe:
        process = await held.spawn(true(CONTAIN[tier]), pipe.streams, anyio.current_time() + 60)
        await end_of(process)
        assert process.socket is None  # through which its keeper would be told
        process.signal(signal.SIGTERM)
        await end_of(process)  # it has: told in the next round
        assert process.exit_code == 0
    await held.aclose()
    await pipe.ended()


def test_an_unknown_tier_is_a_mistake_in_a_configuration():
    with pytest.raises(ValueError, match="contain"):
        HookSpec(name="h", command=("true",), contain="firmly")


async def test_a_required_hook_is_fatal_if_its_containment_is_unavailable(monkeypatch):
    monkeypatch.setattr(Containment, "_lacking", {"namespace": "no"})
    with pytest.raises(
        HookCrashedError, match="is required, and did not start: cannot be started: this machine cannot provide"
    ):
        async with Host([stray("h", HELLO, contain="required", required=True)], timeouts=FAR):
            pass
    assert Ground("namespace").contain == "required"
