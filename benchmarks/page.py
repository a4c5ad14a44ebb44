"""Writes the figures of a run into the documentation: the page about speed, its picture, and the table of bounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .picture import draw, shown

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "benchmarks" / "figures.json"
BOUNDS = ROOT / "benchmarks" / "bounds.md"
PAGE = ROOT / "docs" / "explanation" / "performance.md"
PICTURE = ROOT / "docs" / "pictures" / "performance.svg"
MODEL_CALL = 1e6
"""Microseconds that a model may take. This is no measurement."""
SIDES = {
    "PicoClaw's host (Go)": "go",
    "PicoClaw's process hook alone": "go hook",
    "picohook compiled, uvloop": "compiled uvloop",
    "picohook compiled, asyncio": "compiled asyncio",
    "picohook, uvloop": "plain uvloop",
    "picohook, asyncio": "plain asyncio",
    "picohook compiled, trio": "compiled trio",
    "picohook, trio": "plain trio",
    "the least asyncio client": "least asyncio",
    "a write and a read of the pipe": "floor",
}
DRAWN = tuple(SIDES)[:6]
RARELY = "picohook, uvloop, garbage collected rarely"
HEAD = """# Bounds

`make bench` holds each of these figures to a bound, so that a change that makes picohook slower is seen. It wrote this page on
{day}. The [page about speed](../docs/explanation/performance.md) has the machine and its load. {said}

A figure without a unit is a ratio, the median of its rounds. A bound is the figure of a quiet run, and a margin for the noise
of a machine that others use too.

