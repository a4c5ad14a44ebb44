"""Traps of hook files: shapes that real scripts have, each with what the vendor makes of it, and what strict does."""

from __future__ import annotations

import json
import shutil

import pytest
from gates import tried
from pure import FACTS, PAYLOADS, Said, decided, permission, verdict_of
from rows import each

from picohook import AbortTurn, Deny, Host, Modify, Timeouts, ToolCall, foreign_hooks
from picohook.errors import HookError, HookTimeoutError
from picohook.ext.vendors.contract import Facts, Rule
from picohook.ext.vendors.dialects import vendor_named
from picohook.model.decisions import CONTINUE

ALLOW, DENY = json.dumps(permission("allow")), json.dumps(permission("deny", permissionDecisionReason="no"))
CALL = ToolCall(tool="bash", arguments={"command": "ls"})


def both(said, event="PreToolUse", dialect="claude"):
    """What strict does, and what the vendor does: deny or continue."""
    strict = decided(event, said, dialect=dialect)
    vendor = decided(event, said, dialect=dialect, failures="vendor")
    return tuple("deny" if isinstance(one, Exception | Deny) else "continue" for one in (strict, vendor))


def test_trap_exit_2_with_an_allow_blocks_in_claude():
    assert decided("PreToolUse", Said(ALLOW, 2, "no")) == Deny("no")


def test_trap_exit_1_with_an_allow_is_allowed_in_claude_ignored_in_codex_and_denied_in_strict():
    assert both(Said(ALLOW, 1)) == ("deny", "continue")
    assert both(Said(ALLOW, 1), dialect="codex") == ("deny", "continue")


def test_trap_exit_1_with_a_deny_denies_in_claude_and_is_ignored_in_codex():
    assert both(Said(DENY, 1)) == ("deny", "deny")
    assert both(Said(DENY, 1), dialect="codex") == ("deny", "continue")


def test_trap_exit_2_without_stderr_blocks_in_claude_and_is_open_in_codex():
    assert both(Said("", 2)) == ("deny", "deny")
    assert both(Said("", 2), dialect="codex") == ("deny", "continue")


def test_trap_a_bare_allow_is_an_answer_in_claude_and_a_failure_in_codex():
    assert both(Said(ALLOW)) == ("continue", "continue")
    assert both(Said(ALLOW), dialect="codex") == ("deny", "continue")


@each(
    ("stdout", "outcome"),
    [
        (DENY + ALLOW, ("deny", "continue")),
        ("checking ...\n" + DENY, ("deny", "continue")),
        ("checking ...\n", ("continue", "continue")),
        ("\ufeff" + DENY, ("deny", "deny")),
        (DENY + "\n\n", ("deny", "deny")),
        ("[1]", ("continue", "continue")),
        ('{"decision": "block", "decision": "approve"}', ("deny", "continue")),
        ('{"decision": NaN}', ("deny", "continue")),
    ],
)
def test_trap_output_that_is_nearly_an_answer(stdout, outcome):
    assert both(Said(stdout)) == outcome


@each(
    ("matcher", "tool", "claude", "codex"),
    [
        ("Edit, Write", "Write", True, False),
        ("Bash.*", "BashOutput", True, True),
        ("^Bash$", "BashOutput", False, False),
        ("mcp__memory", "mcp__memory__read", False, False),
        ("mcp__memory__.*", "mcp__memory__read", True, True),
        ("bash", "Bash", False, False),
        ("Edit-Tool", "Edit-Tool-2", False, True),
        ("apply_patch", "Edit", False, True),
        ("Edit|Write", "apply_patch", True, True),
    ],
)
def test_trap_matchers_mean_other_things_in_other_systems(matcher, tool, claude, codex):
    found = []
    for contract in map(vendor_named, ("claude", "codex")):
        told = contract.encode("PreToolUse", ToolCall(tool=tool), FACTS)
        found.append(bool(contract.select("PreToolUse", [Rule(at="h", matcher=matcher)], told, FACTS)))
    assert found == [claude, codex]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_trap_of_two_rewrites_the_last_in_the_file_counts(order):
    said = [Said(permission("allow", updatedInput={"command": command})) for command in ("a", "b")]
    last = ("a", "b")[order[1]]
    assert decided("PreToolUse", *(said[place] for place in order)) == Modify({"arguments": {"command": last}})


