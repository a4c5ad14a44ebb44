"""A chain: one payload at one stage, and what its hooks make of it.

`Chain.run` is the only loop over hooks, and `Chain.ask` the only place where a hook's failure is caught.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio

from ..errors import HookTimeoutError, PicohookError
from ..hooks.base import Question
from ..model import failure_policy
from ..model.decisions import CONTINUE, Approve, Asked, Continue, Deny, Modify, Outcome, Retry
from ..model.encoded import CHANGED
from ..model.payloads import Payload
from ..model.spec import SYSTEM_SHARE
from ..model.trail import TrailEntry
from ..wire import words
from .apply_decision import apply
from .trail import entry_of, not_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..hooks.base import Hook
    from ..model.encoded import Encoded
    from ..model.payloads import ToolCall
    from ..model.stages import Stage
    from ..model.trail import OutcomeAction
    from .listener import Account
    from .part import Part
    from .seat import Seat

P = TypeVar("P", bound=Payload)

NEVER = float("inf")
NOT_WAITED_FOR = "not waited for: another approver denied"
NOT_NEEDED = "not asked: a part of the host answered"
ANSWERS_WITHIN = 5.0
"""Seconds in which a part has to answer in place of approvers."""
_PASSES = (Continue, Modify)
"""The decisions after which the next hook is asked."""


class Chain(Generic[P]):
    """One run of a stage's hooks: the payload as they have changed it so far, and the trail. It is used once.

    It knows nothing of mounting, sessions and processes: it is given seats in order, and a clock.
    """

    def __init__(
        self,
        stage: Stage[P],
        encoded: Encoded[P],
        clock: Callable[[], float],
        end: float,
        account: Account[P] | None = None,
    ) -> None:
        self.stage = stage
        self.encoded = encoded
        """The payload as the hooks so far have left it."""
        self.first = encoded.payload
        self.clock = clock
        self.end = end
        """The time at which the chain ends in any case. A person's time moves it on."""
        self.shared_end = NEVER
        """The end of the time that the system's hooks share. It is set when the first of them is asked."""
        self.account = account
        """Sees each question and answer, for listeners."""
        self.answering: Sequence[Part] = ()
        """The parts that may answer in place of approvers."""
        self.on_edit: Callable[[Hook, P, P], None] | None = None
        """Is called with the hook and the payload before and after each edit."""
        self.guards: list[tuple[Seat, P | None]] = []
        """Each guard, and the payload that it saw; None if it saw none."""
        self.trail: list[TrailEntry] = []

    async def run(self, seats: Sequence[Seat], decided: Sequence[Seat] = ()) -> Outcome[P]:
        """Ask hooks one after another, each about the payload that the one before it left. Returns the outcome.

        A hook that neither continues nor modifies ends the chain. Guards are asked again if the final payload is not the one
        they saw. `decided` are guards that saw the first payload in an earlier chain. Where there are guards, a payload that
        was changed in place meanwhile is denied. Approvers are asked all at once, and must all say yes.
        """
        if self.stage.approves:
            return await self._approve(seats)
        for seat in decided:
            self.guards.append((seat, self.first))
        for seat in seats:
            if seat.shadow:
                self.trail.append(self._beside(seat))
                continue
            seen: P | None = None
            if seat.filter is None or seat.wants(self.encoded.payload):
                asked = await self.ask(seat, self.end if seat.has_usual_end else self._end_of(seat))
                self.trail.append(asked.entry)
                if seat.waits_for_person:
                    self.end += asked.entry.duration
                if asked.encoded is not self.encoded and self.on_edit is not None:
                    self.on_edit(seat.hook, self.encoded.payload, asked.encoded.payload)
                if asked.decision is not CONTINUE and not isinstance(asked.decision, _PASSES):
                    return self.outcome(seat.name, asked)
                self.encoded = asked.encoded
                seen = asked.encoded.payload
            else:
                self.trail.append(not_asked(self.stage, seat))
            if seat.guard:
                self.guards.append((seat, seen))
        return await self._ask_guards() if self.guards else self.outcome()

    def _beside(self, seat: Seat) -> TrailEntry:
        """Ask a hook in shadow, and do not wait. Returns its entry in the trail."""
        if not seat.wants(self.encoded.payload):
            return not_asked(self.stage, seat)
        return seat.hook.beside(self.stage, self.encoded, None if self.account is None else self.account.would)

    async def ask(self, seat: Seat, end: float, final: bool = False) -> Asked[P]:  # noqa: FBT001, FBT002 - for every question
        """Ask one hook. Returns its decision and answer. If it fails, its fallback decides, or else its `on_failure`.

        Each try has the hook's timeout, and ends at `end` in any case. A later answer does not count, even if the event loop
        stood still. With `final`, the hook may no longer change the payload. The chain itself is not changed. Raises
        `EncodeError` for a payload that has no JSON form.
        """
        stage, encoded, clock, hook = self.stage, self.encoded, self.clock, seat.hook
        encoded.params()  # before the `try`: an error here is the caller's, and not the hook's
        started = begun = clock()
        retries = 0
        left, degraded = encoded, ""
        while True:
            deadline, limit = begun + seat.timeout, begun + seat.longest
            if limit > end or seat.fallback is not None:
                deadline, limit = seat.deadlines(begun, end)
            question = Question(stage, encoded, deadline, limit, begun, retries)
            error = result = failure = answer = None
            try:
                if begun >= end:
                    whose = "of the system's hooks" if seat.is_system else "for the whole chain"
                    raise HookTimeoutError(f"the time {whose} was used up before it was asked")
                if self.account is not None:
                    self.account.asking(hook, encoded)
                decision = await hook.handle(question)
                if decision is not CONTINUE or stage.approves:
                    decision, left, result, error = apply(stage, hook, encoded, decision, final)
                ended = clock()
                if ended > deadline and not (ended <= limit and hook.takes_bytes):
                    raise HookTimeoutError
            except Exception as raised:  # a hook can fail in any way; none of them may reach the agent
                if retries < hook.spec.retry and not stage.approves and clock() < end:
                    retries += 1
                    begun = clock()
                    continue
                left, result = encoded, None
                cause, why = failure, error = failure_policy.cause(raised), failure_policy.describe(raised)
                decision = failure_policy.on_failure(stage, hook.name, hook.spec.on_failure, error)
                answer = getattr(raised, "answer", None)
                if seat.fallback is not None:
                    kept = clock() + (begun + seat.timeout - deadline)
                    instead = await self.ask(seat.fallback, min(end, max(kept, begun + seat.timeout)), final)
                    if instead.entry.failure is None:
                        degraded = f"{seat.fallback.name}: {failure}"
                        decision, left, result = instead.decision, instead.encoded, instead.result
                        failure, error = None, instead.entry.error
                ended = clock()
                hook.failures.add(stage.name, cause, why, decision.action, ended)
            break
        entry = entry_of(seat.name, decision, ended - started, error, failure, retries=retries, degraded=degraded)
        seat.count(stage.name, entry, ended)
        asked = Asked(decision, left, entry, result, answer)
        if self.account is not None:
            self.account.asked(hook, encoded, asked)
        return asked

    def outcome(
        self,
        name: str = "",
        asked: Asked[P] | None = None,
        *,
        refusal: str = "",
        approved: bool | None = None,
    ) -> Outcome[P]:
        """Returns the outcome of the hook or part that ended the chain, of the host's refusal, or of all hooks.

        No other code makes one.
        """
        stage, encoded, trail = self.stage, self.encoded, tuple(self.trail)
        # By position: an object made by keywords costs twice as much.
        if asked is not None:
            decision = asked.decision
            made = Outcome(stage.name, decision.action, asked.encoded.payload, decision.reason, trail, approved)
            made.result, made.hook, made.asked_about = asked.result, name, None if stage.approves else encoded.payload
            if isinstance(decision, Retry):
                made.feedback = decision.feedback
            return made
        if refusal:
            denied: OutcomeAction = words.DENY if words.DENY in stage.actions else words.ABORT_TURN
            return Outcome(stage.name, denied, encoded.payload, refusal, trail)
        passed: OutcomeAction = words.CONTINUE if encoded.payload is self.first else words.MODIFY
        outcome = Outcome(stage.name, passed, encoded.payload, "", trail, approved)
        outcome.asked = encoded
        return outcome

    def _end_of(self, seat: Seat) -> float:
        """Returns when this hook's time ends. The system's hooks together have a share of the time that is left.

        So slow ones cannot keep other hooks from being asked, whose failure may let the call continue.
        """
        if seat.is_system:
            self.shared_end = min(self.shared_end, self.end - (self.end - self.clock()) * SYSTEM_SHARE)
            return self.shared_end
        return NEVER if seat.waits_for_person else self.end

    async def _approve(self, seats: Sequence[Seat]) -> Outcome[P]:
        """Ask all approvers at once, if their filters match. After the first denial, the others are not waited for."""
        self.trail += [self._beside(seat) for seat in seats if seat.shadow]
        seats = [seat for seat in seats if not seat.shadow]
        wanting = approvers = [seat for seat in seats if seat.wants(self.encoded.payload)]
        early = await self._early_answer(wanting) if approvers and self.answering else None
        denied = early is not None and isinstance(early.decision, Deny)
        if early is not None:
            approvers = [seat for seat in wanting if seat.guard and not denied]
        answers = await self._ask_at_once(approvers) if approvers else {}
        for seat in seats:
            if seat.name in answers:
                self.trail.append(answers[seat.name].entry)
            else:
                why = NOT_WAITED_FOR if seat in approvers else NOT_NEEDED
                left_out = TrailEntry(seat.name, "", error=why)
                self.trail.append(left_out if seat in wanting else not_asked(self.stage, seat))
        if denied and early is not None:
            return self.outcome(early.entry.hook, early, approved=False)
        for seat in approvers:
            asked = answers.get(seat.name)
            if asked is not None and not isinstance(asked.decision, Approve):
                return self.outcome(seat.name, asked, approved=False)
        approved = len(answers) == len(approvers)
        if approved and self.answering:
            self._pass_on([(seat.hook, answers[seat.name].entry) for seat in approvers])
        outcome = self.outcome(approved=approved)
        if early is not None:
            outcome.hook, outcome.reason = early.entry.hook, early.decision.reason
        return outcome

    def _pass_on(self, yeses: Sequence[tuple[Hook, TrailEntry]]) -> None:
        """Give the parts the grants of approvers, all of whom have said yes."""
        grants = [(hook, entry) for hook, entry in yeses if entry.grant is not None]
        if not grants or not self.encoded.intact:
            return
        for part in self.answering:
            try:
                part.granted(cast("ToolCall", self.encoded.deep_copy().payload), grants)
            except Exception as error:
                self.trail.append(TrailEntry(_name(part), "", 0.0, failure_policy.describe(error)))

    async def _early_answer(self, wanting: Sequence[Seat]) -> Asked[P] | None:
        """Returns the first answer of a part in place of approvers. None if no part answers about the call as it is now."""
        approvers = [seat.hook for seat in wanting if not seat.guard]
        for part in self.answering:
            began, name = self.clock(), _name(part)
            try:
                decision: Any = part.answer(cast("ToolCall", self.encoded.deep_copy().payload), approvers)
                if hasattr(decision, "__await__"):  # else without a scope, which takes a third of such a chain's time
                    with anyio.fail_after(ANSWERS_WITHIN):
                        decision = await decision
                if decision is None:
                    continue
                if not isinstance(decision, Approve | Deny):
                    raise TypeError(f"a part answers with Approve, Deny or None, not {decision!r}")
                if not self.encoded.intact:
                    raise PicohookError(CHANGED)
            except Exception as error:
                self.trail.append(TrailEntry(name, "", self.clock() - began, failure_policy.describe(error)))
                continue
            self.trail.append(entry_of(name, decision, self.clock() - began, None, None, retries=0))
            return Asked(decision, self.encoded, self.trail[-1], None, None)
        return None

    async def _ask_at_once(self, approvers: Sequence[Seat]) -> dict[str, Asked[P]]:
        """Returns the answers by hook name, without those that came after a denial."""
        self.encoded.params()  # raises the caller's mistake, a payload without a JSON form, before any approver is asked
        if len(approvers) == 1:
            return {approvers[0].name: await self.ask(approvers[0], self.end)}
        answers: dict[str, Asked[P]] = {}
        async with anyio.create_task_group() as tasks:

            async def ask_one(seat: Seat) -> None:
                asked = answers[seat.name] = await self.ask(seat, self.end)
                if not isinstance(asked.decision, Approve):
                    tasks.cancel_scope.cancel()

            for seat in approvers:
                tasks.start_soon(ask_one, seat)
        return answers

    async def _ask_guards(self) -> Outcome[P]:
        """Ask guards again if they saw another payload, the system's last, so that they cannot take the others' time."""
        for seat, seen in sorted(self.guards, key=_is_system):
            if seen is not self.encoded.payload and seat.wants(self.encoded.payload):
                asked = await self.ask(seat, NEVER if seat.waits_for_person else self.end, True)
                self.trail.append(asked.entry)
                if seat.waits_for_person:
                    self.end += asked.entry.duration
                if not isinstance(asked.decision, _PASSES):
                    return self.outcome(seat.name, asked)
        return self.outcome() if self.encoded.intact else self.outcome(refusal=CHANGED)


def _name(part: Part) -> str:
    return part.name or type(part).__name__


def _is_system(guard: tuple[Seat, object]) -> bool:
    return guard[0].is_system
