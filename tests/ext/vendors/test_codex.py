"""Codex's contract, where it differs from Claude Code's, and its files."""

from __future__ import annotations

import json

import pytest
from pure import BASH, FACTS, PAYLOADS, Said, decided, inner, permission, verdict_of
from rows import each

from picohook import AbortTurn, Deny, Finish, Host, Modify, Prompt, Retry, ToolCall, ToolResult, ToolReturn
from picohook.config import load
from picohook.errors import HookReplyError
from picohook.ext.vendors.dialects import vendor_named
from picohook.model.decisions import APPROVE, CONTINUE
from picohook.projects import layers
from picohook.projects.trust import covered

CODEX = vendor_named("codex")
COMMON = {"session_id": "s1", "transcript_path": None, "cwd": "/project", "model": "", "permission_mode": "default"}


def told(event, payload=None):
    found = CODEX.encode(event, payload or PAYLOADS[CODEX.events[event].stage], FACTS)
    return None if found is None else found.stdin


def said(event, *answers, failures="strict", payload=None):
    return decided(event, *answers, dialect="codex", failures=failures, payload=payload)


# What they read.


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "c1"}),
        ("PermissionRequest", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        (
            "PostToolUse",
            {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "c1", "tool_response": "a.txt"},
        ),
        ("UserPromptSubmit", {"prompt": "hello"}),
        ("SessionStart", {"source": "startup"}),
        ("Stop", {"stop_hook_active": False, "last_assistant_message": "done"}),
    ],
)
def test_handlers_read_the_fields_of_their_event(event, fields):
    assert told(event) == {**COMMON, "hook_event_name": event, "turn_id": "t1", **fields}


def test_a_failed_call_has_no_event():
    assert told("PostToolUse", ToolReturn(**BASH.__dict__, result=ToolResult(is_error=True))) is None


def test_what_writes_and_edits_files_is_shown_as_a_patch():
    write = ToolCall(tool="write_file", arguments={"path": "a", "content": "x\ny"})
    edit = ToolCall(tool="Edit", arguments={"file_path": "/a", "old_string": "x", "new_string": "y"})
    patches = [told("PreToolUse", call)["tool_input"]["command"] for call in (write, edit)]
    assert patches == [
        "*** Begin Patch\n*** Add File: /project/a\n+x\n+y\n*** End Patch",
        "*** Begin Patch\n*** Update File: /a\n@@\n-x\n+y\n*** End Patch",
    ]
    assert told("PreToolUse", write)["tool_name"] == "apply_patch"


@pytest.mark.parametrize("field", ["command", "patch", "input"])
def test_a_patch_of_the_host_comes_back_by_the_hosts_name(field):
    call = ToolCall(tool="apply_patch", arguments={field: "a"})
    assert told("PreToolUse", call)["tool_input"] == {"command": "a"}
    answer = permission("allow", updatedInput={"command": "b"})
    assert said("PreToolUse", Said(answer), payload=call) == Modify({"arguments": {field: "b"}})


def test_a_changed_patch_of_what_was_no_patch_is_a_failure():
    call = ToolCall(tool="write_file", arguments={"path": "a", "content": "x"})
    answer = Said(permission("allow", updatedInput={"command": "b"}))
    assert isinstance(said("PreToolUse", answer, payload=call), HookReplyError)
    assert said("PreToolUse", answer, payload=call, failures="vendor") == CONTINUE
    same = Said(permission("allow", updatedInput=told("PreToolUse", call)["tool_input"]))
    assert said("PreToolUse", same, payload=call) == CONTINUE


def test_a_subagent_starts_and_stops_instead_of_a_prompt_and_a_stop():
    meta = PAYLOADS["before_prompt"].meta.model_copy(update={"parent_turn_id": "t0", "agent_id": "reviewer"})
    prompt, finish = Prompt(prompt="x", meta=meta), Finish(meta=meta)
    assert told("UserPromptSubmit", prompt) is None
    assert told("SubagentStart", prompt)["agent_type"] == "reviewer"
    assert told("SubagentStop", finish)["stop_hook_active"] is False


# What their answers mean.


@each(
    ("event", "answer", "decision"),
    [
        ("PreToolUse", permission("deny", permissionDecisionReason="no"), Deny("no")),
        ("PreToolUse", {"decision": "block", "reason": "no"}, Deny("no")),
        ("PreToolUse", permission("allow", updatedInput={"command": "a"}), Modify({"arguments": {"command": "a"}})),
        ("PostToolUse", {"decision": "block", "reason": "no"}, Modify({"for_llm": "no"})),
        (
            "PostToolUse",
            {"decision": "block", "reason": "no", **inner("PostToolUse", additionalContext="why")},
            Modify({"for_llm": "no\n\nwhy"}),
        ),
        ("PostToolUse", inner("PostToolUse", additionalContext="why"), Modify({"for_llm": "a.txt\n\nwhy"})),
        ("PostToolUse", {"continue": False, "stopReason": "enough"}, AbortTurn("enough")),
        ("UserPromptSubmit", {"decision": "block", "reason": "no"}, AbortTurn("no")),
        ("Stop", {"decision": "block", "reason": "test it"}, Retry("test it")),
        ("Stop", {"decision": "block", "reason": "test it", "continue": False}, CONTINUE),
        ("PermissionRequest", inner("PermissionRequest", decision={"behavior": "allow"}), APPROVE),
        ("PermissionRequest", inner("PermissionRequest", decision={"behavior": "deny", "message": "no"}), Deny("no")),
    ],
)
def test_an_answer_is_a_decision(event, answer, decision):
    assert said(event, Said(answer)) == decision


