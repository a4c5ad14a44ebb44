"""j-cli's document, from its own examples to the last row of its tables: what it promises is what happens."""

from __future__ import annotations

import json
import os
import re

import preloaded
import pytest
from jcli_examples import EXAMPLE, MESSAGE_CHECK
from kinds_support import Model

from picohook import Host, LLMRequest, ToolCall, ToolResult
from picohook.ext.jcli.dialect import session_hook
from picohook.model.payloads import Compaction, Finish, LLMResponse, Meta, Prompt, ToolReturn

pytestmark = pytest.mark.anyio

BASH = ToolCall(tool="Bash", arguments={"command": "ls"}, meta=Meta(session_key="s1"))
READ = ToolCall(tool="Read", arguments={"path": "a"}, meta=Meta(session_key="s1"))
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def _a_python_that_starts_fast(monkeypatch):
    monkeypatch.setenv("PATH", preloaded.programs(), prepend=os.pathsep)


def run_yaml(config, text, *answers, **settings):
    """A host with the hooks of a file, and a model with these answers."""
    model = Model(*answers)
    host = Host.from_config(config(".jdata/agent/hooks.yaml", text), complete=model, **settings)
    return host, model


# "配置示例", the example of a configuration.

INJECT_TIME = """
import json, sys
given = json.load(sys.stdin)
print(json.dumps({"user_input": "[12:00] " + given["user_input"]}))
"""


async def test_the_example_configuration(config, tmp_path, monkeypatch, journal):
    monkeypatch.setenv("HOME", str(tmp_path))
    config(".jdata/agent/hooks/inject_time.py", INJECT_TIME)
    patient = EXAMPLE.replace("timeout: 5", "timeout: 60")  # a busy machine may take 5 seconds to start a Python
    host, model = run_yaml(config, patient, {"action": "skip"}, {}, logger=journal)
    async with host:
        async with host.session("s1"):
            prompt = await host.before_prompt(Prompt(prompt="hello"))
            assert prompt.payload.prompt == "[12:00] hello"
            assert (await host.before_tool(BASH)).action == "deny_tool"
            assert (await host.before_tool(BASH)).action == "continue"
            assert (await host.before_tool(READ)).trail[0].skipped
        await journal.seen("ignored a part of its answer", at="session_start", fields="inject_messages")
    assert len(model.prompts) == 2
    assert model.prompts[0].startswith("审查工具调用是否安全:工具={{tool_name}} 参数={{tool_arguments}}\n如果不安全")
    assert r'{"tool_name":"Bash","tool_arguments":"{\"command\":\"ls\"}"}' in model.prompts[0].data


# 示例 1: the LLM that corrects.

CORRECTOR = """
post_llm_response:
  - type: llm
    prompt: |
      检查以下 AI 回复是否包含敏感信息(密码、密钥、token):
      {{assistant_output}}
      如果包含敏感信息,返回 action=stop + retry_feedback 说明问题。
      如果没有问题,返回空 JSON {}。
    timeout: 30
    retry: 1
    on_error: skip
"""


async def test_example_1_the_answer_is_sent_back_with_feedback_until_it_is_clean(config):
    host, model = run_yaml(config, CORRECTOR, {"action": "stop", "retry_feedback": "审查反馈:请修正"}, {})
    requests = []

    async def complete(request):
        requests.append(request.messages)
        return {"content": "password: 1234" if len(requests) == 1 else "I cannot tell you."}

    async with host:
        response = await host.run_llm(LLMRequest(messages=MESSAGES), complete)
    assert response.response["content"] == "I cannot tell you."
    assert requests == [MESSAGES, [*MESSAGES, {"role": "user", "content": "审查反馈:请修正"}]]
    assert '"password: 1234"' in model.prompts[0].data
    assert '"I cannot tell you."' in model.prompts[1].data


async def test_example_1_an_unreadable_verdict_is_asked_for_again_and_then_ignored(config):
    host, model = run_yaml(config, CORRECTOR, "I see no problem", OSError("network"))
    async with host:
        outcome = await host.after_llm(LLMResponse(response={"content": "hi"}))
    assert outcome.action == "continue"
    assert outcome.trail[0].error.startswith("the model could not be asked: OSError: network (")
    assert outcome.trail[0].retries == 1
    assert len(model.prompts) == 2


# 示例 2: the LLM that looks at messages.


