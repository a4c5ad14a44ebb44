"""Blade's document in Python: its examples, what each field of its inputs and outputs does, and canUseTool."""

from __future__ import annotations

import json
import re
import threading

import anyio
import pytest
from kinds_support import FAR
from loops import ON_BOTH
from rows import each

from picohook import Deny, FunctionHook, HardAbortError, Host, Meta, Modify, ToolCall, ToolResult, blade_hooks, calls_of
from picohook.calls.abort import AbortTurnError
from picohook.ext.blade.hooks import HookEvent
from picohook.model.payloads import Prompt, ToolReturn

pytestmark = pytest.mark.anyio

META = Meta(session_key="s1")
BASH = ToolCall(tool="Bash", arguments={"command": "ls"}, meta=META)


def host(callbacks=None, more=(), **settings):
    names = {"logger", "timeouts"} & settings.keys()
    return Host([*blade_hooks(callbacks, **{k: v for k, v in settings.items() if k not in names}), *more],
                **{"timeouts": FAR, **{name: settings[name] for name in names}})  # fmt: skip


# Its examples.


async def test_tools_are_announced_before_and_after():
    said = []

    async def before(given):
        said.append(f"[工具调用] {given['toolName']} {given['toolInput']}")
        return {"action": "continue"}

    async def after(given):
        said.append(f"[调用完成] {given['toolName']}")
        return {"action": "continue"}

    async with host({HookEvent.PreToolUse: [before], HookEvent.PostToolUse: [after]}) as running:
        assert await running.run_tool(BASH, lambda _: "a.txt") == ToolResult(for_llm="a.txt")
    assert said == ["[工具调用] Bash {'command': 'ls'}", "[调用完成] Bash"]


async def test_a_dangerous_command_ends_the_session():
    dangerous = [r"rm\s+-rf", "mkfs", r"dd\s+if=", r">\s*/dev/"]

    async def guard(given):
        if given["toolName"] == "Bash":
            command = given["toolInput"]["command"]
            if any(re.search(pattern, command) for pattern in dangerous):
                return {"action": "abort", "reason": f"危险命令被阻止: {command}"}
        return {"action": "continue"}

    async with host({HookEvent.PreToolUse: [guard]}) as running:
        assert (await running.run_tool(BASH, lambda _: "ran")).for_llm == "ran"
        bad = BASH.model_copy(update={"arguments": {"command": "rm -rf /"}})
        with pytest.raises(HardAbortError, match="危险命令被阻止: rm -rf /"):
            await running.run_tool(bad, lambda _: pytest.fail("it ran"))


async def test_written_files_get_a_header():
    async def header(given):
        if given["toolName"] == "Write":
            changed = {**given["toolInput"], "content": f"// Auto-generated\n{given['toolInput']['content']}"}
            return {"action": "continue", "modifiedInput": changed}
        return {"action": "continue"}

    call = ToolCall(tool="Write", arguments={"filePath": "a.ts", "content": "let a"})
    async with host({HookEvent.PreToolUse: [header]}) as running:
        outcome = await running.before_tool(call)
    assert outcome.payload.arguments == {"filePath": "a.ts", "content": "// Auto-generated\nlet a"}


async def test_secrets_are_removed_from_results():
    async def redact(given):
        if given["toolName"] == "Read":
            content = re.sub(r"SECRET_KEY=\w+", "SECRET_KEY=***", given["toolOutput"]["content"])
            return {"action": "continue", "modifiedOutput": {**given["toolOutput"], "content": content}}
        return {"action": "continue"}

    async with host({HookEvent.PostToolUse: [redact]}) as running:
        result = await running.run_tool({"tool": "Read"}, lambda _: {"path": ".env", "content": "SECRET_KEY=abc"})
    assert json.loads(result.for_llm) == {"path": ".env", "content": "SECRET_KEY=***"}


