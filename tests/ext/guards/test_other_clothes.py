"""Guards read a call in other clothes as they read it plain: what bash runs is what was read, or the call is undecided."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from zlib import crc32

import guard_corpus
import pytest
import ran

from picohook.ext.guards import mutate
from picohook.ext.guards.judge import ALL, Judge, Place, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLACE = Place("/home/dev/shop", "/home/dev/shop", home="/home/dev")
JUDGE = Judge(ALL)
PROGRAMS = {"zap", "zop", "zip", "zup"}
"""Programs that nobody has."""
FUNCTIONS = {"f9", "f", "check", "bomb"}
"""Functions of lines of the corpus."""
LINES = [
    "zap -rf ~/data",
    "zap 'a b' \"c d\" ..",
    "for f in a b; do zap $f; done",
    "zap $(zop 1) | zip `zup`",
    "zap >out <in; zop -- -x",
    'f() { zap "$1"; }; f hello',
    "x=1; zap $x ${x:-2} {a,b}{1,2}",
    "x=1; zap a`zup`/b'c'$x\\;",
    "case a in a|b) zap 1;; esac",
    "zap a | zop b > f c",
    "cd /tmp && zap -x || zop",
]


def judged(command: str) -> Verdict:
    return JUDGE.judge("Bash", {"command": command}, PLACE)


def examples(kind: str) -> Iterator[tuple[str, str]]:
    """Yields the rules' own examples that are commands, each with the rule's id."""
    for rule in JUDGE.rules:
        for example in getattr(rule, kind):
            if example.tool == "Bash" and example.arguments.keys() == {"command"}:
                yield rule.id, example.arguments["command"]


def test_a_harmful_example_is_stopped_in_all_clothes() -> None:
    passed = []
    for rule, command in examples("harmful"):
        worn = list(mutate.alone(command))
        seed = crc32(command.encode())
        some = [worn[(seed + step) % len(worn)] for step in range(0, len(worn), 7)]
        for name, text in [
            *some,
            *((str(names), text) for names, text in (mutate.together(command, seed + n) for n in range(3))),
        ]:
            if judged(text).decision == "continue":
                passed.append((rule, name, text))
    assert passed == []


def test_a_harmless_example_passes_in_the_clothes_of_every_day() -> None:
    stopped = []
    for rule, command in examples("harmless"):
        worn = list(mutate.alone(command, mutate.HARMLESS))
        seed = crc32(command.encode())
        for name, text in (worn[(seed + step) % len(worn)] for step in range(0, len(worn), 4)):
            verdict = judged(text)
            if verdict.decision != "continue":
                stopped.append((rule, name, text, verdict.rule, verdict.why))
    assert stopped == []


def is_read(call: list[str], verdict: Verdict) -> bool:
    """Whether the verdict's reading has this call, or says that something in it cannot be known."""
    if verdict.reading.doubts:
        return True
    for command in verdict.reading.commands:
        words = [word.text for word in command.words]
        same = words[1:] == call[1:] or not all(word.known for word in command.words)
        if words and PurePath(words[0]).name == call[0] and same:
            return True
    return False


@pytest.mark.skipif(not ran.can_run(), reason="needs bash, and bubblewrap for a container")
def test_what_bash_runs_is_what_was_read(tmp_path: Path) -> None:
    texts = list(LINES)
    for place, line in enumerate(LINES):
        worn = [text for _, text in mutate.alone(line)]
        texts += worn if place == 0 else worn[place::4]
        texts += [mutate.together(line, seed)[1] for seed in range(8)]
    calls = ran.run(texts, PROGRAMS, tmp_path)

    unread = [
        (text, call)
        for text, found in zip(texts, calls, strict=True)
        for verdict in [judged(text)]
        for call in found
        if call[0] in PROGRAMS and not is_read(call, verdict)
    ]
    assert unread == []


@pytest.mark.skipif(not shutil.which("shfmt"), reason="needs shfmt")
def test_a_second_parser_sees_no_command_that_was_not_read() -> None:
    rows = [row for row in guard_corpus.rows() if row["tool"] == "Bash"]
    unread = []
    for row in rows[::23]:
        text = row["arguments"]["command"]
        done = subprocess.run(["shfmt", "-tojson"], input=text, capture_output=True, text=True, check=False)
        verdict = judged(text)
        if done.returncode or verdict.reading.doubts:
            continue
        read = {PurePath(command.words[0].text).name for command in verdict.reading.commands if command.words}
        read |= {command.name for command in verdict.reading.commands}
        unread += [(text, name) for name in names_in(json.loads(done.stdout)) if PurePath(name).name not in read]
    assert unread == []


def names_in(node: Any) -> Iterator[str]:
    """Yields the names of commands that are plain words, at any depth of shfmt's tree, outside of functions."""
    if isinstance(node, dict):
        if node.get("Type") == "FuncDecl":
            return
        if node.get("Type") == "CallExpr" and node.get("Args"):
            parts = node["Args"][0]["Parts"]
            name = parts[0]["Value"] if len(parts) == 1 and parts[0]["Type"] == "Lit" else ""
            if name.replace("/", "").isalnum() and name not in FUNCTIONS:
                yield name
        for value in node.values():
            yield from names_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from names_in(value)
