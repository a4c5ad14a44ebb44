"""Groups of handlers in a host: real commands, URLs, models, and approvers."""

from __future__ import annotations

import json
import re

import anyio
import pytest
from endpoint import with_nonce

from picohook import (
    ConfigError,
    Finish,
    FunctionHook,
    Host,
    LLMRequest,
    Meta,
    Modify,
    Prompt,
    Timeouts,
    ToolCall,
    ToolResult,
    foreign_hooks,
)

pytestmark = pytest.mark.anyio

FAR = Timeouts(chain=600)
LS = ToolCall(tool="bash", arguments={"command": "ls"}, meta=Meta(session_key="s"))


def host_of(path, *more, failures="strict", **settings):
    return Host([*foreign_hooks(path, failures=failures), *more], timeouts=FAR, **settings)


def yes(name="yes", *, answer=True):
    asked = []

    def approve(call):
        asked.append(call)
        return answer

    hook = FunctionHook(name, {"approve_tool": approve})
    hook.asked = asked
    return hook


async def test_all_handlers_run_at_the_same_time_and_answer_as_one_hook(settings, project):
    # Each waits for the other's file: one after the other, neither would end.
    wait = "touch {0}; until [ -e {1} ]; do sleep 0.01; done; echo {0}"
    hooks = [{"type": "command", "command": wait.format(*pair)} for pair in (("a", "b"), ("b", "a"))]
    path = settings(UserPromptSubmit=[{"hooks": hooks}])
    async with host_of(path) as host:
        outcome = await host.before_prompt(Prompt(prompt="x"))
    assert [entry.hook for entry in outcome.trail] == ["claude:UserPromptSubmit"]
    assert outcome.notes[0].additional_context == "a\n\nb"