def test_trap_a_denial_beats_a_rewrite():
    assert decided("PreToolUse", Said(permission("allow", updatedInput={"command": "a"})), Said(DENY)) == Deny("no")


def test_trap_an_allow_approves_nothing():
    verdict = verdict_of("PreToolUse", Said(ALLOW))
    assert (verdict.decision, verdict.asks) == (CONTINUE, False)


# Gemini CLI.

SAYS_NO, SAYS_YES = json.dumps({"decision": "deny", "reason": "no"}), json.dumps({"decision": "allow"})


@each(
    ("said", "outcome"),
    [
        (Said(SAYS_YES, 2, "no"), ("deny", "continue")),
        (Said(SAYS_YES, 1), ("deny", "continue")),
        (Said(SAYS_NO, 1), ("deny", "deny")),
        (Said("", 2), ("deny", "continue")),
        (Said("", 2, "no"), ("deny", "deny")),
        (Said("", 0, SAYS_NO), ("deny", "deny")),
        (Said("", 1, "Traceback"), ("deny", "continue")),
        (Said("", 127, "not found"), ("deny", "deny")),
        (Said("", -9), ("deny", "continue")),
        (Said(failure=HookTimeoutError("late")), ("deny", "continue")),
        (Said(SAYS_NO + SAYS_YES), ("deny", "continue")),
        (Said("checking ...\n" + SAYS_NO), ("deny", "continue")),
        (Said("checking ...\n"), ("continue", "continue")),
        (Said("\ufeff" + SAYS_NO), ("deny", "deny")),
        (Said(SAYS_NO + "\n\n"), ("deny", "deny")),
        (Said(json.dumps(SAYS_NO)), ("deny", "deny")),
        (Said('"no"', 2), ("deny", "deny")),
        (Said("[1]", 2), ("deny", "continue")),
        (Said('{"decision": "deny", "reason": 1}'), ("deny", "deny")),
        (Said('{"decision": "deny", "decision": "allow"}'), ("deny", "continue")),
    ],
)
def test_trap_output_of_a_handler_of_gemini(said, outcome):
    assert both(said, event="BeforeTool", dialect="gemini") == outcome


def test_trap_a_denial_beats_a_rewrite_in_gemini():
    rewrite = Said({"hookSpecificOutput": {"tool_input": {"command": "a"}}})
    assert decided("BeforeTool", rewrite, Said(SAYS_NO), dialect="gemini") == Deny("no")


def test_trap_a_rewrite_that_asks_is_what_is_approved_in_gemini():
    rewrite = Said({"decision": "ask", "hookSpecificOutput": {"tool_input": {"command": "a"}}})
    verdict = verdict_of("BeforeTool", rewrite, dialect="gemini")
    assert (verdict.asks, verdict.decision) == (True, Modify({"arguments": {"command": "a"}}))


# Copilot.

PERMITS = json.dumps({"permissionDecision": "allow"})
FORBIDS = json.dumps({"permissionDecision": "deny", "permissionDecisionReason": "no"})


@each(
    ("said", "outcome"),
    [
        (Said(PERMITS, 2), ("deny", "deny")),
        (Said(PERMITS, 1), ("deny", "deny")),
        (Said("", 2), ("deny", "deny")),
        (Said("", 127, "not found"), ("deny", "deny")),
        (Said("", 126), ("deny", "deny")),
        (Said("", -9), ("deny", "deny")),
        (Said(failure=HookTimeoutError("late")), ("deny", "continue")),
        (Said(FORBIDS + PERMITS), ("deny", "continue")),
        (Said("checking ...\n" + FORBIDS), ("deny", "continue")),
        (Said('{"type": "progress", "message": "x"}\n' + FORBIDS), ("deny", "deny")),
        (Said("checking ...\n"), ("continue", "continue")),
        (Said("\ufeff" + FORBIDS), ("deny", "deny")),
        (Said(FORBIDS + "\n\n"), ("deny", "deny")),
        (Said('{"permissionDecision": "deny", "permissionDecision": "allow"}'), ("deny", "continue")),
        (Said({"permission": "deny"}), ("deny", "continue")),
    ],
)
def test_trap_output_of_a_handler_of_copilot(said, outcome):
    assert both(said, event="preToolUse", dialect="copilot") == outcome
    assert both(said, event="PreToolUse", dialect="copilot") == outcome