async def test_an_audit_log_is_written_at_the_end_of_the_session(tmp_path):
    log = []

    async def audit(given):
        log.append({"tool": given["toolName"], "input": given["toolInput"]})
        return {"action": "continue"}

    async def write(_):
        (tmp_path / "audit.json").write_text(json.dumps(log))
        return {"action": "continue"}

    async with host({HookEvent.PreToolUse: [audit], HookEvent.SessionEnd: [write]}) as running:
        async with running.session("s1"):
            await running.before_tool(BASH)
        assert json.loads((tmp_path / "audit.json").read_text()) == [{"tool": "Bash", "input": {"command": "ls"}}]


async def test_a_tool_is_skipped_after_its_limit_of_calls():
    counts = {}

    async def limit(given):
        name = given["toolName"]
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 2:
            return {"action": "skip", "reason": f"{name} 调用次数超过限制 (2)"}
        return {"action": "continue"}

    async with host({HookEvent.PreToolUse: [limit]}) as running:
        results = [(await running.run_tool(BASH, lambda _: "ran")) for _ in range(3)]
        other = await running.run_tool({"tool": "Read"}, lambda _: "ran")
    assert [result.for_llm for result in (*results, other)] == ["ran", "ran", "Bash 调用次数超过限制 (2)", "ran"]
    assert not any(result.is_error for result in results)


async def test_a_callback_that_throws_stops_no_tool_and_is_logged(journal):
    async def send(_):
        raise OSError("monitoring is down")

    async with host({HookEvent.PreToolUse: [send]}, logger=journal) as running:
        assert (await running.run_tool(BASH, lambda _: "ran")).for_llm == "ran"
    (record,) = journal.all("failed", stage="before_tool", counted_as="continue")
    assert record["why"].startswith("OSError: monitoring is down (test_blade.py:")


# Its inputs.


async def test_each_event_has_exactly_its_fields():
    seen = []

    async def keep(given):
        seen.append(given)
        return {"action": "continue"}

    returned = ToolReturn(**BASH.__dict__, result=ToolResult(for_llm='["a.txt"]'))
    failed = ToolReturn(**BASH.__dict__, result=ToolResult(for_llm="no such file", is_error=True))
    async with host({event: [keep] for event in HookEvent}) as running, running.session("s1") as session:
        await running.before_prompt(Prompt(prompt="hello", meta=META))
        await running.before_tool(BASH)
        await running.approve_tool(BASH)
        await running.after_tool(returned)
        await running.after_tool(failed)
        async with session.turn("hello"):
            pass
    tool = {"toolName": "Bash", "toolInput": {"command": "ls"}}
    by_event = {given["event"]: given for given in seen}
    assert len(seen) == len(by_event)
    assert by_event == {
        "SessionStart": {"event": "SessionStart", "sessionId": "s1"},
        "UserPromptSubmit": {"event": "UserPromptSubmit", "sessionId": "s1", "message": "hello"},
        "PreToolUse": {"event": "PreToolUse", "sessionId": "s1", **tool},
        "PermissionRequest": {"event": "PermissionRequest", "sessionId": "s1", **tool},
        "PostToolUse": {"event": "PostToolUse", "sessionId": "s1", **tool, "toolOutput": ["a.txt"]},
        "PostToolUseFailure": {
            "event": "PostToolUseFailure",
            "sessionId": "s1",
            **tool,
            "error": {"message": "no such file"},
        },
        "TaskCompleted": {"event": "TaskCompleted", "sessionId": "s1"},
        "SessionEnd": {"event": "SessionEnd", "sessionId": "s1"},
    }
    assert all(type(event) is str for event in by_event)


