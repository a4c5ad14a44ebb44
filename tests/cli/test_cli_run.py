from __future__ import annotations

import json
import os
import subprocess

import pytest
from program import read_line

ASK = '{"stage": "before_tool", "params": {"tool": "bash", "arguments": {"n": %d}}}'

ECHO = """
def before_tool(params):
    return {"action": "deny_tool", "reason": str(params["arguments"]["n"])}
"""
JOURNAL = """
def note(*words):
    with open("journal", "a") as file:
        print(*words, file=file)
def before_tool(params):
    note("asked", params["tool"])
    return {}
def event(params):
    note("told", params["Kind"], params["Meta"]["TurnID"], params["Payload"])
"""


def run(project, *arguments, **options):
    return project("run", *arguments, "--config", "picohook.toml", **options)


def script(project, *lines, end="\n"):
    (project.path / "script.jsonl").write_text("\n".join(lines) + end)
    return "script.jsonl"


def test_each_outcome_is_one_line_of_json_in_the_order_of_the_script(project):
    project.hook("echo", ECHO)
    lines = [ASK % 1, "", '{"event": "turn_end"}', "  \r", ASK % 2 + "\r", ASK % 3]

    done = run(project, script(project, *lines, end=""), "--json")

    assert (done.code, done.err) == (0, "")
    assert [(line["line"], line.get("reason", line.get("event"))) for line in done.lines] == [
        (1, "1"),
        (3, "turn_end"),
        (5, "2"),
        (6, "3"),
    ]
    assert list(done.lines[0]) == ["line", "stage", "action", "payload", "reason", "trail"]
    assert done.lines[1] == {"line": 3, "event": "turn_end"}


def test_people_see_each_outcome_under_the_number_of_its_line(project):
    project.hook("echo", ECHO)

    done = run(project, script(project, '{"event": "turn_start"}', ASK % 7))

    assert done.code == 0
    assert done.out.splitlines()[:3] == ["line 1: turn_start", "line 2: before_tool: deny_tool", "  reason  7"]


def test_bad_lines_are_named_with_their_numbers_and_the_rest_still_runs(project):
    project.hook("echo", ECHO)
    bad = [
        ('{"stage": "before_tool", "params"}', "column 34: is not JSON: Expecting ':' delimiter"),
        ("[]", "must be an object, not a list"),
        ('{"tool": "bash"}', 'has to have one of "stage" and "event"'),
        ('{"stage": "befor_tool"}', 'stage: "befor_tool" is not a stage (did you mean "before_tool"?)'),
        ('{"stage": "before_tool", "params": {"tool": 1}}', "params.tool: must be a string, not the number 1"),
        ('{"stage": "before_tool", "parms": {}}', 'parms: unknown key (did you mean "params"?)'),
        ('{"event": "turn_stat"}', 'event: "turn_stat" is not an event (did you mean "turn_start"?)'),
        ('{"event": "agent.turn.stat"}', 'event: "agent.turn.stat" is not an event (did you mean "agent.turn.start"?)'),
        ('{"event": "xyz"}', 'event: "xyz" is not an event (known: turn_start, turn_end, '),
        ('{"event": "before_tool"}', 'event: "before_tool" is not an event'),
        ('{"stage": "turn_start"}', 'stage: "turn_start" is not a stage'),
        ('{"stage": "before_tool", "event": "turn_start"}', 'has to have one of "stage" and "event"'),
        ('{"event": "turn_start", "meta": {"Turn": 1}}', 'meta.Turn: unknown key (did you mean "TurnID"?)'),
        ('{"event": "turn_start", "payload": {"x": 1e999}}', "payload: the payload cannot be sent as JSON"),
        ('{"stage": "before_tool", "params": {"tool": "\\ud800"}}', "half of a surrogate pair"),
        ('{"event": "turn_start", "event": "turn_end"}', "event: is given twice"),
    ]
    name = script(project, ASK % 1, *(line for line, _ in bad), ASK % 2)

    people = run(project, name)
    programs = run(project, name, "--json")

    assert people.code == programs.code == 1
    said = [line for line in people.err.splitlines() if line.startswith("Error")]
    for (number, (_, why)), human, machine in zip(enumerate(bad, 2), said, programs.lines[1:-1], strict=True):
        assert human.startswith(f"Error: script.jsonl: line {number}: ")
        assert why in human
        assert machine["line"] == number
        assert why in machine["error"]
        assert "line" not in machine["error"].removeprefix("column")
    assert [line.get("reason") for line in (programs.lines[0], programs.lines[-1])] == ["1", "2"]


def test_events_and_questions_reach_a_hook_in_the_order_of_the_script(project):
    project.hook("journal", JOURNAL, observe=["*"])
    lines = [
        '{"event": "turn_start", "payload": {"UserMessage": "hi"}, "meta": {"TurnID": "t1"}}',
        '{"stage": "before_tool", "params": {"tool": "a"}}',
        '{"event": "agent.tool.exec_end", "meta": {"TurnID": "t1"}}',
        '{"stage": "before_tool", "params": {"tool": "b"}}',
        '{"event": "turn_end"}',
    ]

    done = run(project, script(project, *lines), "--json")

    assert done.code == 0
    assert (project.path / "journal").read_text().splitlines() == [
        "told turn_start t1 {'UserMessage': 'hi'}",
        "asked a",
        "told tool_exec_end t1 {}",
        "asked b",
        "told turn_end  {}",
    ]


def test_an_event_that_did_not_reach_its_hook_is_a_warning(project):
    project.hook("dead", "sys.exit(3)", stages=[], observe=["*"], restart={})
    project.config.write_text(project.config.read_text().replace("restart = {}", "restart = { max_starts = 1 }"))

    done = run(project, script(project, '{"event": "turn_end"}'))

    assert done.code == 0
    assert "Warning: dead: 1 events did not reach it\n" in done.err


def test_an_outcome_is_shown_before_the_next_line_is_there(project):
    project.hook("echo", ECHO)

    with project.start("run", "-", "--config", "picohook.toml", "--json", stdin=subprocess.PIPE) as process:
        for number in (1, 2, 3):
            process.stdin.write(ASK % number + "\n")
            process.stdin.flush()
            assert json.loads(read_line(process.stdout))["reason"] == str(number)
        process.stdin.close()
        assert process.wait() == 0
        assert process.stdout.read() == ""


def test_a_script_may_be_a_pipe_or_a_file_that_an_event_loop_cannot_wait_for(project):
    project.hook("echo", ECHO)
    script(project, ASK % 1)

    pipe = project.shell("picohook run <(cat script.jsonl) --config picohook.toml --json", starts=True)
    done = project.shell("""
        picohook run - --config picohook.toml --json < script.jsonl &&
        picohook run /dev/null --config picohook.toml --json
    """)

    assert (pipe.code, pipe.err, done.code, done.err) == (0, "", 0, "")
    assert [line["reason"] for line in (*pipe.lines, *done.lines)] == ["1", "1"]


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_script_that_cannot_be_read_is_wrong_usage(project, name):
    project.hook("marker", "open('started', 'w')")

    done = run(project, name)

    assert (done.code, done.out) == (2, "")
    assert f"Error: Invalid value: {name} cannot be read: " in done.err
    assert not os.path.exists(project.path / "started")
