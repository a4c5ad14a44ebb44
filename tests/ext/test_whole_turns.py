"""The four systems' own examples, each through a whole turn of a session."""

from __future__ import annotations

import json
import os

import pytest
from jcli_examples import MESSAGE_CHECK
from kinds_support import FAR, Model

from picohook import HardAbortError, Host, LLMResponse, blade_hooks
from picohook.ext.blade.hooks import HookEvent

pytestmark = pytest.mark.anyio

READ = {"id": "c1", "function": {"name": "Read", "arguments": '{"path": "a"}'}}
FAIL = {"id": "c2", "function": {"name": "Fail", "arguments": "{}"}}


class Agent:
    """The agent's own model, by script, and its tools."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.ran = []

    async def complete(self, request):
        self.requests.append(request)
        return self.answers.pop(0)

    async def execute(self, call):
        self.ran.append(call.tool)
        if call.tool == "Fail":
            raise OSError("broken")
        return f"did {call.tool}"

    def said(self):
        """What the model is told by the user, in its first request."""
        return [message["content"] for message in self.requests[0].messages if message["role"] == "user"]


# j-cli: what each event of its table has.

READS = {
    "session_start": {"messages"},
    "session_end": {"messages"},
    "pre_send_message": {"user_input", "messages"},
    "post_send_message": {"user_input", "messages"},
    "pre_llm_request": {"messages", "system_prompt", "model"},
    "post_llm_response": {"assistant_output", "messages", "model"},
    "pre_tool_execution": {"tool_name", "tool_arguments"},
    "post_tool_execution": {"tool_name", "tool_result"},
    "post_tool_execution_failure": {"tool_name", "tool_error"},
    "stop": {"user_input", "messages", "system_prompt", "model"},
    "pre_micro_compact": {"messages", "model"},
    "post_micro_compact": {"messages"},
    "pre_auto_compact": {"messages", "system_prompt", "model"},
    "post_auto_compact": {"messages"},
}


@pytest.mark.parametrize("ready", [False, True], ids=["a_dict", "an_LLMResponse"])
async def test_every_event_of_jclis_table_has_the_fields_that_it_promises_in_a_whole_turn(config, tmp_path, ready):
    log = tmp_path / "log"
    text = "".join(f"{event}:\n  - command: 'cat >> {log}'\n" for event in READS)
    first = {"content": "let me see", "tool_calls": [READ, FAIL]}
    answers = [first, {"content": "well"}]
    agent = Agent(*(LLMResponse(response=answer) if ready else answer for answer in answers))
    async with (
        Host.from_config(config("hooks.yaml", text)) as host,
        host.session("s1") as session,
        session.turn("hello") as turn,
    ):
        await turn.run(
            complete=agent.complete, execute=agent.execute, parallel=False, model="gpt-4o", system_prompt="be kind"
        )
        turn.messages = await turn.compact(turn.messages, micro=lambda messages: messages, auto=lambda _: [])
    seen = {}
    for line in log.read_text().splitlines():
        given = json.loads(line)
        seen.setdefault(given["event"], given)
    assert seen.keys() == READS.keys()
    lacking = {event: READS[event] - given.keys() for event, given in seen.items() if READS[event] - given.keys()}
    assert lacking == {}
    assert {(given["session_id"], given["cwd"]) for given in seen.values()} == {("s1", os.path.realpath(tmp_path))}
    stop = seen["stop"]
    assert (stop["model"], stop["system_prompt"], stop["user_input"]) == ("gpt-4o", "be kind", "hello")
    assert [message["role"] for message in stop["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert (seen["post_llm_response"]["model"], seen["pre_auto_compact"]["system_prompt"]) == ("gpt-4o", "be kind")
    assert seen["post_tool_execution_failure"]["tool_error"] == "OSError: broken"


@pytest.mark.parametrize(("model", "asked"), [("gpt-4o", 1), ("claude-4", 0)])
@pytest.mark.parametrize("event", ["stop", "pre_micro_compact", "post_llm_response"])
async def test_model_prefix_works_at_every_event_with_a_model(config, tmp_path, model, asked, event):
    log = tmp_path / "log"
    text = f"{event}:\n  - command: 'cat >> {log}'\n    filter:\n      model_prefix: gpt-4\n"
    agent = Agent({"content": "well"})
    async with (
        Host.from_config(config("hooks.yaml", text)) as host,
        host.session("s1") as session,
        session.turn("hello") as turn,
    ):
        await turn.run(complete=agent.complete, execute=agent.execute, model=model)
        await turn.compact(turn.messages, micro=lambda messages: messages)
    assert len(log.read_text().splitlines() if log.exists() else []) == asked


async def test_stop_gets_the_system_prompt_with_the_edits_and_additions_of_hooks(config, tmp_path):
    log = tmp_path / "log"
    text = f"""