@each(
    ("event", "matcher", "matches"),
    [
        ("preToolUse", "Edit, Write", False),
        ("preToolUse", "edit|create", True),
        ("preToolUse", "^create$", True),
        ("preToolUse", "creat", False),
        ("PreToolUse", "Edit, Write", False),
        ("PreToolUse", "Edit|Write", True),
        ("PreToolUse", "Wri.*", True),
        ("PreToolUse", "Wri", False),
    ],
)
def test_trap_matchers_of_copilot_match_the_whole_name(event, matcher, matches):
    contract = vendor_named("copilot")
    told = contract.encode(event, ToolCall(tool="Write"), FACTS)
    assert contract.select(event, [Rule(at="h", matcher=matcher)], told, FACTS) == ([0] if matches else [])


def test_trap_copilots_tool_arguments_are_an_object():
    told = vendor_named("copilot").encode("preToolUse", CALL, FACTS)
    assert told.stdin["toolArgs"] == {"command": "ls"}


def test_trap_a_turn_of_copilot_that_was_kept_from_ending_has_a_flag():
    blocked = FACTS.__class__(blocks=1)
    for event in ("agentStop", "Stop"):
        assert (
            vendor_named("copilot").encode(event, PAYLOADS["before_finish"], blocked).stdin["stop_hook_active"] is True
        )


# Cursor.

FORBIDS, PERMITS = json.dumps({"permission": "deny", "agent_message": "no"}), json.dumps({"permission": "allow"})


@each(
    ("said", "outcome"),
    [
        (Said(PERMITS, 2, "no"), ("deny", "deny")),
        (Said("", 2), ("deny", "deny")),
        (Said(PERMITS, 1), ("deny", "continue")),
        (Said(FORBIDS, 3), ("deny", "continue")),
        (Said("", 127, "not found"), ("deny", "continue")),
        (Said("", 126), ("deny", "continue")),
        (Said("", -9), ("deny", "continue")),
        (Said(failure=HookTimeoutError("late")), ("deny", "continue")),
        (Said(FORBIDS + PERMITS), ("deny", "continue")),
        (Said("checking ...\n" + FORBIDS), ("deny", "continue")),
        (Said("checking ..."), ("deny", "continue")),
        (Said("\ufeff" + FORBIDS), ("deny", "deny")),
        (Said(FORBIDS + "\n\n"), ("deny", "deny")),
        (Said('{"permission": "deny", "permission": "allow"}'), ("deny", "continue")),
    ],
)
def test_trap_output_of_a_handler_of_cursor(said, outcome):
    assert both(said, event="beforeShellExecution", dialect="cursor") == outcome


def test_trap_a_denial_beats_a_rewrite_in_cursor():
    rewrite = Said({"permission": "allow", "updated_input": {"command": "a"}})
    assert decided("preToolUse", rewrite, Said(FORBIDS), dialect="cursor") == Deny("no")


def test_trap_a_rewrite_that_asks_is_what_is_approved_in_cursor():
    verdict = verdict_of("preToolUse", Said({"permission": "ask", "updated_input": {"command": "a"}}), dialect="cursor")
    assert (verdict.asks, verdict.decision) == (True, Modify({"arguments": {"command": "a"}}))


def test_trap_inputs_and_outputs_of_cursor_are_json_in_texts():
    server = ToolCall(tool="mcp__db__query", arguments={"sql": "select 1"})
    told = vendor_named("cursor").encode("beforeMCPExecution", server, FACTS)
    assert told.stdin["tool_input"] == '{"sql": "select 1"}'
    told = vendor_named("cursor").encode("postToolUse", PAYLOADS["after_tool"], FACTS)
    assert isinstance(told.stdin["tool_output"], str)


