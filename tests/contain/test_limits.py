"""What a hook's processes may use, and that nothing starts without the limits that it was to have."""

from __future__ import annotations

import errno
import json
import os
import signal

import anyio
import pytest
from grounds import AS_SOMEBODY, ONE_LOOP, SOMEBODY, Ground, Hosting, lacking, stray, version
from scripted import HANG, SERVE

from picohook import Host, RestartPolicy, Timeouts, ToolCall
from picohook.contain import limits
from picohook.model.spec import Limits

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60)
ONCE = RestartPolicy(max_starts=1)


def asking(*steps):
    return ToolCall(tool="bash", arguments={"do": list(steps)})


async def said(host, line, *steps):
    assert (await host.before_tool(asking(*steps))).trail[0].error is None
    return await line.said()


def limited(board, tier, **of):
    return stray("h", board.call("h"), SERVE, contain=Ground(tier).contain, limits=Limits(**of), restart=ONCE)


async def test_memory(tier, board):
    async with Host([limited(board, tier, memory="200M")], timeouts=FAR) as host:
        line = await board.line("h")
        assert await said(host, line, ["allocate", 20 << 20]) == "had it"
        assert await said(host, line, ["allocate", 400 << 20]) == "MemoryError"


async def test_open_files(tier, board):
    async with Host([limited(board, tier, open_files=32)], timeouts=FAR) as host:
        line = await board.line("h")
        assert await said(host, line, ["open", 20]) == "had them"
        assert await said(host, line, ["open", 32]) == "EMFILE"


async def test_file_size(tier, board, tmp_path):
    async with Host([limited(board, tier, file_size="1M")], timeouts=FAR) as host:
        line = await board.line("h")
        assert await said(host, line, ["fill", str(tmp_path / "small"), 1 << 20]) == "wrote it"
        assert await said(host, line, ["fill", str(tmp_path / "large"), 2 << 20]) == "EFBIG"
        assert (tmp_path / "large").stat().st_size == 1 << 20


@ONE_LOOP
async def test_processor_time_ends_it_with_a_signal_that_says_why(tier, board):
    async with Host([limited(board, tier, cpu_seconds=1)], timeouts=FAR) as host:
        line = await board.line("h")
        assert (await host.before_tool(asking(["burn"]))).trail[0].error == "it was ended by SIGXCPU"
        await line.dead()


async def test_a_child_has_the_same_limits_and_another_hook_none(tier, board):
    hooks = [limited(board, tier, open_files=32), stray("other", board.call("other"), SERVE, priority=200)]
    async with Host(hooks, timeouts=FAR) as host:
        line, other = await board.line("h"), await board.line("other")
        fork = ["fork", [board.call("child"), ["open", 32], HANG]]
        opening = asyncio_free(host, asking(fork, ["open", 100]))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opening)
            child = await board.line("child")
            assert await child.said() == "EMFILE"
            assert await line.said() == "EMFILE"
            assert await other.said() == "had them"


def asyncio_free(host, call):
    async def ask():
        await host.before_tool(call)

    return ask


async def test_a_lower_limit_of_the_host_itself_is_not_raised(tier, board):
    """A limit is never a way to more."""
    async with Host([limited(board, tier, open_files=1 << 30)], timeouts=FAR) as host:
        line = await board.line("h")
        with open(f"/proc/{line.pid}/limits") as file:
            theirs = next(text.split()[3:5] for text in file if text.startswith("Max open files"))
        with open("/proc/self/limits") as file:
            ours = next(text.split()[3:5] for text in file if text.startswith("Max open files"))
        assert theirs == [ours[1], ours[1]]
        assert (await host.before_tool(asking())).trail[0].error is None


# Processes.


def counted(user):
    """Why processes cannot be counted here; empty when they can."""
    if user is not None or os.geteuid():
        return "" if version() >= (5, 14) else "the kernel does not count by user namespace"
    try:
        limits.remove(limits.make_group(1))
    except ValueError as error:
        return str(error)
    return ""


SOMEBODY_TOO = [pytest.param(SOMEBODY, marks=AS_SOMEBODY)] if os.geteuid() == 0 else []


@pytest.fixture(params=[None, *SOMEBODY_TOO], ids=str)
def ground(request):
    why = lacking("namespace", request.param) or counted(request.param)
    if why:
        pytest.skip(why)
    return Ground("namespace", request.param)


@ONE_LOOP
async def test_processes_are_counted_for_each_hook_by_itself(ground, board):
    """However many the same user has elsewhere, or another hook."""
    hooks = [
        stray(name, ["daemon", [HANG]], ["daemon", [HANG]], board.call(name), SERVE, limits=Limits(processes=10))
        for name in ("one", "two")
    ]
    with Hosting(ground, "close", *hooks) as hosting:
        assert await hosting.said() == "ready"
        lines = [await board.line(name) for name in ("one", "two")]
        assert await hosting.do('ask [["count_forks", 50]]') == [None, None]
        for line in lines:
            assert await line.said() == "7"  # it, and two daemons


