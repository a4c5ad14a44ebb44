"""The past calls of four agents, from their transcripts."""

from __future__ import annotations

import json
import os
import tracemalloc

import pytest
import transcripts_support as made

from picohook.ext.history import past as past_module
from picohook.ext.history.command import since_of
from picohook.ext.history.past import History
from picohook.ext.history.redact import redacted

PATCH = "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory without any transcript."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def read(*agents, **settings):
    history = History(agents, **settings)
    return {call.id: call for call in history}, history


def outcomes(calls):
    return {call.id: call.outcome for call in calls.values()}


def test_claudes_calls_have_the_outcomes_of_each_version(home):
    refused = "PreToolUse:Bash hook error: [guard]: no rm"
    bash = {"command": "ls"}
    lines = made.claude(
        ("ok", "Bash", bash, False, "a.py"),
        ("absent", "Write", {"file_path": "a.py", "content": "x"}, None, "written"),
        ("code", "Bash", bash, True, "Exit code 3\nbad"),
        ("hook", "Bash", bash, True, refused),
        ("rule", "Bash", bash, True, "Permission to use Bash has been denied"),
        ("person", "Bash", bash, True, [{"type": "text", "text": "The user doesn't want to proceed"}]),
        ("killed", "Bash", bash),
    )
    newest = made.claude(("kind", "Bash", bash, True, "no"), session="S2")
    newest[1]["toolDenialKind"] = "permission-rule"
    lines.insert(0, {**lines[0], "type": "api-request-blob", "timestamp": None})  # a request to the model repeats calls
    made.put(home / ".claude/projects/-home-ann-app/S1.jsonl", made.lines(*lines, *newest))

    calls, past = read("claude")

    failed = {"code": "failed", "hook": "denied", "rule": "denied", "person": "denied", "kind": "denied"}
    assert outcomes(calls) == {"ok": "succeeded", "absent": "succeeded", **failed, "killed": "unknown"}
    assert (calls["ok"].session, calls["ok"].cwd, calls["ok"].way) == ("S1", "/home/ann/app", "main")
    assert (calls["ok"].at, calls["absent"].arguments["file_path"]) == (1772359200, "/home/ann/app/a.py")
    assert (past.counts["damaged"], past.counts["repeated"]) == (0, 0)


def test_a_subagents_calls_and_those_of_mcp_servers_are_told_apart(home):
    project = home / ".claude/projects/p"
    own = made.claude(("m", "mcp__demo__echo", {}, False, ""))
    old = made.claude(("side", "Bash", {"command": "ls"}, False, ""), isSidechain=True)
    made.put(project / "S1.jsonl", made.lines(*own, *old))
    below = made.claude(("sub", "mcp__demo__echo", {}, False, ""), agentId="a1")
    made.put(project / "S1/subagents/agent-a1.jsonl", made.lines(*below))

    calls, _ = read("claude")

    ways = {call.id: call.way for call in calls.values()}
    assert ways == {"m": "main+mcp", "side": "subagent", "sub": "subagent+mcp"}


def test_the_copy_of_a_resumed_session_counts_once_and_the_original_is_kept(home):
    project = home / ".claude/projects/p"
    call = ("one", "Bash", {"command": "ls"}, False, "")
    made.put(project / "a-copy.jsonl", made.lines(*made.claude(call, session="later", start=30)))
    made.put(project / "z-original.jsonl", made.lines(*made.claude(call, session="first")))

    calls, past = read("claude")

    assert [call.session for call in calls.values()] == ["first"]
    assert past.counts["repeated"] == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda first, second: first[:-20] + b"\n" + second,
        lambda first, second: b"\0" * 64 + second,
        lambda first, second: b"not JSON\n" + second,
        lambda first, second: first[:40] + second + second,
    ],
)
def test_a_damaged_line_is_counted_and_what_follows_is_read(home, damage):
    call, result = made.claude(("one", "Bash", {"command": 'echo {"a": 1}'}, False, ""))
    text = made.lines({"type": "user", "message": {"content": 'hi \u2028 \x85 {"type":'}})
    made.put(home / ".claude/projects/p/S1.jsonl", damage(text, made.lines(call)) + made.lines(result)[:-1])

    calls, past = read("claude")

    assert outcomes(calls) == {"one": "succeeded"}
    assert past.counts["damaged"] == 1


