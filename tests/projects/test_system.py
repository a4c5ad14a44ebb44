"""The system's configurations: who may write them, that they are asked first, and that nothing weakens them."""

from __future__ import annotations

import os
import subprocess
import sys

import needs
import pytest

from picohook import ConfigError, Host, ToolCall
from picohook.engine.order import in_order
from picohook.process.environment import SYSTEM_PATH, environment
from picohook.projects import layers, system_layer

from .conftest import Place, trust_all

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root owns what is the system's")
CALL = ToolCall(tool="bash", arguments={"command": "ls"})
STRANGER = 12345


def gate(name="policy", reason="no", **settings):
    lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
    answer = f'{{"action": "deny_tool", "reason": "{reason}"}}'
    return f"[hooks.{name}]\nrun = '''echo '{answer}' '''\nstages = ['before_tool']\n{lines}"


@pytest.fixture
def system(tmp_path, monkeypatch):
    """The directory of the system's configurations."""
    path = tmp_path / "etc"
    path.mkdir(mode=0o755)
    monkeypatch.setattr(system_layer, "PLACE", path)
    return Place(path, path, path)


def names(found=None):
    return [hook.name for hook in in_order(spec.make() for spec in (found or layers.discover()).hooks)]


def refusal(**of):
    with pytest.raises(ConfigError) as caught:
        layers.discover(**of)
    return str(caught.value)


# Asked first, by everything that has a configuration.


def test_without_a_directory_there_is_no_such_layer(system, project):
    system.path.rmdir()
    assert names() == []


def test_X14_its_hooks_are_asked_before_those_of_the_user_and_the_project(system, user, project):
    system.write("b.toml", gate("late", priority=999))
    system.write("a.toml", gate("policy", priority=998))
    user.hooks("user", priority=1)
    project.hooks("project", priority=1)
    found = layers.discover()
    assert names(found) == ["policy", "late", "user", "project"]
    assert [config.layer for config in found.configs] == ["system", "system", "user", "project"]


@pytest.mark.anyio
async def test_X14_a_configuration_that_is_named_does_not_replace_it(system, project):
    system.write("a.toml", gate())
    own = project.write("own.toml", "[hooks.own]\nrun = 'true'\nstages = ['before_tool']\n")
    async with Host.from_config(own) as host:
        assert (await host.before_tool(CALL)).reason == "no"
    assert names(layers.named(own)) == ["policy", "own"]
    assert names(layers.named(system.path / "a.toml")) == ["policy"]


@pytest.mark.anyio
async def test_X14_one_that_appears_while_a_host_runs_is_noticed_and_taken_over(system, project):
    system.path.rmdir()
    own = project.write("own.toml", "[hooks.own]\nrun = 'true'\nstages = ['before_tool']\n")
    async with Host.from_config(own) as host:
        system.write("a.toml", gate())
        system.path.chmod(0o755)
        assert host.reloader.source.changed()
        await host.reload()
        assert (await host.before_tool(CALL)).reason == "no"
        system.write("b.toml", gate("more"))
        assert host.reloader.source.changed()


def test_X14_no_dialect_that_is_left_out_leaves_it_out(system, project):
    system.write("a.toml", gate())
    assert names(layers.discover(without=("native", "claude"))) == ["policy"]


# Whose files.


@pytest.mark.parametrize("what", ["file", "directory", "above", "link", "target", "script", "place of a script"])
@pytest.mark.parametrize("how", ["owner", "others", "group"])
def test_X14_it_is_refused_if_somebody_else_than_root_can_change_it(system, project, tmp_path, what, how):
    (tmp_path / "scripts").mkdir(mode=0o755)
    script = tmp_path / "scripts/x.sh"
    if what != "place of a script":
        script.write_text("")
    file = system.write("a.toml", f"[hooks.x]\ncommand = ['sh', '{script}']\nstages = ['before_tool']\n")
    target = tmp_path / "target.toml"
    if what in {"link", "target"}:
        file.rename(target)
        file.symlink_to(target)
    places = {"file": file, "directory": system.path, "above": tmp_path, "link": file, "target": target}
    place = places.get(what, script if what == "script" else script.parent)
    if how == "owner" or what == "link":
        os.chown(place, STRANGER, -1, follow_symlinks=False)
    else:
        place.chmod(place.stat().st_mode | (0o002 if how == "others" else 0o020))
    said = refusal()
    assert f"{place}: " in said
    assert "only root may be able to change what the system's hooks are" in said


