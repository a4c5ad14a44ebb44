"""Asks one hook. `ask` is the only place where a hook's failure is caught."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import HookTimeoutError
from ..hooks.base import Question
from ..model import failure_policy
from ..model.decisions import CONTINUE, Asked
from ..model.payloads import Payload
from .apply_decision import apply
from .trail import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..listeners.listener import Account
    from ..model.decisions import Decision
    from ..model.encoded import Encoded
    from ..model.stages import Stage
    from ..model.trail import TrailEntry
    from ..observe.metrics import StageMetrics
    from .seat import Seat

P = TypeVar("P", bound=Payload)

KEPT_FOR_FALLBACK = 0.25
"""The share of a hook's time that is kept for its fallback."""

Answered = tuple["Decision", "Encoded[P]", "TrailEntry", Any]
"""A hook's decision, the payload to continue with, the entry for the trail, and the decision's result."""


async def ask(  # noqa: PLR0917 - by position: it is called for every question
    stage: Stage[P],
    seat: Seat,
    encoded: Encoded[P],
    clock: Callable[[], float],
    end: float,
    account: Account[P] | None,
    final: bool = False,  # noqa: FBT001, FBT002 - likewise
) -> Answered[P]:
    """Ask one hook, and return its decision. If the hook fails, its fallback decides, or else `failure_policy.on_failure`.

    The deadline of each try is its start plus the hook's timeout, or `end` if that is earlier; with a fallback, three quarters
    of that. A later answer does not count, even if the event loop stood still. A hook that takes bytes may move its deadline
    on, up to the question's `limit`. With `final`, the hook may no longer change the payload. Raises `EncodeError` for a
    payload that has no JSON form.
    """
    hook, timeout = seat.hook, seat.timeout
    encoded.params()  # before the `try`: an error here is the caller's, and not the hook's
    started = begun = clock()
    left = encoded
    degraded = ""
    retries = 0
    while True:
        deadline = begun + timeout
        limit = begun + seat.longest
        if limit > end:
            limit = end
            deadline = deadline if deadline < end else end  # noqa: FURB136 - min() would be a fifth of what this function costs
        kept = 0.0 if seat.fallback is None else (deadline - begun) * KEPT_FOR_FALLBACK
        deadline, limit = deadline - kept, limit - kept
        question = Question(stage, encoded, deadline, limit, begun, retries)
        error = result = failure = answer = None
        try:
            if begun >= end:
                whose = "of the system's hooks" if seat.is_system else "for the whole chain"
                raise HookTimeoutError(f"the time {whose} was used up before it was asked")  # noqa: TRY301
            if account is not None:
                account.asking(hook, encoded)
            decision = await hook.handle(question)
            if decision is not CONTINUE or stage.approves:
                decision, left, result, error = apply(stage, hook, encoded, decision, final)
            ended = clock()
            if ended > deadline and not (ended <= limit and hook.takes_bytes):
                raise HookTimeoutError("no answer in time")  # noqa: TRY301 - likewise
        except Exception as raised:  # noqa: BLE001 - a hook can fail in any way; none of them may reach the agent
            if retries < hook.spec.retry and not stage.approves and clock() < end:
                retries += 1
                begun = clock()
                continue
            answer = getattr(raised, "answer", None)
            decision, left, result, error, failure, degraded = await _failed(
                stage, seat, encoded, clock, min(end, max(begun + timeout, clock() + kept)), final, raised
            )
            ended = clock()
        break
    duration = ended - started
    if (figures := seat.figures) is None:
        figures = _counters(stage, seat, error or degraded, ended)
    figures.record(duration, decision.action, failure, retries)
    if error is not None:
        seat.figures = None  # so that `_counters` sees its next answer
        hook.failures.add(stage.name, failure or "edit", error, decision.action, ended)
        figures.refused_edits += failure is None
    entry = entry_of(seat, decision, duration, error, failure, retries)
    entry.degraded = degraded
    if account is not None:
        account.asked(hook, encoded, Asked(decision, left, entry, result, answer))
    return decision, left, entry, result


async def _failed(  # noqa: PLR0917 - as `ask`
    stage: Stage[P],
    seat: Seat,
    encoded: Encoded[P],
    clock: Callable[[], float],
    end: float,
    final: bool,  # noqa: FBT001 - likewise
    raised: Exception,
) -> tuple[Decision, Encoded[P], Any, str | None, str | None, str]:
    """Let the fallback of a hook that failed decide, until `end`. Without one, or if that fails, too, the settings decide.

    Returns what `apply` makes of the decision, the kind of the failure if the settings decided, or why the fallback did.
    """
    hook, fallback, begun = seat.hook, seat.fallback, clock()
    failure, error = failure_policy.cause(raised), failure_policy.describe(raised)
    decision = failure_policy.on_failure(stage, hook.name, hook.spec.on_failure, error)
    seat.figures = None  # so that `_counters` sees its next answer
    if fallback is None or begun >= end:
        return decision, encoded, None, error, failure, ""
    by = min(end, begun + fallback.timeout)
    try:
        instead = await fallback.hook.handle(Question(stage, encoded, by, by, begun))
        decided = apply(stage, fallback.hook, encoded, instead, final)
        if clock() > by:
            raise HookTimeoutError("no answer in time")  # noqa: TRY301 - as in `ask`
    except Exception as also_raised:  # noqa: BLE001 - as in `ask`
        cause, why = failure_policy.cause(also_raised), failure_policy.describe(also_raised)
        fallback.hook.failures.add(stage.name, cause, why, decision.action, clock())
        return decision, encoded, None, error, failure, ""
    hook.metrics.stages[stage.name].degraded[failure] += 1
    hook.failures.add(stage.name, failure, error, instead.action, begun)
    return *decided, None, f"{fallback.name}: {failure}"


def _counters(stage: Stage[P], seat: Seat, problem: str | None, now: float) -> StageMetrics:
    """Returns the counters of the hook's answers. They are looked up at its first question, and after each failure."""
    figures = seat.hook.metrics.stages[stage.name]
    if not problem:
        seat.figures = figures
        seat.hook.failures.answered(stage.name, now)
    return figures
