"""Cursor's contract, and its files."""

from __future__ import annotations

import json
import os

import pytest
from pure import BASH, FACTS, META, PAYLOADS, Said, decided, verdict_of
from rows import each

from picohook import (
    AbortTurn,
    ConfigError,
    Deny,
    Finish,
    Host,
    Modify,
    Prompt,
    Retry,
    Timeouts,
    ToolAlias,
    ToolCall,
    ToolResult,
    ToolReturn,
    foreign_hooks,
)
from picohook.config import load
from picohook.config.dialects import name_of
from picohook.errors import HookCrashedError, HookReplyError, HookTimeoutError
from picohook.ext.vendors.contract import Facts, Rule
from picohook.ext.vendors.dialects import vendor_named
from picohook.ext.vendors.surroundings import MOST_SESSIONS, SessionEnv, file_text
from picohook.model.decisions import CONTINUE
from picohook.projects import layers
from picohook.projects.trust import covered

CURSOR = vendor_named("cursor")
COMMON = {
    "conversation_id": "s1",
    "generation_id": "t1",
    "model": "",
    "cursor_version": "2.0.0",
    "workspace_roots": ["/project"],
    "user_email": None,
    "transcript_path": None,
}
READ = ToolCall(tool="view", arguments={"path": "a.txt"}, tool_call_id="c1", meta=META)
EDIT = ToolCall(tool="edit", arguments={"path": "a", "old_string": "x", "new_string": "y"}, meta=META)
WRITE = ToolCall(tool="write", arguments={"path": "a", "content": "x"}, meta=META)
SERVER = ToolCall(tool="mcp__db__query", arguments={"sql": "select 1"}, tool_call_id="c1", meta=META)
SUBAGENT = META.model_copy(update={"turn_id": "t2", "parent_turn_id": "t1", "agent_id": "explore"})


def returned(call, text="done", *, is_error=False):
    return ToolReturn(**call.__dict__, result=ToolResult(for_llm=text, is_error=is_error), duration=3_000_000)


def told(event, payload=None, facts=FACTS):
    found = CURSOR.encode(event, payload or PAYLOADS[CURSOR.events[event].stage], facts)
    return None if found is None else found.stdin


def said(event, *answers, failures="strict", payload=None):
    return decided(event, *answers, dialect="cursor", failures=failures, payload=payload or ABOUT.get(event))


ABOUT = {
    "beforeMCPExecution": SERVER,
    "beforeReadFile": READ,
    "afterMCPExecution": returned(SERVER),
    "afterFileEdit": returned(EDIT),
    "postToolUseFailure": returned(BASH, is_error=True),
    "subagentStart": Prompt(prompt="look", meta=SUBAGENT),
    "subagentStop": Finish(prompt="look", response={"content": "found"}, meta=SUBAGENT),
}

# What they read.


@each(
    ("event", "fields"),
    [
        (
            "preToolUse",
            {
                "tool_name": "Shell",
                "tool_input": {"command": "ls"},
                "tool_use_id": "c1",
                "cwd": "/project",
                "agent_message": "",
            },
        ),
        ("beforeShellExecution", {"command": "ls", "cwd": "/project", "sandbox": False}),
        ("beforeMCPExecution", {"tool_name": "query", "tool_input": '{"sql": "select 1"}'}),
        ("beforeReadFile", {"file_path": "/project/a.txt", "content": "", "attachments": []}),
        (
            "postToolUse",
            {
                "tool_name": "Shell",
                "tool_input": {"command": "ls"},
                "tool_use_id": "c1",
                "cwd": "/project",
                "tool_output": '{"exitCode": 0, "stdout": "a.txt"}',
                "duration": 3,
            },
        ),
        ("afterShellExecution", {"command": "ls", "output": "a.txt", "duration": 3, "sandbox": False}),
        ("afterFileEdit", {"file_path": "/project/a", "edits": [{"old_string": "x", "new_string": "y"}]}),
        ("beforeSubmitPrompt", {"prompt": "hello", "attachments": []}),
        ("stop", {"status": "completed", "loop_count": 0}),
        ("sessionStart", {"session_id": "s1", "is_background_agent": False, "composer_mode": "agent"}),
        ("preCompact", {"trigger": "auto", "message_count": 0}),
    ],
)
def test_handlers_read_the_fields_of_their_event(event, fields):
    assert told(event, ABOUT.get(event)) == {**COMMON, "hook_event_name": event, **fields}


