from __future__ import annotations

import json
import shutil
import sys

import pytest

MARKER = "open('started', 'w')"


def started(project):
    return (project.path / "started").exists()


# check


def test_check_shows_the_program_of_each_hook_and_starts_nothing(project):
    project.hook("gate", MARKER)
    project.table("other", command=["sh", "-c", "exit 1"], stages=["after_tool"])

    done = project("check", "picohook.toml")

    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["hook", "program", "runs"],
        ["gate", sys.executable, sys.executable, "gate.py"],
        ["other", shutil.which("sh"), "sh", "-c", "'exit", "1'"],
        [f"{project.config}:", "ok"],
    ]
    assert not started(project)


def test_check_in_json_has_the_same(project):
    project.hook("gate", MARKER)

    done = project("check", "picohook.toml", "--json")

    assert done.code == 0
    assert done.json == {
        "ok": True,
        "configs": [{"config": str(project.config), "layer": None, "dialect": "native", "hooks": 1}],
        "hooks": [
            {
                "name": "gate",
                "layer": None,
                "source": str(project.config),
                "runs": f"{sys.executable} gate.py",
                "program": sys.executable,
                "model": None,
                "dir": str(project.path),
            }
        ],
        "problems": [],
        "warnings": [],
    }


def test_check_names_every_hook_that_cannot_be_run(project):
    project.hook("good", MARKER)
    project.table("gone", command=["./gone"], stages=["before_tool"])
    project.table("unknown", command=["no-such-program"], stages=["before_tool"])
    project.table("nowhere", command=["sh"], stages=["before_tool"], dir="nowhere")
    project.table("circle", command=["sh"], stages=["before_tool"], after=["circle"])

    people = project("check", "picohook.toml")
    programs = project("check", "picohook.toml", "--json")

    assert people.code == programs.code == 1
    for hook, why in {
        "gone": f"cannot be started: {project.path}/gone does not exist",
        "unknown": "cannot be started: the command 'no-such-program' is not on the PATH",
        "nowhere": f"cannot be started: its directory {project.path}/nowhere does not exist",
    }.items():
        assert f"Error: {project.config}: hooks.{hook}: {why}\n" in people.err
        problem = {"file": str(project.config), "where": f"hooks.{hook}", "message": why, "hint": ""}
        assert problem in programs.json["problems"]
    assert "hooks.circle.after: waits for itself" in people.err
    assert ": ok" not in people.out
    assert programs.json["ok"] is False
    assert [hook["name"] for hook in programs.json["hooks"] if hook["program"]] == ["good", "circle"]
    assert not started(project)


def test_check_finds_the_code_of_hooks_that_are_not_processes(project):
    (project.path / "beside.py").write_text(MARKER)
    project.table("shell", run="exit 1", stages=["before_tool"])
    project.table("function", python="beside:function", stages=["before_tool"])
    project.table("installed", python="json.tool:main", stages=["before_tool"])
    project.table("missing", python="no_such_module:main", stages=["before_tool"])
    project.table("model", prompt="Is {{tool_name}} harmless?", stages=["before_tool"])

    done = project("check", "picohook.toml", "--json")

    assert {hook["name"]: (hook["runs"], hook["program"]) for hook in done.json["hooks"]} == {
        "shell": ("exit 1", shutil.which("sh")),
        "function": ("beside:function", str(project.path / "beside.py")),
        "installed": ("json.tool:main", "json.tool"),
        "missing": ("no_such_module:main", None),
        "model": ("Is {{tool_name}} harmless?", None),
    }
    assert [problem["where"] for problem in done.json["problems"]] == ["hooks.missing"]
    assert not started(project)


def test_check_names_every_mistake_in_the_file(project):
    project.table("a", command=["sh"], stages=["before_tol"])
    project.table("b", stages=["before_tool"])

    people = project("check", "picohook.toml")
    programs = project("check", "picohook.toml", "--json")

    assert people.code == programs.code == 1
    assert [line.partition(":")[0] for line in people.err.splitlines()] == ["Error", "Error"]
    assert [problem["where"] for problem in programs.json["problems"]] == ["hooks.a.stages[0]", "hooks.b"]
    assert programs.json["problems"][0]["hint"] == 'did you mean "before_tool"?'


def test_check_warns_of_a_missing_script(project):
    project.table("gate", command=[sys.executable, "gate.py"], stages=["before_tool"])

    done = project("check", "picohook.toml")

    assert done.code == 0
    assert done.err == f"Warning: {project.config}: hooks.gate: there is no {project.path}/gate.py\n"