@each(
    ("text", "output"),
    [
        ('{"a": 1}', {"a": 1}),
        (' [1, "b"]', [1, "b"]),
        ("plain", "plain"),
        ("", ""),
        ("5", "5"),
        ('"text"', '"text"'),
        ("{broken", "{broken"),
        ('{"id": 12345678901234567890123}', {"id": 12345678901234567890123}),
    ],
)
async def test_an_output_is_shown_as_a_parsed_object_or_else_as_text(text, output):
    seen = []
    async with host({"PostToolUse": [lambda given: seen.append(given["toolOutput"])]}) as running:
        outcome = await running.after_tool(ToolReturn(tool="Read", result=ToolResult(for_llm=text)))
    assert seen == [output]
    assert outcome.payload.result.for_llm == text


async def test_changes_of_a_callback_to_its_input_stay():
    async def scribble(given):
        given["toolInput"]["command"] = "rm -rf /"
        given["toolName"] = "Format"

    async with host({"PreToolUse": [scribble]}) as running:
        outcome = await running.before_tool(BASH)
    assert outcome.payload is BASH
    assert BASH.arguments == {"command": "ls"}


# Its outputs.


async def test_callbacks_are_asked_in_list_order_and_each_sees_the_edits_before_it():
    def append(letter):
        return lambda given: {"action": "continue", "modifiedInput": {"text": given["toolInput"]["text"] + letter}}

    callbacks = [append(letter) for letter in "abcdefghijkl"]
    async with host({"PreToolUse": callbacks}) as running:
        outcome = await running.before_tool(ToolCall(tool="Write", arguments={"text": "-"}))
    assert outcome.payload.arguments == {"text": "-abcdefghijkl"}


@pytest.mark.parametrize("action", ["skip", "abort"])
async def test_skip_and_abort_end_the_chain(action):
    later = []
    async with host({"PreToolUse": [lambda _: {"action": action, "reason": "x"}, later.append]}) as running:
        await running.before_tool(BASH)
    assert later == []


@pytest.mark.parametrize("output", [None, {}, {"action": "continue"}, {"action": "continue", "modifiedInput": None}])
async def test_continue_changes_nothing(output):
    async with host({"PreToolUse": [lambda _: output]}) as running:
        outcome = await running.before_tool(BASH)
    assert (outcome.action, outcome.payload, outcome.trail[0].error) == ("continue", BASH, None)


async def test_a_users_message_can_be_modified_and_the_session_ended():
    async def shout(given):
        if given["message"] == "bad":
            return {"action": "abort", "reason": "no"}
        return {"action": "continue", "modifiedInput": given["message"].upper()}

    async with host({"UserPromptSubmit": [shout]}) as running:
        assert (await running.before_prompt(Prompt(prompt="hi"))).payload.prompt == "HI"
        assert (await running.before_prompt(Prompt(prompt="bad"))).action == "hard_abort"


@pytest.mark.parametrize(("event", "is_error"), [("PostToolUse", False), ("PostToolUseFailure", True)])
async def test_an_output_can_be_modified_and_keeps_its_type(event, is_error):
    returned = ToolReturn(tool="Read", result=ToolResult(for_llm="x", is_error=is_error))
    for modified, text in [("y", "y"), ({"a": [1]}, '{"a":[1]}'), ([], "[]")]:
        async with host({event: [lambda _, new=modified: {"modifiedOutput": new}]}) as running:
            outcome = await running.after_tool(returned)
        assert outcome.payload.result == ToolResult(for_llm=text, is_error=is_error)


@pytest.mark.parametrize(
    ("event", "output", "error"),
    [
        ("PreToolUse", {"action": "deny"}, "the action 'deny' is not one of continue, skip, abort"),
        ("PreToolUse", {"action": 1}, "the action 1 is not one of continue, skip, abort"),
        ("PreToolUse", "continue", "`the output` is str, not a dict"),
        ("PreToolUse", {"action": "continue", "modifiedInput": "ls"}, "`modifiedInput` is str, not a dict"),
        ("PreToolUse", {"action": "skip", "reason": 5}, "`reason` is a number, not a string"),
        ("PreToolUse", {"modifiedInput": {"a": {1, 2}}}, "the payload cannot be sent as JSON: set has no JSON form"),
    ],
)
async def test_a_meaningless_result_is_a_failure_of_the_callback(event, output, error):
    async with host({event: [lambda _: output]}) as running:
        outcome = await running.before_tool(BASH)
    assert (outcome.action, outcome.payload) == ("continue", BASH)
    assert outcome.trail[0].error == error


