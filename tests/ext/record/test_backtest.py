"""`picohook replay --against`: what another configuration would have decided about past calls."""

from __future__ import annotations

import socket

import pytest
import transcripts_support as made

from picohook import Host, Recorder, ToolResult

GUARD = """
import sys
def before_tool(params):
    command = params["arguments"]["command"]
    return {"action": "deny_tool", "reason": f"no {WORD}"} if WORD in command else {}
"""


def guard(project, word, **keys):
    project.config.unlink(missing_ok=True)
    project.hook("guard", f"WORD = {word!r}\n{GUARD}", **{"hello_timeout": 60, "timeout": 60, **keys})


@pytest.fixture
def record(project):
    """A record of five calls that ran, of which the third failed, and one that was denied."""
    guard(project, "rm")
    commands = ("ls", "curl a", "curl b", "git push", "cat x", "rm y")
    with Host.blocking(project.config, listeners=[Recorder(project.path / "session.jsonl")]) as host:
        for place, command in enumerate(commands):
            call = {"tool": "bash", "tool_call_id": str(place), "arguments": {"command": command}}
            host.run_tool(call, lambda call: ToolResult(for_llm="done", is_error=call.arguments["command"] == "curl b"))
    return project


def against(project, *arguments):
    return project("replay", "session.jsonl", "--against", "picohook.toml", *arguments)


def test_newly_denied_newly_allowed_and_false_rejections_are_told_apart(record):
    guard(record, "curl")

    people, programs = against(record), against(record, "--json")

    assert people.code == programs.code == 1
    denied = {one["asked"]["arguments"]["command"]: one for one in programs.lines[:-1]}
    assert {command: (one["kind"], one.get("false_rejection", False)) for command, one in denied.items()} == {
        "curl a": ("newly denied", True),
        "curl b": ("newly denied", False),
        "rm y": ("newly allowed", False),
    }
    assert (denied["curl a"]["changed"]["reason"], denied["rm y"]["changed"]["reason"]) == (
        [None, "no curl"],
        ["no rm", None],
    )
    assert people.out.splitlines()[-1] == (
        "16 decisions, 3 changed, 2 newly denied, 1 newly allowed, 1 false rejections, 4 succeeded"
    )
    assert people.out.count("false rejection: the call was made then, and succeeded") == 1


def test_a_share_of_false_rejections_can_be_held(record):
    guard(record, 'rm" or "curl" in command or "')
    record.config.unlink()
    record.hook("guard", 'WORD = "rm"\n' + GUARD.replace("if WORD in", 'if "curl" in command or WORD in'))

    codes = {share: against(record, "--max-false", share).code for share in ("25%", "0.25", "24.9%", "0")}

    assert codes == {"25%": 0, "0.25": 0, "24.9%": 3, "0": 3}


def test_without_results_no_share_can_be_held(project):
    guard(project, "rm")
    with Host.blocking(project.config, listeners=[Recorder(project.path / "session.jsonl")]) as host:
        host.before_tool({"tool": "bash", "arguments": {"command": "ls"}})

    done = against(project, "--max-false", "50%")

    assert done.code == 3
    assert "record after_tool, too" in done.err


def test_a_configuration_whose_hook_fails_is_no_success(record):
    (record.path / "guard.py").write_text("import sys; sys.exit(3)")

    done = against(record)

    assert done.code == 1
    assert "a hook failed, so this does not show what it would decide" in done.err


FUNCTION = """
import socket, tempfile
def decide(call):
    seen = []
    for what in ("mine.txt", "/tmp/picohook-test-mine", tempfile.gettempdir() + "/mine"):
        try:
            open(what, "w").close()
            seen.append("written")
        except OSError:
            seen.append("refused")
    try:
        socket.create_connection(("127.0.0.1", PORT), 1).close()
        seen.append("connected")
    except OSError:
        seen.append("refused")
    return {"action": "deny_tool", "reason": " ".join(seen)}
"""
SCRIPT = """
for what in mine.txt /tmp/picohook-test-mine ${TMPDIR:-/tmp}/mine /dev/tcp/127.0.0.1/PORT; do
  if (: > $what) 2>/dev/null; then seen="$seen written"; else seen="$seen refused"; fi
done
printf '{"action": "deny_tool", "reason": "%s"}' "${seen# }"
"""


@pytest.mark.parametrize("kind", ["run", "python"])
def test_hooks_have_their_effects_only_when_that_is_wanted(record, kind, listening):
    (record.path / "writes.py").write_text(FUNCTION.replace("PORT", str(listening)))
    (record.path / "writes.sh").write_text(SCRIPT.replace("PORT", str(listening)))
    runs = {"run": "bash writes.sh", "python": "writes:decide"}[kind]
    record.config.write_text(f'[hooks.writes]\n{kind} = "{runs}"\nstages = ["before_tool"]\n')

    confined, free = (
        against(record, "--json", *more).lines[0]["changed"]["reason"][1].replace("connected", "written")
        for more in ((), ("--effects",))
    )

    assert (confined, free) == ("refused refused written refused", "written written written written")


def test_a_function_of_a_configuration_that_was_found_and_is_trusted_is_asked(record):
    (record.path / "judge.py").write_text('def decide(call):\n    return {"action": "deny_tool", "reason": "no"}')
    record.config.write_text('[hooks.judge]\npython = "judge:decide"\nstages = ["before_tool"]\n')
    record.env["HOME"] = str(record.path / "home")
    assert record("trust").code == 0

    done = record("replay", "session.jsonl", "--json")

    assert (done.lines[-1]["newly_denied"], done.lines[-1]["failed"]) == (5, 0)


