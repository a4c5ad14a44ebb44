"""How hooks are asked: `run_chain` is the only loop over them, `ask` the only place where a failure is caught."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args

import anyio

from ..errors import HookReplyError, HookTimeoutError
from ..model import failure_policy
from ..model.decisions import CONTINUE, Approve, Asked, Continue, Decision, Deny, Modify, Outcome, Respond, Retry
from ..model.edits import apply_edit, restrict
from ..model.encoded import CHANGED, Encoded
from ..model.payloads import Payload, deep_copy
from ..model.spec import RespondRule
from ..model.trail import TrailEntry
from ..wire import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..hooks.base import Hook
    from ..listeners.listener import Account
    from ..model.filters import Filter
    from ..model.stages import Stage
    from ..model.trail import OutcomeAction
    from ..observe.metrics import StageMetrics

P = TypeVar("P", bound=Payload)

PROGRESS_FACTOR = 10
PROGRESS_MOST = 600.0
"""A hook that shows progress may take ten times its timeout, and so many seconds at most."""
NEVER = float("inf")


class Seat:
    """A hook's place in a stage's chain."""

    __slots__ = ("figures", "filter", "guard", "hook", "name", "patience", "timeout", "waits_for_person")

    def __init__(self, hook: Hook, timeout: float, filter: Filter | None = None) -> None:  # noqa: A002 - what it is
        self.hook = hook
        self.name = hook.name
        self.timeout = timeout
        self.patience = max(timeout, min(timeout * PROGRESS_FACTOR, PROGRESS_MOST))
        """How long it may take at most if it shows progress."""
        self.filter = filter
        self.figures: StageMetrics | None = None
        """What is counted of its answers here."""
        self.guard = hook.spec.guard
        self.waits_for_person = hook.waits_for_person

    def wants(self, payload: Payload) -> bool:
        """Whether the hook is asked about this payload."""
        return self.filter is None or self.filter.matches(payload)


_Parts: TypeAlias = tuple[Decision, Encoded[P], TrailEntry, Any]
"""The parts of an `Asked`: a chain asks too often to have an object made each time."""


async def run_chain(  # noqa: PLR0917 - by position, like all that is called for every question
    stage: Stage[P],
    seats: Sequence[Seat],
    encoded: Encoded[P],
    clock: Callable[[], float],
    budget: float,
    edited: Callable[[Hook, P, P], None] | None = None,
    account: Account[P] | None = None,
    decided: Sequence[Seat] = (),
) -> Outcome[P]:
    """Ask the hooks of a stage, and conclude.

    Interceptors are asked one after another, each about what the one before it left, until one ends the chain or the
    budget (in seconds, which do not run while a person is waited for) is used up; `edited` is told which hook changed
    what, `account` what each was asked and said. Guards are asked once more about what came out, if it is not what they
    saw; `decided` are guards that saw the payload before this chain. Where there are guards, a payload that was changed
    in place meanwhile is denied. Approvers are asked all at once, have no budget but their own timeouts, and must all say
    yes.
    """
    if stage.approves:
        return await _run_approval(stage, seats, encoded, clock, account)
    end = clock() + budget
    first = encoded.payload
    trail: list[TrailEntry] = []
    guards: list[tuple[Seat, P | None]] = []
    if decided:
        guards += [(seat, first) for seat in decided]
    for seat in seats:
        if seat.filter is None or seat.wants(encoded.payload):
            decision, left, entry, result = await ask(
                stage, seat, encoded, clock, NEVER if seat.waits_for_person else end, account
            )
            trail.append(entry)
            if seat.waits_for_person:
                end += entry.duration
            if left is not encoded and edited is not None:
                edited(seat.hook, encoded.payload, left.payload)
            if decision is not CONTINUE and not isinstance(decision, _GOES_ON):
                return _ended(stage, seat, Asked(decision, left, entry, result), trail, encoded.payload)
            encoded = left
            seen: P | None = encoded.payload
        else:
            trail.append(_not_asked(stage, seat))
            seen = None
        if seat.guard:
            guards.append((seat, seen))
    if guards:
        ended = await _ask_guards(stage, guards, encoded, clock, end, account, trail)
        if ended is not None:
            return ended
    outcome = Outcome(
        stage.name, words.CONTINUE if encoded.payload is first else words.MODIFY, encoded.payload, "", tuple(trail)
    )
    outcome.asked = encoded
    return outcome


async def _ask_guards(  # noqa: PLR0917 - likewise
    stage: Stage[P],
    guards: Sequence[tuple[Seat, P | None]],
    encoded: Encoded[P],
    clock: Callable[[], float],
    end: float,
    account: Account[P] | None,
    trail: list[TrailEntry],
) -> Outcome[P] | None:
    """Ask those again that did not see what came out. An outcome, if one of them ends the chain or nobody saw that."""
    for seat, seen in guards:
        if seen is not encoded.payload and seat.wants(encoded.payload):
            asked = Asked(*await ask(stage, seat, encoded, clock, end, account, True))
            trail.append(asked.entry)
            if not isinstance(asked.decision, _GOES_ON):
                return _ended(stage, seat, asked, trail)
    if encoded.intact:
        return None
    denied: OutcomeAction = words.DENY if words.DENY in stage.actions else words.ABORT_TURN
    return Outcome(stage.name, denied, encoded.payload, CHANGED, tuple(trail))


def _ended(
    stage: Stage[P], seat: Seat, asked: Asked[P], trail: list[TrailEntry], asked_about: P | None = None
) -> Outcome[P]:
    decision = asked.decision
    return Outcome(
        stage.name,
        decision.action,
        asked.encoded.payload,
        reason=decision.reason,
        trail=tuple(trail),
        result=asked.result,
        feedback=decision.feedback if isinstance(decision, Retry) else "",
        hook=seat.hook.name,
        asked_about=asked_about,
    )


def _not_asked(stage: Stage[P], seat: Seat) -> TrailEntry:
    seat.hook.metrics.stages[stage.name].skipped += 1
    return TrailEntry(seat.hook.name, "", skipped=True)


async def _run_approval(
    stage: Stage[P],
    seats: Sequence[Seat],
    encoded: Encoded[P],
    clock: Callable[[], float],
    account: Account[P] | None,
) -> Outcome[P]:
    approvers = [seat for seat in seats if seat.wants(encoded.payload)]
    answers = await _ask_all(stage, approvers, encoded, clock, account) if approvers else {}
    trail = []
    for seat in seats:
        if seat not in approvers:
            trail.append(_not_asked(stage, seat))
        elif seat.name in answers:
            trail.append(answers[seat.name].entry)
        else:
            trail.append(TrailEntry(seat.hook.name, "", error="not waited for: another approver said no"))
    for seat in approvers:
        said = answers.get(seat.name)
        if said is not None and not isinstance(said.decision, Approve):
            return replace(_ended(stage, seat, said, trail), action=words.DENY, approved=False)
    approved = len(answers) == len(approvers)
    outcome = Outcome(stage.name, words.CONTINUE, encoded.payload, trail=tuple(trail), approved=approved)
    outcome.asked = encoded
    return outcome


async def _ask_all(
    stage: Stage[P],
    approvers: Sequence[Seat],
    encoded: Encoded[P],
    clock: Callable[[], float],
    account: Account[P] | None,
) -> dict[str, Asked[P]]:
    """What they answered, by their names; one who says no ends the waiting for the others."""

    async def one(seat: Seat) -> Asked[P]:
        return Asked(*await ask(stage, seat, encoded, clock, NEVER, account))

    encoded.params()  # a payload that is no JSON is the caller's mistake, raised before anybody is asked
    if len(approvers) == 1:
        return {approvers[0].name: await one(approvers[0])}
    answers: dict[str, Asked[P]] = {}
    async with anyio.create_task_group() as tasks:

        async def one_of_many(seat: Seat) -> None:
            asked = answers[seat.name] = await one(seat)
            if not isinstance(asked.decision, Approve):
                tasks.cancel_scope.cancel()

        for seat in approvers:
            tasks.start_soon(one_of_many, seat)
    return answers


async def ask(  # noqa: C901, PLR0912, PLR0917 - likewise
    stage: Stage[P],
    seat: Seat,
    encoded: Encoded[P],
    clock: Callable[[], float],
    end: float,
    account: Account[P] | None,
    final: bool = False,  # noqa: FBT001, FBT002 - likewise
) -> _Parts[P]:
    """Ask one hook, by one absolute deadline a try. It always comes to a decision.

    Only the caller's own mistake is raised, before the hook is asked: `EncodeError`, for a payload that is no JSON. `final`:
    the hook may say what it thinks of the payload, and not change it.
    """
    hook, timeout = seat.hook, seat.timeout
    encoded.params()  # made here at the latest, so that what a hook raises is the hook's failure
    started = begun = clock()
    left = encoded
    retries = 0
    while True:
        deadline = begun + timeout
        limit = begun + seat.patience
        if limit > end:
            limit = end
            if deadline > end:  # noqa: PLR1730 - min() would be a fifth of what this function costs
                deadline = end
        error = result = cause = answer = None
        try:
            if begun >= end:
                raise HookTimeoutError("the time for the whole chain was used up before it was asked")  # noqa: TRY301
            if account is not None:
                account.asking(hook, encoded)
            decision = await hook.put_parts(stage, encoded, deadline, limit, begun)
            if decision is not CONTINUE or stage.approves:
                decision, left, result, error = _take(stage, hook, encoded, decision, final=final)
        except Exception as failure:  # noqa: BLE001 - a hook can fail in any way; none of them may reach the agent
            if retries < hook.spec.retry and not stage.approves and clock() < end:
                retries += 1
                begun = clock()
                continue
            cause, error = failure_policy.cause(failure), failure_policy.describe(failure)
            answer = getattr(failure, "answer", None)
            decision = failure_policy.on_failure(stage, hook.name, hook.spec.on_failure, error)
        break
    duration = clock() - started
    if (figures := seat.figures) is None:
        figures = _counted(stage, seat, error, started + duration)
    figures.record(duration, cause, retries)
    # By position, here and in all that is made for every question: an object made by keywords costs twice as much.
    if decision is CONTINUE and error is None and not retries:
        entry = TrailEntry(seat.name, words.CONTINUE, duration)  # as nearly always
    else:
        if error is not None:
            seat.figures = None  # so that it is noticed when it answers again
            hook.failures.add(stage.name, cause or "edit", error, decision.action, started + duration)
        said = "" if cause else decision.reason
        entry = TrailEntry(seat.name, decision.action, duration, error, decision.notes, retries, said, cause)
    if account is not None:
        account.asked(hook, encoded, Asked(decision, left, entry, result, answer))
    return decision, left, entry, result


def _counted(stage: Stage[P], seat: Seat, error: str | None, now: float) -> StageMetrics:
    """What counts its answers: looked up at its first question, and again after each failure, which may be over now."""
    seat.figures = seat.hook.metrics.stages[stage.name]
    if error is None:
        seat.hook.failures.answered(stage.name, now)
    return seat.figures


def _take(
    stage: Stage[P], hook: Hook, encoded: Encoded[P], decision: Decision, *, final: bool
) -> tuple[Decision, Encoded[P], Any, str | None]:
    """The decision as the host has it, and what `_apply` makes of it."""
    if not hook.takes_bytes:
        decision = deep_copy(decision)  # the hook may keep what it returned, and change it
    return decision, *_apply(stage, hook, encoded, decision, final=final)


def _apply(
    stage: Stage[P], hook: Hook, encoded: Encoded[P], decision: Decision, *, final: bool
) -> tuple[Encoded[P], Any, str | None]:
    """What a decision makes of the payload, the result that it gives, and what of it was not allowed."""
    allowed = isinstance(decision, Approve | Deny) if stage.approves else isinstance(decision, _OF_INTERCEPTORS)
    if not allowed or not (stage.approves or decision.action in stage.actions):
        raise HookReplyError(f"{type(decision).__name__} is no answer at {stage.name}")
    if isinstance(decision, Respond) and hook.spec.respond is RespondRule.FORBID:
        raise HookReplyError("it answered by itself, and its `respond` is forbid")
    payload = encoded.payload
    if isinstance(decision, Deny) and decision.result is not None and stage.result is not None:
        return encoded, stage.result(payload, decision.result), None
    if not isinstance(decision, Modify | Respond | Retry):
        return encoded, None, None
    patch = decision.patch if isinstance(decision, Modify) else None
    edited, refused = restrict(payload, apply_edit(stage, payload, decision.changes, patch), hook.spec.may_edit)
    if edited is not payload:
        if final:
            raise HookReplyError("a guard that is asked again may no longer change the call")
        encoded = Encoded(edited)
        if hook.in_process:
            encoded.params()  # a process cannot say what is no JSON; a function can, and it is its failure
    if isinstance(decision, Retry) and not decision.feedback and edited is payload:
        raise HookReplyError("it asked for another round, and said nothing that would make it another one")
    result = None
    if isinstance(decision, Respond):
        assert stage.result is not None
        result = stage.result(edited, decision.result)
    return encoded, result, f"it may not edit {', '.join(refused)}: left as it was" if refused else None


_GOES_ON = (Continue, Modify)
_OF_INTERCEPTORS = tuple(kind for kind in get_args(Decision) if kind is not Approve)