def test_every_field_that_the_table_names_is_sent():
    for event, row in CURSOR.events.items():
        if row.stage:
            assert {*row.reads} <= told(event, ABOUT.get(event)).keys(), event


def test_inputs_and_outputs_of_servers_are_texts_of_json():
    seen = told("afterMCPExecution", ABOUT["afterMCPExecution"])
    assert json.loads(seen["tool_input"]) == {"sql": "select 1"}
    assert json.loads(seen["result_json"]) == {"content": [{"type": "text", "text": "done"}]}


@each(
    ("event", "payloads"),
    [
        ("beforeShellExecution", [READ, SERVER]),
        ("beforeMCPExecution", [BASH, READ]),
        ("beforeReadFile", [BASH, EDIT]),
        ("afterShellExecution", [returned(READ)]),
        ("afterFileEdit", [returned(BASH), returned(EDIT, is_error=True)]),
        ("postToolUse", [returned(BASH, is_error=True)]),
        ("postToolUseFailure", [returned(BASH)]),
        ("beforeSubmitPrompt", [ABOUT["subagentStart"]]),
        ("subagentStart", [PAYLOADS["before_prompt"]]),
        ("stop", [ABOUT["subagentStop"]]),
        ("subagentStop", [PAYLOADS["before_finish"]]),
    ],
)
def test_an_event_happens_with_its_own_tool_or_turn_only(event, payloads):
    assert [told(event, payload) for payload in payloads] == [None] * len(payloads)


@pytest.mark.parametrize(
    ("tool", "name"),
    [("run_command", "Shell"), ("view", "Read"), ("str_replace", "Write"), ("task", "Task"), ("mcp__a__b", "MCP:b")],
)
def test_tools_have_the_names_that_cursor_has_for_them(tool, name):
    assert told("preToolUse", ToolCall(tool=tool))["tool_name"] == name


def test_a_shell_of_an_embedding_is_a_shell():
    facts = Facts(tools={"sh": ToolAlias(same_as="Shell", fields={"line": "command"})})
    assert told("beforeShellExecution", ToolCall(tool="sh", arguments={"line": "ls"}), facts)["command"] == "ls"


def test_a_command_that_is_a_list_is_one_line():
    assert told("beforeShellExecution", ToolCall(tool="bash", arguments={"command": ["rm", "-rf", "a b"]}))[
        "command"
    ] == ("rm -rf 'a b'")


def test_a_file_that_is_written_is_an_edit_of_nothing():
    assert told("afterFileEdit", returned(WRITE))["edits"] == [{"old_string": "", "new_string": "x"}]


def test_the_second_round_of_a_turn_reads_the_number_of_rounds():
    assert told("stop", facts=Facts(blocks=2))["loop_count"] == 2


# Which run.


@each(
    ("event", "matcher", "runs"),
    [
        ("preToolUse", "Shell|Read", True),
        ("preToolUse", "^Read", False),
        ("beforeShellExecution", "l.$", True),
        ("beforeShellExecution", "Shell", False),
        ("beforeMCPExecution", "MCP:query", True),
        ("beforeReadFile", "Read", True),
        ("beforeReadFile", "TabRead", False),
        ("afterFileEdit", "TabWrite|Write", True),
        ("beforeSubmitPrompt", "UserPromptSubmit", True),
        ("stop", "Stop", True),
        ("stop", "never", False),
        ("subagentStart", "explore|shell", True),
        ("sessionStart", "never", True),
    ],
)
def test_a_matcher_is_searched_in_what_the_event_is_about(event, matcher, runs):
    seen = CURSOR.encode(event, ABOUT.get(event) or PAYLOADS[CURSOR.events[event].stage], FACTS)
    assert bool(CURSOR.select(event, [Rule(at="h", matcher=matcher)], seen, FACTS)) is runs


