"""The AI SDK for TypeScript, guarded through the sidecar: its real loop, and its own mock model."""

from __future__ import annotations

import json

import preloaded
import pytest

from .drivers import AI_SDK, run_ai_sdk

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not AI_SDK.exists(), reason="npm install --prefix hooks_examples/clients/node"),
]

HOOK = """
from picohook.sdk import HookApp

app = HookApp("h")


@app.before_tool
def judge(call):
    match call.arguments.get("path"):
        case "b":
            return call.deny("it is outside")
        case "c":
            return call.respond("from the hook")
        case "d":
            return call.modify(arguments={"path": "dd"})
        case "stop":
            return call.abort("enough")
        case "pause":
            return call.pause("may it?")
        case "whose":
            return call.respond("a sub-turn" if call.meta.parent_turn_id else "a turn")


@app.approve_tool
def approve(call):
    return call.arguments.get("path") != "refused"


@app.after_tool
def redact(call):
    if "secret" in call.result.for_llm:
        return call.modify(for_llm=call.result.for_llm.replace("secret", "[gone]"))


@app.after_llm
def look(answer):
    return None


app.run()
"""


@pytest.fixture
def config_of(tmp_path):
    def write(stages):
        (tmp_path / "hook.py").write_text(HOOK, encoding="utf-8")
        command = json.dumps([preloaded.program("python"), str(tmp_path / "hook.py")])
        path = tmp_path / "picohook.toml"
        path.write_text(f'[hooks.h]\ncommand = {command}\nstages = {stages}\non_failure = "deny"\n', encoding="utf-8")
        return path

    return write


def calls(**paths):
    return [(identity, "read", {"path": path}) for identity, path in paths.items()]


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_are_denied_answered_changed_and_redacted_as_hooks_decide(config_of, stream):
    script = [calls(a="a", b="b", c="c", d="d", e="secret", f="fail", g="refused", h="whose"), "done"]
    done = await run_ai_sdk(config_of(["before_tool", "approve_tool", "after_tool"]), script, stream=stream)
    assert done["text"] == "done"
    assert done["told"] == {
        "a": "it ran: a",
        "b": "Tool execution denied by hook: it is outside",
        "c": "from the hook",
        "d": "it ran: dd",
        "e": "it ran: [gone]",
        "f": "it failed",
        "g": "Tool execution denied by approval hook",
        "h": "a turn",
    }
    assert [given["path"] for _, given in done["ran"]] == ["a", "dd", "secret", "fail"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hook_that_aborts_ends_the_run(config_of, stream):
    done = await run_ai_sdk(config_of(["before_tool"]), [calls(a="stop"), calls(b="a"), "done"], stream=stream)
    assert done == {"told": {}, "ran": [], "error": "TurnEndedError: enough"}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_pause_is_an_approval_request_and_the_approved_call_runs_in_a_later_turn(config_of, stream):
    config = config_of(["before_tool", "approve_tool", "after_tool"])
    done = await run_ai_sdk(
        config, [calls(a="pause", b="pause", c="a", d="b"), "done"], stream=stream, approved=["a", "none"]
    )
    assert done["pauses"] == {"a": "may it?", "b": "may it?"}
    assert done["text"] == "done"
    assert (done["told"]["a"], done["told"]["c"]) == ("it ran: pause", "it ran: a")
    assert "outside" in done["told"]["d"]
    assert [given["path"] for _, given in done["ran"]] == ["a", "pause"]


async def test_an_agent_inside_a_tool_has_a_sub_turn_and_its_pause_ends_the_outer_turn(config_of):
    config = config_of(["before_tool"])
    done = await run_ai_sdk(config, [calls(o="inner"), "from inside", calls(p="inner"), calls(q="pause"), "done"])
    assert done["told"] == {"i": "a sub-turn", "o": "from inside"}
    assert done["error"] == "TurnEndedError: may it?"


async def test_a_hook_at_a_stage_of_the_model_is_refused(config_of):
    done = await run_ai_sdk(config_of(["after_llm"]), ["done"])
    assert done["error"].startswith("Error: h: the AI SDK asks no hooks at after_llm: give this hook other `stages`")


async def test_A17_a_tool_without_execute_is_refused_by_name(config_of):
    config = config_of(["before_tool"])
    done = await run_ai_sdk(config, ["done"], how=["elsewhere"])
    assert done["error"].startswith("Error: search: this tool has no `execute`, and asks no hooks: leave it out")
    assert (await run_ai_sdk(config, ["done"], how=["elsewhere", "unguarded"]))["text"] == "done"


async def test_A17_the_tools_that_an_agent_prepares_for_a_call_ask_hooks_once(config_of):
    done = await run_ai_sdk(config_of(["before_tool", "after_tool"]), [calls(b="b", e="secret"), "done"], how=["agent"])
    assert done["told"] == {"b": "Tool execution denied by hook: it is outside", "e": "it ran: [gone]"}
    assert [given["path"] for _, given in done["ran"]] == ["secret"]