# Of both.


@each(
    ("dialect", "event", "matcher", "tool", "matches"),
    [
        ("gemini", "BeforeTool", "Edit, Write", "Write", False),
        ("gemini", "BeforeTool", "run_shell_command", "Bash", True),
        ("gemini", "BeforeTool", "RUN_SHELL_COMMAND", "Bash", False),
        ("gemini", "BeforeTool", "Bash", "Bash", False),
        ("gemini", "BeforeTool", "mcp_memory", "mcp__memory__read", True),
        ("gemini", "BeforeTool", "mcp__memory", "mcp__memory__read", False),
        ("cursor", "preToolUse", "Shell", "Bash", True),
        ("cursor", "preToolUse", "shell", "Bash", False),
        ("cursor", "preToolUse", "MCP:read", "mcp__memory__read", True),
        ("cursor", "preToolUse", "mcp__memory", "mcp__memory__read", False),
        ("cursor", "beforeShellExecution", "Shell", "Bash", False),
    ],
)
def test_trap_matchers_of_gemini_and_cursor_want_their_own_names(dialect, event, matcher, tool, matches):
    contract = vendor_named(dialect)
    told = contract.encode(event, ToolCall(tool=tool, arguments={"command": "ls"}), FACTS)
    assert bool(contract.select(event, [Rule(at="h", matcher=matcher)], told, FACTS)) is matches


@pytest.mark.parametrize(
    ("dialect", "event", "field", "values"),
    [("gemini", "AfterAgent", "stop_hook_active", [False, True, True]), ("cursor", "stop", "loop_count", [0, 1, 2])],
)
def test_trap_the_second_round_reads_that_it_is_the_second(dialect, event, field, values):
    contract = vendor_named(dialect)
    rounds = [contract.encode(event, PAYLOADS["before_finish"], Facts(blocks=count)) for count in range(3)]
    assert [told.stdin[field] for told in rounds] == values


@pytest.mark.parametrize(
    ("name", "hooks", "seconds"),
    [
        (
            ".gemini/settings.json",
            {"BeforeTool": [{"hooks": [{"type": "command", "command": "x", "timeout": 5000}]}]},
            5,
        ),
        (".cursor/hooks.json", {"preToolUse": [{"command": "x", "timeout": 5}]}, 5),
    ],
)
def test_trap_a_timeout_is_in_milliseconds_in_gemini_and_in_seconds_in_cursor(write, name, hooks, seconds):
    assert foreign_hooks(write(name, {"hooks": hooks}))[0].timeout == seconds


@each(
    ("dialect", "event"),
    [
        ("claude", "PreToolUse"),
        ("codex", "PreToolUse"),
        ("gemini", "BeforeTool"),
        ("cursor", "preToolUse"),
        ("copilot", "preToolUse"),
        ("copilot", "PreToolUse"),
    ],
)
@each(
    "said",
    [
        *(Said(one) for one in (DENY, FORBIDS, SAYS_NO)),
        *(Said({"permission": one}) for one in ("deny", "ask")),
        *(Said({"decision": one}) for one in ("block", "ask")),
        *(Said(one) for one in ({"cancel": True}, {"behavior": "deny"}, {"continue": False}, {"ok": False})),
        *(Said(one) for one in ({"permission_decision": "Deny"}, {"Decision": "Block"}, {"action": "deny_tool"})),
        Said({"hook_specific_output": {"permissionDecision": "deny"}}),
        Said(DENY.encode("utf-16").decode("utf-8", "replace")),
        Said('{"type": "progress"}\n{"permission": "deny"}'),
        Said(stderr='{"permission": "deny"}'),
    ],
)
def test_trap_a_refusal_in_any_agents_words_passes_in_strict_nowhere(dialect, event, said):
    try:
        verdict = verdict_of(event, said, dialect=dialect)
    except HookError:
        return
    assert verdict.asks or isinstance(verdict.decision, Deny | AbortTurn)


