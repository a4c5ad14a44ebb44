"""What is said about a wrong native file: one clear message for each mistake, and all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import needs
import pytest

from picohook.config import load
from picohook.errors import ConfigError
from picohook.model.spec import StageName

if TYPE_CHECKING:
    from pathlib import Path

    from config_files import Complaints, Write

NUMBER = "must be a number of seconds above 0, not"
PICOCLAW = (
    "belongs to PicoClaw's format, which is JSON (in the native format, hooks has one table for each hook, by its name)"
)
LOADER = (
    "cannot be set by a configuration that was found: it decides what code a program loads"
    " (name the configuration: --config FILE)"
)
STAGES = ", ".join(get_args(StageName))
NEITHER = f"is never asked and never told: it has neither stages nor observe (known: {STAGES})"
NAMED = "each hook has a table with its name: [hooks.NAME]"
KNOWN = "known: $schema, defaults, hooks, audit, foreign, grants, guards, model, nats, picoclaw, proof_of_life"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('timeout = "5s"', f'.timeout: {NUMBER} "5s"'),
        ('timeout = "5"', f'.timeout: {NUMBER} "5"'),
        ("timeout = 0", f".timeout: {NUMBER} 0"),
        ("timeout = -1.5", f".timeout: {NUMBER} -1.5"),
        ("timeout = true", f".timeout: {NUMBER} true"),
        ("timeout = nan", f".timeout: {NUMBER} NaN"),
        ("approval_timeout = inf", f".approval_timeout: {NUMBER} Infinity"),
        ("grace = []", f".grace: {NUMBER} a list"),
        ("timout = 5", '.timout: unknown key (did you mean "timeout"?)'),
        (
            "timeouts = { before_tol = 5 }",
            '.timeouts.before_tol: "before_tol" is not a stage (did you mean "before_tool"?)',
        ),
        ('timeouts = { before_tool = "x" }', f'.timeouts.before_tool: {NUMBER} "x"'),
        ("priority = 1.5", ".priority: must be a whole number, not 1.5"),
        ("priority = true", ".priority: must be a whole number, not true"),
        ("max_line_bytes = 0", ".max_line_bytes: must be 1 or more, not 0"),
        ('enabled = "no"', '.enabled: must be true or false, not "no"'),
        ("required = 1", ".required: must be true or false, not 1"),
        ("dir = 5", ".dir: must be text, not 5"),
        ('dir = "a\\u0000b"', ".dir: holds a NUL character"),
        ('provides = "get_weather"', '.provides: must be a list, not "get_weather"'),
        ('on_failure = "denny"', '.on_failure: "denny" is not one of continue, deny, abort'),
        ('respond = "never"', '.respond: "never" is not one of own, approve, forbid'),
        ('may_edit = ["tool"]', '.may_edit[0]: "tool" is not one of tools, system, messages'),
        ('inherit_env = "yes"', '.inherit_env: must be true, false or a list of names, not "yes"'),
        ('inherit_env = ["A", 1]', ".inherit_env[1]: must be text, not 1"),
        ("env = { PORT = 8080 }", '.env.PORT: must be text, not 8080 (in quotes: "8080")'),
        (
            'env = { "A=B" = "x" }',
            '.env."A=B": cannot be in an environment: an empty name, a = in it, or a NUL character',
        ),
        (
            'env = { A = "\\u0000" }',
            ".env.A: cannot be in an environment: an empty name, a = in it, or a NUL character",
        ),
        ("restart = { max_starts = 0 }", ".restart.max_starts: must be 1 or more, not 0"),
        ("restart = { windw = 1 }", '.restart.windw: unknown key (did you mean "window"?)'),
        ("restart = false", ".restart: must be a table of keys and values, not false"),
        ('name = "other"', ".name: cannot be set in a file: a hook's name is its key (leave it out)"),
        ('layer = "builtin"', ".layer: cannot be set in a file: a hook's name is its key (leave it out)"),
        ('filter = { tol = "bash" }', '.filter.tol: unknown key (did you mean "tool"?)'),
        ('filter = "bash"', '.filter: must be a table of keys and values, not "bash"'),
        ("retry = 101", ".retry: must be 100 or less, not 101"),
        ("max_in_flight = 0", ".max_in_flight: must be 1 or more, not 0"),
        (
            'observe = ["tool_exec_strat"]',
            '.observe[0]: "tool_exec_strat" is not an event kind (did you mean "tool_exec_start"?)',
        ),
        (
            'observe = ["*", "agent.tool.exec_edn"]',
            '.observe[1]: "agent.tool.exec_edn" is not an event kind (did you mean "agent.tool.exec_end"?)',
        ),
        ('observe = "*"', '.observe: must be a list, not "*"'),
    ],
)
def test_one_mistake_is_one_message(complaints: Complaints, line: str, complaint: str) -> None:
    text = f'[hooks.gate]\ncommand = ["gate"]\nstages = ["before_tool"]\n{line}\n'
    assert complaints("a.toml", text) == [f"hooks.gate{complaint}"]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (
            'stages = ["before_tool"]',
            ': has none of command, run, python, approver, ask, nats, prompt (such as command = ["python3", "hook.py"])',
        ),
        (
            'stages = ["before_tool"]\ncommand = []',
            ': has none of command, run, python, approver, ask, nats, prompt (such as command = ["python3", "hook.py"])',
        ),
        ('stages = ["before_tool"]\ncommand = [""]', ".command: the program's name is empty"),
        ('stages = ["before_tool"]\ncommand = ["a\\u0000"]', ".command: an argument holds a NUL character"),
        (
            'stages = ["before_tool"]\ncommand = "python3 gate.py"',
            '.command: give a list, one element an argument: ["python3", "gate.py"]',
        ),
        ('command = ["a"]', f": {NEITHER}"),
        ('command = ["a"]\nstages = []\nobserve = []', f": {NEITHER}"),
        (
            'command = ["a"]\nstages = ["before_tol"]',
            '.stages[0]: "before_tol" is not a stage (did you mean "before_tool"?)',
        ),
        (
            'command = ["a"]\nstages = [7]',
            f".stages[0]: 7 is not a stage (known: {STAGES})",
        ),
        ('command = ["a"]\nstages = "before_tool"', '.stages: must be a list, not "before_tool"'),
        ('command = ["a"]\nstages = ["before_tool", "before_tool"]', '.stages[1]: "before_tool" is named twice'),
        ('command = ["a"]\nstage = ["before_tool"]', '.stage: unknown key (did you mean "stages"?)'),
        (
            'command = ["a"]\nstages = ["approve_tool"]\nguard = true',
            ".guard: has no effect: its stages do not name before_tool",
        ),
        (
            'command = ["a"]\nstages = ["before_tol"]\nguard = true',
            '.stages[0]: "before_tol" is not a stage (did you mean "before_tool"?)',
        ),
        ('comand = ["a"]\nstages = ["before_tool"]', '.comand: unknown key (did you mean "command"?)'),
    ],
)
@needs.other_rooms
def test_a_hook_needs_something_to_run_and_a_stage_or_an_event(
    complaints: Complaints, table: str, complaint: str
) -> None:
    assert complaints("a.toml", f"[hooks.gate]\n{table}\n") == [f"hooks.gate{complaint}"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[defaults]\ninterceptor_timeout = 0\n[hooks]", f"defaults.interceptor_timeout: {NUMBER} 0"),
        ("[defaults]\nchain_buget = 1\n[hooks]", 'defaults.chain_buget: unknown key (did you mean "chain_budget"?)'),
        ("[defaults]\nenv = { A = 1 }\n[hooks]", 'defaults.env.A: must be text, not 1 (in quotes: "1")'),
        ("[hook.gate]", 'hook: unknown key (did you mean "hooks"?)'),
        ("on_failure = 'deny'\n[hooks]", 'on_failure: unknown key (did you mean "defaults.on_failure"?)'),
        ("hooks = []", f"hooks: must be a table of keys and values, not a list ({NAMED})"),
        ("[hooks]\ngate = 'gate.py'", f'hooks.gate: must be a table of keys and values, not "gate.py" ({NAMED})'),
        (
            "# nothing but a comment",
            "has no hooks (a hook is a table [hooks.NAME] with a command, and stages or observe)",
        ),
    ],
)
def test_mistakes_around_the_hooks_are_named(complaints: Complaints, text: str, complaint: str) -> None:
    assert complaints("a.toml", text) == [complaint]


@pytest.mark.parametrize("name", ["enabled", "defaults", "builtins", "processes"])
@needs.other_rooms
def test_picoclaws_format_is_json_only(complaints: Complaints, name: str) -> None:
    assert complaints("a.yaml", f"hooks:\n  {name}: {{gate: {{command: [a]}}}}\n") == [
        f"hooks.{name}: {PICOCLAW}",
    ]


def test_a_key_that_looks_like_a_schema_path_is_shown_unchanged(complaints: Complaints) -> None:
    (complaint,) = complaints("a.toml", '[hooks."[key]"]\ncommand = ["a"]\nobserve = ["*"]\ntimeout = 0\n')
    assert complaint == f'hooks."[key]".timeout: {NUMBER} 0'


@pytest.mark.parametrize("name", ["", " ", "a\\u001b[2J", "a\\u202eb", "a\\nb"])
def test_a_name_must_be_fit_to_be_shown(complaints: Complaints, name: str) -> None:
    (complaint,) = complaints("a.toml", f'[hooks."{name}"]\ncommand = ["a"]\nstages = ["before_tool"]\n')
    assert complaint.endswith(" cannot be a hook's name (give it one that can be read and shown)")
    assert complaint.isprintable()


@needs.other_rooms
def test_all_mistakes_of_a_file_are_reported_at_once(complaints: Complaints) -> None:
    text = """
        speed = 1
        [defaults]
        grace = "2s"
        [hooks.a]
        stages = ["before_tool"]
        timout = 5
        observe = ["turn_strat"]
        [hooks.b]
        command = ["b"]
        [hooks.c]
        command = ["c"]
        stages = ["approve"]
        """
    assert complaints("a.toml", text) == [
        f'defaults.grace: {NUMBER} "2s"',
        f"speed: unknown key ({KNOWN})",
        'hooks.a.timout: unknown key (did you mean "timeout"?)',
        'hooks.a.observe[0]: "turn_strat" is not an event kind (did you mean "turn_start"?)',
        f"hooks.b: {NEITHER}",
        'hooks.c.stages[0]: "approve" is not a stage (did you mean "approve_tool"?)',
    ]


def test_an_unknown_key_without_a_near_one_lists_all_known_keys(complaints: Complaints) -> None:
    (complaint,) = complaints("a.toml", '[hooks.a]\ncommand = ["a"]\nstages = ["before_tool"]\nxyz = 1\n')
    assert complaint.startswith("hooks.a.xyz: unknown key (known: command, run, python, fallback, stages, ")


def test_values_are_shown_short_and_without_control_characters(complaints: Complaints) -> None:
    (complaint,) = complaints(
        "a.json", '{"hooks": {"a\\u001b]0;x": {"command": ["a"], "observe": ["*"], "dir": 1}, "b": 2}}'
    )[:1]
    assert "\x1b" not in complaint
    long = "x" * 5000
    (complaint,) = complaints("a.toml", f'[hooks.a]\ncommand = ["a"]\nobserve = ["*"]\non_failure = "{long}"\n')
    assert len(complaint) < 200


class TestSyntax:
    @pytest.mark.parametrize(
        ("name", "text", "complaint"),
        [
            ("a.toml", "[hooks.a]\ncommand = [x]\n", "line 2, column 12: is not TOML: Invalid value"),
            ("a.toml", "a = [", "end of document: is not TOML: Invalid value"),
            (
                "a.toml",
                "[hooks.a]\ndir = 'a'\ndir = 'b'\n",
                "line 3, column 10: is not TOML: Cannot overwrite a value (this key was given before: keep one)",
            ),
            ("a.json", '{\n  "hooks": }', "line 2, column 12: is not JSON: Expecting value"),
            (
                "a.yaml",
                "a: [1\nb: 2\n",
                "line 2, column 2: is not YAML: while parsing a flow sequence, expected ',' or ']', but got ':'",
            ),
            (
                "a.yaml",
                "a: 1\n---\nb: 2\n",
                "line 2, column 1: is not YAML: expected a single document in the stream, but found another document",
            ),
            (
                "a.yaml",
                "hooks: !x {}",
                "line 1, column 8: is not YAML: could not determine a constructor for the tag '!x'",
            ),
            ("a.yaml", "a: \0", "character 3: is not YAML: special characters are not allowed"),
            ("a.json", "[]", "must be a table of keys and values, not a list"),
            ("a.yaml", "hooks", 'must be a table of keys and values, not "hooks"'),
            ("a.toml", b'a = "\xff"', "byte 5: is not UTF-8"),
            ("a.json", '{"a": 1}'.encode("utf-16"), "byte 0: is not UTF-8"),
            ("a.toml", "a = " + "[" * 5000, "is nested too deeply"),
            ("a.json", "[" * 100_000, "is nested too deeply"),
            ("a.yaml", "[" * 3000, "is nested too deeply"),
            ("a.json", '{"hooks": {"a": ' + "[" * 400 + "]" * 400 + "}}", "is nested too deeply"),
            (
                "a.json",
                '{"hooks": {"a": {"\\ud800": 1}}}',
                "hooks.a: holds half of a surrogate pair, which is not text",
            ),
            ("a.toml", f"a = 0x{'f' * 9000}", "holds a value that is too large to read"),
        ],
    )
    def test_text_that_cannot_be_parsed_is_a_mistake(
        self, complaints: Complaints, name: str, text: str | bytes, complaint: str
    ) -> None:
        assert complaints(name, text) == [complaint]

    def test_a_number_of_thousands_of_digits(self, complaints: Complaints) -> None:
        for name, text in (("a.toml", "a = {}"), ("a.yaml", "a: {}"), ("a.json", '{{"a": {}}}')):
            (complaint,) = complaints(name, text.format("1" * 5000))
            assert "cannot be read: " in complaint

    @pytest.mark.parametrize("name", ["a.toml", "a.yaml", "a.json"])
    def test_an_empty_file(self, complaints: Complaints, name: str) -> None:
        hint = "(a hook is a table [hooks.NAME] with a command, and stages or observe)"
        assert complaints(name, " \n") == [f"is empty {hint}"]

    def test_a_key_given_twice_in_json(self, complaints: Complaints) -> None:
        text = '{"hooks": {"a": {"command": ["a"], "observe": ["*"], "timeout": 1, "timeout": 2}}}'
        assert complaints("a.json", text) == ["hooks.a.timeout: is given twice"]

    def test_a_key_given_twice_in_yaml(self, complaints: Complaints) -> None:
        text = "hooks:\n  a:\n    command: [a]\n    observe: ['*']\n    dir: a\n    dir: b\n"
        assert complaints("a.yaml", text) == ["hooks.a.dir: is given twice"]

    def test_a_key_given_twice_hides_no_other_mistake(self, complaints: Complaints) -> None:
        text = "hooks:\n  a:\n    command: [a]\n    stages: [x]\n    dir: a\n    dir: b\n"
        assert len(complaints("a.yaml", text)) == 2

    @pytest.mark.parametrize("key", ["on", "1", "2020-01-01", "null", "[a]", "<<", "!!str [a]"])
    def test_a_yaml_key_that_is_not_text(self, complaints: Complaints, key: str) -> None:
        assert complaints("a.yaml", f"hooks:\n  {key}: {{}}\n") == [
            "line 2, column 3: this key is not text to YAML (put it in quotes)"
        ]

    @pytest.mark.parametrize("value", ["!!timestamp x", "!!bool x", "!!int x"])
    def test_a_yaml_value_that_does_not_fit_its_tag(self, complaints: Complaints, value: str) -> None:
        (complaint,) = complaints("a.yaml", f"hooks: {value}\n")
        assert complaint.startswith("cannot be read: ")

    @pytest.mark.parametrize("text", ["a: &x [1]\nb: *x\n", "a: &x [*x]\n", "a: &x {}\nb:\n  <<: *x\n"])
    def test_yaml_aliases_are_refused(self, complaints: Complaints, text: str) -> None:
        (complaint,) = complaints("a.yaml", text)
        assert "anchors and aliases are not read" in complaint or "this key is not text" in complaint

    def test_many_aliases_of_aliases_are_refused_at_once(self, complaints: Complaints) -> None:
        lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
        (complaint,) = complaints("a.yaml", "\n".join(lines))
        assert "anchors and aliases are not read" in complaint

    @pytest.mark.parametrize(
        ("name", "text"),
        [("a.yaml", "hooks:\n  a:\n    env:\n      D: 2020-01-01\n"), ("a.toml", "hooks.a.env.D = 2020-01-01\n")],
    )
    def test_a_date_is_not_read_as_text(self, complaints: Complaints, name: str, text: str) -> None:
        assert complaints(name, text) == ["hooks.a.env.D: is a date, and no setting takes one (put it in quotes)"]

    @pytest.mark.parametrize(("name", "suffix"), [("a.ini", ".ini"), ("a", ""), ("a.TOML", ".TOML")])
    def test_an_unknown_suffix_is_a_mistake(self, complaints: Complaints, name: str, suffix: str) -> None:
        assert complaints(name, "x") == [f'"{suffix}" is not a known suffix (known: .toml, .yaml, .yml, .json, .jsonc)']


def test_a_problem_has_its_parts_as_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('[hooks.a]\ncommand = ["a"]\nstages = ["before_tol"]\n')
    path.chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.where) == (str(path), "hooks.a.stages[0]")
    assert (problem.message, problem.hint) == ('"before_tol" is not a stage', 'did you mean "before_tool"?')


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "ENV", "PATH"]
)
def test_X9_only_a_named_config_may_set_loader_variables(
    tmp_path: Path, complaints: Complaints, name: str, *, found: bool
) -> None:
    text = f'[hooks.a]\ncommand = ["a"]\nobserve = ["*"]\nenv = {{ {name} = "x" }}\n'
    if found:
        assert complaints("a.toml", text, found=True) == [f"hooks.a.env.{name}: {LOADER}"]
    else:
        (tmp_path / "a.toml").write_text(text)
        (tmp_path / "a.toml").chmod(0o644)
        assert load(tmp_path / "a.toml").hooks[0].env == {name: "x"}


def test_X9_each_loader_variable_of_a_found_config_is_a_problem_of_its_own(complaints: Complaints) -> None:
    text = """
        [defaults]
        env = { LD_LIBRARY_PATH = "x" }
        [hooks.a]
        command = ["a"]
        observe = ["*"]
        env = { PYTHONHOME = "x", PYTHONUNBUFFERED = "1", PERL5OPT = "x" }
        """
    found = complaints("a.toml", text, found=True)
    assert [line.split(":")[0] for line in found] == [
        "defaults.env.LD_LIBRARY_PATH",
        "hooks.a.env.PYTHONHOME",
        "hooks.a.env.PERL5OPT",
    ]


def test_a_yaml_file_of_comments_only(complaints: Complaints) -> None:
    hint = "a hook is a table [hooks.NAME] with a command, and stages or observe"
    assert complaints("a.yaml", "# later\n") == [f"has no hooks ({hint})"]


@pytest.mark.parametrize("path", ["../log", "/tmp/log", "logs/../../log", "~/../../log"])
@needs.other_rooms
def test_X10_a_projects_file_writes_in_its_project_alone(complaints: Complaints, write: Write, path: str) -> None:
    text = f'[hooks]\n[audit]\npath = "{path}"\n'
    project = write("project/hook.py", "").parent
    elsewhere = (
        f"lies outside of {project}: a project's file writes only in the project (set it in your own configuration)"
    )
    said = complaints("project/picohook.toml", text, found=True)
    assert said == [f"audit.path: {elsewhere}"]
    load(project / "picohook.toml")  # the user named it


@needs.other_rooms
def test_a_projects_file_writes_anywhere_in_its_project(write: Write) -> None:
    text = '[hooks]\n[audit]\npath = "../logs/log"\n'
    config = load(write("project/.picohook/picohook.toml", text), found=True)
    assert "audit" in config.tables
    assert config.project.name == "project"
