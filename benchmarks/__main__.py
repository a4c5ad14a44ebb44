"""`python -m benchmarks`: measure, and hold the figures to their bounds. With --write, write them into the documentation."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from . import (
    abandoned,
    asking,
    busy,
    chains,
    compared,
    events,
    functions,
    grants,
    mcp,
    over_nats,
    shim,
    sidecar,
    standing,
    start_stop,
    streams,
)
from .given import Given, build
from .machine import about
from .measure import Row
from .page import FIGURES, write

COMPARED = "compared"
ALL = {
    "memory": standing.memory,
    "processes": standing.processes,
    "imports": standing.imports,
    "starting": standing.starting,
    "start-stop": start_stop.start_stop,
    "sdk-start": standing.sdk_start,
    "functions": functions.functions,
    "grants": grants.grants,
    "hook-sides": asking.hook_sides,
    "among-many": asking.among_many,
    "in-flight": asking.in_flight,
    "abandoned": abandoned.abandoned,
    "chains": chains.chains,
    "sizes": chains.sizes,
    "numbers": chains.numbers,
    "events": events.events,
    "delivery": events.delivery,
    "busy": busy.busy,
    "shim": shim.shim,
    "mcp": mcp.mcp,
    "sidecar": sidecar.sidecar,
    "over-nats": over_nats.over_nats,
    "streams": streams.streams,
}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [COMPARED, *ALL]
    parser.add_argument(
        "names", nargs="*", choices=[*names, []], metavar="NAME", help=f"of {', '.join(names)}; all by default"
    )
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many rounds is taken")
    parser.add_argument("--scale", type=float, default=0.3, help="so many times the work of a round")
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="a checkout of PicoClaw, whose host is measured too; needs Go"
    )
    parser.add_argument("--write", action="store_true", help="write figures.json, bounds.md, the page and its picture")
    asked = parser.parse_args()
    if asked.write and (asked.names or asked.peers is None):
        parser.error("the page has all figures of one run: --write needs --peers, and no names")
    begun, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        programs = (build(Path(directory), name) for name in ("echo", "forward"))
        given = Given(asked.rounds, asked.scale, *programs, asked.peers)
        found, rows = None, {}
        for name in asked.names or names:
            if name == COMPARED:
                found = compared.compare(given)
                rows[name] = compared.rows(found)
            else:
                rows[name] = ALL[name](given)
            for row in rows[name]:
                show(row)
    every = [row for some in rows.values() for row in some]
    missed = [row.missed for row in every if not row.is_met]
    print(
        f"\n{time.monotonic() - begun:.0f} s, {len(every)} figures",
        *(["Missed:", *missed] if missed else []),
        sep="\n- ",
    )
    if asked.write:
        assert found is not None
        figures = {
            "about": about(asked.peers, found.peer, load, time.monotonic() - begun),
            "compared": found.figures(),
            "rows": {
                name: [{**asdict(row), "rounds": row.rounds, "is_met": row.is_met} for row in some]
                for name, some in rows.items()
            },
        }
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
        write(json.loads(FIGURES.read_text()))


def show(row: Row) -> None:
    """A line for each figure, as soon as it is there."""
    detail = ", ".join(f"{name} {value}" for name, value in row.detail.items())
    print(f"{'' if row.is_met else 'MISSED':<7} {row.measure:<90} {row.shown:>9}  {row.bound:<14} {detail}", flush=True)


main()