@pytest.mark.parametrize(
    ("tools", "tool", "arguments"),
    [
        ({}, "shell", {"cmd": "rm -rf /", "command": "ls"}),
        ({}, "read_file", {"path": "a", "filename": "/etc/shadow"}),
        ({"mine": {"same_as": "Bash", "fields": {"line": "command"}}}, "mine", {"line": "rm -rf /", "command": "ls"}),
        ({}, "shell", {"code": "rm -rf /"}),
        ({}, "read_file", {"where": "/etc/shadow"}),
    ],
)
@pytest.mark.anyio
async def test_trap_an_argument_that_a_guard_reads_and_the_tool_does_not(settings, tools, tool, arguments):
    gate = {
        "type": "command",
        "command": "true",
        "matcher": "Bash|Read",
        "if": "Bash(rm *)" if tool != "read_file" else "",
    }
    async with Host(foreign_hooks(settings(PreToolUse=gate), tools=tools)) as host:
        denied = await host.before_tool(ToolCall(tool=tool, arguments=arguments))
        known = {"command": "ls", "file_path": "a"}
        passed = [
            await host.before_tool(ToolCall(tool=name, arguments=given))
            for name, given in ((tool, known), ("write", arguments), ("other", arguments), (tool, {"restart": True}))
        ]
    assert (denied.action, {outcome.action for outcome in passed}) == ("deny_tool", {"continue"})
    assert "name the argument that it is in `tools` of [[foreign]]" in denied.reason


@pytest.mark.parametrize("verdict", ["", 1, "Allow"])
def test_trap_an_unknown_word(verdict):
    assert both(Said(permission(verdict))) == ("deny", "continue")


# With real processes.


async def outcomes(path, call=CALL):
    """The action in strict, its error, and the action of the vendor's agent."""
    found = []
    for failures in ("strict", "vendor"):
        async with Host(foreign_hooks(path, failures=failures), timeouts=Timeouts(chain=60)) as host:
            outcome = await host.before_tool(call)
            found.append((outcome.action, outcome.trail[0].error or ""))
    (strict, error), (vendor, _) = found
    return strict, vendor, error


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("./missing.sh", "exited with code 127: there is no such program"),
        ("./plain.sh", "exited with code 126: the program cannot be run"),
        ("kill -9 $$", "was ended by SIGKILL"),
        ("./crlf.sh", "exited with code"),
    ],
)
async def test_trap_what_cannot_run_is_open_in_claude_and_denied_once_in_strict(settings, write, command, error):
    write("plain.sh", "#!/bin/sh\n", 0o644)
    write("crlf.sh", "#!/bin/sh\r\nexit 0\r\n", 0o755)
    strict, vendor, said = await outcomes(settings(PreToolUse=command))
    assert (strict, vendor) == ("deny_tool", "continue")
    assert said.count(error) == 1


@pytest.mark.anyio
async def test_trap_a_grandchild_that_holds_the_output_is_killed(settings):
    path = settings(PreToolUse={"type": "command", "command": "sleep 600 & exec sleep 600", "timeout": 0.2})
    strict, vendor, said = await outcomes(path)
    assert (strict, vendor, " in time" in said) == ("deny_tool", "continue", True)


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a space", "it's", 'a "quote"', "$HOME", "`x`"])
async def test_trap_a_projects_directory_with_an_awkward_name(project, name):
    place = project / name / ".claude"
    place.mkdir(parents=True)
    script = place / "deny.sh"
    script.write_text("#!/bin/sh\necho no >&2\nexit 2\n")
    script.chmod(0o755)
    for written in ("$CLAUDE_PROJECT_DIR", "${CLAUDE_PROJECT_DIR}"):
        handler = {"type": "command", "command": f'"{written}"/.claude/deny.sh'}
        (place / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}))
        assert (await outcomes(place / "settings.json"))[:2] == ("deny_tool", "deny_tool")


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a space", "it's", "$HOME"])
@pytest.mark.parametrize(
    ("file", "hooks"),
    [
        (
            ".gemini/settings.json",
            {"BeforeTool": [{"hooks": [{"type": "command", "command": "$GEMINI_PROJECT_DIR/deny.sh"}]}]},
        ),
        (".cursor/hooks.json", {"beforeShellExecution": [{"command": './deny.sh && "$CURSOR_PROJECT_DIR"/deny.sh'}]}),
    ],
)
async def test_trap_a_project_of_gemini_or_cursor_with_an_awkward_name(write, name, file, hooks):
    write(f"{name}/deny.sh", "#!/bin/sh\necho no >&2\nexit 2\n", 0o755)
    assert (await outcomes(write(f"{name}/{file}", {"hooks": hooks})))[:2] == ("deny_tool", "deny_tool")


