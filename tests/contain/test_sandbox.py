"""What a hook may read, write and reach, by bubblewrap and by Landlock; nothing starts without what it was to have."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest
from grounds import CONTAIN, HERE, ONE_LOOP, Ground, Hosting, lacking, means_for, stray
from scripted import SERVE

from picohook import Host, RestartPolicy, Timeouts, ToolCall
from picohook.contain import landlock_program as landlock, sandbox
from picohook.model.spec import Sandbox

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60)
ONCE = RestartPolicy(max_starts=1)


def missing(kind):
    if kind == "bubblewrap":
        return "" if shutil.which("bwrap") else "bubblewrap is not installed"
    return "" if landlock.abi() >= landlock.LEAST_ABI else "the kernel has no Landlock"


@pytest.fixture(params=["bubblewrap", "Landlock"])
def kind(request, monkeypatch):
    if why := missing(request.param):
        pytest.skip(why)
    monkeypatch.setattr(sandbox, "_KINDS", {request.param: sandbox._KINDS[request.param]})
    return request.param


@pytest.fixture
def place(tmp_path):
    for name in ("own", "kept", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    return tmp_path


def boxed(board, place, **settings):
    return stray("h", board.call("h"), SERVE, dir=str(place), restart=ONCE, sandbox=Sandbox(**settings))


async def came(host, line, *deeds):
    call = ToolCall(tool="bash", arguments={"do": [["try", *deeds]]})
    assert (await host.before_tool(call)).trail[0].error is None
    return json.loads(await line.said())


@pytest.mark.parametrize("contain", ["best", "sweep"])
async def test_by_default_it_reads_everything_and_writes_nothing(contain, kind, board, place):
    if contain != "best" and (why := lacking(contain)):
        pytest.skip(why)
    spec = boxed(board, place, network=True).model_copy(update={"contain": contain})
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        assert (
            await came(
                host, line, ["read", "secret/file"], ["list", "/"], ["read", "/dev/zero"], ["write", "/dev/null"]
            )
            == ["ok"] * 4
        )
        refused = await came(
            host,
            line,
            ["write", "own/file"],
            ["create", "own/new"],
            ["truncate", "own/file"],
            ["create", "/tmp/picohook-new"],
        )
        assert set(refused) <= {"EROFS", "EACCES"}
        assert (place / "own" / "file").read_text() == "text"


async def test_it_writes_where_it_may(kind, board, place):
    async with Host([boxed(board, place, writable=("own",))], timeouts=FAR) as host:
        line = await board.line("h")
        assert (
            await came(host, line, ["write", "own/file"], ["create", "own/new"], ["truncate", "own/file"]) == ["ok"] * 3
        )
        assert set(await came(host, line, ["write", "kept/file"], ["create", "new"])) <= {"EROFS", "EACCES"}
    assert (place / "own" / "file").read_text() == ""
    assert (place / "kept" / "file").read_text() == "text"


async def test_it_reads_only_allowed_paths(kind, board, place):
    read = {"/usr", "/lib", "/lib64", "/etc", str(Path(sys.base_prefix)), sys.prefix, str(HERE.parent), "kept"}
    given = tuple(path for path in sorted(read) if (place / path).exists())
    async with Host([boxed(board, place, read_only=(*given, board.place), writable=("own",))], timeouts=FAR) as host:
        line = await board.line("h")
        assert await came(host, line, ["read", "kept/file"], ["write", "own/file"]) == ["ok", "ok"]
        hidden = await came(
            host, line, ["read", "secret/file"], ["list", "secret"], ["list", "/home"], ["create", "kept/new"]
        )
        assert set(hidden) <= {"ENOENT", "EACCES", "EROFS"}


async def test_without_a_network_there_is_only_its_own_loopback(kind, board, place):
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        deeds = ["connect", tcp.getsockname()[1]], ["send", udp.getsockname()[1]], ["loopback", 0]
        for network in (True, False):
            # What it tells the test by is a socket too, of the network that it has not got: here, it is a file.
            (place / "own" / "deeds").write_text(json.dumps(deeds))
            spec = stray(
                "h", ["record_deeds", "own/deeds", "own/came"], SERVE,
                dir=str(place), sandbox=Sandbox(network=network, writable=("own",)),
            )  # fmt: skip
            async with Host([spec], timeouts=FAR):
                results = json.loads((place / "own" / "came").read_text())
            if network:
                assert results == ["ok"] * 3
                assert udp.recv(1) == b"x"
            else:
                assert results[0] in {"ECONNREFUSED", "ENETUNREACH"}
                assert results[2] == "ok"
                with pytest.raises(BlockingIOError):
                    udp.recv(1)


@ONE_LOOP
async def test_an_unprivileged_user_can_use_it_too(board, tmp_path_factory):
    """In the namespace that the hooks live in, which is a user namespace then."""
    ground = Ground("namespace", 12345 if os.geteuid() == 0 else None)
    if why := lacking("namespace", ground.user) or missing("bubblewrap"):
        pytest.skip(why)
    means_for(ground.user)
    place = tmp_path_factory.mktemp("place")
    for directory in (place, *place.parents):
        if directory.owner() == getpass.getuser() and not directory.stat().st_mode & 0o001:
            directory.chmod(0o755)
    (place / "own").mkdir(0o777)
    (place / "own").chmod(0o777)
    (place / "own" / "deeds").write_text(
        json.dumps([["read", "/etc/passwd"], ["create", "own/new"], ["create", "new"]])
    )
    spec = stray(
        "h", ["record_deeds", "own/deeds", "own/came"], SERVE, dir=str(place), sandbox={"writable": ["own"]}
    )  # fmt: skip
    with Hosting(ground, "close", spec) as hosting:
        assert await hosting.said() == "ready"
        assert (await hosting.do("status"))[1]["h"][0] == "ready"
    results = json.loads((place / "own" / "came").read_text())
    assert results[:2] == ["ok", "ok"]
    assert results[2] in {"EROFS", "EACCES"}


async def test_the_host_sees_the_exit_of_the_hook_itself(kind, board, place):
    async with Host([boxed(board, place, network=True)], timeouts=FAR) as host:
        call = ToolCall(tool="bash", arguments={"do": [["say", "last words"], ["exit", 7]]})
        assert (await host.before_tool(call)).trail[0].error == "it exited with code 7; it said: last words"


async def test_a_daemon_in_it_ends_with_it(kind, board, place):
    spec = stray(
        "h", ["daemon", [board.call("daemon"), ["hang"]]], SERVE, dir=str(place), sandbox=Sandbox(network=True)
    )
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("daemon")
        await host.unmount("h")
        assert not line.alive


async def test_root_inside_has_no_privileges(kind, board, place):
    if os.geteuid():
        pytest.skip("not root")
    (place / "secret").chmod(0)
    spec = stray(
        "h", ["record_deeds", "own/deeds", "own/came"], SERVE, dir=str(place), sandbox=Sandbox(writable=("own",))
    )
    (place / "own" / "deeds").write_text(json.dumps([["status", name] for name in ("CapEff", "CapPrm", "NoNewPrivs")]))
    async with Host([spec], timeouts=FAR):
        pass
    # With no new privileges, no program that it starts gets any either.
    assert json.loads((place / "own" / "came").read_text()) == ["none", "none", "1"]


# Where it is not available.


async def test_a_hook_does_not_start_without_the_sandbox_that_it_asks_for_and_says_why(board, place, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sandbox, "LANDLOCK", str(place / "no_landlock.py"))
    (place / "no_landlock.py").write_text("import sys; sys.exit('this kernel has no Landlock')")
    async with Host([boxed(board, place), stray("other", SERVE)], timeouts=FAR) as host:
        boxed_, other = host.status().hooks
        assert (boxed_.state, boxed_.starts, other.state) == ("failed", 0, "ready")
        assert (
            "cannot be started: no sandbox works here: bubblewrap: it is not installed; Landlock: this kernel has no Landlock"
        ) in boxed_.last_error


async def test_without_bubblewrap_landlock_is_taken_and_each_is_tried_once(board, place, monkeypatch):
    if why := missing("Landlock"):
        pytest.skip(why)
    (place / "bwrap").write_text(f"#!/bin/sh\necho . >> {place}/tried\necho 'bwrap: no rights' >&2\nexit 1\n")
    (place / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    async with Host([boxed(board, place)], timeouts=FAR) as host:
        assert host.status().hooks[0].state == "ready"
        await host.mount(stray("other", SERVE, sandbox=Sandbox()))
        await host.mount(stray("networked", SERVE, sandbox=Sandbox(network=True)))
        assert {hook.state for hook in host.status().hooks} == {"ready"}
    assert (place / "tried").read_text() == ".\n.\n"


@pytest.mark.parametrize("setting", ["read_only", "writable"])
async def test_a_path_that_does_not_exist_is_named(setting, kind, board, place):
    async with Host([boxed(board, place, **{setting: ("gone",)})], timeouts=FAR) as host:
        (status,) = host.status().hooks
        assert f"its sandbox names {place / 'gone'} as {setting}, which does not exist" in status.last_error


async def test_it_works_in_a_process_group_too(kind, board, place):
    """A sandbox needs no launcher."""
    spec = boxed(board, place, network=True).model_copy(update={"contain": CONTAIN["group"]})
    async with Host([spec], timeouts=FAR) as host:
        line = await board.line("h")
        assert set(await came(host, line, ["write", "own/file"])) <= {"EROFS", "EACCES"}
        assert host.status().hooks[0].containment == "group"


def test_an_old_landlock_counts_as_missing(monkeypatch):
    """One that does not keep files from being truncated."""
    monkeypatch.setattr(landlock, "abi", lambda: 2)
    with pytest.raises(OSError, match=r"older than Linux 6\.2"):
        landlock.confine([], [])
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(OSError, match="no Landlock"):
        landlock.confine([], [])
