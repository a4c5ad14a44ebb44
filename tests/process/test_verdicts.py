"""What processes decide about a whole tool call, and what of it reaches the tool."""

from __future__ import annotations

import json

import pytest
from scripted import SERVE, scripted

from picohook import Deny, Host, ProcessHook, RestartPolicy, Timeouts, ToolCall

pytestmark = pytest.mark.anyio

FAR = Timeouts(interceptor=60, approval=60, hello=60, chain=60)
ONCE = RestartPolicy(max_starts=1)
CALL = ToolCall(tool="bash", arguments={"command": "ls"})


class Tool:
    """Notes what it was called with."""

    def __init__(self):
        self.ran = []

    def __call__(self, call):
        self.ran.append((call.tool, call.arguments))
        return "ran"


def answers(name, method, answer, **settings):
    """A process that always gives this answer to one question."""
    settings.setdefault("stages", (method.removeprefix("hook."),))
    return scripted(name, ["serve", {method: answer}], **settings)


def approves(name, *, yes, **settings):
    return answers(name, "hook.approve_tool", {"approved": yes, "reason": f"so says {name}"}, **settings)


@pytest.mark.parametrize("says", [(True, True), (True, False), (False, True), (False, False)])
async def test_A3_a_tool_runs_only_if_every_process_that_is_asked_approves(says):
    tool = Tool()
    async with Host([approves(name, yes=yes) for name, yes in zip("ab", says, strict=True)], timeouts=FAR) as host:
        result = await host.run_tool(CALL, tool)
    assert tool.ran == ([("bash", {"command": "ls"})] if all(says) else [])
    assert (result.for_llm == "ran") is all(says)
    if not all(says):
        assert "denied by approval hook: so says" in result.for_llm


@pytest.mark.parametrize(
    ("yes", "provides", "said"), [(True, (), "mine"), (False, (), None), (False, ("bash",), "mine")]
)
async def test_A4_a_process_that_answers_for_a_tool_that_is_not_its_own_has_to_be_approved(yes, provides, said):
    tool = Tool()
    mine = {"action": "respond", "result": {"for_llm": "mine"}}
    hooks = [answers("h", "hook.before_tool", mine, provides=provides), approves("gate", yes=yes)]
    async with Host(hooks, timeouts=FAR) as host:
        result = await host.run_tool(CALL, tool)
    assert tool.ran == []
    assert result.for_llm == (said or "Tool execution denied by approval hook: so says gate")


async def test_A5_A6_filters_approvers_and_the_tool_get_the_call_as_a_process_edited_it(tmp_path):
    tool, record = Tool(), tmp_path / "record"
    renamed = {"action": "modify", "call": {"tool": "rm", "arguments": {"path": "/"}}}
    hooks = [
        answers("a", "hook.before_tool", renamed, priority=1),
        scripted(
            "for_rm", ["record", str(record)], SERVE, stages=("before_tool", "approve_tool"), filter={"tool": "rm"}
        ),
        approves("for_bash", yes=False, filter={"tool": "bash"}),
    ]
    async with Host(hooks, timeouts=FAR) as host:
        await host.run_tool(CALL, tool)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    asked = [line["line"] for line in lines if line["way"] == "in" and line["line"]["method"] != "hook.hello"]
    assert [one["method"] for one in asked] == ["hook.before_tool", "hook.approve_tool"]
    assert [(one["params"]["tool"], one["params"]["arguments"]) for one in asked] == [("rm", {"path": "/"})] * 2
    assert tool.ran == [("rm", {"path": "/"})]


GUARDS = {
    "crashes": [["read"], ["exit", 1]],
    "answers_nonsense": [["serve", {"hook.before_tool": {"action": "nonsense"}}]],
    "has_no_time": [["read"], ["hang"]],
}


@pytest.mark.parametrize("how", GUARDS)
async def test_A8_a_guard_that_fails_denies_and_nothing_runs(how):
    tool = Tool()
    settings = {"timeout": 0.05} if how == "has_no_time" else {}
    guard = scripted("guard", ["hello"], *GUARDS[how], guard=True, restart=ONCE, grace=0.05, **settings)
    async with Host([guard], timeouts=FAR) as host:
        result = await host.run_tool(CALL, tool)
    assert tool.ran == []
    assert result.for_llm.startswith("Tool execution denied by hook: hook guard failed: ")


class Guards:
    """Decides about one tool itself, and leaves the others to what it is mixed into."""

    async def handle(self, question):
        if question.payload.tool == "rm":
            return Deny("never rm")
        return await super().handle(question)


class Mixed(Guards, ProcessHook):
    """Has its `handle` from elsewhere."""


class Own(ProcessHook):
    """Has one of its own."""

    async def handle(self, question):
        if question.payload.tool == "rm":
            return Deny("never rm")
        return await super().handle(question)


class Heir(Own):
    """Has that of an heir of a process's."""


@pytest.mark.parametrize("kind", [Mixed, Own, Heir])
async def test_an_embedders_own_kind_of_process_hook_decides_and_asks_its_process(kind):
    async with Host([kind(scripted("h", stages=("approve_tool",)))], timeouts=FAR) as host:
        denied = await host.approve_tool(ToolCall(tool="rm"))
        assert (denied.approved, denied.reason) == (False, "never rm")
        assert (await host.approve_tool(CALL)).approved is True
        (status,) = host.status().hooks
        assert status.calls == 1
