"""The verdict about what was seen along a way."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from rows import each

from picohook.ext.drill.agents import AGENTS
from picohook.ext.drill.ways import WAYS, Seen, Way, judged

ASKED = {"asked": ["hook"], "codes": [0]}
RUNS, REFUSED = Seen("m-0-ask", ran=True, **ASKED), Seen("m-1-refuse", asked=["hook"], codes=[2])


@each(
    ("calls", "verdict", "seen"),
    [
        ([RUNS, REFUSED], "guarded", "hook was asked about each call, and none ran that was refused"),
        ([Seen("m-0-ask", **ASKED), REFUSED], "guarded", "your hook itself kept one from running"),
        ([Seen("m-0-ask", ran=True), REFUSED], "unguarded", "no hook was asked"),
        ([RUNS, Seen("m-1-refuse", ran=True, asked=["hook"], codes=[2])], "unguarded", "that hook had refused"),
        ([RUNS, Seen("m-1-refuse", ran=True)], "unguarded", "no hook was asked"),
        ([Seen("m-0-ask", ran=True, asked=["hook"], codes=[127]), REFUSED], "unguarded", "its exit code was 127"),
        ([Seen("m-0-ask", ran=True, asked=["hook", "other"], codes=[0, 1]), REFUSED], "unguarded", "exit code was 1"),
        # Nothing ran, and nothing was asked: that proves nothing.
        ([RUNS, Seen("m-1-refuse", said="no such tool")], "inconclusive", "did not make a call: no such tool"),
        ([Seen("m-0-ask")], "inconclusive", "did not make a call: the agent's last words"),
        # A failure of the drill is never a guard.
        (
            [RUNS, Seen("m-1-refuse", asked=["hook"], faults=["OSError()"])],
            "inconclusive",
            "the drill failed: OSError()",
        ),
        ([Seen("m-0-ask", ran=True, faults=["OSError()"])], "inconclusive", "the drill failed"),
        # Hooks that fail.
        ([Seen("m-0-missing", asked=["hook"], codes=[2])], "guarded", "did not run when its program was missing"),
        ([Seen("m-0-missing", ran=True, asked=["hook"], codes=[127])], "unguarded", "failed: its program was missing"),
        ([Seen("m-0-missing", ran=True, asked=["hook"], codes=[0])], "unguarded", "failed: its program was missing"),
        ([RUNS, Seen("m-1-killed", ran=True, asked=["hook"], codes=[-9])], "unguarded", "failed: it was killed"),
        ([RUNS, Seen("m-1-killed", ran=True, **ASKED)], "inconclusive", "answered before it could fail"),
        ([Seen("m-0-late", asked=["hook"])], "guarded", "did not run when its time-out passed"),
        ([Seen("m-0-late", ran=True, asked=["hook"])], "unguarded", "failed: its time-out passed"),
    ],
)
def test_a_way_is_guarded_only_if_hooks_were_asked_about_each_call_and_obeyed(calls, verdict, seen):
    way = judged("main", calls, "the agent's last words\n")
    assert (way.verdict, seen in way.seen) == (verdict, True), way.seen


def test_a_way_that_no_hook_can_guard_does_not_fail():
    assert Way("late", "unguarded", "").fails
    assert not Way("late", "unguarded", "", known="there is a way out").fails
    assert not Way("late", "inconclusive", "").fails


def test_the_page_has_the_results_of_make_agents():
    folder = Path(__file__).parents[2] / "agents"
    table = runpy.run_path(str(folder / "drill_table.py"))
    assert table["page"]() == table["PAGE"].read_text(encoding="utf-8"), "python tests/agents/drill_table.py"
    drills = json.loads((folder / "drills.json").read_text(encoding="utf-8"))
    for name, agent in AGENTS.items():
        assert (drills[name]["version"], [*drills[name]["ways"]]) == (agent.tried[-1], [*WAYS])
