"""The configurations of the directories above: which apply, and that none weakens one further out."""

from __future__ import annotations

import os
import pwd
import shutil
from types import SimpleNamespace

import needs
import pytest

from picohook import ConfigError, Host, LLMRequest, Timeouts, ToolCall, TrustError
from picohook.engine.order import in_order
from picohook.projects.layers import candidates, discover, project_configs
from picohook.projects.trust import untrust

from .conftest import Place, trust_all

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
CALL = ToolCall(tool="bash")
STRANGER = 12345


def gate(reason, **settings):
    """A hook `gate` that denies every call with this reason."""
    lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
    answer = f'{{"action": "deny_tool", "reason": "{reason}"}}'
    return f"[hooks.gate]\nrun = '''echo '{answer}' '''\nstages = ['before_tool']\n{lines}"


@pytest.fixture
def inner(project, monkeypatch):
    """A directory two levels inside the project, which is the working directory."""
    path = project.path / "a" / "b"
    path.mkdir(parents=True)
    monkeypatch.chdir(path)
    return Place(path, path, path / ".jcli" / "hooks.yaml")


def names(layers=None):
    return [hook.name for hook in in_order(spec.make() for spec in (layers or discover()).hooks)]


def sources(layers=None):
    return [os.path.dirname(config.path) for config in (layers or discover()).configs]


def as_home(monkeypatch, path):
    """The system has this home directory for the user."""
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(path)))


# Which apply.


def test_X12_a_projects_configuration_applies_in_every_directory_below_it(project, inner):
    project.write("picohook.toml", gate("outer"))
    assert sources() == [str(project.path)]


@pytest.mark.parametrize("made", [".git", ".picohook", "picohook", ".hg"])
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_X12_nothing_that_is_made_below_a_project_ends_the_search(project, inner, made, kind):
    project.write("picohook.toml", gate("outer"))
    path = inner.path / made
    {"file": path.touch, "directory": path.mkdir, "link": lambda: path.symlink_to("nowhere")}[kind]()
    assert sources() == [str(project.path)]


@needs.extensions
def test_X12_every_kind_of_file_is_found_above(project, inner):
    project.hooks("native", within=".picohook")
    project.jcli_hook("j")
    hooks = '{"hooks": {"%s": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
    for place in (".claude/settings.json", ".codex/hooks.json"):
        project.write(place, hooks % "PreToolUse")
    project.write(".gemini/settings.json", hooks % "BeforeTool")
    project.write(
        ".github/hooks/x.json", '{"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": "true"}]}}'
    )
    assert [config.dialect for config in discover().configs] == [
        "native",
        "jcli",
        "claude",
        "codex",
        "gemini",
        "copilot",
    ]


@pytest.mark.anyio
async def test_X12_a_host_below_a_project_asks_its_guard_and_needs_its_trust(project, inner):
    project.write("picohook.toml", gate("outer"))
    with pytest.raises(TrustError, match="was found here and is not trusted yet"):
        Host.discover()
    trust_all(inner)
    async with Host.discover() as host:
        assert (await host.before_tool(CALL)).reason == "outer"


@needs.extensions
def test_the_outermost_is_asked_first_whatever_the_priorities_say(project, inner, user):
    user.hooks("user", priority=999)
    inner.hooks("inner", priority=1)
    project.hooks("outer", priority=500)
    inner.jcli_hook("jcli")
    assert names() == ["user", "outer", "inner", "pre_send_message-1"]


