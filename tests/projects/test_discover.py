"""Which configurations are found, and what they come to together."""

from __future__ import annotations

import os

import needs
import pytest

from picohook import ConfigError, HookSpec, Timeouts, TrustError
from picohook.engine.order import in_order
from picohook.projects.layers import candidates, discover

from .conftest import trust_all


def found(directory=None):
    return [(spec.layer, os.path.basename(spec.source), spec.name) for spec in discover(directory).hooks]


def order(layers):
    return [hook.name for hook in in_order(spec.make() for spec in layers.hooks)]


def test_an_empty_directory_has_no_configuration(project):
    layers = discover()
    assert (layers.configs, layers.hooks, layers.timeouts) == ((), (), Timeouts())


@needs.extensions
def test_the_users_files_come_before_the_projects(user, project):
    project.jcli_hook("d")
    project.hooks("c", priority=1)
    user.jcli_hook("b")
    user.hooks("a", priority=999)

    assert found() == [
        ("user", "picohook.toml", "a"),
        ("user", "hooks.yaml", "pre_send_message-1"),
        ("project", "picohook.toml", "c"),
        ("project", "hooks.yaml", "pre_send_message-1@project"),
    ]
    assert order(discover()) == ["pre_send_message-1", "a", "c", "pre_send_message-1@project"]


@needs.extensions
def test_a_projects_fallback_is_its_own_hook_and_not_the_users_of_the_same_name(user, project):
    gate = '[hooks.gate]\nrun = "true"\nstages = ["before_tool"]\n'
    user.write(user.own / "picohook.toml", gate)
    project.write("picohook.toml", gate + '[hooks.r]\nnats = "r"\nfallback = "gate"\nstages = ["before_tool"]\n')
    assert {spec.name: spec.fallback for spec in discover().hooks} == {
        "gate": None,
        "gate@project": None,
        "r": "gate@project",
    }


@pytest.mark.parametrize("name", ["picohook.toml", "picohook.yaml", "picohook.json"])
@pytest.mark.parametrize("within", ["", ".picohook"])
def test_a_projects_file_lies_in_it_or_in_a_directory_of_ours(project, within, name):
    table = '{"hooks": {"a": {"run": "true", "stages": ["before_tool"]}}}'
    text = '[hooks.a]\nrun = "true"\nstages = ["before_tool"]\n' if name.endswith("toml") else table
    path = project.write(os.path.join(within, name), text)

    (config,) = discover().configs
    assert (config.path, config.project, config.found, config.layer) == (path, project.path, True, "project")


def test_two_files_of_one_kind_are_a_mistake_that_names_both(user, project):
    project.hooks("a")
    project.hooks("a", within=".picohook")
    user.hooks("b")
    user.write(user.own / "picohook.json", "{}")

    with pytest.raises(ConfigError) as caught:
        discover()
    assert str(caught.value).splitlines() == [
        f"{user.own}: has picohook.toml and picohook.json (keep one of them)",
        f"{project.path}: has picohook.toml and .picohook/picohook.toml (keep one of them)",
    ]


@needs.extensions
def test_the_mistakes_of_all_files_are_reported_together(user, project):
    user.write(user.own / "picohook.toml", "[hooks.a]\nobserve = ['*']\n")
    user.write(user.jcli, "stop:\n  - {}\n")
    project.write("picohook.toml", '[hooks.b]\nrun = "true"\nstages = ["before_tol"]\n')

    with pytest.raises(ConfigError) as caught:
        discover()
    assert [(os.path.basename(problem.file), problem.where) for problem in caught.value.problems] == [
        ("picohook.toml", "hooks.a"),
        ("hooks.yaml", "stop[0]"),
        ("picohook.toml", "hooks.b.stages[0]"),
    ]