# What their answers mean.


NO = {"permission": "deny", "user_message": "not you", "agent_message": "no"}


@each("failures", ["strict", "vendor"])
@each(
    ("event", "answer", "action"),
    [
        ("preToolUse", NO, "deny_tool"),
        ("beforeShellExecution", NO, "deny_tool"),
        ("beforeMCPExecution", NO, "deny_tool"),
        ("beforeReadFile", NO, "deny_tool"),
        ("subagentStart", NO, "abort_turn"),
        ("subagentStart", {**NO, "permission": "ask"}, "abort_turn"),
        ("beforeSubmitPrompt", {"continue": False, "user_message": "no"}, "abort_turn"),
        ("beforeSubmitPrompt", {"continue": True}, "continue"),
        ("beforeShellExecution", {"continue": True, "permission": "allow"}, "continue"),
        ("afterShellExecution", NO, "continue"),
        ("sessionStart", {"continue": False}, "continue"),
        ("beforeShellExecution", "", "continue"),
    ],
)
def test_an_answer_is_a_decision(event, answer, action, failures):
    assert said(event, Said(answer), failures=failures).action == action


def test_the_agent_and_the_user_each_get_their_own_message():
    decision = said("beforeShellExecution", Said(NO))
    assert (decision.reason, decision.notes.system_message) == ("no", "not you")
    assert said("beforeShellExecution", Said({"permission": "deny", "user_message": "not you"})).reason == "not you"


def test_the_first_names_of_fields_still_count():
    old = {"continue": True, "permission": "deny", "userMessage": "not you", "agentMessage": "no"}
    assert said("beforeShellExecution", Said(old)) == said("beforeShellExecution", Said(NO))
    assert said("beforeShellExecution", Said({**old, "agent_message": "never"})).reason == "never"


@pytest.mark.parametrize("event", ["beforeShellExecution", "beforeMCPExecution"])
def test_who_asks_wants_an_approver(event):
    verdict = verdict_of(event, Said({"permission": "ask"}), dialect="cursor", payload=ABOUT.get(event))
    assert (verdict.asks, verdict.decision) == (True, CONTINUE)


def test_asking_before_any_tool_does_nothing_in_cursor_and_wants_an_approver_in_strict():
    asks = [
        verdict_of("preToolUse", Said({"permission": "ask"}), dialect="cursor", failures=failures).asks
        for failures in ("strict", "vendor")
    ]
    assert asks == [True, False]


def test_a_bare_continue_false_is_a_denial_in_strict_and_nothing_in_cursor():
    answer = Said({"continue": False, "agentMessage": "no"})
    assert said("beforeShellExecution", answer) == Deny("no")
    assert said("beforeShellExecution", answer, failures="vendor") == CONTINUE


def test_a_permission_about_a_prompt_is_a_denial_in_strict_and_nothing_in_cursor():
    answer = Said({"permission": "deny", "user_message": "no"})
    assert said("beforeSubmitPrompt", answer).action == "abort_turn"
    assert said("beforeSubmitPrompt", answer, failures="vendor") == CONTINUE
    asks = Said({"permission": "ask"})
    assert isinstance(said("beforeSubmitPrompt", asks), HookReplyError)
    assert said("beforeSubmitPrompt", asks, failures="vendor") == CONTINUE


def test_the_last_changed_input_replaces_the_call():
    answers = [Said({"permission": "allow", "updated_input": {"command": command}}) for command in ("a", "b")]
    assert said("preToolUse", *answers) == Modify({"arguments": {"command": "b"}})
    assert said("preToolUse", answers[0], Said(NO)).action == "deny_tool"


@pytest.mark.parametrize(
    ("call", "output", "text"),
    [
        (SERVER, {"rows": []}, '{"rows": []}'),
        (SERVER, {"content": [{"type": "text", "text": "b"}]}, "b"),
        (BASH, {"stdout": "b"}, None),
    ],
)
def test_the_output_of_a_server_can_be_replaced(call, output, text):
    decision = said("postToolUse", Said({"updated_mcp_tool_output": output}), payload=returned(call))
    assert decision == (CONTINUE if text is None else Modify({"for_llm": text}))