@pytest.fixture
def listening():
    """The port of a socket that accepts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_hook_that_cannot_be_confined_is_left_out_and_named(record):
    with record.config.open("a") as file:
        file.write(
            '[hooks.judge]\nprompt = "fine?"\nstages = ["before_tool"]\n[model]\nbase_url = "http://127.0.0.1:9/"\nname = "m"\n'
        )

    done = against(record)

    assert "judge is not asked, because it runs no program that a sandbox can hold: give --effects" in done.err
    assert done.code == 0


def test_a_hook_in_shadow_decides_nothing_in_a_back_test_either(record):
    guard(record, "curl", mode="shadow")

    done = against(record, "--max-false", "0")

    assert "guard is not asked, because it is in shadow, and decides nothing" in done.err
    assert "newly denied" not in done.out


def test_what_may_depend_on_the_machine_is_counted_apart(record):
    guard(record, "git")

    done = against(record, "--json", "--max-false", "0")

    pushed = next(one for one in done.lines if one.get("kind") == "newly denied")
    assert pushed["state"] == "it uses git, whose state is another now"
    assert (done.lines[-1]["stateful"], done.lines[-1]["false_rejections"]) == (1, 0)


# The history of agents.


@pytest.fixture
def history(project):
    """A project whose user has transcripts of Claude Code."""
    project.env["HOME"] = str(project.path / "home")
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        project.env.pop(name, None)
    calls = made.claude(
        ("ok", "Bash", {"command": "ls"}, False, "a"),
        ("secret", "Bash", {"command": f"curl -H 'token: {made.SECRET}'"}, False, "a"),
        ("bad", "Bash", {"command": "curl b"}, True, "Exit code 1"),
        ("denied", "Bash", {"command": "rm x"}, True, "PreToolUse:Bash hook error: no rm"),
        ("open", "Bash", {"command": "curl c"}),
        cwd=str(project.path),
    )
    made.put(project.path / "home/.claude/projects/p/S1.jsonl", made.lines(*calls))
    return project


def test_a_history_is_asked_about_without_any_record(history):
    guard(history, "curl")

    done = history("replay", "--history", "claude", "--since", "2026-01-01", "--against", "picohook.toml", "--json")

    *found, numbers = done.lines
    assert done.code == 1
    assert [(one["kind"], one.get("false_rejection", False)) for one in found] == [
        ("newly denied", True),
        ("newly denied", False),
        ("newly allowed", False),
        ("newly denied", False),
    ]
    assert found[2]["changed"]["reason"][0] == "PreToolUse:Bash hook error: no rm"
    assert (numbers["decisions"], numbers["false_rejections"], numbers["succeeded"]) == (5, 1, 2)
    assert made.SECRET not in done.out


def test_a_call_that_is_denied_as_then_has_not_changed_whatever_the_agent_said_of_it(history):
    guard(history, "rm")

    done = history("replay", "--history", "claude", "--against", "picohook.toml", "--same")

    assert (done.code, done.out) == (0, "5 decisions, 0 changed, 2 succeeded\n")


def test_approvers_decide_about_a_call_of_a_history_too(history):
    answer = 'def approve_tool(params):\n    return {"approved": "ls" in params["arguments"]["command"]}'
    history.hook("approver", answer, stages="approve_tool")

    done = history("replay", "--history", "claude", "--against", "picohook.toml", "--json")

    assert (done.lines[-1]["newly_denied"], done.lines[-1]["newly_allowed"]) == (3, 0)


def test_an_edit_is_shown_as_a_difference(history):
    history.hook(
        "edits",
        'def before_tool(params):\n    return {"action": "modify", "patch": {"arguments": {"command": "true"}}}',
    )

    done = history("replay", "--history", "claude", "--against", "picohook.toml")

    assert 'payload arguments.command: "ls" → "true"' in " ".join(done.out.split())


def test_a_call_about_which_a_guard_would_ask_a_person_is_newly_asked_and_not_denied(history):
    pytest.importorskip("tree_sitter_bash")
    key = {"file_path": str(history.path / "a.py"), "content": "KEY = 'AKIAABCDEFGHIJKLMNOP'"}
    lines = made.lines(*made.claude(("key", "Write", key, False, "written"), cwd=str(history.path)))
    made.put(history.path / "home/.claude/projects/p/S1.jsonl", lines)
    history.config.write_text("[guards]\n")

    done = history("replay", "--history", "claude", "--against", "picohook.toml", "--json", "--max-false", "0")

    one, numbers = done.lines
    assert (done.code, one["kind"], one.get("false_rejection", False)) == (0, "newly asked", False)
    assert (numbers["newly_asked"], numbers["newly_denied"], numbers["changed_otherwise"]) == (1, 0, 0)


def test_a_call_that_was_denied_because_nobody_could_be_asked_has_not_changed(project):
    pytest.importorskip("tree_sitter_bash")
    project.config.write_text("[guards]\n")
    key = {"file_path": str(project.path / "a.py"), "content": "KEY = 'AKIAABCDEFGHIJKLMNOP'"}
    with Host.blocking(project.config, listeners=[Recorder(project.path / "session.jsonl")]) as host:
        assert host.before_tool({"tool": "Write", "arguments": key}).action == "deny_tool"

    done = against(project, "--same")

    assert (done.code, done.out) == (0, "1 decision, 0 changed\n")


def test_guards_are_asked_in_a_back_test_and_need_no_sandbox(history):
    pytest.importorskip("tree_sitter_bash")
    history.config.write_text("[guards]\n")

    done = history("replay", "--history", "claude", "--against", "picohook.toml", "--json")

    assert "sandbox" not in done.err
    assert (done.lines[-1]["decisions"], done.lines[-1]["failed"]) == (5, 0)
