"""The Claude Agent SDK, with its real agent and a model that says what a script says.

A start of the agent takes a second or more. So one agent makes the calls of several behaviours.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio
import pytest

from picohook import AbortTurn, Continue, Deny, FunctionHook, Host, Modify, Notes, Pause, PicohookError, Respond, Retry

from .drivers import run_claude
from .messages_api import HELPER

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

BASH = "toolu_bash"


def read(path: str) -> str:
    return f"text of {path}"


def bash(command, identity=BASH):
    return (identity, "Bash", {"command": command})


def calls(**paths):
    return [(identity, "read", {"path": path}) for identity, path in paths.items()]


async def test_tools_are_denied_changed_answered_and_redacted_and_notes_and_answers_reach_the_model_as_hooks_decide(
    tmp_path,
):
    ran, approved = [], []

    def read(path: str) -> str:
        ran.append(path)
        return f"secret of {path}" if path == "d" else f"text of {path}"

    def judge(call):
        match call.arguments.get("path"):
            case "b":
                return Deny("it is outside")
            case "c":
                return Respond({"for_llm": "from the hook"})
            case "e":
                return Modify({"arguments": {"path": "ee"}})
            case "f":
                return Pause("may it?")
            case "g":
                return Continue(notes=Notes(additional_context="Mind the gap."))
        return None

    def redact(returned):
        text = returned.result.for_llm
        return Modify({"for_llm": text.replace("secret", "[gone]")}) if "secret" in text else None

    stages = {
        "before_tool": judge,
        "approve_tool": lambda call: approved.append((call.tool, call.tool_call_id)) or True,
        "after_tool": redact,
    }
    events, answers = [], []

    def finish(asked):
        answers.append(asked.response["content"])
        return Retry("Say more.") if len(answers) == 1 else None

    stages["before_finish"] = finish
    async with Host([FunctionHook("h", stages, on_event=events.append)]) as host:
        script = [[*calls(a="a", b="b", c="c", d="d", e="e", f="f", g="g"), bash("echo a secret")], "done", "all done"]
        done = await run_claude(host, script, [read], tmp_path, allowed=["Bash"])
    assert (done.said, answers) == ("all done", ["done", "all done"])
    assert "Say more." in done.requests[2]
    assert "Mind the gap." in done.requests[1]
    assert done.told["a"] == "text of a"
    assert "Tool execution denied by hook: it is outside" in done.told["b"]
    assert "from the hook" in done.told["c"]
    assert done.told["d"] == "[gone] of d"
    assert done.told["e"] == "text of ee"
    assert "may it?" in done.told["f"]
    assert done.told[BASH] == "a [gone]"
    assert sorted(ran) == ["a", "d", "ee", "g"]
    assert sorted(approved) == [("Bash", BASH), *(("read", identity) for identity in "acdeg")]
    kinds = [event.kind for event in events]
    assert (kinds[0], kinds[-2]) == ("turn_start", "turn_end")
    assert events[-2].payload["Status"] == "completed"
    assert len({event.meta.turn_id for event in events}) == 1


async def test_a_hook_that_aborts_stops_the_agent_and_says_why(tmp_path):
    events = []
    async with Host([FunctionHook("h", {"after_tool": lambda _: AbortTurn("enough")}, on_event=events.append)]) as host:
        done = await run_claude(host, [calls(a="a"), "done"], [read], tmp_path)
    assert (done.said, len(done.requests)) == (None, 1)
    assert [(event.kind, event.payload.get("Reason")) for event in events[-2:-1]] == [("turn_abort", "enough")]


async def test_a_prompt_that_a_hook_denies_does_not_reach_the_model(tmp_path):
    async with Host([FunctionHook("h", {"before_prompt": lambda _: AbortTurn("not this")})]) as host:
        done = await run_claude(host, ["done"], [], tmp_path)
    assert done.requests == []


async def test_a_result_that_the_tool_cannot_return_stops_the_agent(tmp_path):
    (tmp_path / "a.txt").write_text("a secret", encoding="utf-8")
    events = []
    edit = FunctionHook("h", {"after_tool": lambda _: Modify({"for_llm": "[gone]"})}, on_event=events.append)
    async with Host([edit]) as host:
        script = [[("1", "Glob", {"pattern": "*.txt"})], "done"]
        done = await run_claude(host, script, [], tmp_path, allowed=["Glob"])
    assert len(done.requests) == 1
    (reason,) = [event.payload["Reason"] for event in events if event.kind == "turn_abort"]
    assert reason == "Glob: a hook changed the result to a form that this tool does not return"


async def test_a_hook_at_a_stage_of_the_model_is_refused(tmp_path):
    async with Host([FunctionHook("h", {"after_llm": lambda _: None})]) as host:
        done = await run_claude(host, ["done"], [], tmp_path)
    assert done.requests == []
    assert "h: this agent asks no hooks at after_llm: give this hook other `stages`" in done.reasons


# A person decides.


def pausing(call):
    return Pause("may it?") if call.arguments["path"] != "ordinary" else None


async def test_a_paused_call_is_deferred_and_another_agent_continues_the_run_with_an_answer_for_one_hook(tmp_path):
    ran, kinds = [], []

    def read(path: str) -> str:
        ran.append(path)
        return f"text of {path}"

    async def continued(answer, names=("h",)):
        """Another agent with hooks of these names, from a copy of what the first has kept."""
        place = tmp_path / "-".join((str(answer), *names))
        shutil.copytree(first, place)
        options = {"resume": done.session, "answers": {"a": answer}, "defer": True, "home": place}
        async with Host([FunctionHook(name, {"before_tool": pausing}) for name in names]) as host:
            return await run_claude(host, ["done"], [read], first, **options)

    first = tmp_path / "first"
    first.mkdir()
    hook = FunctionHook("h", {"before_tool": pausing}, on_event=lambda event: kinds.append(event.kind))
    async with Host([hook]) as host:
        done = await run_claude(host, [calls(a="a", b="b", c="ordinary")], [read], first, defer=True)
    assert (done.deferred, done.pauses, ran) == ("a", {"a": "may it?"}, ["ordinary"])
    assert "turn_abort" not in kinds

    for answer, told in ((False, "A person rejected this call."), (True, "text of a")):
        again = await continued(answer)
        assert again.said == "done"
        assert again.told["c"] == "text of ordinary"
        assert "Another call waits for a person" in again.told["b"]
        assert again.told["a"].endswith(told)
        assert ran == (["ordinary", "a"] if answer else ["ordinary"])

    again = await continued(True, ["h", "other"])
    assert "may it?" in again.requests[0]
    assert ran == ["ordinary", "a"]


@pytest.fixture
async def deferred(tmp_path):
    """Resumes an agent whose call of Bash waits for a person, from a copy of what the first agent has kept."""
    first = tmp_path / "first"
    first.mkdir()
    ran = first / "ran"
    hook = FunctionHook("h", {"before_tool": lambda _: Pause("may it?")})
    async with Host([hook]) as host:
        done = await run_claude(host, [[bash(f"touch {ran}")]], [], first, allowed=["Bash"], defer=True)
        assert done.deferred == BASH

        async def resume(name, **options):
            ran.unlink(missing_ok=True)
            home = tmp_path / name
            shutil.copytree(first, home)
            resumed = {"resume": done.session, "home": home, "allowed": ["Bash"], "defer": True}
            again = await run_claude(host, ["done"] * 3, [], first, **resumed, **options)
            return ran.exists(), again

        yield resume


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
async def test_A16_a_deferred_call_without_a_yes_does_not_run_though_the_agent_has_no_mcp_server(deferred, mode):
    for attempt in range(2):
        options = {"permission_mode": mode, "env": {"IS_SANDBOX": "1"}}
        ran, done = await deferred(f"no-{attempt}", answers={BASH: False}, **options)
        assert (ran, done.told[BASH].endswith("A person rejected this call.")) == (False, True)
        ran, done = await deferred(f"unanswered-{attempt}", **options)
        assert (ran, done.deferred) == (False, BASH)
    ran, done = await deferred("yes", answers={BASH: True}, **options)
    assert (ran, done.said) == (True, "done")


async def test_A16_a_resumed_agent_makes_no_call_before_it_asks_hooks(deferred):
    from picohook.integrations.claude_gate import Gate

    gate = Gate(patience=0)
    for name, env in (("plain", {}), ("safe", {"CLAUDE_CODE_SAFE_MODE": "1"}), ("bare", {"CLAUDE_CODE_SIMPLE": "1"})):
        ran, done = await deferred(name, guard=gate.before, env=env)
        assert (ran, "hooks of this agent were not asked" in done.told[BASH]) == (False, True)


async def test_A16_neither_a_variable_nor_settings_turn_the_callbacks_off(tmp_path):
    (tmp_path / ".claude").mkdir()
    for place in (tmp_path / ".claude" / "settings.json", tmp_path / "mine.json"):
        place.write_text('{"env": {"CLAUDE_CODE_SIMPLE": "1"}, "disableAllHooks": true}', encoding="utf-8")
    async with Host([FunctionHook("h", {"before_tool": lambda _: Deny("no")})]) as host:
        script = [[bash(f"touch {tmp_path}/ran")], "done"]
        options = {"allowed": ["Bash"], "env": {"CLAUDE_CODE_SIMPLE": "1"}, "settings": "mine.json"}
        done = await run_claude(host, script, [], tmp_path, **options)
    assert "denied by hook: no" in done.told[BASH]
    assert not (tmp_path / "ran").exists()


async def test_options_that_turn_hooks_off_are_refused_and_so_are_settings_that_cannot_be_read():
    from claude_agent_sdk import ClaudeAgentOptions

    from picohook.integrations.claude_gate import Gate

    for name in ("bare", "safe-mode", "settings"):
        with pytest.raises(PicohookError, match=f"extra_args: with --{name}, "):
            Gate().before(ClaudeAgentOptions(extra_args={name: None}))
    for settings in ("{", "nowhere.json"):
        with pytest.raises(PicohookError, match=r"settings: .*: give a file or a JSON object"):
            Gate().before(ClaudeAgentOptions(settings=settings))


async def test_the_gate_keeps_the_agents_own_settings_and_servers():
    from claude_agent_sdk import ClaudeAgentOptions

    from picohook.integrations.claude_gate import Gate

    own = {"env": {"A": "b"}, "hooks": {"PreToolUse": [{"hooks": []}], "Stop": []}, "model": "m"}
    gate = Gate()
    options = gate.before(ClaudeAgentOptions(settings=json.dumps(own), mcp_servers={"t": {}}, resume="s"))
    settings = json.loads(Path(options.settings).read_text())
    assert settings["env"]["A"] == "b"
    assert settings["hooks"]["PreToolUse"][0] == {"hooks": []}
    assert len(settings["hooks"]["PreToolUse"]) == 2
    assert (settings["hooks"]["Stop"], settings["model"]) == ([], "m")
    assert [*options.mcp_servers] == ["t", "picohook"]
    assert Gate().before(ClaudeAgentOptions(mcp_servers="servers.json", resume="s")).mcp_servers == "servers.json"


async def test_settings_of_a_file_are_in_no_command_line(tmp_path):
    from claude_agent_sdk import ClaudeAgentOptions

    from picohook.integrations.claude_gate import Gate

    (tmp_path / "mine.json").write_text('{"env": {"TOKEN": "secret"}}', encoding="utf-8")
    gate = Gate()
    place = Path(gate.before(ClaudeAgentOptions(settings="mine.json", cwd=tmp_path)).settings)
    assert json.loads(place.read_text())["env"]["TOKEN"] == "secret"
    assert place.stat().st_mode & 0o777 == 0o600
    del gate
    assert not place.exists()


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ('{"tool_use_id": "asked"}', True),
        ('{"tool_input": {"tool_use_id": "asked"}, "tool_use_id": "other"}', False),
        ('{"tool_input": {"x": "\\"tool_use_id\\": \\"asked\\""}, "tool_use_id": "../asked"}', False),
        ("{}", False),
        ("not JSON", False),
    ],
)
async def test_A16_the_gate_lets_only_a_call_pass_whose_callback_was_asked(given, passes):
    from claude_agent_sdk import ClaudeAgentOptions

    from picohook.integrations.claude_gate import Gate

    gate = Gate(patience=0)
    gate.before(ClaudeAgentOptions(resume="s"))
    gate.open("asked")
    (hook,) = gate.hook()["hooks"]
    done = await anyio.run_process(hook["command"], input=given.encode(), check=False, stderr=None)
    denies = done.returncode == 2 or json.loads(done.stdout or "{}") != {}
    assert denies is not passes


async def test_the_agents_user_lifts_a_pause_and_cannot_change_the_call(tmp_path):
    import claude_agent_sdk as sdk

    ran, asked = [], {}

    def read(path: str) -> str:
        ran.append(path)
        return f"text of {path}"

    async def user(tool, given, context):
        asked[given["path"]] = context.decision_reason
        if given["path"] == "refused":
            return sdk.PermissionResultDeny(message="the user refused")
        changed = {"path": "outside"} if given["path"] == "changed" else None
        if given["path"] == "same":
            given["path"] = "outside"
        return sdk.PermissionResultAllow(updated_input=changed)

    script = [calls(a="free", b="paused", c="refused", d="changed", e="same"), "done"]
    judge = FunctionHook(
        "h", {"before_tool": lambda call: None if call.arguments["path"] == "free" else Pause("may it?")}
    )
    async with Host([judge]) as host:
        done = await run_claude(host, script, [read], tmp_path, can_use_tool=user)
    assert done.said == "done"
    assert sorted(ran) == ["free", "paused", "same"]
    assert (done.told["a"], done.told["b"]) == ("text of free", "text of paused")
    assert "the user refused" in done.told["c"]
    assert "after hooks were asked" in done.told["d"]
    assert asked["paused"] == asked["refused"] == "may it?"


async def test_an_own_hook_that_changes_a_call_after_its_approval_stops_the_agent(tmp_path):
    import claude_agent_sdk as sdk

    async def change(given, tool_use_id, context):
        own = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"path": "../b"}}
        return {"hookSpecificOutput": own}

    events = []
    async with Host([FunctionHook("h", {"before_tool": lambda _: None}, on_event=events.append)]) as host:
        own = {"PreToolUse": [sdk.HookMatcher(hooks=[change])]}
        done = await run_claude(host, [calls(a="a"), "done"], [read], tmp_path, hooks=own)
    assert len(done.requests) == 1
    (reason,) = [event.payload["Reason"] for event in events if event.kind == "turn_abort"]
    assert reason == "the tool read ran with other arguments than hooks have decided on"


async def test_hooks_are_asked_about_a_subagent_in_a_turn_of_its_own(tmp_path):
    import claude_agent_sdk as sdk

    metas = {}

    def judge(call):
        metas[call.tool] = call.meta
        return Deny("not for helpers") if call.tool == "read" else None

    helper = sdk.AgentDefinition(description="Helps.", prompt=HELPER, tools=["mcp__t__read"])
    task = [("t", "Task", {"description": "d", "prompt": "Read a.", "subagent_type": "helper"})]
    script, helps = [task, *["done"] * 5], [calls(a="a"), "well"]
    async with Host([FunctionHook("h", {"before_tool": judge})]) as host:
        done = await run_claude(
            host, script, [read], tmp_path, agents={"helper": helper}, allowed=["Task"], helps=helps, results=2
        )
    assert "Tool execution denied by hook: not for helpers" in done.told["a"]
    (tool,) = metas.keys() - {"read"}
    assert metas["read"].parent_turn_id == metas[tool].turn_id
