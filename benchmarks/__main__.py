"""`python -m benchmarks`: measure, print the table, write it as JSON, draw it."""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from dataclasses import asdict
from pathlib import Path

from . import (
    abandoned,
    asking,
    busy,
    chains,
    compiled,
    events,
    mcp,
    over_nats,
    peers,
    shim,
    sidecar,
    standing,
    start_stop,
    streams,
)
from .chart import draw
from .given import Given, build
from .measure import Row
from .page import renew

ALL = {
    "round-trips": asking.round_trips,
    "answers": asking.answers,
    "fresh-meta": asking.fresh_meta,
    "throughput": asking.throughput,
    "compiled": compiled.compiled,
    "chains": chains.chains,
    "events": events.events,
    "delivery": events.delivery,
    "among-many": asking.among_many,
    "memory": standing.memory,
    "imports": standing.imports,
    "starting": standing.starting,
    "start-stop": start_stop.start_stop,
    "hook-sides": asking.hook_sides,
    "sdk-start": standing.sdk_start,
    "sizes": chains.sizes,
    "numbers": chains.numbers,
    "in-flight": asking.in_flight,
    "busy": busy.busy,
    "abandoned": abandoned.abandoned,
    "peers": peers.peers,
    "sidecar": sidecar.sidecar,
    "mcp": mcp.mcp,
    "shim": shim.shim,
    "streams": streams.streams,
    "over-nats": over_nats.over_nats,
}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*ALL, []], metavar="NAME", help=f"of {', '.join(ALL)}; all by default"
    )
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many rounds is taken")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the work of a round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw them there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="renew the table in this page")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        given = Given(asked.rounds, asked.scale, *(build(Path(directory), name) for name in ("echo", "forward")))
        rows: list[Row] = []
        for name in asked.names or ALL:
            for row in ALL[name](given):
                show(row)
                rows.append(row)
    missed = [row.missed for row in rows if row.missed]
    if missed:
        print("\nMissed:", *missed, sep="\n- ")
    if asked.json:
        about = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        figures = [{**asdict(row), "rounds": row.rounds, "verdict": row.verdict} for row in rows]
        asked.json.write_text(json.dumps({"about": about, "rows": figures}, indent=2) + "\n")
    if asked.svg:
        asked.svg.write_text(draw(rows))
    if asked.page:
        renew(asked.page, rows)


def show(row: Row) -> None:
    """A line of the table, as soon as it is there."""
    bounds = "" if row.must is None else f"must {row.must:g}" + ("" if row.aim is None else f", aim {row.aim:g}")
    detail = ", ".join(f"{name} {value}" for name, value in row.detail.items())
    print(
        f"{row.number:>3}  {row.measure:<78} {row.value:8.2f} {row.unit:<4} {row.verdict:<7} {bounds:<20} {detail}",
        flush=True,
    )


main()
