"""The plain agent: its own script offline, and an endpoint that streams, over a real socket."""

from __future__ import annotations

import functools
import json
import os
import pty
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import preloaded
import pytest
from endpoint import served

from picohook import (
    Deny,
    FunctionHook,
    Host,
    Modify,
    Respond,
)
from picohook.testing import RecordingHost

from .conftest import EXAMPLES

sys.path.append(str(EXAMPLES / "agents"))

from plain_agent import Agent, Message, events, notes_in, offer, openai, scripted

AGENT = EXAMPLES / "agents" / "plain_agent.py"


class Endpoint(ThreadingHTTPServer):
    """Streams each of its answers, in pieces of a few bytes, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = []
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def says(self, *deltas, end=b"data: [DONE]\n\n", status=200):
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"choices": [], "usage": {"total_tokens": 1}})
        lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode() for chunk in chunks]
        self.answers.append((status, b": a comment\n\n" + b"".join(lines) + end))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        status, data = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, len(data), 7):
            piece = data[start : start + 7]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *arguments):
        pass


@pytest.fixture
def endpoint(monkeypatch):
    with served(Endpoint(), monkeypatch) as server:
        yield server


ODD = "Grüße\u2028für 你"


def call(index, identity="", name="", arguments=""):
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": index, "function": function} | ({"id": identity} if identity else {})]}


def two_calls(endpoint):
    endpoint.says(
        {"role": "assistant", "content": ""},
        call(0, "c0", "save_note"),
        call(0, arguments='{"name": "a", '),
        call(0, arguments=f'"text": "{ODD}"}}'),
        call(1, "c1", "save_note", '{"name": "b", "text": "forbidden"}'),
    )


def denies(call):
    return Deny("not that") if call.arguments["text"] == "forbidden" else None


@pytest.mark.anyio
async def test_a_turn_streams_calls_tools_and_applies_the_decisions_of_hooks(endpoint, tmp_path):
    two_calls(endpoint)
    endpoint.says({"content": "Saved: "}, {"content": ODD}, {"content": None})
    endpoint.says({"content": "Once more."})
    shown = []
    approve = FunctionHook("approve", {"approve_tool": lambda call: True})
    host = RecordingHost([FunctionHook("guard", {"before_tool": denies}), approve])
    async with host, host.session("s1") as session:
        model = openai(endpoint.url + "/", "key-1")
        agent = Agent(session, model, notes_in(tmp_path), name="m", system_prompt="Be brief.", show=shown.append)
        assert await agent.answer("Save these.") == f"Saved: {ODD}"
        assert await agent.answer("Again?") == "Once more."

    assert (tmp_path / "a.md").read_text() == ODD
    assert not (tmp_path / "b.md").exists()
    assert "".join(shown) == f"Saved: {ODD}\nOnce more.\n"
    (path, headers, first), (_, _, second), (_, _, third) = endpoint.asked
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", "Bearer key-1")
    assert (first["model"], first["stream"]) == ("m", True)
    assert first["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Save these."},
    ]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["list_notes", "read_note", "save_note"]
    said, *told = second["messages"][2:]
    assert [(one["id"], one["function"]["name"]) for one in said["tool_calls"]] == [
        ("c0", "save_note"),
        ("c1", "save_note"),
    ]
    assert [(one["tool_call_id"], one["content"]) for one in told] == [
        ("c0", "saved as a"),
        ("c1", "Tool execution denied by hook: not that"),
    ]
    assert [message["role"] for message in third["messages"]] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "user")
    ]
    deltas = [event for event in host.events if event.kind == "llm_delta"]
    assert [event.payload["ContentDeltaLen"] for event in deltas] == [7, len(ODD), 10]
    assert {event.meta.session_key for event in deltas} == {"s1"}
    assert [outcome.approved for outcome in host.outcomes_at("approve_tool")] == [True]


@pytest.mark.anyio
async def test_hooks_change_the_prompt_the_answer_and_the_tools(endpoint, tmp_path):
    endpoint.says(call(0, "c0", "clock", "{}"))
    endpoint.says({"content": "It is noon."})

    def offer_a_clock(request):
        clock = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
        return Modify({"tools": [*request.tools, clock], "system_prompt": "Be kind."})

    hook = FunctionHook(
        "clock",
        {
            "before_llm": offer_a_clock,
            "before_tool": lambda call: Respond({"for_llm": "12:00"}),
            "after_llm": lambda response: Modify({"content": response.response["content"].upper()}),
        },
    )
    async with Host([hook]) as host, host.session("s1") as session:
        agent = Agent(session, openai(endpoint.url), notes_in(tmp_path), name="m")
        assert await agent.answer("What time is it?") == "IT IS NOON."
    asked = [body for _, _, body in endpoint.asked]
    assert [tool["function"]["name"] for tool in asked[0]["tools"]][-1] == "clock"
    assert asked[0]["messages"][0] == {"role": "system", "content": "Be kind."}
    assert asked[1]["messages"][-1]["content"] == "12:00"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "end", "complaint"),
    [
        (429, b"", "answered 429: : a comment"),
        (200, b"", "broke off in the middle of an answer"),
        (200, b'data: {"choices": [{"del', "broke off in the middle of an answer"),
    ],
)
async def test_errors_of_the_endpoint_are_reported(endpoint, tmp_path, status, end, complaint):
    endpoint.says({"content": "Half an "}, status=status, end=end)
    async with Host() as host, host.session("s1") as session:
        with pytest.raises(ConnectionError, match=complaint):
            await Agent(session, openai(endpoint.url), []).answer("hello")


@pytest.mark.anyio
async def test_the_model_gets_an_error_for_an_unknown_or_failing_tool(tmp_path):
    calls = [("nothing", {}), ("read_note", {"name": "../x"}), ("read_note", {"nam": "x"})]
    model = scripted([{"content": "hm", "tool_calls": calls}, {"content": "done"}])
    async with Host() as host, host.session("s1") as session:
        assert await Agent(session, model, notes_in(tmp_path)).answer("hello") == "done"
    told = [message["content"] for message in session.messages if message["role"] == "tool"]
    assert told[0] == "LookupError: there is no tool 'nothing'"
    assert told[1] == "ValueError: '../x' cannot be the name of a note"
    assert "Missing required argument" in told[2]


def test_a_function_is_offered_with_its_docstring_and_its_annotations():
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    function = offer(add)["function"]
    assert (function["name"], function["description"]) == ("add", "Add two numbers.")
    assert function["parameters"]["properties"]["a"]["type"] == "integer"
    assert function["parameters"]["required"] == ["a"]


def test_calls_are_put_together_by_their_index():
    message = Message()
    for delta in (call(1, "b", "two", "{"), call(0, "a", "one"), call(1, arguments="}"), {"content": None}):
        message.add(delta)
    assert [(one["id"], one["function"]) for one in message.whole()["tool_calls"]] == [
        ("a", {"name": "one", "arguments": ""}),
        ("b", {"name": "two", "arguments": "{}"}),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_events_are_the_same_however_they_are_cut(size):
    data = f"event: x\r\ndata: {ODD}\r\n\r\n:c\ndata:2\n\ndata: rest".encode()

    async def chunks():
        for start in range(0, len(data), size):
            yield data[start : start + size]

    assert [event async for event in events(chunks())] == [ODD.encode(), b"2"]


def run(*arguments, directory, **environment):
    return subprocess.run(
        [preloaded.program("python"), str(AGENT), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd=directory,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        timeout=60,
    )


def test_the_program_plays_its_script_offline_through_the_example_hooks(tmp_path):
    done = run("Do I need an umbrella?", directory=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "I look at the weather and your notes.",
        "  [get_weather: answered by weather]",
        "  [list_notes: done]",
        "It rains. I note that.",
        "  [save_note: done]",
        "  [read_note: failed]",
        "Take an umbrella: it rains in Berlin. I saved that as a note.",
    ]
    assert (tmp_path / "notes" / "berlin.md").read_text() == "Take an umbrella. password: [redacted]"


def test_the_program_talks_to_an_endpoint_and_reports_who_ended_a_turn(endpoint, tmp_path):
    config = tmp_path / "picohook.toml"
    config.write_text("[hooks.a]\npython = 'stop:stop'\nstages = ['before_tool']\n")
    (tmp_path / "stop.py").write_text("def stop(call):\n    return {'action': 'abort_turn', 'reason': 'no tools'}\n")
    run_it = functools.partial(
        run, "--config", str(config), directory=tmp_path, OPENAI_BASE_URL=endpoint.url, OPENAI_MODEL="m"
    )
    endpoint.says({"content": "Hello!"})
    done = run_it("Hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
    endpoint.says(call(0, "c", "list_notes", "{}"))
    done = run_it("Tools?")
    assert done.returncode == 1
    assert "[no answer: no tools]" in done.stdout
    endpoint.says(status=500)
    done = run_it("Hi")
    assert done.returncode == 1
    assert "answered 500" in done.stdout
    endpoint.says(end=b"data: {\n\n")
    assert "cannot be asked: Expecting property name" in run_it("Hi").stdout
    done = run_it("Hi", OPENAI_BASE_URL="http://127.0.0.1:1/v1")
    assert (done.returncode, done.stderr) == (1, "")
    assert "[no answer: http://127.0.0.1:1/v1/chat/completions cannot be asked: " in done.stdout


AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_at_a_terminal_it_is_a_conversation_and_asks_before_it_saves(tmp_path):
    ours, theirs = pty.openpty()
    shown = b""

    def until(mark):
        nonlocal shown
        before = len(shown)
        while mark not in shown[before:]:
            shown += os.read(ours, 4096)
        return shown[before:].decode()

    command = [sys.executable, "-c", AT_A_TERMINAL, str(AGENT)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path) as process:
        os.close(theirs)
        until(b"you: ")
        os.write(ours, b"Do I need an umbrella?\n")
        assert '"text": "Take an umbrella. password: [redacted]"' in until(b"why not: ")
        os.write(ours, b"not today\n")
        assert "[save_note: the user said: not today]" in until(b"you: ")
        os.write(ours, b"\x04")
        assert process.wait(60) == 0
    os.close(ours)
    assert not (tmp_path / "notes").exists()
