"""The native format: what a right file comes to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from picohook.cli.commands.new import contents
from picohook.config import load, schema
from picohook.errors import ConfigError
from picohook.model.spec import HookSpec, OnFailure, RespondRule, RestartPolicy, Timeouts

if TYPE_CHECKING:
    from config_files import Write

EXAMPLE_TOML = """
    [defaults]
    interceptor_timeout = 5.0
    approval_timeout = 60.0
    [hooks.review_gate]
    command = ["python3", "review_gate.py"]
    stages = ["before_tool", "approve_tool"]
    observe = ["tool_exec_start", "tool_exec_end"]
    priority = 100
    timeout = 5.0                 # intercept stages; approvals: approval_timeout, or timeouts = { approve_tool = 120 }
    on_failure = "deny"           # continue | deny | abort
    provides = ["get_weather"]    # tools it may answer without approval
    respond = "own"               # own | approve | forbid
    may_edit = ["tools", "system", "messages"]   # before_llm; default all; what it may not edit is refused visibly
    env = { LOG = "gate.log" }
    dir = "."
    restart = { max_starts = 5, window = 60 }
    required = false
    """

EXAMPLE_YAML = """
    defaults:
      interceptor_timeout: 5.0
      approval_timeout: 60.0
    hooks:
      review_gate:
        command: [python3, review_gate.py]
        stages: [before_tool, approve_tool]
        observe:
          - tool_exec_start
          - tool_exec_end
        priority: 100
        timeout: 5.0
        on_failure: deny
        provides: [get_weather]
        respond: own
        may_edit: [tools, system, messages]
        env: {LOG: gate.log}
        dir: .
        restart: {max_starts: 5, window: 60}
        required: false
    """

EXAMPLE: dict[str, Any] = {
    "defaults": {"interceptor_timeout": 5.0, "approval_timeout": 60.0},
    "hooks": {
        "review_gate": {
            "command": ["python3", "review_gate.py"],
            "stages": ["before_tool", "approve_tool"],
            "observe": ["tool_exec_start", "tool_exec_end"],
            "priority": 100,
            "timeout": 5.0,
            "on_failure": "deny",
            "provides": ["get_weather"],
            "respond": "own",
            "may_edit": ["tools", "system", "messages"],
            "env": {"LOG": "gate.log"},
            "dir": ".",
            "restart": {"max_starts": 5, "window": 60},
            "required": False,
        }
    },
}

MINIMAL = '[hooks.gate]\ncommand = ["gate"]\nstages = ["before_tool"]\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.toml", EXAMPLE_TOML), ("a.yaml", EXAMPLE_YAML), ("a.yml", EXAMPLE_YAML), ("a.json", json.dumps(EXAMPLE))],
)
def test_the_example_is_the_same_hook_in_every_syntax(write: Write, tmp_path: Path, name: str, text: str) -> None:
    path = write(name, text)
    config = load(path)

    assert config.dialect == "native"
    assert config.timeouts == Timeouts()
    assert config.hooks == (
        HookSpec(
            name="review_gate",
            source=str(path),
            command=("python3", "review_gate.py"),
            stages=("before_tool", "approve_tool"),
            observe=("tool_exec_start", "tool_exec_end"),
            priority=100,
            timeout=5.0,
            on_failure=OnFailure.DENY,
            provides=("get_weather",),
            respond=RespondRule.OWN,
            may_edit=("tools", "system", "messages"),
            env={"LOG": "gate.log"},
            dir=str(tmp_path),
            restart=RestartPolicy(max_starts=5, window=60),
            required=False,
        ),
    )


def test_stages_are_exact(write: Write) -> None:
    (hook,) = load(write("a.toml", MINIMAL)).hooks
    assert hook.asked_at == ("before_tool",)


def test_a_hook_runs_in_the_directory_of_its_file_wherever_the_host_runs(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("project/picohook.toml", MINIMAL)
    monkeypatch.chdir(tmp_path)
    (hook,) = load(path.relative_to(tmp_path)).hooks
    assert hook.dir == str(tmp_path / "project")


def test_a_path_is_relative_to_the_file_and_a_bare_program_is_left_to_the_search_path(
    write: Write, tmp_path: Path
) -> None:
    config = load(
        write(
            "a.toml",
            """
            [hooks.path]
            command = ["./bin/gate", "./rules"]
            stages = ["before_tool"]
            dir = "work"
            [hooks.bare]
            command = ["gate"]
            stages = ["before_tool"]
            dir = "/srv"
            [hooks.absolute]
            command = ["/usr/bin/gate"]
            stages = ["before_tool"]
            """,
        )
    )
    path, bare, absolute = config.hooks
    assert (path.command, path.dir) == ((f"{tmp_path}/bin/gate", "./rules"), f"{tmp_path}/work")
    assert (bare.command, bare.dir) == (("gate",), "/srv")
    assert absolute.command == ("/usr/bin/gate",)


def test_a_path_keeps_its_dots_because_the_directory_before_them_may_be_a_link(write: Write, tmp_path: Path) -> None:
    text = MINIMAL.replace('"gate"', '"a/../gate"')
    assert load(write("a.toml", text)).hooks[0].command == (f"{tmp_path}/a/../gate",)


def test_a_link_to_a_shared_file_means_the_hooks_beside_the_link(write: Write, tmp_path: Path) -> None:
    shared = write("shared/hooks.toml", MINIMAL)
    (tmp_path / "project").mkdir()
    link = tmp_path / "project" / "picohook.toml"
    link.symlink_to(shared)
    config = load(link)
    assert (config.path, config.hooks[0].dir) == (link, str(tmp_path / "project"))


def test_a_hook_that_is_not_enabled_is_left_out(write: Write) -> None:
    assert load(write("a.toml", MINIMAL + "enabled = false\n")).hooks == ()


def test_hooks_may_be_an_empty_table(write: Write) -> None:
    assert load(write("a.toml", "[hooks]\n")).hooks == ()


def test_default_timeouts_stay_beside_the_hooks(write: Write) -> None:
    config = load(
        write(
            "a.toml",
            """
            [defaults]
            observer_timeout = 1
            interceptor_timeout = 2
            approval_timeout = 3
            hello_timeout = 4
            chain_budget = 5
            """
            + MINIMAL.replace("\n", "\n            "),
        )
    )
    assert config.timeouts == Timeouts(observer=1, interceptor=2, approval=3, hello=4, chain=5)
    (hook,) = config.hooks
    assert (hook.timeout, hook.approval_timeout, hook.hello_timeout) == (None, None, None)


def test_other_defaults_apply_to_hooks_that_do_not_set_them(write: Write) -> None:
    config = load(
        write(
            "a.toml",
            """
            [defaults]
            on_failure = "deny"
            respond = "forbid"
            inherit_env = ["TOKEN"]
            grace = 7
            max_line_bytes = 1000
            session = "own"
            env = { A = "default", B = "default" }
            restart = { max_starts = 9, window = 90 }
            [hooks.plain]
            command = ["a"]
            stages = ["before_tool"]
            [hooks.own]
            command = ["a"]
            stages = ["before_tool"]
            on_failure = "continue"
            respond = "own"
            inherit_env = false
            grace = 2
            max_line_bytes = 2000
            session = "shared"
            env = { B = "own", C = "own" }
            restart = { window = 10 }
            """,
        )
    )
    plain, own = config.hooks
    assert (plain.on_failure, plain.respond) == (OnFailure.DENY, RespondRule.FORBID)
    assert (plain.inherit_env, plain.grace, plain.max_line_bytes, plain.session) == (("TOKEN",), 7, 1000, "own")
    assert plain.env == {"A": "default", "B": "default"}
    assert plain.restart == RestartPolicy(max_starts=9, window=90)
    assert (own.on_failure, own.respond) == (OnFailure.CONTINUE, RespondRule.OWN)
    assert (own.inherit_env, own.grace, own.max_line_bytes, own.session) == (False, 2, 2000, "shared")
    assert own.env == {"A": "default", "B": "own", "C": "own"}
    assert own.restart == RestartPolicy(max_starts=9, window=10)


def test_a_guard_fails_closed_whatever_the_defaults_say(write: Write) -> None:
    defaults = '[defaults]\non_failure = "continue"\n'
    assert load(write("a.toml", defaults + MINIMAL + "guard = true\n")).hooks[0].on_failure is OnFailure.DENY
    own = MINIMAL + 'guard = true\non_failure = "continue"\n'
    assert load(write("a.toml", own)).hooks[0].on_failure is OnFailure.CONTINUE


def test_every_event_kind_has_a_short_a_dotted_and_a_wild_name(write: Write) -> None:
    observe = '["tool_exec_end"]', '["agent.tool.exec_end"]', '["*"]', '["all"]', '[""]'
    for kinds in observe:
        text = f'[hooks.a]\ncommand = ["a"]\nobserve = {kinds}\n'
        assert "tool_exec_end" in load(write("a.toml", text)).hooks[0].kinds


def test_a_byte_order_mark_is_not_part_of_the_text(write: Write) -> None:
    assert load(write("a.toml", b"\xef\xbb\xbf" + MINIMAL.encode())).hooks


class TestSchema:
    def test_it_takes_the_example_and_refuses_mistakes(self) -> None:
        jsonschema = pytest.importorskip("jsonschema")
        jsonschema.Draft202012Validator.check_schema(schema())
        check = jsonschema.Draft202012Validator(schema())

        def changed(**keys: Any) -> dict[str, Any]:
            return {"hooks": {"gate": {"command": ["a"], "stages": ["before_tool"], **keys}}}

        assert check.is_valid(EXAMPLE)
        assert check.is_valid({"$schema": "./picohook.schema.json", **changed()})
        for wrong in (
            {},
            {"hooks": {"gate": {"stages": ["before_tool"]}}},
            {"hooks": {"gate": {"command": ["a"]}}},
            changed(stages=[]),
            changed(stages=["before_tol"]),
            changed(observe=["tool_exec_strat"]),
            changed(command=[]),
            changed(timeout=0),
            changed(name="gate"),
            changed(timout=1),
            changed(layer="user"),
        ):
            assert not check.is_valid(wrong), wrong

    def test_it_names_its_version_and_title(self) -> None:
        made = schema()
        assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert made["title"] == "picohook configuration"
        assert made["$defs"]["HookSpec"]["properties"]["priority"]["description"] == "Lower numbers are asked first."

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.json", json.dumps({"$schema": "picohook.schema.json", **EXAMPLE})),
            ("a.yaml", "# yaml-language-server: $schema=picohook.schema.json\n" + json.dumps(EXAMPLE)),
            ("a.toml", "#:schema picohook.schema.json\n" + MINIMAL),
        ],
    )
    def test_a_file_may_name_it_as_the_page_shows(self, write: Write, name: str, text: str) -> None:
        assert load(write(name, text)).hooks
        page = (Path(__file__).parents[2] / "docs/reference/config.md").read_text(encoding="utf-8")
        assert name == "a.json" or f"`{text.splitlines()[0]}`" in page

    def test_the_configuration_of_a_new_hook_names_it(self, write: Write) -> None:
        text = contents("guard", "python", ["before_tool"])["picohook.toml"]
        assert text.startswith("#:schema picohook.schema.json\n")
        assert load(write("picohook.toml", text)).hooks


class TestCanary:
    def canary(self, write: Write, canary: Any) -> HookSpec:
        table = {"command": ["a"], "stages": ["before_tool"], **({"canary": canary} if canary else {})}
        (spec,) = load(write("a.json", json.dumps({"hooks": {"gate": table}}))).hooks
        return spec

    def test_it_is_a_call(self, write: Write) -> None:
        canary = self.canary(write, {"tool": "bash", "arguments": {"command": "rm"}}).canary
        assert canary is not None
        assert (canary.tool, canary.arguments) == ("bash", {"command": "rm"})

    def test_it_does_not_change_the_fingerprint(self, write: Write) -> None:
        assert self.canary(write, {"tool": "bash"}).fingerprint == self.canary(write, None).fingerprint

    @pytest.mark.parametrize(
        ("canary", "message"),
        [({"tol": "bash"}, 'canary.tol: unknown key (did you mean "tool"?)'), ({"tool": ""}, "canary.tool")],
    )
    def test_a_wrong_one_is_a_mistake(self, write: Write, canary: Any, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            self.canary(write, canary)
        assert any(message in str(problem) for problem in caught.value.problems), str(caught.value)


def test_importing_the_package_loads_no_library() -> None:
    code = "import sys, picohook.config; print({'pydantic', 'yaml', 'platformdirs', 'tomllib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
