"""Compares vendor mode with the agents' own programs: `make agents`.

    python tests/agents [--write] [PROGRAM...]

Tries each program that npm has installed here at the version of package.json: many answers of one hook before a tool and at a
prompt, and many matchers. Then it tries vendor mode with the same hook files, `picohook shim` with a guard that the agent's
calls attack, the same with `ask = "queue"`, where a test answers, and `picohook drill`. Ends with 1 if vendor mode lets a call
run that the program does not, if a call gets past the guard, if an answer in the queue does not decide, or if the program
differs from seen.json, or its drill from drills.json. The other tests read these files, and `--write` replaces them, and the
table in docs/how-to/drill.md. `--only drill` leaves out all but the drill, and `--only queue` all but the queue.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drill_table
from cases import ANSWERS, MATCHERS, PROMPTS
from drilled import drilled
from guarded import problems
from programs import HERE, PROGRAMS
from queued import problems_in_queue
from trying import (
    in_program,
    in_vendor_mode,
    matched_in_program,
    matched_in_vendor_mode,
    prompts_in_program,
)

if TYPE_CHECKING:
    from programs import Program

SEEN = Path(__file__).parent / "seen.json"


def installed(program: Program) -> str:
    """The version that is installed; empty without one."""
    try:
        text = (HERE / "node_modules" / program.package / "package.json").read_text(encoding="utf-8")
    except OSError:
        return ""
    return str(json.loads(text)["version"])


def tried(program: Program) -> dict[str, Any]:
    """What the program does, as seen.json has it."""
    prompts = {name: ANSWERS[name] for name in PROMPTS}
    return {
        "version": program.version,
        "answers": {
            **{event: _by_word(in_program(program, event, ANSWERS)) for event in program.events},
            program.prompt_event: _by_word(prompts_in_program(program, program.prompt_event, prompts)),
        },
        "matchers": {
            event: sorted(
                [str(matcher), call] for matcher, call in matched_in_program(program.at(event), event, MATCHERS)
            )
            for event in program.events
        },
    }


def _by_word(came: dict[str, str]) -> dict[str, list[str]]:
    """The answers by what came of them."""
    return {word: [name for name, one in came.items() if one == word] for word in sorted(set(came.values()))}


def compared(program: Program, seen: dict[str, Any]) -> int:
    """Compare vendor mode with what the program does, and print it. Returns in how many cases vendor mode is more open."""
    more_open = 0
    for event, words in seen["answers"].items():
        theirs = {name: word for word, names in words.items() for name in names}
        ours = asyncio.run(in_vendor_mode(program, event, {name: ANSWERS[name] for name in theirs}))
        other = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
        opened = {name: came for name, came in other.items() if came[1] != "nothing"}
        more_open += len(opened)
        alike = f"{len(theirs) - len(other)} of {len(theirs)} answers alike"
        say(program, f"{event}: {alike}; picohook alone denies {len(other) - len(opened)}, and lets {len(opened)} pass")
        for name, (their, our) in opened.items():
            say(program, f"  {name}: {their} in the program, {our} in vendor mode")
    for event, pairs in seen["matchers"].items():
        asked = {(matcher, call) for matcher, call in pairs}
        found = asyncio.run(matched_in_vendor_mode(program.at(event), event, MATCHERS))
        ours_asked = {(str(matcher), call) for matcher, call in found}
        missed, more = asked - ours_asked, len(ours_asked - asked)
        more_open += len(missed)
        alike = f"{2 * len(MATCHERS) - more - len(missed)} of {2 * len(MATCHERS)} matchers alike"
        say(program, f"{event}: {alike}; picohook alone asks {more} handlers, and does not ask {len(missed)}")
        for matcher, call in sorted(missed):
            say(program, f"  {matcher!r}: the program asks its handler about the call {call}")
    return more_open


def say(program: Program, what: str) -> None:
    """Print something about a program."""
    print(f"{program.name} {program.version}: {what}", flush=True)


def _vendor_mode_and_shim(program: Program, answers: dict[str, Any], *, write: bool) -> int:
    """Compare the program with seen.json, vendor mode with the program, and attack the shim. Returns how much is wrong."""
    seen, wrong = tried(program), 0
    if write:
        answers[program.name] = seen
        SEEN.write_text(json.dumps(answers, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    elif seen != answers.get(program.name):
        say(program, "it differs from seen.json: see git diff after --write")
        wrong += 1
    found = problems(program)
    wrong += compared(program, seen) + len(found)
    say(program, f"with the shim, {'; '.join(found) or 'no guarded call ran, and it ended'}")
    return wrong


def _queue(program: Program) -> int:
    """Answer the program's calls in the queue. Returns how much is wrong."""
    found = problems_in_queue(program)
    say(program, f"with the queue, {'; '.join(found) or 'the answers decided, and a call without one was denied'}")
    return len(found)


def _drill(program: Program, drills: dict[str, Any], *, write: bool) -> int:
    """Compare the program's drill with drills.json. Returns how much is wrong."""
    found = drilled(program)
    verdicts = (f"{name} {way['verdict']}" for name, way in found["ways"].items())
    say(program, f"its drill: {', '.join(verdicts)}")
    if write:
        drills[program.name] = found
        drill_table.DRILLS.write_text(json.dumps(drills, indent=1) + "\n", encoding="utf-8")
        drill_table.PAGE.write_text(drill_table.page(), encoding="utf-8")
    elif found != drills.get(program.name):
        say(program, "its drill differs from drills.json: see git diff after --write")
        return 1
    return 0


def main() -> int:
    """Compare the programs with this name, or all. Returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", choices=[[], *(program.name for program in PROGRAMS)])
    parser.add_argument("--write", action="store_true", help="replace seen.json by what the programs do")
    parser.add_argument("--only", choices=["drill", "queue"], help="try this alone")
    options = parser.parse_args()
    logging.disable()
    os.environ["SHELL"] = (
        "/bin/sh"  # Codex's hooks run in it, here as in the program: a hundred login shells of a user take minutes
    )
    recorded_answers = json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.exists() else {}
    drills = json.loads(drill_table.DRILLS.read_text(encoding="utf-8")) if drill_table.DRILLS.exists() else {}
    wrong = 0
    for program in PROGRAMS:
        if options.programs and program.name not in options.programs:
            continue
        version = installed(program)
        if version != program.version:
            say(program, f"not tried: {version or 'nothing'} is installed")
            continue
        if not options.only:
            wrong += _vendor_mode_and_shim(program, recorded_answers, write=options.write)
        if options.only != "drill":
            wrong += _queue(program)
        if options.only != "queue":
            wrong += _drill(program, drills, write=options.write)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
