"""Copilot's contract, where it differs from Claude Code's, and its files."""

from __future__ import annotations

import json

import pytest
from pure import BASH, META, PAYLOADS, Said, decided, verdict_of
from rows import each

from picohook import (
    AbortTurn,
    Compaction,
    ConfigError,
    Continue,
    Deny,
    Finish,
    Host,
    Modify,
    Prompt,
    Retry,
    ToolAlias,
    ToolCall,
    ToolResult,
    foreign_hooks,
)
from picohook.config import load
from picohook.errors import HookCrashedError, HookError, HookReplyError, HookTimeoutError
from picohook.ext.vendors.contract import Facts, Rule
from picohook.ext.vendors.dialects import vendor_named
from picohook.model.decisions import APPROVE, CONTINUE
from picohook.model.events import Event
from picohook.projects import layers
from picohook.projects.source import Source
from picohook.projects.trust import covered

COPILOT = vendor_named("copilot")
WHEN = "2026-11-23T10:00:00+00:00"
NOW = Facts(project="/project", now=WHEN)
CAMEL = {"sessionId": "s1", "timestamp": 1795428000000, "cwd": "/project"}
SNAKE = {"session_id": "s1", "timestamp": WHEN, "cwd": "/project"}
IN_SUBAGENT = META.model_copy(update={"parent_turn_id": "t0", "turn_id": "t1", "agent_id": "explore"})
FAILED = PAYLOADS["after_tool"].model_copy(update={"result": ToolResult(for_llm="no such file", is_error=True)})
EDIT = ToolCall(tool="edit_file", arguments={"path": "/a", "old_text": "x", "new_text": "y"}, meta=META)


def told(event, payload=None):
    found = COPILOT.encode(event, payload or PAYLOADS[COPILOT.events[event].stage], NOW)
    return None if found is None else found.stdin


def said(event, *answers, failures="strict", payload=None):
    return decided(event, *answers, dialect="copilot", failures=failures, payload=payload)


# What they read.


@each(
    ("event", "payload", "fields"),
    [
        ("preToolUse", None, {"toolName": "bash", "toolArgs": {"command": "ls"}}),
        ("permissionRequest", None, {"toolName": "bash", "toolInput": {"command": "ls"}}),
        (
            "postToolUse",
            None,
            {
                "toolName": "bash",
                "toolArgs": {"command": "ls"},
                "toolResult": {"resultType": "success", "textResultForLlm": "a.txt"},
            },
        ),
        ("postToolUseFailure", FAILED, {"toolName": "bash", "toolArgs": {"command": "ls"}, "error": "no such file"}),
        ("userPromptSubmitted", None, {"prompt": "hello"}),
        ("userPromptTransformed", None, {"prompt": "hello", "transformedPrompt": "hello"}),
        ("sessionStart", None, {"source": "startup", "initialPrompt": "hello"}),
        ("agentStop", None, {"transcriptPath": "", "stopReason": "end_turn", "stop_hook_active": False}),
        ("subagentStart", Prompt(prompt="x", meta=IN_SUBAGENT), {"transcriptPath": "", "agentName": "explore"}),
        (
            "subagentStop",
            Finish(response={"content": "done"}, meta=IN_SUBAGENT),
            {
                "transcriptPath": "",
                "stopReason": "end_turn",
                "agentId": "t1",
                "agentType": "explore",
                "agentName": "explore",
                "response": "done",
            },
        ),
        (
            "preCompact",
            Compaction(scope="auto", meta=META),
            {"transcriptPath": "", "trigger": "auto", "customInstructions": ""},
        ),
        ("sessionEnd", Event("session_end", {}, META), {"reason": "complete"}),
        (
            "errorOccurred",
            Event("error", {"Stage": "after_llm", "Message": "gone"}, META),
            {"error": {"message": "gone", "name": "Error"}, "errorContext": "system", "recoverable": False},
        ),
    ],
)
def test_camel_case_events_have_copilots_own_fields(event, payload, fields):
    assert told(event, payload) == {**CAMEL, **fields}
    assert {*fields} == {*COPILOT.events[event].reads}