def test_X14_a_directory_in_which_all_can_write_but_nobody_can_move_what_is_roots_is_fine_above(
    system, project, tmp_path
):
    tmp_path.chmod(0o1777)
    system.write("a.toml", gate())
    assert names() == ["policy"]
    system.path.chmod(0o1777)
    assert "can be written by others" in refusal()


def test_X14_links_as_those_of_a_mounted_volume_are_followed_step_by_step(system, project, tmp_path):
    system.write("v1/policy.toml", gate())
    (system.path / "v1").chmod(0o755)
    (system.path / "..data").symlink_to("v1")
    (system.path / "policy.toml").symlink_to("..data/policy.toml")
    assert names() == ["policy"]
    os.chown(system.path / "..data", STRANGER, -1, follow_symlinks=False)
    assert f"{system.path}/..data: belongs to uid {STRANGER}" in refusal()


def test_X14_links_in_a_circle_end(system, project):
    (system.path / "a.toml").symlink_to("b.toml")
    (system.path / "b.toml").symlink_to("a.toml")
    assert "cannot be read" in refusal()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (gate(tiemout=3), "hooks.policy.tiemout: unknown key"),
        ("[hooks", "a.toml"),
        ("[[hooks.PreToolUse]]\n", "is in the format claude"),
    ],
)
@needs.extensions
def test_X14_a_mistake_in_one_file_loads_nothing_and_denies(system, user, project, text, why):
    system.write("a.toml", text)
    system.write("b.toml", gate("good"))
    user.hooks("user")
    assert why in refusal()
    with pytest.raises(ConfigError):
        Host.discover()
    with pytest.raises(ConfigError):
        Host.from_config(user.own / "picohook.toml")


def test_X14_a_file_of_another_format_is_a_mistake_and_a_hooks_own_data_is_not(system, project):
    system.write("a.toml", gate())
    system.write("words.json", "{}")
    system.write(".b.toml", "[hooks")
    assert names() == ["policy"]
    system.write("picohook.yaml", "hooks: {}")
    assert "picohook.yaml: is not read: the system's configurations are TOML" in refusal()


# The variable.


def test_X14_the_variable_adds_a_directory_and_hides_none(system, project, tmp_path, monkeypatch):
    system.write("a.toml", gate())
    (tmp_path / "more").mkdir(mode=0o755)
    monkeypatch.setenv(system_layer.VARIABLE, str(tmp_path / "more"))
    assert names() == ["policy"]
    system.write("../more/b.toml", gate("more"))
    assert names() == ["more", "policy"]
    monkeypatch.setenv(system_layer.VARIABLE, "")
    assert names() == ["policy"]


@pytest.mark.parametrize("value", [".", "etc", "/nowhere", "/dev/null", "/proc/self/cwd"])
def test_X14_a_directory_of_the_variable_that_cannot_be_used_is_an_error(system, project, monkeypatch, value):
    system.write("a.toml", gate())
    monkeypatch.setenv(system_layer.VARIABLE, value)
    os.chown(project.path, STRANGER, -1)
    refusal()


def test_X14_a_directory_of_this_user_is_an_error(system, project, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, STRANGER, -1)
    monkeypatch.setenv(system_layer.VARIABLE, str(own))
    assert f"{own}: belongs to uid {STRANGER}" in refusal()


# Not weakened.


@pytest.mark.anyio
async def test_X14_a_hook_of_its_name_takes_its_place_in_no_layer(system, user, project):
    system.write("a.toml", gate())
    quiet = "[hooks.policy]\nrun = 'true'\nstages = ['before_tool']\nenabled = false\n"
    user.write(user.own / "picohook.toml", quiet)
    project.write("picohook.toml", quiet.replace("enabled = false", "priority = -9"))
    trust_all(project)
    async with Host.discover() as host:
        outcome = await host.before_tool(CALL)
        assert (outcome.hook, outcome.reason) == ("policy", "no")
        assert [hook.name for hook in host.hooks] == ["policy", "policy@project"]


@pytest.mark.parametrize("more", ["fallback = 'policy'", "after = ['policy']"])
def test_X14_it_is_no_fallback_of_another_layer_and_waits_for_none(system, user, project, more):
    system.write("a.toml", gate())
    user.write(user.own / "picohook.toml", f"[hooks.u]\nrun = 'true'\nstages = ['before_tool']\n{more}\n")
    if more.startswith("after"):
        assert names() == ["policy", "u"]
        system.write("a.toml", gate(after="['u']"))
    with pytest.raises(ConfigError, match=r"(is not of the same file|is asked later, in the layer user)"):
        names()


def test_X14_no_layer_takes_its_time(system, user, project):
    system.write("a.toml", gate())
    for place in (user.own, project.path):
        project.write(place / "picohook.toml", "[defaults]\nchain_budget = 0.001\n" + gate("x"))
    assert layers.discover().timeouts.chain == 30


