"""PicoClaw's process hooks: what its own documents and tests expect of a turn, with the version that they are of."""

from __future__ import annotations

import json
import sys

import pytest
from rows import each

from picohook import AbortTurnError, Continue, Host, PausedError, ToolCall, ToolResult
from picohook.config import load
from picohook.errors import ConfigError
from picohook.model.filters import Filter
from picohook.testing import FakeHook, RecordingHost

pytestmark = pytest.mark.anyio

HOOK = """
import json, os, sys

rewrites = os.environ["MODE"] == "rewrite"
answers = {"hook.hello": {"ok": True}, "hook.approve_tool": {"approved": True}}
if os.environ["MODE"] == "deny":
    answers["hook.approve_tool"] = {"approved": False, "reason": "blocked by ipc hook"}


def answer(method, params):
    if method in answers or not rewrites:
        return answers.get(method, {"action": "continue"})
    if method == "hook.before_llm":
        return {"action": "modify", "request": {**params, "model": "process-model"}}
    if method == "hook.before_tool":
        return {"action": "modify", "call": {**params, "arguments": {"text": "ipc"}}}
    if method == "hook.after_llm":
        params["response"]["content"] += "|ipc"
        return {"action": "modify", "response": params}
    params["result"]["for_llm"] = "ipc:" + params["result"]["for_llm"]
    return {"action": "modify", "result": params}


with open("seen.jsonl", "a") as seen:
    for line in sys.stdin:
        message = json.loads(line)
        seen.write(line)
        seen.flush()
        if message.get("id"):
            result = answer(message["method"], message["params"])
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

CONTEXT = {
    "inbound": {"channel": "telegram", "chat_id": "-100123", "topic_id": "42", "chat_type": "group", "sender_id": "u1"},
    "route": {"AgentID": "main", "Channel": "telegram", "MatchedBy": "default"},
    "scope": {"version": 1, "agent_id": "main", "dimensions": ["chat"], "values": {"chat": "forum:-100123/42"}},
}


class Hooked:
    """A file of PicoClaw's with one hook, and what that was sent."""

    def __init__(self, directory):
        self.directory = directory
        self.file = directory / "config.json"
        (directory / "hook.py").write_text(HOOK)

    def configure(self, mode, **settings):
        process = {
            "enabled": True,
            "command": [sys.executable, "hook.py"],
            "dir": str(self.directory),
            "env": {"MODE": mode},
            **settings,
        }
        self.file.write_text(json.dumps({"hooks": {"enabled": True, "processes": {"ipc": process}}}))
        return self.file

    @property
    def seen(self):
        return [json.loads(line) for line in (self.directory / "seen.jsonl").read_text().splitlines()]

    def told(self):
        return [(one["method"], one["params"]) for one in self.seen if "id" not in one]


@pytest.fixture
def hooked(tmp_path):
    return Hooked(tmp_path)


async def turn_of(config, *answers, version=None, execute=lambda call: call.arguments["text"], **about):
    """One turn with a model that gives these answers; what it came to, and what the model was asked."""
    asked, left = [], list(answers)

    async def complete(request):
        asked.append(request)
        return left.pop(0)

    async with (
        Host.from_config(config, picoclaw=version) as host,
        host.session("session-1", **about) as session,
        session.turn("hello") as turn,
    ):
        result = await turn.run(complete=complete, execute=execute)
    return result, asked