@pytest.mark.anyio
async def test_trap_a_plugins_directory_in_args(write):
    write("a plugin/deny.sh", "#!/bin/sh\necho $1 >&2\nexit 2\n", 0o755)
    handler = {"type": "command", "command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/deny.sh", "a b"]}
    path = write("a plugin/hooks/hooks.json", {"hooks": {"PreToolUse": [{"hooks": [handler]}]}})
    assert (await outcomes(path))[:2] == ("deny_tool", "deny_tool")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "command", ["exec <&-; exit 2", "head -c 200000 /dev/zero | tr '\\0' x >&2; cat >/dev/null; exit 2"]
)
async def test_trap_a_handler_that_does_not_read_or_writes_first(settings, command):
    call = CALL.model_copy(update={"arguments": {"command": "x" * 200_000}})
    assert (await outcomes(settings(PreToolUse=command), call))[:2] == ("deny_tool", "deny_tool")


SHAPES = {
    "bash with jq": "cmd=$(jq -r '.tool_input.command // empty'); [[ $cmd == *rm* ]] && { echo no >&2; exit 2; }; exit 0",
    "an inline one-liner": "jq -e '.tool_input.command | test(\"rm\") | not' >/dev/null || { echo no >&2; exit 2; }",
    "python": 'python3 -c \'import json,sys; sys.exit(2 if "rm" in json.load(sys.stdin)["tool_input"]["command"] else 0)\'',
    "node": "node -e 'const d=JSON.parse(require(\"fs\").readFileSync(0)); process.exit(/rm/.test(d.tool_input.command)?2:0)'",
}


if shutil.which("uv"):
    SHAPES["uv run"] = f"uv run --offline --no-project {SHAPES['python'].replace('python3', 'python', 1)}"


@pytest.mark.anyio
@pytest.mark.parametrize("shape", SHAPES)
async def test_scripts_of_the_public_shapes_run_unchanged(settings, shape):
    handler = {"type": "command", "command": SHAPES[shape], "matcher": "Bash", "shell": "bash"}
    path = settings(PreToolUse=handler)
    async with Host(foreign_hooks(path), timeouts=Timeouts(chain=60)) as host:
        assert (await host.before_tool(CALL)).action == "continue"
        denied = await host.before_tool(ToolCall(tool="run_shell_command", arguments={"cmd": "rm -rf /"}))
        assert denied.action == "deny_tool"


READS_ANOTHER_FIELD = """#!/bin/bash
set -euo pipefail
input=$(cat)
command=$(jq -r '.toolInput.command // empty' <<<"$input")
if [ -z "$command" ]; then
  command=$(grep -o '"toolInput": *"[^"]*"' <<<"$input")
fi
if grep -q 'rm -rf' <<<"$command"; then
  echo '{"permissionDecision": "deny", "permissionDecisionReason": "not that"}'
fi
"""


@pytest.mark.anyio
async def test_trap_a_guard_that_reads_a_field_that_copilot_does_not_send_refuses_every_call(write):
    write("guard.sh", READS_ANOTHER_FIELD, 0o755)
    path = write(".github/hooks/guard.json", {"version": 1, "hooks": {"preToolUse": [{"bash": "./guard.sh"}]}})
    assert (await outcomes(path))[:2] == ("deny_tool", "deny_tool")
    ((level, message),) = await tried(path)
    assert level == "warning"
    assert message.startswith('it refuses every call: Bash {"command": "ls"')