def test_context_about_a_result_is_added_to_it():
    answer = Said({"additional_context": "it is old"})
    assert said("postToolUse", answer) == Modify({"for_llm": "a.txt\n\nit is old"})


def test_the_start_of_a_session_sets_variables_and_context():
    verdict = verdict_of("sessionStart", Said({"env": {"A": "b"}, "additional_context": "it rains"}), dialect="cursor")
    assert (verdict.env, verdict.decision.notes.additional_context) == ({"A": "b"}, "it rains")
    for wrong in ({"A": 1}, {"A=": "b"}, {"": "b"}, {"A": "\0"}):
        assert verdict_of("sessionStart", Said({"env": wrong}), dialect="cursor").failures


def test_a_compaction_tells_the_user():
    assert said("preCompact", Said({"user_message": "wait"})).notes.system_message == "wait"


@pytest.mark.parametrize(
    ("count", "limit", "goes_on"), [(0, 5, True), (4, 5, True), (5, 5, False), (99, None, True), (0, 0, False)]
)
def test_a_turn_continues_with_the_next_message_as_often_as_the_handler_may(count, limit, goes_on):
    seen = CURSOR.encode("stop", PAYLOADS["before_finish"], Facts(blocks=count))
    answer = CURSOR.decode("stop", Rule(at="h", most_blocks=limit), Said({"followup_message": "more"}).ran, "strict")
    decision = CURSOR.merge("stop", [answer], seen, PAYLOADS["before_finish"], "strict").decision
    assert decision == (Retry("more") if goes_on else CONTINUE)


@pytest.mark.parametrize(
    ("event", "decision"),
    [("beforeShellExecution", Deny("no")), ("beforeSubmitPrompt", AbortTurn("no")), ("afterFileEdit", CONTINUE)],
)
def test_a_model_answers_whether_the_call_is_ok(event, decision):
    answer = Said({"ok": False, "reason": "no"}, kind="prompt")
    found = said(event, answer)
    assert (found.action, found.reason) == (decision.action, decision.reason)
    assert said(event, Said({"ok": True}, kind="prompt")) == CONTINUE
    assert verdict_of("stop", Said("well", kind="prompt"), dialect="cursor").failures


FAILURES = [
    Said(code=1, stderr="Traceback"),
    Said(code=3, stdout=NO),
    Said(code=127),
    Said(code=-9),
    Said("{"),
    Said("[1]"),
    Said("checking ..."),
    Said({"permission": "maybe"}),
    Said({"permission": 1}),
    Said(failure=HookTimeoutError("late")),
]


@each("said_", FAILURES)
@each("event", ["preToolUse", "beforeShellExecution", "beforeReadFile", "beforeMCPExecution"])
def test_a_failure_denies_in_strict_and_is_open_in_cursor(event, said_):
    assert isinstance(said(event, said_), HookReplyError | HookCrashedError | HookTimeoutError)
    verdict = verdict_of(event, said_, dialect="cursor", failures="vendor", payload=ABOUT.get(event))
    assert (verdict.decision, len(verdict.failures)) == (CONTINUE, 1)


@each("said_", FAILURES)
@each("failures", ["strict", "vendor"])
def test_a_handler_that_fails_closed_denies(said_, failures):
    closed = Said.__new__(Said)
    closed.ran, closed.rule = said_.ran, Rule(at="h", blocks_on_failure=True)
    assert isinstance(said("beforeShellExecution", closed, failures=failures), Deny)
    assert said("afterShellExecution", closed, failures=failures) == CONTINUE


# Its files.


@pytest.fixture
def cursor(write):
    """Writes a project's file with handlers for events: `cursor(stop="a command")`."""

    def cursor(version=1, **events):
        hooks = {
            event: given if isinstance(given, list) else [{"command": given} if isinstance(given, str) else given]
            for event, given in events.items()
        }
        return write(".cursor/hooks.json", {"version": version, "hooks": hooks})

    return cursor