def test_a_line_of_any_bytes_ends_nothing(home):
    block = b'{"type":"tool_use","id":"l","name":"x","input":[]}'
    call = b'{"type":"assistant","timestamp":"x","message":{"content":[%b]}}\n' % block
    odd = b'{"type":"user","message":{"content":[{"type":"tool_result"},7,null]}} "tool_use"\n[1]"tool_use"\n\xff"tool_use"\n'
    lone = call.replace(b'"x"', b'"\\ud800"').replace(b'"l"', b'"other"')
    made.put(home / ".claude/projects/p/S1.jsonl", odd + call + lone + b'{"tool_use":' * 5000 + b"\n")
    made.put(home / ".claude/projects/p/empty.jsonl", b"")

    calls, past = read("claude")

    assert [call.arguments for call in calls.values()] == [{"input": []}]
    assert past.counts["damaged"] == 5


def test_codexs_calls_of_old_and_new_versions_have_the_names_that_hooks_see(home):
    json_output = json.dumps({"output": "Exit code: 9", "metadata": {"exit_code": 0}})
    argv = {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": ["bash", "-lc", "ls -l"]})}
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": PATCH}
    mcp = {"type": "function_call", "namespace": "mcp__demo", "name": "echo", "arguments": "{broken"}
    items = made.codex(
        ("old", argv, json_output),
        (
            "new",
            made.shell("ls"),
            "Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nProcess exited with code 9",
        ),
        ("bad", made.shell("false", "shell_command"), "Exit code: 1\nWall time"),
        ("hook", made.shell("rm x"), "Command blocked by PreToolUse hook: no. Command: rm x"),
        ("patch", patch, "Exit code: 0\nSuccess"),
        ("mcp", mcp, [{"type": "text", "text": "hello"}]),
    )
    event = {"type": "item_completed", "item": {"id": "mcp", "type": "McpToolCall", "result": {"isError": True}}}
    items.insert(-1, {"timestamp": made.TIME.format(1), "type": "event_msg", "payload": event})
    sub = made.codex(("s", made.shell("ls"), "Process exited with code 0"), session="C2", source={"subagent": {}})
    sub += made.codex()  # of a fork, the parent's beginning follows
    flat = [
        {"id": "C3", "timestamp": made.TIME.format(0), "instructions": None, "git": {}},
        {**argv, "call_id": "flat"},
    ]
    for name, lines in (("C1", items), ("C2", sub), ("C3", flat)):
        file = f"rollout-2026-03-01T10-00-00-{name}.jsonl"
        made.put(home / f".codex/sessions/2026/03/01/{file}", made.lines(*lines))
    made.put(home / ".codex/archived_sessions/rollout-2026-03-01T10-00-00-C1.jsonl", made.lines(*items))
    made.put(home / ".codex/sessions/2026/01/01/rollout-0.jsonl.zst", b"x")

    calls, past = read("codex")

    failed = {"bad": "failed", "mcp": "failed", "hook": "denied", "flat": "unknown"}
    assert outcomes(calls) == {**dict.fromkeys(("old", "new", "patch", "s"), "succeeded"), **failed}
    assert (calls["old"].tool, calls["old"].arguments["command"]) == ("Bash", "ls -l")
    assert (calls["new"].tool, calls["new"].arguments, calls["new"].cwd) == ("Bash", {"command": "ls"}, "/tmp")
    assert (calls["patch"].tool, calls["mcp"].tool, calls["mcp"].way) == ("Edit", "mcp__demo__echo", "main+mcp")
    assert (calls["s"].way, calls["flat"].session, calls["s"].session) == ("subagent", "C3", "C2")
    assert (past.counts["repeated"], past.unread) == (6, {"compressed": 1})


def test_geminis_later_message_replaces_the_earlier_one(home):
    calls = [
        made.gemini_call("ok", "run_shell_command", {"command": "ls"}, "success", "a.py"),
        made.gemini_call(
            "code", "run_shell_command", {"command": "x"}, "success", f"Output: {'x' * 5000}\nExit Code: 3"
        ),
        made.gemini_call("hook", "run_shell_command", {"command": "rm"}, "error", "Tool execution blocked: no"),
        made.gemini_call("person", "write_file", {"file_path": "a"}, "cancelled", "[Operation Cancelled]"),
        made.gemini_call("missing", "x", {}, "error", 'Tool "x" not found'),
        made.gemini_call("odd", "x", {}, "a word of later versions", ""),
    ]
    message = {"id": "m1", "timestamp": made.TIME.format(0), "type": "gemini"}
    chats = home / ".gemini/tmp/app/chats"
    header = {"sessionId": "G1", "projectHash": "x"}
    stream = (
        header,
        message,
        {**message, "toolCalls": [{**calls[0], "status": "executing"}]},
        {**message, "toolCalls": calls},
        {"$set": {"messages": [{**message, "toolCalls": calls}]}},
    )
    made.put(chats / "session-1.jsonl", made.lines(*stream))
    made.put(
        chats / "G1/sub.jsonl", made.lines({"sessionId": "G2", "kind": "subagent"}, {**message, "toolCalls": calls[:1]})
    )
    old = {"sessionId": "G0", "messages": [{**message, "toolCalls": calls[:1]}]}
    made.put(chats / "session-0.json", json.dumps(old, indent=2).encode())
    made.put(home / ".gemini/tmp/app/.project_root", b"/home/ann/app")

    found = [*History(["gemini"])]

    ways = sorted((call.session, call.way) for call in found if call.id == "ok")
    assert ways == [("G0", "main"), ("G1", "main"), ("G2", "subagent")]
    assert {call.id: call.outcome for call in found} == {
        "ok": "succeeded",
        "code": "failed",
        "hook": "denied",
        "person": "denied",
        "missing": "failed",
        "odd": "unknown",
    }
    assert {(call.tool, call.cwd) for call in found if call.id == "ok"} == {("Bash", "/home/ann/app")}


def test_copilots_calls_are_the_models_and_not_the_programs_own(home):
    lines = made.copilot(
        ("ok", "bash", {"command": "ls"}, {"success": True, "result": {"content": "a"}}),
        ("code", "bash", {"command": "x"}, {"success": True, "shellExecution": {"exitCode": 2}}),
        ("bad", "view", {"path": "a.py"}, {"success": False, "error": {"message": "no", "code": "failure"}}),
        ("hook", "bash", {"command": "rm"}, {"success": False, "error": {"message": "no", "code": "denied"}}),
        ("own", "read_bash", {}, {"success": True}),
        ("escaped", "bash", {"command": "sleep 9"}, None),
    )
    own = {"type": "assistant.message", "data": {"toolRequests": [{"toolCallId": "own"}]}}
    made.put(home / ".copilot/session-state/U1/events.jsonl", made.lines(lines[0], own, *lines[1:]))

    calls, _ = read("copilot")

    expected = {"ok": "succeeded", "code": "failed", "bad": "failed", "hook": "denied", "escaped": "unknown"}
    assert outcomes(calls) == expected
    assert (calls["ok"].session, calls["bad"].tool, calls["bad"].arguments["file_path"]) == (
        "U1",
        "Read",
        "/home/ann/app/a.py",
    )


def test_a_line_that_is_being_written_is_left_out_and_not_damaged(home):
    first, second = (made.claude((number, "Bash", {}, False, "")) for number in "ab")
    path = made.put(home / ".claude/projects/p/S1.jsonl", made.lines(*first) + made.lines(*second)[:60])

    calls, past = read("claude")
    with path.open("ab") as file:
        file.write(made.lines(*second)[60:])
    later, _ = read("claude")

    assert ([*calls], past.counts["damaged"]) == (["a"], 0)
    assert [*later] == ["a", "b"]


@pytest.mark.parametrize("piece", [7, 400, 1 << 20])
def test_a_line_that_is_too_long_is_one_damaged_line(home, monkeypatch, piece):
    monkeypatch.setattr(past_module, "LONGEST_LINE", 400)
    monkeypatch.setattr(past_module, "_PIECE", piece)
    calls = made.lines(*made.claude(*((name, "Bash", {}, False, "") for name in "abc")))
    path = made.put(home / ".claude/projects/p/S1.jsonl", calls.replace(b'"b"', b'"%b"' % (b"b" * 2000)))

    calls, past = read("claude")

    assert [*calls] == ["a", "c"]
    assert (past.counts["damaged"], past.counts["bytes"]) == (2, path.stat().st_size)


def test_a_document_that_is_too_long_is_one_damaged_line(home, monkeypatch):
    monkeypatch.setattr(past_module, "LONGEST_LINE", 400)
    monkeypatch.setattr(past_module, "_PIECE", 7)
    message = {"type": "gemini", "toolCalls": [made.gemini_call("ok", "x", {}, "success", "")]}
    for name, text in (("short", ""), ("long", "x" * 400)):
        document = {"sessionId": name, "text": text, "messages": [message]}
        made.put(home / f".gemini/tmp/app/chats/session-{name}.json", json.dumps(document, indent=0).encode())

    calls, past = read("gemini")

    assert [call.session for call in calls.values()] == ["short"]
    assert past.counts["damaged"] == 1


def test_nothing_of_a_line_that_is_too_long_is_in_memory(home, monkeypatch):
    monkeypatch.setattr(past_module, "LONGEST_LINE", 16 << 20)
    calls = made.lines(*made.claude(("a", "Bash", {}, False, "")))
    path = made.put(home / ".claude/projects/p/S1.jsonl", b"")
    with path.open("wb") as file:
        file.seek(64 << 20)  # a line of zeros
        file.write(b"\n" + calls)
    tracemalloc.start()
    try:
        calls, past = read("claude")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert ([*calls], past.counts["damaged"]) == (["a"], 1)
    assert peak < 8 << 20


def test_a_directory_that_may_not_be_read_is_named(home, monkeypatch):
    made.put(home / ".claude/projects/p/S1.jsonl", made.lines(*made.claude(("a", "Bash", {}, False, ""))))
    closed, may = str(home / ".claude/projects/p"), os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and may(path, mode))

    _, past = read("claude")

    assert past.unread == {f"you may not read {closed}": 1}


