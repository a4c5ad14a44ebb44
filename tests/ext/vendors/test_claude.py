"""Claude Code's contract: what handlers read, which run, what their answers mean, and what they say together."""

from __future__ import annotations

import pytest
from pure import BASH, FACTS, META, PAYLOADS, Said, decided, inner, permission, verdict_of
from rows import each

from picohook import (
    AbortTurn,
    Approve,
    Compaction,
    Deny,
    Finish,
    LLMRequest,
    Meta,
    Modify,
    Pause,
    Prompt,
    Retry,
    Skip,
    ToolResult,
    ToolReturn,
)
from picohook.errors import HookCrashedError, HookReplyError, HookTimeoutError
from picohook.ext.vendors.contract import Facts, Rule
from picohook.ext.vendors.dialects import vendor_named
from picohook.model.decisions import APPROVE, CONTINUE

CLAUDE = vendor_named("claude")
COMMON = {"session_id": "s1", "transcript_path": "", "cwd": "/project", "permission_mode": "default", "prompt_id": "t1"}
CALL = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
TURN = Meta(session_key="s1", turn_id="t2", parent_turn_id="t1", agent_id="reviewer")


def always(content, destination="session"):
    """The update of permissions that "always allow" makes, for this command."""
    rule = {"toolName": "Bash"} | ({} if content is None else {"ruleContent": content})
    return {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": destination}


def told(event, payload=None, facts=FACTS):
    found = CLAUDE.encode(event, payload or PAYLOADS[CLAUDE.events[event].stage], facts)
    return None if found is None else found.stdin


# What they read.


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("PreToolUse", {**CALL, "tool_use_id": "c1"}),
        ("PermissionRequest", {**CALL, "permission_suggestions": [always("ls")]}),
        (
            "PostToolUse",
            {
                **CALL,
                "tool_use_id": "c1",
                "tool_response": {"stdout": "a.txt", "stderr": "", "interrupted": False, "isImage": False},
                "duration_ms": 3,
            },
        ),
        ("UserPromptSubmit", {"prompt": "hello"}),
        ("SessionStart", {"source": "startup"}),
        (
            "Stop",
            {"stop_hook_active": False, "last_assistant_message": "done", "background_tasks": [], "session_crons": []},
        ),
    ],
)
def test_handlers_read_the_fields_of_their_event(event, fields):
    assert told(event) == {**COMMON, "hook_event_name": event, **fields}


def test_every_field_that_the_table_names_is_sent():
    for event, row in CLAUDE.events.items():
        if row.stage and row.stage in PAYLOADS and event not in {"SubagentStart", "SubagentStop", "PostToolUseFailure"}:
            assert {*row.reads} <= told(event).keys(), event


def test_a_failed_call_is_another_event():
    failed = ToolReturn(**BASH.__dict__, result=ToolResult(for_llm="no such file", is_error=True))
    assert told("PostToolUse", failed) is None
    said = told("PostToolUseFailure", failed)
    assert (said["error"], said["is_interrupt"]) == ("no such file", False)
    assert told("PostToolUseFailure") is None


def test_a_batch_has_the_calls_whose_results_are_the_last_messages():
    (call,) = told("PostToolBatch")["tool_calls"]
    assert (call["tool_name"], call["tool_input"], call["tool_use_id"]) == ("Bash", {"command": "ls"}, "c1")
    assert call["tool_response"]["stdout"] == "a.txt"
    assert told("PostToolBatch", LLMRequest(messages=[{"role": "user", "content": "hi"}])) is None


def test_a_subagent_starts_and_stops_instead_of_a_prompt_and_a_stop():
    prompt, finish = Prompt(prompt="look", meta=TURN), Finish(response={"content": "ok"}, meta=TURN)
    assert told("UserPromptSubmit", prompt) is None
    assert told("Stop", finish) is None
    assert told("SubagentStart", prompt)["agent_type"] == "reviewer"
    assert told("SubagentStop", finish)["agent_id"] == "t2"
    assert told("SubagentStart") is None


