"""Commands that nobody told which configuration: all that are found, and what each hook is from."""

from __future__ import annotations

import os
import sys

import pytest

DENY = "def before_tool(params): return {'action': 'deny_tool', 'reason': '%s'}"
CALL = ("call", "before_tool", "--params", '{"tool": "bash"}')


@pytest.fixture
def user(project):
    """Writes a configuration of the user's own."""

    def write(text, place=".config/picohook/picohook.toml"):
        path = project.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
        return path

    return write


@pytest.fixture
def jcli(project):
    """Writes j-cli's file of the project."""

    def write(text):
        path = project.path / ".jcli" / "hooks.yaml"
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o644)
        return path

    return write


def table(name, **keys):
    lines = {"run": f"'printf %s {name} >> journal'", "stages": "['before_tool']", **keys}
    return f"[hooks.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


def asked(done):
    return [entry["hook"] for entry in done.json["trail"]]


def test_every_layer_is_asked_in_its_order(project, user, jcli):
    user(table("mine", priority=900, dir=f"'{project.path}'"))
    user("pre_tool_execution:\n  - command: printf jcli >> journal\n", ".jdata/agent/hooks.yaml")
    project.table("ours", run="printf ours >> journal", stages=["before_tool"], priority=1)
    jcli("pre_tool_execution:\n  - command: printf project-jcli >> journal\n")
    assert project("trust").code == 0

    done = project(*CALL, "--json")

    assert asked(done) == ["pre_tool_execution-1", "mine", "ours", "pre_tool_execution-1@project"]
    assert (project.path / "journal").read_text() == "jclimineoursproject-jcli"


def test_a_file_that_is_named_is_the_only_one(project, user):
    user(table("mine"))
    project.hook("ours", DENY % "ours")

    done = project(*CALL, "--json", "--config", "picohook.toml")

    assert (done.json["reason"], asked(done)) == ("ours", ["ours"])


def test_the_users_own_configuration_is_enough_and_needs_no_trust(project, user):
    user(table("mine"))

    assert asked(project(*CALL, "--json")) == ["mine"]


@pytest.mark.parametrize("command", [CALL, ("run", "/dev/null"), ("list",)])
def test_an_untrusted_project_stops_everything_and_every_file_to_trust_is_named(project, user, jcli, command):
    user(table("mine"))
    project.hook("ours", "open('journal', 'w')")
    file = jcli("stop:\n  - command: printf x >> journal\n")

    done = project(*command)

    assert (done.code, done.out) == (1, "")
    assert [line.partition(" was found here and is not trusted yet")[0] for line in done.err.splitlines()] == [
        f"Error: {project.config}:",
        f"Error: {file}:",
    ]
    assert not (project.path / "journal").exists()


def test_trust_is_given_to_all_files_of_a_project_and_removed_from_all(project, user, jcli):
    user(table("mine"))
    project.hook("ours", "")
    file = jcli("stop:\n  - command: python3 check.py\n")
    script = project.path / "check.py"
    script.write_text("1")

    given = project("trust", "--json")
    assert [(line["config"], line["files"][1:]) for line in given.lines] == [
        (str(project.config), [str(project.path / "ours.py")]),
        (str(file), [str(script)]),
    ]
    assert project("list").code == 0
    script.write_text("2")
    changed = project("list")
    assert (changed.code, changed.err.partition(" (")[0]) == (1, f"Error: {script}: changed since it was trusted")
    taken = project("trust", "--remove", "--json")
    assert [(line["config"], line["was_trusted"]) for line in taken.lines] == [
        (str(project.config), True),
        (str(file), True),
    ]


def test_trust_without_a_project_file_is_wrong_usage_even_if_the_user_has_a_configuration(project, user):
    user(table("mine"))
    done = project("trust")
    assert done.code == 2
    assert "there is no picohook.toml, picohook.yaml or picohook.json here: there is nothing to trust" in done.err


def test_trust_in_a_file_that_commands_never_find_warns(project):
    project.table("a", run="true", stages=["before_tool"])
    project.config.rename(project.path / "other.toml")
    done = project("trust", "other.toml")
    assert done.code == 0
    assert f"Warning: {project.path}/other.toml is not found by itself in any directory" in done.err