async def test_a_users_message_is_a_string():
    async with host({"UserPromptSubmit": [lambda _: {"modifiedInput": {"a": 1}}]}) as running:
        outcome = await running.before_prompt(Prompt(prompt="hi"))
    assert outcome.payload.prompt == "hi"
    assert outcome.trail[0].error == "`modifiedInput` is not a string, as a user's message must be"


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse"])
async def test_skip_works_for_tools_only(event):
    async with host({event: [lambda _: {"action": "skip"}]}) as running:
        prompt = await running.before_prompt(Prompt(prompt="hi"))
        returned = await running.after_tool(ToolReturn(tool="Read", result=ToolResult(for_llm="x")))
    (entry,) = prompt.trail or returned.trail
    assert (prompt.action, returned.action) == ("continue", "continue")
    assert entry.error == f'"skip" is for PreToolUse, and this is {event}'


@pytest.mark.parametrize("event", ["SessionStart", "TaskCompleted", "SessionEnd"])
async def test_callbacks_that_are_only_told_decide_nothing(event):
    running = host({event: [lambda _: {"action": "abort"}]})
    async with running, running.session("s1") as session, session.turn("hello") as turn:
        assert await turn.prompt() == "hello"


def test_an_unknown_event_is_named():
    with pytest.raises(ValueError, match="Blade has no event 'PreToolUSe': did you mean PreToolUse"):
        blade_hooks({"PreToolUSe": []})


async def test_two_sessions_have_their_own_hooks_on_one_host():
    both = [*blade_hooks({"PreToolUse": [print]}, name="one"), *blade_hooks({"PreToolUse": [print]}, name="two")]
    async with Host(both) as running:
        assert [hook.name for hook in running.hooks] == ["one.PreToolUse-1", "two.PreToolUse-1"]


# PermissionRequest.


@pytest.mark.parametrize(
    ("output", "approved"),
    [
        ({"action": "continue"}, True),
        ({"action": "skip", "reason": "no"}, False),
        ({"action": "abort", "reason": "no"}, False),
        (None, False),
        ({}, False),
        ({"action": "Continue"}, False),
        (True, False),
    ],
)
async def test_only_an_explicit_continue_gives_permission(output, approved):
    async with host({"PermissionRequest": [lambda _: output]}) as running:
        outcome = await running.approve_tool(BASH)
        result = await running.run_tool(BASH, lambda _: "ran")
    assert outcome.approved is approved
    assert (result.for_llm == "ran") is approved


async def test_a_permission_for_another_input_is_a_denial_that_says_where_input_is_changed():
    output = {"action": "continue", "modifiedInput": {"command": "ls"}}
    async with host({"PermissionRequest": [lambda _: output]}) as running:
        outcome = await running.approve_tool(BASH)
    assert not outcome.approved
    assert "`modifiedInput` changes nothing at PermissionRequest: change the input at PreToolUse" in outcome.reason


async def test_a_permission_that_fails_is_a_denial():
    async with host({"PermissionRequest": [lambda _: 1 / 0]}) as running:
        result = await running.run_tool(BASH, lambda _: pytest.fail("it ran"))
    assert result.is_error


# canUseTool.


def allows(**output):
    return lambda name, given, options: {"behavior": "allow", **output}