async def test_example_2_a_message_is_refused_with_feedback_by_the_model_that_is_named(config):
    host, model = run_yaml(config, MESSAGE_CHECK, {"action": "stop", "retry_feedback": "be polite"})
    async with host:
        outcome = await host.before_prompt(Prompt(prompt="rude words"))
    assert (outcome.action, outcome.payload.prompt) == ("modify", "be polite")
    assert model.models == ["gpt-4o-mini"]
    assert model.prompts[0].startswith("审查用户消息是否合规:{{user_input}}\n")
    assert '"rude words"' in model.prompts[0].data


# 示例 3 and 4: scripts.

TIMESTAMP = """#!/bin/bash
input=$(cat)
msg=$(echo "$input" | python3 -c "import sys,json; print(json.load(sys.stdin).get('user_input',''))")
echo "{\\"user_input\\": \\"[$(date '+%H:%M')] $msg\\"}"
"""
NO_RM = """#!/bin/bash
input=$(cat)
tool=$(echo "$input" | python3 -c "import sys,json; print(json.load(sys.stdin).get('tool_name',''))")
args=$(echo "$input" | python3 -c "import sys,json; print(json.load(sys.stdin).get('tool_arguments',''))")
if [ "$tool" = "Bash" ] && echo "$args" | grep -q "rm -rf"; then
  echo '{"action": "skip"}'
else
  echo '{}'
fi
"""


async def test_example_3_a_script_gives_each_message_the_time(config, script):
    host, _ = run_yaml(config, f"pre_send_message:\n  - command: {script('stamp.sh', TIMESTAMP)}\n")
    async with host:
        outcome = await host.before_prompt(Prompt(prompt="hello"))
    assert re.fullmatch(r"\[\d\d:\d\d\] hello", outcome.payload.prompt)


async def test_example_4_a_dangerous_command_is_skipped_and_the_other_tools_run(config, script):
    host, _ = run_yaml(config, f"pre_tool_execution:\n  - command: {script('no_rm.sh', NO_RM)}\n")
    calls = [
        ToolCall(tool="Bash", arguments={"command": "rm -rf /"}, tool_call_id="1"),
        ToolCall(tool="Bash", arguments={"command": "ls"}, tool_call_id="2"),
        ToolCall(tool="Read", arguments={"note": "rm -rf"}, tool_call_id="3"),
    ]
    ran = []

    async def execute(call):
        ran.append(call.tool_call_id)
        return "done"

    async with host, host.session("s1") as session, session.turn("hello") as turn:
        results = await turn.tools(calls, execute)
    assert sorted(ran) == ["2", "3"]
    assert results == [
        ToolResult(for_llm="Tool execution denied by hook: the tool was skipped", is_error=True),
        ToolResult(for_llm="done"),
        ToolResult(for_llm="done"),
    ]


# 示例 5: a filter.

FILTERED = """
pre_tool_execution:
  - type: llm
    prompt: |
      审查工具调用是否安全:工具={{tool_name}}, 参数={{tool_arguments}}
      如果不安全,返回 action=skip。
    filter:
      tool_matcher: "Bash|Shell"
    timeout: 15
    retry: 1
"""


async def test_example_5_only_the_tools_of_the_filter_are_looked_at(config):
    host, model = run_yaml(config, FILTERED, {"action": "skip"}, {"action": "skip"})
    async with host:
        actions = [(await host.before_tool(ToolCall(tool=tool))).action for tool in ("Bash", "Shell", "Bash2", "bash")]
        (status,) = host.status().hooks
    assert actions == ["deny_tool", "deny_tool", "continue", "continue"]
    assert len(model.prompts) == 2
    assert (status.stages["before_tool"]["executions"], status.stages["before_tool"]["skipped"]) == (2, 2)


# The table of events: what each can write.

RETURNED = ToolReturn(tool="Bash", result=ToolResult(for_llm="secret"))
FAILED = ToolReturn(tool="Bash", result=ToolResult(for_llm="broken", is_error=True))
FINISH = Finish(prompt="hello", messages=MESSAGES, response={"content": "hi"})
OTHER = [{"role": "user", "content": "other"}]