def test_a_mistake_in_any_file_stops_everything_and_all_mistakes_are_named(project, user):
    own = user(table("mine", stages="['before_tol']"))
    project.table("ours", run="true", stages=["before_tol"])

    done = project(*CALL)

    assert (done.code, done.out) == (1, "")
    mistake = '"before_tol" is not a stage (did you mean "before_tool"?)'
    assert done.err.splitlines() == [
        f"Error: {own}: hooks.mine.stages[0]: {mistake}",
        f"Error: {project.config}: hooks.ours.stages[0]: {mistake}",
    ]


def test_a_file_that_others_could_have_written_is_refused(project, user):
    user(table("mine")).chmod(0o666)
    done = project(*CALL)
    assert done.code == 1
    assert "can be written by everyone, who could make it run anything (chmod o-w)" in done.err


# list


def test_list_says_which_layer_and_file_each_hook_is_from(project, user, jcli):
    own = user(table("gate"))
    project.table("gate", run="true", stages=["before_tool"], after=["gate"])
    file = jcli("stop:\n  - command: 'true'\n")
    assert project("trust").code == 0

    done = project("list")

    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[:9] == [
        [str(own), "(user,", "native,", "hooks:", "1)"],
        [str(project.config), "(project,", "native,", "hooks:", "1)"],
        [str(file), "(project,", "jcli,", "hooks:", "1)"],
        [],
        ["hook", "layer", "file", "runs"],
        ["gate", "user", "~/.config/picohook/picohook.toml", "printf", "%s", "gate", ">>", "journal"],
        ["gate@project", "project", "picohook.toml", "true"],
        ["stop-1", "project", ".jcli/hooks.yaml", "true"],
        [],
    ]


def test_list_in_json_has_the_layer_and_the_file(project, user):
    own = user(table("gate"))
    project.table("gate", run="true", stages=["before_tool"])
    assert project("trust").code == 0

    listed = project("list", "--json").json

    assert listed["configs"] == [
        {"config": str(own), "layer": "user", "dialect": "native", "hooks": 1},
        {"config": str(project.config), "layer": "project", "dialect": "native", "hooks": 1},
    ]
    assert [(hook["name"], hook["layer"], hook["source"]) for hook in listed["hooks"]] == [
        ("gate", "user", str(own)),
        ("gate@project", "project", str(project.config)),
    ]
    assert [hook["hook"] for hook in listed["stages"]["before_tool"]] == ["gate", "gate@project"]


# check


def test_check_examines_every_file_that_would_be_used(project, user, jcli):
    own = user(table("mine", after="['ours']"))
    project.table("ours", command=["no-such-program"], stages=["before_tool"], timeout=31)
    file = jcli("stop:\n  - {command: 'true', timeout: 40}\n")

    people, programs = project("check"), project("check", "--json").json

    assert people.code == 1
    assert people.out.splitlines()[0].split() == ["hook", "program", "runs"]
    assert ": ok" not in people.out
    assert [(problem["file"], problem["where"]) for problem in programs["problems"]] == [
        (str(own), "hooks.mine.after"),
        (str(project.config), "hooks.ours"),
    ]
    assert [(warning["file"], warning["where"]) for warning in programs["warnings"]] == [
        (str(project.config), "hooks.ours.timeout"),
        (str(file), "stop[0].timeout"),
        (str(project.config), ""),
        (str(file), ""),
    ]
    assert [(hook["name"], hook["layer"], hook["source"]) for hook in programs["hooks"]] == [
        ("mine", "user", str(own)),
        ("ours", "project", str(project.config)),
        ("stop-1", "project", str(file)),
    ]


def test_check_names_the_key_in_the_file_of_a_renamed_hook(project, user):
    user(table("gate"))
    project.table("gate", run="true", stages=["before_tool"], after=["gat"])

    done = project("check")

    assert done.code == 1
    assert f"Error: {project.config}: hooks.gate.after: there is no hook 'gat'" in done.err


def test_check_prints_ok_for_every_file(project, user):
    own = user(table("mine"))
    project.table("ours", run="true", stages=["before_tool"], after=["mine"])
    assert project("trust").code == 0

    done = project("check")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-2:] == [f"{own}: ok", f"{project.config}: ok"]


@pytest.mark.parametrize(
    ("after", "where", "why"),
    [
        (["gat"], "hooks.late.after", "there is no hook 'gat' (did you mean \"gate\"?)"),
        (["late"], "hooks.late.after", "waits for itself: late after late (remove one `after` of the cycle)"),
    ],
)
def test_check_finds_hooks_that_wait_for_an_unknown_hook(project, after, where, why):
    project.table("gate", run="true", stages=["before_tool"])
    project.table("late", run="true", stages=["before_tool"], after=after)

    done = project("check", "picohook.toml")

    assert done.code == 1
    assert f"Error: {project.config}: {where}: {why}\n" in done.err