def test_a_session_with_messages_is_resumed():
    assert told("SessionStart", Prompt(prompt="x", messages=[{"role": "user", "content": "y"}]))["source"] == "resume"


def test_without_a_session_there_is_an_id_all_the_same():
    assert told("UserPromptSubmit", Prompt(prompt="x"))["session_id"] == "s0"


def test_compactions_happen_by_themselves():
    assert told("PreCompact", Compaction(scope="auto"))["trigger"] == "auto"


@pytest.mark.parametrize(
    ("tool", "response"),
    [
        ("Read", {"type": "text", "file": {"filePath": "/project/x", "content": "said"}}),
        ("Write", {"filePath": "/project/x", "success": True, "content": "said"}),
        ("mcp__a__b", [{"type": "text", "text": "said"}]),
        ("own", {"content": "said"}),
    ],
)
def test_the_result_of_a_tool_has_the_shape_of_that_tool(tool, response):
    call = ToolReturn(tool=tool, arguments={"file_path": "x"}, result=ToolResult(for_llm="said"))
    assert told("PostToolUse", call)["tool_response"] == response


# Which run.


def chosen(*rules, event="PreToolUse", call=BASH):
    found = CLAUDE.encode(event, call, FACTS)
    return CLAUDE.select(event, [Rule(at="h", **rule) for rule in rules], found, FACTS)


@each(
    ("matcher", "matches"),
    [
        ("", True),
        ("*", True),
        ("Bash", True),
        ("Edit|Bash", True),
        ("Edit, Bash", True),
        ("bash", False),
        ("Bas", False),
        ("Bas.", True),
        ("^Ba", True),
        ("(?<tool>B)ash$", True),
        ("Bash.+", False),
    ],
)
def test_a_matcher_is_a_list_of_names_or_an_expression(matcher, matches):
    assert bool(chosen({"matcher": matcher})) is matches


def test_a_matcher_is_ignored_where_there_is_nothing_to_match():
    assert chosen({"matcher": "Bash"}, event="UserPromptSubmit", call=PAYLOADS["before_prompt"]) == [0]


def test_a_matcher_may_have_a_tools_earlier_name():
    call = BASH.model_copy(update={"tool": "task"})
    assert chosen({"matcher": "Task"}, {"matcher": "Agent"}, {"matcher": "Bash"}, call=call) == [0, 1]


def test_a_rule_is_held_against_the_call():
    rules = [{"only_if": "Bash(git *)"}, {"only_if": "Bash(ls:*)"}, {"only_if": "Edit(*)"}]
    assert chosen(*rules) == [1]


# What one answer means.


def deny(reason):
    return Deny(reason)


@each("failures", ["strict", "vendor"])
@each(
    ("event", "decision"),
    [
        ("PreToolUse", Deny("no")),
        ("UserPromptSubmit", AbortTurn("no")),
        ("PostToolBatch", AbortTurn("no")),
        ("PostToolUse", Modify({"for_llm": "a.txt\n\nno"})),
        ("Stop", Retry("no")),
    ],
)
def test_exit_code_2_blocks_with_stderr_as_the_reason(event, decision, failures):
    assert decided(event, Said("ignored", 2, "no\n"), failures=failures) == decision


def test_exit_code_2_skips_a_compaction():
    assert decided("PreCompact", Said(code=2, stderr="later"), payload=Compaction(scope="auto")) == Skip("later")


def test_exit_code_2_says_nothing_where_there_is_nothing_to_block():
    decision = decided("SessionStart", Said(code=2, stderr="oops"))
    assert (decision.action, decision.notes.system_message) == ("continue", "oops")