def wants(tool, **arguments):
    call = {"id": "call-1", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    return {"content": "", "tool_calls": [call]}


# What PicoClaw's own tests of its process hooks expect.


async def test_a_process_hook_rewrites_the_request_and_the_response_and_is_told_of_the_turns_end(hooked):
    config = hooked.configure("rewrite", observe=["*"], intercept=["before_llm"])
    result, asked = await turn_of(config, {"content": "provider content"}, version="0.2.9")
    assert result.content == "provider content|ipc"
    assert [request.model for request in asked] == ["process-model"]
    assert {method for method, _ in hooked.told()} == {"hook.runtime_event"}
    assert "agent.turn.end" in [params["kind"] for _, params in hooked.told()]


async def test_a_process_hook_rewrites_a_call_and_its_result(hooked):
    config = hooked.configure("rewrite", intercept=["before_tool"])
    result, asked = await turn_of(config, wants("echo_text", text="x"), {"content": "done"}, version="0.2.9")
    assert result.content == "done"
    assert asked[1].messages[-1]["content"] == "ipc:ipc"


async def test_observers_get_the_reason_of_a_denied_approval_too(hooked):
    config = hooked.configure("deny", observe=["tool_exec_skipped"], intercept=["approve_tool"])
    _, asked = await turn_of(config, wants("blocked_tool"), {"content": "done"}, version="0.2.9")
    words = "Tool execution denied by approval hook: blocked by ipc hook"
    assert asked[1].messages[-1]["content"] == words
    ((method, params),) = hooked.told()
    assert (method, params["kind"]) == ("hook.runtime_event", "agent.tool.exec_skipped")
    assert params["payload"] == {"Tool": "blocked_tool", "Reason": words}


@pytest.mark.parametrize(
    ("version", "observe", "method"),
    [
        (None, "turn_end", "hook.event"),
        (None, "agent.turn.end", "hook.runtime_event"),
        ("0.2.8", "*", "hook.event"),
        ("0.2.9", "turn_end", "hook.runtime_event"),
        ("0.2.9", "", "hook.runtime_event"),
        ("0.2.9+edits", "all", "hook.runtime_event"),
    ],
)
def test_the_version_decides_the_dialect_of_events_for_every_form_of_observe(hooked, version, observe, method):
    (spec,) = load(hooked.configure("", observe=[observe]), given={"picoclaw": version}).hooks
    assert {"legacy": "hook.event", "runtime": "hook.runtime_event"}[spec.events] == method


# before_llm, as PicoClaw's hook manager has it from 0.2.9 on.

REQUEST = {
    "model": "original-model",
    "messages": [{"role": "system", "content": "original system"}, {"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "function": {"name": "create_issue", "parameters": {"type": "object"}}}],
}
OTHER_TOOL = {"type": "function", "function": {"name": "hook_tool", "parameters": {"type": "object"}}}


def edited(**changes):
    return {"before_llm": {"action": "modify", "request": {**REQUEST, "model": "changed-model", **changes}}}


async def asked_about(hooked, version, script):
    (spec,) = load(hooked.configure("", intercept=["before_llm"]), given={"picoclaw": version}).hooks
    async with Host([FakeHook("h", script, may_edit=spec.may_edit)]) as host:
        outcome = await host.before_llm(REQUEST)
    return outcome.payload


async def test_a_system_message_stays_and_the_rest_of_the_edit_is_taken(hooked):
    messages = [{"role": "system", "content": "rewritten system"}, REQUEST["messages"][1]]
    left = await asked_about(hooked, "0.2.9", edited(messages=messages))
    assert (left.model, left.messages) == ("changed-model", REQUEST["messages"])


async def test_a_system_message_keeps_its_place(hooked):
    messages = [{"role": "user", "content": "me first"}, *REQUEST["messages"]]
    left = await asked_about(hooked, "0.2.9", edited(messages=messages))
    assert left.messages == REQUEST["messages"]


async def test_a_message_of_the_user_can_be_added(hooked):
    messages = [*REQUEST["messages"], {"role": "user", "content": "extra"}]
    left = await asked_about(hooked, "0.2.9", edited(messages=messages))
    assert left.messages == messages


async def test_tool_definitions_stay_and_the_rest_of_the_edit_is_taken(hooked):
    left = await asked_about(hooked, "0.2.9", edited(tools=[*REQUEST["tools"], OTHER_TOOL]))
    assert (left.model, left.tools) == ("changed-model", REQUEST["tools"])


@pytest.mark.parametrize("version", [None, "0.2.8", "0.2.9+edits"])
async def test_the_older_version_and_the_switch_let_hooks_add_tools_and_edit_system_messages(hooked, version):
    tools = [*REQUEST["tools"], OTHER_TOOL]
    messages = [{"role": "system", "content": "rewritten system"}]
    left = await asked_about(hooked, version, edited(tools=tools, messages=messages))
    assert (left.tools, left.messages) == (tools, messages)


# Where it is said.


def test_picohooks_own_file_can_set_it_for_all_hooks_and_each_hook_can_override_it(tmp_path):
    file = tmp_path / "picohook.toml"
    file.write_text(
        'picoclaw = "0.2.9"\n[hooks.a]\ncommand = ["x"]\nobserve = ["turn_end"]\n'
        '[hooks.b]\ncommand = ["x"]\nobserve = ["turn_end"]\nevents = "legacy"\nmay_edit = ["tools"]\n'
    )
    a, b = load(file).hooks
    assert (a.events, a.may_edit) == ("runtime", ("messages",))
    assert (b.events, b.may_edit) == ("legacy", ("tools",))
    assert load(file, given={"picoclaw": "0.2.8"}).hooks[0].events == "legacy"


def test_an_unknown_version_is_an_error_that_names_the_known_ones(hooked):
    with pytest.raises(ConfigError, match=r'picoclaw: "0\.3\.0" is not one of 0\.2\.8, 0\.2\.9'):
        load(hooked.configure("", observe=["*"]), given={"picoclaw": "0.3.0"})


def test_isolation_that_a_file_asks_for_is_an_error_where_hooks_would_run_without_it(hooked):
    document = json.loads(hooked.configure("", observe=["*"]).read_text())
    hooked.file.write_text(json.dumps({**document, "isolation": {"enabled": True}}))
    with pytest.raises(ConfigError, match=r"isolation\.enabled: .*sandbox"):
        load(hooked.file)
    hooked.file.write_text(json.dumps({**document, "isolation": {"enabled": False, "expose_paths": []}}))
    assert len(load(hooked.file).hooks) == 1
    document["hooks"]["processes"]["ipc"]["enabled"] = False
    hooked.file.write_text(json.dumps({**document, "isolation": {"enabled": True}}))
    assert load(hooked.file).hooks == ()


# The context of a turn, and its events.


async def test_the_context_reaches_every_stage_and_the_scope_of_every_event(hooked):
    config = hooked.configure("", observe=["*"], intercept=["before_llm", "before_tool", "approve_tool"])
    answers = wants("echo_text", text="x"), {"content": "done"}
    about = {"context": CONTEXT, "agent_id": "main", "channel": "telegram", "chat_id": "-100123"}
    await turn_of(config, *answers, version="0.2.9", **about)
    asked = [one for one in hooked.seen if one.get("id", 0) > 1]
    assert [one["method"].removeprefix("hook.") for one in asked] == [
        "before_llm", "after_llm", "before_tool", "approve_tool", "after_tool", "before_llm", "after_llm",
    ]  # fmt: skip
    assert [one["params"]["context"] for one in asked] == [CONTEXT] * len(asked)
    where = {"agent_id": "main", "session_key": "session-1", **CONTEXT["inbound"]}
    for _, event in hooked.told():
        turn = event["scope"].pop("turn_id")
        assert event["scope"] == where
        assert bool(turn) is (event["kind"] not in {"agent.session.start", "agent.session.end"})
    attributes = {event["kind"]: event["attrs"] for _, event in hooked.told()}
    assert attributes["agent.tool.exec_start"] == {"agent_source": "turn.tool", "iteration": 1}
    (end,) = [event["payload"] for _, event in hooked.told() if event["kind"] == "agent.turn.end"]
    assert end["ToolExecutions"] == [{"name": "echo_text", "success": True}]
    assert end["ToolKinds"] == ["echo_text"]


async def test_a_call_keeps_its_own_context_if_the_session_has_none():
    hook = FakeHook("h", {"before_tool": None})
    async with Host([hook]) as host, host.session("s1") as session, session.turn("hello") as turn:
        await turn.tools([ToolCall(tool="x", context={"inbound": {"chat_id": "7"}})], lambda _: "done")
    assert hook.asked[0].payload.context == {"inbound": {"chat_id": "7"}}


async def test_the_skills_of_the_agent_are_in_turn_end():
    async with RecordingHost() as host, host.session("s1") as session, session.turn("hello") as turn:
        turn.ending |= {"Workspace": "/home/you/work", "ActiveSkills": ["pdf"]}
    (end,) = [event.payload for event in host.events if event.kind == "turn_end"]
    assert (end["Workspace"], end["ActiveSkills"], end["AttemptedSkills"]) == ("/home/you/work", ["pdf"], [])


@each(
    ("kind", "payload", "severity"),
    [
        ("error", {}, "error"),
        ("subturn_orphan", {}, "error"),
        ("llm_retry", {}, "warn"),
        ("tool_exec_skipped", {}, "warn"),
        ("tool_exec_end", {"IsError": True}, "warn"),
        ("tool_exec_end", {"IsError": False}, "info"),
        ("turn_end", {"Status": "error"}, "error"),
        ("turn_end", {"Status": "aborted"}, "warn"),
        ("turn_end", {"Status": "completed"}, "info"),
        ("gateway.reload.failed", {}, "error"),
    ],
)
async def test_a_runtime_event_has_the_severity_that_its_kind_and_payload_have_there(kind, payload, severity):
    async with RecordingHost() as host:
        host.emit(kind, payload)
    assert json.loads(host.events[0].line("runtime"))["params"]["severity"] == severity


async def test_an_event_of_the_gateway_can_be_emitted_and_comes_from_its_component():
    seen = FakeHook("h", {}, observe=["channel.rate_limited", "mcp.tool.call.end"])
    async with RecordingHost([seen]) as host:
        await host.emit_and_wait("channel.rate_limited", {"media": False})
        await host.emit_and_wait("gateway.ready", {})
    assert [event.kind for event in seen.events] == ["channel.rate_limited"]
    params = json.loads(host.events[0].line("runtime"))["params"]
    assert (params["kind"], params["source"]["component"]) == ("channel.rate_limited", "channel")


# Results that have more than text.


async def answered(result, **about):
    """A turn in which a hook answers for a tool; what the model was then told, and how tool_exec_end was told."""
    hook = FakeHook("h", {"before_tool": {"action": "respond", "result": result}}, provides=["media_tool"])
    asked, answers = [], [wants("media_tool"), {"content": "done"}]

    async def complete(request):
        asked.append(request)
        return answers.pop(0)

    async with RecordingHost([hook]) as host, host.session("s1", **about) as session, session.turn("draw") as turn:
        done = await turn.run(complete=complete, execute=lambda _: "never")
    (end,) = [event.payload for event in host.events if event.kind == "tool_exec_end"]
    return done, next(message for message in done.messages if message["role"] == "tool"), end


MEDIA = ["media://test/image.png"]


async def test_media_that_were_not_handled_go_to_the_model_with_the_files_that_are_named():
    delivered = []
    result = {"for_llm": "loaded", "media": MEDIA, "artifact_tags": ["[file:/tmp/image.png]"]}
    done, message, _ = await answered(result, deliver=delivered.append)
    assert (message["content"], message["media"]) == ("loaded\nFiles: [file:/tmp/image.png]", MEDIA)
    assert (delivered, done.content) == ([], "done")


async def test_media_that_the_hook_handled_go_to_the_user_and_end_the_turn():
    delivered = []
    done, message, end = await answered(
        {"for_llm": "sent", "media": MEDIA, "response_handled": True}, deliver=delivered.append
    )
    assert [one.media for one in delivered] == [tuple(MEDIA)]
    assert ("media" in message, end["IsError"], done.iterations) == (False, False, 1)


async def test_a_delivery_that_fails_is_an_error_in_tool_exec_end_too():
    def deliver(_):
        raise OSError("channel unavailable")

    result = {"for_llm": "media sent successfully", "media": MEDIA, "response_handled": True}
    done, message, end = await answered(result, deliver=deliver)
    assert "channel unavailable" in message["content"]
    assert (end["IsError"], end["ForLLMLen"], done.content) == (True, len(message["content"]), "done")


async def test_without_a_deliver_function_no_part_of_an_answer_is_lost():
    result = {"for_llm": "x", "for_user": "look", "media": MEDIA, "response_handled": True}
    done, message, end = await answered(result)
    assert [(one.text, one.media) for one in done.undelivered] == [("look", tuple(MEDIA))]
    assert (message["media"], end["IsError"], done.content) == (MEDIA, False, "done")


async def test_a_tools_result_is_delivered_before_tool_exec_end_tells_how_that_ended():
    def deliver(_):
        raise OSError("gone")

    async with RecordingHost() as host, host.session("s1", deliver=deliver) as session, session.turn("x") as turn:
        await turn.tools([ToolCall(tool="draw")], lambda _: ToolResult(for_llm="drawn", for_user="look"))
    (end,) = [event.payload for event in host.events if event.kind == "tool_exec_end"]
    assert end["IsError"]


async def test_a_result_over_which_a_hook_aborts_is_delivered_and_reported_once():
    delivered = []
    hook = FakeHook("h", {"after_tool": {"action": "abort_turn", "reason": "enough"}})
    about = {"deliver": delivered.append}
    async with RecordingHost([hook]) as host, host.session("s1", **about) as session:
        with pytest.raises(AbortTurnError):
            async with session.turn("x") as turn:
                await turn.tools([ToolCall(tool="draw")], lambda _: ToolResult(for_user="look"))
    assert len(delivered) == 1
    assert [event.kind for event in host.events].count("tool_exec_end") == 1


@pytest.mark.parametrize(("stage", "who"), [("before_tool", "hook"), ("approve_tool", "approval hook")])
async def test_the_text_of_a_denial_without_a_reason_has_no_trailing_colon(stage, who):
    denies = {"before_tool": {"action": "deny_tool"}, "approve_tool": {"approved": False}}
    async with RecordingHost([FakeHook("h", {stage: denies[stage]})]) as host:
        result = await host.run_tool(ToolCall(tool="x"), lambda _: "never")
    assert result.for_llm == f"Tool execution denied by {who}"
    (skipped,) = [event.payload for event in host.events if event.kind == "tool_exec_skipped"]
    assert skipped["Reason"] == result.for_llm


async def test_an_answer_that_was_delivered_before_a_pause_is_not_delivered_again():
    delivered = []
    answers = FakeHook(
        "a", {"before_tool": {"action": "respond", "result": {"for_user": "look"}}}, filter=Filter(tool="a")
    )
    pauses = FakeHook("b", {"before_tool": {"action": "pause"}}, filter=Filter(tool="b"))
    async with RecordingHost([answers, pauses]) as host, host.session("s1", deliver=delivered.append) as session:
        with pytest.raises(PausedError) as caught:
            async with session.turn("x") as turn:
                await turn.tools([ToolCall(tool="a"), ToolCall(tool="b")], lambda _: "done")
        async with session.resume(caught.value.paused, Continue()) as turn:
            results = await turn.tools(None, lambda _: "done")
    assert [one.text for one in delivered] == ["look"]
    assert [result.for_llm for result in results] == ["", "done"]
    (end,) = [event.payload for event in host.events if event.kind == "turn_end"]
    assert end["ToolKinds"] == ["a", "b"]


@pytest.mark.parametrize(
    "section", [{"Isolation": {"enabled": True}}, {"isolation": {"Enabled": True}}, {"isolation": True}]
)
def test_isolation_is_found_in_any_letter_case_and_a_wrong_value_counts_as_on(hooked, section):
    document = json.loads(hooked.configure("", observe=["*"]).read_text())
    hooked.file.write_text(json.dumps({**document, **section}))
    with pytest.raises(ConfigError, match=r"isolation\.enabled: .*sandbox"):
        load(hooked.file)


@pytest.mark.parametrize("reason", ["", "  ", "\n"])
async def test_a_blank_reason_counts_as_none(reason):
    async with RecordingHost([FakeHook("h", {"before_tool": {"action": "deny_tool", "reason": reason}})]) as host:
        result = await host.run_tool(ToolCall(tool="x"), lambda _: "never")
    assert result.for_llm == "Tool execution denied by hook"


async def test_a_failure_without_a_message_is_reported_by_its_type():
    def fail(_):
        raise OSError

    async with RecordingHost() as host, host.session("s1", deliver=fail) as session, session.turn("x") as turn:
        failed, undelivered = await turn.tools(
            [ToolCall(tool="a"), ToolCall(tool="b")],
            lambda call: fail(call) if call.tool == "a" else ToolResult(for_llm="drawn", for_user="look"),
        )
    assert failed.for_llm == "OSError"
    assert undelivered.for_llm == "drawn\nDelivery to the user failed: OSError"