pre_llm_request:
  - command: 'cat > /dev/null; echo "{{\\"system_prompt\\": \\"be brief\\", \\"additional_context\\": \\"today\\"}}"'
stop:
  - command: 'cat >> {log}'
"""
    agent = Agent({"content": "well"})
    async with (
        Host.from_config(config("hooks.yaml", text)) as host,
        host.session("s1") as session,
        session.turn("hello") as turn,
    ):
        await turn.run(complete=agent.complete, execute=agent.execute, system_prompt="be kind")
    assert agent.requests[0].system_prompt == "be brief\n\ntoday"
    assert json.loads(log.read_text())["system_prompt"] == "be brief\n\ntoday"


# j-cli: its examples.


async def test_jclis_example_2_the_feedback_goes_to_the_model_in_place_of_the_refused_message(config):
    reviewer = Model({"action": "stop", "retry_feedback": "ask politely"})
    agent = Agent({"content": "of course"})
    host = Host.from_config(config("hooks.yaml", MESSAGE_CHECK), complete=reviewer)
    async with host, host.session("s1") as session, session.turn("rude words") as turn:
        result = await turn.run(complete=agent.complete, execute=agent.execute)
    assert (result.content, agent.said()) == ("of course", ["ask politely"])
    assert len(reviewer.prompts) == 1  # it is not asked about its own words


CORRECT = """
post_llm_response:
  - type: llm
    prompt: "检查: {{assistant_output}}"
    timeout: 30
    retry: 1
    on_error: skip
"""


async def test_jclis_example_1_the_turn_ends_with_the_corrected_answer(config):
    corrector = Model({"action": "stop", "retry_feedback": "no passwords"}, {})
    agent = Agent({"content": "password: 1234"}, {"content": "I cannot tell you."})
    host = Host.from_config(config("hooks.yaml", CORRECT), complete=corrector)
    async with host, host.session("s1") as session, session.turn("what is it?") as turn:
        result = await turn.run(complete=agent.complete, execute=agent.execute)
    assert result.content == "I cannot tell you."
    assert agent.requests[1].messages[-1] == {"role": "user", "content": "no passwords"}


# Blade: its examples.


async def test_blades_examples_audit_modify_redact_and_abort(config):
    log = []

    async def audit(given):
        log.append(given["toolName"])
        return {"action": "continue"}

    async def generated(given):
        if given["toolName"] == "Write":
            content = f"// Auto-generated\n{given['toolInput']['content']}"
            return {"action": "continue", "modifiedInput": {**given["toolInput"], "content": content}}
        return {"action": "continue"}

    async def no_rm(given):
        if given["toolName"] == "Bash" and "rm -rf" in given["toolInput"]["command"]:
            return {"action": "abort", "reason": "禁止执行危险的删除命令"}
        return {"action": "continue"}

    async def redact(given):
        return {"action": "continue", "modifiedOutput": str(given["toolOutput"]).replace("abc", "***")}

    hooks = blade_hooks({HookEvent.PreToolUse: [audit, generated, no_rm], HookEvent.PostToolUse: [redact]})
    write = {"id": "c1", "function": {"name": "Write", "arguments": '{"content": "x"}'}}
    remove = {"id": "c2", "function": {"name": "Bash", "arguments": '{"command": "rm -rf /"}'}}
    agent = Agent({"content": "", "tool_calls": [write]}, {"content": "", "tool_calls": [remove]})
    written = []

    async def execute(call):
        written.append(call.arguments["content"])
        return "SECRET_KEY=abc"

    async with Host(timeouts=FAR) as host, host.session("s1", hooks=hooks) as session:
        with pytest.raises(HardAbortError, match="禁止执行危险的删除命令"):
            async with session.turn("hello") as turn:
                await turn.run(complete=agent.complete, execute=execute)
        with pytest.raises(HardAbortError, match="禁止执行危险的删除命令"):
            session.turn("once more")
    assert (log, written) == (["Write", "Bash"], ["// Auto-generated\nx"])
    assert agent.requests[1].messages[-1]["content"] == "SECRET_KEY=***"