@each(
    ("answer", "decision"),
    [
        (permission("deny", permissionDecisionReason="no"), Deny("no")),
        ({"decision": "block", "reason": "no"}, Deny("no")),
        (permission("deny"), Deny("blocked by a hook, which gave no reason")),
        (permission("allow"), CONTINUE),
        ({"decision": "approve"}, CONTINUE),
        (permission("defer", permissionDecisionReason="later"), Pause("later")),
        (permission("allow", updatedInput={"command": "ls -l"}), Modify({"arguments": {"command": "ls -l"}})),
        (inner("PreToolUse", updatedInput={"command": "ls -l"}), Modify({"arguments": {"command": "ls -l"}})),
        ({"continue": False, "stopReason": "enough"}, AbortTurn("enough")),
        ({}, CONTINUE),
        ({"suppressOutput": True}, CONTINUE),
        ("just text", CONTINUE),
    ],
)
def test_an_answer_about_a_call_is_a_decision(answer, decision):
    assert decided("PreToolUse", Said(answer)) == decision


def test_who_asks_wants_an_approver():
    verdict = verdict_of("PreToolUse", Said(permission("ask", updatedInput={"command": "ls -l"})))
    assert (verdict.asks, verdict.decision) == (True, Modify({"arguments": {"command": "ls -l"}}))


@pytest.mark.parametrize(
    ("decision", "verdict", "silent"),
    [
        ({"behavior": "allow"}, APPROVE, False),
        ({"behavior": "deny", "message": "no"}, Deny("no"), False),
        ({"behavior": "allow", "updatedInput": {"command": "ls"}}, APPROVE, False),
        (None, APPROVE, True),
    ],
)
def test_who_is_asked_for_permission_says_yes_no_or_nothing(decision, verdict, silent):
    answer = inner("PermissionRequest", **({} if decision is None else {"decision": decision}))
    found = verdict_of("PermissionRequest", Said(answer))
    assert (found.decision, found.silent) == (verdict, silent)


@each(
    "rule",
    [
        (always("ls"), {"for": "session", "like": {}}),
        (always("ls:*", "projectSettings"), {"for": "project", "like": {"command": {"starts": ["ls"]}}}),
        (always("git push:*", "localSettings"), {"for": "project", "like": {"command": {"starts": ["git", "push"]}}}),
        (always(None), {"for": "session", "like": {"command": "anything"}}),
    ],
)
def test_always_allow_is_a_grant(rule):
    update, grant = rule
    answer = inner("PermissionRequest", decision={"behavior": "allow", "updatedPermissions": [update]})
    assert decided("PermissionRequest", Said(answer)) == Approve(grant=grant)


