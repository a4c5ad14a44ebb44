"""A host of all layers: whom it asks in which order, what it refuses to run, and what it takes over."""

from __future__ import annotations

import sys

import anyio
import pytest

from picohook import ConfigError, Continue, FunctionHook, HookSpec, Host, ToolCall, TrustError
from picohook.engine.order import layer
from picohook.ext.jcli.dialect import session_hook
from picohook.model.payloads import Prompt
from picohook.projects.trust import untrust
from picohook.reload.watch import watch

from .conftest import trust_all

pytestmark = pytest.mark.anyio


async def signed(host):
    return (await host.before_prompt(Prompt(prompt=""))).payload.prompt.split()


def sign(word):
    return {"command": (sys.executable, "sign.py", word), "stages": ("before_prompt",)}


async def test_each_layer_sees_the_edits_of_the_layers_before(user, project):
    project.jcli_hook("jcli-project")
    project.hooks("project", priority=1)
    user.jcli_hook("jcli-user")
    user.hooks("user", priority=999)
    trust_all(project)

    async with Host.discover() as host:
        await host.mount(HookSpec(name="first", dir=str(project.path), priority=-5, **sign("mounted")))
        await host.mount(session_hook("pre_send_message", {"command": "printf '{}'"}, "registered"))
        assert await signed(host) == ["jcli-user", "user", "project", "jcli-project", "mounted"]
        assert [(hook.name, layer(hook)) for hook in host.asked_at("before_prompt")] == [
            ("pre_send_message-1", "user"),
            ("user", "user"),
            ("project", "project"),
            ("pre_send_message-1@project", "project"),
            ("first", "session"),
            ("registered", "session"),
        ]


def test_a_synchronous_program_without_a_named_file_uses_the_files_that_are_found(user, project):
    user.hooks("user")
    project.hooks("project")
    trust_all(project)
    with Host.blocking() as host:
        assert host.before_prompt(Prompt(prompt="")).payload.prompt.split() == ["user", "project"]


async def test_functions_of_the_program_come_first_and_those_mounted_later_last(user, project):
    user.hooks("user")
    decide = {"before_prompt": lambda _: Continue()}
    async with Host([FunctionHook("builtin", decide)]) as host:
        await host.mount(FunctionHook("late", decide, priority=-1))
        await host.mount(HookSpec(name="user", layer="user", dir=str(user.own), **sign("user")))
        assert [hook.name for hook in host.asked_at("before_prompt")] == ["builtin", "user", "late"]


async def test_X3_a_project_that_is_not_trusted_is_refused_and_nothing_runs(user, project):
    user.hooks("user")
    project.write("marker.py", "open('started', 'w')")
    project.write("picohook.toml", f'[hooks.a]\ncommand = ["{sys.executable}", "marker.py"]\nobserve = ["*"]\n')

    with pytest.raises(TrustError, match=r"was found here and is not trusted yet \(.*picohook trust\)"):
        Host.discover()
    assert not (project.path / "started").exists()


async def test_X4_a_script_that_changes_while_it_runs_is_not_started_again(user, project, journal):
    user.hooks("user")
    project.hooks("project")
    trust_all(project)

    async with Host.discover(logger=journal) as host:
        assert await signed(host) == ["user", "project"]
        project.write("sign.py", "changed")
        host.restart("user")
        host.restart("project")
        outcome = await host.before_prompt(Prompt(prompt=""))
        assert outcome.payload.prompt.split() == ["user"]
        assert "changed since it was trusted" in outcome.trail[-1].error


async def test_X6_a_link_turned_to_another_script_while_it_runs_is_not_started_again(user, project):
    project.hooks("project")
    good, bad = project.write("good.py", (project.path / "sign.py").read_text()), project.write("bad.py", "bad")
    (project.path / "sign.py").unlink()
    (project.path / "sign.py").symlink_to(good)
    trust_all(project)

    async with Host.discover() as host:
        assert await signed(host) == ["project"]
        (project.path / "sign.py").unlink()
        (project.path / "sign.py").symlink_to(bad)
        host.restart("project")
        outcome = await host.before_prompt(Prompt(prompt=""))
        assert outcome.payload.prompt == ""
        assert "changed since it was trusted" in outcome.trail[-1].error


REFUSED = {
    "X8": ("", 0o666, r"can be written by everyone"),
    "X9": ('env = { LD_PRELOAD = "mine.so" }\n', 0o644, r"env\.LD_PRELOAD: .* it decides what code a program loads"),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case}_")