ASKS = {
    "pre_send_message": lambda host: host.before_prompt(Prompt(prompt="hello")),
    "pre_llm_request": lambda host: host.before_llm(LLMRequest(messages=MESSAGES, model="gpt-4o")),
    "post_llm_response": lambda host: host.after_llm(LLMResponse(response={"content": "hi"})),
    "pre_tool_execution": lambda host: host.before_tool(BASH),
    "post_tool_execution": lambda host: host.after_tool(RETURNED),
    "post_tool_execution_failure": lambda host: host.after_tool(FAILED),
    "stop": lambda host: host.before_finish(FINISH),
    "pre_micro_compact": lambda host: host.before_compact(Compaction(scope="micro", messages=MESSAGES)),
    "post_micro_compact": lambda host: host.after_compact(Compaction(scope="micro", messages=MESSAGES)),
    "pre_auto_compact": lambda host: host.before_compact(Compaction(scope="auto", messages=MESSAGES)),
    "post_auto_compact": lambda host: host.after_compact(Compaction(scope="auto", messages=MESSAGES)),
}


def printing(event, result, more=""):
    return f"{event}:\n  - command: |\n      cat >/dev/null; echo '{json.dumps(result)}'\n{more}"


WRITES = [
    ("pre_send_message", {"user_input": "x"}, lambda outcome: outcome.payload.prompt, "x"),
    ("pre_send_message", {"action": "stop"}, lambda outcome: outcome.action, "abort_turn"),
    (
        "pre_send_message",
        {"action": "stop", "retry_feedback": "x"},
        lambda outcome: (outcome.action, outcome.payload.prompt),
        ("modify", "x"),
    ),
    ("pre_llm_request", {"messages": OTHER}, lambda outcome: outcome.payload.messages, OTHER),
    ("pre_llm_request", {"system_prompt": "x"}, lambda outcome: outcome.payload.system_prompt, "x"),
    ("pre_llm_request", {"inject_messages": OTHER}, lambda outcome: outcome.notes[0].inject_messages, tuple(OTHER)),
    ("pre_llm_request", {"additional_context": "x"}, lambda outcome: outcome.notes[0].additional_context, "x"),
    ("pre_llm_request", {"action": "stop"}, lambda outcome: outcome.action, "abort_turn"),
    (
        "pre_llm_request",
        {"action": "stop", "retry_feedback": "x"},
        lambda outcome: (outcome.action, outcome.feedback),
        ("retry", "x"),
    ),
    ("post_llm_response", {"assistant_output": "x"}, lambda outcome: outcome.payload.response, {"content": "x"}),
    ("post_llm_response", {"action": "stop"}, lambda outcome: outcome.action, "abort_turn"),
    (
        "post_llm_response",
        {"action": "stop", "retry_feedback": "x"},
        lambda outcome: (outcome.action, outcome.feedback),
        ("retry", "x"),
    ),
    ("post_llm_response", {"system_message": "x"}, lambda outcome: outcome.notes[0].system_message, "x"),
    ("pre_tool_execution", {"tool_arguments": '{"a": 1}'}, lambda outcome: outcome.payload.arguments, {"a": 1}),
    ("pre_tool_execution", {"action": "skip"}, lambda outcome: outcome.action, "deny_tool"),
    ("post_tool_execution", {"tool_result": "***"}, lambda outcome: outcome.payload.result.for_llm, "***"),
    (
        "post_tool_execution_failure",
        {"tool_error": "***"},
        lambda outcome: (outcome.payload.result.for_llm, outcome.payload.result.is_error),
        ("***", True),
    ),
    (
        "post_tool_execution_failure",
        {"additional_context": "x"},
        lambda outcome: outcome.notes[0].additional_context,
        "x",
    ),
    (
        "stop",
        {"action": "stop", "retry_feedback": "x"},
        lambda outcome: (outcome.action, outcome.feedback),
        ("retry", "x"),
    ),
    ("stop", {"additional_context": "x"}, lambda outcome: outcome.notes[0].additional_context, "x"),
    ("stop", {"action": "stop"}, lambda outcome: outcome.action, "abort_turn"),
    ("pre_micro_compact", {"action": "stop"}, lambda outcome: outcome.action, "skip"),
    ("post_micro_compact", {"messages": []}, lambda outcome: outcome.payload.messages, []),
    ("pre_auto_compact", {"additional_context": "x"}, lambda outcome: outcome.notes[0].additional_context, "x"),
    ("pre_auto_compact", {"action": "stop"}, lambda outcome: outcome.action, "skip"),
    ("post_auto_compact", {"messages": []}, lambda outcome: outcome.payload.messages, []),
]


