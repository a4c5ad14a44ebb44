"""Watching: a change of the configuration, or of a script that it runs, is taken over without being asked for."""

from __future__ import annotations

import functools
import os
import sys

import anyio
import pytest
import watchfiles
from loops import both
from scripted import SERVE

from picohook import Host, PicohookError, ToolCall
from picohook.projects.layers import named
from picohook.projects.source import Source
from picohook.reload.watch import watch

pytestmark = pytest.mark.anyio
anyio_backend = both

SCRIPT = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {"action": "modify", "call": {"arguments": {"by": "BY"}}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


async def asked(host):
    return (await host.before_tool(ToolCall(tool="bash", arguments={}))).payload.arguments["by"]


async def test_a_configuration_that_changes_is_taken_over(config, journal):
    config.hook("one")
    async with Host.from_config(config.write(), logger=journal, watch=True) as host:
        config.hook("two")
        config.write()
        await journal.seen("reloaded", added="two")
        del config.hooks["one"]
        config.path.write_text(config.write().read_text() + "# written in place\n")
        await journal.seen("reloaded", removed="one")
        assert [hook.name for hook in host.hooks] == ["two"]


async def test_a_change_before_the_watch_began_is_seen_too(config, journal):
    config.hook("one")
    host = Host.from_config(config.write(), logger=journal, watch=True)
    config.hook("two")
    config.write()
    async with host:
        await journal.seen("reloaded", added="two")


async def test_a_bad_configuration_is_logged_and_the_watch_continues(config, journal):
    config.hook("one")
    async with Host.from_config(config.write(), logger=journal, watch=True) as host:
        config.path.write_text("[hooks.one\n")
        record = await journal.seen("not reloaded: the old configuration stays")
        assert record["level"] == "error"
        assert [hook.name for hook in host.hooks] == ["one"]
        config.hook("needed", ["exit", 3], required=True)
        config.write()
        await journal.seen("not reloaded: the old configuration stays", times=2)
        config.path.unlink()
        await journal.seen("not reloaded: the old configuration stays", times=3)
        del config.hooks["needed"]
        config.hook("two")
        config.write()
        await journal.seen("reloaded", added="two")


async def test_a_script_that_changes_is_taken_over_wherever_it_comes_to_be(config, journal):
    directory = config.path.parent

    def write(path, by):
        (directory / ".new").write_text(SCRIPT.replace("BY", by))
        os.replace(directory / ".new", directory / path)

    (directory / "hooks").mkdir()
    write("hook.py", "first")
    write("hooks/hook.py", "another first")
    config.hook("scripted", command=[sys.executable, "hook.py"])
    async with Host.from_config(config.write(), logger=journal, watch=True) as host:
        write("hook.py", "second")
        await journal.seen("reloaded", changed="scripted")
        assert await asked(host) == "second"
        config.hook("scripted", command=[sys.executable, "hooks/hook.py"])
        config.write()
        await journal.seen("reloaded", changed="scripted", times=2)
        assert await asked(host) == "another first"
        write("hooks/hook.py", "third")
        await journal.seen("reloaded", changed="scripted", times=3)
        assert await asked(host) == "third"


def test_changes_are_looked_for_where_the_files_are_and_where_links_say_that_they_are(config, tmp_path):
    for name in ("shared", "hooks"):
        (tmp_path / name).mkdir()
    (tmp_path / "hooks" / "hook.py").touch()
    config.hook("one", command=["python3", "hooks/hook.py"])
    link = config.write()
    os.replace(link, tmp_path / "shared" / "other.toml")
    link.symlink_to("shared/other.toml")
    source = Source(functools.partial(named, link), link)
    source.read()
    assert source.directories() == {str(tmp_path), str(tmp_path / "shared"), str(tmp_path / "hooks")}
    assert not source.changed()
    (tmp_path / "hooks" / "hook.py").chmod(0o755)
    assert source.changed()


@pytest.mark.parametrize("way", ["its target is written", "it is pointed elsewhere"])
async def test_a_configuration_that_is_a_link_is_followed(config, journal, way):
    directory = config.path.parent
    (directory / "..data").mkdir()
    config.hook("one")
    link, config.path = config.path, directory / "..data" / "picohook.toml"
    link.symlink_to(config.write())
    async with Host.from_config(link, logger=journal, watch=True):
        config.hook("two")
        if way == "its target is written":
            config.path.write_text(config.write().read_text())
        else:
            (directory / "..other").mkdir()
            config.path = directory / "..other" / "picohook.toml"
            (directory / "new").symlink_to(config.write())
            os.replace(directory / "new", link)
        await journal.seen("reloaded", added="two")
        config.hook("three")
        config.write()
        await journal.seen("reloaded", added="three")


async def test_watching_is_a_coroutine_that_can_be_cancelled(config, journal, board):
    config.hook("one", board.call("one"), SERVE)
    async with Host.from_config(config.write(), logger=journal) as host:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, host)
            config.hook("two")
            config.write()
            await journal.seen("reloaded", added="two")
            tasks.cancel_scope.cancel()
        line = await board.line("one")
        assert line.alive


async def test_other_files_in_the_directory_cause_no_reload(config, journal):
    config.hook("one")
    async with Host.from_config(config.write(), logger=journal, watch=True):
        for number in range(3):
            (config.path.parent / f"log.{number}").write_text("nothing to see")
        config.hook("two")
        config.write()
        await journal.seen("reloaded", added="two")
        assert len(journal.all("reloaded")) == 1


async def test_where_files_cannot_be_watched_that_is_logged_and_the_host_serves_on(config, journal, monkeypatch):
    async def none_left(*_, **__):
        raise OSError("OS file watch limit reached")
        yield

    monkeypatch.setattr(watchfiles, "awatch", none_left)
    config.hook("one")
    async with Host.from_config(config.write(), logger=journal, watch=True) as host:
        record = await journal.seen("no longer watched", level="error")
        assert "limit reached" in record["why"]
        assert (await host.before_tool(ToolCall(tool="bash"))).trail[0].error is None
        config.hook("two")
        config.write()
        assert (await host.reload()).added == ("two",)


def test_without_watchfiles_it_says_which_extra_to_install(config, monkeypatch):
    config.hook("one")
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(PicohookError, match=r"pip install 'watchfiles"):
        Host.from_config(config.write(), watch=True)
    Host.from_config(config.path)


async def test_a_host_that_was_built_in_code_cannot_be_watched():
    async with Host() as host:
        with pytest.raises(PicohookError, match="from_config"):
            await watch(host)
    with pytest.raises(PicohookError, match="from_config"):
        Host(watch=True)
