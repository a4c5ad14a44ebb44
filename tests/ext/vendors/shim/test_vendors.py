"""What each vendor's agent sends and understands, by the adapters that play that agent: they are the other side of the shim."""

from __future__ import annotations

import json
import os

import pytest

from picohook import Prompt, ToolCall, ToolResult, ToolReturn
from picohook.ext.vendors.contract import Facts, HandlerAnswer, HandlerResult, Rule
from picohook.ext.vendors.dialects import NAMES, vendor_named
from picohook.ext.vendors.shim.telling import read_event, show
from picohook.model.decisions import AbortTurn, Continue, Deny, Modify, Retry
from picohook.model.payloads import Finish, Meta

META = Meta(session_key="s", turn_id="u")
CALL = ToolCall(tool="Bash", arguments={"command": "ls", "timeout": 5}, tool_call_id="t", meta=META)
RETURNED = ToolReturn(**CALL.__dict__, result=ToolResult(for_llm="a secret"), duration=2_000_000)
FAILED = ToolReturn(**CALL.__dict__, result=ToolResult(for_llm="it broke", is_error=True))
PROMPT = Prompt(prompt="hello", meta=META)
FINISH = Finish(response={"role": "assistant", "content": "done"}, meta=META)
PAYLOADS = {"before_tool": CALL, "after_tool": RETURNED, "before_prompt": PROMPT, "before_finish": FINISH}
FACTS = Facts(project="/work")


class Agent:
    """One of the agents, played by its adapter."""

    def __init__(self, name: str) -> None:
        self.vendor = vendor_named(name)

    def event(self, at):
        """Its event for a stage. Tests of a stage that a vendor does not have are left out for it."""
        name = next(
            (name for name, entry in self.vendor.asked.items() if entry.at == at and entry.results != "failed"), None
        )
        if name is None:
            assert at != "before_tool", "an agent that asks before no tool needs no shim"
            pytest.skip(f"{self.vendor.agent} does not tell of {at}")
        return name

    def tells(self, event, payload):
        """What the agent sends about a payload."""
        told = self.vendor.encode(event, payload, FACTS)
        assert told is not None
        return told

    def asked(self, event, payload):
        return read_event(self.vendor, event, json.loads(json.dumps(self.tells(event, payload).stdin)), "/work")

    def does(self, at, answer, payload=None):
        """What the agent does with an answer about a payload."""
        event, payload = self.event(at), payload or PAYLOADS[at]
        shown = show(self.vendor, event, answer, self.asked(event, payload))
        ran = HandlerResult(stdout=json.dumps(shown) if shown else "")
        said = self.vendor.decode(event, Rule(at="x"), ran, "strict")
        assert said.failure is None
        assert said.ignored == ()
        return self.vendor.merge(event, [said], self.tells(event, payload), payload, "strict")


@pytest.fixture(params=NAMES)
def agent(request):
    made = Agent(request.param)
    made.name = request.param
    return made


class TestWhatIsRead:
    def test_each_event_is_asked_at_the_stage_of_its_dialect(self, agent):
        for event, entry in agent.vendor.asked.items():
            row = agent.vendor.events[event]
            assert entry.at in {row.stage, row.kind, "session_start"}
            assert (entry.at == "session_start") is (event.lower() == "sessionstart")

    def test_a_call_has_the_names_of_the_common_table(self, agent):
        asked = agent.asked(agent.event("before_tool"), CALL).payload
        assert (asked.tool, asked.arguments["command"]) == ("Bash", "ls")
        assert asked.meta.session_key == "s"

    def test_a_file_has_its_name_and_an_absolute_path(self, agent):
        given = CALL.model_copy(update={"tool": "Write", "arguments": {"file_path": "a", "content": "b"}})
        asked = agent.asked(agent.event("before_tool"), given).payload
        if agent.name == "codex":  # it edits files by patches only
            assert asked.affected_paths == ["/work/a"]
            return
        assert (asked.tool, asked.arguments) == ("Write", {"file_path": "/work/a", "content": "b"})
        assert asked.affected_paths == ["/work/a"]

    def test_a_result_is_its_text(self, agent):
        asked = agent.asked(agent.event("after_tool"), RETURNED).payload
        assert (asked.result.for_llm, asked.result.is_error, asked.arguments["command"]) == ("a secret", False, "ls")

    def test_a_failure_is_an_error(self, agent):
        event = next((name for name, entry in agent.vendor.asked.items() if entry.results == "failed"), None)
        if event is None:
            assert agent.name in {"codex", "gemini"}  # which tell of no failures
            return
        asked = agent.asked(event, FAILED).payload
        assert asked.result.is_error
        assert "it broke" in asked.result.for_llm

    def test_a_prompt_is_its_text(self, agent):
        assert agent.asked(agent.event("before_prompt"), PROMPT).payload.prompt == "hello"