@pytest.mark.parametrize(
    ("event", "result", "seen", "promised"), WRITES, ids=[f"{event}-{'+'.join(result)}" for event, result, *_ in WRITES]
)
async def test_each_field_that_an_event_can_write_takes_effect(config, event, result, seen, promised):
    host, _ = run_yaml(config, printing(event, result))
    async with host:
        outcome = await ASKS[event](host)
    assert outcome.trail[0].error is None
    assert seen(outcome) == promised


@pytest.mark.parametrize("event", ASKS)
async def test_a_hook_of_one_event_is_not_asked_at_the_others(config, event):
    host, _ = run_yaml(config, printing(event, {"action": "stop"}))
    async with host:
        for other, ask in ASKS.items():
            outcome = await ask(host)
            asked = [entry for entry in outcome.trail if not entry.skipped]
            assert bool(asked) == (other == event), other


@pytest.mark.parametrize("event", ["session_start", "post_send_message", "session_end"])
async def test_events_that_are_only_told_change_nothing(config, event, tmp_path):
    told = tmp_path / "told"
    command = f'printf $JCLI_HOOK_EVENT > {told}; echo \'{{"action": "stop", "user_input": "x"}}\''
    host, _ = run_yaml(config, f"{event}:\n  - command: {json.dumps(command)}\n")
    async with host, host.session("s1") as session, session.turn("hello") as turn:
        assert await turn.prompt() == "hello"
    assert told.read_text() == event


KEEPER = """
import sys
with open(sys.argv[1], "a") as file:
    file.write(sys.stdin.read())
"""


async def test_messages_are_there_to_read_at_every_event_that_has_them(config, script, tmp_path):
    kept = tmp_path / "kept"
    command = f"  - command: python3 {script('keep.py', KEEPER)} {kept}\n"
    events = ("session_start", "session_end", "pre_send_message", "post_send_message", "pre_llm_request",
              "post_llm_response", "stop")  # fmt: skip
    host, _ = run_yaml(config, "".join(f"{event}:\n{command}" for event in events))

    async def complete(_):
        return {"content": "hi"}

    async with host, host.session("s1") as session:
        for said in ("hello", "again"):
            async with session.turn(said) as turn:
                turn.messages = list(session.messages)
                await turn.run(complete=complete, execute=lambda _: None)
    told = [json.loads(line) for line in kept.read_text().splitlines()]
    by_event = {each["event"]: each for each in told}
    once = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    twice = [*once, {"role": "user", "content": "again"}, {"role": "assistant", "content": "hi"}]
    assert {event: by_event[event]["messages"] for event in events} == {
        "session_start": [],
        "pre_send_message": once,
        "post_send_message": once,
        "pre_llm_request": twice[:3],
        "post_llm_response": twice[:3],
        "stop": twice,
        "session_end": twice,
    }
    assert {each["session_id"] for each in told} == {"s1"}


# What its document promises, and its code does not do.


async def test_feedback_context_and_messages_of_pre_llm_request_reach_the_model(config):
    result = {"additional_context": "be careful", "inject_messages": OTHER, "system_message": "shown"}
    host, _ = run_yaml(config, printing("pre_llm_request", result))
    requests = []

    async def complete(request):
        requests.append(request)
        return {"content": "hi"}

    async with host:
        await host.run_llm(LLMRequest(messages=MESSAGES, system_prompt="be kind"), complete)
    assert requests[0].system_prompt == "be kind\n\nbe careful"
    assert requests[0].messages == [*MESSAGES, *OTHER]


@pytest.mark.parametrize("word", ["abort", "stop"])
async def test_on_error_abort_stops_the_tool(config, word):
    host, _ = run_yaml(config, f"pre_tool_execution:\n  - command: exit 1\n    on_error: {word}\n")
    async with host:
        result = await host.run_tool(BASH, lambda _: pytest.fail("the tool ran"))
    assert result.is_error
    assert "hook pre_tool_execution-1 failed: it crashed, or did not start" in result.for_llm


async def test_on_error_skip_continues(config):
    host, _ = run_yaml(config, "pre_tool_execution:\n  - command: exit 1\n")
    async with host:
        assert (await host.run_tool(BASH, lambda _: "ran")).for_llm == "ran"


