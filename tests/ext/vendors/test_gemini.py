"""Gemini CLI's contract, where it differs from Claude Code's, and its files."""

from __future__ import annotations

import json

import pytest
from pure import BASH, FACTS, PAYLOADS, Said, decided, inner, verdict_of
from rows import each

from picohook import (
    AbortTurn,
    ConfigError,
    Deny,
    Finish,
    Host,
    LLMRequest,
    LLMResponse,
    Modify,
    Prompt,
    Respond,
    Retry,
    ToolAlias,
    ToolCall,
    ToolResult,
    ToolReturn,
    foreign_hooks,
)
from picohook.config import load
from picohook.config.dialects import name_of
from picohook.errors import HookReplyError
from picohook.ext.vendors.contract import Facts, Rule
from picohook.ext.vendors.dialects import vendor_named
from picohook.model.decisions import CONTINUE
from picohook.projects import layers
from picohook.projects.trust import covered

GEMINI = vendor_named("gemini")
COMMON = {"session_id": "s1", "transcript_path": "", "cwd": "/project", "timestamp": "2026-11-23T10:00:00+00:00"}
NOW = Facts(project="/project", now=COMMON["timestamp"])
ASKED = LLMRequest(
    model="m",
    messages=[
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "content": "a.txt"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "b"}]},
    ],
    tools=[{"type": "function", "function": {"name": name}} for name in ("shell", "read_file", "mcp__a__b")],
    options={"temperature": 0.5, "max_tokens": 10, "seed": 1},
)
ANSWER = {"candidates": [{"content": {"role": "model", "parts": ["a", "b"]}, "finishReason": "STOP"}]}


def told(event, payload=None, facts=NOW):
    found = GEMINI.encode(event, payload or PAYLOADS[GEMINI.events[event].stage], facts)
    return None if found is None else found.stdin


def said(event, *answers, failures="strict", payload=None):
    return decided(event, *answers, dialect="gemini", failures=failures, payload=payload)


# What they read.


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("BeforeTool", {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}}),
        (
            "AfterTool",
            {
                "tool_name": "run_shell_command",
                "tool_input": {"command": "ls"},
                "tool_response": {"llmContent": "a.txt", "returnDisplay": "a.txt"},
            },
        ),
        ("BeforeAgent", {"prompt": "hello"}),
        ("AfterAgent", {"prompt": "", "prompt_response": "done", "stop_hook_active": False}),
        ("SessionStart", {"source": "startup"}),
        ("PreCompress", {"trigger": "auto"}),
        (
            "AfterModel",
            {
                "llm_request": {"model": "m", "messages": [{"role": "user", "content": "hello"}], "config": {}},
                "llm_response": {
                    "text": "done",
                    "candidates": [
                        {"content": {"role": "model", "parts": ["done"]}, "finishReason": "STOP", "index": 0}
                    ],
                },
            },
        ),
    ],
)
def test_handlers_read_the_fields_of_their_event(event, fields):
    assert told(event) == {**COMMON, "hook_event_name": event, **fields}


def test_a_request_has_the_texts_of_its_messages_and_its_settings():
    assert told("BeforeModel", ASKED)["llm_request"] == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}, {"role": "model", "content": "a"}],
        "config": {"temperature": 0.5, "maxOutputTokens": 10},
    }


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("bash", "run_shell_command"),
        ("Read", "read_file"),
        ("Write", "write_file"),
        ("edit", "replace"),
        ("mcp__a__b", "mcp_a_b"),
        ("own", "own"),
    ],
)
def test_tools_have_the_names_that_gemini_has_for_them(tool, name):
    assert told("BeforeTool", ToolCall(tool=tool))["tool_name"] == name


def test_a_tool_of_a_server_names_the_server():
    assert told("BeforeTool", ToolCall(tool="mcp__a__b"))["mcp_context"] == {"server_name": "a", "tool_name": "b"}


def test_a_tool_of_an_embedding_is_the_tool_that_it_names():
    facts = Facts(tools={"sh": ToolAlias(same_as="Bash", fields={"line": "command"})})
    seen = told("BeforeTool", ToolCall(tool="sh", arguments={"line": "ls"}), facts)
    assert (seen["tool_name"], seen["tool_input"]) == ("run_shell_command", {"command": "ls"})


def test_a_failed_call_has_an_error_in_its_response():
    failed = ToolReturn(**BASH.__dict__, result=ToolResult(for_llm="no such file", is_error=True))
    assert told("AfterTool", failed)["tool_response"]["error"]["message"] == "no such file"


