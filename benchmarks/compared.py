"""picohook beside others, in the same rounds: each side is a process that asks a hook, on the same processor core as its hook.

The sides take turns in each round. So a machine that is slow for a while is slow for all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from .measure import Row, Times, alternate, micros, on_one_core

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .given import Given

ROOT = Path(__file__).parents[1]
ANSWERS = {"continue": [], "deny": ["deny"], "edit": ["edit"]}
"""What the compiled hook is given to answer this. Reason and argument are another one in each answer."""
OURS = {
    "plain asyncio": ("plain", "picohook-asyncio"),
    "plain uvloop": ("plain", "picohook-uvloop"),
    "plain trio": ("plain", "picohook-trio"),
    "compiled asyncio": ("compiled", "picohook-asyncio"),
    "compiled uvloop": ("compiled", "picohook-uvloop"),
    "compiled trio": ("compiled", "picohook-trio"),
    "plain uvloop, collected rarely": ("plain", "rarely-uvloop"),
    "compiled uvloop, collected rarely": ("compiled", "rarely-uvloop"),
}
LEAST = {f"least {loop}": ("plain", f"least-{loop}") for loop in ("asyncio", "uvloop", "trio")}
GO, GO_HOOK = "go", "go hook"
"""PicoClaw's host as its agent loop calls it, and its process hook alone."""
WAYS_OF_GO = {GO: "host", GO_HOOK: "hook"}
"""Its calls of a session say so, and it needs no more for one."""
MANY, SESSIONS, OF_EACH = 64, 2000, 20
TURNS = 15
"""Turns of each side in a round, see `Times.quiet`."""
ONCE = ("plain asyncio", "plain uvloop", "compiled asyncio", "compiled uvloop", GO, GO_HOOK)
"""The sides that also answer many questions at once."""
PEER = "cmd/picohook_benchmark"


class Side:
    """A process that asks questions when it is told to."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    def ask(self, way: str, count: int, at_once: int = 1) -> float:
        """The seconds of one question of so many."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{way} {count} {at_once}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._process.args} ended")
        return float(answer)

    def close(self) -> None:
        """End it, and its hook."""
        self._process.communicate()


@dataclass
class Compared:
    """What the sides took, in the same rounds."""

    one: dict[str, Times] = field(default_factory=dict)
    """For each answer, the time of one question after another."""
    many: dict[str, Times] = field(default_factory=dict)
    """For each answer, the time of one of many at once."""
    sessions: Times = field(default_factory=lambda: Times({}))
    """The time of one question, of two thousand sessions that ask at once."""
    apart: Times = field(default_factory=lambda: Times({}))
    """One question to a tool of the MCP SDK, and to a process that is started for it."""
    session_bytes: float = 0
    peer: str = ""
    """The commit of PicoClaw."""

    def figures(self) -> dict[str, object]:
        """All of it, as JSON."""
        times = {"one": self.one, "many": self.many, "sessions": {"continue": self.sessions}, "apart": {"": self.apart}}
        return {
            "session_bytes": round(self.session_bytes),
            **{name: {answer: at.figures() for answer, at in found.items()} for name, found in times.items()},
        }


BOUNDS = {
    # For each of `CORES`: against PicoClaw's process hook, and against the least client.
    "continue": ((1.75, 1.55, 1.65, 1.45), (1.7, 1.9, 1.6, 1.8)),
    "deny": ((1.95, 1.7, 1.85, 1.65), (1.9, 2.1, 1.8, 1.95)),
    "edit": ((2.4, 2.2, 2.4, 2.2), (2.2, 2.4, 2.2, 2.3)),
}
MANY_BOUNDS = {"continue": 0.75, "edit": 0.5}
"""For each answer, the least share of the questions a second that PicoClaw's process hook has answered."""
SESSION_BOUNDS = {
    "plain asyncio": 0.4,
    "plain uvloop": 0.4,
    "compiled asyncio": 0.4,
    "compiled uvloop": 0.4,
    "plain uvloop, collected rarely": 0.6,
    "compiled uvloop, collected rarely": 0.6,
}
CORES = ("plain asyncio", "plain uvloop", "compiled asyncio", "compiled uvloop")
EDIT = "an edit is merged into the call, validated as a whole and encoded again; neither of the others validates it"
HOST = "it has deadlines, a trail, counters and validation; the process hook alone has none of them"
SESSION = "each session is an object with its own arrangement and events; PicoClaw's process hook has no sessions"


def rows(found: Compared) -> list[Row]:
    """The figures that are held to bounds."""
    made = []
    for answer, bounds in BOUNDS.items():
        at = found.one[answer]
        why = EDIT if answer == "edit" else HOST
        for name, to_go, to_least in zip(CORES, *bounds, strict=True):
            least = f"least {name.split()[1]}"
            detail = {f"{side}_us": micros(at[side]) for side in (name, least)}
            measure = f"{answer}, {name}, against"
            if GO_HOOK in at:
                more = {"process_hook_us": micros(at[GO_HOOK])}
                made.append(
                    Row(
                        f"{measure} PicoClaw's process hook",
                        at.ratio(name, GO_HOOK),
                        must=to_go,
                        detail=detail | more,
                        why=why,
                    )
                )
            made.append(
                Row(f"{measure} the least client", at.ratio(name, least), must=to_least, detail=detail, why=why)
            )
    for answer, must in MANY_BOUNDS.items():
        why = EDIT if answer == "edit" else HOST
        made += _shares(f"{answer}, {MANY} at once", found.many[answer], dict.fromkeys(CORES, must), why)
    return made + _shares(f"{SESSIONS} sessions at once", found.sessions, SESSION_BOUNDS, SESSION)