def test_a_projects_file_is_found_and_covered_by_trust(cursor, write, project):
    script = write(".cursor/hooks/x.sh", "#!/bin/sh\n", 0o755)
    path = cursor(beforeShellExecution=".cursor/hooks/x.sh", stop="true")
    found = layers.discover()
    assert [(config.dialect, config.path) for config in found.configs] == [("cursor", path)]
    assert [spec.name for spec in found.hooks] == ["cursor:beforeShellExecution", "cursor:stop"]
    assert covered(load(path, found=True)) == (str(path), str(script))


def test_the_users_handlers_run_beside_their_file_and_are_about_the_project(project):
    home = project.parent / "home" / ".cursor" / "hooks.json"
    home.parent.mkdir(parents=True)
    home.write_text(json.dumps({"hooks": {"beforeReadFile": [{"command": "./x.sh"}]}}))
    (spec,) = layers.discover().hooks
    (member,) = spec.members
    assert (member.dir, member.env["CURSOR_PROJECT_DIR"]) == (str(home.parent), str(project))
    assert spec.filter.chosen(READ)[0].files == {"content": f"{project}/a.txt"}


@pytest.mark.parametrize(
    ("name", "document", "dialect"),
    [
        (".cursor/hooks.json", {}, "cursor"),
        ("hooks.json", {"hooks": {"beforeShellExecution": []}}, "cursor"),
        ("hooks.json", {"hooks": {"PreToolUse": []}}, "claude"),
    ],
)
def test_its_files_are_recognised_by_their_path_or_by_an_event_of_its_own(project, name, document, dialect):
    assert name_of(document, project / name) == dialect


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        (
            {"command": "x", "timeout": 60_000},
            "beforeShellExecution[0]: timeout: 60000 is in seconds, not in milliseconds",
        ),
        ({"command": "x", "speed": 1}, "speed: picohook does not know this setting of Cursor"),
        ({"command": "x", "matcher": "y"}, ""),
    ],
)
def test_what_does_not_do_what_it_seems_to_do_is_named(cursor, given, warning):
    warnings = load(cursor(beforeShellExecution=given)).warnings
    assert any(warning in one for one in warnings) if warning else not warnings


@pytest.mark.parametrize(
    ("events", "warning"),
    [
        ({"beforeTabFileRead": "x"}, "its handlers never run, so it refuses nothing here"),
        ({"sessionStart": {"command": "x", "matcher": "y"}}, "sessionStart ignores it: its handlers always run"),
        ({"preToolUse": {"command": "x", "matcher": "("}}, "preToolUse[0].matcher: ( matches everything"),
    ],
)
def test_what_never_runs_and_what_is_unknown_is_named(cursor, events, warning):
    assert any(warning in one for one in load(cursor(**events)).warnings)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ({"beforeShelExecution": "x"}, 'is not an event of Cursor (did you mean "beforeShellExecution"?)'),
        ({"preToolUse": {"matcher": "x"}}, "preToolUse[0]: is of type command and has no command"),
        ({"preToolUse": [{"matcher": "x", "hooks": [{"command": "x"}]}]}, "and has no command"),
        ({"preToolUse": ["x"]}, "preToolUse[0]: must be a table"),
        ({"stop": {"command": "x", "loop_limit": -1}}, "loop_limit"),
        ({"preToolUse": {"command": "x", "failClosed": "yes"}}, "failClosed"),
    ],
)
def test_a_wrong_entry_fails_the_load_in_strict_and_is_left_out_for_the_vendor(cursor, events, problem):
    path = cursor(**events, afterFileEdit="true")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert problem in str(caught.value)
    assert [hook.name for hook in foreign_hooks(path, failures="vendor")] == ["cursor:afterFileEdit"]