def test_check_without_a_name_takes_the_file_in_the_directory_and_says_that_it_is_not_trusted(project):
    project.hook("gate", MARKER)

    done = project("check")

    assert done.code == 0
    assert f"Warning: {project.config}: was found here and is not trusted yet" in done.err
    assert done.err.endswith("then: picohook trust)\n")
    assert done.out.endswith(f"{project.config}: ok\n")


# list


def test_list_has_the_hooks_of_each_stage_in_order_with_their_settings(project):
    project.hook("late", MARKER, stages=["before_tool", "approve_tool"], priority=9, timeout=0.5, provides=["a", "b"])
    project.hook("early", MARKER, priority=1, on_failure="abort", required=True, observe=["turn_end", "turn_start"])

    done = project("list", "--config", "picohook.toml")

    assert (done.code, done.err) == (0, "")
    python = sys.executable
    assert [line.split() for line in done.out.splitlines()] == [
        [str(project.config), "(native,", "hooks:", "2)"],
        [],
        ["hook", "layer", "file", "runs"],
        ["early", "user", "picohook.toml", python, "early.py"],
        ["late", "user", "picohook.toml", python, "late.py"],
        [],
        ["before_tool"],
        ["hook", "priority", "timeout", "on", "failure", "settings"],
        ["early", "1", "5", "s", "abort", "required"],
        ["late", "9", "0.5", "s", "continue", "provides", "a", "b"],
        [],
        ["approve_tool"],
        ["hook", "priority", "timeout", "on", "failure", "settings"],
        ["late", "9", "60", "s", "deny", "provides", "a", "b"],
        [],
        ["events"],
        ["hook", "kinds"],
        ["early", "turn_start", "turn_end"],
    ]
    assert not started(project)


def test_list_in_json_has_the_same_and_no_secret(project):
    project.hook("late", MARKER, priority=1, after=["early"], on_failure="deny")
    project.hook("early", MARKER, priority=2, observe=["turn_end"], timeouts={})
    project.config.write_text(project.config.read_text().replace("timeouts = {}", 'env = { TOKEN = "s3cret" }'))

    done = project("list", "--config", "picohook.toml", "--json")

    assert "s3cret" not in done.out
    listed = done.json
    assert listed["configs"] == [{"config": str(project.config), "layer": None, "dialect": "native", "hooks": 2}]
    assert listed["stages"] == {
        "before_tool": [{"hook": "early", "timeout": 5.0}, {"hook": "late", "timeout": 5.0}],
    }
    assert listed["events"] == {"turn_end": ["early"]}
    early, late = listed["hooks"]
    assert (early["name"], early["source"], early["layer"]) == ("early", str(project.config), "user")
    assert (early["env"], early["priority"]) == (["TOKEN"], 2)
    assert (late["name"], late["on_failure"], late["after"]) == ("late", "deny", ["early"])


def test_text_of_a_configuration_cannot_act_on_a_terminal(project):
    odd = project.path / "odd\x1b[2J"
    odd.mkdir()
    project.table("gate", command=["sh", "-c", "\x9b31m", "\x1b[2J"], stages=["before_tool"], trust=[])
    project.table("wrong", command=["\x1b[2J"], stages=["before_tool"], trust=[])
    project.config.rename(odd / "picohook.toml")
    name = "odd\x1b[2J/picohook.toml"

    for command in (["list", "--config", name], ["check", name], ["trust", name]):
        done = project(*command)
        assert "odd\\x1b[2J/picohook.toml" in done.out + done.err
        assert "\\x9b31m" in done.out
        assert not {"\x1b", "\x9b"} & set(done.out + done.err)


# schema


def test_the_schema_of_the_configuration_is_json_on_stdout(project):
    pretty = project("schema", "config")
    compact = project("schema", "config", "--json")

    assert pretty.json == compact.json
    assert "before_tool" in str(compact.json["$defs"]["HookSpec"]["properties"]["stages"])
    assert compact.out.count("\n") == 1


def test_each_stage_has_a_schema_of_its_params(project):
    schema = project("schema", "before_tool").json

    assert {"tool", "arguments", "meta"} <= schema["properties"].keys()
    assert project("schema", "before_llm", "--json").json["properties"].keys() >= {"model", "messages"}


def test_an_unknown_schema_is_an_error_that_names_a_near_one(project):
    for wrong, hint in (("confg", "config"), ("before_tol", "before_tool"), ("protocl", "protocol")):
        done = project("schema", wrong)
        assert (done.code, done.out) == (2, "")
        assert f'there is no schema of "{wrong}" (did you mean "{hint}"?)' in done.err
    assert "known: config, protocol, before_prompt, " in project("schema", "xyz").err


# trust


