"""What `picohook run` counts: for people, for programs and for Prometheus."""

from __future__ import annotations

import re
import subprocess

import pytest
from program import in_terminal, reading

ASK = '{"stage": "before_tool", "params": {"tool": "%s"}}'
TELL = '{"event": "turn_end"}'

MOODY = """
def before_tool(params):
    if params["tool"] == "wrong":
        return {"action": "no such action"}
    if params["tool"] == "crash":
        sys.exit(3)
    return {}
def event(params):
    pass
"""


@pytest.fixture
def moody(project):
    """A hook that fails in two ways, and one that a filter keeps from most."""
    project.hook("moody", MOODY, observe=["turn_end"], retry=1)
    project.hook("choosy", "", priority=900, filter={})
    project.config.write_text(project.config.read_text().replace("filter = {}", 'filter = { tool = "web" }'))
    return project


def run(project, *arguments, lines=(ASK % "web", ASK % "bash", TELL, ASK % "wrong")):
    (project.path / "script.jsonl").write_text("\n".join(lines) + "\n")
    return project("run", "script.jsonl", "--config", "picohook.toml", *arguments)


def test_a_program_gets_the_status_of_the_host_in_a_last_line(moody):
    done = run(moody, "--stats", "--json")

    assert (done.code, done.err) == (0, "")
    assert [line["line"] for line in done.lines[:-1]] == [1, 2, 3, 4]
    assert list(done.lines[-1]) == ["stats"]
    hooks = {hook["name"]: hook for hook in done.lines[-1]["stats"]["hooks"]}
    counts = hooks["moody"]["stages"]["before_tool"]
    assert {key: counts[key] for key in ("executions", "successes", "skipped", "retries")} == {
        "executions": 3,
        "successes": 2,
        "skipped": 0,
        "retries": 1,
    }
    assert sum(counts["failures"].values()) == 1
    assert 0 < counts["p50_ms"] <= counts["p95_ms"] <= counts["p99_ms"]
    assert counts["total_ms"] > 0
    assert (hooks["choosy"]["stages"]["before_tool"]["executions"], hooks["moody"]["starts"]) == (1, 1)
    assert hooks["choosy"]["stages"]["before_tool"]["skipped"] == 2


def test_people_get_tables_after_the_outcomes(moody):
    done = run(moody, "--stats")

    assert (done.code, done.err) == (0, "")
    outcomes, _, rest = done.out.partition("\nhook    stage")
    assert outcomes.startswith("line 1: before_tool")
    counts, times, hooks = (table.splitlines() for table in ("hook    stage" + rest).split("\n\n"))
    assert [row.split() for row in counts] == [
        ["hook", "stage", "asked", "ok", "skipped", "retries", "failed"],
        ["moody", "before_tool", "3", "2", "0", "1", "1", "reply"],
        ["choosy", "before_tool", "1", "1", "2", "0", "0"],
    ]
    assert times[0].split() == ["hook", "stage", "total", "p50", "p95", "p99"]
    assert re.fullmatch(r"moody +before_tool( +\d+\.\d ms){4}", times[1])
    assert re.fullmatch(r"choosy +before_tool( +\d+\.\d ms){4}", times[2])
    assert [row.split() for row in hooks] == [
        ["hook", "state", "restarts", "dropped", "events", "dropped", "lines"],
        ["moody", "ready", "0", "0", "0"],
        ["choosy", "ready", "0", "0", "0"],
    ]


def test_on_a_narrow_terminal_numbers_stay_whole(moody):
    (moody.path / "script.jsonl").write_text(ASK % "web" + "\n")
    command = ("run", "script.jsonl", "--config", "picohook.toml", "--stats")
    narrow = in_terminal(moody, *command, COLUMNS="50", NO_COLOR="1").replace("\r", "")
    assert re.search(r"p50 +p95 +p99\n", narrow)
    assert len(re.findall(r"( +\d+\.\d ms){4}\n", narrow)) == 2
    assert max(map(len, narrow.splitlines())) <= 50