def test_the_second_round_of_a_turn_reads_that_it_is_the_second():
    assert told("AfterAgent", facts=Facts(blocks=1))["stop_hook_active"] is True


def test_prompts_and_ends_of_subagents_are_no_events():
    meta = PAYLOADS["before_prompt"].meta.model_copy(update={"parent_turn_id": "t0"})
    assert told("BeforeAgent", Prompt(prompt="x", meta=meta)) is None
    assert told("AfterAgent", Finish(meta=meta)) is None


# Which run.


@each(
    ("event", "matcher", "runs"),
    [
        ("BeforeTool", "run_shell_command", True),
        ("BeforeTool", "shell", True),
        ("BeforeTool", "^shell", False),
        ("BeforeTool", " * ", True),
        ("BeforeTool", "read_.*|run_.*", True),
        ("SessionStart", "startup", True),
        ("SessionStart", "start.*", False),
        ("BeforeAgent", "nothing", True),
    ],
)
def test_a_matcher_is_an_expression_for_tools_and_a_word_for_all_else(event, matcher, runs):
    seen = GEMINI.encode(event, PAYLOADS[GEMINI.events[event].stage], FACTS)
    assert bool(GEMINI.select(event, [Rule(at="h", matcher=matcher)], seen, FACTS)) is runs


def test_of_handlers_that_are_the_same_only_the_first_runs():
    seen = GEMINI.encode("BeforeTool", BASH, FACTS)
    rules = [
        Rule(at="h", matcher=matcher, identity=identity) for matcher, identity in ((".", "a"), ("*", "a"), ("*", ":b"))
    ]
    assert GEMINI.select("BeforeTool", rules, seen, FACTS) == [0, 2]


# What their answers mean.


@each(
    ("event", "answer", "decision"),
    [
        ("BeforeTool", {"decision": "deny", "reason": "no"}, Deny("no")),
        ("BeforeTool", {"decision": "block", "reason": "no"}, Deny("no")),
        ("BeforeTool", {"continue": False, "stopReason": "enough"}, AbortTurn("enough")),
        (
            "BeforeTool",
            inner("BeforeTool", tool_input={"command": "pwd"}),
            Modify({"arguments": {"command": "pwd"}}),
        ),
        ("BeforeTool", {"hookSpecificOutput": {"tool_input": {"command": "ls"}}}, CONTINUE),
        (
            "AfterTool",
            {"decision": "deny", "reason": "secret"},
            Modify({"for_llm": "secret", "for_user": "", "media": []}),
        ),
        (
            "AfterTool",
            inner("AfterTool", additionalContext="<b>old"),
            Modify({"for_llm": "a.txt\n\n&lt;b&gt;old"}),
        ),
        ("BeforeAgent", {"decision": "deny", "reason": "no"}, AbortTurn("no")),
        ("AfterAgent", {"decision": "deny", "reason": "test it"}, Retry("test it")),
        ("AfterAgent", {"decision": "deny", "reason": "test it", "continue": False}, CONTINUE),
        ("AfterModel", {"decision": "deny", "reason": "no"}, AbortTurn("no")),
        ("AfterModel", inner("AfterModel", llm_response=ANSWER), Modify({"response": {"content": "ab"}})),
    ],
)
@each("failures", ["strict", "vendor"])
def test_an_answer_is_a_decision(event, answer, decision, failures):
    assert said(event, Said(answer), failures=failures) == decision


def test_a_changed_input_replaces_the_call_and_in_strict_it_is_merged_into_it():
    answer = Said(inner("BeforeTool", tool_input={"dir": "/"}))
    assert said("BeforeTool", answer, failures="vendor") == Modify({"arguments": {"dir": "/"}})
    assert said("BeforeTool", answer) == Modify({"arguments": {"command": "ls", "dir": "/"}})


def test_context_and_message_are_notes():
    notes = said("BeforeAgent", Said({"systemMessage": "psst", **inner("BeforeAgent", additionalContext="a<b")})).notes
    assert (notes.additional_context, notes.system_message) == ("a&lt;b", "psst")


def test_the_start_of_a_session_can_only_add_context():
    answer = {"decision": "deny", "continue": False, **inner("SessionStart", additionalContext="it rains")}
    assert said("SessionStart", Said(answer)).notes.additional_context == "it rains"
    assert GEMINI.decode("SessionStart", Rule(at="h"), Said(answer).ran, "strict").ignored == ("continue", "decision")