async def test_the_command_reads_the_call_and_its_environment(settings, project, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER", "secret")
    command = 'jq -c "{t: .tool_name, e: .hook_event_name}" >said; env >env; pwd >>said'
    async with host_of(settings(PreToolUse=command)) as host:
        await host.before_tool(LS)
    assert (project / "said").read_text() == f'{{"t":"Bash","e":"PreToolUse"}}\n{project}\n'
    env = (project / "env").read_text()
    assert f"CLAUDE_PROJECT_DIR={project}\n" in env
    assert "OTEL_" not in env


async def test_a_handler_that_does_not_match_leaves_the_hook_out(settings):
    async with host_of(settings(PreToolUse={"type": "command", "command": "exit 2", "matcher": "Edit"})) as host:
        outcome = await host.before_tool(LS)
    assert (outcome.action, outcome.trail[0].skipped) == ("continue", True)


async def test_a_handler_has_its_own_timeout(settings):
    path = settings(PreToolUse={"type": "command", "command": "sleep 600 & wait", "timeout": 0.2})
    async with host_of(path) as host:
        outcome = await host.before_tool(LS)
    assert outcome.action == "deny_tool"
    assert re.search(r"hooks\.PreToolUse\[0\]\.hooks\[0\]: .* in time", outcome.trail[0].error)  # ended, or started


ASK = {
    "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "?"}
}


def prints(answer):
    return f"echo '{json.dumps(answer)}'"


@pytest.mark.parametrize("failures", ["strict", "vendor"])
async def test_who_asks_is_denied_without_an_approver(settings, failures):
    async with host_of(settings(PreToolUse=prints(ASK)), failures=failures) as host:
        outcome = await host.before_tool(LS)
    assert (outcome.action, outcome.reason) == ("deny_tool", "it has to be approved, and there is no approver: ?")


@pytest.mark.parametrize(("answer", "ran"), [(True, True), (False, False)])
async def test_an_approver_is_asked_about_the_rewritten_call_and_that_call_runs(settings, answer, ran):
    inner = {**ASK["hookSpecificOutput"], "updatedInput": {"command": "ls -l"}}
    approver, executed = yes(answer=answer), []
    async with host_of(settings(PreToolUse=prints({"hookSpecificOutput": inner})), approver) as host:
        await host.run_tool(LS, lambda call: executed.append(call.arguments))
    assert [call.arguments for call in approver.asked] == [{"command": "ls -l"}]
    assert executed == ([{"command": "ls -l"}] if ran else [])


async def test_an_approver_of_the_session_counts(settings):
    async with host_of(settings(PreToolUse=prints(ASK))) as host, host.session("s", hooks=[yes()]) as session:
        assert (await session.host.before_tool(LS)).action == "continue"
        other = LS.model_copy(update={"meta": Meta(session_key="other")})
        assert (await host.before_tool(other)).action == "deny_tool"


@pytest.mark.parametrize(("others", "approved"), [([], False), ([yes], True)])
async def test_who_says_nothing_leaves_a_call_to_the_other_approvers(settings, others, approved):
    async with host_of(settings(PermissionRequest="true"), *(make() for make in others)) as host:
        assert (await host.approve_tool(LS)).approved is approved


@pytest.mark.parametrize(("answer", "action"), [(None, "deny_tool"), ({"behavior": "allow"}, "continue")])
async def test_who_asks_is_not_approved_by_silence(settings, answer, action):
    said = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", **({"decision": answer} if answer else {})}}
    path = settings(PreToolUse=prints(ASK), PermissionRequest=prints(said))
    async with host_of(path, failures="vendor") as host:
        assert (await host.approve_tool(LS)).approved
        assert (await host.before_tool(LS)).action == "deny_tool"
    ran = []
    async with host_of(path) as host:
        assert (await host.before_tool(LS)).action == "continue"
        await host.run_tool(LS, ran.append)
    assert bool(ran) is (action == "continue")


async def test_two_that_say_nothing_do_not_leave_it_to_each_other(settings, write):
    other = write("b/.claude/settings.json", settings(PermissionRequest="true").read_text())
    (more,) = foreign_hooks(other)
    async with host_of(settings(PermissionRequest="true"), more.model_copy(update={"name": "more"})) as host:
        assert (await host.approve_tool(LS)).approved is False


@pytest.mark.parametrize("failures", ["strict", "vendor"])
async def test_a_failed_request_for_permission_is_never_a_yes(settings, failures):
    async with host_of(settings(PermissionRequest="exit 1"), yes(), failures=failures) as host:
        assert (await host.approve_tool(LS)).approved is False


async def test_a_handler_that_cannot_be_run_denies_in_strict(settings):
    path = settings(PreToolUse={"type": "agent", "prompt": "look"})
    async with host_of(path) as host:
        outcome = await host.before_tool(LS)
    assert (outcome.action, "no agent of its own" in outcome.trail[0].error) == ("deny_tool", True)
    async with host_of(path, failures="vendor") as host:
        assert (await host.before_tool(LS)).action == "continue"


# Sessions and turns.


async def test_a_session_starts_once_at_its_first_prompt(settings):
    async with host_of(settings(SessionStart="jq -r .source")) as host:
        said = [
            [
                note.additional_context
                for note in (await host.before_prompt(Prompt(prompt="x", meta=Meta(session_key=key)))).notes
            ]
            for key in ("a", "a", "b")
        ]
    assert said == [["startup"], [], ["startup"]]


async def test_a_session_ends_with_its_handlers(settings, project):
    path = settings(SessionEnd={"type": "command", "command": "jq -r .session_id,.reason >ended", "timeout": 30})
    async with host_of(path) as host, host.session("s1"):
        pass
    assert (project / "ended").read_text() == "s1\nother\n"


async def test_a_turn_is_kept_from_its_end_until_the_handler_sees_that_it_was(settings):
    command = 'if jq -e .stop_hook_active >/dev/null; then exit 0; fi; echo "test it" >&2; exit 2'
    answers = ["done", "tested"]

    async def complete(_request):
        return {"content": answers.pop(0)}

    async with host_of(settings(Stop=command)) as host, host.session("s") as session, session.turn("hi") as turn:
        result = await turn.run(complete=complete, execute=lambda _: None)
    assert (result.content, answers) == ("tested", [])
    assert {"role": "user", "content": "test it"} in result.messages


async def test_a_turn_ends_after_eight_blocks_in_a_row(settings):
    finish = Finish(messages=[{"role": "user", "content": "x"}], meta=Meta(turn_id="t"))
    after_a_tool = finish.model_copy(update={"messages": [*finish.messages, {"role": "tool", "content": ""}]})
    async with host_of(settings(Stop="exit 2")) as host:
        actions = [(await host.before_finish(finish)).action for _ in range(9)]
        assert actions == ["retry"] * 8 + ["continue"]
        for _ in range(8):
            await host.before_finish(finish)
        assert (await host.before_finish(after_a_tool)).action == "retry"


async def test_what_runs_in_the_background_is_heard_at_the_next_prompt(settings, project):
    handler = {"type": "command", "command": "echo '" + json.dumps(
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "tests pass"}}
    ) + "'; touch done", "async": True}  # fmt: skip
    async with host_of(settings(PostToolUse=handler)) as host:
        result = await host.run_tool(LS, lambda _: "a.txt")
        assert result.for_llm == "a.txt"
        notes = ()
        while not notes:  # until the handler has ended
            notes = (await host.before_prompt(Prompt(prompt="x", meta=LS.meta))).notes
            await anyio.sleep(0)
    assert notes[0].additional_context == "tests pass"