@each(
    "updates",
    [
        [always("ls", "userSettings")],
        [always("ls"), always("pwd")],
        [always("ls -l")],
        [always("* x:*")],
        [{**always("ls"), "behavior": "deny"}],
        [{**always("ls"), "rules": [{"toolName": "Edit"}]}],
        [{**always("ls"), "rules": []}],
        [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
        {"type": "addRules"},
        "ls",
    ],
)
def test_always_allow_that_no_grant_says_is_a_yes_for_this_call_and_is_named(updates):
    answer = inner("PermissionRequest", decision={"behavior": "allow", "updatedPermissions": updates})
    found = verdict_of("PermissionRequest", Said(answer))
    assert found.decision == APPROVE
    assert "`decision.updatedPermissions` counts for nothing: " in str(found.failures[0])


def test_handlers_that_do_not_allow_the_same_always_allow_this_call_alone():
    said = [
        Said(inner("PermissionRequest", decision={"behavior": "allow", "updatedPermissions": updates}))
        for updates in ([always("ls")], None)
    ]
    assert decided("PermissionRequest", *said) == APPROVE


def test_a_yes_to_another_call_than_the_one_that_would_run_is_a_no():
    answer = inner("PermissionRequest", decision={"behavior": "allow", "updatedInput": {"command": "ls -l"}})
    assert isinstance(decided("PermissionRequest", Said(answer)), Deny)


def test_exit_code_2_is_a_no_to_permission_in_strict_and_nothing_for_the_vendor():
    assert decided("PermissionRequest", Said(code=2, stderr="no")) == Deny("no")
    assert verdict_of("PermissionRequest", Said(code=2, stderr="no"), failures="vendor").silent


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
def test_text_is_context_where_a_prompt_begins(event):
    assert decided(event, Said("it rains\n")).notes.additional_context == "it rains"


@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit", "PostToolBatch", "SessionStart"])
def test_context_and_message_are_notes(event):
    notes = decided(event, Said({"systemMessage": "psst", **inner(event, additionalContext="it rains")})).notes
    assert (notes.additional_context, notes.system_message) == ("it rains", "psst")


def test_context_about_a_result_is_added_to_it():
    answer = inner("PostToolUse", additionalContext="it is old")
    assert decided("PostToolUse", Said(answer)) == Modify({"for_llm": "a.txt\n\nit is old"})


@pytest.mark.parametrize("output", ["b.txt", {"stdout": "b.txt", "stderr": ""}, [{"type": "text", "text": "b.txt"}]])
def test_the_output_of_a_tool_can_be_replaced(output):
    answer = inner("PostToolUse", updatedToolOutput=output)
    assert decided("PostToolUse", Said(answer)) == Modify({"for_llm": "b.txt"})


def test_an_output_of_another_shape_is_a_failure():
    verdict = verdict_of("PostToolUse", Said(inner("PostToolUse", updatedToolOutput={"x": 1})))
    assert (verdict.decision, len(verdict.failures)) == (CONTINUE, 1)


def test_a_turn_continues_with_the_reason_or_the_context():
    assert decided("Stop", Said({"decision": "block", "reason": "test it"})) == Retry("test it")
    assert decided("Stop", Said(inner("Stop", additionalContext="one more"))) == Retry("one more")
    assert decided("Stop", Said({"decision": "block", "reason": "go on", "continue": False})) == CONTINUE


@pytest.mark.parametrize(
    ("event", "answer", "decision"),
    [
        ("PreToolUse", {"ok": True}, CONTINUE),
        ("PreToolUse", {"ok": False, "reason": "no"}, AbortTurn("no")),
        ("Stop", {"ok": False, "reason": "test it"}, Retry("test it")),
        ("UserPromptSubmit", {"ok": False, "reason": "no"}, AbortTurn("no")),
        ("PermissionRequest", {"ok": False, "reason": "no"}, Deny("no")),
    ],
)
def test_a_model_answers_whether_the_call_is_ok(event, answer, decision):
    assert decided(event, Said(answer, kind="prompt")) == decision


def test_a_models_refusal_can_leave_the_turn_alive():
    said = Said({"ok": False, "reason": "no"}, kind="prompt", continues_on_block=True)
    assert decided("PreToolUse", said) == Deny("no")


def test_what_is_impossible_does_not_keep_a_turn_from_its_end():
    said = Said({"ok": False, "reason": "cannot be tested", "impossible": True}, kind="prompt")
    assert decided("Stop", said).notes.system_message == "cannot be tested"


def test_a_model_that_says_neither_has_failed():
    assert isinstance(decided("PreToolUse", Said("I think so.", kind="prompt")), HookReplyError)
    denied = decided("PreToolUse", Said("I think so.", kind="prompt"), failures="vendor")
    assert isinstance(denied, Deny)


@each(
    "said",
    [
        Said(code=1, stderr="Traceback"),
        Said(code=127),
        Said(code=-9),
        Said("{"),
        Said({"hookSpecificOutput": {"permissionDecision": "deny"}}),
        Said(permission("maybe")),
        Said({"decision": 1}),
        Said(failure=HookTimeoutError("late")),
        Said(failure=HookCrashedError("gone")),
        Said("oops", kind="http"),
    ],
)
def test_a_failed_gate_denies_in_strict_and_is_open_for_the_vendor(said):
    assert isinstance(decided("PreToolUse", said), Exception)
    assert decided("PreToolUse", said, failures="vendor") == CONTINUE


@pytest.mark.parametrize("event", ["PostToolUse", "Stop", "SessionStart"])
def test_a_handler_that_refuses_nothing_may_fail(event):
    verdict = verdict_of(event, Said(code=1))
    assert (verdict.decision, len(verdict.failures)) == (CONTINUE, 1)


@pytest.mark.parametrize("failures", ["strict", "vendor"])
def test_a_handler_can_block_when_it_fails(failures):
    said = Said(failure=HookTimeoutError("late"), blocks_on_failure=True)
    assert decided("PreToolUse", said, failures=failures) == Deny("late")


def test_schema_breaking_json_still_blocks_with_exit_code_2():
    assert decided("PreToolUse", Said({"decision": 1}, 2, "no")) == Deny("no")


def test_texts_are_cut_to_what_the_vendor_takes():
    assert len(decided("UserPromptSubmit", Said("x" * 20_000)).notes.additional_context) == 10_001


def test_fields_without_a_meaning_are_named():
    answer = CLAUDE.decode("Stop", Rule(at="h"), Said({"retry": 1, **inner("Stop", updatedInput={})}).ran, "strict")
    assert answer.ignored == ("retry", "hookSpecificOutput.updatedInput")


# What they say together.


@pytest.mark.parametrize(
    ("verdicts", "kind"),
    [
        (("allow", "deny", "ask", "defer"), Deny),
        (("allow", "ask", "defer"), Pause),
    ],
)
def test_deny_goes_before_defer_before_ask_before_allow(verdicts, kind):
    assert isinstance(decided("PreToolUse", *(Said(permission(one)) for one in verdicts)), kind)


def test_ask_goes_before_allow():
    assert verdict_of("PreToolUse", Said(permission("ask")), Said(permission("allow"))).asks


def test_the_reasons_of_all_who_deny_are_given_in_the_order_of_the_file():
    said = [Said(permission("deny", permissionDecisionReason=reason)) for reason in ("b", "a")]
    assert decided("PreToolUse", *said) == Deny("b\na")


def test_every_context_is_kept():
    assert decided("UserPromptSubmit", Said("a"), Said("b")).notes.additional_context == "a\n\nb"


def test_who_ends_everything_wins():
    said = [Said(permission("deny", permissionDecisionReason="no")), Said({"continue": False, "stopReason": "enough"})]
    assert decided("PreToolUse", *said) == AbortTurn("enough")


def test_a_denial_decides_over_a_failure_beside_it():
    verdict = verdict_of("PreToolUse", Said(code=1), Said(code=2, stderr="no"))
    assert (verdict.decision, len(verdict.failures)) == (Deny("no"), 1)


@pytest.mark.parametrize("verdict", ["allow", "ask"])
def test_a_failure_decides_over_all_else(verdict):
    assert isinstance(decided("PreToolUse", Said(permission(verdict)), Said(code=1)), HookCrashedError)


# Tools.


def test_the_hosts_names_come_back_with_a_changed_input():
    call = BASH.model_copy(update={"tool": "write_file", "arguments": {"path": "a.txt", "contents": "x", "mode": 1}})
    read = told("PreToolUse", call)
    assert (read["tool_name"], read["tool_input"]) == (
        "Write",
        {"file_path": "/project/a.txt", "content": "x", "mode": 1},
    )
    answer = inner("PreToolUse", updatedInput={**read["tool_input"], "content": "y"})
    changed = decided("PreToolUse", Said(answer), payload=call)
    assert changed == Modify({"arguments": {"path": "a.txt", "contents": "y", "mode": 1}})


def test_an_embedding_names_its_own_tools():
    from picohook import ToolAlias

    facts = Facts("/project", tools={"sh": ToolAlias(same_as="Bash", fields={"line": "command"})})
    call = BASH.model_copy(update={"tool": "sh", "arguments": {"line": "ls"}})
    assert told("PreToolUse", call, facts)["tool_input"] == {"command": "ls"}
    assert META.turn_id
