"""What becomes of an answer that says something and decides nothing, and of one for a tool under another name."""

from __future__ import annotations

import json

import pytest

from picohook import (
    Deny,
    FunctionHook,
    Host,
    LLMRequest,
    LLMResponse,
    Meta,
    Modify,
    Recorder,
    Respond,
    Resumed,
    Timeouts,
    ToolCall,
    ToolResult,
)
from picohook.testing import FakeHook, hook_process

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)
CALL = ToolCall(tool="bash", arguments={"command": "rm -rf /"}, meta=Meta(session_key="s"))
DENIALS = [
    {"Action": "deny_tool", "Reason": "no"},
    {"decision": "deny"},
    {"permission": "deny"},
    {"acton": "deny_tool", "reason": "no"},
    {"action": "modify", "call": {"args": {}}},
    {"action": "modify", "for_llm": "[redacted]"},
]


class Tool:
    """Notes what it was called with."""

    def __init__(self):
        self.ran = []

    def __call__(self, call):
        self.ran.append(call.tool)
        return "ran"


@pytest.mark.parametrize("answer", DENIALS, ids=repr)
async def test_a_guard_that_denies_in_other_words_denies(answer):
    tool = Tool()
    guard = FakeHook("guard", {"before_tool": answer}, guard=True, on_failure="deny")
    async with Host([guard], timeouts=FAR) as host:
        result = await host.run_tool(CALL, tool)
        outcome = await host.before_tool(CALL)
    assert tool.ran == []
    assert result.for_llm.startswith("Tool execution denied by hook: ")
    assert (outcome.action, outcome.trail[0].action) == ("deny_tool", "deny_tool")
    if "Action" in answer:
        assert (outcome.reason, outcome.trail[0].error) == ("no", None)
    else:
        assert outcome.trail[0].failure == "reply"


@pytest.mark.parametrize(
    ("rule", "action"), [("continue", "continue"), ("deny", "abort_turn"), ("abort", "abort_turn")]
)
async def test_a_redaction_at_the_wrong_place_is_a_failure_as_configured(rule, action):
    hook = FakeHook("redactor", {"after_tool": {"action": "modify", "for_llm": "[redacted]"}}, on_failure=rule)
    async with Host([hook], timeouts=FAR) as host:
        outcome = await host.after_tool({"tool": "bash", "result": {"for_llm": "secret"}})
    assert (outcome.action, outcome.trail[0].failure) == (action, "reply")
    assert "did you mean `result: {for_llm: ...}`?" in outcome.trail[0].error


async def test_answers_of_processes_and_functions_are_read_alike_and_recorded(tmp_path):
    answer = {"decision": "deny", "why": ["it is bad"]}
    source = f"""
        import json, sys
        for line in sys.stdin:
            request = json.loads(line)
            result = {{"ok": True}} if request["method"] == "hook.hello" else {answer!r}
            print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}), flush=True)
        """
    process = hook_process(source, name="process", stages=["before_tool"], on_failure="continue")
    path = tmp_path / "record.jsonl"
    recorder = Recorder(path)
    async with Host(
        [FakeHook("function", {"before_tool": answer}), process], timeouts=FAR, listeners=[recorder]
    ) as host:
        outcome = await host.before_tool(CALL)
    errors = {entry.hook: entry.error for entry in outcome.trail}
    assert errors["function"] == errors["process"]
    assert "`decision` decides nothing at before_tool: did you mean `action: deny_tool`?" in errors["process"]
    answers = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["answer"] for line in answers if line["type"] == "answer"] == [answer, answer]


async def test_a_record_has_a_functions_answer_that_has_no_json_form(tmp_path):
    path = tmp_path / "record.jsonl"
    hook = FakeHook("function", {"before_tool": {"decision": {1}}})
    async with Host([hook], timeouts=FAR, listeners=[Recorder(path)]) as host:
        await host.before_tool(CALL)
    answers = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["answer"] for line in answers if line["type"] == "answer"] == ["{'decision': {1}}"]


async def test_an_edit_from_code_that_edits_nothing_is_a_failure():
    hook = FakeHook("hook", {"before_tool": Modify({"args": {"command": "ls"}})}, on_failure="deny")
    async with Host([hook], timeouts=FAR) as host:
        outcome = await host.before_tool(CALL)
    assert (outcome.action, outcome.trail[0].error) == ("deny_tool", "before_tool cannot change `args`")