def test_output_while_hooks_run_goes_to_the_right_stream(moody):
    coloured = in_terminal(moody, "call", "before_tool", "--config", "picohook.toml", "--params", '{"tool": "x"}')
    assert "\x1b[1;32mbefore_tool: continue" in coloured


def test_no_counts_are_shown_unless_asked_for(moody):
    assert "p95" not in run(moody).out
    assert "stats" not in run(moody, "--json").out


def test_restarts_and_stray_output_of_a_hook_are_counted(project):
    project.hook("crashing", 'print("noise", flush=True)\n' + MOODY)

    done = run(project, "--stats", lines=(ASK % "crash", ASK % "x"))

    *_, row = done.out.splitlines()
    assert row.split() == ["crashing", "ready", "1", "0", "2"]
    assert re.search(r"crashing +before_tool +2 +1 +0 +0 +1 crashed\n", done.out)


def test_events_that_did_not_reach_a_hook_are_counted(project):
    project.hook("dead", "sys.exit(3)", stages=[], observe=["*"], restart={})
    project.config.write_text(project.config.read_text().replace("restart = {}", "restart = { max_starts = 1 }"))

    done = run(project, "--stats", lines=(TELL, TELL))

    header, row = done.out.splitlines()[-2:]
    assert row.split() == ["dead", "failed", "0", "2", "0"]
    assert header.startswith("hook")


def test_a_bad_line_does_not_hide_the_stats(moody):
    done = run(moody, "--stats", "--json", lines=(ASK % "web", "{"))
    assert done.code == 1
    assert "stats" in done.lines[-1]


def test_prometheus_gets_the_same_in_a_file(moody):
    done = run(moody, "--prometheus", "hooks.prom", "--stats", "--json")

    assert done.code == 0
    text = (moody.path / "hooks.prom").read_text()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    (moody_status,) = [hook for hook in done.lines[-1]["stats"]["hooks"] if hook["name"] == "moody"]
    counts = moody_status["stages"]["before_tool"]
    labels = 'hook="moody",stage="before_tool"'
    assert float(samples[f"picohook_executions_total{{{labels}}}"]) == counts["executions"]
    assert float(samples[f"picohook_duration_seconds_sum{{{labels}}}"]) == pytest.approx(counts["total_ms"] / 1000)
    assert float(samples['picohook_skipped_total{hook="choosy",stage="before_tool"}']) == 2
    assert float(samples['picohook_starts_total{hook="moody"}']) == 1
    assert [path.name for path in moody.path.iterdir() if "prom" in path.name] == ["hooks.prom"]
    assert (moody.path / "hooks.prom").stat().st_mode & 0o777 == 0o644


def test_prometheus_gets_it_on_standard_output_after_the_data(moody):
    done = run(moody, "--prometheus", "-", "--json")
    data, _, text = done.out.partition("# HELP ")
    assert data.count("\n") == 4
    assert 'picohook_up{hook="moody"} 1.0\n' in text


def test_prometheus_gets_it_through_a_pipe(moody):
    fifo = moody.fifo("pipe")
    (moody.path / "script.jsonl").write_text(TELL + "\n")
    command = ("run", "script.jsonl", "--config", "picohook.toml", "--prometheus", "pipe")
    with moody.start(*command, stdout=subprocess.DEVNULL) as process, reading(fifo) as pipe:
        assert process.wait(timeout=30) == 0
        assert pipe.read().startswith("# HELP picohook_up")
    assert fifo.is_fifo()


@pytest.mark.parametrize("path", ["nowhere/hooks.prom", "."])
def test_a_file_that_cannot_be_written_is_a_failure_after_the_data(moody, path):
    done = run(moody, "--prometheus", path, "--json")
    assert done.code == 1
    assert len(done.lines) == 4
    assert f"Error: {path} cannot be written: " in done.err