def _shares(measure: str, at: Times, bounds: Mapping[str, float], why: str) -> list[Row]:
    if GO_HOOK not in at:
        return []
    return [
        Row(
            f"{measure}, {name}, questions a second against PicoClaw's process hook",
            at.ratio(GO_HOOK, name),
            must=must,
            more_is_better=True,
            detail={f"{side.replace(' ', '_')}_per_s": round(1 / at[side]) for side in (name, GO_HOOK)},
            why=why,
        )
        for name, must in bounds.items()
    ]


def compile_core(place: Path) -> dict[str, Path]:
    """The directories with picohook in plain Python, and with a compiled core. Raises if that cannot be compiled."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(place / "compiled"),
        str(ROOT),
    ]
    subprocess.run(pip, env={**os.environ, "PICOHOOK_COMPILE": "1"}, check=True)
    return {"plain": ROOT, "compiled": place / "compiled"}


def build_peer(checkout: Path, place: Path) -> str:
    """PicoClaw's host with the driver of this benchmark. Nothing is written into its checkout."""
    overlay, program = place / "overlay.json", place / "peer"
    driver = ROOT / "benchmarks" / "picoclaw" / "main.go"
    overlay.write_text(json.dumps({"Replace": {str(checkout.resolve() / PEER / "main.go"): str(driver)}}))
    build = ["go", "build", "-buildvcs=false", "-overlay", str(overlay), "-o", str(program), f"./{PEER}"]
    subprocess.run(build, cwd=checkout, check=True)
    return str(program)


def compare(given: Given) -> Compared:
    """Build all sides, and let them ask."""
    found = Compared()
    with tempfile.TemporaryDirectory() as name:
        cores = compile_core(Path(name))
        peer = None
        if given.peers is not None:
            peer = build_peer(given.peers, Path(name))
            git = ["git", "-C", str(given.peers), "log", "-1", "--format=%h of %cs"]
            found.peer = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
        with on_one_core():
            for answer in ANSWERS:
                with _sides(given, cores, peer, answer) as sides:
                    _compare(given, found, answer, sides)
            with _sides(given, cores, None, "", ("mcp", "process")) as sides:
                count = {"mcp": given.times(100), "process": given.times(20)}
                asked = {name: partial(_timed, side, "host", count[name]) for name, side in sides.items()}
                found.apart = anyio.run(partial(alternate, given.rounds, **asked))
    return found


async def _timed(side: Side, way: str, count: int, at_once: int = 1) -> float:
    return side.ask(way, count, at_once)


def _compare(given: Given, found: Compared, answer: str, sides: Mapping[str, Side]) -> None:
    def taking_turns(way: str, names: tuple[str, ...], turns: int, count: int, at_once: int = 1) -> Times:
        ways = {name: WAYS_OF_GO.get(name, way) for name in names if name in sides}
        timed = {name: partial(_timed, sides[name], how, count, at_once) for name, how in ways.items()}
        return anyio.run(partial(alternate, given.rounds * turns, **timed)).quiet(turns)

    for side in sides.values():
        side.ask("host", 200)  # what is made once, is made
    found.one[answer] = taking_turns("host", tuple(sides), TURNS, given.times(500))
    if answer == "deny":
        return
    if answer == "continue":
        found.session_bytes = sides["plain asyncio"].ask("open", SESSIONS)
        found.sessions = taking_turns("sessions", (*ONCE, *SESSION_BOUNDS), 3, OF_EACH * SESSIONS, SESSIONS)
    found.many[answer] = taking_turns("host", ONCE, 10, given.times(80 * MANY), MANY)


@contextmanager
def _sides(
    given: Given, cores: Mapping[str, Path], peer: str | None, answer: str, only: tuple[str, ...] = ()
) -> Iterator[dict[str, Side]]:
    """The processes of all sides, each with a hook that gives this answer."""
    hook = [given.echo, *ANSWERS.get(answer, [])]
    wanted = {name: ("plain", name) for name in only} or {"floor": ("plain", "floor"), **OURS, **LEAST}
    sides = {}
    with ExitStack() as opened:
        for name, (core, side) in wanted.items():
            # -P, and this order: picohook is the one of this core, and the benchmarks are these.
            paths = os.pathsep.join((str(cores[core]), str(ROOT)))
            command = [sys.executable, "-P", "-m", "benchmarks.side", side, *hook]
            sides[name] = Side(command, {**os.environ, "PYTHONPATH": paths})
            opened.callback(sides[name].close)
        if peer is not None:
            for name in (GO, GO_HOOK):
                sides[name] = Side([peer, *hook], os.environ)
                opened.callback(sides[name].close)
        yield sides
