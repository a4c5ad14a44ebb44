"""Counts and times of hooks: `picohook run --stats`."""

from collections.abc import Mapping
from typing import Any

from ..engine.status import HostStatus
from ..observe.metrics import QUANTILES
from . import output

_VERDICTS = {"failed": "denied only because a hook failed", "not_denied": "not denied"}
_COUNTS = {"asked": "executions", "ok": "successes", "skipped": "skipped", "retries": "retries"}
_TIMES = {"total": "total_ms", **{f"p{share * 100:.0f}": f"p{share * 100:.0f}_ms" for share in QUANTILES}}


def show(status: HostStatus) -> None:
    """Print counts, times and states for people."""
    stages = [(hook.name, stage, counts) for hook in status.hooks for stage, counts in hook.stages.items()]
    if stages:
        rows = [
            (
                name,
                stage,
                *(str(counts[key]) for key in _COUNTS.values()),
                ", ".join(f"{times} {cause}" for cause, times in counts["failures"].items()) or "0",
            )
            for name, stage, counts in stages
        ]
        output.table(("hook", "stage", *_COUNTS, "failed"), rows, numbers=_COUNTS)
        output.line()
        rows = [(name, stage, *(f"{counts[key]:.1f} ms" for key in _TIMES.values())) for name, stage, counts in stages]
        output.table(("hook", "stage", *_TIMES), rows, numbers=_TIMES)
        output.line()
    output.table(
        ("hook", "state", "restarts", "dropped events", "dropped lines"),
        (
            (hook.name, hook.state, str(max(hook.starts - 1, 0)), str(hook.dropped_events), str(hook.dropped_lines))
            for hook in status.hooks
        ),
        numbers=("restarts", "dropped events", "dropped lines"),
    )
    show_proofs(status.wire()["proof_of_life"])


def proofs(shown: Mapping[str, Any]) -> str:
    """Describes the proofs of life of a host in one line. `shown` is the JSON form of a `ProofStatus`."""
    age = shown["last_denial_age"]
    last = "no harmful call was denied yet" if age is None else f"harmful calls were last denied {ago(age)} ago"
    return "; ".join([last, *map(alarm, shown["alarms"])])


def alarm(shown: Mapping[str, Any]) -> str:
    """Describes a harmful call that was not denied. `shown` is the JSON form of a `Proof`."""
    return f"{shown['tool']} was {_VERDICTS[shown['verdict']]} ({shown['why']})"


def show_proofs(shown: Mapping[str, Any] | None) -> None:
    """Print a line about the proofs of life of a host, if it gives any."""
    if shown is not None:
        output.line()
        output.line(f"proof of life: {proofs(shown)}", style="bold red" if shown["alarms"] else "")


def ago(seconds: float) -> str:
    """A time in the past, short: `12 s`, `5 min`, `3 h`."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