def test_a_request_is_changed_text_by_text():
    edit = {
        "model": "n",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "model", "content": "b"},
            {"role": "user", "content": "more"},
        ],
        "config": {"temperature": 0, "topP": 0.9},
    }
    changes = said("BeforeModel", Said(inner("BeforeModel", llm_request=edit)), payload=ASKED).changes
    assert (changes["model"], changes["options"]) == (
        "n",
        {"temperature": 0, "max_tokens": 10, "seed": 1, "top_p": 0.9},
    )
    assert changes["messages"] == [
        {"role": "user", "content": "hi"},
        *ASKED.messages[1:3],
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": "b"}]},
        {"role": "user", "content": "more"},
    ]


def test_a_handler_answers_in_place_of_the_model():
    blocked = Said({"decision": "deny", **inner("BeforeModel", llm_response=ANSWER)})
    bare = Said(inner("BeforeModel", llm_response=ANSWER))
    for failures in ("strict", "vendor"):
        assert said("BeforeModel", blocked, payload=ASKED, failures=failures) == Respond({"content": "ab"})
    assert said("BeforeModel", bare, payload=ASKED) == Respond({"content": "ab"})
    assert said("BeforeModel", bare, payload=ASKED, failures="vendor") == CONTINUE  # Gemini CLI's program ignores it


def test_tool_calls_stay_when_the_text_of_an_answer_is_replaced():
    payload = LLMResponse(response={"content": "x", "tool_calls": [1]})
    changes = said("AfterModel", Said(inner("AfterModel", llm_response=ANSWER)), payload=payload).changes
    assert changes == {"response": {"content": "ab", "tool_calls": [1]}}


@pytest.mark.parametrize(
    ("configs", "left", "choice"),
    [
        ([{"mode": "AUTO"}], ["shell", "read_file", "mcp__a__b"], None),
        ([{"mode": "AUTO", "allowedFunctionNames": ["run_shell_command"]}], ["shell"], None),
        ([{"allowedFunctionNames": ["shell"]}, {"allowedFunctionNames": ["mcp_a_b"]}], ["shell", "mcp__a__b"], None),
        ([{"mode": "ANY", "allowedFunctionNames": ["read_file"]}], ["read_file"], "required"),
        ([{"mode": "NONE"}, {"mode": "ANY", "allowedFunctionNames": ["read_file"]}], [], None),
    ],
)
def test_the_tools_that_handlers_name_are_left(configs, left, choice):
    answers = [Said(inner("BeforeToolSelection", toolConfig=config)) for config in configs]
    decision = said("BeforeToolSelection", *answers, payload=ASKED)
    request = ASKED.model_copy(update=getattr(decision, "changes", {}))
    assert [tool["function"]["name"] for tool in request.tools] == left
    assert request.options.get("tool_choice") == choice


@each(
    ("event", "answer"),
    [
        ("BeforeTool", {"decision": "maybe"}),
        ("BeforeTool", {"decision": 1}),
        ("BeforeTool", inner("BeforeTool", tool_input=[])),
        ("BeforeModel", inner("BeforeModel", llm_response={})),
        ("BeforeModel", inner("BeforeModel", llm_request={"messages": "x"})),
        ("BeforeModel", inner("BeforeModel", llm_request={"messages": [{"role": "user"}]})),
        ("BeforeToolSelection", inner("BeforeToolSelection", toolConfig={"mode": "SOME"})),
        ("AfterModel", inner("AfterModel", llm_response={"candidates": [{"content": {"parts": [1]}}]})),
    ],
)
def test_what_is_no_answer_is_a_failure_and_in_gemini_nothing(event, answer):
    payload = ASKED if event.startswith("BeforeModel") or "Selection" in event else None
    assert isinstance(said(event, Said(answer), payload=payload), HookReplyError)
    assert said(event, Said(answer), payload=payload, failures="vendor") == CONTINUE


def test_who_asks_wants_an_approver():
    verdict = verdict_of("BeforeTool", Said({"decision": "ask", "reason": "?"}), dialect="gemini")
    assert (verdict.asks, verdict.decision) == (True, CONTINUE)


# What they say together.


def test_a_block_of_any_handler_decides_about_tools():
    answers = [Said({"decision": "allow"}), Said({"decision": "deny", "reason": "no"}), Said({"decision": "ask"})]
    assert said("BeforeTool", *answers) == Deny("no")