class TestAnswersUnderAnotherName:
    """PicoClaw's own example answers with a `call` in it. Whose tool it is, is asked for both names."""

    ANSWER = {  # noqa: RUF012 - a constant
        "action": "respond",
        "call": {"tool": "my_plugin_tool", "arguments": {"query": "hello"}},
        "result": {"for_llm": "Plugin tool executed successfully", "for_user": "", "silent": False, "is_error": False},
    }

    async def run(self, *hooks, tool="bash", **settings):
        answers = FakeHook("answers", {"before_tool": self.ANSWER}, **settings)
        ran = Tool()
        async with Host([answers, *hooks], timeouts=FAR) as host:
            result = await host.run_tool(CALL.model_copy(update={"tool": tool}), ran)
        assert ran.ran == []
        return result.for_llm

    async def test_it_is_taken(self):
        async with Host([FakeHook("answers", {"before_tool": self.ANSWER})], timeouts=FAR) as host:
            outcome = await host.before_tool(CALL)
        assert (outcome.action, outcome.payload.tool, outcome.payload.arguments) == (
            "respond",
            "my_plugin_tool",
            {"query": "hello"},
        )
        assert outcome.result.for_llm == "Plugin tool executed successfully"
        assert outcome.trail[0].error is None

    @pytest.mark.parametrize(
        ("provides", "asked"),
        [
            (("bash", "my_plugin_tool"), []),
            (("my_plugin_tool",), ["bash"]),
            (("bash",), ["my_plugin_tool"]),
            ((), ["bash", "my_plugin_tool"]),
        ],
    )
    async def test_it_is_approved_under_each_name_that_is_not_its_own(self, provides, asked):
        approver = FakeHook("approver", {"approve_tool": True})
        assert await self.run(approver, provides=provides) == "Plugin tool executed successfully"
        assert [(call.tool, call.meta.session_key) for call in approver.asked_at("approve_tool")] == [
            (name, "s") for name in asked
        ]

    @pytest.mark.parametrize("guarded", ["bash", "my_plugin_tool"])
    async def test_an_approver_of_either_name_can_refuse(self, guarded):
        approver = FakeHook("approver", {"approve_tool": {"approved": False, "reason": "no"}}, filter={"tool": guarded})
        assert await self.run(approver) == "Tool execution denied by approval hook: no"

    async def test_respond_approve_asks_under_both_names(self):
        approver = FakeHook("approver", {"approve_tool": True})
        await self.run(approver, provides=("bash", "my_plugin_tool"), respond="approve")
        assert [call.tool for call in approver.asked_at("approve_tool")] == ["bash", "my_plugin_tool"]

    async def test_under_one_name_it_is_asked_once(self):
        approver = FakeHook("approver", {"approve_tool": True})
        await self.run(approver, tool="my_plugin_tool")
        assert [call.arguments for call in approver.asked_at("approve_tool")] == [{"query": "hello"}]

    async def test_a_turn_takes_it_as_well(self):
        approver = FakeHook("approver", {"approve_tool": True})
        ran = Tool()
        hooks = [FakeHook("answers", {"before_tool": self.ANSWER}), approver]
        async with Host(hooks, timeouts=FAR) as host, host.session("s") as session, session.turn("hello") as turn:
            (result,) = await turn.tools([ToolCall(tool="bash", tool_call_id="c1")], ran)
        assert (result.for_llm, ran.ran) == ("Plugin tool executed successfully", [])
        assert [call.tool for call in approver.asked_at("approve_tool")] == ["bash", "my_plugin_tool"]


class TestResultsAsModels:
    """What code has anyway it can return."""

    async def test_a_tools_result(self):
        hook = FunctionHook("h", {"before_tool": lambda _: Respond(ToolResult(for_llm="cached"))}, provides=("bash",))
        tool = Tool()
        async with Host([hook], timeouts=FAR) as host:
            assert await host.run_tool(CALL, tool) == ToolResult(for_llm="cached")
        assert tool.ran == []

    async def test_the_text_of_a_denial_for_the_model(self):
        hook = FunctionHook("h", {"before_tool": lambda _: Deny("no", result=ToolResult(for_llm="ask me later"))})
        async with Host([hook], timeouts=FAR) as host:
            assert await host.run_tool(CALL, Tool()) == ToolResult(for_llm="ask me later")

    @pytest.mark.parametrize(
        "given",
        [
            LLMResponse(response={"content": "cached"}),
            LLMResponse(response={"content": "cached"}, model="m", channel="other"),
            {"content": "cached"},
            {"response": {"content": "cached"}},
        ],
        ids=repr,
    )
    async def test_a_models_response(self, given):
        hook = FunctionHook("h", {"before_llm": lambda _: Respond(given)})
        request = LLMRequest(model="m", meta=CALL.meta, channel="cli")

        async def complete(request):
            raise AssertionError(f"it is not asked about {request}")

        async with Host([hook], timeouts=FAR) as host:
            answer = await host.run_llm(request, complete)
        assert answer == LLMResponse(response={"content": "cached"}, model="m", meta=CALL.meta, channel="cli")

    @pytest.mark.parametrize("given", ["cached", None, ["cached"]], ids=repr)
    async def test_anything_else_is_a_failure_that_says_so(self, given):
        hook = FunctionHook("h", {"before_tool": lambda _: Respond(given)}, on_failure="deny")
        async with Host([hook], timeouts=FAR) as host:
            outcome = await host.before_tool(CALL)
        assert outcome.action == "deny_tool"
        assert f"the result is {type(given).__name__}, not a mapping or ToolResult" in outcome.trail[0].error

    async def test_a_record_keeps_a_decision_that_was_taken_elsewhere(self, tmp_path):
        path = tmp_path / "record.jsonl"
        said = ("gone", Respond(ToolResult(for_llm="x", async_=True)))
        async with Host([], timeouts=FAR, listeners=[Recorder(path)]) as host:
            outcome = await host.ask("before_tool", CALL, resumed=Resumed(*said))
        assert outcome.result == ToolResult(for_llm="x", async_=True)
        end = next(line for line in map(json.loads, path.read_text().splitlines()) if line["type"] == "end")
        assert end["result"]["async"] is True
