"""The Claude Agent SDK, with its real agent and a model that says what a script says.

A start of the agent takes a second or more. So one agent makes the calls of several behaviours.
"""

from __future__ import annotations

import pytest

from picohook import AbortTurn, Continue, Deny, FunctionHook, Host, Modify, Notes, Pause, Respond, Retry

from .drivers import run_claude

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("frameworks")]

BASH = "toolu_bash"


def read(path: str) -> str:
    return f"text of {path}"


def bash(command, identity=BASH):
    return (identity, "Bash", {"command": command})


def calls(**paths):
    return [(identity, "read", {"path": path}) for identity, path in paths.items()]


async def test_tools_are_denied_changed_answered_and_redacted_as_hooks_decide(tmp_path):
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
        return None

    def redact(returned):
        text = returned.result.for_llm
        return Modify({"for_llm": text.replace("secret", "[gone]")}) if "secret" in text else None

    stages = {
        "before_tool": judge,
        "approve_tool": lambda call: approved.append((call.tool, call.tool_call_id)) or True,
        "after_tool": redact,
    }
    events = []
    async with Host([FunctionHook("h", stages, on_event=events.append)]) as host:
        script = [[*calls(a="a", b="b", c="c", d="d", e="e", f="f"), bash("echo a secret")], "done"]
        done = await run_claude(host, script, [read], tmp_path, allowed=["Bash"])
    assert done.said == "done"
    assert done.told["a"] == "text of a"
    assert "Tool execution denied by hook: it is outside" in done.told["b"]
    assert "from the hook" in done.told["c"]
    assert done.told["d"] == "[gone] of d"
    assert done.told["e"] == "text of ee"
    assert "may it?" in done.told["f"]
    assert done.told[BASH] == "a [gone]"
    assert sorted(ran) == ["a", "d", "ee"]
    assert sorted(approved) == [("Bash", BASH), *(("read", identity) for identity in "acde")]
    kinds = [event.kind for event in events]
    assert (kinds[0], kinds[-2]) == ("turn_start", "turn_end")
    assert events[-2].payload["Status"] == "completed"
    assert len({event.meta.turn_id for event in events}) == 1


async def test_a_note_of_a_hook_reaches_the_model(tmp_path):
    note = Notes(additional_context="Mind the gap.")
    async with Host([FunctionHook("h", {"before_tool": lambda _: Continue(notes=note)})]) as host:
        done = await run_claude(host, [calls(a="a"), "done"], [read], tmp_path)
    assert "Mind the gap." in done.requests[1]


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


async def test_an_answer_that_a_hook_sends_back_is_written_again(tmp_path):
    seen = []

    def judge(finish):
        seen.append(finish.response["content"])
        return Retry("Say more.") if len(seen) == 1 else None

    async with Host([FunctionHook("h", {"before_finish": judge})]) as host:
        done = await run_claude(host, ["short", "longer"], [], tmp_path)
    assert (done.said, seen) == ("longer", ["short", "longer"])
    assert "Say more." in done.requests[1]


async def test_a_result_that_the_tool_cannot_return_stops_the_agent(tmp_path):
    (tmp_path / "a.txt").write_text("a secret", encoding="utf-8")
    events = []
    edit = FunctionHook("h", {"after_tool": lambda _: Modify({"for_llm": "[gone]"})}, on_event=events.append)
    async with Host([edit]) as host:
        script = [[("1", "Glob", {"pattern": "*.txt"})], "done"]
        done = await run_claude(host, script, [], tmp_path, allowed=["Glob"])
    assert len(done.requests) == 1
    (reason,) = [event.payload["Reason"] for event in events if event.kind == "turn_abort"]
    assert reason == "Glob: a hook changed the result of this tool to a form that the tool does not return"


async def test_a_hook_at_a_stage_of_the_model_is_refused(tmp_path):
    async with Host([FunctionHook("h", {"after_llm": lambda _: None})]) as host:
        done = await run_claude(host, ["done"], [], tmp_path)
    assert done.requests == []
    assert "h: this agent asks no hooks at after_llm: give this hook other `stages`" in done.reasons