def test_about_a_model_gemini_takes_the_last_decision_and_strict_the_strictest():
    answers = [Said({"decision": "deny", "reason": "no"}), Said({"decision": "allow"})]
    assert said("BeforeModel", *answers, payload=ASKED) == AbortTurn("no")
    assert said("BeforeModel", *answers, payload=ASKED, failures="vendor") == CONTINUE


@pytest.mark.parametrize(
    ("in_order", "arguments"), [(False, {"command": "ls", "b": 2}), (True, {"command": "ls", "a": 1, "b": 2})]
)
def test_of_two_changes_the_last_counts_and_in_order_both(in_order, arguments):
    answers = [Said(inner("BeforeTool", tool_input=edit), in_order=in_order) for edit in ({"a": 1}, {"b": 2})]
    assert said("BeforeTool", *answers) == Modify({"arguments": arguments})


def test_the_next_in_order_reads_what_the_last_has_changed():
    seen = GEMINI.encode("BeforeTool", ToolCall(tool="bash", arguments={"cmd": "ls"}), FACTS)
    answer = GEMINI.decode(
        "BeforeTool", Rule(at="h"), Said(inner("BeforeTool", tool_input={"command": "id"})).ran, "strict"
    )
    after = GEMINI.chain("BeforeTool", seen, answer)
    assert (after.stdin["tool_input"], after.call.given) == ({"command": "id"}, {"cmd": "id"})
    seen = GEMINI.encode("BeforeAgent", Prompt(prompt="x"), FACTS)
    answer = GEMINI.decode("BeforeAgent", Rule(at="h"), Said(inner("BeforeAgent", additionalContext="y")).ran, "strict")
    assert GEMINI.chain("BeforeAgent", seen, answer).stdin["prompt"] == "x\n\ny"
    seen = GEMINI.encode("BeforeModel", ASKED, FACTS)
    answer = GEMINI.decode(
        "BeforeModel", Rule(at="h"), Said(inner("BeforeModel", llm_request={"model": "n"})).ran, "strict"
    )
    request = GEMINI.chain("BeforeModel", seen, answer).stdin["llm_request"]
    assert (request["model"], len(request["messages"])) == ("n", 2)


# Its files.


def handler(command, **more):
    return {"type": "command", "command": command, **more}


@pytest.fixture
def gemini(write):
    """Writes settings with handlers for events: `gemini(BeforeTool=handler("a command"))`."""

    def gemini(more=None, **events):
        hooks = {
            event: given if isinstance(given, list) else [{"matcher": "*", "hooks": [given]}]
            for event, given in events.items()
        }
        return write(".gemini/settings.json", {"hooks": hooks, **(more or {})})

    return gemini


def test_settings_are_found_and_covered_by_trust(gemini, write, project):
    script = write("my hooks/x.sh", "#!/bin/sh\n", 0o755)
    path = gemini(BeforeTool=handler('"$GEMINI_PROJECT_DIR/my hooks/x.sh"'), AfterAgent=handler("true"))
    found = layers.discover()
    assert [(config.dialect, config.path) for config in found.configs] == [("gemini", path)]
    assert [spec.name for spec in found.hooks] == ["gemini:BeforeTool", "gemini:AfterAgent"]
    assert covered(load(path, found=True)) == (str(path), str(script))
    assert found.hooks[0].members[0].dir == str(project)


@pytest.mark.parametrize(
    ("name", "document", "dialect"),
    [
        (".gemini/settings.json", {"theme": "x"}, "gemini"),
        ("ext/hooks/hooks.json", {"hooks": {"BeforeTool": []}}, "gemini"),
        ("ext/hooks/hooks.json", {"hooks": {"SessionStart": []}}, "gemini"),
        ("plugin/hooks/hooks.json", {"hooks": {"SessionStart": []}}, "claude"),
    ],
)
def test_its_files_are_recognised_by_their_path_or_by_an_event_of_its_own(project, write, name, document, dialect):
    write("ext/gemini-extension.json", {"name": "ext"})
    assert name_of(document, project / name) == dialect


def test_an_extension_knows_its_own_directory(write, project):
    hooks = {"BeforeTool": [{"hooks": [handler("node ${extensionPath}${/}x.js ${workspacePath}")]}]}
    (spec,) = load(write("ext/hooks/hooks.json", {"hooks": hooks})).hooks
    assert spec.members[0].command == ("bash", "-c", f"node {project}/ext/x.js {project}")


