"""Counts and times of hooks: `picohook run --stats`."""

from ..engine.status import HostStatus
from ..observe.metrics import QUANTILES
from . import output

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
