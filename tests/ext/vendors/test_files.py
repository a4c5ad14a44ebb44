"""Files of other agents: whose they are, what is read of them, what is found, and what needs trust."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from picohook import ConfigError, Host, OnFailure, ToolCall, TrustError, foreign_hooks
from picohook.cli.app import app
from picohook.config import load
from picohook.ext.vendors.spec import GroupSpec
from picohook.projects import layers
from picohook.projects.trust import covered, trust

GUARD = "grep -q 'rm -rf' && exit 2; exit 0"


def test_settings_are_known_by_their_place_and_their_shape(settings, write):
    assert load(settings(PreToolUse=GUARD)).dialect == "claude"
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    assert load(write("plugins/x/hooks/hooks.json", {"description": "x", **hooks})).dialect == "claude"
    assert load(write(".claude/settings.local.json", {"permissions": {}})).hooks == ()


def test_settings_of_gemini_may_have_comments(write):
    hooks = '{"BeforeTool": [{"hooks": [{"type": "command", "command": "echo //"}]}]}'
    path = write(".gemini/settings.json", f'// mine\n{{"a": "/*", /* yours\n */ "hooks": {hooks}}}')
    assert [member.command[-1] for member in load(path).hooks[0].members] == ["echo //"]
    with pytest.raises(ConfigError, match="line 2, column 11"):
        load(write(".gemini/settings.json", '{ // "mine"\n "hooks": x'))


def test_each_event_is_one_hook_with_its_handlers(settings):
    config = load(settings(PreToolUse=GUARD, Stop="true"))
    assert [spec.name for spec in config.hooks] == ["claude:PreToolUse", "claude:Stop"]
    gate, stop = config.hooks
    assert isinstance(gate, GroupSpec)
    assert (gate.stages, gate.on_failure, gate.timeout) == (("before_tool",), OnFailure.DENY, 600)
    assert (stop.stages, stop.on_failure) == (("before_finish",), OnFailure.CONTINUE)
    assert config.timeouts.chain == 600


def test_a_project_file_runs_in_its_project(settings, project, tmp_path, monkeypatch):
    path = settings(PreToolUse=GUARD)
    monkeypatch.chdir(tmp_path)
    (member,) = load(path).hooks[0].members
    assert (member.dir, member.env["CLAUDE_PROJECT_DIR"]) == (str(project), str(project))


def test_a_plugin_knows_its_own_directory(write, project):
    handler = {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/x.sh", "args": ["${CLAUDE_PLUGIN_ROOT}/y"]}
    path = write("plug/hooks/hooks.json", {"hooks": {"Stop": [{"hooks": [handler]}]}})
    (member,) = load(path).hooks[0].members
    assert member.command == (str(project / "plug/x.sh"), str(project / "plug/y"))
    assert member.env["CLAUDE_PLUGIN_ROOT"] == str(project / "plug")
    assert member.env["CLAUDE_PROJECT_DIR"] == str(project)


def handlers(settings, **handler):
    return load(settings(PreToolUse={"type": "command", "command": "x", **handler}))


@pytest.mark.parametrize(
    ("handler", "warning"),
    [
        ({"timeout": 60_000}, "timeout: 60000 is in seconds, not in milliseconds"),
        ({"once": True}, "once: it has an effect only in a skill"),
        ({"async": True}, "async: it runs in the background, so it refuses nothing"),
        ({"speed": 1}, "speed: picohook does not know this setting of Claude Code, and ignores it"),
        ({"type": "agent", "prompt": "x"}, "it cannot be run, and in strict it denies: picohook has no agent"),
        ({"matcher": "mcp__memory"}, "mcp__memory is the whole name of a tool"),
        ({"matcher": "run_shell_command"}, "run_shell_command matches no tool of Claude Code (did you mean Bash?)"),
        ({"matcher": "(?<=a)b"}, "(?<=a)b matches everything, because it cannot be read: look-around"),
        ({"matcher": "Bash(rm *)"}, "Bash(rm *) matches no tool of Claude Code (did you mean Bash?)"),
    ],
)
def test_what_does_not_do_what_it_seems_to_do_is_named(settings, handler, warning):
    assert any(warning in one for one in handlers(settings, **handler).warnings)


@pytest.mark.parametrize(
    ("events", "warning"),
    [
        ({"ConfigChange": "x"}, "its handlers never run, so it refuses nothing here"),
        ({"Notification": "x"}, "its handlers never run: picohook has no event for it"),
        ({"Stop": {"type": "command", "command": "x", "matcher": "y"}}, "Stop ignores it: its handlers always run"),
        ({"Stop": {"type": "command", "command": "x", "if": "Bash"}}, "Stop is not about a tool"),
    ],
)
def test_what_never_runs_is_named(settings, events, warning):
    assert any(warning in one for one in load(settings(**events)).warnings)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ({"PreToolUsee": "x"}, 'is not an event of Claude Code (did you mean "PreToolUse"?)'),
        ({"PreToolUse": {"type": "command"}}, "is of type command and has no command"),
        ({"PreToolUse": {"type": "comand", "command": "x"}}, '"comand" is not a type of handler'),
        ({"PreToolUse": {"type": "command", "command": "x", "timeout": "5"}}, "timeout: must be a number"),
        ({"PreToolUse": {"type": "command", "command": "x", "if": "Bash("}}, "is not a permission rule"),
        ({"PreToolUse": {"type": "http", "url": "ftp://x"}}, "is not a URL"),
        ({"SessionStart": {"type": "prompt", "prompt": "x"}}, "SessionStart runs only commands"),
        ({"PreToolUse": [{"hooks": ["x"]}]}, "PreToolUse[0].hooks[0]: must be a table"),
    ],
)
def test_a_wrong_entry_fails_the_load_in_strict_and_is_left_out_for_the_vendor(settings, events, problem):
    path = settings(**events, Stop="true")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert problem in str(caught.value)
    hooks = foreign_hooks(path, failures="vendor")
    assert [hook.name for hook in hooks] == ["claude:Stop"]


def test_a_setting_that_the_vendor_does_not_know_has_no_effect(write):
    handler = {"type": "command", "command": "true", "if": "Bash(git *)"}
    hooks = {"PreToolUse": [{"hooks": [handler]}], "Stop": [{"hooks": [{**handler, "if": 1}]}]}
    config = load(write(".codex/hooks.json", {"hooks": hooks}))
    assert [hook.filter.rules[0].only_if for hook in config.hooks] == ["", ""]


def test_all_hooks_can_be_switched_off(write):
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}
    config = load(write(".claude/settings.json", {"disableAllHooks": True, "hooks": hooks}))
    assert (config.hooks, config.enabled) == ((), False)


def test_a_configuration_names_files_and_says_what_holds_for_them(settings, write, project):
    settings(PreToolUse=GUARD)
    write(".claude/settings.local.json", {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}})
    path = write(
        "picohook.toml",
        """
        [[foreign]]
        file = ".claude/settings.json"
        failures = "vendor"
        limits = { memory = "64M" }
        tools = { sh = { same_as = "Bash" } }

        [[foreign]]
        file = ".claude/settings.local.json"
        dialect = "claude"
        """,
    )
    config = load(path)
    first, second = config.hooks
    assert (first.name, first.failures, first.on_failure) == ("claude:PreToolUse", "vendor", OnFailure.CONTINUE)
    assert first.members[0].limits.memory == 64 << 20
    assert first.filter.matches(ToolCall(tool="sh"))
    assert (second.name, second.on_failure) == ("claude:PreToolUse-2", OnFailure.DENY)
    assert config.key_paths[second.name] == "foreign[1] hooks.PreToolUse"
    assert first.file == str(project / ".claude/settings.json")


def test_a_chain_budget_that_is_set_is_kept(settings, write):
    settings(PreToolUse=GUARD)
    path = write("picohook.toml", '[defaults]\nchain_budget = 5\n[[foreign]]\nfile = ".claude/settings.json"\n')
    assert load(path).timeouts.chain == 5


def test_a_file_whose_owner_cannot_be_told_has_to_be_named(write):
    write("x.json", {"hooks": {}})
    path = write("picohook.toml", '[[foreign]]\nfile = "x.json"\n')
    with pytest.raises(ConfigError, match="does not show which agent's hooks it has"):
        load(path)


# Found, and trusted.


def test_both_settings_of_a_project_and_the_users_are_found(settings, write, project):
    settings(Stop="true")
    write(".claude/settings.local.json", {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "false"}]}]}})
    home = project.parent / "home" / ".claude" / "settings.json"
    home.parent.mkdir(parents=True)
    home.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo"}]}]}}))
    found = layers.discover()
    assert [(spec.layer, spec.name, spec.members[0].runs) for spec in found.hooks] == [
        ("user", "claude:Stop", "echo"),
        ("project", "claude:Stop@project", "true"),
        ("project", "claude:Stop@project-2", "false"),
    ]
    assert found.hooks[0].members[0].dir == str(project)


@pytest.mark.parametrize(
    "command",
    [
        "jq -e .stop_hook_active >/dev/null || { echo no >&2; exit 2; }",
        'cd "$CLAUDE_PROJECT_DIR" && jq .x | grep -q y && exit 2; exit 0',
    ],
)
def test_one_liners_of_the_public_shapes_can_be_trusted(settings, command):
    found = load(settings(PreToolUse=command), found=True)
    trust(found)
    assert covered(found) == (str(found.path),)


def test_what_cannot_be_trusted_says_where_its_files_are_named(settings):
    with pytest.raises(TrustError, match=r"name them for this file in \[\[foreign\]\]"):
        trust(load(settings(PreToolUse="cd /tmp && make"), found=True))


def test_settings_without_hooks_need_no_trust(write):
    write(".claude/settings.json", {"permissions": {"allow": ["Bash"]}})
    assert layers.discover().configs == ()


def test_trust_covers_the_scripts_that_commands_run(settings, write, project):
    script = write(".claude/hooks/x.sh", "#!/bin/sh\n", 0o755)
    path = settings(PreToolUse='"$CLAUDE_PROJECT_DIR"/.claude/hooks/x.sh')
    config = load(path, found=True)
    assert covered(config) == (str(path), str(script))
    trust(config)
    layers.discover().require_trust()
    script.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(TrustError, match=r"x\.sh: changed since it was trusted"):
        layers.discover().require_trust()


def test_trust_covers_the_file_that_a_projects_configuration_names(settings, write):
    named = settings(PreToolUse="true")
    path = write("picohook.toml", '[[foreign]]\nfile = ".claude/settings.json"\n')
    assert covered(load(path, found=True)) == (str(path), str(named))


def test_a_command_that_only_the_shell_can_read_is_not_trusted(settings):
    config = load(settings(PreToolUse="eval $X"), found=True)
    with pytest.raises(TrustError, match="only the shell can tell what this runs"):
        trust(config)


@pytest.mark.anyio
async def test_a_script_that_changed_while_the_host_runs_denies(settings, write):
    script = write(".claude/hooks/x.sh", "#!/bin/sh\nexit 0\n", 0o755)
    trust(load(settings(PreToolUse="$CLAUDE_PROJECT_DIR/.claude/hooks/x.sh"), found=True))
    async with Host.discover() as host:
        assert (await host.before_tool(ToolCall(tool="bash"))).action == "continue"
        script.write_text("#!/bin/sh\nexit 0\n\n")
        outcome = await host.before_tool(ToolCall(tool="bash"))
        assert outcome.action == "deny_tool"
        assert "changed since it was trusted" in outcome.trail[0].error


def test_commands_take_such_a_file_directly(settings, capfd):
    path = settings(PreToolUse=GUARD, Stop={"type": "http", "url": "http://localhost:1/x"})

    def run(*arguments: str) -> str:
        app(arguments, standalone_mode=False)
        return capfd.readouterr().out

    assert f"{path}: ok" in run("check", str(path))
    assert "handlers 1" in run("list", "--config", str(path))
    params = json.dumps({"tool": "shell", "arguments": {"cmd": "rm -rf /"}})
    assert "deny_tool" in run("call", "before_tool", "--config", str(path), "--params", params)
    # The doctor may end its process, so it has one of its own.
    doctor = [sys.executable, "-m", "picohook", "doctor", str(path)]
    assert (
        b"it runs no program (url: http://localhost:1/x)"
        in subprocess.run(doctor, check=False, capture_output=True).stdout
    )


@pytest.mark.anyio
async def test_it_is_reloaded(settings):
    path = settings(PreToolUse=GUARD)
    async with Host.from_config(path) as host:
        settings(PreToolUse="exit 2", Stop="true")
        done = await host.reload()
        assert (done.added, done.changed) == (("claude:Stop",), ("claude:PreToolUse",))
        assert (await host.before_tool(ToolCall(tool="bash"))).action == "deny_tool"