@pytest.mark.parametrize(
    ("written", "runs"),
    [
        ("$GEMINI_PROJECT_DIR/x.sh", '"$GEMINI_PROJECT_DIR"/x.sh'),
        ('"$GEMINI_CWD/x.sh"', '"$GEMINI_CWD/x.sh"'),
        ("echo '$GEMINI_CWD' \\$GEMINI_CWD $HOME", "echo '$GEMINI_CWD' \\$GEMINI_CWD $HOME"),
    ],
)
def test_a_directory_in_a_command_is_one_word(gemini, written, runs):
    assert load(gemini(BeforeTool=handler(written))).hooks[0].members[0].command[2] == runs


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 60), (1500, 1.5)])
def test_timeouts_are_in_milliseconds(gemini, timeout, seconds):
    more = {} if timeout is None else {"timeout": timeout}
    assert load(gemini(BeforeTool=handler("true", **more))).hooks[0].timeout == seconds


def test_handlers_in_order_have_time_one_after_the_other(gemini):
    group = {"sequential": True, "hooks": [handler("true", timeout=2000), handler("false", timeout=3000)]}
    assert load(gemini(BeforeTool=[group])).hooks[0].timeout == 5


@pytest.mark.parametrize(
    ("more", "given", "warning"),
    [
        ({}, handler("true", matcher="x"), "matcher: picohook does not know this setting of Gemini CLI"),
        ({"hooksConfig": {"disabled": ["guard"]}}, handler("true", name="guard"), "it is switched off by its name"),
        ({"hooksConfig": {"disabled": ["true"]}}, handler("true"), "it is switched off by its name"),
        (
            {},
            {"type": "plugin", "command": "x"},
            "it cannot be run, and in strict it denies: Gemini CLI itself skips it",
        ),
    ],
)
def test_what_does_not_do_what_it_seems_to_do_is_named(gemini, more, given, warning):
    assert any(warning in one for one in load(gemini(more, BeforeTool=given)).warnings)


def test_hooks_can_be_switched_off(gemini):
    config = load(gemini({"hooksConfig": {"enabled": False}}, BeforeTool=handler("true")))
    assert (config.hooks, config.enabled) == ((), False)


def test_earlier_switches_among_the_events_are_no_events(gemini):
    config = load(gemini(BeforeTool=handler("true"), enabled=True, disabled=["x"], notifications=False))
    assert [hook.name for hook in config.hooks] == ["gemini:BeforeTool"]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ({"PreToolUse": handler("x")}, "is not an event of Gemini CLI"),
        ({"BeforeTool": {"type": "http", "url": "x"}}, '"http" is not a type of handler'),
    ],
)
def test_a_wrong_entry_fails_the_load_in_strict_and_is_left_out_for_the_vendor(gemini, events, problem):
    path = gemini(**events, AfterAgent=handler("true"))
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert problem in str(caught.value)
    assert [hook.name for hook in foreign_hooks(path, failures="vendor", dialect="gemini")] == ["gemini:AfterAgent"]


# With real processes.


@pytest.mark.anyio
async def test_handlers_run_in_bash_in_the_project_and_one_after_the_other(gemini, project):
    first = (
        'cat >first; [[ -n $GEMINI_SESSION_ID ]] && echo \'{"hookSpecificOutput": {"tool_input": {"command": "id"}}}\''
    )
    second = "cat >second; echo $GEMINI_PROJECT_DIR/$GEMINI_SESSION_ID >where"
    group = {"matcher": "shell", "sequential": True, "hooks": [handler(first), handler(second)]}
    async with Host.from_config(gemini(BeforeTool=[group])) as host:
        outcome = await host.before_tool(BASH)
    assert outcome.payload.arguments == {"command": "id"}
    assert json.loads((project / "second").read_text())["tool_input"] == {"command": "id"}
    assert json.loads((project / "first").read_text())["timestamp"].startswith("20")
    assert (project / "where").read_text() == f"{project}/s1\n"


@pytest.mark.anyio
async def test_a_guard_of_edits_sees_the_hosts_fields(gemini):
    guard = "jq -e '.tool_input.file_path | endswith(\".env\") | not' >/dev/null || { echo no >&2; exit 2; }"
    path = gemini(BeforeTool=[{"matcher": "write_file|replace", "hooks": [handler(guard)]}])
    async with Host.from_config(path) as host:
        for tool, action in (("str_replace", "deny_tool"), ("view", "continue")):
            assert (await host.before_tool(ToolCall(tool=tool, arguments={"path": ".env"}))).action == action
