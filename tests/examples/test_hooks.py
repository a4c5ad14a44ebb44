"""The example hooks, each a real process, through both of their configurations."""

from __future__ import annotations

import json
import subprocess
from contextlib import asynccontextmanager

import preloaded
import pytest

from picohook import LLMRequest, LLMResponse, Meta, ToolCall, ToolReturn
from picohook.config import load
from picohook.testing import RecordingHost

from .conftest import EXAMPLES

pytestmark = pytest.mark.anyio

HOOKS = ["logger", "call_limit", "weather", "redactor", "path_guard", "event_counter", "runtime_events"]
ECHO = {"type": "function", "function": {"name": "echo"}}


@pytest.fixture(scope="module")
def anyio_backend():
    """One event loop: these hooks are processes, and cannot tell which one their host has."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture
def only(config, output):
    """A host with one of the configured hooks."""

    @asynccontextmanager
    async def start(*names):
        settings = load(config)
        hooks = [spec for spec in settings.hooks if spec.name in names]
        assert [hook.name for hook in hooks] == list(names)
        async with RecordingHost(hooks, timeouts=settings.timeouts, logger=output) as host:
            yield host

    return start


async def test_both_configurations_are_of_the_same_hooks_in_the_same_order(config, output):
    settings = load(config)
    assert [spec.name for spec in settings.hooks] == HOOKS
    assert settings.warnings == ()
    async with RecordingHost.from_config(config, logger=output) as host:
        asked = [hook.name for hook in host.asked_at("before_tool")]
        states = {hook.name: hook.state for hook in host.status().hooks}
    assert asked == ["logger", "call_limit", "weather", "redactor", "path_guard"]
    assert states == dict.fromkeys(HOOKS, "ready")
    assert output.complaints == []


async def test_the_whole_chain_lets_a_harmless_call_through_unchanged(config, output):
    call = ToolCall(tool="bash", arguments={"command": "ls notes"})
    async with RecordingHost.from_config(config, logger=output) as host:
        result = await host.run_tool(call, lambda _: "shopping.md")
    assert result.for_llm == "shopping.md"
    assert [outcome.action for outcome in host.outcomes] == ["continue"] * 3
    assert all(entry.error is None for outcome in host.outcomes for entry in outcome.trail)


# logger.py


async def test_the_logger_logs_questions_without_their_content(only, output):
    async with only("logger") as host:
        outcomes = [
            await host.before_llm(LLMRequest(model="m", messages=[{"role": "user", "content": "secret"}])),
            await host.after_llm(LLMResponse(response={"content": "secret"})),
            await host.before_tool(ToolCall(tool="bash", arguments={"command": "secret", "timeout": 5})),
        ]
    assert [outcome.action for outcome in outcomes] == ["continue"] * 3
    said = [line.split(" ", 2)[2] for line in output.stderr["logger"]]
    assert said == ["hello", "before_llm m: 1 messages", "after_llm", "before_tool bash(command, timeout)"]


async def test_the_logger_can_observe_events_and_write_to_a_file(tmp_path, config):
    logger = next(spec for spec in load(config).hooks if spec.name == "logger")
    file = tmp_path / "hook.log"
    update = {"command": (*logger.command, str(file)), "observe": ("*",)}
    async with RecordingHost([logger.model_copy(update=update)]) as host:
        host.emit("turn_start", {"UserMessage": "secret"})
    assert [line.split(" ", 2)[2] for line in file.read_text().splitlines()] == ["hello", "event turn_start"]


# weather_tool.py


async def test_the_weather_tool_is_offered_beside_the_others(only):
    request = LLMRequest(model="m", tools=[ECHO], options={"temperature": 0.7})
    async with only("weather") as host:
        outcome = await host.before_llm(request)
        again = await host.before_llm(outcome.payload)
    assert outcome.action == "modify"
    assert [tool["function"]["name"] for tool in outcome.payload.tools] == ["echo", "get_weather"]
    assert outcome.payload.model_copy(update={"tools": [ECHO]}) == request
    assert again.action == "continue"


@pytest.mark.parametrize(
    ("city", "text", "is_error"),
    [("Berlin", "Berlin: 12 °C, rain", False), ("Atlantis", "There is no forecast for 'Atlantis'.", True)],
)
async def test_the_weather_tool_is_answered_without_approval_as_its_hook_injected_it(only, city, text, is_error):
    async with only("weather", "path_guard") as host:
        await host.before_llm(LLMRequest(tools=[ECHO]))
        result = await host.run_tool(ToolCall(tool="get_weather", arguments={"city": city}), pytest.fail)
    assert (result.for_llm, result.is_error) == (text, is_error)
    assert host.outcomes_at("approve_tool") == []
    assert [event.kind for event in host.events] == ["tool_exec_start", "tool_exec_end"]


async def test_it_ignores_other_tools(only):
    async with only("weather") as host:
        assert (await host.before_tool(ToolCall(tool="echo"))).action == "continue"


# path_guard.py


@pytest.mark.parametrize("path", ["notes/today.md", "./x", "notes/../other"])
async def test_the_guard_lets_paths_inside_the_workspace_through(only, path):
    async with only("path_guard") as host:
        assert (await host.before_tool(ToolCall(tool="read_file", arguments={"path": path}))).action == "continue"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "notes/../../x", "/", "a\0b"])
async def test_the_guard_denies_paths_outside_of_it(only, path):
    async with only("path_guard") as host:
        result = await host.run_tool(ToolCall(tool="read_file", arguments={"path": path}), pytest.fail)
    assert result.is_error
    assert result.for_llm.startswith("Tool execution denied by hook: ")
    assert [event.kind for event in host.events] == ["tool_exec_skipped"]


async def test_the_guard_follows_links_and_looks_at_affected_paths(tmp_path, config):
    (tmp_path / "link").symlink_to("/etc")
    guard = next(spec for spec in load(config).hooks if spec.name == "path_guard")
    async with RecordingHost([guard.model_copy(update={"env": {"GUARD_ROOT": str(tmp_path)}})]) as host:
        linked = await host.before_tool(ToolCall(tool="read_file", arguments={"path": "link/passwd"}))
        affected = await host.before_tool(ToolCall(tool="edit", affected_paths=["ok", "/etc/hosts"]))
    assert (linked.action, linked.reason) == ("deny_tool", "link/passwd is outside the workspace")
    assert (affected.action, affected.reason) == ("deny_tool", "/etc/hosts is outside the workspace")


@pytest.mark.parametrize(
    ("call", "approved", "reason"),
    [
        ({"tool": "bash", "arguments": {"command": "ls -l 'my notes'"}}, True, ""),
        ({"tool": "echo", "arguments": {"text": "rm -rf /"}}, True, ""),
        (
            {"tool": "bash", "arguments": {"command": "rm -rf /"}},
            False,
            "rm is not on the list of harmless commands",
        ),
        (
            {"tool": "bash", "arguments": {"command": "ls; rm x"}},
            False,
            "only a single plain command can be approved",
        ),
        (
            {"tool": "bash", "arguments": {"command": "ls 'x"}},
            False,
            "the command cannot be read: No closing quotation",
        ),
        ({"tool": "bash"}, False, "an empty command is not on the list of harmless commands"),
        ({"tool": "read_file", "arguments": {"path": "/etc/passwd"}}, False, "/etc/passwd is outside the workspace"),
    ],
)
async def test_the_guard_approves_harmless_calls(only, call, approved, reason):
    async with only("path_guard") as host:
        outcome = await host.approve_tool(call)
    assert (outcome.approved, outcome.reason) == (approved, reason)


# redactor.py: one configuration has it answer in PicoClaw's nested shape, the other in the flat one.


async def test_the_redactor_rewrites_arguments_however_deep(only):
    call = ToolCall(
        tool="send",
        arguments={"to": ["a", {"note": "use sk-4f9a01cc7b52e8d3 now"}], "n": 12345678901234567890, "x": None},
    )
    ran = []
    async with only("redactor") as host:
        await host.run_tool(call, ran.append)
    assert [one.arguments for one in ran] == [
        {"to": ["a", {"note": "use [redacted] now"}], "n": 12345678901234567890, "x": None}
    ]
    assert (ran[0].tool, ran[0].meta) == (call.tool, call.meta)


async def test_the_redactor_rewrites_results_and_keeps_the_rest_of_them(only):
    async with only("redactor") as host:
        result = await host.run_tool(
            ToolCall(tool="login"),
            lambda _: {"for_llm": "password: hunter2", "for_user": "password=hunter2", "silent": True, "media": ["m"]},
        )
    assert (result.for_llm, result.for_user) == ("password: [redacted]", "password=[redacted]")
    assert (result.silent, result.media) == (True, ["m"])
    assert host.outcomes_at("after_tool")[0].action == "modify"


async def test_the_redactor_rewrites_the_models_text_and_leaves_its_tool_calls(only):
    said = {"content": "it is sk-4f9a01cc7b52e8d3", "tool_calls": [{"id": "1", "function": {"arguments": "{}"}}]}
    async with only("redactor") as host:
        outcome = await host.after_llm(LLMResponse(model="m", response=said))
    assert outcome.payload.response == {**said, "content": "it is [redacted]"}
    assert outcome.payload.model == "m"


async def test_the_redactor_answers_continue_if_there_is_no_secret(only):
    call = ToolCall(tool="bash", arguments={"command": "ls"})
    async with only("redactor") as host:
        outcomes = [
            await host.before_tool(call),
            await host.after_tool(ToolReturn(tool="bash", result={"for_llm": "a.txt"})),
            await host.after_llm(LLMResponse(response={"content": "hello"})),
        ]
    assert [outcome.action for outcome in outcomes] == ["continue"] * 3


# jsonrpcserver_gate.py


async def test_the_gate_limits_the_calls_of_each_tool_in_a_turn(only):
    first, second = Meta(turn_id="1"), Meta(turn_id="2")
    async with only("call_limit") as host:
        outcomes = [await host.before_tool(ToolCall(tool="bash", meta=first)) for _ in range(4)]
        other_tool = await host.before_tool(ToolCall(tool="echo", meta=first))
        next_turn = await host.before_tool(ToolCall(tool="bash", meta=second))
    assert [outcome.action for outcome in outcomes] == ["continue", "continue", "continue", "deny_tool"]
    assert outcomes[3].reason == "bash was called 3 times in this turn already"
    assert (other_tool.action, next_turn.action) == ("continue", "continue")


async def test_a_stage_that_the_gate_does_not_handle_continues(only):
    async with only("call_limit") as host:
        outcome = await host.after_tool(ToolReturn(tool="bash", result={"for_llm": "a.txt"}))
    assert outcome.action == "continue"
    assert all(entry.error is None for entry in outcome.trail)


# event_counter.py and runtime_events.py


async def test_the_counter_counts_every_event_by_its_kind(only, output):
    async with only("event_counter") as host:
        for kind in ("turn_start", "llm_request", "llm_request", "turn_end"):
            host.emit(kind)
    assert output.stderr["event_counter"] == ["4 events: 2 llm_request, 1 turn_start, 1 turn_end"]


async def test_runtime_events_come_with_dotted_names_and_only_those_that_are_observed(only, output):
    async with only("runtime_events") as host:
        host.emit("turn_start")
        host.emit("llm_request", {"Model": "m"})
        host.emit("tool_exec_start", {"Tool": "bash", "Arguments": {}})
        host.emit("turn_end", {"Status": "completed"})
    told = [line.split(" ms  ")[1].split() for line in output.stderr["runtime_events"]]
    assert told == [
        ["info", "agent.turn.start"],
        ["info", "agent.tool.exec_start", "bash"],
        ["info", "agent.turn.end", "completed"],
    ]


# As PicoClaw asks them: newer params with a context, events with id 0, and whole objects wanted back.


ARGUMENTS = {"audit_log.py": ["audit.jsonl"]}


def conversation(script, *lines, cwd=None):
    process = subprocess.run(
        [preloaded.program("python"), str(EXAMPLES / script), *ARGUMENTS.get(script, ())],
        cwd=cwd,
        input="".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines).encode(),
        capture_output=True,
        check=True,
        timeout=30,
    )
    return [json.loads(line) for line in process.stdout.splitlines()]


HELLO = {"id": 1, "method": "hook.hello", "params": {"name": "me", "version": 1, "modes": ["tool"]}}
CONTEXT = {"inbound": {"channel": "cli", "chat_id": "c"}, "route": None, "scope": None}


@pytest.mark.parametrize(
    "script",
    sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in {"demo.py", "terminal_approval.py"}),
)
def test_every_hook_says_hello_and_does_not_answer_an_event_with_id_0(script, tmp_path):
    event = {"id": 0, "method": "hook.event", "params": {"Kind": 10, "Meta": {}, "Payload": None}}
    answers = conversation(script, HELLO, event, cwd=tmp_path)
    assert [(answer["id"], answer["result"]["ok"]) for answer in answers if answer["id"]] == [(1, True)]


def test_an_edited_request_goes_back_whole():
    params = {"meta": {"TurnID": "t"}, "context": CONTEXT, "model": "m", "messages": [], "tools": None, "options": {}}
    _, answer = conversation("weather_tool.py", HELLO, {"id": 2, "method": "hook.before_llm", "params": params})
    request = answer["result"]["request"]
    assert request.keys() == params.keys()
    assert [tool["function"]["name"] for tool in request["tools"]] == ["get_weather"]


def test_an_edited_call_an_edited_result_and_an_edited_response_go_back_whole():
    call = {"meta": {}, "context": CONTEXT, "tool": "t", "arguments": {"a": "password: x"}}
    returned = {**call, "arguments": {}, "result": {"for_llm": "password: x", "is_error": False}, "duration": 1}
    response = {"meta": {}, "context": CONTEXT, "model": "m", "response": {"content": "password: x"}}
    answers = conversation(
        "redactor.py",
        HELLO,
        {"id": 2, "method": "hook.before_tool", "params": call},
        {"id": 3, "method": "hook.after_tool", "params": returned},
        {"id": 4, "method": "hook.after_llm", "params": response},
    )
    clean = "password: [redacted]"
    assert [answer["result"] for answer in answers[1:]] == [
        {"action": "modify", "call": {**call, "arguments": {"a": clean}}},
        {"action": "modify", "result": {**returned, "result": {"for_llm": clean, "is_error": False}}},
        {"action": "modify", "response": {**response, "response": {"content": clean}}},
    ]
