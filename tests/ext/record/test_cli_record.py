"""`--record`, `picohook replay` and `picohook trace`, with real hooks."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess

import pytest
from program import in_terminal, reading

from picohook import Host, Meta, Recorder

GUARD = """
def event(params): pass
def before_tool(params):
    if params["arguments"]["n"] > %d:
        return {"action": "deny_tool", "reason": "too many"}
    return {"action": "modify", "patch": {"arguments": {"n": params["arguments"]["n"] * 2**70}}}
"""


def script(project, numbers):
    lines = [{"stage": "before_tool", "params": {"tool": "count", "arguments": {"n": n}}} for n in numbers]
    (project.path / "script.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def recorded(project, numbers=range(5), source=GUARD % 2):
    """A configuration with a guard, and a record of what it was asked."""
    project.hook("guard", source, observe=["*"])
    path = project.path / "session.jsonl"
    with Host.blocking(project.config, listeners=[Recorder(path)]) as host:
        host.emit_and_wait("turn_start", {"UserMessage": "hi"}, meta=Meta(turn_id="t1"))
        for n in numbers:
            host.before_tool({"tool": "count", "arguments": {"n": n}})
    return path


def replay(project, *arguments):
    return project("replay", "session.jsonl", *arguments)


@pytest.mark.parametrize(
    "command",
    [
        ("call", "before_tool", "--params", '{"tool": "count", "arguments": {"n": 9}}'),
        ("run", "script.jsonl"),
        ("replay", "session.jsonl"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_runs_hooks_records_them(project, command):
    recorded(project)
    script(project, range(5))

    done = project(*command, "--config", "picohook.toml", "--record", "again.jsonl")

    assert (done.code, done.err) == (0, "")
    assert stat.S_IMODE((project.path / "again.jsonl").stat().st_mode) == 0o600
    (denied,) = {item["why"] for item in project("trace", "again.jsonl", "--json").lines if item.get("why")}
    assert denied == "too many"


def test_a_replay_without_changes_says_so(project):
    recorded(project)

    done = replay(project, "--config", "picohook.toml")

    assert (done.code, done.out, done.err) == (0, "5 decisions, 0 changed\n", "")


def test_exactly_the_decisions_of_a_changed_policy_are_shown(project):
    recorded(project)
    project.config.unlink()
    project.hook("guard", GUARD % 3)

    people = replay(project, "--config", "picohook.toml")
    programs = replay(project, "--config", "picohook.toml", "--json")

    assert people.code == programs.code == 1
    assert [mask(line[13:]) for line in people.out.splitlines()[:-1]] == [
        '#4   newly allowed  before_tool  count {"n": 3}',
        "#4     then  guard     deny_tool T  too many",
        "#4     now  guard      modify T",
        "#4     action          deny_tool → modify",
        "#4     reason          too many → -",
        f"#4     payload         arguments.n: 3 → {3 * 2**70}",
        "#4   = modify",
    ]
    assert people.out.splitlines()[-1] == "5 decisions, 1 changed, 1 newly allowed"
    one, summary = programs.lines
    assert (one["number"], one["name"], one["asked"]["arguments"]) == (4, "before_tool", {"n": 3})
    assert [(row["when"], row["hook"], row["action"]) for row in one["hooks"]] == [
        ("then", "guard", "deny_tool"),
        ("now", "guard", "modify"),
    ]
    assert one["kind"] == "newly allowed"
    assert one["changed"]["action"] == ["deny_tool", "modify"]
    assert one["changed"]["payload"][1]["arguments"] == {"n": 3 * 2**70}
    assert summary == {
        "decisions": 5,
        "changed": 1,
        "not_compared": 0,
        "newly_denied": 0,
        "newly_allowed": 1,
        "newly_asked": 0,
        "changed_otherwise": 0,
        "false_rejections": 0,
        "succeeded": 0,
        "stateful": 0,
        "failed": 0,
    }


def test_a_hook_that_fails_now_is_a_difference_even_if_the_chain_continues(project):
    recorded(project, range(2), "def event(params): pass")
    (project.path / "guard.py").write_text("import sys; sys.exit(3)")

    done = replay(project, "--config", "picohook.toml", "--json")

    assert done.code == 1
    assert done.lines[-1]["changed"] == 2
    assert done.lines[-1]["failed"] == 2
    assert done.lines[0]["changed"] == {"failed": [None, {"guard": "crashed"}]}
    assert "code 3" in done.lines[0]["hooks"][1]["text"]


def test_with_same_any_difference_counts(project):
    recorded(project)
    script_of_guard = project.path / "guard.py"
    script_of_guard.write_text(script_of_guard.read_text().replace("too many", "far too many"))

    lenient, differing = (replay(project, "--against", "picohook.toml", *more) for more in ((), ("--same",)))

    assert (lenient.code, differing.code) == (0, 1)
    assert differing.out.splitlines()[-1] == "5 decisions, 2 changed, 2 changed otherwise"


def test_a_replay_that_compares_nothing_fails(project):
    recorded(project, ())

    done = replay(project, "--config", "picohook.toml")

    assert (done.code, done.err) == (1, "Error: the record has no decision to compare\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--against", "picohook.toml", "--", "true"), "true cannot be read"),
        (("--history", "claude", "--against", "picohook.toml"), "give a RECORD, or --history AGENT"),
        (("--against", "picohook.toml", "--max-false", "much"), "must be a share of the calls, such as 0.5%, not much"),
        (("--record", "session.jsonl", "--config", "picohook.toml"), "this is the record that is replayed"),
    ],
)
def test_wrong_usage_of_a_replay_is_reported_and_changes_no_file(project, arguments, why):
    before = recorded(project).read_bytes()

    done = replay(project, *arguments)

    assert (done.code, done.out) == (2, "")
    assert why in done.err
    assert (project.path / "session.jsonl").read_bytes() == before


def test_a_damaged_record_is_refused_with_the_line_and_nothing_is_started(project):
    record = recorded(project)
    (project.path / "guard.py").write_text("open('started', 'w')")
    record.write_text(record.read_text().replace('"type":"close"', '"type":"cloze"'))

    for done in (replay(project, "--config", "picohook.toml"), project("trace", "session.jsonl")):
        assert done.code == 2
        assert "session.jsonl: line 23 is damaged: type: is not a line of a record" in done.err
    assert not (project.path / "started").exists()


def test_a_last_line_that_is_cut_off_is_skipped_with_a_note(project):
    record = recorded(project)
    whole = record.read_bytes()
    record.write_bytes(whole[: whole.rindex(b'{"type":"end"') + 20])

    done = replay(project, "--config", "picohook.toml")

    assert (done.code, done.out) == (0, "4 decisions, 0 changed, 1 not compared\n")
    assert done.err == "Warning: session.jsonl: the end is missing: the host was killed, or is still running\n"


def test_a_host_that_is_killed_leaves_a_record_of_what_it_did(project):
    project.hook("guard", "def before_tool(params):\n    if params['arguments']['n']: sys.stdin.read()\n    return {}")
    fifo = project.fifo("pipe")
    command = ("run", "-", "--config", "picohook.toml", "--record", "pipe")
    with reading(fifo) as pipe, project.start(*command, stdin=subprocess.PIPE) as process:
        for n in (0, 1):
            line = {"stage": "before_tool", "params": {"tool": "count", "arguments": {"n": n}}}
            process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        lines = []
        while sum('"type":"ask"' in line for line in lines) < 2:
            lines.append(pipe.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        lines.append(pipe.read())
    (project.path / "session.jsonl").write_text("".join(lines))

    done = project("trace", "session.jsonl")

    assert done.code == 0
    assert [line.split("#")[1].split(None, 1)[1] for line in done.out.splitlines()[-2:]] == [
        "guard           asked, and has not answered",
        "= has no end",
    ]
    assert "the end is missing" in done.err


def test_a_full_disk_affects_only_the_record_which_stays_readable(project):
    project.hook("guard", GUARD % 2)
    script(project, range(200))

    run = "ulimit -f 16; picohook run script.jsonl --config picohook.toml --record session.jsonl --json"
    done = project.shell(run, starts=True)
    traced = project("trace", "session.jsonl", "--json")

    assert done.code == 0
    assert done.err.count("the record cannot be written, and ends here") == 1
    assert traced.code == 0
    assert "the end is missing" in traced.err
    assert "cut off" not in traced.err
    assert 10 < len(traced.lines) < 200


# trace.


def test_a_timeline_shows_questions_answers_decisions_and_times(project):
    project.hook("audit", "def event(params): pass", observe=["turn_start"], stages="after_tool")
    project.hook("choosy", "", stages="before_tool", filter={})
    project.config.write_text(project.config.read_text().replace("filter = {}", 'filter = { tool = "web" }'))
    recorded(project, (1, 3))

    done = project("trace", "session.jsonl")

    assert done.code == 0
    first, *rest = done.out.splitlines()
    assert first.startswith("recorded 20")
    shown = [line[13:] for line in rest]
    assert all(line[:13].strip() == "" or line[:13].endswith(" s  ") for line in rest)
    assert [mask(line) for line in shown] == [
        '     turn_start  → audit, guard  {"UserMessage": "hi"}',
        '#1   before_tool  count {"n": 1}',
        f"#1     guard           modify T  arguments.n: 1 → {2**70}",
        "#1     choosy          not asked: its filter",
        "#1   = modify T",
        '#2   before_tool  count {"n": 3}',
        "#2     guard           deny_tool T  too many",
        "#2     choosy          not asked: its filter",
        "#2   = deny_tool T  too many",
        "     the host ended",
    ]


def mask(line):
    return re.sub(r" +\d+\.\d ms", " T", line)


def test_no_row_is_wider_than_the_terminal(project):
    project.hook("guard", "def before_tool(params): return {'action': 'deny_tool', 'reason': '\\x1b[31m漢字' * 99}")
    params = {"tool": "bash", "arguments": {"command": "x" * 500}}
    done = project(
        "call", "before_tool", "--params", json.dumps(params), "--config", "picohook.toml", "--record", "session.jsonl"
    )
    assert done.code == 0

    terminal = in_terminal(project, "trace", "session.jsonl", COLUMNS="80", NO_COLOR="1")

    rows = terminal.splitlines()
    assert len(rows) == 5
    assert all(sum(1 + (ord(sign) > 0x2E80) for sign in row) <= 80 for row in rows)
    assert "\x1b" not in terminal
    assert sum(row.endswith("…") for row in rows) == 3


def test_a_record_for_programs_has_each_chain_whole(project):
    recorded(project, (1, 3))

    done = project.shell("cat session.jsonl | picohook trace - --json")

    event, modified, denied, _ = done.lines
    assert (event["name"], event["asked"]["payload"], event["asked"]["meta"]) == (
        "turn_start",
        {"UserMessage": "hi"},
        {"TurnID": "t1"},
    )
    assert (modified["name"], modified["asked"]["arguments"], modified["verdict"]) == (
        "before_tool",
        {"n": 1},
        "modify",
    )
    assert modified["hooks"][0]["changes"] == [f"arguments.n: 1 → {2**70}"]
    (guard,) = denied["hooks"]
    assert (guard["hook"], guard["action"], guard["text"]) == ("guard", "deny_tool", "too many")
    assert guard["at"] - guard["seconds"] == pytest.approx(denied["at"], abs=0.1)


def test_a_replay_reads_a_file_and_not_a_pipe(project):
    recorded(project)

    done = project.shell("cat session.jsonl | picohook replay - --config picohook.toml")

    assert done.code == 2
    assert "standard input can be read only once" in done.err