def test_only_calls_since_a_time_are_read(home):
    path = home / ".claude/projects/p/S1.jsonl"
    made.put(path, made.lines(*made.claude(*[(str(n), "Bash", {}, False, "") for n in range(4)])))
    old = made.put(home / ".claude/projects/p/S0.jsonl", made.lines(*made.claude(("old", "Bash", {}, False, ""))))
    os.utime(old, (0, 0))

    calls, past = read("claude", since=since_of("2026-03-01T10:00:02Z"))

    assert [*calls] == ["2", "3"]
    assert past.counts["files"] == 1


SECRETS = [
    made.SECRET,
    "AKIA" + "ABCD" * 4,
    "sk-" + "ant-a1" * 5,
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\ncut off",
    "eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + ".c",
]


def test_secrets_are_replaced_and_other_text_is_not():
    for secret in SECRETS:
        assert redacted(f"echo {secret} > x") in {"echo [secret] > x", "echo [secret]"}
    assert redacted("curl -H 'Authorization: Bearer abcdefgh1234' https://ann:pw123@host/") == (
        "curl -H 'Authorization: Bearer [secret]' https://[secret]@host/"
    )
    assert redacted({"API_KEY": "x1", "API_KEY_PROD": "x2", "list": ["DB_PASSWORD=hunter22 ls", 7]}) == {
        "API_KEY": "[secret]",
        "API_KEY_PROD": "[secret]",
        "list": ["DB_PASSWORD=[secret] ls", 7],
    }
    for text in ("ls -la /etc", "git commit -m 'token of thanks'", "https://example.org/a?b=c", "keyboard=1"):
        assert redacted(text) == text


@pytest.mark.timeout(60)
def test_a_long_text_of_digits_and_letters_is_read_at_once():
    digits = "0a1b2c3d4e5f" * 20_000

    assert redacted(f"{digits} TOKEN=abcd1234") == f"{digits} TOKEN=[secret]"