async def test_it_is_given_the_tool_its_input_and_what_it_does():
    seen = []

    async def can_use_tool(name, given, options):
        seen.append((name, given, options["toolKind"], options["affectedPaths"], options["signal"].aborted))
        return {"behavior": "allow"}

    call = BASH.model_copy(update={"tool_kind": "readonly", "affected_paths": ["/tmp/a"]})
    async with host(can_use_tool=can_use_tool) as running:
        await running.before_tool(call)
        await running.before_tool(BASH)
    assert seen == [
        ("Bash", {"command": "ls"}, "readonly", ["/tmp/a"], False),
        ("Bash", {"command": "ls"}, "execute", [], False),
    ]


async def test_the_example_in_the_document_asks_about_everything_except_reading():
    asked = []

    async def can_use_tool(name, given, options):
        if options["toolKind"] == "readonly":
            return {"behavior": "allow"}
        asked.append(f"允许 {name} 操作 {', '.join(options['affectedPaths'])}?")
        return {"behavior": "deny", "message": "用户拒绝"}

    read = ToolCall(tool="Read", tool_kind="readonly")
    write = ToolCall(tool="Write", tool_kind="write", affected_paths=["a", "b"])
    async with host(can_use_tool=can_use_tool) as running:
        assert (await running.run_tool(read, lambda _: "ran")).for_llm == "ran"
        result = await running.run_tool(write, lambda _: pytest.fail("it ran"))
    assert result == ToolResult(for_llm="Tool execution denied by hook: 用户拒绝", is_error=True)
    assert asked == ["允许 Write 操作 a, b?"]


async def test_the_example_holds_in_a_turn_whose_runtime_says_what_its_tools_do():
    asked = []

    async def only_reading(name, given, options):
        asked.append((name, options["toolKind"], options["affectedPaths"]))
        return {"behavior": "allow"} if options["toolKind"] == "readonly" else {"behavior": "deny", "message": "no"}

    def calls(response):
        kinds = {"Read": "readonly", "Write": "write"}
        return [
            call.model_copy(update={"tool_kind": kinds[call.tool], "affected_paths": [call.arguments["path"]]})
            for call in calls_of(response)
        ]

    wanted = [{"id": tool, "function": {"name": tool, "arguments": '{"path": "a"}'}} for tool in ("Read", "Write")]
    answers, ran = [{"tool_calls": wanted}, {"content": "done"}], []

    async def complete(request):
        return answers.pop(0)

    async with (
        Host() as host,
        host.session("s1", hooks=blade_hooks({}, can_use_tool=only_reading)) as session,
        session.turn("hello") as turn,
    ):
        await turn.run(complete=complete, execute=lambda call: ran.append(call.tool), calls=calls)
    assert asked == [("Read", "readonly", ["a"]), ("Write", "write", ["a"])]
    assert ran == ["Read"]


async def test_with_allow_and_another_input_approvers_see_that_input_and_it_runs():
    seen = []
    approver = FunctionHook("approver", {"approve_tool": lambda call: not seen.append(call.arguments)})
    safe = {"command": "ls -l"}
    async with host(can_use_tool=allows(updatedInput=safe), more=[approver]) as running:
        await running.run_tool(BASH, lambda call: seen.append(call.arguments))
    assert seen == [safe, safe]


async def test_it_is_asked_after_every_other_hook_and_sees_their_edits():
    seen = []

    def can_use_tool(name, given, options):
        seen.append(given)
        return {"behavior": "allow"}

    late = FunctionHook("z", {"before_tool": lambda _: Modify({"arguments": {"command": "z"}})}, layer="session",
                        priority=10**9)  # fmt: skip
    callbacks = {"PreToolUse": [lambda _: {"modifiedInput": {"command": "a"}}]}
    async with host(callbacks, can_use_tool=can_use_tool, more=[late]) as running:
        assert [hook.name for hook in running.asked_at("before_tool")] == [
            "blade.PreToolUse-1",
            "z",
            "blade.canUseTool",
        ]
        await running.before_tool(BASH)
    assert seen == [{"command": "z"}]