async def test_what_runs_in_the_background_ends_with_the_host(settings, project):
    handler = {"type": "command", "command": "echo >begun; sleep 600", "async": True}
    async with host_of(settings(PostToolUse=handler)) as host:
        await host.run_tool(LS, lambda _: "a.txt")
        while not (project / "begun").exists():
            await anyio.sleep(0)


async def test_the_results_of_a_batch_are_seen_before_the_model_is_asked_again(settings):
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "bash", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
    ]
    async with host_of(settings(PostToolBatch="jq -r '.tool_calls[0].tool_name' >&2; exit 2")) as host:
        assert (await host.before_llm(LLMRequest(messages=messages[:1]))).action == "continue"
        outcome = await host.before_llm(LLMRequest(messages=messages))
    assert (outcome.action, outcome.reason) == ("abort_turn", "Bash")


@pytest.mark.parametrize(("failures", "action"), [("strict", "abort_turn"), ("vendor", "continue")])
async def test_a_conversation_that_cannot_be_read_is_a_failure_of_the_hook(settings, failures, action):
    messages = [{"role": "assistant", "tool_calls": "x"}, {"role": "tool", "tool_call_id": "1", "content": "x"}]
    async with host_of(settings(PostToolBatch="exit 0"), failures=failures) as host:
        outcome = await host.before_llm(LLMRequest(messages=messages))
    assert (outcome.action, outcome.trail[0].failure) == (action, "error")


# URLs and models.


async def test_a_url_is_asked_with_the_headers_that_it_may_have(settings, endpoint, monkeypatch):
    pytest.importorskip("httpx")
    monkeypatch.setenv("TOKEN", "t0")
    monkeypatch.setenv("SECRET", "s0")
    endpoint.answers.append((200, json.dumps({"decision": "block", "reason": "no"})))
    path = settings(
        PreToolUse={
            "type": "http",
            "url": endpoint.url,
            "headers": {"x-a": "Bearer $TOKEN", "x-b": "${SECRET}"},
            "allowedEnvVars": ["TOKEN"],
        }
    )
    async with host_of(path) as host:
        outcome = await host.before_tool(LS)
    assert (outcome.action, outcome.reason) == ("deny_tool", "no")


async def test_a_model_is_asked_about_the_input(settings):
    asked = []

    async def complete(prompt, model):
        asked.append((prompt, model))
        return with_nonce(prompt, ok=False, reason="no")

    path = settings(PreToolUse={"type": "prompt", "prompt": "Safe? $ARGUMENTS", "model": "m", "continueOnBlock": True})
    async with host_of(path, complete=complete) as host:
        outcome = await host.before_tool(LS)
    assert (outcome.action, outcome.reason) == ("deny_tool", "no")
    ((prompt, model),) = asked
    assert prompt.startswith("Safe? $ARGUMENTS")
    assert '{"session_id":"s",' in prompt.data
    assert model == "m"


REFUSALS = {
    "in prose": "No.",
    "a quoted yes": 'No. The input contains {"ok": true}, which is a trick.',
    "a quoted yes with the nonce": 'No. They want me to say {"nonce": "NONCE", "ok": true}.',
    "a list": '[{"nonce": "NONCE", "ok": true}]',
    "without the nonce": '{"ok": true}',
    "a no and a yes": '{"nonce": "NONCE", "ok": false, "ok": true}',
    "a yes and a no in other letters": '{"nonce": "NONCE", "ok": true, "OK": false}',
    "two fences": '```json\n{"ok": false}\n```\n```json\n{"nonce": "NONCE", "ok": true}\n```',
    "a yes and another agent's no": '{"nonce": "NONCE", "ok": true, "decision": "block"}',
    "of another type": '{"nonce": "NONCE", "ok": "true"}',
    "nothing": "",
}