def test_limits_of_a_file_are_those_of_its_handlers(cursor):
    path = cursor(stop=[{"command": "x"}, {"command": "y", "loop_limit": None}, {"command": "z", "failClosed": True}])
    rules = load(path).hooks[0].filter.rules
    assert [(rule.most_blocks, rule.blocks_on_failure) for rule in rules] == [(5, False), (None, False), (5, True)]


# The text of a file that is about to be read, and the variables of a session.


def test_the_text_of_a_file_is_that_of_a_regular_file(tmp_path):
    (tmp_path / "a").write_bytes(b"x\xff")
    os.mkfifo(tmp_path / "pipe")
    assert file_text(str(tmp_path / "a"), 2) == "x\ufffd"
    assert [file_text(str(tmp_path / name), 2) for name in ("none", "pipe", "", "a/b")] == [""] * 4
    with pytest.raises(HookCrashedError, match="cannot be read: it is larger than 1 bytes"):
        file_text(str(tmp_path / "a"), 1)
    with pytest.raises(HookCrashedError, match="cannot be read"):
        file_text("a\0b", 1)


def test_variables_hold_for_one_file_and_one_session_and_the_oldest_are_forgotten():
    env = SessionEnv()
    env.add("a", "s", {"X": "1"})
    env.add("a", "s", {"Y": "2"})
    assert (env.of("a", "s"), env.of("b", "s"), env.of("a", "t")) == ({"X": "1", "Y": "2"}, {}, {})
    for number in range(MOST_SESSIONS):
        env.add("b", str(number), {"X": "1"})
    assert env.of("a", "s") == {}


# With real processes.


@pytest.mark.anyio
async def test_a_guard_reads_the_text_of_the_file_that_is_about_to_be_read(cursor, write):
    write("open.txt", "hello")
    write("secret.txt", "token: abc")
    path = cursor(beforeReadFile='jq -r .content | grep -q token && echo \'{"permission": "deny"}\'; exit 0')
    async with Host(foreign_hooks(path), timeouts=Timeouts(chain=60)) as host:
        actions = [
            (await host.before_tool(ToolCall(tool="read_file", arguments={"path": name}))).action
            for name in ("open.txt", "secret.txt", "none.txt")
        ]
    assert actions == ["continue", "deny_tool", "continue"]


@pytest.mark.anyio
async def test_variables_of_the_start_of_a_session_reach_its_later_handlers(cursor, project):
    env = 'echo \'{"env": {"TICKET": "T-1"}}\''
    path = cursor(
        sessionStart=env, beforeShellExecution="echo $TICKET $CURSOR_PROJECT_DIR >>said", stop="cat >>stopped"
    )
    async with Host(foreign_hooks(path), timeouts=Timeouts(chain=60)) as host:
        await host.before_prompt(Prompt(prompt="hi", meta=META))
        await host.before_tool(BASH)
        await host.before_tool(BASH.model_copy(update={"meta": META.model_copy(update={"session_key": "s2"})}))
    assert (project / "said").read_text() == f"T-1 {project}\n{project}\n"


@pytest.mark.anyio
async def test_a_guard_of_shells_is_asked_about_the_command_that_another_has_changed(cursor):
    rewrite = 'echo \'{"updated_input": {"command": "rm -rf /"}}\''
    path = cursor(beforeShellExecution="grep -q 'rm -rf' && exit 2; exit 0", preToolUse=rewrite)
    async with Host(foreign_hooks(path), timeouts=Timeouts(chain=60)) as host:
        outcome = await host.before_tool(BASH)
    assert (outcome.action, outcome.hook) == ("deny_tool", "cursor:beforeShellExecution")


@pytest.mark.anyio
async def test_a_turn_continues_more_often_than_eight_times_if_a_handler_may(cursor, project):
    path = cursor(stop={"command": 'jq .loop_count >>counts; echo \'{"followup_message": "more"}\'', "loop_limit": 10})
    async with Host(foreign_hooks(path), timeouts=Timeouts(chain=60)) as host:
        actions = [(await host.before_finish(Finish(meta=META))).action for _ in range(11)]
    assert actions == ["retry"] * 10 + ["continue"]
    assert (project / "counts").read_text().split() == [str(count) for count in range(11)]