class TestWhatIsUnderstood:
    @pytest.mark.parametrize("at", ["before_tool", "after_tool", "before_prompt", "before_finish"])
    def test_no_answer_changes_nothing(self, agent, at):
        decided = agent.does(at, HandlerAnswer())
        assert isinstance(decided.decision, Continue)
        assert not decided.asks

    def test_a_denial(self, agent):
        decision = agent.does("before_tool", HandlerAnswer("deny", "no")).decision
        assert (type(decision), decision.reason) == (Deny, "no")

    def test_an_abort_makes_no_call(self, agent):
        assert isinstance(agent.does("before_tool", HandlerAnswer("deny", "no", ends="no")).decision, Deny | AbortTurn)

    def test_a_pause_asks_a_person_or_denies(self, agent):
        decided = agent.does("before_tool", HandlerAnswer("ask", "may it?"))
        assert decided.asks or isinstance(decided.decision, Deny)

    def test_a_changed_call(self, agent):
        asked = agent.asked(agent.event("before_tool"), CALL)
        changed = asked.call.arguments({**asked.payload.arguments, "command": "pwd"})
        decision = agent.does("before_tool", HandlerAnswer(input=changed)).decision
        assert isinstance(decision, Modify)
        assert decision.changes["arguments"]["command"] == "pwd"

    def test_a_changed_result(self, agent):
        returned = RETURNED
        if agent.name == "cursor":  # only results of servers' tools can be changed
            returned = returned.model_copy(update={"tool": "mcp__files__read"})
        decision = agent.does("after_tool", HandlerAnswer(output="a gap"), returned).decision
        assert isinstance(decision, Modify)
        assert decision.changes["for_llm"] == "a gap"

    def test_a_refused_prompt(self, agent):
        decision = agent.does("before_prompt", HandlerAnswer("deny", "no", ends="no")).decision
        assert isinstance(decision, AbortTurn)

    def test_another_round(self, agent):
        decision = agent.does("before_finish", HandlerAnswer("deny", "run the tests")).decision
        assert (type(decision), decision.feedback) == (Retry, "run the tests")

    def test_an_abort_at_the_end_lets_the_turn_end(self, agent):
        assert not isinstance(agent.does("before_finish", HandlerAnswer("deny", "no", ends="no")).decision, Retry)

    def test_context_after_a_tool(self, agent):
        decision = agent.does("after_tool", HandlerAnswer(context="mind")).decision
        assert isinstance(decision, Modify)
        assert "mind" in decision.changes["for_llm"]


class TestTheTerminalOfAShell:
    """Codex leaves `tty` out of its events, and types into such a shell without an event."""

    @pytest.fixture
    def tty(self, tmp_path):
        """What hooks see as the `tty` of a call, whose transcript has these lines."""

        def seen(*lines, tool="Bash", event="PreToolUse", **more):
            transcript = tmp_path / "transcript"
            transcript.write_bytes(
                b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
            )
            fields = {
                "session_id": "s",
                "turn_id": "t",
                "tool_name": tool,
                "tool_use_id": "c1",
                "tool_input": {"command": "bash"},
            }
            fields |= {"transcript_path": str(transcript), **more}
            return read_event(vendor_named("codex"), event, fields, "/work").payload.arguments.get("tty")

        return seen

    @staticmethod
    def call(call_id="c1", **arguments):
        payload = {"type": "function_call", "call_id": call_id, "arguments": json.dumps({"cmd": "bash", **arguments})}
        return {"type": "response_item", "payload": payload}

    @pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
    def test_it_is_in_the_transcript_and_hooks_see_it(self, tty, event):
        assert tty(self.call(tty=False), event=event) is None
        assert tty(self.call(), event=event) is None
        assert tty(self.call(tty=True), event=event) is True
        assert (
            tty(self.call(tty=True), self.call("c2"), {"payload": {"call_id": "c1", "type": "other"}}, event=event)
            is True
        )
        assert tty(tool="apply_patch", event=event) is None

    def test_where_it_cannot_be_found_it_is_unknown_and_no_guard_takes_that_for_a_no(self, tty, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        assert tty() == "unknown"
        assert tty(self.call("c2")) == "unknown"
        assert tty(b'{"call_id": "c1", \n') == "unknown"
        assert tty({"payload": {"type": "function_call", "call_id": "c1", "arguments": "["}}) == "unknown"
        for path in (None, 1, "", "/nowhere", "/", "/dev/zero", str(tmp_path / "pipe")):
            assert tty(self.call(), transcript_path=path) == "unknown", path
        assert tty(self.call(), tool_use_id=None) == "unknown"

    def test_a_changed_command_is_told_without_it(self):
        asked = read_event(
            vendor_named("codex"), "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "bash"}}, "/work"
        )
        shown = show(
            vendor_named("codex"),
            "PreToolUse",
            HandlerAnswer(input={**asked.payload.arguments, "command": "ls"}),
            asked,
        )
        assert shown["hookSpecificOutput"]["updatedInput"] == {"command": "ls"}