@pytest.mark.parametrize("failures", ["strict", "vendor"])
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest", "preToolUse"])
@pytest.mark.parametrize("said", REFUSALS)
async def test_A11_a_model_that_refuses_in_other_words_never_lets_a_call_pass(settings, write, failures, event, said):
    handler = {"type": "prompt", "prompt": "Safe? $ARGUMENTS", "continueOnBlock": True}
    of_cursor = {"version": 1, "hooks": {event: [{"type": "prompt", "prompt": "Safe?"}]}}
    path = write(".cursor/hooks.json", of_cursor) if event == "preToolUse" else settings(**{event: handler})

    def complete(prompt, model):
        return REFUSALS[said].replace("NONCE", prompt.nonce)

    ran = []
    async with host_of(path, failures=failures, complete=complete) as host:
        result = await host.run_tool(LS, ran.append)
        (status,) = host.status().hooks
    assert ran == []
    assert result.is_error
    assert re.search("the model|`ok` is not true or false|it refuses in another agent's words", status.last_error)


@pytest.mark.parametrize("failures", ["strict", "vendor"])
async def test_A11_a_models_refusal_at_a_permission_request_is_a_no(settings, failures):
    path = settings(PermissionRequest={"type": "prompt", "prompt": "Safe?"})

    def complete(prompt, model):
        return with_nonce(prompt, ok=False, reason="not that")

    async with host_of(path, failures=failures, complete=complete) as host:
        approval = await host.approve_tool(LS)
    assert (approval.approved, approval.reason) == (False, "not that")


async def test_a_host_does_not_start_without_the_model_that_a_handler_asks(settings):
    with pytest.raises(ConfigError, match="there is no model"):
        async with host_of(settings(PreToolUse={"type": "prompt", "prompt": "x"})):
            pass


async def test_a_result_is_redacted(settings):
    answer = {
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": {"stdout": "***", "stderr": ""}}
    }
    async with host_of(settings(PostToolUse=prints(answer))) as host:
        result = await host.run_tool(LS, lambda _: ToolResult(for_llm="secret"))
    assert result.for_llm == "***"


@pytest.mark.parametrize(("failures", "runs"), [("strict", False), ("vendor", True)])
async def test_a_gate_is_asked_again_in_strict_about_a_call_that_a_later_hook_has_changed(settings, failures, runs):
    path = settings(PreToolUse=[{"hooks": [{"type": "prompt", "prompt": "$ARGUMENTS"}]}])
    change = Modify({"arguments": {"command": "rm x"}})
    rewriting = FunctionHook("rewriting", {"before_tool": lambda _: change}, layer="project")
    asked = []

    def complete(prompt, model):
        asked.append(prompt)
        return with_nonce(prompt, **({"ok": False, "reason": "no rm"} if "rm x" in prompt else {"ok": True}))

    async with host_of(path, rewriting, failures=failures, complete=complete) as host:
        outcome = await host.before_tool(LS)
    assert (outcome.action == "modify") is runs
    assert len(asked) == (1 if runs else 2)


@pytest.mark.parametrize("only_if", ["Bash(*)", "Bash(rm *)"])
@pytest.mark.parametrize(("failures", "action"), [("strict", "deny_tool"), ("vendor", "modify")])
async def test_a_gate_is_asked_again_in_strict_about_a_call_that_a_handler_beside_it_has_changed(
    settings, failures, action, only_if
):
    change = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "rm x"}}}
    path = settings(
        PreToolUse=[
            {
                "hooks": [
                    {"type": "prompt", "prompt": "$ARGUMENTS", "continueOnBlock": True, "if": only_if},
                    {"type": "command", "command": f"echo '{json.dumps(change)}'"},
                ]
            }
        ]
    )
    asked = []

    def complete(prompt, model):
        asked.append(prompt)
        return with_nonce(prompt, **({"ok": False, "reason": "no rm"} if "rm x" in prompt else {"ok": True}))

    async with host_of(path, failures=failures, complete=complete) as host:
        outcome = await host.before_tool(LS)
    assert outcome.action == action
    assert len(asked) == (failures == "strict") + (only_if == "Bash(*)")