@pytest.mark.parametrize("field", ["updatedInput", "updatedPermissions"])
@pytest.mark.parametrize("failures", ["strict", "vendor"])
def test_a_reserved_field_of_a_permission_is_a_no(field, failures):
    answer = inner("PermissionRequest", decision={"behavior": "allow", field: {"a": 1}})
    assert isinstance(said("PermissionRequest", Said(answer), failures=failures), Deny)


@each(
    "answer",
    [
        permission("allow"),
        permission("ask"),
        permission("deny"),
        {"decision": "approve"},
        {"continue": False},
        {"suppressOutput": True},
        {"surprise": 1},
        inner("PreToolUse", surprise=1),
        inner("PreToolUse", updatedInput={}),
        inner("PostToolUse"),
    ],
)
def test_what_codex_does_not_support_before_a_tool_is_a_failure(answer):
    assert isinstance(said("PreToolUse", Said(answer)), HookReplyError)
    assert said("PreToolUse", Said(answer), failures="vendor") == CONTINUE


def test_text_is_context_where_a_prompt_begins_and_wrong_where_a_turn_ends():
    assert said("SessionStart", Said("it rains")).notes.additional_context == "it rains"
    assert len(verdict_of("Stop", Said("done"), dialect="codex").failures) == 1
    assert said("PreToolUse", Said("fine")) == CONTINUE


def test_a_context_has_a_limit_of_its_own():
    assert said("UserPromptSubmit", Said("x" * 100, context_limit=5)).notes.additional_context == "x" * 20


# Its files.


HANDLER = {
    "type": "command",
    "command": "jq -e '.tool_input.command | test(\"rm\") | not' >/dev/null || { echo no >&2; exit 2; }",
}


def test_both_of_its_files_are_found_and_covered_by_trust(write, project):
    first = write(".codex/hooks.json", {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [HANDLER]}]}})
    second = write(
        ".codex/config.toml",
        """
        model = "m"
        [[hooks.Stop]]
        [[hooks.Stop.hooks]]
        type = "command"
        command = "true"
        [hooks.state]
        x = "y"
        """,
    )
    found = layers.discover()
    assert [(config.dialect, config.path) for config in found.configs] == [("codex", first), ("codex", second)]
    assert [spec.name for spec in found.hooks] == ["codex:PreToolUse", "codex:Stop"]
    write("x.sh", "#!/bin/sh\n", 0o755)
    script = write(".codex/hooks.json", {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./x.sh"}]}]}})
    assert covered(load(script, found=True)) == (str(script), str(project / "x.sh"))


def test_settings_of_codex_without_hooks_need_no_trust(write):
    write(".codex/config.toml", 'model = "m"\n')
    assert layers.discover().configs == ()


@pytest.mark.parametrize(
    ("event", "handler", "seconds"),
    [
        ("PreToolUse", {}, 600),
        ("PreToolUse", {"timeout": 0.1}, 1),
        ("SessionEnd", {}, 1),
        ("SessionEnd", {"timeout": 30}, 3),
        ("Interrupt", {"timeout": 30}, 3),
    ],
)
def test_timeouts_have_its_limits(write, event, handler, seconds):
    path = write(".codex/hooks.json", {"hooks": {event: [{"hooks": [{**HANDLER, **handler}]}]}})
    assert load(path).hooks[0].timeout == seconds


def test_a_matcher_that_rust_cannot_read_is_named(write):
    path = write(".codex/hooks.json", {"hooks": {"PreToolUse": [{"matcher": "(?=x)", "hooks": [HANDLER]}]}})
    (warning,) = load(path).warnings
    assert warning.startswith("hooks.PreToolUse[0].matcher: (?=x) matches everything, because it cannot be read: look-")


@pytest.mark.anyio
async def test_its_commands_run_in_a_login_shell(write, project, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/bash")
    (project.parent / "home" / ".bash_profile").write_text("export FROM_PROFILE=yes\n")
    command = 'cat >input; echo "$FROM_PROFILE $PWD" >said'
    path = write(".codex/hooks.json", {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}})
    async with Host.from_config(path) as host:
        assert (await host.before_tool(BASH)).action == "continue"
    assert (project / "said").read_text() == f"yes {project}\n"
    data = (project / "input").read_bytes()
    assert not data.endswith(b"\n")
    assert json.loads(data)["hook_event_name"] == "PreToolUse"


@pytest.mark.anyio
async def test_a_guard_of_patches_sees_what_a_host_writes(write):
    command = "jq -r .tool_input.command | grep -q '^+.*PASSWORD' && { echo no >&2; exit 2; }; exit 0"
    group = {"matcher": "apply_patch", "hooks": [{"type": "command", "command": command}]}
    async with Host.from_config(write(".codex/hooks.json", {"hooks": {"PreToolUse": [group]}})) as host:
        good, bad = (
            ToolCall(tool="write_file", arguments={"path": "a", "content": text}) for text in ("x", "PASSWORD=1")
        )
        assert (await host.before_tool(good)).action == "continue"
        assert (await host.before_tool(bad)).action == "deny_tool"