@pytest.mark.parametrize(
    ("event", "payload", "fields"),
    [
        ("PreToolUse", None, {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        ("PermissionRequest", None, {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        (
            "PostToolUse",
            None,
            {
                "tool_name": "Bash",
                "tool_input": {"command": "ls"},
                "tool_result": {"result_type": "success", "text_result_for_llm": "a.txt"},
            },
        ),
        ("UserPromptSubmit", None, {"prompt": "hello"}),
        ("SessionStart", None, {"source": "startup", "initial_prompt": "hello"}),
        ("Stop", None, {"transcript_path": "", "stop_reason": "end_turn", "stop_hook_active": False}),
        (
            "SubagentStop",
            Finish(response={"content": "done"}, meta=IN_SUBAGENT),
            {
                "transcript_path": "",
                "stop_reason": "end_turn",
                "agent_id": "t1",
                "agent_type": "explore",
                "agent_name": "explore",
                "last_assistant_message": "done",
            },
        ),
    ],
)
def test_pascal_case_events_have_the_compatible_fields_and_claude_codes_tools(event, payload, fields):
    assert told(event, payload) == {"hook_event_name": event, **SNAKE, **fields}
    assert {"hook_event_name", *fields} == {*COPILOT.events[event].reads}


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("postToolUse", FAILED),
        ("postToolUseFailure", PAYLOADS["after_tool"]),
        ("subagentStart", PAYLOADS["before_prompt"]),
        ("sessionStart", Prompt(prompt="x", meta=IN_SUBAGENT)),
        ("agentStop", Finish(response={}, meta=IN_SUBAGENT)),
        ("SubagentStop", PAYLOADS["before_finish"]),
    ],
)
def test_handlers_of_an_event_that_does_not_happen_do_not_run(event, payload):
    assert told(event, payload) is None


@pytest.mark.parametrize(
    ("call", "name", "pascal", "args"),
    [
        (EDIT, "edit", "Edit", {"path": "/a", "old_str": "x", "new_str": "y"}),
        (ToolCall(tool="str_replace_editor"), "str_replace_editor", "Edit", {}),
        (
            ToolCall(tool="write_file", arguments={"file": "b", "content": "c"}),
            "create",
            "Write",
            {"path": "/project/b", "file_text": "c"},
        ),
        (ToolCall(tool="read_file", arguments={"path": "b"}), "view", "Read", {"path": "/project/b"}),
        (ToolCall(tool="task", arguments={"prompt": "x"}), "task", "Agent", {"prompt": "x"}),
        (ToolCall(tool="my_own", arguments={"x": 1}), "my_own", "my_own", {"x": 1}),
    ],
)
def test_tools_and_their_fields_have_copilots_names(call, name, pascal, args):
    assert (told("preToolUse", call)["toolName"], told("preToolUse", call)["toolArgs"]) == (name, args)
    assert (told("PreToolUse", call)["tool_name"], told("PreToolUse", call)["tool_input"]) == (pascal, args)


def test_a_changed_call_comes_back_by_the_hosts_names():
    changed = said("preToolUse", Said({"modifiedArgs": {"path": "/b", "old_str": "x", "new_str": "z"}}), payload=EDIT)
    assert changed == Modify({"arguments": {"path": "/b", "old_text": "x", "new_text": "z"}})


# Which of them run.


@each(
    ("event", "matcher", "runs"),
    [
        ("preToolUse", "edit", True),
        ("preToolUse", "bash|edit", True),
        ("preToolUse", "ed.*", True),
        ("preToolUse", "ed", False),
        ("preToolUse", "Edit", False),
        ("preToolUse", "", True),
        ("PreToolUse", "Edit", True),
        ("PreToolUse", "edit", True),
        ("PreToolUse", "Write|Edit", True),
        ("PreToolUse", "Ed.*", True),
        ("PreToolUse", "ed.*", False),
        ("PreToolUse", "di", False),
        ("PreToolUse", "*", True),
        ("PreToolUse", "**", True),
        ("PermissionRequest", "Edit", True),
    ],
)
def test_matchers_are_whole_expressions_and_those_of_pascal_case_events_claude_codes_lists(event, matcher, runs):
    asked = COPILOT.encode(event, EDIT, NOW)
    assert COPILOT.select(event, [Rule(at="h", matcher=matcher)], asked, NOW) == ([0] if runs else [])


def test_other_matchers_are_held_against_the_trigger_and_the_agent():
    compact = COPILOT.encode("preCompact", Compaction(scope="auto", meta=META), NOW)
    start = COPILOT.encode("SubagentStart", Prompt(prompt="x", meta=IN_SUBAGENT), NOW)
    rules = [Rule(at="h", matcher=matcher) for matcher in ("auto", "manual", "explore", "exp")]
    assert COPILOT.select("preCompact", rules, compact, NOW) == [0]
    assert COPILOT.select("SubagentStart", rules, start, NOW) == [2]
    assert COPILOT.select("agentStop", rules, COPILOT.encode("agentStop", PAYLOADS["before_finish"], NOW), NOW) == [
        0,
        1,
        2,
        3,
    ]


def test_task_is_the_earlier_name_of_agent():
    asked = COPILOT.encode("PreToolUse", ToolCall(tool="task"), NOW)
    assert COPILOT.select("PreToolUse", [Rule(at="h", matcher="Task")], asked, NOW) == [0]


# What their answers mean.

ALLOW = {"permissionDecision": "allow"}
DENY = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
LATE, CRASHED = HookTimeoutError("late"), HookCrashedError("gone")
PASSES, DENIES, FAILS = "passes", "denies", "fails"


def outcome(decision):
    return FAILS if isinstance(decision, HookError) else DENIES if isinstance(decision, Deny) else PASSES


@each(
    ("answer", "vendor", "strict"),
    [
        (Said(), PASSES, PASSES),
        (Said(ALLOW), PASSES, PASSES),
        (Said(DENY), DENIES, DENIES),
        (Said("all is well"), PASSES, PASSES),
        (Said(ALLOW, 1), DENIES, DENIES),
        (Said(ALLOW, 2), DENIES, DENIES),
        (Said("", 2), DENIES, DENIES),
        (Said("", 127), DENIES, DENIES),
        (Said("", -9), DENIES, DENIES),
        (Said(failure=CRASHED), DENIES, DENIES),
        (Said(failure=LATE), PASSES, FAILS),
        (Said(failure=CRASHED, kind="http"), PASSES, FAILS),
        (Said(failure=CRASHED, kind="unsupported"), PASSES, FAILS),
        (Said(json.dumps(DENY) + json.dumps(ALLOW)), PASSES, FAILS),
        (Said("checking\n" + json.dumps(DENY)), PASSES, FAILS),
        (Said({"permissionDecision": "no"}), PASSES, FAILS),
        (Said({"decision": "block", "reason": "no"}), PASSES, FAILS),
        (Said({"permissionDecision": "deny", "permissionDecisionReason": 1}), DENIES, DENIES),
        (Said({"permissionDecision": "deny", "modifiedArgs": 1, "additionalContext": 1}), DENIES, DENIES),
        (Said({"permissionDecision": "allow", "modifiedArgs": "x"}), DENIES, DENIES),
        (Said({"permissionDecision": "allow", "modifiedArgs": None}), DENIES, DENIES),
        (Said({"type": "progress", **DENY}), DENIES, DENIES),
        (Said("\ufeff\n\u2028\ufeff" + json.dumps(DENY)), DENIES, DENIES),
    ],
)
def test_before_a_tool_every_error_but_a_timeout_denies_and_in_strict_a_timeout_too(answer, vendor, strict):
    assert outcome(said("preToolUse", answer, failures="vendor")) == vendor
    assert outcome(said("preToolUse", answer)) == strict
    assert outcome(said("PreToolUse", answer)) == strict


@pytest.mark.parametrize(
    ("answer", "camel", "pascal"),
    [
        ({"hookSpecificOutput": {"permissionDecision": "deny"}}, PASSES, DENIES),
        ({"hookSpecificOutput": {"permissionDecision": "allow"}, **DENY}, DENIES, PASSES),
        ({"hookSpecificOutput": {"permissionDecision": None}, **DENY}, DENIES, DENIES),
        ({"hookSpecificOutput": {"permissionDecision": "deny"}, "permissionDecision": "allow"}, PASSES, DENIES),
        ({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": 1}}, PASSES, DENIES),
        ({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": "x"}}, PASSES, DENIES),
    ],
)
def test_fields_count_at_the_top_or_inside_as_the_event_is_spelt_and_in_strict_no_denial_is_lost(answer, camel, pascal):
    assert outcome(said("preToolUse", Said(answer), failures="vendor")) == camel
    assert outcome(said("PreToolUse", Said(answer), failures="vendor")) == pascal
    if camel != pascal and "deny" in str(answer):
        assert {outcome(said(event, Said(answer))) for event in ("preToolUse", "PreToolUse")} == {DENIES, FAILS}


def test_each_spelling_changes_a_call_by_its_own_field():
    changed = {"command": "pwd"}
    for fields, camel, pascal in (
        ({"modifiedArgs": changed}, True, True),
        ({"updatedInput": changed}, False, False),
        ({"hookSpecificOutput": {"modifiedArgs": changed}}, False, False),
        ({"hookSpecificOutput": {"updatedInput": changed}}, False, True),
    ):
        for event, changes in (("preToolUse", camel), ("PreToolUse", pascal)):
            for failures in ("vendor", "strict"):
                decision = said(event, Said(fields), failures=failures)
                assert isinstance(decision, Modify) is changes, (event, fields)


def test_the_reason_of_a_denial_is_in_the_answer_or_on_stderr():
    assert said("preToolUse", Said(DENY)) == Deny("no")
    assert said("preToolUse", Said(DENY, 2, "other")) == Deny("no")
    assert said("preToolUse", Said("", 2, "not that")) == Deny("not that")
    assert "exited with code 1; it said: oh" in said("preToolUse", Said("", 1, "oh")).reason


def test_an_ask_needs_an_approver_and_an_allow_approves_nothing():
    assert verdict_of("preToolUse", Said({"permissionDecision": "ask"}), dialect="copilot").asks
    allowed = verdict_of("preToolUse", Said(ALLOW), dialect="copilot")
    assert (allowed.decision, allowed.asks) == (CONTINUE, False)


def test_lines_that_report_progress_are_no_part_of_the_answer():
    progress = '{"type": "progress", "message": "checking"}\n'
    assert said("preToolUse", Said(f"{progress}{progress}{json.dumps(DENY, indent=1)}\n{progress}")) == Deny("no")
    spread = json.dumps({"type": "progress"}, indent=1) + json.dumps(DENY)
    assert isinstance(said("preToolUse", Said(spread)), HookReplyError)


def test_of_two_changed_calls_the_last_counts_and_a_denial_beats_both():
    answers = [Said({"modifiedArgs": {"command": command}}) for command in "ab"]
    assert said("preToolUse", *answers, payload=BASH) == Modify({"arguments": {"command": "b"}})
    assert said("preToolUse", *answers, Said(DENY), payload=BASH) == Deny("no")


YES, NO = {"behavior": "allow"}, {"behavior": "deny", "message": "no"}


def test_of_requests_for_permission_the_last_answer_counts_and_in_strict_a_denial():
    assert said("permissionRequest", Said(YES)) == APPROVE
    assert said("permissionRequest", Said(NO)) == Deny("no")
    assert said("permissionRequest", Said(NO), Said(YES), failures="vendor") == APPROVE
    assert said("permissionRequest", Said(YES), Said(NO), failures="vendor") == Deny("no")
    assert said("permissionRequest", Said(NO), Said(YES)) == Deny("no")
    assert said("permissionRequest", Said({"message": "because"}, 2, "ignored")) == Deny("because")
    assert verdict_of("permissionRequest", Said(), dialect="copilot").silent


@pytest.mark.parametrize("failures", ["strict", "vendor"])
def test_a_request_that_fails_is_not_approved(failures):
    assert isinstance(said("permissionRequest", Said("", 1), failures=failures), HookCrashedError)
    assert isinstance(said("permissionRequest", Said(failure=LATE), failures=failures), HookTimeoutError)


def test_nothing_but_a_person_lets_a_call_out_of_the_sandbox():
    call = ToolCall(tool="bash", arguments={"command": "ls", "requestSandboxBypass": True}, meta=META)
    assert verdict_of("permissionRequest", Said(YES), dialect="copilot", payload=call).silent
    assert said("permissionRequest", Said(NO), payload=call) == Deny("no")


def test_after_a_tool_the_result_can_be_replaced_and_added_to():
    result = {"resultType": "success", "textResultForLlm": "b.txt"}
    assert said("postToolUse", Said({"modifiedResult": result})) == Modify({"for_llm": "b.txt"})
    added = said("postToolUse", Said({"additionalContext": "x"}), Said({"additionalContext": "y"}))
    assert added == Modify({"for_llm": "a.txt\n\nx\n\ny"})
    assert said("postToolUse", Said("", 1)) == CONTINUE


def test_exit_2_after_a_failed_tool_is_advice():
    advised = said("postToolUseFailure", Said("look in /b", 2), payload=FAILED)
    assert advised == Modify({"for_llm": "no such file\n\nlook in /b"})
    assert said("postToolUseFailure", Said("look in /b"), payload=FAILED) == CONTINUE


def test_a_turn_continues_with_the_reason_of_a_block():
    assert said("agentStop", Said({"decision": "block", "reason": "test it"})) == Retry("test it")
    assert said("agentStop", Said({"decision": "allow"})) == CONTINUE
    assert said("Stop", Said("", 2, "no")).action == "continue"


def test_a_prompt_can_be_changed_only_where_it_is_transformed():
    changed = Said({"modifiedTransformedPrompt": "hi", "modifiedPrompt": "ho"})
    assert said("userPromptTransformed", changed) == Modify({"prompt": "hi"})
    assert said("userPromptTransformed", Said({"modifiedTransformedPrompt": ""})) == CONTINUE
    assert said("userPromptSubmitted", changed) == CONTINUE


@pytest.mark.parametrize("event", ["userPromptSubmitted", "UserPromptSubmit"])
def test_a_prompt_is_refused_by_a_block_with_a_reason_and_in_strict_without_one_too(event):
    for code in (0, 2):
        block = Said({"decision": "block", "reason": "no"}, code)
        assert [said(event, block, failures=one) for one in ("strict", "vendor")] == [AbortTurn("no")] * 2
    for answer in (
        Said("", 2, "no"),
        Said("no", 2),
        Said({"decision": "block"}),
        Said({"decision": "block", "reason": 1}),
    ):
        assert isinstance(said(event, answer), HookError)
        assert said(event, answer, failures="vendor").action == "continue"
    assert said(event, Said({"decision": "block", "reason": "no"}, 1), failures="vendor").action == "continue"


def test_a_context_is_given_where_a_session_and_a_subagent_begin():
    begun = said("sessionStart", Said({"additionalContext": "It is Monday."}))
    assert isinstance(begun, Continue)
    assert begun.notes.additional_context == "It is Monday."
    assert said("sessionStart", Said("It is Monday.")) == CONTINUE


# Their files.


def hooks_file(write, name=".github/hooks/guard.json", **events):
    return write(name, {"version": 1, "hooks": events})


def test_files_are_known_by_their_place_and_by_what_only_copilot_has(write):
    handler = {"type": "command", "command": "true"}
    for name in (".github/hooks/a.json", ".github/copilot/settings.json"):
        assert load(hooks_file(write, name, PreToolUse=[{"hooks": [handler]}])).dialect == "copilot"
    assert load(hooks_file(write, "x/hooks.json", preToolUse=[{"bash": "true"}])).dialect == "copilot"
    assert load(hooks_file(write, "y/hooks.json", agentStop=[handler])).dialect == "copilot"


def test_a_handler_has_its_command_directory_environment_and_timeout(write, project, monkeypatch):
    monkeypatch.setenv("WHO", "me")
    both = {"bash": "x", "command": "y", "powershell": "z", "timeout": 5, "timeoutSec": 7, "cwd": "a b"}
    handler = {**both, "env": {"A": "$WHO/${CLAUDE_PROJECT_DIR}", "B": "plain"}}
    program = {"exec": "{{project_dir}}/x", "args": ["{{project_dir}}", "a b"]}
    (group,) = load(hooks_file(write, preToolUse=[handler, {"command": "{{project_dir}}/y"}, program])).hooks
    first, second, third = group.members
    assert (first.command, first.dir, first.timeout) == (("bash", "-c", "x"), str(project / "a b"), 7)
    assert (first.env["A"], first.env["B"], first.env["COPILOT_CLI"]) == (f"me/{project}", "plain", "1")
    assert second.command == ("bash", "-c", f"{project}/y")
    assert third.command == (f"{project}/x", str(project), "a b")
    assert (second.timeout, group.timeout) == (30, 7 + 30 + 30)


def test_a_variable_that_a_found_file_does_not_inherit_is_not_filled_in(write, project, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    hooks_file(write, sessionStart=[{"bash": "true", "env": {"A": "$SECRET"}}])
    (group,) = layers.discover(project).hooks
    assert group.members[0].env["A"] == ""


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ({"exec": "x", "bash": "y"}, "only one of them can run"),
        ({}, "has no command"),
        ({"type": "http", "url": "http://example.com"}, "is not a URL"),
    ],
)
def test_a_wrong_handler_is_left_out_in_vendor_and_refused_in_strict(write, handler, problem):
    path = hooks_file(write, preToolUse=[handler, {"bash": "true"}])
    with pytest.raises(ConfigError, match=problem):
        foreign_hooks(path)
    (group,) = foreign_hooks(path, failures="vendor")
    assert len(group.members) == 1


def test_a_matcher_that_cannot_be_read_is_named(write):
    path = hooks_file(write, preToolUse=[{"bash": "x", "matcher": "["}, {"bash": "x", "matcher": "*"}])
    (warning,) = load(path).warnings
    assert "preToolUse[0].matcher: [ matches everything, because it cannot be read: unclosed character class" in warning


def test_a_file_of_another_version_is_not_loaded(write):
    path = write(".github/hooks/a.json", {"version": 2, "hooks": {"preToolUse": [{"bash": "true"}]}})
    for failures in ("strict", "vendor"):
        with pytest.raises(ConfigError, match="is not 1, the version that picohook knows"):
            foreign_hooks(path, failures=failures)


def test_a_gate_that_cannot_be_run_denies_in_strict_and_gives_the_reason(write):
    config = load(
        hooks_file(write, preToolUse=[{"powershell": "x"}], sessionStart=[{"type": "prompt", "prompt": "hi"}])
    )
    assert "it cannot be run, and in strict it denies: it has a command for PowerShell alone" in config.warnings[0]
    assert "it never runs: picohook submits no prompts" in config.warnings[1]
    off = write(
        ".github/hooks/b.json", {"version": 1, "disableAllHooks": True, "hooks": {"preToolUse": [{"bash": "x"}]}}
    )
    assert (load(off).enabled, load(off).hooks) == (False, ())


def test_each_file_of_the_hooks_directories_is_found_and_needs_trust_if_it_is_the_projects(write, project):
    write("guard.sh", "#!/bin/sh\n", 0o755)
    own = hooks_file(write, "../home/.copilot/hooks/own.json", preToolUse=[{"bash": "true"}])
    for name in ("b", "a"):
        hooks_file(write, f".github/hooks/{name}.json", preToolUse=[{"bash": "./guard.sh"}])
    write(".github/hooks/notes.txt", "no hooks")

    found = layers.discover(project)

    assert [config.path for config in found.configs] == [
        own.resolve(),
        project / ".github/hooks/a.json",
        project / ".github/hooks/b.json",
    ]
    assert [config.project for config in found.configs[1:]] == [project, project]
    assert set(covered(found.configs[1])) == {str(project / ".github/hooks/a.json"), str(project / "guard.sh")}
    assert project / ".github/hooks" in layers.candidates(project)


def test_a_plugin_knows_its_own_directory(write, project):
    path = write("plug/hooks/hooks.json", {"version": 1, "hooks": {"agentStop": [{"bash": "${PLUGIN_ROOT}/x.sh"}]}})
    (member,) = load(path).hooks[0].members
    assert member.command == ("bash", "-c", f"{project}/plug/x.sh")
    root = str(project / "plug")
    assert {member.env[name] for name in ("PLUGIN_ROOT", "COPILOT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT")} == {root}
    assert member.env["CLAUDE_PROJECT_DIR"] == str(project)


def test_a_file_that_is_added_to_a_hooks_directory_is_noticed(write, project):
    first = hooks_file(write, "../home/.copilot/hooks/a.json", preToolUse=[{"bash": "true"}])
    source = Source(lambda: layers.discover(project), *layers.candidates(project))
    assert len(source.read().configs) == 1
    assert (source.changed(), str(first.parent.resolve()) in source.directories()) == (False, True)

    hooks_file(write, "../home/.copilot/hooks/b.json", preToolUse=[{"bash": "true"}])

    assert source.changed()
    assert len(source.read().configs) == 2


@pytest.mark.anyio
async def test_handlers_run_one_after_the_other_in_their_directory(write, project):
    (project / "a b").mkdir()
    note = "echo {} >> log; sleep 0.0{}"
    path = hooks_file(
        write,
        preToolUse=[
            {"bash": note.format(1, 3), "cwd": "a b"},
            {"bash": note.format(2, 1), "cwd": "a b"},
            {"bash": "jq -e '.toolArgs.command == \"ls\"' >/dev/null", "matcher": "bash"},
        ],
    )
    tools = {"mine": ToolAlias(same_as="Bash", fields={"line": "command"})}
    async with Host(foreign_hooks(path, tools=tools)) as host:
        assert (await host.before_tool(ToolCall(tool="mine", arguments={"line": "ls"}))).action == "continue"
        denied = await host.before_tool(ToolCall(tool="mine", arguments={"line": "rm -rf /"}))
    assert denied.action == "deny_tool"
    assert (project / "a b/log").read_text() == "1\n2\n1\n2\n"


@pytest.mark.anyio
async def test_a_session_begins_once(write):
    path = hooks_file(write, sessionStart=[{"bash": 'echo \'{"additionalContext": "It is Monday."}\''}])
    async with Host(foreign_hooks(path)) as host:
        first, second = [await host.before_prompt(Prompt(prompt="hi", meta=META)) for _ in range(2)]
    assert (len(first.notes), len(second.notes)) == (1, 0)
