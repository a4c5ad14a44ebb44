"""Vendor mode against what the vendors' own programs did: `make agents` has recorded it in tests/agents/seen.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pure import META, Said, verdict_of

from picohook import Modify, Prompt, ToolCall
from picohook.errors import HookError
from picohook.ext.vendors.contract import Facts, Rule
from picohook.ext.vendors.dialects import vendor_named
from picohook.model.decisions import Continue

sys.path.append(str(Path(__file__).parents[2] / "agents"))

from cases import ANSWERS, MATCHERS
from programs import HERE, PROGRAMS

SEEN = json.loads((HERE / "seen.json").read_text(encoding="utf-8"))
BY_NAME = {program.name: program for program in PROGRAMS}
TRIED = [(name, event) for name, seen in SEEN.items() for event in seen["answers"]]
MATCHED = [(name, event) for name, seen in SEEN.items() for event in seen["matchers"]]
FEWEST_ALIKE = 330
"""Of the answers before a tool. In the others, picohook denies and the program does not."""


def ours(program, event, name):
    """What vendor mode makes of an answer: the word that seen.json has for it."""
    own, other = ({program.command: command, **program.more} for command in ("a", "b"))
    shown = {program.shown: "b", **program.more}
    answer = ANSWERS[name].of(event, shown)
    said = Said(answer.stdout, answer.code, answer.stderr)
    is_prompt = event == program.prompt_event
    payload = Prompt(prompt="hello", meta=META) if is_prompt else ToolCall(tool=program.shell, arguments=own, meta=META)
    try:
        verdict = verdict_of(event, said, dialect=program.dialect, failures="vendor", payload=payload)
    except HookError:
        return "nothing"
    if isinstance(verdict.decision, Modify) and not is_prompt and not verdict.asks:
        arguments = verdict.decision.changes["arguments"]
        runs = {other[program.command]: "changed", None: "nothing", own[program.command]: "as it was"}
        return runs[arguments.get(program.command)]
    return "as it was" if isinstance(verdict.decision, Continue | Modify) and not verdict.asks else "nothing"


@pytest.mark.parametrize(("name", "event"), TRIED)
def test_A18_no_answer_lets_a_call_run_that_the_program_does_not_make(name, event):
    theirs = {one: word for word, names in SEEN[name]["answers"][event].items() for one in names}
    made = {one: ours(BY_NAME[name], event, one) for one in theirs}
    other = {one: (theirs[one], made[one]) for one in theirs if made[one] != theirs[one]}
    assert {one: words for one, words in other.items() if words[1] != "nothing"} == {}
    assert len(theirs) - len(other) >= (FEWEST_ALIKE if len(theirs) == len(ANSWERS) else len(theirs) - 1)


@pytest.mark.parametrize(("name", "event"), MATCHED)
def test_A18_a_handler_is_asked_about_each_call_that_the_program_asks_it_about(name, event):
    program = BY_NAME[name].at(event)
    dialect = vendor_named(program.dialect)
    made = {"shell": program.call("c1", "ls"), "write": program.call_of_write("c2", "a")}
    calls = {name: ToolCall(tool=tool, arguments=arguments, meta=META) for name, (_, tool, arguments) in made.items()}
    for matcher in MATCHERS:
        text = (matcher or "").replace("SHELL", program.matched).replace("WRITE", program.write)
        for call, payload in calls.items():
            told = dialect.encode(event, payload, Facts(project="/project"))
            asked = dialect.select(event, [Rule(at="h", matcher=text)], told, Facts())
            assert asked or [str(matcher), call] not in SEEN[name]["matchers"][event], (matcher, call)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_record_and_the_dialect_are_of_the_pinned_version(program):
    assert SEEN[program.name]["version"] == program.version
    assert program.version in vendor_named(program.dialect).version


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_A18_a_matcher_counts_for_nothing_at_a_prompt_and_one_that_cannot_be_read_matches(name):
    dialect = vendor_named(name)
    told = dialect.encode("UserPromptSubmit", Prompt(prompt="hello", meta=META), Facts())
    assert dialect.select(
        "UserPromptSubmit", [Rule(at="h", matcher="["), Rule(at="h", matcher="Other")], told, Facts()
    ) == [0, 1]