def test_check_warns_of_settings_without_effect(project):
    project.table("gate", run="true", stages=["before_tool", "before_llm"], filter={}, timeout=31)
    text = project.config.read_text().replace("filter = {}", 'filter = { tool = "bash", when = { scpe = 1 } }')
    project.config.write_text(text)

    done = project("check", "picohook.toml")

    assert done.code == 0
    assert [line.removeprefix(f"Warning: {project.config}: hooks.gate.") for line in done.err.splitlines()] == [
        "filter.when.scpe: before_tool has no such field, so the hook is never asked there",
        "filter.tool: before_llm has no such field, so the hook is never asked there",
        "filter.when.scpe: before_llm has no such field, so the hook is never asked there",
        *(
            f"timeout: 31 s at {stage} is more than the 30 s of the whole chain, which run out first"
            " (raise defaults.chain_budget)"
            for stage in ("before_llm", "before_tool")
        ),
    ]


def test_a_hook_of_a_project_runs_where_the_project_is(project, jcli):
    jcli("pre_tool_execution:\n  - command: pwd > where; printf '{}'\n")
    assert project("trust").code == 0
    assert project(*CALL).code == 0
    assert (project.path / "where").read_text() == f"{project.path}\n"


def test_a_python_hook_of_a_directory_of_ours_is_trusted_by_its_file(project):
    directory = project.path / ".picohook"
    directory.mkdir()
    (directory / "beside.py").write_text("def decide(call):\n    open('ran', 'w')\n")
    config = directory / "picohook.toml"
    config.write_text(table("a", python="'beside:decide'").replace("run = 'printf %s a >> journal'\n", ""))
    config.chmod(0o644)
    assert project("trust", "--json").json["files"] == [str(config), str(directory / "beside.py")]
    assert project(*CALL).code == 0
    assert (project.path / "ran").exists()
    (directory / "beside.py").write_text("changed")
    assert f"{directory}/beside.py: changed since it was trusted" in project(*CALL).err


def test_a_python_hook_that_is_found_by_its_import_is_trusted_by_its_files_too(project):
    (project.path / "lib" / "inner").mkdir(parents=True)
    (project.path / "lib" / "__init__.py").write_text("open('ran', 'a').write('lib')\n")
    hook = project.path / "lib" / "inner" / "hook.py"
    hook.write_text("def decide(call):\n    pass\n")
    (project.path / "elsewhere").mkdir()
    project.table("a", python="lib.inner.hook:decide", stages=["before_tool"], dir="elsewhere")

    files = project("trust", "--json").json["files"]

    assert not (project.path / "ran").exists()
    assert files == [str(project.config), str(project.path / "lib" / "__init__.py"), str(hook)]
    assert project(*CALL, "--json").json["trail"][0]["error"] is None
    hook.write_text("changed")
    assert f"{hook}: changed since it was trusted" in project(*CALL).err


def test_on_a_terminal_there_is_no_question_either(project):
    project.hook("ours", "open('journal', 'w')")
    with project.start(*CALL, stdin=None) as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")
    assert "then: picohook trust)" in err
    assert sys.executable not in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns what is the system's")
def test_X14_commands_show_and_ask_the_systems_hooks_with_and_without_a_named_configuration(project, tmp_path):
    system = tmp_path / "system"
    system.mkdir(mode=0o755)
    (system / "a.toml").write_text(table("policy", run='"echo \'{\\"action\\": \\"deny_tool\\"}\'"'))
    project.hook("ours", DENY % "ours")
    env = {"PICOHOOK_SYSTEM_CONFIG": str(system)}
    for named in ([], ["--config", "picohook.toml"]):
        assert f"{system}/a.toml is root's and needs no trust" in project("trust", env=env).out
        assert asked(project(*CALL, "--json", *named, env=env)) == ["policy"]
        assert f"{system}/a.toml (system, native, hooks: 1)" in project("list", *named, env=env).out
    (system / "a.toml").write_text(table("policy", tiemout="3"))
    for command in (CALL, ("list",), ("check",), ("mcp", "--", "true"), ("serve",), ("doctor",)):
        done = project(*command, env=env)
        assert done.code == 1
        assert "hooks.policy.tiemout" in done.out + done.err