async def test_a_guard_sees_its_edits_of_the_call():
    def no_secrets(call):
        return Deny(reason="no") if "secret" in call.arguments["command"] else None

    guard = FunctionHook("guard", {"before_tool": no_secrets}, guard=True)
    async with host(can_use_tool=allows(updatedInput={"command": "cat secret"}), more=[guard]) as running:
        assert (await running.before_tool(BASH)).action == "deny_tool"


async def test_a_denial_that_interrupts_ends_the_turn():
    def can_use_tool(name, given, options):
        return {"behavior": "deny", "message": "stop it", "interrupt": True}

    async with host(can_use_tool=can_use_tool) as running:
        with pytest.raises(AbortTurnError, match="stop it") as caught:
            await running.run_tool(BASH, lambda _: pytest.fail("it ran"))
    assert not isinstance(caught.value, HardAbortError)


@pytest.mark.parametrize(("answer", "runs"), [(True, True), (False, False), (None, False), ("yes", False), (1, False)])
async def test_ask_leaves_it_to_the_embedder_and_only_true_is_a_yes(answer, runs):
    asked = []

    async def ask(call):
        asked.append(call)
        return answer

    async with host(can_use_tool=lambda *_: {"behavior": "ask"}, ask=ask) as running:
        result = await running.run_tool(BASH, lambda _: "ran")
    assert asked == [BASH]
    assert (result.for_llm == "ran") is runs


async def test_ask_without_a_permission_system_is_a_denial():
    async with host(can_use_tool=lambda *_: {"behavior": "ask"}) as running:
        result = await running.run_tool(BASH, lambda _: pytest.fail("it ran"))
    assert result.for_llm.endswith("permission is needed, and no `ask` was given")


def fails(*_):
    raise OSError("the dialog is broken")


@pytest.mark.parametrize(
    ("callback", "error"),
    [
        (fails, f"OSError: the dialog is broken (test_blade.py:{fails.__code__.co_firstlineno + 1})"),
        (lambda *_: None, "`the result` is NoneType, not a dict"),
        (lambda *_: True, "`the result` is bool, not a dict"),
        (lambda *_: {}, "the behavior null is not one of allow, deny, ask"),
        (lambda *_: {"behavior": "Allow"}, "the behavior 'Allow' is not one of allow, deny, ask"),
        (allows(updatedInput="ls"), "`updatedInput` is str, not a dict"),
    ],
)
async def test_a_call_that_it_does_not_allow_is_denied(callback, error):
    async with host(can_use_tool=callback) as running:
        outcome = await running.before_tool(BASH)
    assert (outcome.action, outcome.trail[0].error) == ("deny_tool", error)


@ON_BOTH
async def test_its_timeout_is_a_denial_and_its_signal_says_so():
    signals = []
    told = threading.Event()

    def can_use_tool(name, given, options):
        signals.append(options["signal"])
        told.wait(30)
        return {"behavior": "allow"}

    try:
        async with host(can_use_tool=can_use_tool, timeout=0.5) as running:
            outcome = await running.before_tool(BASH)
        assert (outcome.action, outcome.trail[0].error) == ("deny_tool", "no answer in time")
        assert signals[0].aborted
    finally:
        told.set()


async def test_a_person_may_take_longer_than_the_chain_and_the_hooks_after_have_their_time_still():
    async def can_use_tool(name, given, options):
        await anyio.sleep(0.3)  # a person thinks
        return {"behavior": "allow", "updatedInput": {"command": "ls -l"}}

    guard = FunctionHook("guard", {"before_tool": lambda _: None}, guard=True)
    timeouts = FAR.model_copy(update={"chain": 0.25})
    async with host(can_use_tool=can_use_tool, more=[guard], timeouts=timeouts) as running:
        outcome = await running.before_tool(BASH)
    assert (outcome.action, [entry.error for entry in outcome.trail]) == ("modify", [None, None, None])