"""


def write(figures: dict[str, Any]) -> None:
    """Renew the files with these figures."""
    text = PAGE.read_text()
    for name, table in tables(figures).items():
        begin, end = f"<!-- figures: {name} -->\n", f"<!-- /figures: {name} -->"
        text, found = re.subn(f"{begin}.*?{end}", lambda _, put=begin + table + end: put, text, flags=re.DOTALL)
        if found != 1:
            raise RuntimeError(f"{PAGE} has {begin.strip()} {found} times, not once")
    PAGE.write_text(text)
    PICTURE.write_text(picture(figures))
    BOUNDS.write_text(bounds(figures))


def picture(figures: dict[str, Any]) -> str:
    """The picture of the page."""
    one, apart = _medians(figures, "one", "continue"), _medians(figures, "apart", "")
    ours = one["plain asyncio"]
    kinds = {label: "blue" if label.startswith("picohook") else "" for label in DRAWN}
    return draw([
        ("One question to a hook", [(label, one[SIDES[label]], kinds[label]) for label in DRAWN]),
        (
            "The same by other ways",
            [
                ("picohook, asyncio", ours, "blue"),
                ("MCP's Python SDK: a tool call", apart["mcp"], ""),
                ("a process for each question (sh and Python)", apart["process"], ""),
            ],
        ),
        (
            "What it stands beside",
            [
                ("picohook, asyncio", ours, "blue"),
                ("a process for each question", apart["process"], ""),
                ("a model that answers after a second", MODEL_CALL, "amber"),
            ],
        ),
    ])  # fmt: skip


def tables(figures: dict[str, Any]) -> dict[str, str]:
    """The tables of the page, by their names."""
    return {
        "questions": _questions(figures),
        "functions": _functions(figures),
        "hold": _hold(figures),
        "between": _between(figures),
        "busy": _busy(figures),
        "machine": _machine(figures["about"]),
    }


def bounds(figures: dict[str, Any]) -> str:
    """The page of the bounds."""
    rows = [row for some in figures["rows"].values() for row in some if row["must"] is not None]
    missed = [row for row in rows if not row["is_met"]]
    table = [
        (
            row["measure"],
            f"**{_value(row)}**" if row in missed else _value(row),
            f"{'≥' if row['more_is_better'] else '≤'} {row['must']:g}",
            row["why"],
        )
        for row in rows
    ]
    said = f"{len(rows) - len(missed)} of {len(rows)} are met{', and those in bold are not' if missed else ''}."
    head = HEAD.format(day=figures["about"]["day"], said=said)
    return head + _table(("measure", "today", "bound", "why not less"), table)


def _value(row: dict[str, Any]) -> str:
    return f"{row['value']:.2f} {row['unit']}".strip()


def _medians(figures: dict[str, Any], what: str, answer: str) -> dict[str, float]:
    return {name: at["median_us"] for name, at in figures["compared"][what][answer].items()}


def _questions(figures: dict[str, Any]) -> str:
    one = {answer: _medians(figures, "one", answer) for answer in ("continue", "deny", "edit")}
    many = {answer: _medians(figures, "many", answer) for answer in ("continue", "edit")}
    rows = []
    for label, side in SIDES.items():
        times = [shown(one[answer][side]) for answer in one]
        rates = [f"{1e6 / many[answer][side]:,.0f}" if side in many[answer] else "" for answer in many]
        rows.append((label, *times, *rates))
    rows += [(label, shown(_medians(figures, "apart", "")[side]), "", "", "", "") for label, side in (
        ("MCP's Python SDK, client and server", "mcp"), ("a process for each question", "process"),
    )]  # fmt: skip
    return _table(("", "continue", "deny", "change an argument", "64 at once: continue", "64 at once: change"), rows)


def _functions(figures: dict[str, Any]) -> str:
    detail = figures["rows"]["functions"][0]["detail"]
    labels = {
        "pluggy": "pluggy calls a function",
        "coroutine": "a coroutine function as a hook",
        "plain": "a function as a hook",
    }
    return _table(("", "continue"), [(label, shown(detail[f"{name}_us"])) for name, label in labels.items()])


def _hold(figures: dict[str, Any]) -> str:
    rows = figures["rows"]
    sessions = _medians(figures, "sessions", "continue")
    kib = [
        (row["measure"], f"{row['value']:,.0f} KiB")
        for row in (*rows["memory"], *rows["processes"])
        if row["unit"] == "KiB"
    ]
    rates = [
        (f"2,000 sessions over one hook, {label}", f"{1e6 / sessions[side]:,.0f} questions a second")
        for label, side in {
            **{label: SIDES[label] for label in DRAWN},
            RARELY: "plain uvloop, collected rarely",
        }.items()
    ]
    return _table(
        ("", ""), [*kib, ("an open session", f"{figures['compared']['session_bytes'] / 1024:,.1f} KiB"), *rates]
    )


def _between(figures: dict[str, Any]) -> str:
    rows = figures["rows"]

    def detail(name: str, measure: str) -> dict[str, float]:
        row = next(row for row in rows[name] if row["measure"].startswith(measure))
        found: dict[str, float] = row["detail"]
        return found

    shim, alone = detail("shim", "a call of an agent"), detail("sidecar", "round trip through the sidecar, uvloop")
    tool, nats = detail("mcp", "a tool call of the MCP SDK"), detail("over-nats", "round trip over NATS, uvloop")
    milliseconds = 1e3
    ways = {
        "`picohook shim`: an event of Claude Code, against a Python hook of its own": (
            shim["process_ms"] * milliseconds,
            shim["shim_ms"] * milliseconds,
        ),
        "`picohook mcp`: a call by MCP's Python SDK, with a hook before and after": (
            tool["direct_us"],
            tool["picohook_us"],
        ),
        "`picohook serve`: a question through the sidecar, against embedded": (
            alone["embedded_us"],
            alone["sidecar_us"],
        ),
        "`picohook worker`: a question over NATS, against bare request and reply": (nats["bare_us"], nats["policy_us"]),
    }
    return _table(("", "without", "with", "adds"), [_added(what, *times) for what, times in ways.items()])


def _added(what: str, without: float, having: float) -> tuple[str, ...]:
    sign = "-" if having < without else ""
    return what, shown(without), shown(having), sign + shown(abs(having - without))


def _busy(figures: dict[str, Any]) -> str:
    rows = figures["rows"]["busy"]
    table = []
    for rate, late in zip(rows[::2], rows[1::2], strict=True):
        whose = rate["measure"].partition("busy loops of ")[2].partition(",")[0]
        for label, side in (
            ("the least client", "minimal"), ('`session = "shared"`', "ours"), ('`session = "own"`', "own_session"),
        ):  # fmt: skip
            table.append(
                (f"{whose}: {label}", f"{rate['detail'][f'{side}_per_s']:,}", shown(late["detail"][f"{side}_us"]))
            )
    return _table(("loops of", "questions a second", "p99"), table)


def _machine(about: dict[str, Any]) -> str:
    return _table(("", ""), [
        ("day, and how long the run took", f"{about['day']}, {about['seconds']} s"),
        ("processor", f"{about['processor']}, {about['processors']} of them"),
        ("load before and after (1 minute)", f"{about['load_before']}, {about['load_after']}"),
        ("system", about["system"]),
        ("Python, Go", f"{about['python']}, {about['go']}"),
        ("uvloop, trio, MCP's SDK", f"{about['uvloop']}, {about['trio']}, {about['mcp']}"),
        ("PicoClaw", about["picoclaw"]),
    ])  # fmt: skip


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