def test_a_broken_link_is_a_mistake_and_not_an_absence(project):
    (project.path / "picohook.toml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="there is no such file"):
        discover()


def test_a_directory_that_does_not_exist_is_a_mistake(user, tmp_path):
    with pytest.raises(ConfigError, match="there is no such directory"):
        discover(tmp_path / "gone")


@needs.extensions
def test_another_directory_can_be_given(project, tmp_path, monkeypatch):
    project.jcli_hook("a")
    project.hooks("b")
    monkeypatch.chdir("/")

    layers = discover(project.path)
    assert [spec.name for spec in layers.hooks] == ["b", "pre_send_message-1"]
    assert {spec.dir for spec in layers.hooks} == {str(project.path)}


@needs.extensions
def test_the_users_jcli_hooks_run_where_the_project_is(user, project):
    user.jcli_hook("a")
    (spec,) = discover(project.path).hooks
    assert (spec.dir, spec.inherit_env) == (str(project.path), True)


def test_the_users_own_directory_is_not_a_project(user, monkeypatch):
    user.hooks("a")
    monkeypatch.chdir(user.own)
    assert found() == [("user", "picohook.toml", "a")]
    discover().require_trust()


# Together.


def test_hooks_of_one_name_are_all_asked_and_told_apart(user, project):
    user.hooks("gate")
    project.hooks("gate", "late", after=[])
    assert [name for _, _, name in found()] == ["gate", "gate@project", "late"]


def test_no_name_is_taken_twice_whatever_the_files_call_their_hooks(user, project):
    user.hooks("gate", '"gate@project"')
    project.hooks("gate", '"gate@project"')
    names = [name for _, _, name in found()]
    assert len(set(names)) == 4
    assert names[:2] == ["gate", "gate@project"]


def test_after_means_the_hook_of_its_own_file_first_and_then_one_of_the_users(user, project):
    user.hooks("gate", "audit")
    project.write(
        "picohook.toml",
        """
        [hooks.gate]
        run = "true"
        stages = ["before_prompt"]
        priority = 5
        [hooks.early]
        run = "true"
        stages = ["before_prompt"]
        priority = 1
        after = ["gate", "audit"]
        """,
    )
    layers = discover()
    assert layers.hooks[-1].after == ("gate@project", "audit")
    assert order(layers) == ["audit", "gate", "gate@project", "early"]


def test_a_hook_can_come_after_that_of_its_own_name_in_the_layer_before(user, project):
    user.hooks("gate")
    project.hooks("gate", after=["gate"])
    layers = discover()
    assert layers.hooks[-1].after == ("gate",)
    assert order(layers) == ["gate", "gate@project"]


def test_a_user_cannot_wait_for_a_project(user, project):
    user.hooks("a", after=["b"])
    project.hooks("b")
    with pytest.raises(ConfigError, match=r"hooks\.a\.after: 'b' is asked later, in the layer project"):
        order(discover())


def test_each_hook_keeps_the_timeouts_of_its_own_file(user, project):
    user.hooks("a", defaults="interceptor_timeout = 2\nhello_timeout = 7\nchain_budget = 60")
    project.hooks("b", defaults="approval_timeout = 9")
    layers = discover()
    a, b = layers.hooks

    def at(spec, stage):
        return spec.timeout_at(stage, layers.timeouts, approves=stage == "approve_tool")

    assert (at(a, "before_tool"), at(a, "approve_tool"), a.hello_timeout or layers.timeouts.hello) == (2, 60, 7)
    assert (at(b, "before_tool"), at(b, "approve_tool"), b.hello_timeout or layers.timeouts.hello) == (5, 9, 5)


def test_the_last_file_that_sets_the_hosts_own_timeouts_wins(user, project):
    user.hooks("a", defaults="observer_timeout = 3\nchain_budget = 60")
    project.hooks("b", defaults="observer_timeout = 4")
    project.jcli_hook("c")
    assert (discover().timeouts.observer, discover().timeouts.chain) == (4, 60)


# Who may say what runs.


@needs.extensions
def test_a_projects_file_needs_trust_and_the_users_own_does_not(user, project):
    user.hooks("a")
    user.jcli_hook("a")
    discover().require_trust()
    project.hooks("b")
    project.jcli_hook("b")

    with pytest.raises(TrustError) as caught:
        discover().require_trust()
    assert [problem.file for problem in caught.value.problems] == [
        str(project.path / "picohook.toml"),
        str(project.jcli),
    ]
    trust_all(project)
    discover().require_trust()


def test_trust_covers_the_scripts_in_and_beside_a_directory_of_ours(project):
    project.write("check.py", "1")
    project.write(
        ".picohook/picohook.toml",
        """
        [hooks.a]
        command = ["python3", "sign.py"]
        stages = ["before_tool"]
        [hooks.b]
        command = ["python3", "../check.py"]
        stages = ["before_tool"]
        """,
    )
    project.write(".picohook/sign.py", "1")
    trust_all(project)
    for name in ("check.py", ".picohook/sign.py"):
        project.write(name, "2")
        with pytest.raises(TrustError, match=rf"{name}: changed since it was trusted"):
            discover().require_trust()
        project.write(name, "1")
    discover().require_trust()


@needs.extensions
def test_trust_in_jcli_hooks_is_the_same_from_wherever_it_is_given(project, monkeypatch):
    project.write("check.py", "1")
    project.write(".jcli/hooks.yaml", "stop:\n  - command: python3 check.py\n")
    monkeypatch.chdir("/")
    trust_all(project)
    monkeypatch.chdir(project.path)
    discover().require_trust()
    project.write("check.py", "2")
    with pytest.raises(TrustError, match=r"check\.py: changed since it was trusted"):
        discover().require_trust()


def test_a_file_that_others_could_have_written_is_refused_in_every_layer(user, project):
    user.hooks("a").chmod(0o666)
    project.hooks("b").chmod(0o666)
    with pytest.raises(ConfigError) as caught:
        discover()
    assert [problem.message.partition(",")[0] for problem in caught.value.problems] == [
        "can be written by everyone"
    ] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_users_file_that_belongs_to_another_user_is_refused(user, project):
    os.chown(user.hooks("a"), 12345, -1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        discover()


def test_only_a_project_may_not_set_loader_variables(user, project):
    user.hooks("a", defaults='env = { PYTHONPATH = "lib" }')
    discover()
    project.hooks("b", defaults='env = { PYTHONPATH = "lib" }')
    with pytest.raises(
        ConfigError, match=r"defaults\.env\.PYTHONPATH: cannot be set by a configuration that was found"
    ):
        discover()


def test_one_hook_is_held_against_its_own_file_only(user, project):
    user.hooks("a")
    project.hooks("b")
    trust_all(project)
    layers = discover()
    project.write("sign.py", "changed")
    layers.verify(layers.hooks[0])
    layers.verify(HookSpec(name="mounted", command=("python3", str(project.path / "sign.py"))))
    with pytest.raises(TrustError, match="changed since it was trusted"):
        layers.verify(layers.hooks[1])


def test_candidates_include_files_that_do_not_exist_yet(user, project):
    looked_at = {str(path) for path in candidates()}
    user.hooks("a")
    user.jcli_hook("a")
    project.hooks("b", within=".picohook")
    project.jcli_hook("b")
    assert {str(config.path) for config in discover().configs} <= looked_at
    assert str(user.own / "trust.json") in looked_at