def test_a_found_configuration_runs_once_it_is_trusted_until_it_changes(project):
    script = project.hook("gate", "def before_tool(params): return {'action': 'deny_tool', 'reason': 'gate'}")
    ask = ("call", "before_tool", "--params", '{"tool": "x"}', "--json")

    refused = project(*ask)
    assert (refused.code, refused.out) == (1, "")
    assert f"Error: {project.config}: was found here and is not trusted yet" in refused.err
    assert "picohook trust" in refused.err
    assert project("list").code == 1

    shown = project("trust")
    assert shown.code == 0
    assert f"{sys.executable} gate.py" in shown.out
    assert {f"  {project.config}", f"  {script}"} <= set(shown.out.splitlines())
    assert shown.out.endswith(f"{project.config} is trusted\n")

    assert project(*ask).json["reason"] == "gate"

    script.write_text(script.read_text() + "# changed\n")
    changed = project(*ask)
    assert changed.code == 1
    assert f"Error: {script}: changed since it was trusted" in changed.err


def test_a_hook_that_changed_while_the_program_runs_is_not_started_again(project):
    project.hook(
        "gate",
        """
        def before_tool(params):
            with open("gate.py", "a") as file:
                file.write("# changed")
            sys.exit(3)
        """,
    )
    (project.path / "script.jsonl").write_text('{"stage": "before_tool", "params": {"tool": "x"}}\n' * 2)
    assert project("trust").code == 0

    done = project("run", "script.jsonl", "--json")

    first, second = (line["trail"][0]["error"] for line in done.lines)
    assert "exited with code 3" in first
    assert "changed since it was trusted" in second


def test_trust_in_json_has_the_covered_files_and_can_be_removed(project):
    script = project.hook("gate", "")

    assert project("trust", "--json").json == {
        "config": str(project.config),
        "trusted": True,
        "hooks": [{"name": "gate", "runs": f"{sys.executable} gate.py"}],
        "files": [str(project.config), str(script)],
        "model": None,
        "writes": [],
    }
    assert project("list").code == 0
    removed = {"config": str(project.config), "trusted": False}
    assert project("trust", "--remove", "--json").json == {**removed, "was_trusted": True}
    assert project("list").code == 1
    assert project("trust", "--remove", "--json").json == {**removed, "was_trusted": False}


def test_X10_trust_shows_every_path_that_is_written(project):
    project.hook("gate", "")
    text = project.config.read_text()
    project.config.write_text(f'{text}\n[audit]\npath = "logs/a"\n')
    path = str(project.path / "logs/a")

    assert f"picohook writes an audit log: {path}" in project("trust").out.splitlines()
    assert project("trust", "--json").json["writes"] == [path]


def test_trust_in_a_file_named_with_the_option_can_be_given_and_removed(project):
    project.hook("gate", "")

    assert project("trust", "--config", "picohook.toml").code == 0
    assert project("list").code == 0
    assert project("trust", "--remove", "--config", "picohook.toml").out == "picohook.toml is no longer trusted\n"
    assert project("list").code == 1


def test_a_configuration_that_is_named_needs_no_trust(project):
    project.hook("gate", "")

    assert project("list", "--config", "picohook.toml").code == 0


@pytest.mark.parametrize("command", ["check", "trust", "doctor"])
def test_a_configuration_is_named_once_as_an_argument_or_with_an_option(project, command):
    project.hook("gate", "")
    (project.path / "elsewhere").mkdir()
    project.config = project.config.rename(project.path / "elsewhere" / "hooks.toml")
    (project.path / "gate.py").rename(project.path / "elsewhere" / "gate.py")

    argument = project(command, "elsewhere/hooks.toml", "--json")
    option = project(command, "--config", "elsewhere/hooks.toml", "--json")
    both = project(command, "elsewhere/hooks.toml", "--config", "elsewhere/hooks.toml")

    assert argument.code == option.code == 0
    assert "gate" in argument.out
    assert json.loads(argument.out).keys() == json.loads(option.out).keys()
    assert (both.code, both.out) == (2, "")
    assert "give one of elsewhere/hooks.toml and --config elsewhere/hooks.toml" in both.err


@pytest.mark.parametrize("command", [["list"], ["check"], ["call", "before_llm"]])
def test_without_a_configuration_it_is_wrong_usage_with_a_way_out(project, command):
    done = project(*command)

    assert (done.code, done.out) == (2, "")
    assert "there is no picohook.toml, picohook.yaml or picohook.json here, and none of your own: " in done.err


def test_two_configurations_in_a_directory_are_a_failure(project):
    project.hook("gate", "")
    (project.path / "picohook.json").write_text("{}")

    done = project("list")

    assert done.code == 1
    assert f"Error: {project.path}: has picohook.toml and picohook.json (keep one of them)" in done.err


@pytest.fixture(autouse=True)
def _commands_are_shown(project):
    project.python = sys.executable