def test_a_link_to_a_directory_counts_where_it_leads(project, inner, tmp_path, monkeypatch):
    project.write("picohook.toml", gate("outer"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/picohook.toml").write_text(gate("other"))
    (tmp_path / "elsewhere/link").symlink_to(inner.path)
    monkeypatch.chdir(tmp_path / "elsewhere/link")
    assert sources() == sources(discover(tmp_path / "elsewhere/link")) == [str(project.path)]


def test_a_working_directory_that_is_gone_is_a_mistake(inner, monkeypatch):
    inner.path.rmdir()
    with pytest.raises(ConfigError, match="is not a directory that can be used"):
        Host.discover()
    with pytest.raises(ConfigError, match="is not a directory that can be used"):
        candidates()


def test_a_directory_with_a_name_that_no_file_has_is_a_mistake(project):
    with pytest.raises(ConfigError, match="is not a directory that can be used"):
        discover("a\0b")


@pytest.mark.anyio
async def test_a_host_keeps_the_directory_that_it_began_in(project, inner, monkeypatch):
    project.write("picohook.toml", gate("outer"))
    trust_all(project)
    async with Host.discover() as host:
        monkeypatch.chdir("/")
        await host.reload()
        assert (await host.before_tool(CALL)).reason == "outer"


@pytest.mark.anyio
async def test_X12_a_nearer_configuration_that_is_made_meanwhile_changes_nothing_until_it_is_trusted(project, inner):
    project.write("picohook.toml", gate("outer"))
    trust_all(project)
    async with Host.discover() as host:
        inner.write(
            ".picohook/picohook.toml", "[hooks.gate]\nrun = 'true'\nstages = ['before_tool']\nenabled = false\n"
        )
        with pytest.raises(TrustError):
            await host.reload()
        assert (await host.before_tool(CALL)).reason == "outer"
        trust_all(inner)
        await host.reload()
        assert (await host.before_tool(CALL)).reason == "outer"


# A trusted one cannot be taken away.


@pytest.mark.parametrize("how", ["removed", "moved", "directory moved", "emptied", "directory closed"])
def test_X12_a_trusted_configuration_that_no_longer_applies_is_an_error_and_not_an_absence(project, inner, how):
    config = project.write(".picohook/picohook.toml", gate("outer"))
    trust_all(inner)
    if how == "removed":
        config.unlink()
    elif how == "moved":
        config.rename(config.with_name("other.toml"))
    elif how == "directory moved":
        config.parent.rename(project.path / "other")
    elif how == "emptied":
        config.write_text("[hooks]\n")
    else:
        config.parent.rename(project.path / "other")
        config.parent.symlink_to(".picohook")  # nothing can be looked at in there
    with pytest.raises(ConfigError):
        discover().require_trust()
    if how == "removed":
        untrust(config)
        discover().require_trust()


@pytest.mark.parametrize("how", ["removed", "emptied", "switched off"])
@needs.extensions
def test_X12_hooks_of_another_agents_file_that_is_trusted_cannot_be_taken_away(project, inner, how):
    hooks = '{"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": "true"}]}}'
    file = project.write(".github/hooks/x.json", hooks)
    trust_all(inner)
    discover().require_trust()
    if how == "removed":
        file.unlink()
    else:
        file.write_text(
            '{"version": 1, "hooks": {}}' if how == "emptied" else hooks[:-1] + ', "disableAllHooks": true}'
        )
    with pytest.raises(TrustError, match=r"(is not there any more|changed since it was trusted)"):
        discover().require_trust()


def test_settings_of_another_agent_without_hooks_that_were_trusted_stay_so(project):
    project.write(".claude/settings.json", '{"model": "x"}')
    trust_all(project)
    discover().require_trust()


# An inner one does not weaken an outer one.


def test_X13_hooks_of_one_name_are_all_asked_the_outer_under_its_own(project, inner):
    project.write("picohook.toml", gate("outer"))
    inner.write(
        "picohook.toml", gate("inner", enabled="false") + "[hooks.other]\nrun = 'true'\nstages = ['before_tool']\n"
    )
    assert names() == ["gate", "other"]
    inner.write("picohook.toml", gate("inner", priority=1))
    assert names() == ["gate", "gate@project"]


@needs.extensions
def test_X13_an_inner_hook_cannot_make_an_outer_gate_its_fallback(project, inner):
    project.write("picohook.toml", gate("outer"))
    inner.write("picohook.toml", '[hooks.r]\nnats = "r"\nfallback = "gate"\nstages = ["before_tool"]\n')
    with pytest.raises(ConfigError, match=r"hooks\.r\.fallback: 'gate' is not of the same file"):
        names()


def test_X13_an_outer_hook_cannot_wait_for_an_inner_one(project, inner):
    project.write("picohook.toml", gate("outer", after="['x']"))
    inner.write("picohook.toml", "[hooks.x]\nrun = 'true'\nstages = ['before_tool']\n")
    with pytest.raises(ConfigError, match=r"'x' is asked later, in the layer project: .*/a/b/picohook\.toml"):
        names()


@pytest.mark.parametrize("outer", ["", "[defaults]\nchain_budget = 20\nobserver_timeout = 2\n"])
def test_X13_an_inner_file_takes_no_time_from_outer_hooks(project, inner, outer):
    project.write("picohook.toml", outer + gate("outer"))
    before = discover().timeouts
    inner.write("picohook.toml", "[defaults]\nchain_budget = 0.001\nobserver_timeout = 0.001\n" + gate("inner"))
    assert (discover().timeouts.chain, discover().timeouts.observer) == (before.chain, before.observer)


def test_a_file_can_shorten_the_hosts_timeouts_where_no_other_has_hooks(project, inner):
    inner.write("picohook.toml", "[defaults]\nchain_budget = 2\n" + gate("inner"))
    assert discover().timeouts == Timeouts(chain=2)


@pytest.mark.anyio
async def test_X13_a_slow_inner_hook_is_asked_after_the_outer_gate(project, inner):
    project.write("picohook.toml", gate("outer", priority=900))
    inner.write("picohook.toml", "[hooks.slow]\nrun = 'sleep 600'\nstages = ['before_tool']\npriority = 1\n")
    trust_all(inner)
    async with Host.discover() as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.reason, [entry.hook for entry in outcome.trail]) == ("outer", ["gate"])


@pytest.mark.anyio
@needs.extensions
async def test_X13_an_outer_prompt_does_not_ask_an_inner_projects_model(project, inner, user):
    user.write(user.own / "picohook.toml", '[model]\nbase_url = "http://127.0.0.1:1/users"\nname = "m"\n')
    project.write("picohook.toml", '[hooks.p]\nprompt = "x"\nstages = ["before_llm"]\non_failure = "deny"\n')
    inner.write("picohook.toml", '[model]\nbase_url = "http://127.0.0.1:1/inner"\nname = "m"\n')
    trust_all(inner)
    host = Host.discover()
    assert [spec.tables["model"][0] for spec in discover().hooks] == [str(user.own / "picohook.toml")]
    async with host:
        assert (await host.before_llm(LLMRequest())).action == "abort_turn"


# Other users, and the home directory.


@as_root
@pytest.mark.parametrize("whose", ["file", "its directory", "the project", "a link"])
def test_X8_a_configuration_of_another_user_is_not_read_and_a_note_says_so(project, inner, tmp_path, whose):
    config = project.write(".picohook/picohook.toml", "[hooks")
    if whose == "a link":
        other = tmp_path / "other.toml"
        config.rename(other)
        config.symlink_to(other)
    place = {"file": config, "its directory": config.parent, "the project": project.path, "a link": config}[whose]
    os.chown(place, STRANGER, -1, follow_symlinks=False)
    inner.write("picohook.toml", gate("inner"))
    layers = discover()
    assert sources(layers) == [str(inner.path)]
    (note,) = layers.notes
    assert str(note) == (
        f"{config}: is not read: it, or a directory that it is in, belongs to another user (uid {STRANGER})"
        " (chown it, if it is for you)"
    )
    assert project_configs(inner.path) == [inner.path / "picohook.toml"]


@as_root
def test_X8_another_user_cannot_stop_a_host_in_a_directory_that_all_can_write(project, inner):
    project.path.chmod(0o1777)
    project.write("picohook.toml", gate("outer"))
    os.chown(project.write("picohook.yaml", "{"), STRANGER, -1)  # otherwise, two that exclude each other
    os.chown(project.write(".codex/hooks.json", "{"), STRANGER, -1)
    trust_all(inner)
    assert names() == ["gate"]


@as_root
def test_X8_a_trusted_configuration_that_another_user_replaced_is_an_error(project, inner):
    os.chown(project.write("picohook.toml", gate("outer")), 0, -1)
    trust_all(inner)
    os.chown(project.path / "picohook.toml", STRANGER, -1)
    with pytest.raises(TrustError, match="is trusted, and belongs to another user now"):
        discover().require_trust()


def test_the_search_goes_on_above_the_home_directory_and_leaves_it_out(project, inner, monkeypatch):
    as_home(monkeypatch, project.path / "a")
    project.write("picohook.toml", gate("above"))
    config = project.write("a/picohook.toml", gate("home"))
    inner.write("picohook.toml", gate("inner"))
    layers = discover()
    assert sources(layers) == [str(project.path), str(inner.path)]
    (note,) = layers.notes
    assert str(note).startswith(f"{config}: is not read: the home directory is no project (move it to ")


def test_a_home_directory_that_is_a_link_is_left_out_where_it_leads(project, inner, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(project.path)
    as_home(monkeypatch, tmp_path / "link")
    project.write("picohook.toml", gate("home"))
    assert sources() == []


def test_X12_a_variable_makes_no_project_the_home_directory(project, inner, monkeypatch):
    project.write("picohook.toml", gate("outer"))
    monkeypatch.setenv("HOME", str(project.path))
    assert sources() == [str(project.path)]


def test_X12_where_the_system_has_no_home_directory_none_is_left_out(project, inner, monkeypatch):
    def unknown(_):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("HOME", str(project.path))
    project.write("picohook.toml", gate("outer"))
    assert sources() == [str(project.path)]


@pytest.mark.parametrize("config", ["{home}/none", None])
@needs.extensions
def test_X3_without_any_home_directory_the_working_directory_is_none(project, inner, monkeypatch, config):
    def unknown(*_):
        raise KeyError

    inner.write("~/.config/picohook/picohook.toml", gate("evil"))
    for name in ("getpwuid", "getpwnam"):
        monkeypatch.setattr(pwd, name, unknown)
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    if config:
        monkeypatch.setenv("XDG_CONFIG_HOME", config.format(home=project.path))
    with pytest.raises(ConfigError, match="HOME does not name a directory by its whole path"):
        discover()


@pytest.mark.parametrize("value", ["", ".", "a/b"])
@needs.extensions
def test_X3_a_project_cannot_be_where_the_users_own_files_are_looked_for(project, inner, monkeypatch, value):
    for place in (".config", "a/b/.config"):
        inner.write(f"{place}/picohook/picohook.toml", gate("evil"))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", value)
    with pytest.raises(ConfigError, match="does not name a directory by its whole path"):
        discover()


# Nothing found.


@pytest.mark.anyio
async def test_a_host_that_found_no_hook_warns_and_one_that_needs_some_raises(user, project, journal):
    user.write(user.own / "picohook.toml", "[hooks]\n")
    async with Host.discover(logger=journal):
        said = [record["what"] for record in journal.all("configuration warning")]
    nothing = f"{project.path}: no hook was found for this directory, so nothing is guarded (picohook new)"
    assert said == [nothing]
    with pytest.raises(ConfigError, match="no hook was found for this directory"):
        Host.discover(required=True)
    user.hooks("a")
    async with Host.discover(required=True) as host:
        shutil.rmtree(user.own)
        with pytest.raises(ConfigError, match="no hook was found"):
            await host.reload()
        assert [hook.name for hook in host.hooks] == ["a"]