async def test_P12_a_fork_bomb_is_capped_and_dead(ground, board, backend):
    bomb = stray("bomb", limits=Limits(processes=40), restart=ONCE)
    calm = stray("calm")
    with Hosting(ground, "close", bomb, calm, backend=backend) as hosting:
        assert await hosting.said() == "ready"
        hosting.tell(f"ask {json.dumps({'do': [['daemon', [board.call('bomb'), ['bomb']]]], 'who': 'bomb'})}")
        line = await board.line("bomb")
        assert await hosting.said() == [None, None]
        assert await line.said() == "refused"
        assert await hosting.do("restart bomb") == "restarted"
        await line.dead()  # every one of them held it
        hosting.tell("end")
        assert await hosting.said() == "closed"


async def test_P12_a_fork_bomb_is_dead_with_its_host(ground, board, backend):
    with Hosting(ground, "close", stray("bomb", limits=Limits(processes=40)), backend=backend) as hosting:
        assert await hosting.said() == "ready"
        hosting.tell(f"ask {json.dumps({'do': [['daemon', [board.call('bomb'), ['bomb']]]], 'who': 'bomb'})}")
        line = await board.line("bomb")
        assert await line.said() == "refused"
        hosting.process.kill()
        await line.dead()


async def test_the_control_group_of_a_hook_is_removed_with_it(tier, board, monkeypatch):
    if os.geteuid() or counted(None):
        pytest.skip(counted(None) or "only root's processes are counted by a control group here")
    made = []
    make = limits.make_group
    monkeypatch.setattr(limits, "make_group", lambda count: made.append(make(count)) or made[-1])
    strict = limited(board, tier, processes=5)
    async with Host([strict], timeouts=FAR) as host:
        line = await board.line("h")
        with open(f"{made[0]}/pids.max") as file:
            assert file.read() == "5\n"
        with open(f"{made[0]}/cgroup.procs") as file:
            assert file.read() == f"{line.pid}\n"
        await host.mount(stray("gone", contain=Ground(tier).contain, limits=Limits(processes=5)))
        await host.unmount("gone")
        assert not os.path.exists(made[1])
        (launcher,) = host._mounted.containment._launchers
        os.kill(launcher.pid, signal.SIGKILL)
        await line.dead()
    assert len(made) == 2
    assert not any(map(os.path.exists, made))


async def test_a_hook_that_cannot_be_limited_does_not_start_and_says_why(board, monkeypatch):
    def refuse(count):
        raise limits.NotAvailableError(f"no group for {count}")

    monkeypatch.setattr(limits, "make_group", refuse)
    monkeypatch.setattr(limits, "counts_by_namespace", lambda: False)
    hooks = [stray("h", limits=Limits(processes=9)), stray("group", contain="group", limits=Limits(memory="1G"))]
    async with Host(hooks, timeouts=FAR) as host:
        one, other = host.status().hooks
        assert (one.state, one.starts, other.state, other.starts) == ("failed", 0, "failed", 0)
        assert "cannot be started: no group for 9" in one.last_error
        assert "cannot be started: limits need a launcher" in other.last_error


async def test_a_limit_that_the_system_refuses_is_named(tier, monkeypatch):
    monkeypatch.setattr(limits, "rows", lambda _: [("memory", 999, 1, 1)])
    async with Host([stray("h", contain=Ground(tier).contain, limits=Limits(memory=1))], timeouts=FAR) as host:
        (status,) = host.status().hooks
        assert status.state == "failed"
        assert f"cannot be started: its limit on memory: {os.strerror(errno.EINVAL)}" in status.last_error


CGROUPS = {
    "v1": ("8:cpu,pids:/user\n0::/x\n", "30 1 0:36 / {0}/pids rw - cgroup cgroup rw,pids", ["{0}/pids/user"]),
    "v2": ("0::/user/app\n", "30 1 0:36 / {0} rw shared:4 - cgroup2 cgroup2 rw", ["{0}/user/app", "{0}/user"]),
    "v2_root": ("0::/\n", "30 1 0:36 / {0} rw - cgroup2 cgroup2 rw", ["{0}"]),
    "v2_elsewhere": ("0::/../other\n", "30 1 0:36 /mine {0} rw - cgroup2 cgroup2 rw", []),
    "none": ("", "30 1 0:36 / {0} rw - tmpfs tmpfs rw", []),
}


@pytest.mark.parametrize("case", CGROUPS)
def test_control_groups_are_found_where_they_are_mounted(case, tmp_path, monkeypatch):
    own, mounts, found = CGROUPS[case]
    files = {"/proc/self/cgroup": own, "/proc/self/mountinfo": mounts.format(tmp_path) + "\n"}
    for name, text in files.items():
        (tmp_path / name.replace("/", "_")).write_text(text)
    monkeypatch.setattr(limits, "open", lambda name: (tmp_path / name.replace("/", "_")).open(), raising=False)
    assert list(limits._bases()) == [path.format(tmp_path) for path in found]
    with pytest.raises(ValueError, match="needs a control group with the pids controller"):
        limits.make_group(5)


@pytest.mark.parametrize(
    ("given", "is_"),
    [("512M", 512 << 20), ("1k", 1024), ("2G", 2 << 30), (4096, 4096)],
)
def test_a_size_may_have_a_unit(given, is_):
    assert Limits(memory=given).memory == is_


@pytest.mark.parametrize("given", ["M", "1.5G", "-1K", "12", "12X", "", 0, -1, "1000000000T"])
def test_an_invalid_size_is_a_mistake(given):
    with pytest.raises(ValueError, match="memory"):
        Limits(memory=given)