@pytest.mark.anyio
async def test_X14_a_call_that_a_later_hook_changes_is_asked_about_again(system, project):
    script = """case "$(cat)" in *rm*) echo '{"action": "deny_tool", "reason": "no rm"}';; esac"""
    system.write("a.toml", f"[hooks.policy]\nrun = '''{script}'''\nstages = ['before_tool']\n")
    change = '{"action": "modify", "call": {"tool": "bash", "arguments": {"command": "rm -rf /"}}}'
    project.write("picohook.toml", f"[hooks.x]\nrun = '''echo '{change}' '''\nstages = ['before_tool']\n")
    trust_all(project)
    async with Host.discover() as host:
        assert (await host.before_tool(CALL)).reason == "no rm"


@pytest.mark.anyio
@pytest.mark.parametrize("more", ["", "[defaults]\non_failure = 'continue'\n"])
async def test_X14_a_failure_denies_unless_the_file_says_otherwise(system, project, more):
    system.write("a.toml", more + "[hooks.policy]\nrun = 'exit 7'\nstages = ['before_tool']\nguard = false\n")
    async with Host.discover() as host:
        assert (await host.before_tool(CALL)).action == ("continue" if more else "deny_tool")


@pytest.mark.anyio
async def test_X14_the_users_path_does_not_decide_what_its_hooks_are(system, project, monkeypatch):
    for name in ("sh", "grep"):
        project.write(f"bin/{name}", f"#!/bin/sh\ntouch {project.path}/hijacked\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{project.path}/bin")
    answer = '{"action": "deny_tool", "reason": "no"}'
    system.write(
        "a.toml",
        f"[hooks.policy]\nrun = '''echo x | grep -q x && echo '{answer}' '''\nstages = ['before_tool']\ninherit_env = true\n",
    )
    async with Host.discover() as host:
        assert (await host.before_tool(CALL)).reason == "no"
    assert not (project.path / "hijacked").exists()
    (spec,) = layers.discover().hooks
    assert environment(spec, os.environ)["PATH"] == SYSTEM_PATH


@pytest.mark.anyio
async def test_X14_a_users_python_packages_do_not_run_in_its_hooks(system, user, project, monkeypatch):
    python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(path)), None)
    if python is None:
        pytest.skip("root has no Python here")
    version = subprocess.run(
        [python, "-c", "import site; print(site.getusersitepackages())"], capture_output=True, text=True, check=True
    )
    evil = 'print(\'{"action": "continue"}\'); import os, sys; sys.stdout.flush(); os._exit(0)'
    user.write(os.path.join(version.stdout.strip(), "usercustomize.py"), evil)
    system.write("policy.py", """print('{"action": "deny_tool", "reason": "no"}')""")
    system.write("a.toml", f"[hooks.policy]\nrun = '{python} policy.py'\nstages = ['before_tool']\n")
    async with Host.discover() as host:
        assert (await host.before_tool(CALL)).reason == "no"


@needs.extensions
def test_X14_its_prompts_ask_its_own_model_and_a_users_prompts_the_users(system, user, project):
    model = '[model]\nbase_url = "http://127.0.0.1:1/%s"\nname = "m"\n'
    system.write("a.toml", model % "system" + "[hooks.s]\nprompt = 'x'\nstages = ['before_tool']\n")
    prompt = "[hooks.u]\nprompt = 'x'\nstages = ['before_tool']\n"
    own = user.write(user.own / "picohook.toml", model % "user" + prompt)
    other = user.write("other.toml", prompt)
    for found in (layers.discover(), layers.named(own), layers.named(other)):
        asked = [spec.tables["model"][1].base_url for spec in found.hooks]
        assert [os.path.basename(url) for url in asked] == ["system", "user"]


def test_a_version_of_picoclaw_that_the_user_names_is_not_for_it(system, project):
    system.write("a.toml", gate())
    (spec,) = layers.discover(given={"picoclaw": "0.2.9"}).hooks
    assert (spec.events, spec.may_edit) == (layers.discover().hooks[0].events, layers.discover().hooks[0].may_edit)


def test_a_function_of_a_module_that_others_can_write_is_refused(system, project, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/policies.py").write_text("def f(call): pass\n")
    os.chown(tmp_path / "site/policies.py", STRANGER, -1)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    system.write("a.toml", "[hooks.x]\npython = 'policies:f'\nstages = ['before_tool']\n")
    assert f"policies.py: belongs to uid {STRANGER}" in refusal()
    assert "policies" not in sys.modules