async def test_where_there_is_no_tool_on_error_abort_ends_the_turn(config):
    host, _ = run_yaml(config, "pre_send_message:\n  - command: exit 1\n    on_error: abort\n")
    async with host:
        assert (await host.before_prompt(Prompt(prompt="hello"))).action == "abort_turn"


async def test_retries_come_before_on_error(config, tmp_path):
    count = tmp_path / "count"
    text = f"pre_tool_execution:\n  - command: echo x >> {count}; exit 1\n    retry: 2\n    on_error: abort\n"
    host, _ = run_yaml(config, text)
    async with host:
        outcome = await host.before_tool(BASH)
    assert (outcome.action, outcome.trail[0].retries) == ("deny_tool", 2)
    assert count.read_text() == "x\n" * 3


async def test_a_skip_is_not_an_error_and_is_not_retried(config, tmp_path):
    count = tmp_path / "count"
    command = f'echo x >> {count}; echo \'{{"action": "skip"}}\''
    host, _ = run_yaml(config, f"pre_tool_execution:\n  - command: {json.dumps(command)}\n    retry: 2\n")
    async with host:
        assert (await host.before_tool(BASH)).trail[0].retries == 0
    assert count.read_text() == "x\n"


# Chains.

APPEND = """
import json, sys
given = json.load(sys.stdin)
print(json.dumps({"user_input": given["user_input"] + sys.argv[1]}))
"""


async def test_each_hook_sees_the_edits_of_those_before_it_in_list_order(config, script):
    append = script("append.py", APPEND)
    entries = "".join(f"  - command: python3 {append} {letter}\n" for letter in "abcdefghijk")
    host, _ = run_yaml(config, f"pre_send_message:\n{entries}")
    async with host:
        outcome = await host.before_prompt(Prompt(prompt="-"))
    assert outcome.payload.prompt == "-abcdefghijk"


async def test_injected_messages_add_up(config):
    first = printing("pre_llm_request", {"inject_messages": [{"role": "user", "content": "1"}]})
    second = (
        "  - command: |\n      echo '" + json.dumps({"inject_messages": [{"role": "user", "content": "2"}]}) + "'\n"
    )
    host, _ = run_yaml(config, first + second)
    async with host:
        outcome = await host.before_llm(LLMRequest(messages=MESSAGES))
    assert [message["content"] for notes in outcome.notes for message in notes.inject_messages] == ["1", "2"]


async def test_a_stop_ends_the_chain(config, tmp_path):
    told = tmp_path / "told"
    more = f"  - command: touch {told}\n"
    host, _ = run_yaml(config, printing("pre_send_message", {"action": "stop"}, more))
    async with host:
        assert (await host.before_prompt(Prompt(prompt="hello"))).action == "abort_turn"
    assert not told.exists()


async def test_the_whole_chain_has_thirty_seconds_retries_included(config):
    host, _ = run_yaml(config, "stop:\n  - command: 'true'\n    timeout: 60\n    retry: 5\n")
    assert host.timeouts.chain == 30


# Hooks of the session.


async def test_a_session_hook_is_mounted_after_all_others_and_unmounted(config):
    host, _ = run_yaml(config, printing("pre_send_message", {"user_input": "configured"}))
    async with host:
        shell = """echo '{"user_input": "registered"}'"""
        await host.mount(session_hook("pre_send_message", {"command": shell}, "0-session"))
        assert [hook.name for hook in host.asked_at("before_prompt")] == ["pre_send_message-1", "0-session"]
        assert (await host.before_prompt(Prompt(prompt="hello"))).payload.prompt == "registered"
        await host.unmount("0-session")
        assert (await host.before_prompt(Prompt(prompt="hello"))).payload.prompt == "configured"


# Metrics.


async def test_executions_successes_failures_skips_and_time_are_counted(config):
    text = """
pre_tool_execution:
  - command: grep -q good || exit 1
    filter: {tool_name: Bash}
"""
    host, _ = run_yaml(config, text)
    async with host:
        await host.before_tool(BASH.model_copy(update={"arguments": {"a": "good"}}))
        await host.before_tool(BASH.model_copy(update={"arguments": {"a": "bad"}}))
        await host.before_tool(READ)
        (status,) = host.status().hooks
    counts = status.stages["before_tool"]
    assert {key: counts[key] for key in ("executions", "successes", "failures", "skipped")} == {
        "executions": 2,
        "successes": 1,
        "failures": {"crashed": 1},
        "skipped": 1,
    }
    assert counts["total_ms"] > 0