async def test_a_dangerous_configuration_is_refused_even_if_it_is_trusted_and_nothing_runs(case, user, project):
    more, mode, why = REFUSED[case]
    project.write("marker.py", "open('started', 'w')")
    text = f'[hooks.a]\ncommand = ["{sys.executable}", "marker.py"]\nobserve = ["*"]\n'
    project.write("picohook.toml", text)
    trust_all(project)
    project.write("picohook.toml", text + more).chmod(mode)

    with pytest.raises(ConfigError, match=why):
        async with Host.discover():
            pass
    assert not (project.path / "started").exists()


async def test_hooks_that_code_mounts_need_no_trust(project):
    project.hooks("project")
    trust_all(project)
    project.write("other.py", (project.path / "sign.py").read_text())
    async with Host.discover() as host:
        command = (sys.executable, "other.py", "mounted")
        await host.mount(HookSpec(name="m", command=command, stages=("before_prompt",), dir=str(project.path)))
        assert await signed(host) == ["project", "mounted"]


async def test_another_projects_directory_can_be_named(user, project, monkeypatch):
    project.hooks("project")
    project.jcli_hook("jcli")
    trust_all(project)
    monkeypatch.chdir("/")
    async with Host.discover(project.path) as host:
        assert await signed(host) == ["jcli", "project"]


async def test_no_configuration_at_all_is_a_host_without_hooks(project):
    async with Host.discover() as host:
        assert host.hooks == ()
        assert (await host.before_tool(ToolCall(tool="x"))).action == "continue"


async def test_every_warning_is_logged_by_a_host(user, project, journal):
    path = user.hooks("user", timeout=90)
    project.jcli_hook("x", event="session_start")
    project.jcli.write_text(project.jcli.read_text() + "    filter: {tool_name: Bash}\n")
    trust_all(project)
    cut_short = "90 s at before_prompt is more than the 30 s of the whole chain, which run out first"
    expected = [
        f"{path}: hooks.user.timeout: {cut_short} (raise defaults.chain_budget)",
        f"{project.jcli}: session_start[0]: session_start is only told: the fields it seems to return (user_input) are ignored",
        f"{project.jcli}: session_start[0]: session_start has no tool: with this filter, the hook is never asked",
    ]
    async with Host.discover(logger=journal):
        assert [record["what"] for record in journal.all("configuration warning")] == expected
    journal.records.clear()
    async with Host.from_config(path, logger=journal) as host:
        assert len(journal.all("configuration warning")) == 1
        await host.reload()
        assert len(journal.all("configuration warning")) == 2


# Taken over.


async def test_a_reload_reads_every_layer_again(user, project):
    user.hooks("one")
    async with Host.discover() as host:
        user.hooks("one", "two")
        project.hooks("three")
        with pytest.raises(TrustError):
            await host.reload()
        assert [hook.name for hook in host.hooks] == ["one"]
        trust_all(project)
        done = await host.reload()
        assert (done.added, done.kept) == (("two", "three"), ("one",))
        assert await signed(host) == ["one", "two", "three"]

        (project.path / "picohook.toml").unlink()
        with pytest.raises(TrustError, match="is trusted, and is not there any more"):
            await host.reload()
        assert await signed(host) == ["one", "two", "three"]
        untrust(project.path / "picohook.toml")
        done = await host.reload()
        assert (done.removed, done.kept) == (("three",), ("one", "two"))


async def test_a_reload_with_a_mistake_in_one_file_changes_nothing_of_any(user, project):
    user.hooks("one")
    async with Host.discover() as host:
        user.hooks("one", "two")
        project.write("picohook.toml", "[hooks")
        with pytest.raises(ConfigError):
            await host.reload()
        assert [hook.name for hook in host.hooks] == ["one"]


async def test_a_watch_sees_the_first_file_of_a_project_once_it_is_trusted(user, project, journal):
    user.hooks("one")
    async with Host.discover(logger=journal, watch=True) as host:
        project.hooks("two")
        refused = await journal.seen("not reloaded: the old configuration stays")
        assert "was found here and is not trusted yet" in refused["why"]
        assert [hook.name for hook in host.hooks] == ["one"]
        trust_all(project)
        await journal.seen("reloaded", added="two")
        assert await signed(host) == ["one", "two"]


async def test_a_watch_sees_changes_in_every_layer(user, project, journal):
    user.hooks("one")
    project.hooks("two")
    trust_all(project)
    async with Host.discover(logger=journal) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(watch, host)
        user.hooks("one", "more")
        await journal.seen("reloaded", added="more")
        project.hooks("two", "third")
        trust_all(project)
        await journal.seen("reloaded", added="third")
        assert await signed(host) == ["more", "one", "third", "two"]
        tasks.cancel_scope.cancel()
